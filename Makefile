# Every command of the project; docs/HACKING.md explains them. `make` alone lists them.
SEEDS ?= 0..20000
LAYER ?= all
RUNS ?= 1000000
SEED ?= 0
MINUTES ?= 60

.DEFAULT_GOAL := help
.PHONY: help setup setup-build build wheel dist demo test test-kernel bench chaos soak seeds fuzz live miri fmt clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: ## install missing tools: Rust, a C compiler, fio, qemu-utils, nbdkit, libnbd, fuse3, Python
	@scripts/setup.sh test

# Tools for building alone.
setup-build:
	@scripts/setup.sh build

build: setup-build ## build everything into target/release
	@scripts/cargo.sh build --release --workspace

wheel: ## the Python package, as one wheel in target/wheels
	@scripts/setup.sh wheel
	@scripts/wheel.sh

dist: setup-build ## what is given to others, in target/dist: static program, .deb, manual, completions, container file
	@scripts/dist.sh

demo: ## the main job in a minute: advice, a volume that is killed, a device that dies (hostftl demo)
	@scripts/demo.sh

test: ## every check: formatting, lints, tests, real clients, power cuts
	@scripts/test.sh

test-kernel: build ## volumes under a real kernel that QEMU boots in seconds: NAME="nbd zoned", all without
	@tests/kernel/run.sh $(NAME)

bench: build ## speed of simulation and of the server, five runs each
	@scripts/setup.sh bench
	@bench/run.sh

chaos: setup-build ## power cuts and faults: SEEDS=a..b LAYER=all|hard|passthrough|exerciser|targets RESUME=file
	@scripts/cargo.sh build --release -p hostftl-chaos
	@"$$(scripts/cargo.sh where)/hostftl-chaos" --seeds $(SEEDS) --layer $(LAYER) \
	    $(if $(RESUME),--resume $(RESUME))

soak: setup-build ## a volume over files with kills, broken devices and every device command: MINUTES=60 SEED=0
	@scripts/cargo.sh build --release -p hostftl-cli
	@python3 tests/soak/soak.py "$$(scripts/cargo.sh where)/hostftl" --minutes $(MINUTES) --seed $(SEED)

seeds: setup-build ## renew the seeds that `make test` runs (crates/check/chaos/seeds.txt): LAYER=name
	@scripts/cargo.sh build --release -p hostftl-chaos
	@"$$(scripts/cargo.sh where)/hostftl-chaos" --list crates/check/chaos/seeds.txt --renew --layer $(LAYER)

fuzz: setup-build ## mutated input for every parser: RUNS=n per target, TARGET=name SEED=first
	@scripts/cargo.sh run --release --quiet -p hostftl-fuzz -- --runs $(RUNS) --seed $(SEED) \
	    $(if $(TARGET),--target $(TARGET))

live: setup-build ## every layer at real size and full, devices of 256 TiB, a cut after each write of a device command: half an hour
	@scripts/cargo.sh test --release -p hostftl-sim --test suite liveness -- --ignored --nocapture
	@scripts/cargo.sh test --release -p hostftl-serve --test liveness -- --ignored --nocapture --test-threads=1
	@scripts/cargo.sh test --release -p hostftl-layers --test suite -- far log_full --ignored --nocapture
	@scripts/cargo.sh test --release -p hostftl-volume --test volume commands_interrupted_after_any_step_are_finished_or_undone -- --ignored --nocapture

miri: setup-build ## undefined behaviour in unsafe code: what Miri of nightly Rust can run, 5 minutes
	@scripts/miri.sh

fmt: setup-build ## format the code
	@scripts/cargo.sh fmt --all

clean: ## remove what was built
	@rm -rf target
