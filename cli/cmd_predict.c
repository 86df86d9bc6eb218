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
#include <stdlib.h>
#include <string.h>

struct settings {
    struct common_settings common;
    struct input_settings input;
    struct output_settings output;
    int proba;
    const char *keep;
};

static const struct option_row rows[] = {
    FLAG("proba", 0, offsetof(struct settings, proba),
         "add the probability of every class, in columns called proba_CLASS"),
    COLUMN_NAMES("keep", 0, "COLUMNS", offsetof(struct settings, keep),
                 "copy these columns of DATA, separated by commas, before the prediction; all: "
                 "every column"),
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
    struct matrix value;   /* of every row: the number, or the index of the class */
    struct matrix proba;   /* rows by classes, if wanted */
    const struct table *table;
    int64_t *kept, kept_count; /* columns of the table */
    int with_proba;
};

/* Makes one library call that Ctrl-C can stop. */
static enum exit_status cancellable(gram_context *g,
                                    gram_status (*call)(gram_context *, const gram_machine *,
                                                        const gram_table *, gram_tensor *),
                                    const gram_machine *machine, const gram_table *table,
                                    gram_tensor *out, struct failure *why)
{
    gram_status status;

    interrupt_cancels(g);
    status = call(g, machine, table, out);
    if (interrupt_ends())
        status = GRAM_CANCELLED;
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

static enum exit_status predict(const struct model *m, const struct table *t, int proba,
                                struct predictions *out, struct failure *why)
{
    const int64_t none[2] = {-1, -1}, shape[2] = {t->rows, out->classes};
    struct table_view view;
    enum exit_status status = table_view_make(t, 0, t->rows, none, &view, why);

    if (status == CLI_OK)
        status = matrix_allocate(&out->value, GRAM_F64, 1, shape, why);
    if (status == CLI_OK)
        status = cancellable(m->g, gram_machine_predict, m->machine, &view.t, &out->value.t, why);
    if (status == CLI_OK && proba)
        status = matrix_allocate(&out->proba, GRAM_F64, 2, shape, why);
    if (status == CLI_OK && proba)
        status =
            cancellable(m->g, gram_machine_predict_proba, m->machine, &view.t, &out->proba.t, why);
    free(view.columns);
    return status;
}

static double value_at(const struct predictions *p, int64_t row)
{
    return ((const double *)p->value.memory)[row];
}

static const char *class_at(const struct predictions *p, int64_t row)
{
    const char *name = gram_machine_class_name(p->machine, (int64_t)value_at(p, row));

    return name ? name : "";
}

static double proba_at(const struct predictions *p, int64_t row, int64_t class)
{
    return ((const double *)p->proba.memory)[row * p->classes + class];
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

static void write_text(struct output *out, const struct predictions *p, char delimiter)
{
    char number[NUMBER_TEXT];

    for (int64_t i = 0; i < p->kept_count; i++) {
        csv_write_field(out, p->table->columns[p->kept[i]].name, delimiter);
        output_write(out, &delimiter, 1);
    }
    output_text(out, "prediction");
    for (int64_t k = 0; p->proba.memory && k < p->classes; k++) {
        char name[600];
        snprintf(name, sizeof name, "proba_%s", gram_machine_class_name(p->machine, k));
        output_write(out, &delimiter, 1);
        csv_write_field(out, name, delimiter);
    }
    output_text(out, "\n");
    for (int64_t row = 0; row < p->rows; row++) {
        for (int64_t i = 0; i < p->kept_count; i++) {
            csv_write_field(out, kept_at(p, row, i, number), delimiter);
            output_write(out, &delimiter, 1);
        }
        if (p->classes > 0) {
            csv_write_field(out, class_at(p, row), delimiter);
        } else {
            number_format(number, value_at(p, row));
            output_text(out, number);
        }
        for (int64_t k = 0; p->proba.memory && k < p->classes; k++) {
            number_format(number, proba_at(p, row, k));
            output_format(out, "%c%s", delimiter, number);
        }
        output_text(out, "\n");
    }
}

static void write_json(struct output *out, const struct predictions *p)
{
    struct json j = json_to(out);
    int numbers = gram_machine_classes_are_numbers(p->machine);
    double number;

    json_object(&j, NULL);
    if (p->kept_count > 0)
        write_kept(&j, p);
    json_flat_array(&j, "prediction");
    for (int64_t row = 0; row < p->rows; row++) {
        if (p->classes == 0)
            json_number(&j, NULL, value_at(p, row));
        else if (numbers && number_parse(class_at(p, row), &number))
            json_number(&j, NULL, number);
        else
            json_string(&j, NULL, class_at(p, row));
    }
    json_end(&j);
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

static enum exit_status save(struct predictions *p, const struct output_settings *settings,
                             struct failure *why)
{
    enum format format = output_format_of(settings);
    struct output out;

    if (format == FORMAT_NPY && p->kept_count > 0)
        return fail(why, CLI_USAGE, "--keep: .npy cannot hold the columns; write CSV or JSON");
    if (format == FORMAT_NPY && p->proba.memory)
        return matrix_save(&p->proba, settings, why);
    if (format == FORMAT_NPY) {
        TRY(class_numbers(p, why));
        return matrix_save(&p->value, settings, why);
    }
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
    int taken = strcmp(name, "prediction") == 0;

    for (int64_t k = 0; p->with_proba && k < p->classes && !taken; k++)
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
        const size_t size = strcspn(list, ",");
        char name[256];
        int64_t column;
        snprintf(name, sizeof name, "%.*s", (int)size, list);
        TRY(table_require(p->table, path, name, " (in --keep)", &column, why));
        TRY(keep(p, column, path, why));
        list = list[size] ? list + size + 1 : NULL;
    }
    return CLI_OK;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    struct model model;
    struct table table = {0};
    enum exit_status status;

    (void)count;
    TRY(model_load(operands[0], &s->common, &model, why));
    struct predictions p = {.machine = model.machine,
                            .classes = gram_machine_class_count(model.machine)};
    if (s->proba && p.classes == 0)
        status =
            fail(why, CLI_USAGE, "--proba: %s is a regression, which has no classes", operands[0]);
    else
        status = model_read_table(&model, operands[1], &s->input, s->keep, NULL, &table, why);
    if (status == CLI_OK) {
        p.rows = table.rows;
        p.table = &table;
        p.with_proba = s->proba;
        status = find_kept(&p, s->keep, operands[1], why);
    }
    if (status == CLI_OK)
        status = predict(&model, &table, s->proba, &p, why);
    if (status == CLI_OK)
        status = save(&p, &s->output, why);
    free(p.kept);
    matrix_free(&p.value);
    matrix_free(&p.proba);
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
        "names, and other columns are ignored. Missing values and new categories are allowed.\n\n"
        "--keep copies columns of DATA, such as an id, so that predictions need not be joined to "
        "their rows again. Texts are copied as they are; numbers that the model uses are written "
        "in their shortest form, and missing values are empty.\n\n"
        "A .npy output holds the numbers or, with --proba, one row of probabilities per row of "
        "DATA.",
    .examples =
        "  gram predict model.gram new.csv -o predictions.csv\n"
        "  gram predict model.gram new.csv --keep id,name -o predictions.csv\n"
        "  gram predict model.gram new.csv --proba --json | head",
    .least = 2,
    .most = 2,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
