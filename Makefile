# Every target sets up what it needs; start with `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.DEFAULT_GOAL := help

.PHONY: help demo ui ui-test pictures test test-all lint format bench chaos lock rules chart reference docs fuzz uninstall clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# --keep also serves the page.
demo: $(VENV)/run $(if $(findstring --keep,$(ARGS)),ui) ## Simulate a cluster and watch the whole path (ARGS=--keep leaves it running for kubectl)
	@$(BIN)/python -m toposcope.cli.main demo $(ARGS)

# Node comes with the virtual environment: one version for everybody, nothing to install.
PAGE := toposcope/ui/page
NODE := PATH="$(CURDIR)/$(BIN):$$PATH"

ui: toposcope/ui/static/index.html ## Build the page of `toposcope ui` (toposcope/ui/page into toposcope/ui/static)

ui-test: $(PAGE)/node_modules/.ready ## Run the page's tests that need no browser
	cd $(PAGE) && $(NODE) npm test --silent

pictures: ui ## Renew the documentation's pictures of the page
	$(BIN)/python -m tests.ui.browser.pictures docs/pictures

toposcope/ui/static/index.html: $(PAGE)/node_modules/.ready $(PAGE)/build.mjs $(shell find $(PAGE)/src -type f 2>/dev/null)
	@echo "Building the page of toposcope ui ..."
	@cd $(PAGE) && $(NODE) node build.mjs
	@touch $@

$(PAGE)/node_modules/.ready: $(PAGE)/package-lock.json | $(VENV)/dev
	@echo "Installing what the page is made of into $(PAGE)/node_modules ..."
	@cd $(PAGE) && $(NODE) npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

test: $(VENV)/dev ## Run the tests, on a real kube-apiserver if Go can build one (ARGS go to pytest)
	@$(MAKE) --no-print-directory ui || echo "The page could not be built; what needs it is skipped."
	$(BIN)/python -m pytest -n logical --dist worksteal -m "not thorough" $(ARGS)

test-all: $(VENV)/dev ## Run all tests, with the slow ones: browsers, Prometheus, helm, the image, other projects' cases
	@$(MAKE) --no-print-directory ui || echo "The page could not be built; its tests in a browser are skipped."
	$(BIN)/python -m pytest -n logical --dist worksteal $(ARGS)

lint: $(VENV)/dev $(PAGE)/node_modules/.ready ## Check style, types, import contracts and the Dockerfile
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile
	cd $(PAGE) && $(NODE) npm run --silent check

format: $(VENV)/dev $(PAGE)/node_modules/.ready ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd $(PAGE) && $(NODE) npm run --silent format

bench: $(VENV)/dev ## Run the benchmarks, each figure beside its limit or peer (ARGS=--quick for a short run)
	$(BIN)/python -m tools.bench $(ARGS)

chaos: $(VENV)/dev ## Break a cluster at random for 10 minutes and judge it from outside (ARGS="--minutes 3 --seed 7")
	$(BIN)/python -m tools.chaos $(ARGS)

fuzz: $(VENV)/dev ## Fuzz every parser for some minutes (ARGS="--seconds 60 --seed 7", or the names of subjects)
	$(BIN)/python -m tools.fuzz $(ARGS)

lock: $(VENV)/dev ## Pin the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade --extra dev -o requirements-dev.lock
	$(BIN)/uv pip compile --group docs --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade -o requirements-docs.lock
	$(BIN)/uv pip compile image/runtime.in --constraints requirements.lock --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade -o image/runtime.lock
	$(BIN)/uv pip compile image/build.in --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade -o image/build.lock

# Each alert's runbook_url starts with RUNBOOKS: set the address where your team reads docs/runbooks.md.
RUNBOOKS ?= docs/runbooks.md
RULES := manifests/components/prometheus-rule

rules: ## Generate the PrometheusRule from rules.yaml (RUNBOOKS=https://... for clickable links)
	@sed -e '/^#/d' -e 's/^/  /' -e 's|docs/runbooks.md#|$(RUNBOOKS)#|' $(RULES)/rules.yaml | cat $(RULES)/header.yaml - > $(RULES)/prometheusrule.yaml

chart: ## Copy the Helm chart into dist/toposcope, with the files it links to, and lint it if helm is installed
	@rm -rf dist/toposcope
	@mkdir -p dist
	@cp -RL manifests/chart dist/toposcope
	@if command -v helm > /dev/null; then helm lint --strict --namespace toposcope-system dist/toposcope; fi

reference: $(VENV)/dev ## Generate the tables of docs/ (labels, metrics, levels, flags, fields, figures)
	@$(BIN)/python -m tools.docgen $(ARGS)

docs: .venv-docs/installed tools/docgen/node_modules/.ready ## Build the site of docs/ into dist/site; broken links and anchors are errors
	@# Not --quiet: a strict build counts only warnings that are logged.
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

# kubectl runs only without other flags: --context, for example, would apply to toposcope alone.
uninstall: $(VENV)/run ## Show what Toposcope wrote to the cluster of your kubeconfig (ARGS=--yes removes it)
	@$(BIN)/python -m toposcope.cli.main uninstall $(ARGS)
ifeq ($(strip $(ARGS)),--yes)
	kubectl delete --ignore-not-found -k manifests/base
endif

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) .venv-docs tools/docgen/node_modules .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build $(PAGE)/node_modules toposcope/ui/static

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Toposcope needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@$(PYTHON) -m venv $(VENV)

# Separate from the programs' environment, so that versions need not agree.
.venv-docs/installed: requirements-docs.lock | $(BIN)/python
	@echo "Installing what the site needs into .venv-docs ..."
	@$(BIN)/python -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

tools/docgen/node_modules/.ready: tools/docgen/package-lock.json | $(VENV)/dev
	@cd $(@D)/.. && $(NODE) npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

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
