/*
 * judge_report.c - how good predictions are, as text and JSON
 *
 * SPDX-License-Identifier: MIT
 */
#include "judge.h"
#include "text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_SQUARE = 10,  /* classes of a confusion matrix that is shown whole */
    MOST_CLASSES = 30, /* lines of the table of classes */
    MOST_PAIRS = 10,   /* lines of the list of confusions */
    MOST_NAME = 16,    /* characters of a class in a table */
    LEAST_CELL = 6,    /* characters of a count */
};

static const char *class_name(const gram_machine *machine, int64_t k)
{
    const char *name = gram_machine_class_name(machine, k);

    return name ? name : "(no class)"; /* the last row of the confusion matrix */
}

/* A measure that does not exist is null. */
static void classes_json(struct json *j, const gram_machine *machine,
                         const struct class_measures *m)
{
    json_array(j, "classes");
    for (int64_t k = 0; k < m->classes; k++) {
        const struct class_measure *c = &m->class[k];
        json_flat_object(j, NULL);
        json_string(j, "class", class_name(machine, k));
        json_integer(j, "rows", c->rows);
        json_integer(j, "predicted", c->predicted);
        json_number(j, "precision", c->precision);
        json_number(j, "recall", c->recall);
        json_number(j, "f1", c->f1);
        json_number(j, "auc", c->auc);
        json_end(j);
    }
    json_end(j);
    json_array(j, "confusion");
    for (int64_t row = 0; row < m->classes; row++) {
        json_flat_array(j, NULL);
        for (int64_t k = 0; k < m->classes; k++)
            json_integer(j, NULL, m->confusion[row * m->classes + k]);
        json_end(j);
    }
    json_end(j);
}

/* Null if the model has no intervals or sets. */
static void coverage_json(struct json *j, const char *name, const char *size,
                          const struct coverage *c)
{
    if (isnan(c->level)) {
        json_number(j, name, NAN);
        return;
    }
    json_flat_object(j, name);
    json_number(j, "level", c->level);
    json_number(j, "coverage", c->share);
    json_number(j, size, c->size);
    json_end(j);
}

static void coverage_text(struct output *out, int classes, const struct coverage *c)
{
    if (isnan(c->level))
        return;
    output_format(out, "%g %% %s: %.1f %% coverage, mean %s %.*g\n", 100 * c->level,
                  classes ? "sets" : "intervals", 100 * c->share, classes ? "size" : "width",
                  classes ? 3 : 6, c->size);
}

void judgement_json(struct json *j, const gram_machine *machine, const struct judgement *judged)
{
    const struct class_measures *m = &judged->classes;

    score_json(j, &judged->score);
    if (m->classes == 0) {
        json_number(j, "median_absolute_error", judged->numbers.median);
        coverage_json(j, "interval", "mean_width", &judged->coverage);
        return;
    }
    json_number(j, "auc", m->auc);
    json_number(j, "f1", m->f1);
    json_number(j, "balanced_accuracy", m->balanced_accuracy);
    json_number(j, "brier", m->brier);
    json_number(j, "calibration_error", m->calibration_error);
    coverage_json(j, "set", "mean_size", &judged->coverage);
    json_integer(j, "unknown_labels", m->unknown);
    classes_json(j, machine, m);
}

/* A class in a column of `room` characters, flush left or right; a longer one ends in two points.
 */
static void cell(struct output *out, const char *name, int room, int right)
{
    const int size = text_characters(name), cut = size > room;
    const int blanks = cut ? 0 : room - size;

    output_format(out, "%*s", right ? blanks : 0, "");
    output_name(out, name, cut ? text_bytes(name, room - 2) : strlen(name));
    output_format(out, "%s%*s", cut ? ".." : "", right ? 0 : blanks, "");
}

/* The characters that the names of classes need. */
static int name_room(const gram_machine *machine, const struct class_measures *m)
{
    int longest = 5; /* of "class" */

    for (int64_t k = 0; k < m->classes + (m->unknown > 0); k++) {
        const int size = text_characters(class_name(machine, k));
        longest = size > longest ? size : longest;
    }
    return longest < MOST_NAME ? longest : MOST_NAME;
}

