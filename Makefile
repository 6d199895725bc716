# `make demo` and `make test` start from nothing: each does the set-up it needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup model database engine demo test check bench field clean anew
.NOTPARALLEL:  # several targets may install packages, and apt allows one at a time
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
SYNCED := .venv/.synced
PYTEST := tests/scratch.sh $(BIN)/pytest --dist loadfile --no-loadscope-reorder -q

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(SYNCED) model database engine  ## Bring environment, embedding model, Docker engine and base image up to date

demo: $(SYNCED) engine  ## See a run end to end on a small repository with a failing test
	@$(BIN)/harness demo

test: setup  ## Run every test, with real containers, Prefect and a browser
	@tests/install_services.sh
	$(PYTEST) -n 4

check: setup  ## Format, lint, types, floors and the fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -n 3 -m "not docker and not prefect and not browser"

field: setup  ## Run fix-tests on real projects that are fetched for it
	@$(BIN)/python -m benchmarks.field

bench: setup  ## Print the figures, each as a ratio, quiet and loaded, and write docs/why/figures.md
	@$(BIN)/python -m benchmarks.run --loaded --write docs/why/figures.md

clean:  ## Remove the environment and caches; engine, images and runs stay
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -prune -exec rm -rf {} +

model: $(SYNCED)
	@$(BIN)/python -m providers.minilm

database: $(SYNCED)
	@$(BIN)/python -m flows.host.new_database

engine: $(SYNCED)
	@sandbox/install_engine.sh $(BIN)/python
	@$(BIN)/harness sandbox build > /dev/null

# uv uses the index that pip is configured with, which it does not look up by itself.
INDEX = $(or $(PIP_INDEX_URL),$(shell $(BIN)/python -m pip config get global.index-url 2> /dev/null))
# Certificates of the system count, as they do for pip: a company may have its own.
UV_ENV = UV_SYSTEM_CERTS=1 $(if $(INDEX),UV_DEFAULT_INDEX=$(INDEX)) VIRTUAL_ENV=$(CURDIR)/.venv

# An environment without pip belongs to another Python, or its creation was interrupted.
WHOLE := $(shell $(BIN)/python -c 'import pip' 2> /dev/null && echo yes)

$(SYNCED): requirements.lock pyproject.toml $(if $(WHOLE),,anew) | $(BIN)/python
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes \
	  -r <(sed -n '/^uv==/,/[^\]$$/p' requirements.lock)
	@$(UV_ENV) $(BIN)/uv pip sync --quiet --require-hashes requirements.lock
	@$(UV_ENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(BIN)/python: $(if $(WHOLE),,anew)
	@for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	  $$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null \
	  && echo "making .venv with $$($$python --version)" && exec $$python -m venv --clear .venv; \
	done; \
	echo "harness: needs Python 3.11 or newer with venv (Debian: apt-get install python3-venv)" >&2; \
	exit 3
