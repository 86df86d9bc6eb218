/*
 * tune_kron.h - `gram tune kron`: which groups of Kronecker factors are fastest on a GPU
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_TUNE_KRON_H
#define GRAM_CLI_TUNE_KRON_H
#include "command.h"

/* A product with m rows (left: columns) of factors that are rows[i] by cols[i] as they are used. */
struct tune_kron {
    gram_dtype dtype;
    gram_side side;
    uint32_t transposed; /* factors that lie in memory the other way round */
    int64_t m, rows[GRAM_MAX_FACTORS], cols[GRAM_MAX_FACTORS];
    int count, json;
};

/* Reads M, the sizes P or PxQ, and the letters of --op (NULL: not given). */
enum exit_status tune_kron_parse(int count, char **operands, const char *op, struct tune_kron *t,
                                 struct failure *why);
enum exit_status tune_kron(gram_context *g, const struct tune_kron *t, struct failure *why);
#endif
