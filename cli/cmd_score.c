/*
 * cmd_score.c - `gram score`: how well a model predicts a table
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "interrupt.h"
#include "model.h"
#include "progress.h"
#include <stdlib.h>

struct settings {
    struct common_settings common;
    struct input_settings input;
    int json;
};

static const struct option_group groups[] = {
    GROUP("Output", json_options, offsetof(struct settings, json)),
    GROUP("Input", input_options, offsetof(struct settings, input)),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

static enum exit_status evaluate(const struct model *m, const struct table *t, int64_t target,
                                 gram_machine_score *score, struct failure *why)
{
    const int64_t except[2] = {target, -1};
    const gram_column truth = table_column(t, target, 0);
    struct table_view view;
    enum exit_status status = table_view_make(t, 0, t->rows, except, &view, why);

    if (status == CLI_OK) {
        interrupt_cancels(m->g);
        gram_status done = gram_machine_evaluate(m->g, m->machine, &view.t, &truth, score);
        if (interrupt_ends())
            done = GRAM_CANCELLED;
        if (done != GRAM_OK)
            status = fail_gram(why, done, m->g);
    }
    free(view.columns);
    return status;
}

static enum exit_status print(const struct settings *s, const gram_machine_score *score,
                              double seconds, struct failure *why)
{
    struct output out;

    TRY(output_open(&out, "-", why));
    if (s->json) {
        struct json j = json_to(&out);
        json_object(&j, NULL);
        score_json(&j, score);
        json_number(&j, "seconds", seconds);
        json_end(&j);
    } else {
        score_text(&out, score);
    }
    return output_close(&out, why);
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    gram_machine_score score = {.size = sizeof score};
    int64_t start = clock_ns(), target;
    struct model model;
    struct table table;
    enum exit_status status;

    (void)count;
    TRY(model_load(operands[0], &s->common, &model, why));
    status = model_read_table(&model, operands[1], &s->input, 1, &table, &target, why);
    if (status == CLI_OK) {
        status = evaluate(&model, &table, target, &score, why);
        table_free(&table);
    }
    if (status == CLI_OK)
        status = print(s, &score, (double)(clock_ns() - start) / 1e9, why);
    model_free(&model);
    return status;
}

const struct command cmd_score = {
    .name = "score",
    .operands = "MODEL DATA",
    .summary = "how well a model predicts a table",
    .details =
        "Compares the predictions of a model with the target column of DATA, which has the name "
        "that it had in training. Prints the accuracy (share of right classes) and the log loss of "
        "a classification; the root mean squared error, the mean absolute error and R squared of a "
        "regression. Rows without a target are left out.",
    .examples = "  gram score model.gram new.csv --json",
    .least = 2,
    .most = 2,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
