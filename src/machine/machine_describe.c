/*
 * machine_describe.c - what a fit says of itself: its choices, its score, its trials, its seconds
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void describe_choices(struct gram_json_text *t, const struct machine_recipe *recipe,
                             double ridge, const gram_machine *machine)
{
    const struct machine_params *p = &recipe->member[0].params;

    gram_json_add_name(t, "hyperparameters");
    gram_json_add(t, "{");
    gram_json_add_pair(t, "p", p->p);
    gram_json_add_pair(t, "q", p->q);
    gram_json_add_pair(t, "bandwidth", machine->leaf[0].bandwidth);
    if (p->relative_bandwidth)
        gram_json_add_pair(t, "bandwidth_in_medians", p->bandwidth);
    gram_json_add_pair(t, "regularization", fmax(p->ridge, ridge));
    gram_json_add_pair(t, "iterations", p->iterations);
    if (p->iterations > 0)
        gram_machine_metric_json(t, p);
    if (p->loss == GRAM_LOSS_LOGISTIC)
        gram_json_add_word(t, "loss", "logistic");
    gram_json_add_word(t, "scaling", recipe->scaling == GRAM_ROBUST ? "robust" : "standardise");
    if (machine->target.classes == 0)
        gram_json_add_word(t, "target_transform", gram_machine_transform_name(recipe->transform));
    gram_json_add(t, "}");
}

/* The members of an ensemble, whose first one has the hyperparameters above. */
static void describe_members(struct gram_json_text *t, const struct machine_recipe *recipe)
{
    gram_json_add_name(t, "ensemble");
    gram_json_add(t, "[");
    for (int m = 0; m < recipe->members; m++) {
        gram_json_add(t, m ? ", {" : "{");
        gram_json_add_pair(t, "weight", recipe->member[m].weight);
        gram_machine_params_json(t, &recipe->member[m].params);
        gram_json_add(t, "}");
    }
    gram_json_add(t, "]");
}

/* Columns with more categories than options.max_categories: how many of them are told apart. */
static void describe_categories(struct gram_json_text *t, const struct gram_encoder *encoder)
{
    bool any = false;

    for (int64_t c = 0; c < encoder->columns; c++)
        if (encoder->column[c].other) {
            if (!any) {
                gram_json_add_name(t, "most_frequent_categories");
                gram_json_add(t, "{");
            }
            any = true;
            gram_json_add_pair(t, encoder->column[c].name, (double)encoder->column[c].categories);
        }
    if (any)
        gram_json_add(t, "}");
}

/* Columns whose levels have statistics, and how many levels. */
static void describe_levels(struct gram_json_text *t, const struct gram_encoder *encoder)
{
    if (!gram_encoder_has_levels(encoder))
        return;
    gram_json_add_name(t, "category_statistics");
    gram_json_add(t, "{");
    for (int64_t c = 0; c < encoder->columns; c++)
        if (encoder->column[c].levels > 0)
            gram_json_add_pair(t, encoder->column[c].name, (double)encoder->column[c].levels);
    gram_json_add(t, "}");
}

/* The score of one target, or of the only one, on the rows that were left out. */
static gram_status score_part(gram_context *g, const struct machine_job *job,
                              const gram_machine *machine, int64_t part, gram_machine_score *score)
{
    const struct machine_held_out *held = &job->held;
    const struct machine_target *scale = gram_machine_target_part(&held->scale, part);
    struct machine_target target = *gram_machine_target_part(&machine->target, part);

    if (!target.classes) {
        target.transform = scale->transform;
        target.shift = scale->shift;
        target.scale = scale->scale;
    }
    return gram_machine_score_outputs(g, &target, &job->target[part], job->row + held->first,
                                      held->count, held->f + part * held->count, score);
}

static void describe_score(struct gram_json_text *t, const gram_machine_score *score, bool classes)
{
    gram_json_add_pair(t, "score", score->score);
    gram_json_add_pair(t, "spread", score->spread);
    if (classes) {
        gram_json_add_pair(t, "log_loss", score->log_loss);
    } else {
        gram_json_add_pair(t, "mae", score->mae);
        gram_json_add_pair(t, "r2", score->r2);
    }
}

/* How well rows were predicted that did not train what predicted them; of several targets the means
 * (that of the spreads is no less than the spread of the mean), and then each. */
static gram_status describe_held_out(gram_context *g, const struct machine_job *job,
                                     const gram_machine *machine, struct gram_json_text *t)
{
    const struct machine_held_out *held = &job->held;
    const int64_t parts = gram_machine_target_parts(&machine->target);
    gram_machine_score mean = {0}, score;

    if (!held->f)
        return GRAM_OK;
    for (int64_t p = 0; p < parts; p++) {
        TRY(score_part(g, job, machine, p, &score));
        mean.metric = score.metric;
        mean.score += score.score / (double)parts;
        mean.spread += score.spread / (double)parts;
        mean.mae += score.mae / (double)parts;
        mean.r2 += score.r2 / (double)parts;
        mean.log_loss += score.log_loss / (double)parts;
    }
    gram_json_add_name(t, job->held_apart ? "held_out" : "leave_one_out");
    gram_json_add(t, "{");
    gram_json_add_pair(t, "rows", (double)held->count);
    gram_json_add_word(t, "metric", mean.metric);
    describe_score(t, &mean, machine->target.classes > 0);
    for (int64_t p = 0; parts > 1 && p < parts; p++) {
        TRY(score_part(g, job, machine, p, &score));
        if (p == 0)
            gram_json_add_name(t, "targets");
        gram_json_add(t, p ? ", {" : "[{");
        gram_json_add_name(t, "target");
        gram_json_add_string(t, machine->target.part[p].name);
        describe_score(t, &score, false);
        gram_json_add(t, p == parts - 1 ? "}]" : "}");
    }
    gram_json_add(t, "}");
    return GRAM_OK;
}

static void describe_targets(struct gram_json_text *t, const struct machine_target *target)
{
    for (int64_t p = 0; p < target->parts; p++) {
        if (p == 0)
            gram_json_add_name(t, "targets");
        gram_json_add(t, p ? ", " : "[");
        gram_json_add_string(t, target->part[p].name);
    }
    if (target->parts > 0)
        gram_json_add(t, "]");
}

/* Everything but the trials, without the brace at its end. */
static gram_status describe_fit(gram_context *g, const struct machine_job *job,
                                const struct machine_recipe *recipe, const gram_machine *machine,
                                struct gram_json_text *t)
{
    const struct machine_report *r = &job->report;

    gram_json_add(t, "{");
    gram_json_add_word(t, "version", gram_version());
    gram_json_add_word(t, "task", machine->target.classes ? "classification" : "regression");
    describe_targets(t, &machine->target);
    gram_json_add_pair(t, "rows", (double)job->rows);
    gram_json_add_pair(t, "features", (double)machine->encoder->width);
    gram_json_add_pair(t, "leaves", (double)machine->leaves);
    if (machine->tree.count > 0) {
        gram_json_add_pair(t, "trees", machine->tree.trees);
        gram_json_add_pair(t, "temperature", machine->tree.temperature);
    }
    if (job->centres > 0)
        gram_json_add_pair(t, "centres", (double)job->centres);
    gram_json_add_word(t, "dtype", machine->dtype == GRAM_F32 ? "f32" : "f64");
    gram_json_add_pair(t, "seed", (double)job->o.seed);
    describe_categories(t, machine->encoder);
    describe_levels(t, machine->encoder);
    describe_choices(t, recipe, r->ridge, machine);
    gram_machine_class_weights_json(t, job, &machine->target);
    if (recipe->members > 1)
        describe_members(t, recipe);
    gram_json_add_word(t, "solver", r->iterations > 0 ? "conjugate gradients" : "cholesky");
    if (r->iterations > 0) {
        gram_json_add_pair(t, "solver_iterations", r->iterations);
        gram_json_add_pair(t, "residual", r->residual);
        gram_json_add_pair(t, "prediction_change", r->change);
        gram_json_add_pair(t, "tolerance", recipe->member[0].params.tolerance);
    }
    if (recipe->member[0].params.iterations > 0 && !recipe->member[0].params.rounds_known) {
        gram_json_add_pair(t, "best_iteration", r->rounds);
        gram_json_add_pair(t, "validation_mse", r->score / (double)job->rows);
    }
    if (job->without > 0 && isfinite(job->with)) {
        gram_json_add_pair(t, "score_without_metric", job->without);
        gram_json_add_pair(t, "score_with_metric", job->with);
    }
    return describe_held_out(g, job, machine, t);
}

enum {
    MOST_KEPT = 500 /* trials that the model file lists */
};

gram_status gram_machine_describe_fit(gram_context *g, struct machine_job *job,
                                      const struct machine_recipe *recipe, gram_machine *machine)
{
    const struct machine_report *r = &job->report;
    struct gram_json_text t = {0};
    gram_status status = describe_fit(g, job, recipe, machine, &t);
    size_t length = t.length;

    if (status != GRAM_OK) {
        free(t.data);
        return status;
    }
    gram_machine_trials_sort(&job->trials);
    if (job->trials.count > 0)
        gram_machine_trials_json(&t, &job->trials, MOST_KEPT, false);
    gram_json_add(&t, "}");
    machine->summary = t.failed ? NULL : strdup(t.data);
    t.length = t.failed ? t.length : length;
    if (job->trials.count > 0)
        gram_machine_trials_json(&t, &job->trials, job->trials.count, true);
    gram_json_add(&t, ", \"seconds\": {");
    gram_json_add_pair(&t, "kernel", r->kernel_seconds);
    gram_json_add_pair(&t, "solve", r->solve_seconds);
    gram_json_add_pair(&t, "features", r->feature_seconds);
    gram_json_add_pair(&t, "total", gram_seconds() - job->started);
    gram_json_add(&t, "}}");
    machine->description = t.data;
    if (t.failed || !machine->summary)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the description");
    return GRAM_OK;
}
