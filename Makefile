# Each target is a script or one command of cargo, pytest or entresol. Start with `make demo`.
.PHONY: build core command demo figures reproduction reproduction-full-size test bench nbd-bench \
	nvme-bench bench-dax bench-personalities lint planted-bugs crashlab fs-crashlab killlab \
	mount-killlab endurance e2e posix fuzz wheel clean

TARGET := $(or $(CARGO_TARGET_DIR),target)
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python

build: ## .venv/bin/entresol, the capture plugin and the programs
	@scripts/setup
	@$(MAKE) --no-print-directory core command

# Both of build. One run of cargo: in several a crate would be built anew for each choice of
# features. `make test` builds the core with PROFILE=dev, as the tests of Rust are.
PROFILE ?= release
core:
	cargo build --quiet --profile $(PROFILE) -p tracer -p workloads -p bindings --features bindings/extension-module

command:
	.venv/bin/python scripts/install $(TARGET)/release

demo: build ## the shipped captures on all designs; ends with the path of the report
	.venv/bin/entresol run traces/*.etr --design all --machine demo -o demo

figures: build ## every figure of SkyByte at scale small; OPTIONS="--mode fast" for less time
	.venv/bin/entresol figure skybyte all $(OPTIONS)

reproduction: build ## docs/reproduction*.md: the numbers of the papers' texts beside ours
	.venv/bin/entresol reproduction skybyte -o docs/reproduction.md
	.venv/bin/entresol reproduction bytefs -o docs/reproduction-bytefs.md
	.venv/bin/entresol reproduction dax -o docs/reproduction-dax.md
	.venv/bin/entresol reproduction opencxd -o docs/reproduction-opencxd.md

reproduction-full-size: build ## docs/reproduction-full-size.md: SkyByte's text at the paper's sizes, an hour
	.venv/bin/entresol reproduction skybyte --scale paper -o docs/reproduction-full-size.md

test: ## everything that must hold; it builds what build builds
	@scripts/setup begin
	.venv/bin/python scripts/test

lint: build
	.venv/bin/python scripts/test lint

bench: ## speed, beside a calibration loop of the same run, and the guards of crates/bench/limits.toml
	@scripts/setup bench
	.venv/bin/python scripts/bench
	.venv/bin/python scripts/mount-bench

nbd-bench: build ## NBD servers side by side under fio; IMAGE=DIR for a device, else memory only
	@scripts/setup bench
	scripts/nbd-bench $(IMAGE)

nvme-bench: ## 4 KiB random reads over TCP: our NVMe target beside our NBD server
	cargo build --quiet --release -p bench
	$(TARGET)/release/bench over-tcp

bench-dax: build ## databases with transparent DAX on a mount; OPTIONS="--quick" for some cases
	@scripts/setup databases
	.venv/bin/entresol bench dax $(OPTIONS)

bench-personalities: build ## RocksDB and SQLite on a mount of each personality; OPTIONS="--rounds 3"
	@scripts/setup databases
	.venv/bin/entresol bench personalities $(OPTIONS)

SECONDS_EACH ?= 60
fuzz: ## libFuzzer on every format, SECONDS_EACH; TARGETS="captures nbd" for some
	scripts/fuzz $(SECONDS_EACH) $(TARGETS)

KILLS ?= 1000
killlab: build ## kill -9 of a serving device under load, KILLS times; OPTIONS="--preset bytefs"
	scripts/killlab --kills $(KILLS) $(OPTIONS)

mount-killlab: build ## kill -9 of a mounted file system under load, KILLS times; OPTIONS="--personality nova-like"
	scripts/mount-killlab --kills $(KILLS) $(OPTIONS)

MINUTES ?= 30
endurance: build ## fio with verification on a served device, MINUTES long; OPTIONS="--kills"
	@scripts/setup test
	scripts/fio-endurance --minutes $(MINUTES) $(OPTIONS)

posix: build ## POSIX suites that SUITES=DIR has, built, on a mount; OPTIONS="--only fsx --log FILE"
	scripts/posix --suites "$(or $(SUITES),suites)" $(OPTIONS)

e2e: build ## real ext4 and F2FS in a guest of QEMU beside our likenesses (KINDS=ext4 for one), and NVMe/TCP
	@if scripts/setup e2e; then .venv/bin/python python/tests/nvme_guest.py && scripts/e2e $(KINDS); \
	else echo "e2e: skipped, for what setup says above is missing"; fi

planted-bugs: ## bugs inside firmware and file system, each of which their tests must find
	scripts/planted-bugs
	scripts/planted-fs-bugs
	scripts/planted-dax-bugs

crashlab: build ## power cuts at every step of the firmware; CRASH_POINTS=N of them, a million if left out
	.venv/bin/entresol device crash run --points $(or $(CRASH_POINTS),1000000)

SEQUENCES ?= 50000
fs-crashlab: build ## power cuts under ByteFS: all sequences of 1 and 2 operations, SEQUENCES of 3, two tasks
	.venv/bin/entresol fs crash run --length 1
	.venv/bin/entresol fs crash run --length 2
	.venv/bin/entresol fs crash run --length 2 --two-tasks
	.venv/bin/entresol fs crash run --length 1 --nearly-full
	.venv/bin/entresol fs crash run --length 3 --sequences $(SEQUENCES)

wheel: build ## a wheel that pip installs without Rust, tried in a fresh environment
	scripts/wheel

clean:
	rm -rf target .venv demo results python/entresol/*.so python/entresol/entresol-workloads
