/*
 * cmd_score.c - `gram score`: how well a model predicts a table
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "judge.h"
#include "number.h"
#include "progress.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>

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

/* The class of row `row` as text, which is written to `number` if it is not text already; NULL: it
 * is missing. */
static const char *label_at(const struct column *c, int64_t row, char number[NUMBER_TEXT])
{
    if (c->texts)
        return c->texts[row];
    if (c->numbers[row] != c->numbers[row])
        return NULL;
    number_format(number, c->numbers[row]);
    return number;
}

static int is_class(const gram_machine *machine, const char *label)
{
    const int64_t count = gram_machine_class_count(machine);
    double a, b;

    for (int64_t k = 0; k < count; k++) {
        const char *name = gram_machine_class_name(machine, k);
        const char *end = number_parse(name, &a);
        if (strcmp(name, label) == 0 ||
            (end && !*end && (end = number_parse(label, &b)) && !*end && a == b))
            return 1;
    }
    return 0;
}

/* If no label is a class of the model, the column or the model is the wrong one. */
static enum exit_status check_labels(const struct model *m, const char *path, const struct table *t,
                                     int64_t target, struct failure *why)
{
    const int64_t count = gram_machine_class_count(m->machine);
    const struct column *c = &t->columns[target];
    char number[NUMBER_TEXT], first[TEXT_QUOTED], names[300] = "";
    int64_t labels = 0;
    size_t used = 0;

    for (int64_t row = 0; count > 0 && row < t->rows; row++) {
        const char *label = label_at(c, row, number);
        if (label && is_class(m->machine, label))
            return CLI_OK;
        if (label && labels++ == 0)
            text_quote(first, label, label + strlen(label));
    }
    if (labels == 0)
        return CLI_OK;
    for (int64_t k = 0; k < count && used < sizeof names - 1; k++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", k ? ", " : "",
                                 gram_machine_class_name(m->machine, k));
    return fail(why, CLI_BAD_DATA,
                "%s: none of the %lld labels in column \"%.200s\" (the first is %s) is a class of "
                "the model; the classes are %s%s",
                text_name(path), (long long)labels, c->name, first, names,
                used >= sizeof names ? " ..." : "");
}

static enum exit_status evaluate(const struct model *m, const struct table *t, int64_t target,
                                 struct judgement *judged, struct failure *why)
{
    const int64_t except[2] = {target, -1};
    const gram_column truth = table_column(t, target, 0);
    struct table_view view;
    enum exit_status status = table_view_make(t, 0, t->rows, except, &view, why);

    if (status == CLI_OK)
        status = judge(m->g, m->machine, &view.t, &truth, judged, why);
    free(view.columns);
    return status;
}

static enum exit_status print(const struct settings *s, const gram_machine *machine,
                              const struct judgement *judged, double seconds, struct failure *why)
{
    struct output out;

    TRY(output_open(&out, "-", why));
    if (s->json) {
        struct json j = json_to(&out);
        json_object(&j, NULL);
        judgement_json(&j, machine, judged);
        json_number(&j, "seconds", seconds);
        json_end(&j);
    } else {
        judgement_text(&out, machine, judged);
    }
    return output_close(&out, why);
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    struct judgement judged = {.value = NULL};
    int64_t start = clock_ns(), target;
    struct model model;
    struct table table;
    enum exit_status status;

    (void)count;
    TRY(model_load(operands[0], &s->common, &model, why));
    status = model_read_table(&model, operands[1], &s->input, 1, NULL, &table, &target, why);
    if (status == CLI_OK)
        status = check_labels(&model, operands[1], &table, target, why);
    if (status == CLI_OK)
        status = evaluate(&model, &table, target, &judged, why);
    table_free(&table);
    if (status == CLI_OK)
        status = print(s, model.machine, &judged, (double)(clock_ns() - start) / 1e9, why);
    judgement_free(&judged);
    model_free(&model);
    return status;
}

const struct command cmd_score = {
    .name = "score",
    .operands = "MODEL DATA",
    .summary = "measure how well a model predicts a table",
    .details =
        "Compares the predictions of a model with the target column of DATA, which has the same "
        "name as in training. Rows without a target are left out.\n\n"
        "For a regression it prints the root mean squared error, the mean absolute error, R "
        "squared and the median absolute error.\n\n"
        "For a classification it prints the accuracy (the share of correct classes) and the log "
        "loss; the area under the ROC curve (AUC), the F1 score and the balanced accuracy (the "
        "mean recall of the classes), for which a rare class counts as much as a frequent one; "
        "the Brier score and the calibration error (the mean distance between the probability of "
        "the predicted class and the share of correct ones, in 15 bins), which say whether the "
        "probabilities are right; the precision, the recall and the F1 score of every class; and "
        "which classes are taken for which. With more than two classes, F1 is the mean over the "
        "classes that occur or are predicted, and AUC the mean over the classes that occur, each "
        "against all others. A label that is no class of the model counts as wrong.",
    .examples = "  gram score model.gram new.csv --json",
    .least = 2,
    .most = 2,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
