/*
 * cmd_fit.c - `gram fit`: trains a kernel machine on a table and saves it
 *
 * The held-out rows are moved to the front of the table, so that both parts are views of it and no
 * row is copied.
 *
 * SPDX-License-Identifier: MIT
 */
#include "devices.h"
#include "first_look.h"
#include "fit.h"
#include "holdout.h"
#include "interrupt.h"
#include "load.h"
#include "progress.h"
#include "ranks.h"
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Everything that a run acquires.  It is released in one place. */
struct fit {
    const struct fit_settings *s;
    const char *data; /* path */
    struct table table;
    struct targets targets;
    gram_column *columns;    /* of the targets, below the held-out rows */
    int64_t target, weights; /* columns: the first target; weights -1: none */
    int64_t held_out;        /* the first rows of the table */
    gram_context *g;
    struct ranks ranks;     /* with --mpi: g is theirs */
    struct devices devices; /* where there are several: g is the first one's */
    gram_machine *machine;
    gram_machine_feature *features;
    struct class_weights class_weights;
    gram_machine_score score;
    struct judgements judged; /* of several targets */
    struct fit_result result;
    struct progress progress;
};

/* Whether this process is alone, or the first of several. */
static int is_first(const struct fit *f)
{
    return !f->ranks.c || ranks_first(&f->ranks);
}

/* What all processes know of each other's success; the message of one alone is its own. */
static enum exit_status agree(struct fit *f, enum exit_status status, struct failure *why)
{
    return f->ranks.c ? ranks_agree(&f->ranks, status, why) : status;
}

static enum column_kind column_kind(const void *user, const char *name)
{
    const struct fit_settings *s = user;

    if (s->weights && strcmp(name, s->weights) == 0)
        return COLUMN_NUMBER;
    if (name_listed(s->ignore, name))
        return COLUMN_IGNORED;
    if (target_named(s->target, name) && s->task == GRAM_REGRESSION)
        return COLUMN_NUMBER;
    return name_listed(s->categorical, name) ? COLUMN_TEXT : COLUMN_ANY;
}

/* A name in a list must be that of a column; anything else is a mistake of the user. */
static enum exit_status check_list(const struct fit *f, const char *option, const char *list,
                                   struct failure *why)
{
    char what[64];
    int64_t ignored;

    snprintf(what, sizeof what, " (in --%s)", option);
    while (list)
        TRY(name_next(&f->table, f->data, &list, what, &ignored, why));
    return CLI_OK;
}

/* Refuses values of a target that the library would also refuse, because only the command knows the
 * lines of the file. */
static enum exit_status check_values(const struct fit *f, int64_t column, struct failure *why)
{
    const struct table *t = &f->table;
    const struct column *target = &t->columns[column];
    const double *numbers = target->numbers;
    const double *weights = f->weights < 0 ? NULL : t->columns[f->weights].numbers;
    const int log = f->s->transform == GRAM_TRANSFORM_LOG,
              root = f->s->transform == GRAM_TRANSFORM_SQRT;

    TRY(table_check_finite(t, f->data, why));
    for (int64_t row = 0; row < t->rows; row++) {
        if (numbers ? isnan(numbers[row]) : target->texts && !target->texts[row])
            continue; /* rows without a target are left out */
        if (weights && !(weights[row] > 0))
            return table_fail(t, f->data, row, f->weights, why,
                              "the weight is %g, expected more than 0", weights[row]);
        if (numbers && ((log && numbers[row] <= 0) || (root && numbers[row] < 0)))
            return table_fail(t, f->data, row, column, why,
                              "the target is %g, expected %s for this --transform", numbers[row],
                              log ? "more than 0" : "at least 0");
    }
    return CLI_OK;
}

/* What is worth knowing about the table; its rows are still in the order of the file. */
static enum exit_status look(struct fit *f, struct failure *why)
{
    struct first_look at = {
        .table = &f->table,
        .target = f->target,
        .weights = f->weights,
        .task = f->s->task,
        .comma = f->s->input.decimal == DECIMAL_COMMA,
        .targets = f->targets.column,
        .several = f->targets.count > 1 ? f->targets.count : 0,
    };

