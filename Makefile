# Every target makes its own environment in .venv and installs what it needs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test lint bench soak clean

demo: $(READY)  ## a small fleet in one process: truth beside estimates, round by round
	@$(BIN)/tacit demo $(ARGS)

test: $(READY) lint  ## everything that must hold, in under ten minutes
	$(BIN)/pytest -m "not soak" $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)  ## figures as ratios, taken in one run
	$(BIN)/python -m benchmarks $(ARGS)

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
