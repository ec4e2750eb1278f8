# `make demo` and `make test` are all a newcomer needs. Both make the environment in .venv, once, and are quick afterwards.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?=
MINUTES ?= 60
SEED ?= 0
ENGINE ?= lancedb

# A thread a worker: no waiting on one another. The tests start many processes: each file is compiled once for all.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal
# New random examples with every commit, the same in every run of it.
EXAMPLES_SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=8 HEAD 2>/dev/null || echo 0))
QUICK := eval,fast,elasticsearch,serve,langchain,llama-index,haystack,dev

.PHONY: check test test-all test-slow test-versions demo docs faults histories install lint fix release bench elasticsearch clean

demo: $(VENV)/.core  ## compare the quick methods on a small made-up world
	@$(BIN)/ragindex demo
	@echo "The command is $(BIN)/ragindex; after 'source $(BIN)/activate' it is just ragindex."

check: lint  ## lint, types and unit tests, after every change; types alone take minutes the first time
	@$(PYTEST) tests/unit

test: $(VENV)/.test  ## what must hold before a change is proposed
	@$(PYTEST) -m "not slow"

test-slow: $(VENV)/.all  ## what `make test` leaves out: killed nodes and processes, torch, histories, and new random examples
	@RANDOM_EXAMPLES=1 $(PYTEST) -m "slow or property" --durations=30 --hypothesis-seed=$(EXAMPLES_SEED)

test-all: test test-slow  ## everything

test-versions: $(BIN)/uv  ## unit and contract tests with the lowest allowed versions, and on each Python that is here
	@bash .ci/versions

lint: $(VENV)/.test  ## style, words, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@PYTHONPATH=tests/support $(BIN)/python -m retired_words
	@$(BIN)/mypy
	@found=$$($(BIN)/lint-imports) && echo "$$found" | tail -1 || { echo "$$found"; exit 1; }

docs: $(VENV)/.all  ## the documentation as a site with search, in build/site; a link that leads nowhere fails
	@$(BIN)/python docs/make_site.py

install: $(VENV)/.all  ## everything, for development

fix: $(VENV)/.test  ## format, and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

release: $(VENV)/.test  ## wheel and sdist in dist/, checked and tried in environments of their own; nothing is uploaded
	@bash .ci/release

bench: $(VENV)/.all  ## speed, scale and, with DATA=folder of a data set with questions, quality; takes minutes
	@$(BIN)/python -W ignore -m benchmarks.flat $(DATA)
	@$(BIN)/python -W ignore -m benchmarks.scale build/scale --sizes 10000 100000
	@if [ -n "$(DATA)" ]; then $(BIN)/python -W ignore -m benchmarks.quality $(DATA); fi

faults: $(VENV)/.all  ## kill, pause and bring back real Elasticsearch nodes, as `make test-slow` does among all else
	@$(BIN)/python -m pytest -q -m faults

histories: $(VENV)/.test  ## random histories of an index for MINUTES, on two processes, into histories.jsonl; goes on where it stopped
	@for part in 0 1; do PYTHONPATH=tests/support OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -W ignore -m histories \
		--engine "$(ENGINE)" --seed $$(($(SEED) + $$part)) --step 2 --minutes $(MINUTES) --state histories.jsonl & done; wait

elasticsearch: $(VENV)/.test  ## a real Elasticsearch on this machine, until it is interrupted; the tests start their own
	@PYTHONPATH=tests/support $(BIN)/python tests/support/elasticsearch_node/node.py

clean:
	rm -rf $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/uv
	@echo "installing ragindex ..."
	@$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python -e '.[eval]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/uv
	@echo "installing what the tests need ..."
	@$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python -e '.[$(QUICK)]'
	@touch $@ $(VENV)/.core

$(VENV)/.all: pyproject.toml | $(BIN)/uv
	@echo "installing everything for development, torch too ..."
	@$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python -e '.[$(QUICK),neural,umap,dask,dspy,dev-torch,docs]'
	@touch $@ $(VENV)/.core $(VENV)/.test

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "ragindex needs Python 3.11 or later; name one: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv
