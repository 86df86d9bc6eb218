/*
 * judge_chart.c - how good predictions are, as a picture
 *
 * SPDX-License-Identifier: MIT
 */
#include "chart.h"
#include "targets.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_DRAWN = 40 /* classes of a confusion matrix */
};

static enum exit_status write(const char *path, const struct chart_pair *pair, int64_t rows,
                              struct failure *why)
{
    struct chart_pair all = *pair;
    struct output out;

    if (rows == 0)
        all.subtitle = "no row has a target";

    TRY(output_open(&out, path, why));
    chart_pair_write(&out, &all);
    return output_close(&out, why);
}

/* ---- Classes ------------------------------------------------------------------------------ */

/* The classes with the most rows, in their own order; returns how many there are. */
static int choose(const struct class_measures *m, int64_t *class)
{
    int count = 0;

    for (int64_t k = 0; k < m->classes; k++) {
        int64_t larger = 0;

        for (int64_t j = 0; j < m->classes; j++)
            larger += m->class[j].rows > m->class[k].rows ||
                      (m->class[j].rows == m->class[k].rows && j < k);
        if (larger < MOST_DRAWN)
            class[count++] = k;
    }
    return count;
}

/* The bins that have rows, as points: their mean probability, and the share of correct ones. */
static int64_t reliability(const struct class_measures *m, double *confidence, double *right)
{
    int64_t count = 0;

    for (int b = 0; b < CALIBRATION_BINS; b++)
        if (m->bin[b].rows > 0) {
            confidence[count] = m->bin[b].confidence / m->bin[b].rows;
            right[count++] = m->bin[b].right / m->bin[b].rows;
        }
    return count;
}

static enum exit_status chart_classes(const char *path, const gram_machine *machine,
                                      const struct class_measures *m, struct failure *why)
{
    int64_t class[MOST_DRAWN], counts[MOST_DRAWN * MOST_DRAWN];
    const char *names[MOST_DRAWN];
    double confidence[CALIBRATION_BINS], right[CALIBRATION_BINS];
    const int size = choose(m, class);
    struct chart_matrix matrix = {"Confusion", "predicted class", "true class", names, counts,
                                  size};
    struct chart_plane plane = {.title = "Reliability",
                                .x_name = "probability of the predicted class",
                                .y_name = "share of correct predictions",
                                .x = confidence,
                                .y = right,
                                .guide = GUIDE_DIAGONAL,
                                .shares = 1};
    char title[300], about[300];
    const struct chart_pair pair = {title, about, &matrix, &plane, 1};

    plane.count = reliability(m, confidence, right);
    for (int i = 0; i < size; i++) {
        names[i] = gram_machine_class_name(machine, class[i]);
        for (int j = 0; j < size; j++)
            counts[i * size + j] = m->confusion[class[i] * m -> classes + class[j]];
    }
    snprintf(title, sizeof title, "Predictions of %s", gram_machine_target(machine));
    snprintf(about, sizeof about, "accuracy %.4f, calibration error %.4f on %lld rows", m->accuracy,
             m->calibration_error, (long long)m->rows);
    if (size < m->classes)
        snprintf(about, sizeof about,
                 "accuracy %.4f, calibration error %.4f on %lld rows; the %d most frequent of %lld "
                 "classes",
                 m->accuracy, m->calibration_error, (long long)m->rows, size,
                 (long long)m->classes);
    return write(path, &pair, m->rows, why);
}

/* ---- Numbers ------------------------------------------------------------------------------ */

enum {
    TITLE_BYTES = 300
};

/* The two planes of one target; residual has room for its rows. */
static void fill_planes(const gram_column *truth, int64_t rows, const struct judgement *judged,
                        const char *title, double *residual, struct chart_plane planes[2])
{
    planes[0] = (struct chart_plane){.title = title,
                                     .x_name = "true",
                                     .y_name = "predicted",
                                     .x = truth->numbers,
                                     .y = judged->value,
                                     .count = rows,
                                     .guide = GUIDE_DIAGONAL};
    planes[1] = (struct chart_plane){.title = "Residuals",
                                     .x_name = "predicted",
                                     .y_name = "true - predicted",
                                     .x = judged->value,
                                     .y = residual,
                                     .count = rows,
                                     .guide = GUIDE_ZERO};
    for (int64_t i = 0; i < rows; i++)
        residual[i] = truth->numbers[i] - judged->value[i];
}

static enum exit_status chart_numbers(const char *path, const gram_machine *machine,
                                      const gram_column *truth, int64_t rows,
                                      const struct judgement *judged, struct failure *why)
{
    double *residual = malloc((size_t)(rows + 1) * sizeof *residual);
    struct chart_plane planes[2];
    char title[TITLE_BYTES], about[TITLE_BYTES];
    const struct chart_pair pair = {title, about, NULL, planes, 1};
    enum exit_status status;

    if (!residual)
        return fail_memory(why, "the residuals");
    fill_planes(truth, rows, judged, "Predictions", residual, planes);
    snprintf(title, sizeof title, "Predictions of %s", gram_machine_target(machine));
    snprintf(about, sizeof about, "rmse %.6g, r2 %.4f on %lld rows", judged->numbers.rmse,
             judged->numbers.r2, (long long)judged->numbers.rows);
    status = write(path, &pair, judged->numbers.rows, why);
    free(residual);
    return status;
}

enum exit_status judgement_chart(const char *path, const gram_machine *machine,
                                 const gram_column *truth, int64_t rows,
                                 const struct judgement *judged, struct failure *why)
{
    if (judged->classes.classes > 0)
        return chart_classes(path, machine, &judged->classes, why);
    return chart_numbers(path, machine, truth, rows, judged, why);
}

enum exit_status judgements_chart(const char *path, const gram_machine *machine,
                                  const gram_column *truth, int64_t rows,
                                  const struct judgements *judged, struct failure *why)
{
    const int64_t count = judged->count;
    double *residual = malloc((size_t)(count * rows + 1) * sizeof *residual);
    struct chart_plane *planes = calloc((size_t)(2 * count) + 1, sizeof *planes);
    char(*titles)[TITLE_BYTES] = calloc((size_t)count + 1, sizeof *titles);
    char title[TITLE_BYTES], about[TITLE_BYTES];
    const struct chart_pair pair = {title, about, NULL, planes, count};
    enum exit_status status = CLI_OK;

    if (!residual || !planes || !titles)
        status = fail_memory(why, "the residuals");
    for (int64_t t = 0; status == CLI_OK && t < count; t++) {
        snprintf(titles[t], sizeof titles[t], "%s", gram_machine_target_name(machine, t));
        fill_planes(&truth[t], rows, &judged->of[t], titles[t], residual + t * rows,
                    planes + 2 * t);
    }
    snprintf(title, sizeof title, "Predictions of %lld targets", (long long)count);
    snprintf(about, sizeof about, "means: rmse %.6g, r2 %.4f", judged->mean.score, judged->mean.r2);
    if (status == CLI_OK)
        status = write(path, &pair, judged->mean.rows, why);
    free(residual);
    free(planes);
    free(titles);
    return status;
}
