/*
 * machine_weights.c - weights of the classes of a classification
 *
 * A row's weight is multiplied by that of its class.  Balanced weights give all classes the same
 * sum of weights, and leave the sum over all rows as it is:
 *   W / (c w),
 * with the sum of weights w of a class, the sum W of all, and c classes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BALANCED = -1 /* options.class_weights */
};

gram_status gram_machine_class_weights_check(gram_context *g, const gram_machine_options *o)
{
    if (o->class_weights < BALANCED)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.class_weights is %lld, expected -1 (balanced), 0, or the number "
                         "of entries",
                         (long long)o->class_weights);
    if (o->class_weights > 0 && (!o->class_label || !o->class_weight))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.class_label or class_weight is NULL, expected %lld entries",
                         (long long)o->class_weights);
    for (int64_t i = 0; i < o->class_weights; i++)
        if (!o->class_label[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.class_label[%lld] is NULL",
                             (long long)i);
        else if (!(o->class_weight[i] > 0) || isinf(o->class_weight[i]))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.class_weight[%lld] is %g, expected a finite number of more "
                             "than 0",
                             (long long)i, o->class_weight[i]);
    return GRAM_OK;
}

/* The weights that are given, by class. */
static gram_status given(gram_context *g, const struct machine_job *job, double *weight)
{
    const struct machine_target *target = &job->kind;
    const gram_machine_options *o = &job->o;

    for (int64_t k = 0; k < target->classes; k++)
        weight[k] = 1;
    for (int64_t i = 0; i < o->class_weights; i++) {
        int64_t k = 0;

        while (k < target->classes && strcmp(target->class_name[k], o->class_label[i]) != 0)
            k++;
        if (k == target->classes)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.class_label[%lld] is \"%s\", which is none of the %lld "
                             "classes of \"%s\"",
                             (long long)i, o->class_label[i], (long long)target->classes,
                             target->name);
        weight[k] = o->class_weight[i];
    }
    return GRAM_OK;
}

static void balanced(const struct machine_job *job, double *weight)
{
    const double *rows = job->o.weights;
    const double classes = (double)job->kind.classes;
    double total = 0;

    for (int64_t i = 0; i < job->rows; i++) {
        const int64_t row = job->row[i];
        const double w = rows ? rows[row] : 1;

        weight[gram_machine_target_class(&job->kind, job->target, row)] += w;
        total += w;
    }
    for (int64_t k = 0; k < job->kind.classes; k++)
        weight[k] = total / (classes * weight[k]); /* every class has a row, and so a weight */
}

double gram_machine_row_weight(const struct machine_job *job, int64_t row)
{
    return job->o.weights ? job->o.weights[row] / job->mean_weight : 1;
}

static void take_mean(struct machine_job *job)
{
    job->mean_weight = 0;
    for (int64_t i = 0; job->o.weights && i < job->rows; i++)
        job->mean_weight += job->o.weights[job->row[i]] / (double)job->rows;
}

gram_status gram_machine_class_weights(gram_context *g, struct machine_job *job)
{
    const double *rows = job->o.weights;

    take_mean(job);
    if (job->o.class_weights == 0)
        return GRAM_OK;
    if (job->kind.classes == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.class_weights is %lld for a regression of \"%s\", expected 0",
                         (long long)job->o.class_weights, job->kind.name);
    job->class_weight = calloc((size_t)job->kind.classes, sizeof *job->class_weight);
    job->weights = calloc((size_t)job->table->rows + 1, sizeof *job->weights);
    if (!job->class_weight || !job->weights)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the weights of %lld rows",
                         (long long)job->rows);
    if (job->o.class_weights == BALANCED)
        balanced(job, job->class_weight);
    else
        TRY(given(g, job, job->class_weight));
    for (int64_t i = 0; i < job->rows; i++) {
        const int64_t row = job->row[i];
        const double of_class =
            job->class_weight[gram_machine_target_class(&job->kind, job->target, row)];

        job->weights[row] = (rows ? rows[row] : 1) * of_class;
        if (!(job->weights[row] > 0) || isinf(job->weights[row]))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "the weight of row %lld times that of its class is %g, expected a "
                             "finite number of more than 0",
                             (long long)row, job->weights[row]);
    }
    job->o.weights = job->weights;
    take_mean(job);
    return GRAM_OK;
}

void gram_machine_class_weights_json(struct gram_json_text *t, const struct machine_job *job,
                                     const struct machine_target *target)
{
    if (!job->class_weight)
        return;
    gram_json_add_name(t, "class_weight");
    gram_json_add(t, "{");
    for (int64_t k = 0; k < target->classes; k++) {
        gram_json_add_name(t, target->class_name[k]);
        gram_json_add_number(t, job->class_weight[k]);
    }
    gram_json_add(t, "}");
}
