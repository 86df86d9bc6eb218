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
    COLUMN_NAMES("target", 'y', "COLUMNS", AT(fit.target),
                 "the column to predict (required), or several of a regression, separated by "
                 "commas"),
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

/* The measures of one target, or of several their means. */
struct measured {
    double of[MOST_MEASURES];
};

struct fold {
    int64_t trained, scored;
    struct measured mean, *each; /* each: of several targets */
    double seconds;
};

/* Everything that a run acquires. */
struct cv {
    const struct settings *s;
    const char *data;
    struct table table;
    struct targets targets;
    int64_t weights, groups, time; /* columns, or -1 */
    int64_t *fold;                 /* of every row */
    struct fold *folds;
    struct measured *each; /* folds by targets, if they are several */
    char **said; /* rows by targets: predictions as texts, NULL: none; only with --output */
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
    gram_column *columns; /* of the features, and then the targets */
    gram_column *target;  /* the first of the targets */
    int64_t targets;      /* that were copied */
    double *weights;
    int64_t *row; /* in the table */
};

static void part_free(struct part *p)
{
    for (int64_t c = 0; p->columns && c < p->t.columns + p->targets; c++) {
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
        if (t->columns[c].kind != COLUMN_IGNORED && c != v->targets.column[0] && c != v->weights) {
            TRY(copy_column(&t->columns[c], p->row, p->t.rows, &p->columns[p->t.columns], why));
            p->t.columns++;
        }
    p->t.column = p->columns;
    p->target = p->columns + p->t.columns;
    for (int64_t i = 0; i < v->targets.count; i++) {
        TRY(copy_column(&t->columns[v->targets.column[i]], p->row, p->t.rows, &p->target[i], why));
        p->targets++;
    }
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
    int among = 0;

    *index = -1;
    if (!name)
        return CLI_OK;
    TRY(table_require(&v->table, v->data, name, option, index, why));
    for (int64_t i = 0; i < v->targets.count; i++)
        among |= *index == v->targets.column[i];
    if (among || *index == v->weights)
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
    int64_t target;

    TRY(fit_read(&s->fit, v->data, &v->table, &v->targets, &v->weights, why));
    TRY(take_apart(v, s->groups, " (--groups)", &v->groups, why));
    TRY(take_apart(v, s->time, " (--time)", &v->time, why));
    target = v->targets.column[0];
    v->task = v->targets.count > 1 ? GRAM_REGRESSION : fit_task(&s->fit, &v->table, target);
    TRY(fit_class_weights(&s->fit, &v->table, target, &v->class_weights, why));
    v->fold = calloc((size_t)v->table.rows + 1, sizeof *v->fold);
    v->folds = calloc((size_t)s->folds, sizeof *v->folds);
    v->each = calloc((size_t)(s->folds * v->targets.count), sizeof *v->each);
    if (s->fit.output)
        v->said = calloc((size_t)(v->table.rows * v->targets.count) + 1, sizeof *v->said);
    if (!v->fold || !v->folds || !v->each || (s->fit.output && !v->said))
        return fail_memory(why, "the folds");
    for (int64_t f = 0; f < s->folds; f++)
        v->folds[f].each = v->each + f * v->targets.count;
    plan.table = &v->table;
    plan.targets = &v->targets;
    plan.groups = v->groups;
    plan.time = v->time;
    plan.classes = v->task == GRAM_CLASSIFICATION && v->groups < 0 && v->time < 0 ? target : -1;
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
    class_weights_give(&v->class_weights, p->target, p->t.rows, &options);
    options.progress = show_progress;
    options.progress_user = v;
    interrupt_cancels(v->g);
    status = gram_machine_fit_targets(v->g, &p->t, p->target, v->targets.count, &options, machine);
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
                             int64_t target, const struct judgement *j, struct failure *why)
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
        char **said = &v->said[p->row[i] * v->targets.count + target];
        *said = strdup(text);
        if (!*said)
            return fail_memory(why, "the predictions");
    }
    return CLI_OK;
}

