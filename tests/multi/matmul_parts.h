/*
 * matmul_parts.h - products with kernel matrices of which every rank has some rows: for the tests
 * over MPI and over NCCL
 *
 * Every rank makes the whole from one seed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_MATMUL_PARTS_H
#define GRAM_TEST_MATMUL_PARTS_H
#include "check/harness/harness.h"

/* How rows are shared. */
enum matmul_share {
    EVENLY,
    BY_RANK,  /* rank 0 has none, rank 1 some, rank 2 twice as many */
    ALL_LAST, /* the last rank has them */
    ALL_FIRST
};

struct matmul_parts_row {
    int64_t m, n, depth, columns; /* n 0: y is NULL */
    gram_dtype dtype;
    enum matmul_share share[2];
    gram_kernel_options (*kernel)(void);
    enum layout layout;
    bool all_points, accumulate;
    double regularization;
    int form; /* of the product on a GPU */
};

enum {
    MATMUL_PARTS_ROWS = 14,
    MATMUL_PARTS_TENSORS = 4
};

/* Some rows of a matrix of all. */
static inline gram_tensor some_rows(const gram_tensor *t, int64_t first, int64_t rows)
{
    gram_tensor part = *t;

    part.shape[0] = rows;
    part.data = (char *)t->data + first * t->stride[0] * (int64_t)gram_dtype_size(t->dtype);
    return part;
}

struct matmul_parts {
    const struct matmul_parts_row *row;
    struct test_tensor x, y, v, out, whole;
    gram_kernel_options kernel;
    gram_kernel_matmul_options options;
    gram_tensor my_x, my_y, my_v, my_out; /* my_y is used where there is a y */
    int64_t first, rows;                  /* of out */
};

extern const struct matmul_parts_row matmul_parts_table[MATMUL_PARTS_ROWS];

/* The problem, and in whole its product by this process alone. */
void matmul_parts_make(struct harness *h, struct matmul_parts *p,
                       const struct matmul_parts_row *row);
void matmul_parts_drop(struct harness *h, struct matmul_parts *p);
/* What a rank of the communicator has. */
void matmul_parts_take(struct matmul_parts *p, gram_communicator *c);
/* What an out that nobody has written to holds. */
void matmul_parts_spoil(struct matmul_parts *p);
gram_status matmul_parts_multiply(gram_context *g, struct matmul_parts *p);
/* out is right in this rank's rows, and as it was elsewhere. */
void matmul_parts_compare(struct harness *h, const struct matmul_parts *p);
#endif
