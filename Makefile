# Every target sets up what it needs: `make demo` and `make test` are all that a newcomer has to know.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.DEFAULT_GOAL := help

.PHONY: help demo test lint format bench chaos lock rules chart uninstall clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/run ## Simulate a cluster and watch the whole path (ARGS=--keep leaves it running for kubectl)
	@$(BIN)/python -m cli.main demo $(ARGS)

test: $(VENV)/dev ## Run the tests, against the embedded API server and a real one (ARGS go to pytest)
	$(BIN)/python -m pytest -n logical $(ARGS)

lint: $(VENV)/dev ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev ## Put the code into its standard form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/dev ## Measure, each figure beside its limit or peer (ARGS=--quick for a short run)
	$(BIN)/python -m bench $(ARGS)

chaos: $(VENV)/dev ## Break a cluster at random for 10 minutes and judge it from outside (ARGS="--minutes 3 --seed 7")
	$(BIN)/python -m chaos $(ARGS)

lock: $(VENV)/dev ## Pin the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade --extra dev -o requirements-dev.lock

# The annotation runbook_url of each alert begins with RUNBOOKS: give the address where your people read docs/runbooks.md.
RUNBOOKS ?= docs/runbooks.md
RULES := manifests/components/prometheus-rule

rules: ## Make the PrometheusRule from rules.yaml (RUNBOOKS=https://... for links that can be clicked)
	@sed -e '/^#/d' -e 's/^/  /' -e 's|docs/runbooks.md#|$(RUNBOOKS)#|' $(RULES)/rules.yaml | cat $(RULES)/header.yaml - > $(RULES)/prometheusrule.yaml

chart: $(VENV)/run ## Write the Helm chart into dist/toposcope, out of what kubectl renders of the kustomize base
	$(BIN)/python -m charts dist/toposcope

# kubectl follows only where both are sure to speak of the same cluster: flags such as --context would be for one of them.
uninstall: $(VENV)/run ## Show what Toposcope left in the cluster of your kubeconfig (ARGS=--yes removes all of it)
	@$(BIN)/python -m cli.main uninstall $(ARGS)
ifeq ($(strip $(ARGS)),--yes)
	kubectl delete --ignore-not-found -k manifests/base
endif

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Toposcope needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@$(PYTHON) -m venv $(VENV)

# `run` holds what the programs need, `dev` also what the checks need.
$(VENV)/run: requirements.lock | $(BIN)/python
	@echo "Installing what Toposcope needs into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(VENV)/dev: requirements-dev.lock pyproject.toml | $(BIN)/python
	@echo "Installing what Toposcope and its checks need into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/run
