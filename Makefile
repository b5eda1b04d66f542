# Everything a person does with this tree, one word each. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
export PYTHON TORCH_INDEX

BIN := .venv/bin
SOURCES := e2c_dl layers_services tests benchmarks ci scripts setup.py
# Workers of pytest; tests/conftest.py and tests/local/conftest.py say what keeps them apart. Three more than processors, as
# real runs wait for half of their time; then, one at a time, runs whose rates, delays or verdicts are checked: most of
# the processors is idle then, and goes to lint, laws and fuzz, which give it back whenever a run needs it (SCHED_IDLE).
# Machines are shared: what failed (status 1) is tried once more by itself, and both outcomes are printed.
AS_MANY_AS_PROCESSORS := -n logical --maxprocesses 8
THREE_MORE := -n $(shell expr $$(nproc) + 3) --maxprocesses 9 --max-worker-restart 2
AGAIN = || { [ $$? = 1 ] && echo '== what failed, once more by itself' && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }
WHEN_IDLE := chrt --idle 0
unexport PYTHONDONTWRITEBYTECODE # else each of some thousand programs compiles all modules anew

.PHONY: help
help: ## list what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-13s %s\n", $$1, $$2 }'

.PHONY: setup
setup: ## put in place what is needed: Debian packages, .venv with pinned versions (PYTHON=... chooses the interpreter)
	@scripts/setup

.PHONY: setup-docker
setup-docker: ## setup, and what hosts as containers need: docker.io, debootstrap, iptables; no service is started
	@scripts/setup --docker

.PHONY: setup-vagrant
setup-vagrant: ## setup, and what hosts as virtual machines need: vagrant, libvirt, qemu (190 MB); no service is started
	@scripts/setup --vagrant

.PHONY: setup-uml
setup-uml: ## setup, and what tests of tc need: user-mode-linux, a kernel with netem that runs as a program
	@scripts/setup --uml

.PHONY: setup-browser
setup-browser: ## setup, and what tests of the page need: chromium, Debian's (100 MB)
	@scripts/setup --browser

.PHONY: setup-horovod
setup-horovod: setup ## setup, and a wheel of Horovod in your cache and in .venv (the first time takes 6 minutes of CPU time)
	@$(BIN)/e2c-dl horovod build
	@$(BIN)/e2c-dl horovod install

.PHONY: setup-flower
setup-flower: setup ## an environment for Flower, .venv-flower: it does not fit beside E2Clab (300 MB)
	@[ -x .venv-flower/bin/flwr ] || { $(BIN)/python -m venv .venv-flower && .venv-flower/bin/python -m pip install --quiet flwr==1.41.0; }

.PHONY: setup-chakra
setup-chakra: setup ## an environment for Chakra's own reader of traces, .venv-chakra (3 MB beside pip); what its other tools need stays away
	@[ -x .venv-chakra/bin/chakra_jsonizer ] || { $(BIN)/python -m venv .venv-chakra && .venv-chakra/bin/python -m pip install --quiet --no-deps --constraint constraints.txt mlc-chakra==1.0.0 protobuf; }

.PHONY: demo
demo: setup ## deploy experiments/first-light on this machine, train, and name what slowed it down (about 3 minutes the first time)
	@$(BIN)/e2c-dl deploy experiments/first-light artifacts --on local

.PHONY: lint
lint: setup
	@echo '== ruff'
	@$(BIN)/ruff check --quiet $(SOURCES)
	@$(BIN)/ruff format --quiet --check $(SOURCES)
	@echo '== mypy --strict'
	@$(BIN)/mypy --strict e2c_dl
	@echo '== import contracts'
	@.venv-lint/bin/lint-imports --no-cache --no-logo
	@echo '== figures in README.md and docs/'
	@$(BIN)/python -m benchmarks.headlines

.PHONY: test-fast
test-fast: lint ## lint, types, import contracts, unit tests, laws, a short fuzz
	@echo '== unit tests and laws'
	@$(BIN)/python -m pytest $(AS_MANY_AS_PROCESSORS) -m 'not thorough' tests/unit tests/laws tests/fuzz

.PHONY: test
test: setup-docker setup-vagrant setup-uml setup-browser ## what test-fast does, and real runs on this machine; as root
	$(call tests,and not thorough)

.PHONY: test-all
test-all: setup-docker setup-vagrant setup-uml setup-browser ## what test does, and what it leaves out: stages and corruptions that are like others (it took an hour on two slow processors)
	$(call tests,)

define tests
	@$(MAKE) tests-side-by-side THOROUGH='$(1)'
	@$(MAKE) -j3 tests-alone lint-when-idle laws-when-idle THOROUGH='$(1)'
endef

.PHONY: tests-side-by-side tests-alone lint-when-idle laws-when-idle
tests-side-by-side: setup
	@echo '== unit tests, tc in User-Mode Linux, runs on this machine'
	@$(BIN)/python -m pytest --collect-only -qq tests >/dev/null || : # else each worker compiles all modules of tests anew
	@$(BIN)/python -m pytest $(THREE_MORE) -m 'not alone $(THOROUGH)' tests/unit tests/uml tests/local $(AGAIN)

tests-alone: setup
	@echo '== runs whose rates, delays or verdicts are checked, one at a time'
	@$(BIN)/python -m pytest -m 'alone $(THOROUGH)' tests/local $(AGAIN)

lint-when-idle: setup
	@$(WHEN_IDLE) $(MAKE) lint

laws-when-idle: setup
	@echo '== laws and fuzz'
	@$(WHEN_IDLE) $(BIN)/python -m pytest $(AS_MANY_AS_PROCESSORS) -o cache_dir=.pytest_cache/when-idle -m 'not alone $(THOROUGH)' tests/laws tests/fuzz

.PHONY: docs
docs: setup ## all pages as a site, site/index.html, which reads and searches from files (about 10 seconds, no network)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "site/index.html"

.PHONY: test-programs
test-programs: setup-docker setup-horovod setup-flower setup-chakra ## what test skips without Horovod, Flower and Chakra: programs of a user's own, published scenarios
	@$(BIN)/python -m pytest tests/local/test_own_programs.py tests/local/test_horovod_playbook.py tests/local/test_replays.py tests/local/test_flower_clients.py tests/unit/tracing/test_traced_script.py tests/unit/tracing/test_trained_alike.py tests/unit/trace/test_exports.py

.PHONY: bench
bench: setup-uml setup-browser ## side-by-side measurements, as root (about sixteen hours, by the sum of its parts); results go to benchmarks/results
	@missed=; for entry in benchmarks/*/__main__.py; do \
		name=$$(basename "$$(dirname "$$entry")"); echo "== $$name"; \
		$(BIN)/python -m "benchmarks.$$name" --write || missed="$$missed $$name"; \
	done; [ -z "$$missed" ] || { echo "failed, or missed their bar:$$missed" >&2; exit 1; }

.PHONY: fuzz
fuzz: setup ## edits of archives that nobody has tried, for ten minutes: commands that read them fail in one line, if they do
	@E2CDL_FUZZ_SECONDS=600 $(BIN)/python -m pytest tests/fuzz

.PHONY: clean
clean: ## remove environments, caches and builds from this tree (archives of runs stay)
	rm -rf .venv .venv-lint .venv-flower .venv-chakra build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	find e2c_dl layers_services tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
