/*
 * targets.c - the columns that a command predicts: one, or several of a regression
 *
 * SPDX-License-Identifier: MIT
 */
#include "targets.h"
#include "fit.h"
#include "interrupt.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Columns ------------------------------------------------------------------------------ */

int target_named(const char *list, const char *name)
{
    return list && (strcmp(list, name) == 0 || name_listed(list, name));
}

void targets_free(struct targets *t)
{
    free(t->column);
    *t = (struct targets){0};
}

const char *target_column(const char *what, const char *target, char name[TARGET_COLUMN_BYTES])
{
    (void)snprintf(name, TARGET_COLUMN_BYTES, "%s_%s", what, target);
    return name;
}

static enum exit_status add(struct targets *t, int64_t column, const char *name,
                            struct failure *why)
{
    for (int64_t i = 0; i < t->count; i++)
        if (t->column[i] == column)
            return fail(why, CLI_USAGE, "--target names \"%.200s\" twice", name);
    t->column[t->count++] = column;
    return CLI_OK;
}

enum exit_status targets_find(const struct table *t, const char *path, const char *list,
                              struct targets *out, struct failure *why)
{
    int64_t whole = table_find(t, list);

    *out = (struct targets){.column = malloc((size_t)(t->width + 1) * sizeof *out->column)};
    if (!out->column)
        return fail_memory(why, "the targets");
    if (whole < 0 && !strchr(list, ','))
        TRY(table_require(t, path, list, " (--target)", &whole, why));
    if (whole >= 0)
        return add(out, whole, list, why);
    while (list) {
        int64_t column;

        TRY(name_next(t, path, &list, " (in --target)", &column, why));
        TRY(add(out, column, t->columns[column].name, why));
    }
    return CLI_OK;
}

enum exit_status targets_of(const gram_machine *machine, const struct table *t, struct targets *out,
                            struct failure *why)
{
    const int64_t count = gram_machine_target_count(machine);

    *out = (struct targets){.column = malloc((size_t)(count + 1) * sizeof *out->column)};
    if (!out->column)
        return fail_memory(why, "the targets");
    for (int64_t i = 0; i < count; i++)
        out->column[out->count++] = table_find(t, gram_machine_target_name(machine, i));
    return CLI_OK;
}

enum exit_status targets_view(const struct table *t, const struct targets *targets, int64_t first,
                              gram_column **out, struct failure *why)
{
    *out = malloc((size_t)(targets->count + 1) * sizeof **out);
    if (!*out)
        return fail_memory(why, "the targets");
    for (int64_t i = 0; i < targets->count; i++)
        (*out)[i] = table_column(t, targets->column[i], first);
    return CLI_OK;
}

enum exit_status targets_check(const struct table *t, const char *path,
                               const struct targets *targets, int task, struct failure *why)
{
    const struct fit_settings as_given = {.task = task};

    if (targets->count < 2)
        return CLI_OK;
    if (task == GRAM_CLASSIFICATION)
        return fail(why, CLI_USAGE,
                    "--target names %lld columns, expected one with --task classification: several "
                    "targets are regressions",
                    (long long)targets->count);
    for (int64_t i = 0; i < targets->count; i++) {
        const struct column *c = &t->columns[targets->column[i]];

        if (!c->numbers)
            return fail(
                why, CLI_BAD_DATA,
                "%s: column \"%.200s\" (in --target) holds texts, expected numbers: several "
                "targets are regressions",
                text_name(path), c->name);
        if (fit_task(&as_given, t, targets->column[i]) == GRAM_CLASSIFICATION)
            return fail(
                why, CLI_BAD_DATA,
                "%s: column \"%.200s\" (in --target) has two values, which are classes, but "
                "several targets are regressions; --task regression takes them as numbers",
                text_name(path), c->name);
    }
    return CLI_OK;
}

/* ---- How good predictions are ------------------------------------------------------------- */

void judgements_free(struct judgements *j)
{
    for (int64_t i = 0; j->of && i < j->count; i++)
        judgement_free(&j->of[i]);
    free(j->of);
    *j = (struct judgements){0};
}

/* Predictions of all targets, and the ends of their intervals if the model has them. */
struct predicted {
    int64_t rows, targets;
    double *value, *ends; /* rows by targets; rows by 2 targets, or NULL */
};

