/*
 * cmd_importance.c - `gram importance`: which features a model's predictions depend on
 *
 * SPDX-License-Identifier: MIT
 */
#include "csv_write.h"
#include "device.h"
#include "number.h"
#include "permuted.h"
#include <math.h>
#include <stdlib.h>

struct settings {
    struct common_settings common;
    struct input_settings input;
    int64_t top, repeats, seed;
    const char *chart, *output, *target;
    int json, permutation;
};

/* What is written: the shares of the gradient, and with --permutation the increases too. */
struct found {
    gram_machine_feature *features; /* the largest share first */
    int64_t count;
    struct permuted permuted; /* feature NULL: not asked for */
};

static const struct option_row permutation_rows[] = {
    FLAG("permutation", 0, offsetof(struct settings, permutation),
         "measure on the rows of DATA how much the error grows when one column is shuffled"),
    COLUMN_NAME("target", 'y', "COLUMN", offsetof(struct settings, target),
                "the target whose error it is, of a model of several"),
    INTEGER("repeats", 0, "N", offsetof(struct settings, repeats), NULL, 1, 1e6,
            "shuffle every column N times (default: 5)"),
    INTEGER("seed", 0, "N", offsetof(struct settings, seed), NULL, 0, 0x1p53,
            "the seed of the random orders (default: 0)"),
    CHOICE("progress", 0, "WHEN", offsetof(struct settings, common.progress), "auto", "auto|never",
           "auto: show a progress bar if standard error is a terminal; never: do not"),
    OPTION_END,
};

