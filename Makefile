# `make help` lists the targets. Each sets up what it needs, once.

.DEFAULT_GOAL := help
.PHONY: help setup run test check docs format bench pictures compared fuzz chaos kills laboratory soak sweep shards alerts coverage mutants newcomer uvloop lock rules clean
export PYTHON
# Tests start some hundred processes: each would compile all modules anew, and each worker all tests.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1	\2/p' Makefile | expand -t 16

setup: ## install what all targets need, by hash, into .venv; each target installs its own part by itself
	@tools/setup.sh test docs check bench

setup-%:
	@tools/setup.sh $*

run: setup-run ## the demo; ARGS="--once --json out.json", ARGS="--sabotage NAME"
	@$(BIN)/reconcile demo $(ARGS)

test: setup-test ## the tests, a process per core and one more; ARGS="tests/workqueue -k delay", ARGS="-n0 --pdb" for a debugger
	@$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

check: setup-check ## style, types, import contracts, rules, the documentation
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/rules.py --check
	$(MKDOCS) build --strict --config-file tools/mkdocs.yml # --quiet would hide from --strict what it counts

docs: setup-docs ## the documentation, on http://127.0.0.1:8000, with each change as it is made
	$(MKDOCS) serve --config-file tools/mkdocs.yml $(ARGS)

format: setup-check ## let ruff format and fix what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup-bench ## measure; ARGS="--json FILE"
	@$(BIN)/python -m tests.bench $(ARGS)

pictures: setup-test ## take the pictures of the status page in docs/pictures anew; needs a Chromium
	@PICTURES=1 $(BIN)/python -m pytest -q tests/status/test_page_pictures.py $(ARGS)

compared: setup-bench ## the figures of docs/explanation/compared.md: beside kopf and kr8s, and controller-runtime and kube-rs where go and cargo can build them; ARGS="cost", ARGS="requests"
	@$(BIN)/python -m tests.compared $(ARGS)

fuzz: setup-test ## 50,000 bad requests to the embedded server, half over sockets; and 66,000 bad answers to clients and informers
	@FUZZ_REQUESTS=25000 $(BIN)/python -m pytest -s -q tests/embedded/test_raw_http.py tests/embedded/test_bad_requests.py $(ARGS)
	@HOSTILE_ANSWERS=3000 $(BIN)/python -m pytest -s -q --timeout 3600 tests/client/test_hostile_answers.py tests/informers/test_unreadable.py

chaos: setup-test ## half an hour of lies, kills and freezes between two replicas and their server; ARGS="--seconds 60 --seed N"
	@$(BIN)/python -m tests.chaos $(ARGS)

KILLS ?= 200
kills: setup-test ## the durable server under SIGKILL, 200 times, each compared with what clients were told; KILLS=20 for a part
	@KILLS=$(KILLS) $(BIN)/python -m pytest -s -q tests/embedded/test_durable_kills.py $(ARGS)

TRANSITION_SECONDS ?= 900
laboratory: setup-test ## proofs of the test kit in full: 1,000 recorded runs of each bundled controller, all tools on all bug patterns, bundled controllers explored
	@RECORDED_RUNS=1000 $(BIN)/python -m pytest -s -q -p no:logging tests/recording/test_replayed_controllers.py $(ARGS)
	@LABORATORY=1 $(BIN)/python -m pytest -s -q -p no:logging --timeout 7200 tests/verification \
		tests/simulation/test_exploration.py tests/simulation/test_exploration_states.py tests/simulation/test_explored_controllers.py tests/adoption/test_migration.py tests/adoption/test_migration_and_back.py $(ARGS)
	@STEPS_RUNS=0 $(BIN)/python -m pytest -s -q -p no:logging --timeout 7200 tests/blocks/test_steps_at_work.py $(ARGS)
	@TRANSITIONS_IN_FULL=1 TRANSITION_SECONDS=$(TRANSITION_SECONDS) $(BIN)/python -m pytest -s -q --timeout 7200 \
		tests/testing/test_transitions.py tests/controllers/test_spec_transitions.py $(ARGS)

