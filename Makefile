# Everything runs in .venv, which each target sets up by itself from the hashed lock files.
# `make PYTHON=python3.12 …` chooses the interpreter for a new .venv; `make help` lists the targets.

PYTHON ?= python3
BIN := .venv/bin
N ?= 1000
SOURCES := src tests bench tools docs_src
GENERATED := $(wildcard docs/reference/*.md) docs/promises.md docs/scaling.md
COG := $(BIN)/cog -I . -P

# The package index decides nothing at check time: no look-up of newer releases.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

# A terminal sees each package and a progress bar; a log gets one line for each step.
PIP := $(BIN)/python -m pip install $(if $(shell test -t 2 && echo terminal),,-qq)
packages = $$(grep -c '^[a-z].*==' $(1)) packages of $(1)

.DEFAULT_GOAL := help
.PHONY: help cluster models serve test contract lint audit fix plugins build sbom bench performance screenshots eval score answers simulate torture fuzz conformance agents damage coverage lock clean

help:  ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

# --- set-up -------------------------------------------------------------------------------------

.venv/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Engram needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Creating .venv for Engram's own packages …"
	@$(PYTHON) -m venv .venv

.venv/installed: requirements.lock pyproject.toml | .venv/pyvenv.cfg
	@echo "Installing what Engram needs into .venv (once): $(call packages,requirements.lock) …"
	@$(PIP) --require-hashes --requirement requirements.lock
	@echo "Installing Engram itself …"
	@$(PIP) --no-deps --no-build-isolation --no-index --editable .
	@touch $@

.venv/installed-dev: requirements-dev.lock .venv/installed
	@echo "Installing the developer tools into .venv (once): $(call packages,requirements-dev.lock) …"
	@$(PIP) --require-hashes --requirement requirements-dev.lock
	@touch $@

# Quick when the files are there; nothing is fetched after this.
models: .venv/installed  ## get the model files that search by meaning needs, once
	@$(BIN)/engram models pull > /dev/null

# --- use ----------------------------------------------------------------------------------------

serve: .venv/installed  ## set up and run the server (ENGRAM_* variables apply)
	@echo "Checking the model files …"
	@$(BIN)/engram models pull > /dev/null || echo "Going on without a model: search finds words only."
	@echo "Starting the server …"
	@exec $(BIN)/engram serve $(ARGS)

# One more than processors: many tests wait for the processes that they start.
WORKERS = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

test: .venv/installed-dev models  ## set up and pass the tests
	@tools/bubblewrap.sh
	@tools/pgbouncer.sh
	@$(BIN)/python -m tools.browser
	$(BIN)/python -m pytest -n $(WORKERS) --inline-snapshot=disable $(ARGS)

contract: .venv/installed-dev  ## the storage contract on SQLite, PostgreSQL, at a second home and through a pooler
	@tools/pgbouncer.sh
	$(BIN)/python -m pytest -n $(WORKERS) --inline-snapshot=disable --every-store tests/storage $(ARGS)

# --- checks -------------------------------------------------------------------------------------

lint: .venv/installed-dev  ## every check but the tests
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	$(COG) --check --check-fail-msg="run make fix" $(GENERATED)
	$(BIN)/python -m tools.plugins --check
	$(BIN)/python -m tools.citus
	$(BIN)/python -m tools.audit --offline

audit: .venv/installed-dev  ## secrets in the files, and advisories on dependencies where reachable
	$(BIN)/python -m tools.audit

fix: .venv/installed-dev  ## format, apply safe fixes, regenerate the documentation
	$(BIN)/ruff check --fix --exit-zero --quiet $(SOURCES)
	$(BIN)/ruff format $(SOURCES)
	$(COG) -r $(GENERATED)
	$(BIN)/python -m tools.plugins

plugins: .venv/installed  ## regenerate the plugins of clients from tools/plugins.py
	$(BIN)/python -m tools.plugins

# How long, and on which store: sqlite or postgres.
MINUTES ?= 10
STORE ?= sqlite

torture: .venv/installed-dev  ## processes that are killed and misled, and every answer checked: make torture STORE=postgres
	@tools/bubblewrap.sh
	$(BIN)/python -m tests.torture --store $(STORE) --minutes $(MINUTES) $(ARGS)

fuzz: .venv/installed-dev  ## everything that reads bytes, with random ones: make fuzz MINUTES=60
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(ARGS)

cluster: .venv/installed-dev  ## verify an empty database of a server or Citus cluster: make cluster URL=postgresql://owner@host/empty
	@$(BIN)/python -m tools.cluster "$(URL)" $(ARGS)

coverage: .venv/installed-dev models  ## the tests with branch coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto --inline-snapshot=disable $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# Without SEEDS it goes on until a seed fails; a failure names the command that repeats it.
simulate: .venv/installed-dev  ## a seeded simulation of stores with faults: make simulate SEED=1 SEEDS=100
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(STEPS),--steps $(STEPS))

damage: .venv/installed-dev  ## N random damages on copies of a store; each is harmless or loud
	$(BIN)/python -m pytest -n auto -q --inline-snapshot=disable --damages $(N) tests/storage/test_damage.py

conformance: .venv/installed-dev  ## the MCP conformance suite against a fresh server
	$(BIN)/python -m tools.conformance $(ARGS)

agents: .venv/installed-dev  ## whole turns of real coding agents, installed from npm once
	@$(BIN)/python -m tools.agents
	$(BIN)/python -m pytest -n auto --inline-snapshot=disable tests/agents $(ARGS)

bench: .venv/installed-dev models  ## the benchmarks, each beside its floor
	$(BIN)/python -m bench $(ARGS)

performance: .venv/installed-dev  ## renew docs/performance.md from the last full benchmarks
	$(BIN)/python -m bench.publish

# The sets lie beside this repository: their licences do not let them be part of it.
DATA ?= ../shared/eval
SETS ?= needles locomo realtalk longmemeval_pool beam_100k realmem longmemeval_s cranfield scifact
# A set of our own, of things planted in long texts; generated, and the same every time.
NEEDLES := bench/results/needles.jsonl.gz

$(NEEDLES): $(wildcard bench/needles/*.py) | .venv/installed-dev
	@$(BIN)/python -m bench.needles $@

eval: .venv/installed-dev models $(NEEDLES)  ## retrieval quality: make eval SETS="locomo realtalk"
	$(BIN)/engram eval $(patsubst needles,$(NEEDLES),$(SETS)) --data $(DATA) --baseline bench/baseline.json $(ARGS)
	$(BIN)/python -m bench.replay $(filter locomo realtalk,$(SETS)) --data $(DATA)

score: .venv/installed-dev models  ## the same through a running server, by the data's score.py
	$(BIN)/python -m bench.score $(filter-out needles,$(SETS)) --data $(DATA) $(ARGS)

answers: .venv/installed-dev  ## renew docs/answers.md from the last make eval ARGS="--output bench/results/eval.json"
	$(BIN)/python -m bench.evidence

# --- release ------------------------------------------------------------------------------------

VERSION = $(shell $(BIN)/python -c 'import engram; print(engram.__version__)')

build: .venv/installed sbom  ## the wheel, the source archive, the .mcpb bundle and the bill of materials, in dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m tools.plugins --bundle dist/engram-$(VERSION).mcpb

sbom: .venv/installed  ## the locked dependencies with versions, licences and hashes (CycloneDX)
	@$(BIN)/python -m tools.sbom dist/engram-$(VERSION).cdx.json

screenshots: .venv/installed-dev models  ## renew the pictures of the page in docs
	$(BIN)/python -m tools.screenshots

# --- upkeep -------------------------------------------------------------------------------------

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --extra backup --extra documents --extra postgres

lock: .venv/pyvenv.cfg  ## renew requirements.lock and requirements-dev.lock
	@test -x $(BIN)/uv || $(PIP) uv
	$(LOCK) --group build pyproject.toml --output-file requirements.lock
	$(LOCK) --group dev --constraint requirements.lock pyproject.toml --output-file requirements-dev.lock

clean:  ## remove everything the other targets made
	rm -rf .venv .browser .coding-agents .conformance .coverage .coverage.* .hypothesis .import_linter_cache .pytest_cache \
	  .ruff_cache bench/results build dist htmlcov
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} +
