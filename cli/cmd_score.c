/*
 * cmd_score.c - `gram score`: how well a model predicts a table
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "judge.h"
#include "number.h"
#include "progress.h"
#include "remarks.h"
#include "targets.h"
#include "text.h"
#include "unseen.h"
#include <stdlib.h>
#include <string.h>

struct settings {
    struct common_settings common;
    struct input_settings input;
    int json, strict;
    const char *chart;
};

static const struct option_row own_rows[] = {
    FILE_NAME("chart", 0, "FILE.svg", offsetof(struct settings, chart), NULL,
              "write a chart as SVG: confusions and reliability, or predictions and residuals"),
    FLAG("strict", 0, offsetof(struct settings, strict),
         "end with an error if there is anything to remark on the table"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Output", json_options, offsetof(struct settings, json)),
    GROUP("", own_rows, 0),
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

/* The classes of a model, in which a label is found without a look at each. */
struct classes {
    int64_t count, numbers;
    const char **name; /* sorted */
    double *number;    /* of names that are numbers: sorted */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void classes_free(struct classes *c)
{
    free(c->name);
    free(c->number);
    *c = (struct classes){0};
}

static enum exit_status classes_of(const gram_machine *machine, struct classes *out,
                                   struct failure *why)
{
    const int64_t count = gram_machine_class_count(machine);

    *out = (struct classes){.count = count};
    out->name = malloc(((size_t)count + 1) * sizeof *out->name);
    out->number = malloc(((size_t)count + 1) * sizeof *out->number);
    if (!out->name || !out->number) {
        classes_free(out);
        return fail_memory(why, "the classes of the model");
    }
    for (int64_t k = 0; k < count; k++) {
        out->name[k] = gram_machine_class_name(machine, k);
        out->numbers += number_parse_all(out->name[k], &out->number[out->numbers]);
    }
    qsort(out->name, (size_t)count, sizeof *out->name, by_name);
    qsort(out->number, (size_t)out->numbers, sizeof *out->number, by_number);
    return CLI_OK;
}

static int is_class(const struct classes *c, const char *label)
{
    double value;

    if (bsearch(&label, c->name, (size_t)c->count, sizeof *c->name, by_name))
        return 1;
    return number_parse_all(label, &value) &&
           bsearch(&value, c->number, (size_t)c->numbers, sizeof *c->number, by_number);
}

/* Labels of a table, and those that no class of the model has. */
struct labels {
    int64_t count, unknown, first; /* row of the first unknown */
    char quoted[TEXT_QUOTED];      /* it as text */
};

static struct labels count_labels(const struct classes *classes, const struct column *c,
                                  int64_t rows)
{
    struct labels labels = {0};
    char number[NUMBER_TEXT];

    for (int64_t row = 0; row < rows; row++) {
        const char *label = label_at(c, row, number);
        if (!label)
            continue;
        labels.count++;
        if (is_class(classes, label) || labels.unknown++ > 0)
            continue;
        labels.first = row;
        text_quote(labels.quoted, label, label + strlen(label));
    }
    return labels;
}

/* If no label is a class of the model, the column or the model is the wrong one; if some are not,
 * that is worth a remark. */
static enum exit_status check_labels(const struct model *m, const char *path, const struct table *t,
                                     int64_t target, struct remarks *remarks, struct failure *why)
{
    char names[300] = "";
    size_t used = 0;
    struct classes classes;
    struct labels labels;

    if (gram_machine_class_count(m->machine) == 0)
        return CLI_OK;
    TRY(classes_of(m->machine, &classes, why));
    labels = count_labels(&classes, &t->columns[target], t->rows);
    classes_free(&classes);
    if (labels.unknown == 0)
        return CLI_OK;
    if (labels.unknown < labels.count)
        return remarks_add(remarks, t, target, labels.first, "unknown-label", why,
                           "%lld of %lld labels %s no class of the model (the first is %s): they "
                           "count as wrong",
                           (long long)labels.unknown, (long long)labels.count,
                           labels.unknown == 1 ? "is" : "are", labels.quoted);
    for (int64_t k = 0; k < gram_machine_class_count(m->machine) && used < sizeof names - 1; k++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", k ? ", " : "",
                                 gram_machine_class_name(m->machine, k));
    return fail(why, CLI_BAD_DATA,
                "%s: none of the %lld labels in column \"%.200s\" (the first is %s) is a class of "
                "the model; the classes are %s%s",
                text_name(path), (long long)labels.count, t->columns[target].name, labels.quoted,
                names, used >= sizeof names ? " ..." : "");
}

/* The same for several targets. */
static enum exit_status evaluate_targets(const struct model *m, const struct table *t,
                                         const char *chart, struct judgements *judged,
                                         struct failure *why)
{
    const int64_t none[2] = {-1, -1};
    struct targets targets = {0};
    struct table_view view = {.columns = NULL};
    gram_column *truth = NULL;
    enum exit_status status = targets_of(m->machine, t, &targets, why);

