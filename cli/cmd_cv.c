/*
 * cmd_cv.c - `gram cv`: cross-validation, how well models of a table predict rows of it
 *
 * For every fold the rows outside it are copied and learned from, and the rows in it are copied and
 * predicted, so that the table is in memory twice.
 *
 * SPDX-License-Identifier: MIT
 */
#include "csv_write.h"
#include "device.h"
#include "fit.h"
#include "folds.h"
#include "interrupt.h"
#include "judge.h"
#include "number.h"
#include "progress.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct fit_settings fit;
    const char *groups, *time;
    int64_t folds;
};

#define AT(member) offsetof(struct settings, member)

static const struct option_row main_rows[] = {
    COLUMN_NAME("target", 'y', "COLUMN", AT(fit.target), "the column to predict (required)"),
    INTEGER("folds", 'k', "K", AT(folds), "5", 2, 1e6, "the number of folds"),
    COLUMN_NAME("groups", 0, "COLUMN", AT(groups),
                "keep rows with the same value of this column in one fold; it is no feature"),
    COLUMN_NAME("time", 0, "COLUMN", AT(time),
                "learn from the past alone: folds follow each other in the order of this column, "
                "and every one is predicted from all rows before it; it is no feature"),
    CHOICE("task", 0, "TASK", AT(fit.task), "auto", "auto|regression|classification",
           "auto: classification if the target is text or has two values, else regression"),
    FLAG("auto", 'a', AT(fit.automatic),
         "search for the hyperparameters that are not given, in every fold"),
    NUMBER("time-limit", 0, "SECONDS", AT(fit.time_limit), "300", 1, 1e9,
           "the time limit of the search in each fold"),
    INTEGER("seed", 0, "N", AT(fit.seed), "0", 0, 0x1p53,
            "the seed of the folds and of every random choice of the fits"),
    OPTION_END,
};

