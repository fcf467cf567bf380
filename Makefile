# The front door. Every target sets up what it needs; a fresh machine needs nothing but make, git and Debian's packages.
JOBS ?= $(shell nproc)
CTEST := ctest --output-on-failure --no-tests=error
CONFIGURE = cmake --preset $(1) $(CMAKE_ARGS) -Wno-dev --log-level=WARNING

.PHONY: help setup build demo test check bench fuzz parity lint format install clean

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## install what is missing from Debian's packages
	@scripts/setup

build: setup ## the program at build/release/cortiq
	@$(call CONFIGURE,release) && cmake --build --preset release -j $(JOBS)

demo: build ## convert, verify and ask the small model that the repository carries
	@scripts/demo build/release/cortiq

test: build ## release build, unit and end-to-end tests, bounded fuzz corpora
	@$(CTEST) --test-dir build/release -j $(JOBS)

check: test ## the heavier tier: both compilers, sanitizers, the 5 GB file, long fuzzing
	@scripts/setup --dev && scripts/check

bench: setup ## micro-benchmarks and whole-program ones, beside this machine's limits
	@scripts/setup --dev && $(call CONFIGURE,bench) && cmake --build --preset bench -j $(JOBS) && bench/run build/bench

FUZZ_SECONDS ?= 20
fuzz: ## a bounded run of every fuzz target under address and undefined-behaviour sanitizers
	@scripts/setup --dev && $(call CONFIGURE,fuzz) && cmake --build --preset fuzz -j $(JOBS) && \
	  scripts/fuzz build/fuzz $(FUZZ_SECONDS)

PARITY_SECONDS ?= 0
parity: build ## tokenizers and templates against the genuine libraries (npm, python3-jinja2) where they are installed
	@scripts/parity build/release $(PARITY_SECONDS)

lint: ## layers, file lengths, words that don't belong, formatting
	@python3 scripts/lint.py

format: ## clang-format on every source
	@git ls-files '*.cc' '*.h' | xargs clang-format -i

PREFIX ?= /usr/local
install: build ## library, headers, program, CMake and pkg-config files below PREFIX
	@cmake --install build/release --prefix $(PREFIX)

clean: ## remove every build
	@rm -rf build
