/*
 * machine_loss.c - whether two classes are better told apart by the logistic loss
 *
 * Outputs of least squares and logistic ones are compared by what they are used for: the log losses
 * of their rows, each with a calibration of its own.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_large.h"
#include "machine_trial.h"
#include <math.h>
#include <stdlib.h>

bool gram_machine_may_be_logistic(const gram_context *g, const struct machine_job *job)
{
    return job->kind.classes == 2 && job->leaf_rows >= job->rows &&
           !gram_machine_is_large(g, job, job->rows);
}

gram_status gram_machine_loss_check(gram_context *g, const struct machine_job *job)
{
    if (job->o.loss != GRAM_LOSS_LOGISTIC || gram_machine_may_be_logistic(g, job))
        return GRAM_OK;
    if (job->kind.classes != 2)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.loss is GRAM_LOSS_LOGISTIC, expected a target of two classes; "
                         "\"%s\" has %lld",
                         job->target->name, (long long)job->kind.classes);
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "options.loss is GRAM_LOSS_LOGISTIC, expected one leaf of all %lld rows; "
                     "leaf_rows, centres or the memory ask for more",
                     (long long)job->rows);
}

/* The log losses of the level's rows, calibrated by themselves, times the weights of the rows. */
static gram_status log_losses(gram_context *g, const struct search *s, const double *f,
                              double *loss)
{
    const struct machine_job *job = s->job;
    struct machine_target target = job->kind; /* whose calibration is to come */
    gram_status status;

    target.calibration = NULL;
    status = gram_machine_target_calibrate(g, job->target, job->row, job->o.weights, s->level.rows,
                                           f, &target);
    for (int64_t i = 0; status == GRAM_OK && i < s->level.rows; i++) {
        const int64_t class = gram_machine_target_class(&target, job->target, job->row[i]);
        double p[2];

        gram_machine_target_probabilities(&target, f + i, s->level.rows, p, 1);
        loss[i] = -log(p[class]) * gram_machine_row_weight(job, job->row[i]);
    }
    free(target.calibration);
    return status;
}

gram_status gram_machine_loss_is_better(gram_context *g, const struct search *s,
                                        const double *before, const double *after, bool *better)
{
    const int64_t n = s->level.rows;
    const size_t bytes = (size_t)n * 2 * sizeof(double);
    double *loss = gram_alloc(g, bytes);
    gram_status status;

    if (!loss)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = log_losses(g, s, before, loss);
    if (status == GRAM_OK)
        status = log_losses(g, s, after, loss + n);
    *better = false;
    if (status == GRAM_OK) {
        double error, mean = gram_machine_mean(n, loss, loss + n, &error);

        *better = mean > error;
    }
    gram_free(g, loss, bytes);
    return status;
}