static enum exit_status predict(gram_context *g, const gram_machine *machine,
                                const gram_table *table, struct predicted *p, struct failure *why)
{
    const int64_t wide = 2 * p->targets;
    gram_tensor value = {
        .dtype = GRAM_F64,
        .device = {  GRAM_CPU,          0},
        .ndim = 2,
        .shape = {   p->rows, p->targets},
        .stride = {p->targets,          1}
    };
    gram_tensor ends = value;
    gram_machine_wanted wanted = GRAM_MACHINE_WANTED_INIT;
    gram_status status;

    if (p->rows > INT64_MAX / 16 / wide)
        return fail_memory(why, "the predictions");
    p->value = malloc((size_t)(p->rows * p->targets + 1) * sizeof *p->value);
    if (gram_machine_highest_level(machine) >= COVERAGE_LEVEL) {
        p->ends = malloc((size_t)(p->rows * wide + 1) * sizeof *p->ends);
        wanted.interval = &ends;
    }
    if (!p->value || (wanted.interval && !p->ends))
        return fail_memory(why, "the predictions");
    value.data = p->value;
    ends.data = p->ends;
    ends.shape[1] = ends.stride[0] = wide;
    wanted.level = COVERAGE_LEVEL;
    wanted.prediction = &value;
    interrupt_cancels(g);
    status = gram_machine_predict_all(g, machine, table, &wanted);
    status = interrupt_ends(status);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

/* The measures of one target. */
static enum exit_status judge_one(const struct predicted *p, int64_t target,
                                  const gram_column *truth, struct judgement *out,
                                  struct failure *why)
{
    struct number_measures *m = &out->numbers;
    double *ends = malloc((size_t)(2 * p->rows + 1) * sizeof *ends);
    enum exit_status status = CLI_OK;

    out->coverage = (struct coverage){NAN, NAN, NAN};
    out->value = malloc((size_t)(p->rows + 1) * sizeof *out->value);
    if (!ends || !out->value)
        status = fail_memory(why, "the predictions");
    for (int64_t i = 0; status == CLI_OK && i < p->rows; i++) {
        const int64_t at = i * p->targets + target;

        out->value[i] = p->value[at];
        for (int end = 0; p->ends && end < 2; end++)
            ends[2 * i + end] = p->ends[2 * at + end];
    }
    if (status == CLI_OK)
        status = number_measures_make(truth->numbers, out->value, p->rows, m, why);
    if (status == CLI_OK && p->ends)
        out->coverage = interval_coverage(truth->numbers, ends, p->rows, COVERAGE_LEVEL);
    free(ends);
    out->score = (gram_machine_score){.size = sizeof out->score,
                                      .metric = "rmse",
                                      .score = m->rmse,
                                      .rows = m->rows,
                                      .mae = m->mae,
                                      .r2 = m->r2,
                                      .log_loss = NAN};
    return status;
}

/* Means over the targets, and the fewest rows. */
static gram_machine_score mean_of(const struct judgements *j)
{
    gram_machine_score mean = j->of[0].score;

    mean.score = mean.mae = mean.r2 = 0;
    for (int64_t i = 0; i < j->count; i++) {
        const gram_machine_score *one = &j->of[i].score;

        mean.score += one->score / (double)j->count;
        mean.mae += one->mae / (double)j->count;
        mean.r2 += one->r2 / (double)j->count;
        mean.rows = one->rows < mean.rows ? one->rows : mean.rows;
    }
    return mean;
}

enum exit_status judge_targets(gram_context *g, const gram_machine *machine,
                               const gram_table *table, const gram_column *truth,
                               struct judgements *out, struct failure *why)
{
    struct predicted p = {.rows = table->rows, .targets = gram_machine_target_count(machine)};
    enum exit_status status;

    *out = (struct judgements){.of = calloc((size_t)p.targets + 1, sizeof *out->of)};
    if (!out->of)
        return fail_memory(why, "the targets");
    status = predict(g, machine, table, &p, why);
    for (int64_t t = 0; status == CLI_OK && t < p.targets; t++) {
        out->count++;
        status = judge_one(&p, t, &truth[t], &out->of[t], why);
    }
    free(p.value);
    free(p.ends);
    if (status == CLI_OK)
        out->mean = mean_of(out);
    else
        judgements_free(out);
    return status;
}

/* ---- Reports ------------------------------------------------------------------------------ */

void judgements_json(struct json *j, const gram_machine *machine, const struct judgements *judged)
{
    json_object(j, "scores");
    for (int64_t i = 0; i < judged->count; i++) {
        json_object(j, gram_machine_target_name(machine, i));
        judgement_json(j, machine, &judged->of[i]);
        json_end(j);
    }
    json_end(j);
}

void judgements_text(struct output *out, const gram_machine *machine,
                     const struct judgements *judged)
{
    for (int64_t i = 0; i < judged->count; i++) {
        const char *name = gram_machine_target_name(machine, i);

        output_name(out, name, strlen(name));
        output_text(out, ": ");
        judgement_text(out, machine, &judged->of[i]);
    }
}

void targets_text(struct output *out, const gram_machine *machine)
{
    for (int64_t i = 0; i < gram_machine_target_count(machine); i++) {
        const char *name = gram_machine_target_name(machine, i);

        output_text(out, i ? ", " : "");
        output_name(out, name, strlen(name));
    }
}

void targets_json(struct json *j, const gram_machine *machine)
{
    if (gram_machine_target_count(machine) < 2)
        return;
    json_flat_array(j, "targets");
    for (int64_t i = 0; i < gram_machine_target_count(machine); i++)
        json_string(j, NULL, gram_machine_target_name(machine, i));
    json_end(j);
}