static const struct option_row report_rows[] = {
    FLAG("json", 0, AT(fit.json), "write the report as JSON to standard output"),
    FILE_NAME("output", 'o', "FILE", AT(fit.output), NULL,
              "write a line per row of DATA, as CSV: its fold and its prediction by the model that "
              "did not learn from it"),
    CHOICE("progress", 0, "WHEN", AT(fit.common.progress), "auto", "auto|never",
           "auto: show a progress bar if standard error is a terminal; never: do not"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Cross-validation", main_rows, 0),
    GROUP("Columns", fit_column_options, AT(fit)),
    GROUP("Hyperparameters", fit_hyper_options, AT(fit)),
    GROUP("Limits", fit_limit_options, AT(fit)),
    GROUP("Report", report_rows, 0),
    GROUP("Input", input_options, AT(fit.input)),
    GROUP("Device", device_options, AT(fit.common)),
    GROUP("Other options", threads_options, AT(fit.common)),
    GROUP("", common_options, AT(fit.common)),
    GROUP_END,
};

enum {
    MOST_MEASURES = 8
};

/* The measures of a task, in the order of the report; coverage is the share of the rows in the
 * intervals or sets of COVERAGE_LEVEL. */
static const char *const class_names[MOST_MEASURES] =
    {"accuracy", "log_loss",          "auc",     "f1", "balanced_accuracy",
     "brier",    "calibration_error", "coverage"},
                         *const number_names[MOST_MEASURES] = {
                             "rmse", "mae", "median_absolute_error", "r2", "coverage"};

struct fold {
    int64_t trained, scored;
    double measure[MOST_MEASURES];
    double seconds;
};

/* Everything that a run acquires. */
struct cv {
    const struct settings *s;
    const char *data;
    struct table table;
    int64_t target, weights, groups, time; /* columns, or -1 */
    int64_t *fold;                         /* of every row */
    struct fold *folds;
    char **said; /* the prediction of every row as text, NULL: none; only with --output */
    struct class_weights class_weights;
    gram_task task;
    gram_context *g;
    struct progress progress;
    int64_t now; /* the fold at work */
    struct output out;
};

/* Copies of some rows; part_free when done. */
struct part {
    gram_table t;
    gram_column *columns; /* of the features, and then the target */
    gram_column target;
    double *weights;
    int64_t *row; /* in the table */
};

static void part_free(struct part *p)
{
    for (int64_t c = 0; p->columns && c <= p->t.columns; c++) {
        free((void *)p->columns[c].numbers);
        free((void *)p->columns[c].labels);
    }
    free(p->columns);
    free(p->weights);
    free(p->row);
}

/* Whether the row is learned from (`held` 0) or predicted (1) in this fold. */
static int belongs(const struct cv *v, int64_t row, int64_t fold, int held)
{
    const int64_t of = v->fold[row];

    if (of == FOLD_NEVER)
        return 0;
    return held ? of == fold : v->time >= 0 ? of < fold : of != fold;
}

static enum exit_status copy_column(const struct column *from, const int64_t *row, int64_t count,
                                    gram_column *to, struct failure *why)
{
    const size_t bytes = from->numbers ? sizeof *from->numbers : sizeof *from->texts;
    void *memory = malloc((size_t)(count + 1) * bytes);

    *to = (gram_column){.name = from->name};
    if (!memory)
        return fail_memory(why, "the rows of a fold");
    if (from->numbers) {
        to->numbers = memory;
        for (int64_t i = 0; i < count; i++)
            ((double *)memory)[i] = from->numbers[row[i]];
    } else {
        to->labels = memory;
        for (int64_t i = 0; i < count; i++)
            ((const char **)memory)[i] = from->texts[row[i]];
    }
    return CLI_OK;
}

// NOLINTBEGIN(clang-analyzer-unix.Malloc): part_free has what was copied, also after a failure
static enum exit_status part_make(const struct cv *v, int64_t fold, int held, struct part *p,
                                  struct failure *why)
{
    const struct table *t = &v->table;
    gram_column weights = {.name = NULL};

    *p = (struct part){.columns = calloc((size_t)t->width + 1, sizeof *p->columns),
                       .row = malloc((size_t)(t->rows + 1) * sizeof *p->row)};
    if (!p->columns || !p->row)
        return fail_memory(why, "the rows of a fold");
    for (int64_t row = 0; row < t->rows; row++)
        if (belongs(v, row, fold, held))
            p->row[p->t.rows++] = row;
    for (int64_t c = 0; c < t->width; c++)
        if (t->columns[c].kind != COLUMN_IGNORED && c != v->target && c != v->weights) {
            TRY(copy_column(&t->columns[c], p->row, p->t.rows, &p->columns[p->t.columns], why));
            p->t.columns++;
        }
    p->t.column = p->columns;
    TRY(copy_column(&t->columns[v->target], p->row, p->t.rows, &p->target, why));
    p->columns[p->t.columns] = p->target;
    if (v->weights >= 0)
        TRY(copy_column(&t->columns[v->weights], p->row, p->t.rows, &weights, why));
    p->weights = (double *)weights.numbers;
    return CLI_OK;
}
// NOLINTEND(clang-analyzer-unix.Malloc)

/* ---- The table ---------------------------------------------------------------------------- */

/* A column that decides about the folds is no feature. */
static enum exit_status take_apart(struct cv *v, const char *name, const char *option,
                                   int64_t *index, struct failure *why)
{
    *index = -1;
    if (!name)
        return CLI_OK;
    TRY(table_require(&v->table, v->data, name, option, index, why));
    if (*index == v->target || *index == v->weights)
        return fail(why, CLI_USAGE, "\"%.200s\"%s is the target or the weights, expected another",
                    name, option);
    if (v->table.columns[*index].kind == COLUMN_IGNORED)
        return fail(why, CLI_USAGE, "\"%.200s\"%s is also in --ignore", name, option);
    v->table.columns[*index].kind = COLUMN_IGNORED;
    return CLI_OK;
}

static enum exit_status prepare(struct cv *v, struct failure *why)
{
    const struct settings *s = v->s;
    struct fold_plan plan = {.folds = s->folds, .seed = (uint64_t)s->fit.seed, .path = v->data};

    TRY(fit_read(&s->fit, v->data, &v->table, &v->target, &v->weights, why));
    TRY(take_apart(v, s->groups, " (--groups)", &v->groups, why));
    TRY(take_apart(v, s->time, " (--time)", &v->time, why));
    v->task = fit_task(&s->fit, &v->table, v->target);
    TRY(fit_class_weights(&s->fit, &v->table, v->target, &v->class_weights, why));
    v->fold = calloc((size_t)v->table.rows + 1, sizeof *v->fold);
    v->folds = calloc((size_t)s->folds, sizeof *v->folds);
    v->said = s->fit.output ? calloc((size_t)v->table.rows + 1, sizeof *v->said) : NULL;
    if (!v->fold || !v->folds || (s->fit.output && !v->said))
        return fail_memory(why, "the folds");
    plan.table = &v->table;
    plan.target = v->target;
    plan.groups = v->groups;
    plan.time = v->time;
    plan.classes = v->task == GRAM_CLASSIFICATION && v->groups < 0 && v->time < 0 ? v->target : -1;
    return folds_deal(&plan, v->fold, why);
}

/* ---- One fold ----------------------------------------------------------------------------- */

static void show_progress(void *user, double fraction, const char *stage)
{
    struct cv *v = user;

    progress_update(&v->progress, ((double)v->now + fraction) / (double)v->s->folds, stage);
}

static enum exit_status train(struct cv *v, const struct part *p, gram_machine **machine,
                              struct failure *why)
{
    gram_machine_options options;
    gram_status status;

    TRY(fit_options(&v->s->fit, &options, why));
    TRY(fit_categorical(&v->s->fit, &v->table, &options, why));
    options.task = v->task;
    options.weights = p->weights;
    class_weights_give(&v->class_weights, &p->target, p->t.rows, &options);
    options.progress = show_progress;
    options.progress_user = v;
    interrupt_cancels(v->g);
    status = gram_machine_fit(v->g, &p->t, &p->target, &options, machine);
    free((void *)options.categorical_column);
    status = interrupt_ends(status);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, v->g);
}

