/*
 * kron_multi.h - a product with Kronecker factors that several processes share, by columns
 *
 * The factors are cut into two groups.  With (a, b) the index of a column of x, a of the first
 * group and b of the second, and (c, d) that of a column of y:
 *   [row, a, b]  a rank has part of a: the second group is applied, b becomes d
 *   [row, a, d]  exchange: a rank has all of a, for part of the rows or part of d
 *   [a, row, d]  the first group is applied, a becomes c
 *   [c, row, d]  exchange: a rank has part of c, and y = [row, c, d]
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_MULTI_H
#define GRAM_KRON_MULTI_H
#include "kron.h"
#include "multi/communicator.h"

/* Where the factors are cut, for all ranks alike. */
struct gram_kron_cut {
    int ranks;
    int first;             /* factors of the first group: at least one */
    int64_t in[2], out[2]; /* products of the rows and of the columns of each group */
};

/* A block of indices. */
struct gram_range {
    int64_t first, count;
};

/* Block number rank of count indices, spread evenly. */
struct gram_range gram_range_of(int64_t count, int ranks, int rank);

/* Cuts the factors of op; turned: they are still to be transposed. */
void gram_kron_cut(const struct gram_kron_matmul_op *op, bool turned, int ranks,
                   struct gram_kron_cut *cut);

/* Columns of x (sizes is cut->in) or y (cut->out) that a rank has. */
int64_t gram_kron_part_count(const int64_t sizes[2], const struct gram_kron_cut *cut, int rank);

/* The work of one rank. */
struct gram_kron_multi {
    const struct gram_kron_matmul_op *op; /* of the rank's part */
    gram_communicator *c;
    struct gram_kron_cut cut;
    bool by_rows;     /* between the exchanges a rank has part of the rows, else of d */
    bool copy_x;      /* into a form without gaps, before the second group is applied */
    size_t buffer[2]; /* bytes */
    size_t inner;     /* of the products of the groups */
};

/* False if it is more than can be counted. */
bool gram_kron_multi_plan(const struct gram_kron_matmul_op *op, gram_communicator *c,
                          struct gram_kron_multi *m);

/* The products of the second and of the first group, with their data in the buffers. */
struct gram_kron_matmul_op gram_kron_multi_second(const struct gram_kron_multi *m, char *from,
                                                  char *to);
struct gram_kron_matmul_op gram_kron_multi_first(const struct gram_kron_multi *m, char *from,
                                                 char *to);

/* Rows and d that a rank has between the exchanges. */
struct gram_range gram_kron_multi_rows(const struct gram_kron_multi *m, int rank);
struct gram_range gram_kron_multi_d(const struct gram_kron_multi *m, int rank);

/* kron_multi_columns.c: all of it, in scratch that is there; every rank gets the same answer. */
gram_status gram_kron_multi_columns(gram_context *g, const struct gram_kron_multi *m,
                                    char *scratch);
#endif
