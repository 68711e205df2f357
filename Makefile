# The front door: each target is one script or tool, which says what it does.
PREFIX ?= /usr/local
SUITES ?= tools release dist clients asan
export DESTDIR FUZZ_SECONDS JOBS SLUICE_CRASHES SLUICE_CRASH_SEED

.DEFAULT_GOAL := help
.PHONY: help run build check test test-all test-crash bench fuzz lint format install dist clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## install what is missing, build, and serve the example policy (ARGS=... are added to `sluice serve`)
	@scripts/run $(ARGS)

build: ## leave the release binary at build/release/sluice
	@scripts/setup run
	@scripts/build release sluice

check: ## build and run the unit tests of src/, release only: what to run all day
	@scripts/setup test
	@tools/run_tests.py unit

test: ## build and run every test, with g++ and again with clang's address and undefined-behaviour checks
	@scripts/setup test
	@tools/run_tests.py $(SUITES)

test-all: ## also thread checks, long scenarios of Redis Cluster, 1,000 exchanges of a certificate, windows of the calendar in all time zones, forty programs that share ten places for minutes, ways to keep a budget side by side, Envoy Gateway, an upgrade from the previous release, Valkey, every fuzz target for a minute, the other builds, `make install`, a bare Debian 12, Debian 13, and all that `make dist` leaves
	@scripts/setup bench
	@tools/run_tests.py tools release again install dist ship clients crash scenarios exchanges zones holders overspend gateway upgrade valkey asan tsan debug packages bare source bench fuzz

test-crash: ## kill the server SLUICE_CRASHES times (200) under load, and compare its counters with every answer
	@scripts/setup test
	@tools/run_tests.py crash

bench: ## microbenchmarks, tests that assert times, processor time per reply beside a bare server's, memory per counter
	@scripts/setup bench
	@scripts/bench

fuzz: ## every fuzz target for FUZZ_SECONDS (60), or only those named by TARGETS=...
	@scripts/setup test
	@scripts/fuzz $(TARGETS)

lint: ## layout, layers and static analysis
	@scripts/setup test
	@scripts/lint

format: ## lay out the source as `make lint` wants it
	@scripts/setup test
	@scripts/lint --fix

install: build ## install the program and the libraries under PREFIX (/usr/local), below DESTDIR if given
	@scripts/build release sluice public_libraries
	@cmake --install build/release --strip --prefix "$(PREFIX)"

dist: ## leave a release in dist/: static programs, image, packages, sums (ARGS='--only amd64' without arm64)
	@scripts/dist $(ARGS)

clean: ## remove everything built
	rm -rf build dist tests/clients/*/node_modules tests/clients/*/*/node_modules
