/*
 * trace.h - what a test program does, written down line by line for scripts/same
 *
 * Where GRAM_TEST_TRACE names a file, the harness appends to it which row runs, the bytes of every
 * workspace query, a hash of every tensor and of the numbers that checks are given to print; the
 * emulated driver (tools/cudaemu) appends its
 * launches, its copies and what libraries are asked for.  A line holds no address, so that two runs
 * of one program write the same lines.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_TRACE_H
#define GRAM_TEST_TRACE_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool trace_wanted(void);
/* Appends one line in one write, so that lines of several threads and processes stay whole; the
 * text has no newline.  Does nothing where no file is wanted. */
void trace_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* FNV-1a, continued: the first call begins with TRACE_HASH. */
#define TRACE_HASH UINT64_C(0xCBF29CE484222325)
uint64_t trace_hash(uint64_t hash, const void *bytes, size_t size);
/* The same with the doubles that are given for a printf format, and counts them. */
uint64_t trace_numbers(uint64_t hash, int64_t *count, const char *format, va_list args);
#endif