    TRY(first_look(&at, &f->result.remarks, why));
    for (int64_t i = 1; i < f->targets.count; i++) {
        at.target = f->targets.column[i];
        TRY(first_look_target(&at, &f->result.remarks, why));
    }
    return remarks_print(&f->result.remarks, "fit", f->data, f->s->strict, why);
}

/* The table, and which of its columns are the target and the weights. */
static enum exit_status read_table(struct fit *f, struct failure *why)
{
    const struct fit_settings *s = f->s;
    const struct csv_options options = {
        .delimiter = s->input.delimiter,
        .comma = s->input.decimal == DECIMAL_COMMA,
        .header = s->input.no_header ? CSV_HEADER_NO : CSV_HEADER_YES,
        .kind = column_kind,
        .user = s,
    };

    TRY(load_table(f->data, &options, &f->table, why));
    TRY(targets_find(&f->table, f->data, s->target, &f->targets, why));
    f->target = f->targets.column[0];
    f->weights = -1;
    if (s->weights)
        TRY(table_require(&f->table, f->data, s->weights, " (--weights)", &f->weights, why));
    TRY(check_list(f, "categorical", s->categorical, why));
    TRY(check_list(f, "ignore", s->ignore, why));
    for (int64_t i = 0; i < f->targets.count; i++)
        if (f->table.columns[f->targets.column[i]].kind == COLUMN_IGNORED)
            return fail(why, CLI_USAGE, "--ignore names the target, \"%s\"",
                        f->table.columns[f->targets.column[i]].name);
    TRY(targets_check(&f->table, f->data, &f->targets, s->task, why));
    for (int64_t i = 0; i < f->targets.count; i++)
        TRY(check_values(f, f->targets.column[i], why));
    if (f->table.rows == 0)
        return fail(why, CLI_BAD_DATA, "%s has no rows below the header", text_name(f->data));
    for (int64_t i = 1; i < f->targets.count; i++) /* no features */
        f->table.columns[f->targets.column[i]].kind = COLUMN_IGNORED;
    return CLI_OK;
}

enum exit_status fit_read(const struct fit_settings *s, const char *path, struct table *table,
                          struct targets *targets, int64_t *weights, struct failure *why)
{
    struct fit f = {.s = s, .data = path};
    enum exit_status status = read_table(&f, why);

    *table = f.table;
    *targets = f.targets;
    *weights = f.weights;
    return status;
}

gram_task fit_task(const struct fit_settings *s, const struct table *table, int64_t target)
{
    const double *numbers = table->columns[target].numbers;
    double seen[2];
    int count = 0;

    if (s->task != GRAM_TASK_AUTO)
        return (gram_task)s->task;
    for (int64_t row = 0; numbers && row < table->rows; row++) {
        if (isnan(numbers[row]) || (count > 0 && numbers[row] == seen[0]) ||
            (count > 1 && numbers[row] == seen[1]))
            continue;
        if (count == 2)
            return GRAM_REGRESSION;
        seen[count++] = numbers[row];
    }
    return !numbers || count == 2 ? GRAM_CLASSIFICATION : GRAM_REGRESSION;
}

enum exit_status fit_class_weights(const struct fit_settings *s, const struct table *table,
                                   int64_t target, struct class_weights *out, struct failure *why)
{
    if (s->class_weight && fit_task(s, table, target) != GRAM_CLASSIFICATION)
        return fail(why, CLI_USAGE,
                    "--class-weight is given for a regression of \"%.200s\"; --task "
                    "classification takes its numbers as classes",
                    s->target);
    return class_weights_read(s->class_weight, table, target, out, why);
}

enum exit_status fit_categorical(const struct fit_settings *s, const struct table *table,
                                 gram_machine_options *options, struct failure *why)
{
    const char **names = malloc(((size_t)table->width + 1) * sizeof *names);
    int64_t count = 0;

    if (!names)
        return fail_memory(why, "the columns of the table");
    for (int64_t c = 0; c < table->width; c++)
        if (name_listed(s->categorical, table->columns[c].name))
            names[count++] = table->columns[c].name;
    options->categorical_columns = count;
    options->categorical_column = names;
    return CLI_OK;
}

