# Every target does its own set-up. PYTHON=... chooses the interpreter; TORCH_INDEX=... is the CPU
# index URL given on PyTorch's install page, needed once where pip finds no CPU build of torch.
BIN := .venv/bin
SETUP := .venv/.setup-done
SUFFIX := .venv/.suffix-done
TRL_PREVIOUS := .cache/trl-1.15.0
LOCKED := $(BIN)/python -m pip --disable-pip-version-check --no-input install --no-deps
export PYTHON TORCH_INDEX

.DEFAULT_GOAL := help
.PHONY: help setup suffix trl-previous browser notebooks pages docs demo test test-all test-fast ci mutants check lint lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

setup: $(SETUP) ## .venv with the locked CPU stack and gfcr installed editable

$(SETUP): requirements/cpu.lock pyproject.toml setup.py scripts/setup.sh
	@echo "Setting up .venv (2 to 5 minutes the first time):"
	@bash scripts/setup.sh
	@touch $@

suffix: $(SUFFIX) ## the suffix drafter, built from source

$(SUFFIX): requirements/suffix.lock $(SETUP)
	@bash scripts/quietly.sh "suffix drafter (built from source, a minute or more)" \
		$(LOCKED) -r requirements/suffix.lock
	@touch $@

trl-previous: $(TRL_PREVIOUS)/.done ## the previous TRL minor, beside the locked one

$(TRL_PREVIOUS)/.done: requirements/trl-previous.lock | $(SETUP)
	@bash scripts/quietly.sh "previous TRL" \
		$(LOCKED) --upgrade --target $(TRL_PREVIOUS) -r requirements/trl-previous.lock
	@touch $@

browser: ## Chromium for the page's tests, where apt-get may install it
	@bash scripts/browser.sh

notebooks: $(SETUP) ## what the notebooks need: Jupyter, matplotlib, pandas
	@bash scripts/quietly.sh "notebooks" $(BIN)/python -m pip --disable-pip-version-check \
		--no-input install --no-build-isolation -c requirements/cpu.lock -e '.[notebooks]'

pages: notebooks ## run the tutorials (40 minutes) and write their pages
	@$(BIN)/python scripts/pages.py

docs: $(SETUP) ## the documentation site, build/docs/site/index.html
	@$(BIN)/python scripts/site.py

demo: $(SETUP) ## run the demo and show what it learned
	@$(BIN)/gfcr demo

# One phase: whole files to each of two workers, those with real engines first, so that both end
# together. What these need of compute threads, tests/conftest.py says.
# A worker that dies is replaced, and dies of the same test again.
PYTEST := $(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart=2 \
	--durations=15

test: $(SETUP) $(SUFFIX) $(TRL_PREVIOUS)/.done ## every law once, every path once through the real stack
	@$(PYTEST) tests/integration tests/campaign tests/unit tests/contract $(WHOLE)

ci: ## what decides whether a change is taken: .ci/run in a fresh clone of HEAD
	@bash scripts/ci.sh

test-all: ## all tests but tests/gpu, with every case (hours)
	@$(MAKE) --no-print-directory test WHOLE='--whole --timeout=7200'

test-fast: $(SETUP) ## unit and contract tests that take no seconds
	@$(PYTEST) tests/unit tests/contract -m 'not slow'

mutants: $(SETUP) ## which broken lines no unit or contract test notices (hours; NAMES='gfcr.filter.*')
	@bash scripts/quietly.sh "mutmut" $(BIN)/python -m pip --disable-pip-version-check \
		--no-input install -c requirements/cpu.lock 'mutmut==3.8.1'
	@$(BIN)/python scripts/mutants.py $(NAMES)

check: $(SETUP) ## ruff, format, types and the weight of the rooms, changing nothing
	@failed=0; \
	for tool in "ruff check ." "ruff format --check ." "pyright" "python scripts/rooms.py --check"; do \
		$(BIN)/$$tool || { echo "failed: $$tool"; failed=1; }; \
	done; exit $$failed

lint: $(SETUP) ## mend what ruff can
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

lock: ## rewrite requirements/cpu.lock from what is installed in .venv
	@$(LOCKED) -q --no-build-isolation -e . # which extras ask for what
	@$(BIN)/python scripts/lock.py > .cache/cpu.lock && mv .cache/cpu.lock requirements/cpu.lock

clean: ## remove caches and build outputs (keeps .venv and .cache)
	@rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .coverage
	@find gfcr strategies benchmarks tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
