/*
 * logdet.h - what the files of gram_kernel_logdet share: a preconditioner and its square root
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRR_LOGDET_H
#define GRAM_KRR_LOGDET_H
#include "krr_passes.h"

enum {
    LOGDET_GROUP = 8 /* probes at a time: what an operator takes, and few vectors of n elements */
};

/* P of the passes, whose determinant is known, and S with S S^T = P: see logdet_precondition.c. */
struct logdet_base {
    struct krr_preconditioner p; /* rank 0: there is none, P = I */
    struct krr_array right;      /* rank by LOGDET_GROUP of the dtype */
    double *root;                /* L: rank by rank, lower, column-major, on the host */
    double *signs;               /* rank by LOGDET_GROUP, on the host, and behind them as many */
    size_t bytes;                /* of root and signs */
    double logdet;               /* of P */
};

/* Of a kernel matrix with its regularization, for options.rank.  Where there can be none, as for
 * halves, or where rounding makes it indefinite, its rank is 0. */
gram_status gram_logdet_base_create(gram_context *g, const struct krr_kernel *k,
                                    const gram_logdet_options *options, struct logdet_base *out);
void gram_logdet_base_destroy(gram_context *g, struct logdet_base *b);
/* probes = S [probes; b->signs] of so many columns, where the context computes: n by columns. */
gram_status gram_logdet_base_colour(gram_context *g, struct logdet_base *b, int64_t columns,
                                    void *probes);
/* P^-1 v, for a struct krr_cg; it takes a struct logdet_base. */
krr_apply gram_logdet_base_apply;
#endif