static enum exit_status read_data(struct fit *f, struct failure *why)
{
    const struct fit_settings *s = f->s;

    TRY(read_table(f, why));
    TRY(fit_class_weights(s, &f->table, f->target, &f->class_weights, why));
    f->held_out = (int64_t)floor(s->holdout * (double)f->table.rows + 0.5);
    if (s->holdout > 0 && (f->held_out == 0 || f->held_out == f->table.rows))
        return fail(why, CLI_BAD_DATA,
                    "%s has %lld row%s, which --holdout %g cannot divide into two parts",
                    text_name(f->data), (long long)f->table.rows, f->table.rows == 1 ? "" : "s",
                    s->holdout);
    if (is_first(f)) /* one process remarks on the table for all */
        TRY(look(f, why));
    TRY(targets_view(&f->table, &f->targets, f->held_out, &f->columns, why));
    return holdout_shuffle(&f->table, f->held_out, (uint64_t)s->seed, why);
}

static void show_progress(void *user, double fraction, const char *stage)
{
    progress_update(user, fraction, stage);
}

static enum exit_status train(struct fit *f, gram_machine_options *options, struct failure *why)
{
    const int64_t except[2] = {f->target, f->weights};
    struct table_view view;
    const gram_column *target = f->columns;
    gram_status status;

    TRY(fit_categorical(f->s, &f->table, options, why));
    TRY(table_view_make(&f->table, f->held_out, f->table.rows - f->held_out, except, &view, why));
    if (f->weights >= 0)
        options->weights = table_column(&f->table, f->weights, f->held_out).numbers;
    class_weights_give(&f->class_weights, target, view.t.rows, options);
    options->progress = show_progress;
    options->progress_user = &f->progress;
    options->communicator = f->ranks.c;
    if (f->devices.group.count > 0)
        options->group = &f->devices.group;
    progress_begin(&f->progress, f->s->common.progress == PROGRESS_AUTO && is_first(f));
    interrupt_cancels(f->g);
    status = f->targets.count == 1
                 ? gram_machine_fit(f->g, &view.t, target, options, &f->machine)
                 : gram_machine_fit_targets(f->g, &view.t, target, f->targets.count, options,
                                            &f->machine);
    status = interrupt_ends(status);
    progress_end(&f->progress);
    free(view.columns);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, f->g);
}

static enum exit_status score_one(struct fit *f, const gram_table *table, struct failure *why)
{
    const gram_column truth = table_column(&f->table, f->target, 0);
    gram_status status;

    interrupt_cancels(f->g);
    status = gram_machine_evaluate(f->g, f->machine, table, &truth, &f->score);
    status = interrupt_ends(status);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, f->g);
}

static enum exit_status score_several(struct fit *f, const gram_table *table, struct failure *why)
{
    gram_column *truth;
    enum exit_status status;

    TRY(targets_view(&f->table, &f->targets, 0, &truth, why));
    status = judge_targets(f->g, f->machine, table, truth, &f->judged, why);
    free(truth);
    f->score = f->judged.mean;
    f->result.judged = &f->judged;
    return status;
}

static enum exit_status score(struct fit *f, struct failure *why)
{
    const int64_t except[2] = {f->target, f->weights};
    struct table_view view;
    enum exit_status status;

    if (f->held_out == 0)
        return CLI_OK;
    TRY(table_view_make(&f->table, 0, f->held_out, except, &view, why));
    status = f->targets.count == 1 ? score_one(f, &view.t, why) : score_several(f, &view.t, why);
    free(view.columns);
    f->result.score = &f->score;
    return status;
}

/* The library writes the model, and removes its temporary file itself if that fails. */
static enum exit_status save(struct fit *f, struct failure *why)
{
    gram_status status;

    interrupt_hold();
    status = gram_machine_save(f->g, f->machine, f->s->output);
    interrupt_release();
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, f->g);
}

static enum exit_status report(struct fit *f, struct failure *why)
{
    struct output out;

