# Short commands for what is done most often. On a fresh Debian 12, `make run` and `make test`
# install the packages that are missing first (see tools/install_deps.sh).

FUZZ_SECONDS ?= 60
TEST_JOBS ?= 2
MODEL ?= models/demo-q8_0.gguf
PROMPT ?= Once upon a time
CLANG_FORMAT ?= clang-format-14

FUZZ_TARGETS = $(patsubst fuzz/%.cpp,fuzz_%,$(filter-out fuzz/replay_main.cpp,$(wildcard fuzz/*.cpp)))
FORMATTED = $(shell find apps bench fuzz include src tests -name node_modules -prune -o -name '*.cpp' -print -o -name '*.h' -print)

.PHONY: help run build test bench fuzz asan tsan format lint clean deps deps-fuzz deps-lint

help:
	@echo "make run     build and let the bundled model tell a story (MODEL=, PROMPT=)"
	@echo "make build   build the release preset into build/"
	@echo "make test    build and run all tests"
	@echo "make bench   build and run the micro-benchmarks"
	@echo "make fuzz    run every fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)"
	@echo "make asan    all tests under AddressSanitizer and UBSan; make tsan: ThreadSanitizer"
	@echo "make format  format the sources;  make lint: check format and rooms"
	@echo "make clean   remove the build folders"

deps:
	@sh tools/install_deps.sh build
deps-fuzz:
	@sh tools/install_deps.sh build fuzz
deps-lint:
	@sh tools/install_deps.sh build lint

build/build.ninja: | deps
	cmake --preset release

run: build/build.ninja | deps
	@cmake --build build --target strata
	build/strata run -m $(MODEL) -p "$(PROMPT)"

build: build/build.ninja | deps
	cmake --build build

test: build
	ctest --test-dir build --output-on-failure -j $(TEST_JOBS)

bench: build
	@found=0; for b in build/bench/bench_*; do \
	  if [ -x "$$b" ]; then found=1; echo "$$b"; "$$b" || exit 1; fi; done; \
	if [ $$found = 0 ]; then echo "no micro-benchmarks were built"; fi

fuzz: deps-fuzz
	cmake --preset fuzz -DCMAKE_CXX_COMPILER=clang++-14 > /dev/null
	cmake --build build-fuzz --target $(FUZZ_TARGETS)
	sh tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

asan tsan: deps
	cmake --preset $@ > /dev/null
	cmake --build build-$@
	ctest --test-dir build-$@ --output-on-failure -j $(TEST_JOBS)

format: deps-lint
	$(CLANG_FORMAT) -i $(FORMATTED)

lint: deps-lint
	$(CLANG_FORMAT) --dry-run -Werror $(FORMATTED)
	python3 tools/check_rooms.py

clean:
	rm -rf build build-debug build-asan build-tsan build-fuzz