    if (status == CLI_OK)
        status = targets_view(t, &targets, 0, &truth, why);
    if (status == CLI_OK)
        status = table_view_make(t, 0, t->rows, none, &view, why);
    if (status == CLI_OK)
        status = judge_targets(m->g, m->machine, &view.t, truth, judged, why);
    if (status == CLI_OK && chart)
        status = judgements_chart(chart, m->machine, truth, t->rows, judged, why);
    targets_free(&targets);
    free(view.columns);
    free(truth);
    return status;
}

static enum exit_status evaluate(const struct model *m, const struct table *t, int64_t target,
                                 const char *chart, struct judgement *judged, struct failure *why)
{
    const int64_t except[2] = {target, -1};
    const gram_column truth = table_column(t, target, 0);
    struct table_view view;
    enum exit_status status = table_view_make(t, 0, t->rows, except, &view, why);

    if (status == CLI_OK)
        status = judge(m->g, m->machine, &view.t, &truth, judged, why);
    free(view.columns);
    if (status == CLI_OK && chart)
        status = judgement_chart(chart, m->machine, &truth, t->rows, judged, why);
    return status;
}

static enum exit_status print(const struct settings *s, const gram_machine *machine,
                              const struct judgement *judged, const struct judgements *several,
                              const struct remarks *remarks, double seconds, struct failure *why)
{
    struct output out;

    TRY(output_open(&out, "-", why));
    if (s->json) {
        struct json j = json_to(&out);
        json_object(&j, NULL);
        if (several->of) {
            score_json(&j, &several->mean);
            judgements_json(&j, machine, several);
        } else {
            judgement_json(&j, machine, judged);
        }
        json_number(&j, "seconds", seconds);
        remarks_json(&j, remarks);
        json_end(&j);
    } else if (several->of) {
        output_text(&out, "means: ");
        score_text(&out, &several->mean);
        judgements_text(&out, machine, several);
    } else {
        judgement_text(&out, machine, judged);
    }
    return output_close(&out, why);
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    struct judgement judged = {.value = NULL};
    struct judgements several = {0};
    int64_t start = clock_ns(), target;
    struct model model;
    struct table table;
    struct remarks remarks = {0};
    enum exit_status status;

    (void)count;
    TRY(model_load(operands[0], &s->common, &model, why));
    status = model_read_table(&model, operands[1], &s->input, NULL, &target, &table, why);
    if (status == CLI_OK)
        status = check_labels(&model, operands[1], &table, target, &remarks, why);
    if (status == CLI_OK)
        status = unseen_look(&model, &table, &remarks, why);
    if (status == CLI_OK)
        status = remarks_print(&remarks, "score", operands[1], s->strict, why);
    if (status == CLI_OK && gram_machine_target_count(model.machine) > 1)
        status = evaluate_targets(&model, &table, s->chart, &several, why);
    else if (status == CLI_OK)
        status = evaluate(&model, &table, target, s->chart, &judged, why);
    table_free(&table);
    if (status == CLI_OK)
        status = print(s, model.machine, &judged, &several, &remarks,
                       (double)(clock_ns() - start) / 1e9, why);
    judgement_free(&judged);
    judgements_free(&several);
    remarks_free(&remarks);
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
        "squared and the median absolute error; for a model of several targets, the means over "
        "them, and these measures of each.\n\n"
        "For a classification it prints the accuracy (the share of correct classes) and the log "
        "loss; the area under the ROC curve (AUC), the F1 score and the balanced accuracy (the "
        "mean recall of the classes), for which a rare class counts as much as a frequent one; "
        "the Brier score and the calibration error (the mean distance between the probability of "
        "the predicted class and the share of correct ones, in 15 bins), which say whether the "
        "probabilities are right; the precision, the recall and the F1 score of every class; and "
        "which classes are taken for which. With more than two classes, F1 is the mean over the "
        "classes that occur or are predicted, and AUC the mean over the classes that occur, each "
        "against all others. A label that is no class of the model counts as wrong.\n\n"
        "What the training table did not have is remarked on standard error, as gram predict "
        "does; --strict refuses it.\n\n"
        "Both say how many rows the intervals or sets of 90 % cover, which gram predict gives, "
        "and how wide or large these are on average.\n\n"
        "--chart draws, for a classification, the confusion matrix, in which a cell is as dark as "
        "its share of the rows of its true class, and the share of correct predictions against "
        "their probability, which lies on the diagonal if probabilities are right; for a "
        "regression, predictions against true values and residuals (true - predicted) against "
        "predictions.",
    .examples =
        "  gram score model.gram new.csv --json\n"
        "  gram score model.gram new.csv --chart score.svg",
    .least = 2,
    .most = 2,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
