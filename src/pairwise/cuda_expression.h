/*
 * cuda_expression.h - a caller's expression on the device
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_EXPRESSION_H
#define GRAM_CUDA_EXPRESSION_H
#include "core/expression.h"
#include "pair_params.h"

/* The text of pair_expression.cuh, for free(); NULL: no memory. */
char *gram_cuda_expression_text(const struct gram_expression *e);
/* The program in words, which two expressions of the same text alone share, and their number. */
enum {
    CUDA_EXPRESSION_WORDS = 2 * GRAM_EXPRESSION_NODES
};
size_t gram_cuda_expression_words(const struct gram_expression *e,
                                  uint64_t words[CUDA_EXPRESSION_WORDS]);
/* A number that is likely to be its own: for places in tables, not instead of the words. */
uint64_t gram_cuda_expression_number(const struct gram_expression *e);
/* How many constants its code wants: into out, if it is not NULL and they are at most
 * PAIR_CONSTANTS. */
int gram_cuda_expression_constants(const struct gram_expression *e, const double *parameters,
                                   double *out);
#endif