soak: setup-test ## the work queue: 10,000 seeds, a million keys; informers: 20,000 histories, 10,000 reconnects; 30 hours of faults
	@$(BIN)/python -m tests.workqueue.fuzz --seeds 10000 $(ARGS)
	@$(BIN)/python -m tests.workqueue.leak
	@COPY_SEEDS=2000 $(BIN)/python -m pytest -s -q -p no:logging --timeout 7200 tests/controllers/test_registrysecrets_faults.py
	@HISTORIES=20000 $(BIN)/python -m pytest -s -q -p no:logging --timeout 7200 tests/simulation/test_informer_histories.py
	@RECONNECTS=10000 $(BIN)/python -m pytest -s -q -p no:logging --timeout 7200 tests/informers/test_hostile_server.py -k reconnects
	@$(BIN)/python -m tests.reconcile.soak
	@STORMS_IN_FULL=1 $(BIN)/python -m pytest -s -q --timeout 7200 tests/storms/test_storms.py tests/storms/test_storm_loops.py tests/storms/test_echoes.py
	@RAYCLUSTERS=1000 PIPELINES=1000 HISTORIES_OVER_HTTP=1 $(BIN)/python -m pytest -s -q \
		tests/controllers/test_workergroups_quiet.py tests/controllers/test_registrysecrets_quiet.py \
		tests/conformance/test_histories.py

newcomer: setup-test ## the first hour from the built wheel, with `reconcile dev` up for 10 s; the tests give it 3
	@NEWCOMER_DEV_SECONDS=10 $(BIN)/python -m pytest -q tests/commands/test_newcomer.py $(ARGS)

# RUNS and SEEDS bound each sweep; each says how much of the whole it played. RUNS=0: every single fault.
RUNS ?= 0
SEEDS ?= 2000
SWEPT := docs/examples tests/simulation/test_bundled_scenarios.py tests/simulation/test_played_workloads.py \
	tests/simulation/test_workloads.py tests/simulation/test_shared_sweeps.py \
	tests/controllers/test_workergroups_simulated.py \
	tests/controllers/test_autoscaling_simulated.py tests/controllers/test_fleets_simulated.py \
	tests/controllers/test_nodegroups_simulated.py tests/controllers/test_nodegroups_faults.py \
	tests/webhooks/test_rotation.py tests/webhooks/test_certificate_keeper.py tests/sharding/test_protocol.py \
	tests/shipping/test_from_install_to_uninstall.py tests/manager/test_deaths_at_writes.py
sweep: setup-test ## examples, simulated workloads and bundled controllers under every single fault and 2,000 seeds; RUNS=20 SEEDS=10 for a part
	@SWEEP_RUNS=$(RUNS) SWEEP_SEEDS=$(SEEDS) $(BIN)/python -m pytest -s -q --timeout 7200 \
		-k "survives or bundled or workloads or simulated or nodegroups_faults or rotation or protocol or died" $(SWEPT) $(ARGS)

SCHEDULES ?= 100000
shards: setup-test ## replicas that share objects under 100,000 schedules of faults, 7 hours of one core; SCHEDULES=100 for a part
	@SHARD_SCHEDULES=$(SCHEDULES) $(BIN)/python -m pytest -s -q -p no:logging tests/manager/test_sharding_simulated.py $(ARGS)

alerts: setup-test ## each alert under its planned fault, and RUNS=200 healthy runs in which none may fire: an hour of one core
	@ALERT_FAULTS=all ALERT_RUNS=$(if $(filter command% environment,$(origin RUNS)),$(RUNS),200) $(BIN)/python -m pytest -s -q -p no:logging \
		tests/monitoring/test_alerts.py tests/monitoring/test_rule_cases.py $(ARGS)

coverage: setup-quality ## branch coverage; fails where a package has less than 92 per cent
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest -q --timeout 600 --deselect tests/manager/test_import_cost.py \
		--deselect tests/testing/test_single_run.py::test_a_unit_test_takes_less_than_5_ms $(ARGS)
	@$(BIN)/python -m coverage combine --quiet
	@for package in workqueue informers reconcile controllers; do \
		$(BIN)/python -m coverage report --include="$$package/*" || exit 1; done

mutants: setup-quality ## mutation testing of what decides, an hour in full; ARGS="workqueue", ARGS="fleets --again"
	@$(BIN)/python tools/mutants.py $(ARGS)

uvloop: setup-test ## the tests that run in real time, on uvloop
	@EVENT_LOOP=uvloop $(BIN)/python -m pytest -q tests/workqueue tests/informers tests/client tests/controller tests/manager tests/ops tests/embedded $(ARGS)

lock: setup-run ## write constraints.txt anew from pyproject.toml; ARGS="--upgrade"
	@$(BIN)/python tools/lock.py $(ARGS)

rules: setup-test ## each rule of docs/reference/rules.md and the tests that hold us to it
	@$(BIN)/python tools/rules.py

clean: ## remove .venv and every cache
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