    if (f->s->chart) {
        char about[300];
        snprintf(about, sizeof about, "Share of the average gradient outer product, predicting %s",
                 gram_machine_target(f->machine));
        TRY(importance_chart(f->s->chart, about, f->features, f->result.feature_count, f->s->top,
                             why));
    }
    if (f->s->trials)
        TRY(fit_trials(f->s->trials, f->machine, why));
    TRY(output_open(&out, "-", why));
    if (f->s->json) {
        struct json j = json_to(&out);
        fit_json(&j, f->s, &f->result);
    } else {
        fit_text(&out, f->s, &f->result);
    }
    return output_close(&out, why);
}

/* Seconds since *since, which becomes now. */
static double lap(int64_t *since)
{
    int64_t now = clock_ns(), before = *since;

    *since = now;
    return (double)(now - before) / 1e9;
}

static enum exit_status open_device(struct fit *f, struct failure *why)
{
    const struct common_settings *common = &f->s->common;

    if (f->g) /* that of the ranks */
        return CLI_OK;
    if (!devices_several(common->device))
        return open_context(common, &f->g, why);
    TRY(devices_open(common, &f->devices, why));
    f->g = f->devices.g[0];
    return CLI_OK;
}

/* A device that is being opened while the table is read: a GPU takes about as long. */
struct opening {
    struct fit *f;
    pthread_t thread;
    int started;
    enum exit_status status;
    struct failure why;
};

static void *run_opening(void *arg)
{
    struct opening *o = arg;

    o->status = open_device(o->f, &o->why);
    return NULL;
}

