/*
 * layer_problem.h - what the tables of gram_sample_grad and gram_kfac_factors have in common: a
 * layer with what goes in and the gradients of what comes out
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_LAYER_PROBLEM_H
#define GRAM_LAYER_PROBLEM_H
#include "check/harness/harness.h"
#include "check/reference/reference.h"

struct layer_row {
    gram_layer_kind kind;
    int64_t n, in, out; /* samples; features or channels of all groups; rows of a table are in */
    int dims;           /* of positions, or spatial ones; a normalisation over more: of features */
    int64_t size[3];    /* of a */
    int64_t kernel[3], stride[3], padding[3], dilation[3]; /* 0: 1 (padding: 0) */
    int64_t groups;                                        /* 0: 1 */
    int64_t padding_row; /* of an embedding, counted from 1; 0: none */
    int normalized;      /* 2: features are in by 2 */
    bool bias;
    gram_dtype dtype, rows_dtype; /* of a and g; of an embedding's a */
    enum layout layout[2], out_layout;
    bool nan; /* everything of sample 1 */
};

/* The first members of a layer_row. */
#define LINEAR(samples, from, to) \
  .kind = GRAM_LAYER_LINEAR, .n = (samples), .in = (from), .out = (to)
#define CONVOLUTION(samples, from, to, spatial) \
  .kind = GRAM_LAYER_CONVOLUTION, .n = (samples), .in = (from), .out = (to), .dims = (spatial)
#define EMBEDDING(samples, from, to, type) \
  .kind = GRAM_LAYER_EMBEDDING, .n = (samples), .in = (from), .out = (to), .rows_dtype = (type)

struct layer_problem {
    const struct layer_row *row;
    gram_layer layer;
    struct test_tensor a, d;
    struct reference_layer reference;
    gram_dtype dtype; /* of outputs */
};

/* "conv 3 samples 4 > 6 f32", for labels. */
void layer_label(const struct layer_row *row, const char *why, char *text, size_t size);
void layer_create(struct harness *h, const struct layer_row *row, struct layer_problem *p);
void layer_destroy(struct harness *h, struct layer_problem *p);

/* The shape of the weight after the first `leading` sizes of shape; returns the dimensions. */
int layer_weight_shape(const struct layer_problem *p, int leading, int64_t *shape);

/* size bytes, to be freed, or NULL: zeros behind a layer_row from the command line, a linear layer
 * with N samples of S positions, I by O features. */
void *layer_bench(struct harness *h, const struct case_args *args, size_t size);
#endif
