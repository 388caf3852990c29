# The README uses `make demo` and `make test`; `make help` lists all targets.

CARGO ?= cargo
DATA ?=
FOR ?= 30s
KAFKA ?= mock
PAGES ?= 1000000
PARTS ?=
PROFILE ?= release
SCHEDULES ?= 100000
SEED ?= 1
TEXTS ?=

# Tests against a broker mostly wait, so use at least six threads.
THREADS ?= $(shell cores=$$(nproc); echo $$((cores < 6 ? 6 : cores)))

# The binary that cargo builds for a profile.
BUILT = $(or $(CARGO_TARGET_DIR),target)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/dupgate

.DEFAULT_GOAL := help
.PHONY: help demo test check lint simulate fuzz fuzz-check docs deny bench bench-index bench-scale bench-families eval eval-sites mutants chaos soak fleet kafka-up kafka-down kafka-status tools

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 17

demo: ## Run a demo pipeline with a generated crawl; FOR=2m for longer, KAFKA=real for a real broker
	@tests/tools.sh $(if $(filter real,$(KAFKA)),test,build)
ifeq ($(KAFKA),real)
	@$(CARGO) build --release
	@address=$$(tests/broker/kafka.sh up) && trap 'tests/broker/kafka.sh down' EXIT && \
		$(CARGO) run --release --quiet -- demo --for $(FOR) --brokers "$$address"
else
	@$(CARGO) run --release -- demo --for $(FOR)
endif

test: ## Run all tests, including those against a real Kafka
	@tests/tools.sh test
	RUST_TEST_THREADS=$(THREADS) $(CARGO) test --locked --workspace

check: lint ## Before a commit: format, lints, pure crates, documents; no broker, a minute after the first build
	$(CARGO) test --locked --quiet -p dupgate-core -p dupgate-index -p dupgate-lab -p dupgate-segmenter --lib
	$(CARGO) test --locked --quiet --test architecture --test consistency

lint: ## Check formatting and clippy, with warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

simulate: ## Run random schedules, count which calls met which faults, and shrink what fails; SCHEDULES=1000 for fewer, SEED=7 to begin there
	@seed=$(if $(filter-out file,$(origin SEED)),$(SEED),$$(od -An -N4 -tu4 /dev/urandom)) && echo SEED=$$((seed)) && \
		DUPGATE_SIM_SEEDS=$$((seed))..$$((seed + $(SCHEDULES))) \
		$(CARGO) test --locked --release --quiet -p dupgate-core --test simulation random_schedules

fuzz/Cargo.lock: Cargo.lock
	@cp $< $@

fuzz: fuzz/Cargo.lock ## Run each fuzz target for a minute; FOR=10m for longer; installs cargo-fuzz
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install cargo-fuzz --locked
	$(CARGO) fuzz build --sanitizer none
	@for target in $$($(CARGO) fuzz list); do \
		$(CARGO) fuzz run --sanitizer none $$target -- -timeout=10 -print_final_stats=1 \
			-max_total_time=$$(($(if $(filter-out file,$(origin FOR)),$(subst m,*60,$(FOR:s=)),60))) || exit 1; \
	done

fuzz-check: fuzz/Cargo.lock ## Check that the fuzz targets build
	$(CARGO) check --manifest-path fuzz/Cargo.toml --target-dir $(or $(CARGO_TARGET_DIR),target) --quiet

docs: ## Build the API documentation, with warnings denied
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items --quiet

deny: ## Check licences, bans and sources of all dependencies; installs cargo-deny, which takes some minutes
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install cargo-deny --locked
	$(CARGO) deny check licenses bans sources

.PHONY: deny-if-installed
deny-if-installed:
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny check licenses bans sources; \
	else \
		echo "cargo-deny is not installed: dependencies are not checked (run make deny)"; \
	fi

bench: ## Measure speed; prints tables, then one JSON object as the last line; DUPGATE_BENCH_QUICK=1 for a short run, PARTS="scaling" for some parts
	@tests/tools.sh test >&2
	@$(CARGO) bench --locked --bench speed -- $(PARTS)

bench-index: ## Measure the windowed index and compare it with FAISS and others; PARTS="huge" for a hundred million codes
	@target/faiss/bin/python -c 'import faiss' 2>/dev/null || { python3 -m venv target/faiss && target/faiss/bin/pip --quiet install faiss-cpu numpy; } >&2
	@$(CARGO) bench --locked -p dupgate-index --bench window -- $(PARTS)
	@$(CARGO) bench --locked --bench restore