/* A share, or a dash if it does not exist. */
static void share(struct output *out, double value)
{
    if (isnan(value))
        output_format(out, " %9s", "-");
    else
        output_format(out, " %9.4f", value);
}

static void classes_text(struct output *out, const gram_machine *machine,
                         const struct class_measures *m, int room)
{
    const int64_t shown = m->classes < MOST_CLASSES ? m->classes : MOST_CLASSES;

    output_text(out, "  ");
    cell(out, "class", room, 0);
    output_text(out, "      rows precision    recall        F1\n");
    for (int64_t k = 0; k < shown; k++) {
        const struct class_measure *c = &m->class[k];
        output_text(out, "  ");
        cell(out, class_name(machine, k), room, 0);
        output_format(out, " %9lld", (long long)c->rows);
        share(out, c->precision);
        share(out, c->recall);
        share(out, c->f1);
        output_text(out, "\n");
    }
    if (shown < m->classes)
        output_format(out, "  and %lld more, which --json has\n", (long long)(m->classes - shown));
}

static void square_text(struct output *out, const gram_machine *machine,
                        const struct class_measures *m, int room)
{
    const int width = room > LEAST_CELL ? room : LEAST_CELL;

    output_text(out, "confusion (rows: true class, columns: predicted class):\n  ");
    cell(out, "", room, 0);
    for (int64_t k = 0; k < m->classes; k++) {
        output_text(out, " ");
        cell(out, class_name(machine, k), width, 1);
    }
    output_text(out, "\n");
    for (int64_t row = 0; row < m->classes + (m->unknown > 0); row++) {
        output_text(out, "  ");
        cell(out, class_name(machine, row), room, 0);
        for (int64_t k = 0; k < m->classes; k++)
            output_format(out, " %*lld", width, (long long)m->confusion[row * m->classes + k]);
        output_text(out, "\n");
    }
}

static void name_text(struct output *out, const char *name)
{
    output_name(out, name, strlen(name));
}

/* The most frequent mistakes of many classes, the most frequent first. */
static void pairs_text(struct output *out, const gram_machine *machine,
                       const struct class_measures *m)
{
    const int64_t cells = (m->classes + 1) * m->classes;
    int64_t before = INT64_MAX,
            at = -1; /* the count and the place of the last one that was shown */

    output_text(out, "most frequent confusions:\n");
    for (int shown = 0; shown < MOST_PAIRS; shown++) {
        int64_t best = -1;
        for (int64_t i = 0; i < cells; i++) {
            const int64_t count = m->confusion[i];
            const int left = count < before || (count == before && i > at);
            if (i / m->classes != i % m->classes && left &&
                count > (best < 0 ? 0 : m->confusion[best]))
                best = i;
        }
        if (best < 0)
            break;
        before = m->confusion[best];
        at = best;
        output_text(out, "  ");
        name_text(out, class_name(machine, best / m->classes));
        output_text(out, " taken for ");
        name_text(out, class_name(machine, best % m->classes));
        output_format(out, ": %lld time%s\n", (long long)before, before == 1 ? "" : "s");
    }
}

void judgement_text(struct output *out, const gram_machine *machine, const struct judgement *judged)
{
    const struct class_measures *m = &judged->classes;
    int room;

    score_text(out, &judged->score);
    if (judged->score.rows == 0)
        return;
    if (m->classes == 0) {
        output_format(out, "median absolute error %.6g\n", judged->numbers.median);
        coverage_text(out, 0, &judged->coverage);
        return;
    }
    output_format(out, "AUC %.4f, F1 %.4f%s, balanced accuracy %.4f\n", m->auc, m->f1,
                  m->classes > 2 ? " (means over the classes)" : "", m->balanced_accuracy);
    output_format(out, "Brier score %.4f, calibration error %.4f\n", m->brier,
                  m->calibration_error);
    coverage_text(out, 1, &judged->coverage);
    if (m->unknown > 0)
        output_format(out, "%lld label%s no class of the model\n", (long long)m->unknown,
                      m->unknown == 1 ? " is" : "s are");
    room = name_room(machine, m);
    classes_text(out, machine, m, room);
    if (m->classes <= MOST_SQUARE)
        square_text(out, machine, m, room);
    else if (m->accuracy < 1)
        pairs_text(out, machine, m);
}
