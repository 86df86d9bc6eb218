/*
 * tune_matrix.h - matrices of numbers to measure with, where the context computes
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_TUNE_MATRIX_H
#define GRAM_CLI_TUNE_MATRIX_H
#include "device.h"

/* Row-major, numbers from 0 to 1 of which no two are alike; f32 or f64. */
enum exit_status tune_matrix(gram_context *g, gram_dtype dtype, int64_t rows, int64_t cols,
                             struct device_matrix *out, struct failure *why);
#endif
