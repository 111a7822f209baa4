# Everything a person or CI runs. `make help` lists the targets; each does its own set-up.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest
GENERATED := crds docs charts deploy/install.yaml deploy/argocd/argocd-cm.yaml
SAMPLE ?= deploy/samples/iris.yaml

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

.PHONY: setup
setup: $(STAMP) ## Make .venv with the exact versions of requirements.lock

$(STAMP): requirements.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; none was found on PATH." >&2; exit 1; }
	@if [ ! -x $(BIN)/python ]; then $(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "The venv module does not work; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }; fi
	@echo "Installing the locked dependencies into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@touch $(STAMP)

.PHONY: demo
demo: $(STAMP) ## Run a sample job on a real control plane and a simulated Brev: make demo [SAMPLE=file.yaml]
	@$(BIN)/python -m controller.sandbox demo --sample $(SAMPLE)

.PHONY: sandbox
sandbox: $(STAMP) ## Keep control plane, simulator and operator running and print the exports for kubectl
	@$(BIN)/python -m controller.sandbox up

.PHONY: generate
generate: tools ## Regenerate what is derived: CRDs, reference pages, roles, the chart's and the rendered files
	@$(BIN)/python -m controller.api.crdgen
	@$(BIN)/python -m controller.settings --markdown > docs/reference/settings.md
	@$(BIN)/python -m controller.metrics --markdown > docs/reference/metrics.md
	@$(BIN)/python -m controller.brev.capabilities --markdown > docs/reference/cli.md
	@$(BIN)/python -m tests.chart.generate

.PHONY: check
check: tools ## Lint, types, layers, sizes, and that generated files are current
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/sizes.py
	@$(MAKE) --no-print-directory generate
	git diff --exit-code -- $(GENERATED)
	@test -z "$$(git status --porcelain -- $(GENERATED))" || { git status --short -- $(GENERATED); exit 1; }

.PHONY: format
format: $(STAMP) ## Apply the formatter and the safe fixes of the linter
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: control-plane
control-plane: $(STAMP) ## Find or build etcd, kube-apiserver, kube-controller-manager and kubectl
	@$(BIN)/python -m controller.sandbox.controlplane build

.PHONY: tools
tools: $(STAMP) ## Find or build helm and a Lua interpreter
	@$(BIN)/python -m controller.sandbox.tools

.PHONY: test
test: control-plane tools ## Every lane, bounded
	$(PYTEST) tests/unit tests/contract tests/chart -n $(JOBS) --dist loadfile -m "not full"
	$(PYTEST) tests/integration -n $(JOBS) --dist loadfile -m "not full"
	$(PYTEST) tests/e2e -m "not full"

.PHONY: test-all
test-all: control-plane tools ## Every lane, complete
	$(PYTEST) tests/unit tests/contract tests/chart -n $(JOBS) --dist loadfile
	$(PYTEST) tests/integration -n $(JOBS) --dist loadfile
	$(PYTEST) tests/e2e

.PHONY: test-unit
test-unit: $(STAMP) ## Unit tests only
	$(PYTEST) tests/unit -n $(JOBS) --dist loadfile

.PHONY: test-contract
test-contract: $(STAMP) ## The contract of the brev CLI, against the simulator's executable or BREV_CLI=/path/to/brev
	$(PYTEST) tests/contract -n $(JOBS) --dist loadfile

.PHONY: test-integration
test-integration: control-plane ## Tests on the real control plane
	$(PYTEST) tests/integration -n $(JOBS) --dist loadfile

.PHONY: bench
bench: control-plane ## Measure what docs/design/benchmarks.md shows
	$(BIN)/python -m tests.perf

.PHONY: lock
lock: $(STAMP) ## Resolve pyproject.toml anew into requirements.lock and requirements-runtime.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(VENV)/uv uv
	PYTHONPATH=$(VENV)/uv $(BIN)/python -m uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
	  --generate-hashes --no-header --quiet --output-file requirements.lock
	PYTHONPATH=$(VENV)/uv $(BIN)/python -m uv pip compile pyproject.toml --constraint requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-header --quiet --output-file requirements-runtime.lock

.PHONY: clean
clean: ## Remove .venv and caches of this checkout; the control plane's cache stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
