# `make demo` and `make test` are all a newcomer needs. Both make the environment in .venv, once, and are quick afterwards.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?=
MINUTES ?= 60
SEED ?= 0
ENGINE ?= lancedb

# A thread a worker: no waiting on one another.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal
# Tests of plain functions: no encoder, no server, no process.
UNIT := $(addprefix tests/eval/,metrics stats report/test_plots.py) $(addprefix tests/ragindex/,corpus llm/rules llm/test_parse_output.py \
	plugins/test_specs.py plugins/test_strict_models.py retrieval/test_fusion.py retrieval/test_trace.py test_distribution.py test_text_analysis.py)

.PHONY: check test test-all demo faults histories install lint fix bench elasticsearch clean

demo: $(VENV)/.core  ## compare the quick methods on a small made-up world
	@$(BIN)/ragindex demo
	@echo "The command is $(BIN)/ragindex; after 'source $(BIN)/activate' it is just ragindex."

check: $(VENV)/.all lint  ## lint, types and unit tests, after every change; types alone take minutes the first time
	@$(PYTEST) -m "not slow" $(UNIT)

test: $(VENV)/.all lint  ## what must hold before a change is proposed
	@$(PYTEST) -m "not slow"

test-all: $(VENV)/.all lint  ## everything: nodes and processes that are killed, clean environments, histories; an hour at most
	@$(PYTEST) --durations=30

lint: $(VENV)/.all
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@found=$$($(BIN)/lint-imports) && echo "$$found" | tail -1 || { echo "$$found"; exit 1; }

install: $(VENV)/.all  ## everything, for development

fix: $(VENV)/.all  ## format, and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(VENV)/.all  ## speed, scale and, with DATA=folder of a data set with questions, quality; takes minutes
	@$(BIN)/python -W ignore -m benchmarks.flat $(DATA)
	@$(BIN)/python -W ignore -m benchmarks.scale
	@if [ -n "$(DATA)" ]; then $(BIN)/python -W ignore -m benchmarks.quality $(DATA); fi

faults: $(VENV)/.all  ## kill, pause and bring back real Elasticsearch nodes, as `make test-all` does among all else
	@$(BIN)/python -m pytest -q -m faults

histories: $(VENV)/.all  ## random histories of a workspace for MINUTES, on two processes, into histories.jsonl; goes on where it stopped
	@for part in 0 1; do PYTHONPATH=tests/support OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -W ignore -m histories \
		--engine "$(ENGINE)" --seed $$(($(SEED) + $$part)) --step 2 --minutes $(MINUTES) --state histories.jsonl & done; wait

elasticsearch: $(VENV)/.all  ## a real Elasticsearch on this machine, until it is interrupted; the tests start their own
	@$(BIN)/python tests/support/elasticsearch_node/node.py

clean:
	rm -rf $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/uv
	@echo "installing ragindex ..."
	@$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python -e '.[eval]'
	@touch $@

$(VENV)/.all: pyproject.toml | $(BIN)/uv
	@echo "installing everything for development ..."
	@$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python -e '.[eval,neural,elasticsearch,office,serve,langchain,llama-index,haystack,dspy,dev]'
	@touch $@ $(VENV)/.core

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "ragindex needs Python 3.11 or later; name one: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv
