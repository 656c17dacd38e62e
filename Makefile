# Every target sets up what it needs: `make demo` and `make test` are all that a newcomer has to know.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.DEFAULT_GOAL := help

.PHONY: help audit demo ui ui-test pictures regressions test test-all schedulers e2e lint format bench chaos simulate model mutants lock rules chart reference docs fuzz growth uninstall clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# With --keep there is time to look at the page.
demo: $(VENV)/run $(if $(findstring --keep,$(ARGS)),ui) ## Simulate a cluster and watch the whole path, in about a minute with the set-up (ARGS=--keep leaves it running for kubectl)
	@$(BIN)/python -m toposcope.cli.main demo $(ARGS)

# Node comes with the virtual environment: nobody has to install it, and everybody builds with the same.
PAGE := toposcope/ui/page
NODE := PATH="$(CURDIR)/$(BIN):$$PATH"

ui: toposcope/ui/static/index.html ## Build the page of `toposcope ui` (toposcope/ui/page into toposcope/ui/static)

ui-test: $(PAGE)/node_modules/.ready ## Test the parts of the page that need no browser
	cd $(PAGE) && $(NODE) npm test --silent

pictures: ui ## Take the pictures of the page for the documentation
	$(BIN)/python -m tests.ui.browser.pictures docs/pictures

toposcope/ui/static/index.html: $(PAGE)/node_modules/.ready $(PAGE)/build.mjs $(shell find $(PAGE)/src -type f 2>/dev/null)
	@echo "Building the page of toposcope ui ..."
	@cd $(PAGE) && $(NODE) node build.mjs
	@touch $@

$(PAGE)/node_modules/.ready: $(PAGE)/package-lock.json | $(VENV)/dev
	@echo "Installing what the page is made of into $(PAGE)/node_modules ..."
	@cd $(PAGE) && $(NODE) npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Before pytest starts: minutes of compiling inside it would look like a test that hangs.
API_SERVER = $(BIN)/python -m tools.apiserver.prepare

regressions: $(VENV)/dev ## Run first what was once wrong: the tests of the marker `regression`
	@$(MAKE) --no-print-directory ui || echo "The page could not be built; what needs it is skipped."
	@$(API_SERVER)
	$(BIN)/python -m pytest -n logical --dist worksteal -m regression $(ARGS)

test: $(VENV)/dev ## Run the tests, against a real kube-apiserver where Go can build one (ARGS go to pytest)
	@$(MAKE) --no-print-directory ui || echo "The page could not be built; what needs it is skipped."
	@$(API_SERVER)
	$(BIN)/python -m pytest -n logical --dist worksteal -m "not slow" $(ARGS)

test-all: $(VENV)/dev ## The same with the slow tests: browsers, Prometheus, helm, the image, other projects' cases
	@$(MAKE) --no-print-directory ui || echo "The page could not be built; its tests in a browser are skipped."
	@$(API_SERVER)
	$(BIN)/python -m pytest -n logical --dist worksteal $(ARGS)

schedulers: $(VENV)/dev ## Compare `toposcope check` and `whatif` with a real kube-scheduler and Kueue (CASES=1000 SEED=7 for more than CI does)
	CASES=$(CASES) SEED=$(SEED) TOPOSCOPE_REQUIRE_SCHEDULERS=1 $(BIN)/python -m pytest tests/schedulers $(ARGS)

e2e: $(VENV)/dev ui ## Run agent, controller and page on real kubelets (Linux, root; says what else is missing)
	$(BIN)/python -m tests.e2e $(ARGS)

lint: $(VENV)/dev $(PAGE)/node_modules/.ready ## Check style, types, imports, regular expressions, the Dockerfile, and messages of new commits (BASE=origin/main)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.regexes
	$(BIN)/python -m tools.density
	$(BIN)/python -m tools.commits $(BASE)
	$(BIN)/hadolint Dockerfile
	cd $(PAGE) && $(NODE) npm run --silent check

format: $(VENV)/dev $(PAGE)/node_modules/.ready ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd $(PAGE) && $(NODE) npm run --silent format

bench: $(VENV)/dev ## Measure, with each figure's limit or peer (ARGS=--quick for a short run)
	$(BIN)/python -m tools.bench $(ARGS)

chaos: $(VENV)/dev ## Break a cluster at random for 10 minutes and check it from outside (ARGS="--minutes 3 --seed 7")
	$(BIN)/python -m tools.chaos $(ARGS)

# Sets of strings have another order in each process; nothing should depend on it, and a failure is repeated all the same.
simulate: $(VENV)/dev ## Simulate programs and API server from a seed, each failure repeatable (ARGS="--hours 24 --seed 7 --seeds 10")
	PYTHONHASHSEED=0 $(BIN)/python -m tools.simulate $(ARGS)

model: $(VENV)/dev ## Check in TLA+ models of Lease, labels, levels and replacement what must never go wrong
	$(BIN)/python -m tools.model.checker

mutants: $(VENV)/dev ## Change the code one small thing at a time with mutmut; some test should fail (ARGS are names of functions)
	$(BIN)/mutmut run $(ARGS)

fuzz: $(VENV)/dev ## Feed every parser bad input for some minutes (ARGS="--seconds 60 --seed 7", or the names of subjects)
	$(BIN)/python -m tools.fuzz $(ARGS)

growth: $(VENV)/dev ## Measure how the time of every reader grows with its text (ARGS="'a quantity' 'a duration'" for some)
	$(BIN)/python -m tools.fuzz.growth $(ARGS)

# Apart from the development environment, whose versions it judges.
AUDIT := pip-audit==2.10.1
LOCKS := requirements.lock requirements-build.lock requirements-dev.lock requirements-docs.lock image/runtime.lock image/build.lock

audit: $(VENV)/dev ## Look for known vulnerabilities of what the locks pin, and say what could not be looked up
	@$(BIN)/python -m tools.advisories $(LOCKS) -- $(BIN)/uv tool run --from $(AUDIT) pip-audit

lock: $(VENV)/dev ## Pin the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade --extra dev -o requirements-dev.lock
	$(BIN)/uv pip compile --group build --constraints requirements-dev.lock --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade -o requirements-build.lock
	$(BIN)/uv pip compile --group docs --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade -o requirements-docs.lock
	$(BIN)/uv pip compile image/runtime.in --constraints requirements.lock --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade -o image/runtime.lock
	$(BIN)/uv pip compile image/build.in --universal --python-version 3.11 --generate-hashes --no-header --quiet --upgrade -o image/build.lock

# The annotation runbook_url of each alert begins with RUNBOOKS: give the address where your people read docs/runbooks.md.
RUNBOOKS ?= docs/runbooks.md
RULES := manifests/components/prometheus-rule

rules: ## Make the PrometheusRule from rules.yaml (RUNBOOKS=https://... for links that can be clicked)
	@sed -e '/^#/d' -e 's/^/  /' -e 's|docs/runbooks.md#|$(RUNBOOKS)#|' $(RULES)/rules.yaml | cat $(RULES)/header.yaml - > $(RULES)/prometheusrule.yaml

chart: ## Copy the Helm chart into dist/toposcope, with the files that it links to, and lint it where helm is installed
	@rm -rf dist/toposcope
	@mkdir -p dist
	@cp -RL manifests/chart dist/toposcope
	@if command -v helm > /dev/null; then helm lint --strict --namespace toposcope-system dist/toposcope; fi

reference: $(VENV)/dev ## Write the tables of docs/ that come from the code (labels, metrics, levels, flags, fields)
	@$(BIN)/python -m tools.docgen $(ARGS)

docs: .venv-docs/installed tools/docgen/node_modules/.ready ## Build the site of docs/ into dist/site; a link or anchor that leads nowhere is an error
	@# Not --quiet: a strict build counts only warnings that are logged.
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

# kubectl follows only where both are sure to speak of the same cluster: flags such as --context would be for one of them.
uninstall: $(VENV)/run ## Show what Toposcope left in the cluster of your kubeconfig (ARGS=--yes removes all of it)
	@$(BIN)/python -m toposcope.cli.main uninstall $(ARGS)
ifeq ($(strip $(ARGS)),--yes)
	kubectl delete --ignore-not-found -k manifests/base
endif

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) .venv-docs tools/docgen/node_modules .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build mutants $(PAGE)/node_modules toposcope/ui/static

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Toposcope needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@$(PYTHON) -m venv $(VENV)

# Apart from what the programs need: neither has to agree with the other on a version.
.venv-docs/installed: requirements-docs.lock | $(BIN)/python
	@echo "Installing what the site needs into .venv-docs ..."
	@$(BIN)/python -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

tools/docgen/node_modules/.ready: tools/docgen/package-lock.json | $(VENV)/dev
	@cd $(@D)/.. && $(NODE) npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# `run` holds what the programs need, `dev` also what the checks need.
$(VENV)/run: requirements.lock requirements-build.lock pyproject.toml | $(BIN)/python
	@echo "Installing what Toposcope needs into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock -r requirements-build.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev: requirements-dev.lock pyproject.toml | $(BIN)/python
	@echo "Installing what Toposcope and its checks need into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/run
