/*
 * cmd_importance.c - `gram importance`: which features a model's predictions depend on
 *
 * SPDX-License-Identifier: MIT
 */
#include "csv_write.h"
#include "matrix.h"
#include "model.h"
#include "number.h"
#include <stdlib.h>

struct settings {
    struct common_settings common;
    int64_t top;
    const char *chart, *output;
    int json;
};

static const struct option_row rows[] = {
    INTEGER("top", 'n', "N", offsetof(struct settings, top), "20", 1, 1000,
            "show only the N most important features in text and in the chart"),
    FILE_NAME("chart", 0, "FILE.svg", offsetof(struct settings, chart), NULL,
              "write a chart as SVG"),
    FILE_NAME("output", 'o', "FILE", offsetof(struct settings, output), NULL,
              "write the columns feature and importance to FILE, as CSV, or as its ending .json "
              "or .tsv says"),
    FLAG("json", 0, offsetof(struct settings, json), "write JSON"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Output", rows, 0),
    GROUP("Other options", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

static void write_text(struct output *out, char delimiter, const gram_machine_feature *features,
                       int64_t count)
{
    output_format(out, "feature%cimportance\n", delimiter);
    for (int64_t i = 0; i < count; i++) {
        char number[NUMBER_TEXT];
        number_format(number, features[i].importance);
        csv_write_field(out, features[i].name, delimiter);
        output_format(out, "%c%s\n", delimiter, number);
    }
}

static void write_json(struct output *out, const gram_machine_feature *features, int64_t count)
{
    struct json j = json_to(out);

    json_object(&j, NULL);
    importance_json(&j, features, count);
    json_end(&j);
}

static enum exit_status write_file(const char *path, const gram_machine_feature *features,
                                   int64_t count, struct failure *why)
{
    const struct output_settings file = {.output = path};
    const enum format format = output_format_of(&file);
    struct output out;

    TRY(output_open(&out, path, why));
    if (format == FORMAT_JSON)
        write_json(&out, features, count);
    else
        write_text(&out, format == FORMAT_TSV ? '\t' : ',', features, count);
    return output_close(&out, why);
}

static enum exit_status print(const struct settings *s, const gram_machine_feature *features,
                              int64_t count, struct failure *why)
{
    struct output out;

    TRY(output_open(&out, "-", why));
    if (s->json)
        write_json(&out, features, count);
    else
        importance_text(&out, features, count, s->top);
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

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    gram_machine_feature *features = NULL;
    struct model model;
    int64_t n = 0;
    enum exit_status status;

    (void)count;
    TRY(check_output(s, why));
    TRY(model_load(operands[0], &s->common, &model, why));
    status = model_importance(model.g, model.machine, &features, &n, why);
    if (status == CLI_OK && s->chart) {
        char about[300];
        snprintf(about, sizeof about, "Share of the average gradient outer product, predicting %s",
                 gram_machine_target(model.machine));
        status = importance_chart(s->chart, about, features, n, s->top, why);
    }
    if (status == CLI_OK && s->output)
        status = write_file(s->output, features, n, why);
    if (status == CLI_OK && (s->json || !s->output))
        status = print(s, features, n, why);
    free(features);
    model_free(&model);
    return status;
}

const struct command cmd_importance = {
    .name = "importance",
    .operands = "MODEL",
    .summary = "show which features a model depends on",
    .details =
        "Prints the importance of every feature, which is its share in the trace of the average "
        "gradient outer product of the model. It measures how much the predictions change with "
        "the feature, compared with the others. The shares sum to 1.",
    .examples = "  gram importance model.gram --chart importance.svg",
    .least = 1,
    .most = 1,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