static void begin_opening(struct fit *f, struct opening *o)
{
    const char *device = f->s->common.device;
    sigset_t all, before;

    *o = (struct opening){.f = f};
    if (f->g || !device || strcmp(device, "cpu") == 0)
        return;
    sigfillset(&all); /* signals are for the first thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    o->started = pthread_create(&o->thread, NULL, run_opening, o) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Its status, unless `status` is a failure already. */
static enum exit_status end_opening(struct opening *o, enum exit_status status, struct failure *why)
{
    if (o->started)
        (void)pthread_join(o->thread, NULL);
    if (status != CLI_OK)
        return status;
    if (!o->started)
        return open_device(o->f, why);
    *why = o->why;
    return o->status;
}

static enum exit_status finish(struct fit *f, int64_t start, int64_t since, struct failure *why)
{
    struct fit_seconds *seconds = &f->result.seconds;

    TRY(score(f, why));
    seconds->score = lap(&since);
    TRY(save(f, why));
    seconds->save = lap(&since);
    TRY(model_importance(f->g, f->machine, &f->features, &f->result.feature_count, why));
    f->result.machine = f->machine;
    f->result.features = f->features;
    f->result.rows = f->table.rows - f->held_out;
    seconds->total = lap(&start);
    return report(f, why);
}

/* What every process does before they train. */
static enum exit_status begin(struct fit *f, gram_machine_options *options, struct failure *why)
{
    TRY(fit_options(f->s, options, why));
    return read_data(f, why);
}

static enum exit_status work(struct fit *f, struct failure *why)
{
    gram_machine_options options;
    int64_t start = clock_ns(), since = start;
    struct fit_seconds *seconds = &f->result.seconds;
    enum exit_status status;
    struct opening opening;

    begin_opening(f, &opening);
    status = agree(f, begin(f, &options, why), why);
    seconds->read = lap(&since);
    TRY(end_opening(&opening, status, why));
    status = agree(f, train(f, &options, why), why);
    free((void *)options.categorical_column);
    TRY(status);
    seconds->fit = lap(&since);
    return agree(f, is_first(f) ? finish(f, start, since, why) : CLI_OK, why);
}

/* Checks that the outputs can be written before the work begins, and not after it. */
static enum exit_status check_outputs(const struct fit_settings *s, struct failure *why)
{
    const char *const others[] = {s->chart, s->trials};
    struct output trial;
    struct stat about;

    if (!s->target)
        return fail(why, CLI_USAGE, "--target is missing, the name of the column to predict");
    if (!s->output)
        return fail(why, CLI_USAGE, "--output is missing, the name of the model file to write");
    if (strcmp(s->output, "-") == 0)
        return fail(why, CLI_USAGE,
                    "--output is -, expected a file, because a model is not written to standard "
                    "output");
    if (stat(s->output, &about) == 0 && !S_ISREG(about.st_mode))
        return fail(why, CLI_NO_OUTPUT, "cannot create %s: it exists and is not a regular file",
                    s->output);
    TRY(output_open(&trial, s->output, why));
    output_discard(&trial);
    for (int i = 0; i < LENGTH(others); i++)
        if (others[i]) {
            TRY(output_open(&trial, others[i], why));
            output_discard(&trial);
        }
    return CLI_OK;
}

/* The processes of mpirun, before anything is read. */
static enum exit_status open_ranks(struct fit *f, char **operands, struct failure *why)
{
    if (!f->s->mpi)
        return check_outputs(f->s, why);
    TRY(ranks_check(&f->s->common, 1, operands, why));
    TRY(ranks_open(&f->s->common, &f->ranks, why));
    f->g = f->ranks.g;
    return agree(f, is_first(f) ? check_outputs(f->s, why) : CLI_OK, why);
}

static void close_all(struct fit *f)
{
    remarks_free(&f->result.remarks);
    judgements_free(&f->judged);
    targets_free(&f->targets);
    free(f->columns);
    class_weights_free(&f->class_weights);
    free(f->features);
    gram_machine_destroy(f->machine);
    if (f->s->mpi)
        ranks_close(&f->ranks);
    else if (f->devices.group.count > 0)
        devices_close(&f->devices);
    else
        gram_context_destroy(f->g);
    table_free(&f->table);
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    struct fit f = {.s = settings, .data = operands[0], .score = {.size = sizeof f.score}};
    enum exit_status status = open_ranks(&f, operands, why);

    (void)count;
    if (status == CLI_OK)
        status = work(&f, why);
    close_all(&f);
    return status;
}

const struct command cmd_fit = {
    .name = "fit",
    .operands = "DATA",
    .summary = "train a kernel machine on a table and save it",
    .details =
        "Learns to predict the column --target of DATA from its other columns, and writes the "
        "model to --output. The model is a kernel ridge regression with the kernel exp(-|W (x - "
        "z)|_p^q / L^q) on standardised numbers and one-hot categories. With --iterations it is a "
        "Recursive Feature Machine, which learns the weights W of the features from the gradients "
        "of its own predictions.\n\n"
        "DATA is text (CSV or TSV with a header line), a Parquet, Arrow or Feather file, or a .npy "
        "matrix, whose columns are called "
        "0, 1, 2, ...; - is standard input. A column is numeric if every value that is not "
        "missing is a number. An empty field, NA, N/A, NaN, null and ? are missing values. A "
        "missing number is replaced by the median of its column, and a further feature records "
        "that it was missing. A missing category is a category of its own. Rows without a target "
        "are left out. If a column has more categories than --max-categories, the rare ones count "
        "as one.\n\n"
        "Several columns in --target, such as --target x,y,z, give one model of all of them, in "
        "about the time of one. All are regressions, which share the kernel, the learned weights "
        "of the features and the regularization; rows that lack one of them are left out.\n\n"
        "What is not given is chosen by leave-one-out: the kernel, the bandwidth, the ridge, and "
        "whether to learn features. --trials lists what was compared, --auto goes on with that "
        "until --time-limit, and --fixed takes fixed defaults instead. If nothing is held out, the "
        "score is that of leave-one-out. Probabilities are calibrated by it. Ctrl-C stops the "
        "work, and then nothing is written.\n\n"
        "Tables of many rows are split into leaves, which several GPUs (--device cuda:0,1), or the "
        "processes of mpirun or srun (--mpi), train side by side. Every process reads DATA, and "
        "the model is that of one process, up to the rounding of a search, half of which is the "
        "second process's. If one fails, they all stop, and its message is printed.",
    .examples =
        "  gram fit letters.csv --target letter -o letters.gram --holdout 0.2\n"
        "  gram fit diamonds.csv --target price -o diamonds.gram --auto --json\n"
        "  mpirun -n 4 gram fit --mpi large.npy --target 8 -o large.gram",
    .least = 1,
    .most = 1,
    .settings_bytes = sizeof(struct fit_settings),
    .groups = fit_groups,
    .reads = 1,
    .run = run,
};
