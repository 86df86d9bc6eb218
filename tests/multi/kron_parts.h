/*
 * kron_parts.h - products with Kronecker factors of which every rank has a part: for the tests over
 * MPI and over NCCL
 *
 * Every rank makes the whole from one seed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_KRON_PARTS_H
#define GRAM_TEST_KRON_PARTS_H
#include "check/harness/harness.h"

/* One product; a size of 0 ends the factors. */
struct kron_parts_row {
    int64_t m, in[6], out[6], items; /* items 0: no batch */
    gram_dtype dtype;
    bool left, transposed; /* the factors are on the left; they are given transposed */
    double alpha, beta;
    enum layout layout; /* of x, y and z */
};

struct kron_parts {
    const struct kron_parts_row *row;
    int count;
    struct test_tensor x, y, z, whole, factor[6];
    const gram_tensor *factors[6];
    gram_kron_options options;
    gram_kron_part part;
    gram_tensor my_x, my_y, my_z;
};

enum {
    KRON_PARTS_ROWS = 20
};

extern const struct kron_parts_row kron_parts_table[KRON_PARTS_ROWS];
/* Three factors of 6 by 6, f64. */
extern const struct kron_parts_row kron_parts_square;

void kron_parts_make(struct harness *h, struct kron_parts *p, const struct kron_parts_row *row);
void kron_parts_drop(struct harness *h, struct kron_parts *p);
/* What a rank of the communicator has, for a split. */
void kron_parts_take(struct harness *h, struct kron_parts *p, gram_communicator *c,
                     gram_kron_split split);
/* What a y that nobody has written to holds. */
void kron_parts_spoil(struct kron_parts *p);
/* y is right in this rank's part, and as it was elsewhere. */
void kron_parts_compare(struct harness *h, const struct kron_parts *p);
#endif
