/*
 * cmd_predict.c - `gram predict`: the predictions of a model for a table
 *
 * SPDX-License-Identifier: MIT
 */
#include "csv_write.h"
#include "device.h"
#include "interrupt.h"
#include "matrix.h"
#include "model.h"
#include "npy.h"
#include "number.h"
#include "targets.h"
#include "unseen.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct common_settings common;
    struct input_settings input;
    struct output_settings output;
    int proba, strict;
    double interval, set; /* levels; NaN: not wanted */
    const char *keep;
};

enum {
    SET_SEPARATOR = '|' /* between the classes of a set in text */
};

static const struct option_row rows[] = {
    FLAG("proba", 0, offsetof(struct settings, proba),
         "add the probability of every class, in columns called proba_CLASS"),
    NUMBER("interval", 0, "LEVEL", offsetof(struct settings, interval), NULL, 0.001, 0.999,
           "add the columns lower and upper, between which LEVEL (such as 0.9) of the numbers are"),
    NUMBER("set", 0, "LEVEL", offsetof(struct settings, set), NULL, 0.001, 0.999,
           "add the column set, with the classes among which LEVEL of the true ones are, the most "
           "probable first, separated by |"),
    COLUMN_NAMES("keep", 0, "COLUMNS", offsetof(struct settings, keep),
                 "copy these columns of DATA, separated by commas, before the prediction; all: "
                 "every column"),
    FLAG("strict", 0, offsetof(struct settings, strict),
         "end with an error, before predicting, if the table has what the training table did not "
         "have"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Prediction", rows, 0),
    GROUP("Input", input_options, offsetof(struct settings, input)),
    GROUP("Output", output_options, offsetof(struct settings, output)),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

struct predictions {
    const gram_machine *machine;
    int64_t rows, classes; /* 0 classes: regression */
    int64_t targets;
    struct matrix value; /* of every row and target: the number, or the index of the class */
    struct matrix proba; /* rows by classes, if wanted */
    struct matrix ends;  /* rows by 2 targets, if wanted: lower, upper */
    int32_t *place;      /* rows by classes, if wanted: in the set, from 1; 0: not in it */
    int64_t *order;      /* of one row's set */
    char *text;          /* room for the classes of any set, with separators */
    const struct table *table;
    int64_t *kept, kept_count; /* columns of the table */
    const struct settings *wanted;
    struct remarks remarks;
};

/* The library's call, which Ctrl-C can stop. */
static enum exit_status ask(gram_context *g, const gram_table *table, struct predictions *p,
                            struct failure *why)
{
    const struct settings *s = p->wanted;
    gram_tensor place = {
        .data = p->place,
        .dtype = GRAM_I32,
        .device = {  GRAM_CPU,          0},
        .ndim = 2,
        .shape = {   p->rows, p->classes},
        .stride = {p->classes,          1},
    };
    gram_machine_wanted wanted = GRAM_MACHINE_WANTED_INIT;
    gram_status status;

    wanted.level = p->place ? s->set : s->interval;
    wanted.prediction = &p->value.t;
    wanted.proba = s->proba ? &p->proba.t : NULL;
    wanted.interval = p->ends.memory ? &p->ends.t : NULL;
    wanted.set = p->place ? &place : NULL;
    interrupt_cancels(g);
    status = gram_machine_predict_all(g, p->machine, table, &wanted);
    status = interrupt_ends(status);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

static enum exit_status allocate(struct predictions *p, struct failure *why)
{
    const int64_t shape[2] = {p->rows, p->classes}, ends[2] = {p->rows, 2 * p->targets};
    const int64_t values[2] = {p->rows, p->targets};
    const struct settings *s = p->wanted;
    size_t bytes = 1;

    TRY(matrix_allocate(&p->value, GRAM_F64, p->targets > 1 ? 2 : 1, values, why));
    if (s->proba)
        TRY(matrix_allocate(&p->proba, GRAM_F64, 2, shape, why));
    if (!isnan(s->interval))
        TRY(matrix_allocate(&p->ends, GRAM_F64, 2, ends, why));
    if (isnan(s->set))
        return CLI_OK;
    if (p->rows <= INT64_MAX / 8 / p->classes)
        p->place = malloc((size_t)(p->rows * p->classes) * sizeof *p->place + 1);
    p->order = malloc((size_t)p->classes * sizeof *p->order);
    for (int64_t k = 0; k < p->classes; k++)
        bytes += strlen(gram_machine_class_name(p->machine, k)) + 1;
    p->text = malloc(bytes);
    return p->place && p->order && p->text ? CLI_OK : fail_memory(why, "the sets of the rows");
}

static enum exit_status predict(const struct model *m, struct predictions *p, struct failure *why)
{
    const int64_t none[2] = {-1, -1};
    struct table_view view;
    enum exit_status status = table_view_make(p->table, 0, p->rows, none, &view, why);

    if (status == CLI_OK)
        status = allocate(p, why);
    if (status == CLI_OK)
        status = ask(m->g, &view.t, p, why);
    free(view.columns);
    return status;
}

static double value_at(const struct predictions *p, int64_t row, int64_t target)
{
    return ((const double *)p->value.memory)[row * p->targets + target];
}

static const char *class_at(const struct predictions *p, int64_t row)
{
    const char *name = gram_machine_class_name(p->machine, (int64_t)value_at(p, row, 0));

    return name ? name : "";
}

static double proba_at(const struct predictions *p, int64_t row, int64_t class)
{
    return ((const double *)p->proba.memory)[row * p->classes + class];
}

static double end_at(const struct predictions *p, int64_t row, int64_t target, int end)
{
    return ((const double *)p->ends.memory)[2 * (row * p->targets + target) + end];
}

/* The name of a column of the output: what it has, and of several targets also which one. */
static const char *column_of(const struct predictions *p, const char *what, int64_t target,
                             char name[TARGET_COLUMN_BYTES])
{
    if (p->targets == 1)
        return what;
    return target_column(what, gram_machine_target_name(p->machine, target), name);
}

/* Puts the classes of a row's set in order; returns how many there are. */
static int64_t set_at(const struct predictions *p, int64_t row)
{
    const int32_t *place = p->place + row * p->classes;
    int64_t count = 0;

    for (int64_t k = 0; k < p->classes; k++)
        if (place[k] > 0)
            p->order[place[k] - 1] = k, count++;
    return count;
}

/* The value in the i-th column that is kept, "" if it is missing. */
static const char *kept_at(const struct predictions *p, int64_t row, int64_t i,
                           char number[NUMBER_TEXT])
{
    const struct column *c = &p->table->columns[p->kept[i]];

    if (c->texts)
        return c->texts[row] ? c->texts[row] : "";
    if (c->numbers[row] != c->numbers[row])
        return "";
    number_format(number, c->numbers[row]);
    return number;
}

static void write_kept(struct json *j, const struct predictions *p)
{
    json_object(j, "keep");
    for (int64_t i = 0; i < p->kept_count; i++) {
        const struct column *c = &p->table->columns[p->kept[i]];
        json_flat_array(j, c->name);
        for (int64_t row = 0; row < p->rows; row++)
            if (c->numbers)
                json_number(j, NULL, c->numbers[row]);
            else
                json_string(j, NULL, c->texts[row]);
        json_end(j);
    }
    json_end(j);
}

static const char *const end_names[] = {"lower", "upper"};

static void write_names(struct output *out, const struct predictions *p, char delimiter)
{
    for (int64_t i = 0; i < p->kept_count; i++) {
        csv_write_field(out, p->table->columns[p->kept[i]].name, delimiter);
        output_write(out, &delimiter, 1);
    }
    for (int64_t t = 0; t < p->targets; t++) {
        char name[TARGET_COLUMN_BYTES];
        if (t > 0)
            output_write(out, &delimiter, 1);
        csv_write_field(out, column_of(p, "prediction", t, name), delimiter);
    }
    for (int64_t t = 0; p->ends.memory && t < p->targets; t++)
        for (int end = 0; end < 2; end++) {
            char name[TARGET_COLUMN_BYTES];
            output_write(out, &delimiter, 1);
            csv_write_field(out, column_of(p, end_names[end], t, name), delimiter);
        }
    if (p->place)
        output_format(out, "%cset", delimiter);
    for (int64_t k = 0; p->proba.memory && k < p->classes; k++) {
        char name[600];
        snprintf(name, sizeof name, "proba_%s", gram_machine_class_name(p->machine, k));
        output_write(out, &delimiter, 1);
        csv_write_field(out, name, delimiter);
    }
    output_text(out, "\n");
}

static void write_number(struct output *out, char delimiter, double value)
{
    char number[NUMBER_TEXT];

    number_format(number, value);
    output_format(out, "%c%s", delimiter, number);
}

static void write_set(struct output *out, const struct predictions *p, int64_t row, char delimiter)
{
    const int64_t count = set_at(p, row);
    char *at = p->text;

    for (int64_t i = 0; i < count; i++) {
        const char *name = gram_machine_class_name(p->machine, p->order[i]);
        const size_t size = strlen(name);

        if (i > 0)
            *at++ = SET_SEPARATOR;
        memcpy(at, name, size);
        at += size;
    }
    *at = '\0';
    output_write(out, &delimiter, 1);
    csv_write_field(out, p->text, delimiter);
}

static void write_text(struct output *out, const struct predictions *p, char delimiter)
{
    char number[NUMBER_TEXT];

    write_names(out, p, delimiter);
    for (int64_t row = 0; row < p->rows; row++) {
        for (int64_t i = 0; i < p->kept_count; i++) {
            csv_write_field(out, kept_at(p, row, i, number), delimiter);
            output_write(out, &delimiter, 1);
        }
        if (p->classes > 0) {
            csv_write_field(out, class_at(p, row), delimiter);
        } else {
            number_format(number, value_at(p, row, 0));
            output_text(out, number);
        }
        for (int64_t t = 1; t < p->targets; t++)
            write_number(out, delimiter, value_at(p, row, t));
        for (int64_t e = 0; p->ends.memory && e < 2 * p->targets; e++)
            write_number(out, delimiter, end_at(p, row, e / 2, (int)(e % 2)));
        if (p->place)
            write_set(out, p, row, delimiter);
        for (int64_t k = 0; p->proba.memory && k < p->classes; k++)
            write_number(out, delimiter, proba_at(p, row, k));
        output_text(out, "\n");
    }
}

/* A class as a value of JSON: a number where the target had numbers. */
static void write_class(struct json *j, const struct predictions *p, const char *name)
{
    double number;

    if (gram_machine_classes_are_numbers(p->machine) && number_parse(name, &number))
        json_number(j, NULL, number);
    else
        json_string(j, NULL, name);
}

/* The numbers of all rows; of several targets an object by their names.  end -1: predictions. */
static void write_numbers(struct json *j, const struct predictions *p, const char *name, int end)
{
    if (p->targets > 1)
        json_object(j, name);
    for (int64_t t = 0; t < p->targets; t++) {
        json_flat_array(j, p->targets > 1 ? gram_machine_target_name(p->machine, t) : name);
        for (int64_t row = 0; row < p->rows; row++)
            json_number(j, NULL, end < 0 ? value_at(p, row, t) : end_at(p, row, t, end));
        json_end(j);
    }
    if (p->targets > 1)
        json_end(j);
}

static void write_bounds(struct json *j, const struct predictions *p)
{
    for (int end = 0; p->ends.memory && end < 2; end++)
        write_numbers(j, p, end_names[end], end);
    if (!p->place)
        return;
    json_array(j, "set");
    for (int64_t row = 0; row < p->rows; row++) {
        const int64_t count = set_at(p, row);

        json_flat_array(j, NULL);
        for (int64_t i = 0; i < count; i++)
            write_class(j, p, gram_machine_class_name(p->machine, p->order[i]));
        json_end(j);
    }
    json_end(j);
}

static void write_json(struct output *out, const struct predictions *p)
{
    struct json j = json_to(out);

    json_object(&j, NULL);
    if (p->kept_count > 0)
        write_kept(&j, p);
    if (p->classes == 0) {
        write_numbers(&j, p, "prediction", -1);
    } else {
        json_flat_array(&j, "prediction");
        for (int64_t row = 0; row < p->rows; row++)
            write_class(&j, p, class_at(p, row));
        json_end(&j);
    }
    write_bounds(&j, p);
    if (p->proba.memory) {
        json_flat_array(&j, "classes");
        for (int64_t k = 0; k < p->classes; k++)
            json_string(&j, NULL, gram_machine_class_name(p->machine, k));
        json_end(&j);
        json_array(&j, "probability");
        for (int64_t row = 0; row < p->rows; row++) {
            json_flat_array(&j, NULL);
            for (int64_t k = 0; k < p->classes; k++)
                json_number(&j, NULL, proba_at(p, row, k));
            json_end(&j);
        }
        json_end(&j);
    }
    remarks_json(&j, &p->remarks);
    json_end(&j);
}

/* Replaces indices of classes by the classes, if these are numbers. */
static enum exit_status class_numbers(struct predictions *p, struct failure *why)
{
    double *value = p->value.memory;

    if (p->classes > 0 && !gram_machine_classes_are_numbers(p->machine))
        return fail(why, CLI_USAGE,
                    "the classes are text, which .npy cannot hold; write CSV or JSON, or --proba");
    for (int64_t row = 0; p->classes > 0 && row < p->rows; row++)
        number_parse(class_at(p, row), &value[row]);
    return CLI_OK;
}

/* The prediction and its ends as three columns of a matrix, target after target. */
static enum exit_status save_ends(const struct predictions *p,
                                  const struct output_settings *settings, struct failure *why)
{
    const int64_t shape[2] = {p->rows, 3 * p->targets};
    struct matrix all = {.memory = NULL};
    enum exit_status status = matrix_allocate(&all, GRAM_F64, 2, shape, why);

    for (int64_t i = 0; status == CLI_OK && i < p->rows * p->targets; i++) {
        double *to = (double *)all.memory + 3 * i;

        to[0] = value_at(p, i / p->targets, i % p->targets);
        to[1] = end_at(p, i / p->targets, i % p->targets, 0);
        to[2] = end_at(p, i / p->targets, i % p->targets, 1);
    }
    if (status == CLI_OK)
        status = matrix_save(&all, settings, why);
    matrix_free(&all);
    return status;
}

static enum exit_status save_npy(struct predictions *p, const struct output_settings *settings,
                                 struct failure *why)
{
    if (p->kept_count > 0)
        return fail(why, CLI_USAGE, "--keep: .npy cannot hold the columns; write CSV or JSON");
    if (p->place)
        return fail(why, CLI_USAGE, "--set: .npy cannot hold the sets; write CSV or JSON");
    if (p->ends.memory)
        return save_ends(p, settings, why);
    if (p->proba.memory)
        return matrix_save(&p->proba, settings, why);
    TRY(class_numbers(p, why));
    return matrix_save(&p->value, settings, why);
}

static enum exit_status save(struct predictions *p, const struct output_settings *settings,
                             struct failure *why)
{
    enum format format = output_format_of(settings);
    struct output out;

    if (format == FORMAT_NPY)
        return save_npy(p, settings, why);
    TRY(output_open(&out, settings->output, why));
    if (format == FORMAT_JSON)
        write_json(&out, p);
    else
        write_text(&out, p, format == FORMAT_TSV ? '\t' : ',');
    return output_close(&out, why);
}

/* Adds a column that is kept; its name must not be that of a column of the predictions. */
static enum exit_status keep(struct predictions *p, int64_t column, const char *path,
                             struct failure *why)
{
    const char *name = p->table->columns[column].name;
    const struct settings *s = p->wanted;
    int taken = !isnan(s->set) && strcmp(name, "set") == 0;

    for (int64_t t = 0; t < p->targets; t++) {
        char of[TARGET_COLUMN_BYTES];
        taken |= strcmp(name, column_of(p, "prediction", t, of)) == 0;
        for (int end = 0; !isnan(s->interval) && end < 2; end++)
            taken |= strcmp(name, column_of(p, end_names[end], t, of)) == 0;
    }
    for (int64_t k = 0; s->proba && k < p->classes && !taken; k++)
        taken = strncmp(name, "proba_", 6) == 0 &&
                strcmp(name + 6, gram_machine_class_name(p->machine, k)) == 0;
    if (taken)
        return fail(why, CLI_BAD_DATA,
                    "%s: --keep: the column \"%.200s\" has the name of a column of the output",
                    text_name(path), name);
    for (int64_t i = 0; i < p->kept_count; i++)
        if (p->kept[i] == column)
            return fail(why, CLI_USAGE, "--keep names \"%.200s\" twice", name);
    p->kept[p->kept_count++] = column;
    return CLI_OK;
}

/* Finds the columns of --keep: in the order of the list, or of the table. */
static enum exit_status find_kept(struct predictions *p, const char *list, const char *path,
                                  struct failure *why)
{
    if (!list)
        return CLI_OK;
    p->kept = malloc((size_t)(p->table->width + 1) * sizeof *p->kept);
    if (!p->kept)
        return fail_memory(why, "the columns that are kept");
    if (strcmp(list, "all") == 0) {
        for (int64_t c = 0; c < p->table->width; c++)
            TRY(keep(p, c, path, why));
        return CLI_OK;
    }
    while (list) {
        int64_t column;
        TRY(name_next(p->table, path, &list, " (in --keep)", &column, why));
        TRY(keep(p, column, path, why));
    }
    return CLI_OK;
}

/* Whether the errors that a model remembers allow a level; NaN: none is wanted. */
static enum exit_status level_check(const gram_machine *machine, const char *option, double level,
                                    const char *path, struct failure *why)
{
    const double highest = gram_machine_highest_level(machine);

    if (isnan(level) || level <= highest)
        return CLI_OK;
    if (highest == 0)
        return fail(why, CLI_BAD_DATA,
                    "--%s: %s does not remember the errors of left-out rows, from which it would "
                    "be made (gram 0.1 did not keep them); make the model again with gram fit",
                    option, text_name(path));
    return fail(why, CLI_USAGE,
                "--%s is %g, expected at most %.6g, because %s remembers the errors of %.0f rows",
                option, level, highest, text_name(path), highest / (1 - highest));
}

/* Whether a model can give what is wanted; that is known before the table is read. */
static enum exit_status check(const struct predictions *p, const char *path, struct failure *why)
{
    const struct settings *s = p->wanted;

    if (p->classes == 0 && (s->proba || !isnan(s->set)))
        return fail(why, CLI_USAGE, "--%s: %s is a regression, which has no classes",
                    s->proba ? "proba" : "set", text_name(path));
    if (p->classes > 0 && !isnan(s->interval))
        return fail(why, CLI_USAGE,
                    "--interval: %s is a classification, which predicts no numbers; --set is for "
                    "classes",
                    text_name(path));
    for (int64_t k = 0; k < p->classes && !isnan(s->set); k++) {
        const char *name = gram_machine_class_name(p->machine, k);

        if (strchr(name, SET_SEPARATOR) && output_format_of(&s->output) != FORMAT_JSON)
            return fail(why, CLI_USAGE,
                        "--set: the class \"%.200s\" has the separator of classes, %c; write JSON",
                        name, SET_SEPARATOR);
    }
    return level_check(p->machine, isnan(s->set) ? "interval" : "set",
                       isnan(s->set) ? s->interval : s->set, path, why);
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    struct model model;
    struct table table = {0};
    enum exit_status status;

    (void)count;
    TRY(model_load(operands[0], &s->common, &model, why));
    struct predictions p = {
        .machine = model.machine,
        .classes = gram_machine_class_count(model.machine),
        .targets = gram_machine_target_count(model.machine),
        .wanted = s,
    };
    status = check(&p, operands[0], why);
    if (status == CLI_OK)
        status = model_read_table(&model, operands[1], &s->input, s->keep, NULL, &table, why);
    if (status == CLI_OK) {
        p.rows = table.rows;
        p.table = &table;
        status = find_kept(&p, s->keep, operands[1], why);
    }
    if (status == CLI_OK)
        status = unseen_look(&model, &table, &p.remarks, why);
    if (status == CLI_OK)
        status = remarks_print(&p.remarks, "predict", operands[1], s->strict, why);
    if (status == CLI_OK)
        status = predict(&model, &p, why);
    if (status == CLI_OK)
        status = save(&p, &s->output, why);
    remarks_free(&p.remarks);
    free(p.kept);
    free(p.place);
    free(p.order);
    free(p.text);
    matrix_free(&p.value);
    matrix_free(&p.proba);
    matrix_free(&p.ends);
    table_free(&table);
    model_free(&model);
    return status;
}

const struct command cmd_predict = {
    .name = "predict",
    .operands = "MODEL DATA",
    .summary = "predict the rows of a table with a model",
    .details =
        "Writes one line per row of DATA, in the same order, in a column called prediction: the "
        "predicted number or class. The columns on which the model was trained are found by their "
        "names, and other columns are ignored. Missing values and new categories are allowed; what "
        "the training table did not have is remarked on standard error; --strict refuses it.\n\n"
        "--keep copies columns of DATA, such as an id, so that predictions need not be joined to "
        "their rows again. Texts are copied as they are; numbers that the model uses are written "
        "in their shortest form, and missing values are empty.\n\n"
        "--interval and --set say how sure a prediction is. Of new rows like those of training, "
        "the share LEVEL lies between lower and upper, or has a class of the set; this holds on "
        "average over all rows, not for each group of them. Both come from the errors of training "
        "rows that were left out: n of them allow levels up to n / (n + 1). A set always has the "
        "predicted class, which is its first; its classes are separated by |, and JSON has them as "
        "an array. `gram score` says how many rows of a table are covered.\n\n"
        "A model of several targets has one column for each: prediction_NAME and, with --interval, "
        "lower_NAME and upper_NAME.\n\n"
        "A .npy output holds the numbers (of several targets, one row per row of DATA) or, with "
        "--proba, one row of probabilities per row of DATA, or, with --interval, one row of "
        "prediction, lower and upper, target after target.",
    .examples =
        "  gram predict model.gram new.csv -o predictions.csv\n"
        "  gram predict model.gram new.csv --keep id,name -o predictions.csv\n"
        "  gram predict model.gram new.csv --proba --json | head\n"
        "  gram predict prices.gram new.csv --interval 0.9",
    .least = 2,
    .most = 2,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