static void take_measures(const struct judgement *j, double *out)
{
    const struct class_measures *c = &j->classes;

    if (j->proba) {
        const double values[MOST_MEASURES] = {
            j->score.score, j->score.log_loss,    c->auc,           c->f1, c->balanced_accuracy,
            c->brier,       c->calibration_error, j->coverage.share};
        memcpy(out, values, sizeof values);
    } else {
        const double values[MOST_MEASURES] = {j->numbers.rmse, j->numbers.mae, j->numbers.median,
                                              j->numbers.r2, j->coverage.share};
        memcpy(out, values, sizeof values);
    }
}

/* Keeps the predictions of a part as texts, since the classes are gone with their machine. */
static enum exit_status keep(struct cv *v, const gram_machine *machine, const struct part *p,
                             const struct judgement *j, struct failure *why)
{
    const int64_t classes = gram_machine_class_count(machine);

    for (int64_t i = 0; v->said && i < p->t.rows; i++) {
        char number[NUMBER_TEXT];
        const char *text = number;
        if (classes > 0)
            text = gram_machine_class_name(machine,
                                           class_most_probable(j->proba + i * classes, classes));
        else
            number_format(number, j->value[i]);
        v->said[p->row[i]] = strdup(text);
        if (!v->said[p->row[i]])
            return fail_memory(why, "the predictions");
    }
    return CLI_OK;
}

static enum exit_status do_fold(struct cv *v, int64_t fold, struct failure *why)
{
    struct part past = {.row = NULL}, held = {.row = NULL};
    struct judgement judged = {.value = NULL};
    gram_machine *machine = NULL;
    struct fold *f = &v->folds[fold];
    const int64_t start = clock_ns();
    enum exit_status status = part_make(v, fold, 0, &past, why);

