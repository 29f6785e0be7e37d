# Development tasks. Each uses .venv, which `make setup` makes; PYTHON=python3.12 chooses another interpreter for it.

PYTHON ?= python3
BIN = .venv/bin
PYTEST = $(BIN)/python -m pytest

.DEFAULT_GOAL = help

.PHONY: help setup build test quick search durations lint docs bench record sanitize checked clean

help:  ## List the tasks
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

$(BIN)/rdmodel:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e '.[test]'

setup: $(BIN)/rdmodel  ## Make .venv with the package in place, its tests and its compiler

build: setup  ## Compile the modules that changed, in place
	$(BIN)/python setup.py -q build_ext --inplace

test: build  ## Run all tests, as continuous integration does
	$(PYTEST)

quick: build  ## Run the tests that need neither a build nor records, in under a minute
	$(PYTEST) -m "not slow and not build and not style"

search: build  ## Run the tests that search for counterexamples, with 400 examples each
	$(PYTEST) --hypothesis-profile=many -m hypothesis

durations: build  ## Measure all tests, and renew the list of those that `quick` leaves out
	$(PYTEST) --junitxml=build/durations.xml
	$(BIN)/python -m tests.support.durations build/durations.xml

lint: setup  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy

docs: build  ## Renew the outputs in the pages, and build the site in docs/_build/html
	$(BIN)/python docs/refresh.py
	$(BIN)/python docs/notebooks.py
	$(BIN)/python -m sphinx -W -b html docs docs/_build/html

bench: build  ## Measure speed, as ratios within one run
	$(BIN)/python benchmarks/predict.py
	$(BIN)/python benchmarks/simulate.py

record: build  ## Compare new results with the recorded ones: golden values, model against simulator
	$(BIN)/python -m validation.golden
	$(BIN)/python -m validation.simulator --check

checked: setup  ## Run all tests on modules with bounds checks and assertions
	RDMODEL_CHECKED=1 $(BIN)/python setup.py -q build_ext --inplace --force
	$(PYTEST) -m "not build and not style"
	$(BIN)/python setup.py -q build_ext --inplace --force

# The sanitizer opens libraries in the place of their openers, so that the CUDA compiler needs the path of its parts.
# Without psutil, joblib calls pgrep to end processes, which hangs under the sanitizer.
sanitize: setup  ## Run all tests on modules that AddressSanitizer and UBSan watch; about half an hour
	$(BIN)/pip install -q psutil
	RDMODEL_SANITIZE=1 $(BIN)/python setup.py -q build_ext --inplace --force
	LD_LIBRARY_PATH="$$(echo $(CURDIR)/.venv/lib/python3*/site-packages/nvidia/*/lib | tr ' ' ':')" \
	    LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0:handle_sigbus=0 \
	    UBSAN_OPTIONS=halt_on_error=1 $(PYTEST) -m "not build and not style"
	$(BIN)/python setup.py -q build_ext --inplace --force

clean:  ## Remove what a build leaves behind
	rm -rf build dist *.egg-info docs/_build
	find rdmodel tracegen -name '*.so' -delete -o -name '*.c' -delete
