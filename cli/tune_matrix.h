/*
 * tune_matrix.h - matrices of numbers to measure with, where the context computes, and their sizes
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_TUNE_MATRIX_H
#define GRAM_CLI_TUNE_MATRIX_H
#include "device.h"

/* Row-major, numbers from 0 to 1 of which no two are alike; f32 or f64. */
enum exit_status tune_matrix(gram_context *g, gram_dtype dtype, int64_t rows, int64_t cols,
                             struct device_matrix *out, struct failure *why);

/* Reads a whole number from 1 to 2^31; where it ends, or NULL. */
const char *tune_parse_size(const char *text, int64_t *out);
/* The same of a whole operand. */
enum exit_status tune_size(const char *operand, int64_t *out, struct failure *why);
#endif