/* Judges the held-out rows of one target. */
static enum exit_status score(struct cv *v, const gram_machine *machine, const struct part *held,
                              struct fold *f, struct failure *why)
{
    struct judgement judged = {.value = NULL};
    enum exit_status status = judge(v->g, machine, &held->t, held->target, &judged, why);

    if (status == CLI_OK) {
        f->scored = judged.score.rows;
        take_measures(&judged, f->mean.of);
        status = keep(v, machine, held, 0, &judged, why);
    }
    judgement_free(&judged);
    return status;
}

/* The same of several targets. */
static enum exit_status score_targets(struct cv *v, const gram_machine *machine,
                                      const struct part *held, struct fold *f, struct failure *why)
{
    struct judgements judged;
    enum exit_status status = judge_targets(v->g, machine, &held->t, held->target, &judged, why);

    for (int64_t t = 0; status == CLI_OK && t < judged.count; t++) {
        f->scored = judged.mean.rows;
        take_measures(&judged.of[t], f->each[t].of);
        for (int m = 0; m < MOST_MEASURES; m++)
            f->mean.of[m] += f->each[t].of[m] / (double)judged.count;
        status = keep(v, machine, held, t, &judged.of[t], why);
    }
    judgements_free(&judged);
    return status;
}

static enum exit_status do_fold(struct cv *v, int64_t fold, struct failure *why)
{
    struct part past = {.row = NULL}, held = {.row = NULL};
    gram_machine *machine = NULL;
    struct fold *f = &v->folds[fold];
    const int64_t start = clock_ns();
    enum exit_status status = part_make(v, fold, 0, &past, why);

    v->now = fold;
    if (status == CLI_OK)
        status = part_make(v, fold, 1, &held, why);
    if (status == CLI_OK)
        status = train(v, &past, &machine, why);
    f->trained = past.t.rows;
    if (status == CLI_OK)
        status = v->targets.count > 1 ? score_targets(v, machine, &held, f, why)
                                      : score(v, machine, &held, f, why);
    f->seconds = (double)(clock_ns() - start) / 1e9;
    gram_machine_destroy(machine);
    part_free(&past);
    part_free(&held);
    return status;
}

/* ---- The report --------------------------------------------------------------------------- */

enum {
    MEANS = -1 /* over the targets */
};

static double measure_of(const struct cv *v, int64_t fold, int64_t target, int measure)
{
    const struct fold *f = &v->folds[fold];

    return target == MEANS ? f->mean.of[measure] : f->each[target].of[measure];
}

/* The mean over the folds in which a measure exists, and the standard deviation between them (with
 * n - 1), NaN where there are too few. */
static void spread_of(const struct cv *v, int64_t target, int measure, double *mean,
                      double *deviation)
{
    double sum = 0, squares = 0, count = 0;

    for (int64_t f = 0; f < v->s->folds; f++)
        if (!isnan(measure_of(v, f, target, measure)))
            sum += measure_of(v, f, target, measure), count++;
    *mean = count > 0 ? sum / count : NAN;
    for (int64_t f = 0; f < v->s->folds; f++)
        if (!isnan(measure_of(v, f, target, measure)))
            squares += pow(measure_of(v, f, target, measure) - *mean, 2);
    *deviation = count > 1 ? sqrt(squares / (count - 1)) : NAN;
}

static const char *name_of_target(const struct cv *v, int64_t target)
{
    return v->table.columns[v->targets.column[target]].name;
}

static const char *const *names_of(const struct cv *v)
{
    return v->task == GRAM_CLASSIFICATION ? class_names : number_names;
}

/* The members "mean" and "deviation" of an open object. */
static void spreads_json(struct json *j, const struct cv *v, int64_t target)
{
    const char *const *names = names_of(v);
    double mean[MOST_MEASURES], deviation[MOST_MEASURES];

    for (int m = 0; m < MOST_MEASURES; m++)
        spread_of(v, target, m, &mean[m], &deviation[m]);
    json_flat_object(j, "mean");
    for (int m = 0; m < MOST_MEASURES && names[m]; m++)
        json_number(j, names[m], mean[m]);
    json_end(j);
    json_flat_object(j, "deviation");
    for (int m = 0; m < MOST_MEASURES && names[m]; m++)
        json_number(j, names[m], deviation[m]);
    json_end(j);
}

