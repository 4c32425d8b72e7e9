# `make demo` and `make test` need only Linux and Python 3.11 or newer; they create .venv.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
LISTS := requirements/cpu.txt infra/install.sh
WORKFLOWS := infra/ci/github.yml infra/ci/github-one-job.yml

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.venv/installed: $(LISTS)
	@PYTHON=$(PYTHON) infra/install.sh
	@touch $@

.venv/installed-dev: $(LISTS) requirements/dev.txt
	@PYTHON=$(PYTHON) infra/install.sh --dev
	@touch .venv/installed $@

.venv/installed-stack: .venv/installed requirements/stack.txt infra/stack/install.sh
	@infra/stack/install.sh
	@touch $@

install: .venv/installed  ## Install the pinned CPU environment into .venv

install-cuda:  ## On a GPU machine: install vLLM's CUDA build and regrade into .venv
	@PYTHON=$(PYTHON) infra/install-cuda.sh

demo: .venv/installed  ## Evaluate the demo model with vLLM on the CPU; needs no account
	@$(BIN)/regrade evaluate --config infra/demo/demo.yaml

# What needs neither engine nor server, in a lane more than cores, since tests wait, and each lane imports all for 9 s of a CPU; one begins
# with the main path: real vLLM, a real Prefect server and MLflow. The other tests with them take two lanes: engines of more lanes at once need more than 24 GiB.
LANES := $(shell n=$$(nproc); echo $$((n < 7 ? n + 1 : 8)))
test: .venv/installed-dev  ## Run the tests without engine and server, and those of the main path with both
	@$(BIN)/python -m pytest -m "main or not (slow or stack or vllm or prefect)" --numprocesses $(LANES) --dist loadfile

test-engines: .venv/installed-dev  ## Run the other tests with real vLLM and Prefect servers, except the slow ones
	@$(BIN)/python -m pytest -m "(vllm or prefect) and not (main or slow or stack)" --numprocesses 2 --dist loadfile

test-slow: .venv/installed-dev .peers/installed  ## Run the slow tests, which take minutes each
	@$(BIN)/python -m pytest -m slow

check: .venv/installed-dev  ## Check lint, types, import rules, dependencies, CI files and shell scripts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry flows regrade tasks
	$(BIN)/shellcheck .ci/run infra/*.sh infra/*/*.sh infra/slurm/*.sbatch
	$(BIN)/actionlint -config-file infra/ci/actionlint.yaml -shellcheck $(BIN)/shellcheck $(WORKFLOWS)
	$(BIN)/zizmor --offline --quiet --persona pedantic $(WORKFLOWS)
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows $(WORKFLOWS)
	$(BIN)/check-jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci infra/ci/gitlab.yml

check-cuda: .venv/installed-dev  ## Resolve the pinned list of GPU machines, without installing it (needs a package index)
	@infra/check-cuda.sh

sbom: .venv/installed-dev  ## Write a bill of materials of .venv (CycloneDX) into sbom.json
	@$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file sbom.json $(BIN)/python
	@echo "sbom.json lists all packages of .venv, with their versions and licences."

audit: .venv/installed-dev  ## Look up known vulnerabilities; exit code 3: could not be looked up (make says 2)
	@$(BIN)/python -m infra.audit $(ARGS)

.peers/installed: .venv/installed-dev infra/install-peers.sh
	@infra/install-peers.sh
	@touch $@

perf: .peers/installed  ## Compare the speed with other tools on this machine (an hour; docs/performance.md)
	@missed=0; for script in scoring code_scoring math_scoring startup planning growth hub_requests generate_stage metering pooling "pooling --simulated" "checkpoints --questions 20" multiple_choice lm_eval_tasks server "server --table" viewing tune; do \
	    echo "== $$script"; $(BIN)/python -m perf.$$script || missed=1; done; exit $$missed

gpu-check:  ## On a GPU machine: what vLLM computes there and how fast, in 20 minutes and without a network (perf/gpu.md)
	@$(BIN)/python -m perf.gpu_check $(ARGS)

.venv/installed-mutants: .venv/installed-dev requirements/mutants.txt
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes --requirement requirements/mutants.txt
	@touch $@

mutants: .venv/installed-mutants  ## Test the tests: do they notice small changes? (ARGS="--modules answers/spool"; two hours)
	@$(BIN)/python -m perf.mutants $(ARGS)

docs: .venv/installed  ## Build docs/ as a site into .site/html; a link that leads nowhere is an error
	@$(BIN)/python -m infra.site

release: .venv/installed  ## Build, check, install and try a release in dist/, with its notes; uploads nothing (minutes; needs a package index)
	@$(BIN)/python -m infra.release

format: .venv/installed-dev  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: .venv/installed-dev  ## Update the pinned versions in requirements/
	infra/lock.sh --upgrade

deploy: .venv/installed  ## Create or update pools and deployments on the Prefect server at PREFECT_API_URL (FORCE=1: --force)
	@$(BIN)/regrade deploy $(if $(filter-out 0,$(FORCE)),--force)

stack: .venv/installed-stack  ## Start Postgres, Prefect, MLflow, the viewer and two workers on loopback (docs/stack.md)
	@$(BIN)/python -m infra.stack up

stack-down: .venv/installed-stack  ## Stop the stack
	@$(BIN)/python -m infra.stack down

stack-backup: .venv/installed-stack  ## Back up the stack into a new file (FILE=stack.tar)
	@$(BIN)/python -m infra.stack backup "$(FILE)"

stack-restore: .venv/installed-stack  ## Restore a backup into an empty stack (FILE=stack.tar; REPLACE=1: also into one with data)
	@$(BIN)/python -m infra.stack restore "$(FILE)" $(if $(filter-out 0,$(REPLACE)),--replace)

stack-test: .venv/installed-dev .venv/installed-stack  ## Test the stack: run, cancel, crash, score, compare
	@$(BIN)/python -m pytest -m stack tests/infra

test-infra: check-cuda stack-test  ## Test what infra/ installs and runs, and note in .ci/infra-passed that it passed
	@$(BIN)/python -m infra.passed --write

ui: .venv/installed  ## Start the pages of Prefect, MLflow and the viewer with the runs of this checkout, on the ports of `make stack`
	@infra/ui.sh

.PHONY: help install install-cuda demo docs release test test-engines test-slow check check-cuda sbom audit format lock deploy ui perf gpu-check mutants stack stack-backup stack-down stack-restore stack-test test-infra
