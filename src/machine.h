/*
 * machine.h - a trained kernel machine, and the parts it is trained by
 *
 * A machine is an encoder (table.h), a tree that sends each row to leaves, and the leaves: kernel
 * expansions f(z) = sum_i alpha_i exp(-||W (x_i - z)||_p^q / L^q).  It is immutable once made; its
 * memory comes from malloc, because it outlives the context that trained it.
 *
 *   machine_fit.c     rows and targets, the search, the last fit
 *   machine_search.c  hyperparameters by validation within the time limit
 *   machine_tree.c    splits and routing
 *   machine_leaf.c    one leaf: rounds of solve and feature learning
 *   machine_solve.c   Cholesky or conjugate gradients (machine_cg, machine_blocks, ...)
 *   machine_metric.c  from the average gradient outer product to the next metric
 *   machine_predict.c, machine_file.c, machine.c
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_H
#define GRAM_MACHINE_H
#include "table.h"

/* The linear map before the distance: z -> z W. */
struct machine_metric {
    int64_t width;
    bool full;
    double *w; /* full: width by width, symmetric; else the width diagonal entries */
};

/* Hyperparameters, all decided. */
struct machine_params {
    double p, q, bandwidth, ridge;
    bool relative_bandwidth; /* bandwidth counts medians of the distance in the current metric */
    int iterations;          /* rounds of feature learning; 0: none */
    bool full;               /* a full metric */
    gram_solver solver;
    double tolerance;
    const struct machine_metric *start; /* of the first round; NULL: the identity */
};

struct machine_leaf {
    int64_t rows, width, outputs;
    gram_dtype dtype;
    double p, q, bandwidth;
    struct machine_metric metric;
    char *x;     /* rows by width, row-major: features times W */
    char *alpha; /* rows by outputs, column-major */
};

/* What to learn from: features and targets of the same rows. */
struct machine_data {
    int64_t rows, width, outputs;
    gram_dtype dtype;
    const char *x;         /* rows by width, row-major */
    const char *y;         /* rows by outputs, column-major */
    const double *weights; /* of the rows, or NULL */
};

/* How a fit went; sums over leaves. */
struct machine_report {
    double kernel_seconds, solve_seconds, feature_seconds;
    int iterations;  /* of conjugate gradients, most in one solve; 0: Cholesky */
    double residual; /* largest */
    int rounds;      /* of feature learning that the kept leaf had */
    double score;    /* mean squared error of the outputs on the validation rows, of the best */
};

/* Seconds of CLOCK_MONOTONIC. */
double machine_seconds(void);

/* Solves (K + diag(ridge / weights)) alpha = y.  z are the features in the metric. */
gram_status machine_solve(gram_context *g, const struct machine_params *params, double bandwidth,
                          const struct machine_data *z, uint64_t seed, void *alpha,
                          struct machine_report *report);

/* Most memory that a solve of so many rows takes, beyond its data. */
size_t machine_solve_bytes(int64_t rows, int64_t outputs, gram_dtype dtype, gram_solver solver);

/* The kernel of params at a bandwidth, as options of gram_kernel. */
gram_kernel_options machine_kernel(double p, double q, double bandwidth);

/* metric.c: W = I; a copy; z = x W (row-major, dtype); free. */
gram_status machine_metric_create(gram_context *g, int64_t width, bool full,
                                  struct machine_metric *out);
gram_status machine_metric_copy(gram_context *g, const struct machine_metric *from,
                                struct machine_metric *to);
void machine_metric_apply(gram_context *g, const struct machine_metric *metric, gram_dtype dtype,
                          int64_t rows, const void *x, void *z);
void machine_metric_destroy(struct machine_metric *metric);

/* Relearns the metric from the gradients of the expansion of alpha at a sample of its own points.
 */
gram_status machine_metric_learn(gram_context *g, const struct machine_params *params,
                                 double bandwidth, const struct machine_data *z, const void *alpha,
                                 uint64_t seed, struct machine_metric *metric);

/* Trains a leaf; valid may be empty (rows 0): then every round is done and the last is kept. */
gram_status machine_leaf_fit(gram_context *g, const struct machine_params *params,
                             const struct machine_data *train, const struct machine_data *valid,
                             uint64_t seed, struct machine_leaf *out,
                             struct machine_report *report);

/* out (rows by outputs, column-major f64) = the leaf's expansion at rows of x (row-major). */
gram_status machine_leaf_predict(gram_context *g, const struct machine_leaf *leaf, int64_t rows,
                                 const void *x, double *out);
void machine_leaf_destroy(struct machine_leaf *leaf);
#endif
