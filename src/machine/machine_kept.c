/*
 * machine_kept.c - trainings by centres that are asked for again
 *
 * A round of feature learning begins where another one has: at the same kernel without a metric,
 * for other powers and forms, or at the best choice so far.  The last leaves are kept, within some
 * memory, and found by everything that they depend on: the kernel, the bandwidth, the metric, and
 * the numbers of centres and rows.  Power and form say only what is learned from a leaf.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_large.h"
#include <string.h>

static const size_t most_bytes = 1 << 26; /* of all leaves but the last one */

static size_t bytes_of(const struct machine_leaf *leaf)
{
    const size_t row = (size_t)(leaf->width + leaf->outputs) * gram_dtype_size(leaf->dtype);
    const size_t metric = (size_t)(leaf->metric.full ? leaf->width * leaf->width : leaf->width);

    return (size_t)leaf->rows * row + metric * sizeof(double);
}

static double entry(const struct machine_metric *m, int64_t i, int64_t j)
{
    if (m->full)
        return m->w[i * m->width + j];
    return i == j ? m->w[i] : 0;
}

/* Whether two metrics are the same map. */
static bool same_metric(const struct machine_metric *a, const struct machine_metric *b)
{
    const int64_t d = a->width;

    if (b->width != d)
        return false;
    if (a->full == b->full)
        return memcmp(a->w, b->w, (size_t)(a->full ? d * d : d) * sizeof *a->w) == 0;
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++)
            if (entry(a, i, j) != entry(b, i, j))
                return false;
    return true;
}

/* Leaves in the order of time, oldest first. */
static void forget_first(gram_context *g, struct machine_kept *kept)
{
    gram_machine_leaf_destroy(g, &kept->at[0].leaf);
    gram_machine_metric_destroy(&kept->at[0].metric);
    kept->count--;
    memmove(kept->at, kept->at + 1, (size_t)kept->count * sizeof *kept->at);
}

void gram_machine_kept_close(gram_context *g, struct machine_kept *kept)
{
    while (kept->count > 0)
        forget_first(g, kept);
}

const struct machine_kept_leaf *gram_machine_kept_find(const struct machine_kept *kept,
                                                       const struct machine_params *params,
                                                       const struct machine_metric *metric,
                                                       int64_t centres, int64_t rows)
{
    for (int i = 0; i < kept->count; i++) {
        const struct machine_kept_leaf *k = &kept->at[i];

        if (k->centres == centres && k->rows == rows && k->p == params->p && k->q == params->q &&
            k->bandwidth == params->bandwidth && k->relative == params->relative_bandwidth &&
            same_metric(&k->metric, metric))
            return k;
    }
    return NULL;
}

gram_status gram_machine_kept_add(gram_context *g, struct machine_kept *kept,
                                  struct machine_kept_leaf *one,
                                  const struct machine_metric *metric)
{
    size_t bytes = bytes_of(&one->leaf);
    gram_status status = gram_machine_metric_copy(g, metric, &one->metric);

    if (status != GRAM_OK) {
        gram_machine_leaf_destroy(g, &one->leaf);
        return status;
    }
    for (int i = 0; i < kept->count; i++)
        bytes += bytes_of(&kept->at[i].leaf);
    while (kept->count == MOST_KEPT_LEAVES || (kept->count > 0 && bytes > most_bytes)) {
        bytes -= bytes_of(&kept->at[0].leaf);
        forget_first(g, kept);
    }
    kept->at[kept->count++] = *one;
    return GRAM_OK;
}
