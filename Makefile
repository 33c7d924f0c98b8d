# Every target makes its own environment in .venv and installs what it needs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test browser lint bench bench-peers soak clean

demo: $(READY)  ## collector, simulated fleet and dashboard on this machine: truth beside estimates
	@$(BIN)/tacit demo $(ARGS)

test: $(READY) browser lint  ## everything that must hold, in under ten minutes
	$(BIN)/pytest -m "not soak" -n auto --dist worksteal $(ARGS)

browser:  # the dashboard is tested in a real Chromium; without one those tests are skipped and say so
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing chromium for the browser tests ..." && \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } || \
		echo "No Chromium here, so the browser tests will be skipped."

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## figures as ratios, taken in one run
	$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(READY)  ## tacit beside other libraries, in an environment of their own
	$(BIN)/python benchmarks/peers/run.py $(ARGS)

soak: $(READY)  ## long statistical runs, by hand
	$(BIN)/pytest -m soak $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "tacit needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dev --editable '.[all]'
	@touch $@
