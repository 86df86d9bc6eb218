/*
 * permuted.c - permutation importances of a model on a table
 *
 * SPDX-License-Identifier: MIT
 */
#include "permuted.h"
#include "interrupt.h"
#include "matrix.h"
#include "progress.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void show_progress(void *user, double fraction, const char *stage)
{
    progress_update(user, fraction, stage);
}

/* Largest first; equal ones by name. */
static int by_mean(const void *a, const void *b)
{
    const struct permuted_feature *x = a, *y = b;

    if (x->mean != y->mean)
        return x->mean < y->mean ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* The mean and the deviation of the increases of every feature, in the order of the model. */
static enum exit_status summarise(const struct model *m, const double *increase,
                                  struct permuted *out, struct failure *why)
{
    out->feature = calloc((size_t)m->count + 1, sizeof *out->feature);
    if (!out->feature)
        return fail_memory(why, "the importances");
    for (int64_t i = 0; i < m->count; i++) {
        struct permuted_feature *f = &out->feature[i];
        gram_machine_feature feature = {.size = sizeof feature};
        double squares = 0;
        gram_status status = gram_machine_feature_at(m->g, m->machine, i, &feature);

        if (status != GRAM_OK)
            return fail_gram(why, status, m->g);
        f->name = feature.name;
        f->share = feature.importance;
        for (int64_t r = 0; r < out->repeats; r++)
            f->mean += increase[i * out->repeats + r] / (double)out->repeats;
        for (int64_t r = 0; r < out->repeats; r++)
            squares += pow(increase[i * out->repeats + r] - f->mean, 2);
        f->deviation = out->repeats > 1 ? sqrt(squares / (double)(out->repeats - 1)) : NAN;
    }
    out->count = m->count;
    qsort(out->feature, (size_t)out->count, sizeof *out->feature, by_mean);
    return CLI_OK;
}

static enum exit_status shuffle(const struct model *m, const gram_table *table,
                                const gram_column *target, const struct permuted_settings *s,
                                struct matrix *increase, struct permuted *out, struct failure *why)
{
    struct progress progress = {0};
    gram_permutation_options options = GRAM_PERMUTATION_OPTIONS_INIT;
    gram_machine_score score = {.size = sizeof score};
    gram_status status;

    options.repeats = s->repeats;
    options.seed = (uint64_t)s->seed;
    options.progress = show_progress;
    options.progress_user = &progress;
    progress_begin(&progress, s->show_progress);
    interrupt_cancels(m->g);
    status = gram_machine_evaluate(m->g, m->machine, table, target, &score);
    if (status == GRAM_OK)
        status = gram_machine_permutation_importance(m->g, m->machine, table, target, &options,
                                                     &increase->t);
    status = interrupt_ends(status);
    progress_end(&progress);
    out->metric = isnan(score.log_loss) ? "rmse" : "log_loss";
    out->error = isnan(score.log_loss) ? score.score : score.log_loss;
    out->rows = score.rows;
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, m->g);
}

/* One target must be meant. */
static enum exit_status check_target(const gram_machine *machine, const char *target,
                                     struct failure *why)
{
    const int64_t count = gram_machine_target_count(machine);

    if (target ? model_predicts(machine, target) : count == 1)
        return CLI_OK;
    if (target)
        return fail(why, CLI_USAGE, "--target is \"%.200s\", which is no target of the model",
                    target);
    return fail(why, CLI_USAGE,
                "--permutation is about the error of one target; name one of the %lld of the model "
                "with --target",
                (long long)count);
}

enum exit_status permuted_find(const struct model *m, const char *path,
                               const struct input_settings *input,
                               const struct permuted_settings *settings, struct permuted *out,
                               struct failure *why)
{
    const int64_t shape[2] = {m->count, settings->repeats};
    struct matrix increase = {.memory = NULL};
    struct table_view view = {.columns = NULL};
    struct table table = {0};
    int64_t target;
    enum exit_status status;

    *out = (struct permuted){.repeats = settings->repeats};
    TRY(check_target(m->machine, settings->target, why));
    TRY(model_read_table(m, path, input, NULL, &target, &table, why));
    if (settings->target)
        target = table_find(&table, settings->target); /* the table has all targets */
    const int64_t except[2] = {target, -1};
    status = table_view_make(&table, 0, table.rows, except, &view, why);
    if (status == CLI_OK)
        status = matrix_allocate(&increase, GRAM_F64, 2, shape, why);
    if (status == CLI_OK) {
        const gram_column truth = table_column(&table, target, 0);
        status = shuffle(m, &view.t, &truth, settings, &increase, out, why);
    }
    if (status == CLI_OK)
        status = summarise(m, increase.memory, out, why);
    matrix_free(&increase);
    free(view.columns);
    table_free(&table);
    return status;
}

void permuted_free(struct permuted *p)
{
    free(p->feature);
    p->feature = NULL;
}

void permuted_json(struct json *j, const struct permuted *p)
{
    json_object(j, "permutation");
    json_string(j, "metric", p->metric);
    json_number(j, "error", p->error);
    json_integer(j, "rows", p->rows);
    json_integer(j, "repeats", p->repeats);
    json_object(j, "increase");
    for (int64_t i = 0; i < p->count; i++) {
        json_flat_object(j, p->feature[i].name);
        json_number(j, "mean", p->feature[i].mean);
        json_number(j, "deviation", p->feature[i].deviation);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

void permuted_text(struct output *out, const struct permuted *p, int64_t most)
{
    const int64_t shown = p->count < most ? p->count : most;

    output_format(out,
                  "increase of the %s of %.4g on %lld row%s when a column is shuffled, mean +- "
                  "standard deviation of %lld:\n",
                  strcmp(p->metric, "rmse") == 0 ? "rmse" : "log loss", p->error,
                  (long long)p->rows, p->rows == 1 ? "" : "s", (long long)p->repeats);
    for (int64_t i = 0; i < shown; i++) {
        const struct permuted_feature *f = &p->feature[i];
        const double part = p->feature[0].mean > 0 ? f->mean / p->feature[0].mean : 0;

        output_format(out, "  %10.4g", f->mean);
        if (isnan(f->deviation))
            output_text(out, "            ");
        else
            output_format(out, " +- %-7.2g ", f->deviation);
        output_style(out, STYLE_BAR);
        for (int k = 0; k < 20; k++)
            output_text(out, k < (int)(20 * part + 0.5) ? "#" : " ");
        output_style(out, STYLE_PLAIN);
        output_text(out, " ");
        output_name(out, f->name, strlen(f->name));
        output_text(out, "\n");
    }
    if (shown < p->count)
        output_format(out, "  and %lld more\n", (long long)(p->count - shown));
}