static void write_json(struct output *out, const struct cv *v, double seconds)
{
    const char *const *names = names_of(v);
    struct json j = json_to(out);

    json_object(&j, NULL);
    json_string(&j, "target", name_of_target(v, 0));
    if (v->targets.count > 1) {
        json_flat_array(&j, "targets");
        for (int64_t t = 0; t < v->targets.count; t++)
            json_string(&j, NULL, name_of_target(v, t));
        json_end(&j);
    }
    json_string(&j, "task", task_name(v->task));
    json_array(&j, "folds");
    for (int64_t f = 0; f < v->s->folds; f++) {
        json_flat_object(&j, NULL);
        json_integer(&j, "rows", v->folds[f].trained);
        json_integer(&j, "rows_scored", v->folds[f].scored);
        for (int m = 0; m < MOST_MEASURES && names[m]; m++)
            json_number(&j, names[m], measure_of(v, f, MEANS, m));
        json_number(&j, "seconds", v->folds[f].seconds);
        json_end(&j);
    }
    json_end(&j);
    spreads_json(&j, v, MEANS);
    if (v->targets.count > 1) {
        json_object(&j, "scores");
        for (int64_t t = 0; t < v->targets.count; t++) {
            json_object(&j, name_of_target(v, t));
            spreads_json(&j, v, t);
            json_end(&j);
        }
        json_end(&j);
    }
    json_number(&j, "seconds", seconds);
    json_end(&j);
}

static int measure_width(const char *name)
{
    const int size = (int)strlen(name);

    return size > 9 ? size : 9;
}

static void spreads_text(struct output *out, const struct cv *v, int64_t target)
{
    const char *const *names = names_of(v);

    for (int m = 0; m < MOST_MEASURES && names[m]; m++) {
        double mean, deviation;
        spread_of(v, target, m, &mean, &deviation);
        output_format(out, "%s%s %.6g", v->targets.count > 1 ? "  " : "", names[m], mean);
        if (!isnan(deviation))
            output_format(out, " +- %.2g", deviation);
        output_text(out, "\n");
    }
}

static void write_text(struct output *out, const struct cv *v, double seconds)
{
    const char *const *names = names_of(v);

    output_format(out, "%s of ", task_name(v->task));
    for (int64_t t = 0; t < v->targets.count; t++) {
        output_text(out, t ? ", " : "");
        output_name(out, name_of_target(v, t), strlen(name_of_target(v, t)));
    }
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
            output_format(out, "  %*.6g", measure_width(names[m]), fold->mean.of[m]);
        output_text(out, "\n");
    }
    if (v->targets.count > 1)
        output_text(out, "means of the targets:\n");
    spreads_text(out, v, MEANS);
    for (int64_t t = 0; v->targets.count > 1 && t < v->targets.count; t++) {
        output_name(out, name_of_target(v, t), strlen(name_of_target(v, t)));
        output_text(out, ":\n");
        spreads_text(out, v, t);
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
    const int64_t targets = v->targets.count;
    char name[TARGET_COLUMN_BYTES];

    output_text(&v->out, targets > 1 ? "fold" : "fold,prediction");
    for (int64_t t = 0; targets > 1 && t < targets; t++) {
        output_text(&v->out, ",");
        csv_write_field(&v->out, target_column("prediction", name_of_target(v, t), name), ',');
    }
    output_text(&v->out, "\n");
    for (int64_t row = 0; row < v->table.rows; row++) {
        if (v->said[row * targets])
            output_format(&v->out, "%lld", (long long)v->fold[row] + 1);
        for (int64_t t = 0; t < targets; t++) {
            output_text(&v->out, ",");
            if (v->said[row * targets + t])
                csv_write_field(&v->out, v->said[row * targets + t], ',');
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
    for (int64_t i = 0; v.said && i < v.table.rows * v.targets.count; i++)
        free(v.said[i]);
    free(v.said);
    free(v.each);
    targets_free(&v.targets);
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
        "are left out. Several targets are learned together; the measures of a fold are means over "
        "them, and each has means of its own below.",
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
