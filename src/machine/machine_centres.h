/*
 * machine_centres.h - machines of few centres, and what large tables make of them
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_CENTRES_H
#define GRAM_MACHINE_CENTRES_H
#include "machine.h"

/* The normal equations of m centres. */
struct machine_centres {
    const struct machine_params *params; /* borrowed, as metric */
    const struct machine_metric *metric;
    double bandwidth;
    int64_t count, width, outputs;
    int64_t rows;  /* that were added */
    double weight; /* of these rows together */
    gram_dtype dtype;
    struct krr_array z;             /* count by width, in the metric; f64, where the context
                                       computes, as all that follows */
    struct krr_array normal, right; /* K_nm^T W K_nm; K_nm^T W Y, row-major */
};

/* The first `count` rows of data, which come in random order, become centres.  What was opened is
 * closed by the caller, on an error too. */
gram_status gram_machine_centres_open(gram_context *g, const struct machine_params *params,
                                      const struct machine_metric *metric,
                                      const struct machine_data *data, int64_t count,
                                      struct machine_centres *out);
void gram_machine_centres_close(gram_context *g, struct machine_centres *c);
/* Adds the first `rows` rows of data, which is on the host, with their weights. */
gram_status gram_machine_centres_add(gram_context *g, struct machine_centres *c,
                                     const struct machine_data *data, int64_t rows);
/* The leaf of a ridge, on the CPU; GRAM_NUMERICAL if the ridge is too small. */
gram_status gram_machine_centres_leaf(gram_context *g, const struct machine_centres *c,
                                      double ridge, struct machine_leaf *out);
/* The next metric, from the gradients of such a leaf at points, which are on the host and in no
 * metric.  metric comes as that of the leaf. */
gram_status gram_machine_centres_learn(gram_context *g, const struct machine_params *params,
                                       const struct machine_leaf *leaf,
                                       const struct machine_data *points,
                                       struct machine_metric *metric);
/* The memory that grows with the square of the centres. */
size_t gram_machine_centres_bytes(int64_t centres);

#endif
