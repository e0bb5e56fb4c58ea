# A thin front for CMake and CTest; docs/contributing.md explains the targets.
#   make demo|test|packages|source|soak|fuzz|coverage|bench|docs [PRESET=release] [JOBS=2]
#   make packages ARCH=arm64
PRESET ?= release
ifeq ($(origin ARCH),command line)
PRESET := $(ARCH)
OTHER  := cross-root
endif
JOBS   ?= $(shell nproc)
BUILD  := build/$(PRESET)
FOLDERS = $(shell sed -n 's,^\([a-z-]*\)[/:].*,\1,p' .ci/layers.txt | sort -u | paste -sd '|')
SOURCES = $(shell find $(subst |, ,$(FOLDERS)) -name '*.cc' -o -name '*.h')

.NOTPARALLEL:
.PHONY: build product packages cross-root source demo test soak fuzz coverage bench docs check format tidy deps test-deps clean

build: deps $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS)

$(BUILD)/build.ninja: CMakePresets.json
	@cmake --preset $(PRESET) $(MOEPACK_WERROR:%=-DMOEPACK_WERROR=%)
	@touch $@

product: deps $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS) --target moepack

packages: deps $(OTHER) $(BUILD)/build.ninja
	@.ci/install-deps.sh package
	@cmake --build $(BUILD) -j $(JOBS) --target moepack moepack-pages moepack-runtime
	@cd $(BUILD) && cpack

cross-root:
	@.ci/install-deps.sh $(ARCH)
	@tools/install/cross_root.sh $(ARCH) build/root-$(ARCH)

source:
	@tools/install/source.sh build

demo: product
	@.ci/demo.sh $(BUILD)/moepack

test: test-deps build
	@tests/run_tests.sh $(BUILD) -LE check

soak: test-deps build
	@.ci/install-deps.sh build test check arm64 bench package soak
	@.ci/soak.sh $(BUILD)

fuzz:
	@.ci/install-deps.sh build check
	@.ci/fuzz.sh 60

coverage:
	@.ci/install-deps.sh build test check
	@cmake --preset coverage >/dev/null
	@.ci/coverage.sh $(JOBS)

bench:
	@.ci/install-deps.sh build bench
	@cmake --preset $(PRESET) -DMOEPACK_BENCH=ON
	@cmake --build $(BUILD) -j $(JOBS)
	@tests/bench/run.sh $(BUILD)

docs: build
	@tests/tree/cli_reference.sh --write docs/cli.md $(BUILD)/moepack

check:
	@.ci/install-deps.sh build test check arm64 bench
	@.ci/check.sh $(JOBS)

format:
	@.ci/install-deps.sh check
	@clang-format -i $(SOURCES)

tidy: build
	@.ci/install-deps.sh check
	@clang-tidy --quiet -p $(BUILD) --header-filter='/($(FOLDERS))/' $(filter %.cc,$(SOURCES))

deps:
	@.ci/install-deps.sh

test-deps:
	@.ci/install-deps.sh build test package

clean:
	@rm -rf build
