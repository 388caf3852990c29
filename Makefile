# The README needs two of these: `make demo` and `make test`.

CARGO ?= cargo
DATA ?=
FOR ?= 30s
KAFKA ?= mock
PAGES ?= 1000000
PARTS ?=
PROFILE ?= release
TEXTS ?=

# Tests against a broker wait more than they compute: one more than two cores have.
THREADS ?= $(shell cores=$$(nproc); echo $$((cores < 3 ? 3 : cores)))

# Where cargo puts the program of a profile.
BUILT = $(or $(CARGO_TARGET_DIR),target)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/dupgate

.DEFAULT_GOAL := help
.PHONY: help demo test check lint docs deny bench bench-index bench-quality bench-scale bench-families eval eval-sites mutants kafka-up kafka-down kafka-status tools

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## Watch pages being judged; FOR=2m for longer, KAFKA=real over a real broker
	@tests/tools.sh $(if $(filter real,$(KAFKA)),test,build)
ifeq ($(KAFKA),real)
	@$(CARGO) build --release
	@address=$$(tests/broker/kafka.sh up) && trap 'tests/broker/kafka.sh down' EXIT && \
		$(CARGO) run --release --quiet -- demo --for $(FOR) --brokers "$$address"
else
	@$(CARGO) run --release -- demo --for $(FOR)
endif

test: ## Run all tests, those against a real Kafka included
	@tests/tools.sh test
	RUST_TEST_THREADS=$(THREADS) $(CARGO) test --locked --workspace

check: lint ## Before a commit: format, lints, the pure crates, what is written beside the code; no broker, a minute on a warm tree
	$(CARGO) test --locked --quiet -p dupgate-core -p dupgate-index -p dupgate-lab --lib
	$(CARGO) test --locked --quiet --test architecture --test consistency

lint: ## Formatting and clippy, warnings denied
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

docs: ## API documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --document-private-items --quiet

deny: ## Licences, bans and sources of all dependencies; installs cargo-deny, which takes some minutes
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install cargo-deny --locked
	$(CARGO) deny check licenses bans sources

.PHONY: deny-if-installed
deny-if-installed:
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny check licenses bans sources; \
	else \
		echo "cargo-deny is not installed: dependencies are not checked here (make deny does)"; \
	fi

bench: ## Speed: tables, then one JSON object as the last line; DUPGATE_BENCH_QUICK=1 for a short run
	@tests/tools.sh test >&2
	@$(CARGO) bench --locked --bench speed

bench-index: ## Speed of the windowed index, beside rivals and FAISS; PARTS="huge" for a hundred million codes
	@target/faiss/bin/python -c 'import faiss' 2>/dev/null || { python3 -m venv target/faiss && target/faiss/bin/pip --quiet install faiss-cpu numpy; } >&2
	@$(CARGO) bench --locked -p dupgate-index --bench window -- $(PARTS)
	@$(CARGO) bench --locked --bench restore

bench-quality: ## Verdicts beside those of other packages, which it installs below target/; TEXTS="a.jsonl b.jsonl"
	@test -x target/quality/bin/python || { python3 -m venv target/quality && \
		target/quality/bin/pip --quiet install -r benches/quality/requirements.txt && \
		target/quality/bin/pip --quiet install --no-deps text-dedup==0.4.0; } >&2
	@$(CARGO) build --locked --profile $(PROFILE) --bin dupgate
	@$(CARGO) build --locked --release --manifest-path benches/quality/gaoya/Cargo.toml --target-dir target/gaoya
	@target/quality/bin/python benches/quality/rivals.py --dupgate $(BUILT) $(TEXTS)

bench-scale: ## What goes wrong and what it costs among a million pages; TEXTS=a.jsonl to make them of, PAGES=100000 for fewer
	@$(CARGO) bench --locked --bench quality -- $(TEXTS) $(PAGES)

bench-families: ## What judging costs where many pages are alike: templates, scopes, common blocks; PAGES=20000 for fewer
	@DUPGATE_BENCH_CHECK=1 $(CARGO) bench --locked --bench families -- $(if $(filter-out file,$(origin PAGES)),$(PAGES),200000)

eval-sites: ## Pages of one site that share half of their text: how many are lost; TEXTS=a.jsonl, else PAGES=100000 generated ones
	@$(CARGO) build --locked --profile $(PROFILE) --bin dupgate
	@$(BUILT) eval --sites --check $(or $(TEXTS),--pages $(if $(filter-out file,$(origin PAGES)),$(PAGES),100000))

eval: ## Quality in three bands of lengths, three seeds each; DATA=folder with files of JSON lines
	@$(CARGO) build --locked --profile $(PROFILE) --bin dupgate
	@python3 benches/quality/bands.py $(BUILT) $(wildcard $(DATA:%=%/*.jsonl))

mutants: ## Break the machine on purpose and see every breakage caught
	@tests/tools.sh build
	@tests/mutants.sh

kafka-up: ## Start a broker that stays; prints its address
	@tests/broker/kafka.sh up

kafka-down: ## End that broker
	@tests/broker/kafka.sh down

kafka-status: ## Print its address
	@tests/broker/kafka.sh status

# Where the tests of the deployment keep tools, images and layers from one run to the next, some 5 GB: outside of target/, so that
# a clean checkout finds them.
export DUPGATE_DEPLOY_TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dupgate/deploy

# What `make test-deploy` runs. DUPGATE_BIN is the program; without it the one that the tests build.
PROGRAM = $(or $(DUPGATE_BIN),$(or $(CARGO_TARGET_DIR),target)/debug/dupgate)

.PHONY: test-deploy test-program test-chart test-dashboards test-failover test-compose chart-readme
test-deploy: test-chart test-dashboards test-failover test-compose ## Chart, dashboards, alerts, take-overs, image and compose file: all of them run for real

test-program:
ifndef DUPGATE_BIN
	@tests/tools.sh test
	@$(CARGO) build --locked --bin dupgate
endif

test-chart: test-program ## The Helm chart: rendered, read by dupgate, and installed into an API server
	@DUPGATE_BIN="$(PROGRAM)" tests/deploy/chart/run.sh

test-dashboards: test-program ## Dashboards, alert rules and runbooks, on the service under Prometheus
	@tests/deploy/dashboards/run.sh $(PROGRAM)

test-failover: ## How long outputs pause when a judge is stopped, killed or replaced; a burst for a slow judge
	@tests/tools.sh test
	$(CARGO) test --locked --test proof -- --ignored --nocapture --test-threads 1

test-compose: ## The image and docker-compose.yml, run by buildah and podman; needs root on a Debian-like machine
	@tests/deploy/compose/run.sh

chart-readme: ## Write the table of values in the chart's README
	@"$$(tests/deploy/chart/tools.sh)/python/bin/python" tests/deploy/chart/readme.py