    v->now = fold;
    if (status == CLI_OK)
        status = part_make(v, fold, 1, &held, why);
    if (status == CLI_OK)
        status = train(v, &past, &machine, why);
    if (status == CLI_OK)
        status = judge(v->g, machine, &held.t, &held.target, &judged, why);
    if (status == CLI_OK) {
        f->trained = past.t.rows;
        f->scored = judged.score.rows;
        take_measures(&judged, f->measure);
        status = keep(v, machine, &held, &judged, why);
        f->seconds = (double)(clock_ns() - start) / 1e9;
    }
    judgement_free(&judged);
    gram_machine_destroy(machine);
    part_free(&past);
    part_free(&held);
    return status;
}

/* ---- The report --------------------------------------------------------------------------- */

/* The mean over the folds in which a measure exists, and the standard deviation between them (with
 * n - 1), NaN where there are too few. */
static void spread_of(const struct cv *v, int measure, double *mean, double *deviation)
{
    double sum = 0, squares = 0, count = 0;

    for (int64_t f = 0; f < v->s->folds; f++)
        if (!isnan(v->folds[f].measure[measure]))
            sum += v->folds[f].measure[measure], count++;
    *mean = count > 0 ? sum / count : NAN;
    for (int64_t f = 0; f < v->s->folds; f++)
        if (!isnan(v->folds[f].measure[measure]))
            squares += pow(v->folds[f].measure[measure] - *mean, 2);
    *deviation = count > 1 ? sqrt(squares / (count - 1)) : NAN;
}

static const char *const *names_of(const struct cv *v)
{
    return v->task == GRAM_CLASSIFICATION ? class_names : number_names;
}

static void write_json(struct output *out, const struct cv *v, double seconds)
{
    const char *const *names = names_of(v);
    struct json j = json_to(out);
    double mean[MOST_MEASURES], deviation[MOST_MEASURES];

    json_object(&j, NULL);
    json_string(&j, "target", v->s->fit.target);
    json_string(&j, "task", task_name(v->task));
    json_array(&j, "folds");
    for (int64_t f = 0; f < v->s->folds; f++) {
        json_flat_object(&j, NULL);
        json_integer(&j, "rows", v->folds[f].trained);
        json_integer(&j, "rows_scored", v->folds[f].scored);
        for (int m = 0; m < MOST_MEASURES && names[m]; m++)
            json_number(&j, names[m], v->folds[f].measure[m]);
        json_number(&j, "seconds", v->folds[f].seconds);
        json_end(&j);
    }
    json_end(&j);
    for (int m = 0; m < MOST_MEASURES; m++)
        spread_of(v, m, &mean[m], &deviation[m]);
    json_flat_object(&j, "mean");
    for (int m = 0; m < MOST_MEASURES && names[m]; m++)
        json_number(&j, names[m], mean[m]);
    json_end(&j);
    json_flat_object(&j, "deviation");
    for (int m = 0; m < MOST_MEASURES && names[m]; m++)
        json_number(&j, names[m], deviation[m]);
    json_end(&j);
    json_number(&j, "seconds", seconds);
    json_end(&j);
}

static int measure_width(const char *name)
{
    const int size = (int)strlen(name);

    return size > 9 ? size : 9;
}

static void write_text(struct output *out, const struct cv *v, double seconds)
{
    const char *const *names = names_of(v);

    output_format(out, "%s of ", task_name(v->task));
    output_name(out, v->s->fit.target, strlen(v->s->fit.target));
    output_format(out, ", %lld folds in %.2f s\n%-4s %8s %8s", (long long)v->s->folds, seconds,
                  "fold", "learned", "scored");
    for (int m = 0; m < MOST_MEASURES && names[m]; m++)
        output_format(out, "  %*s", measure_width(names[m]), names[m]);
    output_text(out, "\n");
    for (int64_t f = 0; f < v->s->folds; f++) {
        const struct fold *fold = &v->folds[f];
        output_format(out, "%-4lld %8lld %8lld", (long long)f + 1, (long long)fold->trained,
                      (long long)fold->scored);
        for (int m = 0; m < MOST_MEASURES && names[m]; m++)
            output_format(out, "  %*.6g", measure_width(names[m]), fold->measure[m]);
        output_text(out, "\n");
    }
    for (int m = 0; m < MOST_MEASURES && names[m]; m++) {
        double mean, deviation;
        spread_of(v, m, &mean, &deviation);
        output_format(out, "%s %.6g", names[m], mean);
        if (!isnan(deviation))
            output_format(out, " +- %.2g", deviation);
        output_text(out, "\n");
    }
}

