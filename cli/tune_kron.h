/*
 * tune_kron.h - `gram tune kron`: which groups of Kronecker factors are fastest on a GPU
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_TUNE_KRON_H
#define GRAM_CLI_TUNE_KRON_H
#include "command.h"

/* x has so many rows; factor i is rows[i] by cols[i]. */
struct tune_kron {
    gram_dtype dtype;
    int64_t m, rows[GRAM_MAX_FACTORS], cols[GRAM_MAX_FACTORS];
    int count, json;
};

/* Reads M and the sizes P or PxQ. */
enum exit_status tune_kron_parse(int count, char **operands, struct tune_kron *t,
                                 struct failure *why);
enum exit_status tune_kron(gram_context *g, const struct tune_kron *t, struct failure *why);
#endif
