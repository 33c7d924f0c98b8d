# Every target makes its own environment in .venv and installs what it needs.

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
MINIMAL := .venv-minimal
# Tests wait for servers, clocks and disks, so one more at a time than there are cores.
WORKERS := $(shell expr `getconf _NPROCESSORS_ONLN` + 1)
PIP     := -m pip install --quiet --disable-pip-version-check
HOUSES  := device collector lake lab otel paper
INSTALL := --group dev --editable device --editable 'collector[arrow,postgres]' --editable 'lake[spark]' --editable lab \
	--editable 'otel[agent]' --editable paper

# The tests start Python hundreds of times and pytest rewrites their assertions: both are compiled once.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test fast-tests $(HOUSES:%=test-%) test-device-js browser compiled-tests proofs coq lint style types docs docs-links reproduce bench bench-peers scale soak test-minimal lock-minimal test-versions audit-dependencies release-check clean

demo: $(READY)  ## collector, simulated fleet and dashboard on this machine: truth beside estimates
	@$(BIN)/reticent demo $(ARGS)

test: $(READY) browser style  ## everything that must hold, in about eight minutes
	@$(MAKE) --no-print-directory -j2 types fast-tests

fast-tests: $(READY) compiled-tests
	$(BIN)/pytest -m "not soak" -n $(WORKERS) --dist worksteal $(ARGS)

$(HOUSES:%=test-%): test-%: $(READY)  ## the tests of one house, such as test-device
	$(BIN)/pytest -m "not soak" -n $(WORKERS) --dist worksteal $* $(ARGS)

test-device-js: $(READY)  ## the tests of the JavaScript device
	$(BIN)/pytest -m "not soak" -n $(WORKERS) --dist worksteal device-js tests/javascript $(ARGS)

browser:  # the dashboard is tested in a real Chromium; without one those tests are skipped and say so
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing chromium for the browser tests ..." && \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core xvfb >/dev/null; } || \
		echo "No Chromium here, so the browser tests will be skipped."
	@command -v node >/dev/null || echo "No Node here, so the tests of the JavaScript device will be skipped."

compiled-tests: $(READY)  # once, instead of by each worker; the run itself tells of errors
	@$(BIN)/pytest --collect-only -qq $(ARGS) >/dev/null 2>&1 || true

proofs: $(READY) coq  ## the theorems and the certificates of the example plans, checked by Coq; ARGS=--verify in CI
	@$(BIN)/python tools/check_proofs.py $(ARGS)

coq:
	@command -v coqc >/dev/null 2>&1 || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing Coq ..." && \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends coq >/dev/null; } || true

lint: style types

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  # beside the tests, which often wait
	$(BIN)/mypy
	@MYPYPATH=tools $(BIN)/mypy --config-file= --strict tools/*.py

docs: $(READY)  ## the site, in build/site; a warning is an error
	@$(BIN)/python $(PIP) --constraint constraints.txt --group docs
	$(BIN)/sphinx-build -W --keep-going -n -q -c docs . build/site -d build/doctrees
	@echo "Open build/site/index.html"

docs-links: docs  ## links to other sites; needs a network
	$(BIN)/sphinx-build -b linkcheck -q -c docs . build/links -d build/doctrees

bench: $(READY)  ## figures as ratios, taken in one run
	$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(READY)  ## reticent beside other libraries, in an environment of their own
	$(BIN)/python benchmarks/peers/run.py $(ARGS)

reproduce: $(READY)  ## the experiments of the paper, in build/reproduction; ARGS="fig4 --out fig4" for one
	@$(BIN)/python -m reticent_paper $(or $(ARGS),all --out build/reproduction)

scale: $(READY)  ## 100 million reports through relay, collector and lake, sealed by DuckDB and Spark; within an hour
	$(BIN)/python -m benchmarks.whole $(ARGS)

soak: $(READY)  ## long statistical, fault and load runs, by hand
	$(BIN)/pytest -m soak --timeout 7200 $(ARGS)

test-minimal: $(MINIMAL)/.ready browser  ## the fast tests with the oldest versions that the houses allow
	$(MINIMAL)/bin/pytest -m "not soak" -n $(WORKERS) --dist worksteal $(ARGS)

test-versions: $(READY)  ## other versions of OpenTelemetry and PySpark; ARGS="spark-3.5" for one
	$(BIN)/python tools/test_versions.py $(ARGS)

lock-minimal:  ## those oldest versions, found again after a bound has changed
	$(PYTHON) tools/lock_minimal.py

audit-dependencies:  ## known vulnerabilities in the pinned versions; asks pypi.org
	@$(PYTHON) tools/audit_dependencies.py

release-check:  ## build, install and try the packages that would be released; ARGS=--quick leaves out the tests
	@$(PYTHON) tools/release_check.py $(ARGS)

clean:
	rm -rf $(VENV) $(MINIMAL) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt $(HOUSES:%=%/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "reticent needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) --constraint constraints.txt --upgrade pip
	@$(BIN)/python $(PIP) --no-compile --constraint constraints.txt $(INSTALL)
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true  # on all cores; pip would take one
	@touch $@

$(MINIMAL)/.ready: pyproject.toml constraints-minimal.txt $(HOUSES:%=%/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "The oldest versions are those for Python 3.11; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(MINIMAL) (once) ..."
	@$(PYTHON) -m venv --clear $(MINIMAL)
	@$(MINIMAL)/bin/python $(PIP) --constraint constraints.txt --upgrade pip
	@$(MINIMAL)/bin/python $(PIP) --constraint constraints-minimal.txt $(INSTALL)
	@touch $@
