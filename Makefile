# Makefile - the short commands; CMakeLists.txt is the real build
#
#   make          build build/libgram.so and build/gram
#   make demo     install what is missing, build, and learn and predict on a real data set
#   make test     install what the tests need, build, run the tests and the quick checks
#                 (GRAM_TEST_TORCH=1: with PyTorch, which is 0.6 GB; see CONTRIBUTING.md)
#   make check    all checks: the quick ones (style, includes, symbols, ...), clang-tidy, the cross
#                 build, the sanitizers and the fuzzers (PARTS=thorough: without the quick ones)
#   make format   lay out every C file as .clang-format says
#   make docs     the documentation site, build/docs/html/index.html
#   make coverage lines and branches of the C code that the tests run (scripts/coverage)
#   make release  archives, wheels, packages, checksums and notes, in build/release
#   make bench    measure against other packages (installs them in build/bench-venv);
#                 SUBJECTS says what, see bench/README.md
#   make battery  how well gram fit and other packages predict tables (installs them in
#                 build/battery-venv); BATTERY has options, see bench/README.md
#   make install  PREFIX=/usr/local, DESTDIR= as usual
#
# BUILD= names another build folder, CMAKE_FLAGS= adds options for CMake.

BUILD ?= build
PREFIX ?= /usr/local
CMAKE_FLAGS ?=
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
GRAM_TEST_TORCH ?=
PARTS ?=
SUBJECTS ?= cdist kernel gradients machine
BATTERY ?=
export BUILD CMAKE_FLAGS JOBS GRAM_TEST_TORCH

all:
	@scripts/bootstrap --check build
	@scripts/bootstrap cuda
	@scripts/build programs

demo:
	@scripts/bootstrap build
	@scripts/bootstrap cuda
	@scripts/build programs
	@scripts/demo

test:
	@scripts/bootstrap test
	@scripts/bootstrap cuda
	@scripts/test

check:
	@scripts/bootstrap --check build
	@scripts/bootstrap cuda
	@scripts/build all
	@scripts/check $(PARTS)

format:
	@scripts/bootstrap test
	@scripts/files '*.c' '*.h' | xargs "$(BUILD)/venv/bin/clang-format" -i

docs:
	@scripts/docs

coverage:
	@scripts/bootstrap test
	@scripts/coverage

release:
	@scripts/release

bench:
	@scripts/bootstrap bench
	@scripts/build programs -DGRAM_PYTHON=ON
	@PYTHONPATH="$(BUILD)/python" "$(BUILD)/bench-venv/bin/python" bench/compare.py $(SUBJECTS) \
	    --library "$(BUILD)/libgram.so"

battery:
	@scripts/bootstrap battery
	@scripts/build programs -DGRAM_PYTHON=ON
	@PYTHONPATH="$(BUILD)/python" "$(BUILD)/battery-venv/bin/python" bench/battery/run.py \
	    "$(BUILD)/battery.jsonl" --library "$(BUILD)/libgram.so" $(BATTERY)
	@PYTHONPATH="$(BUILD)/python" "$(BUILD)/battery-venv/bin/python" bench/battery/report.py \
	    "$(BUILD)/battery.jsonl" --out "$(BUILD)/battery.md" --picture "$(BUILD)/battery.svg"

install: all
	@cmake --install "$(BUILD)" --prefix "$(PREFIX)"

clean:
	@rm -rf "$(BUILD)"

.PHONY: all demo test check format docs coverage release bench battery install clean