static const struct option_row rows[] = {
    INTEGER("top", 'n', "N", offsetof(struct settings, top), "20", 1, 1000,
            "show only the N most important features in text and in the chart"),
    FILE_NAME("chart", 0, "FILE.svg", offsetof(struct settings, chart), NULL,
              "write a chart as SVG"),
    FILE_NAME("output", 'o', "FILE", offsetof(struct settings, output), NULL,
              "write the columns feature and importance to FILE, and with --permutation increase "
              "and deviation, as CSV, or as its ending .json or .tsv says"),
    FLAG("json", 0, offsetof(struct settings, json), "write JSON"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Output", rows, 0),
    GROUP("Permutation", permutation_rows, 0),
    GROUP("Input", input_options, offsetof(struct settings, input)),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

static void write_number(struct output *out, char delimiter, double value)
{
    char number[NUMBER_TEXT];

    number_format(number, value);
    output_format(out, "%c%s", delimiter, isnan(value) ? "" : number);
}

static void write_text(struct output *out, char delimiter, const struct found *f)
{
    const struct permuted *p = &f->permuted;

    output_format(out, "feature%cimportance", delimiter);
    if (p->feature)
        output_format(out, "%cincrease%cdeviation", delimiter, delimiter);
    output_text(out, "\n");
    for (int64_t i = 0; i < f->count; i++) {
        csv_write_field(out, p->feature ? p->feature[i].name : f->features[i].name, delimiter);
        write_number(out, delimiter, p->feature ? p->feature[i].share : f->features[i].importance);
        if (p->feature) {
            write_number(out, delimiter, p->feature[i].mean);
            write_number(out, delimiter, p->feature[i].deviation);
        }
        output_text(out, "\n");
    }
}

static void write_json(struct output *out, const struct found *f)
{
    struct json j = json_to(out);

    json_object(&j, NULL);
    importance_json(&j, f->features, f->count);
    if (f->permuted.feature)
        permuted_json(&j, &f->permuted);
    json_end(&j);
}

static enum exit_status write_file(const char *path, const struct found *f, struct failure *why)
{
    const struct output_settings file = {.output = path};
    const enum format format = output_format_of(&file);
    struct output out;

    TRY(output_open(&out, path, why));
    if (format == FORMAT_JSON)
        write_json(&out, f);
    else
        write_text(&out, format == FORMAT_TSV ? '\t' : ',', f);
    return output_close(&out, why);
}

static enum exit_status print(const struct settings *s, const struct found *f, struct failure *why)
{
    struct output out;

    TRY(output_open(&out, "-", why));
    if (s->json) {
        write_json(&out, f);
    } else {
        if (f->permuted.feature) {
            permuted_text(&out, &f->permuted, s->top);
            output_text(&out, "share of the squared gradient of the predictions:\n");
        }
        importance_text(&out, f->features, f->count, s->top);
    }
    return output_close(&out, why);
}

static enum exit_status check_output(const struct settings *s, struct failure *why)
{
    const struct output_settings file = {.output = s->output};

    if (!s->output)
        return CLI_OK;
    if (output_format_of(&file) == FORMAT_NPY)
        return fail(why, CLI_USAGE,
                    "--output is %s: .npy cannot hold names; expected .csv, .tsv "
                    "or .json",
                    s->output);
    return output_check_format(&file, why);
}

static enum exit_status check_operands(const struct settings *s, int count, struct failure *why)
{
    if (s->permutation && count < 2)
        return fail(why, CLI_USAGE,
                    "--permutation needs a table with the target: expected operands MODEL DATA");
    if (!s->permutation && count > 1)
        return fail(why, CLI_USAGE, "DATA is used with --permutation alone; give both or neither");
    if (!s->permutation && (s->repeats >= 0 || s->seed >= 0 || s->target))
        return fail(why, CLI_USAGE, "--%s is used with --permutation alone",
                    s->target         ? "target"
                    : s->repeats >= 0 ? "repeats"
                                      : "seed");
    return CLI_OK;
}

static enum exit_status find(const struct settings *s, const struct model *m, const char *data,
                             struct found *f, struct failure *why)
{
    const struct permuted_settings how = {
        .repeats = s->repeats > 0 ? s->repeats : 5,
        .seed = s->seed > 0 ? s->seed : 0,
        .target = s->target,
        .show_progress = s->common.progress == PROGRESS_AUTO,
    };

    TRY(model_importance(m->g, m->machine, &f->features, &f->count, why));
    return s->permutation ? permuted_find(m, data, &s->input, &how, &f->permuted, why) : CLI_OK;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    struct found f = {.count = 0};
    struct model model;
    enum exit_status status;

    TRY(check_operands(s, count, why));
    TRY(check_output(s, why));
    TRY(model_load(operands[0], &s->common, &model, why));
    status = find(s, &model, operands[1], &f, why);
    if (status == CLI_OK && s->chart) {
        char about[300];
        snprintf(about, sizeof about, "Share of the average gradient outer product, predicting %s",
                 gram_machine_target(model.machine));
        status = importance_chart(s->chart, about, f.features, f.count, s->top, why);
    }
    if (status == CLI_OK && s->output)
        status = write_file(s->output, &f, why);
    if (status == CLI_OK && (s->json || !s->output))
        status = print(s, &f, why);
    permuted_free(&f.permuted);
    free(f.features);
    model_free(&model);
    return status;
}

const struct command cmd_importance = {
    .name = "importance",
    .operands = "MODEL [DATA]",
    .summary = "show which features a model depends on",
    .details =
        "Prints the importance of every feature, which is its share in the trace of the average "
        "gradient outer product of the model. It measures how much the predictions change with "
        "the feature, compared with the others. The shares sum to 1.\n\n"
        "With --permutation it also predicts the rows of DATA, which has the target, with one "
        "column after the other shuffled, and prints how much the error grows: the root mean "
        "squared error, or the log loss of a classification. Take rows that the model has not "
        "learned from. The first number says how steep the predictions are, the second what they "
        "are worth. Of two columns that say the same, either one stands in for the other, and "
        "both get little.",
    .examples =
        "  gram importance model.gram --chart importance.svg\n"
        "  gram importance model.gram held-out.csv --permutation",
    .least = 1,
    .most = 2,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
