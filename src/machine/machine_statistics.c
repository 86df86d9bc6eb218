/*
 * machine_statistics.c - what the statistics of levels are means of
 *
 * They are means of the outputs that a machine learns: one of a regression or of two classes, one
 * a class or a target, at most 16.  A level has no mean of its own under every transform of the
 * target that a search tries, so that the scale is decided here, once: the logarithm of a positive
 * target that leans to small values, so that no level's mean hangs on its largest row.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The scale on which a regression's levels are averaged. */
static gram_transform transform_of(const struct machine_job *job)
{
    double n = (double)job->rows, mean = 0, m2 = 0, m3 = 0, least = INFINITY;

    if (job->o.target_transform != GRAM_TRANSFORM_AUTO)
        return job->o.target_transform;
    if (job->kind.classes > 0 || job->targets > 1)
        return GRAM_TRANSFORM_NONE;
    for (int64_t i = 0; i < job->rows; i++)
        mean += job->target->numbers[job->row[i]] / n;
    for (int64_t i = 0; i < job->rows; i++) {
        const double v = job->target->numbers[job->row[i]], d = v - mean;

        m2 += d * d / n;
        m3 += d * d * d / n;
        least = fmin(least, v);
    }
    return least > 0 && m3 > pow(m2, 1.5) ? GRAM_TRANSFORM_LOG : GRAM_TRANSFORM_NONE;
}

/* Moves the columns with the largest sums to the front, where there are too many: the classes that
 * most rows have. */
static void keep_largest(double *y, int64_t count, int64_t outputs)
{
    for (int64_t kept = 0; kept < GRAM_MOST_STATISTICS; kept++) {
        int64_t best = kept;
        double most = -1;

        for (int64_t j = kept; j < outputs; j++) {
            double sum = 0;

            for (int64_t i = 0; i < count; i++)
                sum += y[j * count + i];
            if (sum > most)
                most = sum, best = j;
        }
        for (int64_t i = 0; best != kept && i < count; i++) {
            const double swap = y[kept * count + i];

            y[kept * count + i] = y[best * count + i];
            y[best * count + i] = swap;
        }
    }
}

static gram_status fill(gram_context *g, const struct machine_job *job, const int64_t *rows,
                        int64_t count, double *y, double *weight)
{
    struct machine_target scaled;
    gram_status status = gram_machine_target_borrow(g, &job->kind, &scaled);

    if (status == GRAM_OK && job->kind.classes == 0)
        status = gram_machine_target_scale(g, job->target, transform_of(job), rows, count, &scaled);
    if (status == GRAM_OK)
        gram_machine_target_encode(&scaled, job->target, rows, count, GRAM_F64, y);
    gram_machine_target_return(&scaled);
    for (int64_t i = 0; job->o.weights && i < count; i++)
        weight[i] = job->o.weights[rows[i]];
    return status;
}

gram_status gram_machine_encoder_fit(gram_context *g, const struct machine_job *job,
                                     enum gram_scaling scaling, int64_t count,
                                     struct gram_encoder **out)
{
    struct gram_encoding how = gram_machine_encoding(job, scaling);
    const int64_t outputs = gram_machine_target_outputs(&job->kind);
    double *y = NULL, *weight = NULL;
    bool labels = false;
    gram_status status = GRAM_OK;

    for (int64_t c = 0; c < job->table->columns; c++)
        labels |= job->table->column[c].labels != NULL;
    if (!labels || job->o.category_statistics == GRAM_STATISTICS_NONE)
        return gram_encoder_fit(g, job->table, job->row, count, &how, out);
    y = malloc((size_t)(count * outputs) * sizeof *y + 1);
    weight = malloc((size_t)count * sizeof *weight + 1);
    if (!y || !weight)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the targets of %lld rows",
                           (long long)count);
    if (status == GRAM_OK)
        status = fill(g, job, job->row, count, y, weight);
    if (status == GRAM_OK) {
        if (outputs > GRAM_MOST_STATISTICS && job->kind.classes > 0)
            keep_largest(y, count, outputs);
        how.statistics = gram_least(outputs, GRAM_MOST_STATISTICS);
        how.statistic = y;
        how.weight = job->o.weights ? weight : NULL;
        how.seed = job->o.seed;
        status = gram_encoder_fit(g, job->table, job->row, count, &how, out);
    }
    free(y);
    free(weight);
    return status;
}