bench-scale: ## Measure mistakes and cost among a million generated pages; TEXTS=a.jsonl as their source, PAGES=100000 for fewer
	@$(CARGO) bench --locked --bench quality -- $(TEXTS) $(PAGES)

bench-families: ## Measure the cost of many similar pages: templates, scopes, common blocks; PAGES=20000 for fewer
	@DUPGATE_BENCH_CHECK=1 $(CARGO) bench --locked --bench families -- $(if $(filter-out file,$(origin PAGES)),$(PAGES),200000)

eval-sites: ## Measure how many pages of one site are lost because they share text; TEXTS=a.jsonl, or PAGES=100000 generated ones
	@$(CARGO) build --locked --profile $(PROFILE) --bin dupgate
	@$(BUILT) eval --sites --check $(or $(TEXTS),--pages $(if $(filter-out file,$(origin PAGES)),$(PAGES),100000))

eval: ## Measure quality in three length ranges, three seeds each; DATA=folder with JSON Lines files
	@$(CARGO) build --locked --profile $(PROFILE) --bin dupgate
	@python3 benches/quality/bands.py $(BUILT) $(wildcard $(DATA:%=%/*.jsonl))

mutants: ## Inject bugs and check that the simulation catches each one
	@tests/tools.sh build
	@tests/mutants.sh

chaos: ## Cause faults in a fleet of four on three brokers, and check that each page comes out once; FOR=10m, SEED=7 for other faults
	@tests/tools.sh test
	DUPGATE_CHAOS_FOR=$(if $(filter-out file,$(origin FOR)),$(FOR),2m) DUPGATE_CHAOS_SEED=$(SEED) \
		$(CARGO) test --locked --test proof chaos -- --ignored --nocapture

soak: ## Turn a small window over twenty times in an hour, and check that nothing grows; FOR=20m, the least, for a shorter run
	@tests/tools.sh test
	DUPGATE_SOAK_FOR=$(if $(filter-out file,$(origin FOR)),$(FOR),1h) \
		$(CARGO) test --locked --test proof soak -- --ignored --nocapture

fleet: ## Measure what workers and partitions cost brokers, judge and worker (docs/SCALING.md); ten minutes
	@tests/tools.sh test
	$(CARGO) test --locked --release --test proof fleet:: -- --ignored --nocapture

kafka-up: ## Start a broker that keeps running; prints its address
	@tests/broker/kafka.sh up

kafka-down: ## Stop that broker
	@tests/broker/kafka.sh down

kafka-status: ## Print the address of that broker
	@tests/broker/kafka.sh status

# Cache for tools, images and layers of the deployment tests, about 5 GB; outside of target/, so that a clean checkout
# can use it.
export DUPGATE_DEPLOY_TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dupgate/deploy

# The binary that `make test-deploy` tests: DUPGATE_BIN, or the one that the tests build.
PROGRAM = $(or $(DUPGATE_BIN),$(or $(CARGO_TARGET_DIR),target)/debug/dupgate)

.PHONY: test-deploy test-program test-chart test-dashboards test-failover test-compose chart-readme
test-deploy: test-chart test-dashboards test-failover test-compose ## Test chart, upgrades, dashboards, alerts, takeovers, image and compose file for real

test-program:
ifndef DUPGATE_BIN
	@tests/tools.sh test
	@$(CARGO) build --locked --bin dupgate
endif

test-chart: test-program ## Test the Helm chart: render it, check it with dupgate, install it into an API server
	@DUPGATE_BIN="$(PROGRAM)" tests/deploy/chart/run.sh

test-dashboards: test-program ## Test dashboards, alert rules and runbooks with the service under Prometheus
	@tests/deploy/dashboards/run.sh $(PROGRAM)

test-failover: ## Measure how long outputs pause when a judge is stopped or killed, and in upgrades of the chart; a burst for a slow judge; stalled and slow brokers
	@tests/tools.sh test
	$(CARGO) test --locked --test proof -- --ignored --skip soak:: --skip fleet:: --nocapture --test-threads 1
	$(CARGO) test --locked --test broker -- --ignored --nocapture --test-threads 1

test-compose: ## Test the image and docker-compose.yml with buildah and podman; needs root on a Debian-like machine
	@tests/deploy/compose/run.sh

chart-readme: ## Generate the values table in the chart's README
	@"$$(tests/deploy/chart/tools.sh)/python/bin/python" tests/deploy/chart/readme.py