static enum exit_status report(const struct cv *v, double seconds, struct failure *why)
{
    struct output out;

    TRY(output_open(&out, "-", why));
    if (v->s->fit.json)
        write_json(&out, v, seconds);
    else
        write_text(&out, v, seconds);
    return output_close(&out, why);
}

static void write_predictions(struct cv *v)
{
    output_text(&v->out, "fold,prediction\n");
    for (int64_t row = 0; row < v->table.rows; row++) {
        if (v->said[row]) {
            output_format(&v->out, "%lld,", (long long)v->fold[row] + 1);
            csv_write_field(&v->out, v->said[row], ',');
        } else {
            output_text(&v->out, ",");
        }
        output_text(&v->out, "\n");
    }
}

static enum exit_status work(struct cv *v, struct failure *why)
{
    const int64_t start = clock_ns();
    enum exit_status status = CLI_OK;

    TRY(prepare(v, why));
    TRY(open_context(&v->s->fit.common, &v->g, why));
    progress_begin(&v->progress, v->s->fit.common.progress == PROGRESS_AUTO);
    for (int64_t f = 0; f < v->s->folds && status == CLI_OK; f++)
        status = do_fold(v, f, why);
    progress_end(&v->progress);
    TRY(status);
    TRY(report(v, (double)(clock_ns() - start) / 1e9, why));
    if (v->said)
        write_predictions(v);
    return CLI_OK;
}

static enum exit_status check(const struct settings *s, struct failure *why)
{
    if (!s->fit.target)
        return fail(why, CLI_USAGE, "--target is missing, the name of the column to predict");
    if (s->groups && s->time)
        return fail(why, CLI_USAGE, "--groups and --time are both given, expected one of them");
    if (s->fit.output && strcmp(s->fit.output, "-") == 0)
        return fail(why, CLI_USAGE,
                    "--output is -, expected a file, because the report is on standard output");
    return CLI_OK;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    struct cv v = {.s = settings, .data = operands[0]};
    const int writes = v.s->fit.output != NULL;
    enum exit_status status;

    (void)count;
    TRY(check(v.s, why));
    if (writes)
        TRY(output_open(&v.out, v.s->fit.output, why));
    status = work(&v, why);
    if (writes && status == CLI_OK)
        status = output_close(&v.out, why);
    else if (writes)
        output_discard(&v.out);
    for (int64_t row = 0; v.said && row < v.table.rows; row++)
        free(v.said[row]);
    free(v.said);
    class_weights_free(&v.class_weights);
    free(v.fold);
    free(v.folds);
    gram_context_destroy(v.g);
    table_free(&v.table);
    return status;
}

const struct command cmd_cv = {
    .name = "cv",
    .operands = "DATA",
    .summary = "tell by cross-validation how well models of a table predict",
    .details =
        "Divides the rows of DATA into --folds parts. Each part is predicted by a model that was "
        "trained, as gram fit would, on the other parts. It prints the measures of gram score for "
        "every fold, their means, and after +- their standard deviations between the folds. Among "
        "them is coverage, the share of the rows that the intervals or sets of 90 % hold. No model "
        "is written.\n\n"
        "The folds are random. For a classification every fold has about the same share of each "
        "class. With --groups the rows of a group stay together, which is right where rows of one "
        "person or one place resemble each other. With --time the rows are cut in the order of a "
        "column of numbers or of texts such as 2026-11-25; the first part is only learned from, "
        "and every other part is predicted from all that come before it. Rows without a target "
        "are left out.",
    .examples =
        "  gram cv letters.csv --target letter\n"
        "  gram cv sales.csv -y amount --time day --folds 8 -o out-of-fold.csv",
    .least = 1,
    .most = 1,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
