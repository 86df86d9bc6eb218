/*
 * machine_target.c - tasks, classes and the scale of a target; outputs to predictions, and scores
 *
 * accuracy = share of rows whose most probable class is right; rmse = sqrt(mean (f - y)^2);
 * mae = mean |f - y|; r2 = 1 - sum (f - y)^2 / sum (y - mean y)^2; log loss = mean -log p(class),
 * with the least probability that a machine gives for a class it does not know.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* No class is ever called impossible or certain: least squares does not know either. */
const double gram_machine_least_probability = 1e-3;

bool gram_machine_target_missing(const gram_column *column, int64_t row)
{
    return column->numbers ? isnan(column->numbers[row]) : column->labels[row] == NULL;
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Moves the first of each run of equal elements to the front; returns how many there are. */
static int64_t unique(void *data, int64_t count, size_t size,
                      int (*compare)(const void *, const void *))
{
    char *at = data;
    int64_t kept = 0;

    for (int64_t i = 0; i < count; i++)
        if (i == 0 || compare(at + (size_t)i * size, at + (size_t)(kept - 1) * size) != 0) {
            memmove(at + (size_t)kept * size, at + (size_t)i * size, size);
            kept++;
        }
    return kept;
}

/* Classes of a target of numbers; more than most: left at 0 classes. */
static gram_status number_classes(gram_context *g, const gram_column *column, const int64_t *rows,
                                  int64_t count, int64_t most, struct machine_target *out)
{
    double *value = malloc((size_t)count * sizeof *value + 1);
    int64_t classes;

    if (!value)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the target");
    for (int64_t i = 0; i < count; i++)
        value[i] = column->numbers[rows[i]];
    qsort(value, (size_t)count, sizeof *value, by_number);
    classes = unique(value, count, sizeof *value, by_number);
    if (classes > most) {
        free(value);
        return GRAM_OK;
    }
    out->class_value = value;
    out->class_name = calloc((size_t)classes + 1, sizeof *out->class_name);
    for (out->classes = 0; out->class_name && out->classes < classes; out->classes++) {
        char text[32];

        gram_json_number(text, value[out->classes]);
        if (!(out->class_name[out->classes] = strdup(text)))
            break;
    }
    return out->classes == classes
               ? GRAM_OK
               : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the classes");
}

static gram_status label_classes(gram_context *g, const gram_column *column, const int64_t *rows,
                                 int64_t count, struct machine_target *out)
{
    const char **label = malloc((size_t)count * sizeof *label + 1);
    int64_t classes;

    if (!label)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the target");
    for (int64_t i = 0; i < count; i++)
        label[i] = column->labels[rows[i]];
    qsort(label, (size_t)count, sizeof *label, by_text);
    classes = unique(label, count, sizeof *label, by_text);
    out->class_name = calloc((size_t)classes + 1, sizeof *out->class_name);
    for (out->classes = 0; out->class_name && out->classes < classes; out->classes++)
        if (!(out->class_name[out->classes] = strdup(label[out->classes])))
            break;
    free(label);
    return out->classes == classes
               ? GRAM_OK
               : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the classes");
}

static gram_status find_classes(gram_context *g, const gram_column *column, gram_task task,
                                const int64_t *rows, int64_t count, struct machine_target *out)
{
    enum {
        MOST_CLASSES = 10000
    };

    if (column->labels && task == GRAM_REGRESSION)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "target \"%s\" holds labels, expected numbers for a regression",
                         column->name);
    if (column->labels)
        TRY(label_classes(g, column, rows, count, out));
    else if (task != GRAM_REGRESSION)
        TRY(number_classes(g, column, rows, count, task == GRAM_CLASSIFICATION ? count : 2, out));
    if (out->classes == 1)
        return gram_fail(g, GRAM_BAD_DATA, "target \"%s\" is \"%s\" in every row", column->name,
                         out->class_name[0]);
    if (out->classes > MOST_CLASSES)
        return gram_fail(g, GRAM_BAD_DATA, "target \"%s\" has %lld classes, expected at most %d",
                         column->name, (long long)out->classes, MOST_CLASSES);
    out->task = out->classes > 0 ? GRAM_CLASSIFICATION : GRAM_REGRESSION;
    return GRAM_OK;
}

gram_status gram_machine_target_fit(gram_context *g, const gram_column *column, gram_task task,
                                    const int64_t *rows, int64_t count, struct machine_target *out)
{
    gram_status status = GRAM_OK;

    *out = (struct machine_target){.scale = 1, .transform = GRAM_TRANSFORM_NONE};
    out->name = strdup(column->name);
    if (!out->name)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the target's name");
    if (status == GRAM_OK)
        status = find_classes(g, column, task, rows, count, out);
    if (status != GRAM_OK)
        gram_machine_target_destroy(out);
    return status;
}

void gram_machine_target_destroy(struct machine_target *target)
{
    for (int64_t i = 0; target->class_name && i < target->classes; i++)
        free(target->class_name[i]);
    free(target->class_name);
    free(target->class_value);
    free(target->name);
    *target = (struct machine_target){0};
}

static double transformed(gram_transform transform, double value)
{
    return transform == GRAM_TRANSFORM_LOG    ? log(value)
           : transform == GRAM_TRANSFORM_SQRT ? sqrt(value)
                                              : value;
}

/* Moments are taken of values divided by about their largest magnitude: squares neither overflow
 * nor vanish. */
gram_status gram_machine_target_scale(gram_context *g, const gram_column *column,
                                      gram_transform transform, const int64_t *rows, int64_t count,
                                      struct machine_target *target)
{
    double unit = 0, sum = 0, squares = 0;

    for (int64_t i = 0; i < count; i++) {
        double v = column->numbers[rows[i]];
        if ((transform == GRAM_TRANSFORM_LOG && v <= 0) ||
            (transform == GRAM_TRANSFORM_SQRT && v < 0))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "target \"%s\" is %g in row %lld, expected %s for "
                             "options.target_transform",
                             column->name, v, (long long)rows[i],
                             transform == GRAM_TRANSFORM_LOG ? "more than 0" : "at least 0");
        unit = fmax(unit, fabs(transformed(transform, v)));
    }
    unit = unit > 0 ? ldexp(1, ilogb(unit)) : 1; /* so that dividing by it rounds nothing */
    for (int64_t i = 0; i < count; i++)
        sum += transformed(transform, column->numbers[rows[i]]) / unit;
    sum /= (double)count;
    for (int64_t i = 0; i < count; i++) {
        double d = transformed(transform, column->numbers[rows[i]]) / unit - sum;
        squares += d * d;
    }
    target->transform = transform;
    target->shift = sum * unit;
    target->scale = sqrt(squares / (double)count) * unit;
    if (!(target->scale > 0))
        target->scale = 1;
    return GRAM_OK;
}

int64_t gram_machine_target_outputs(const struct machine_target *target)
{
    return target->classes > 2 ? target->classes : 1;
}

/* The class of a row: its index, -1 if it was never seen, -2 if it is missing. */
static int64_t find_class(const struct machine_target *target, const gram_column *column,
                          int64_t row)
{
    int64_t low = 0, high = target->classes - 1;

    if (gram_machine_target_missing(column, row))
        return -2;
    if (!column->numbers != !target->class_value)
        return -1;
    while (low <= high) {
        int64_t middle = (low + high) / 2;
        int order = column->numbers ? by_number(&column->numbers[row], &target->class_value[middle])
                                    : strcmp(column->labels[row], target->class_name[middle]);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    return -1;
}

/* A value of a regression on the scale of the target; halves where a difference of two numbers near
 * the end of the range lies beyond it. */
static double scaled(const struct machine_target *target, double value)
{
    double t = transformed(target->transform, value), d = t - target->shift;

    return isfinite(d) ? d / target->scale : (t / 2 - target->shift / 2) / (target->scale / 2);
}

static double unscaled(const struct machine_target *target, double f)
{
    double v = f * target->scale + target->shift;

    return isfinite(v) ? v : 2 * (f * (target->scale / 2) + target->shift / 2);
}

void gram_machine_target_encode(const struct machine_target *target, const gram_column *column,
                                const int64_t *rows, int64_t count, gram_dtype dtype, void *y)
{
    int64_t outputs = gram_machine_target_outputs(target);

    for (int64_t i = 0; i < count; i++) {
        int64_t class = target->classes ? find_class(target, column, rows[i]) : 0;

        for (int64_t j = 0; j < outputs; j++) {
            double v = target->classes == 0 ? scaled(target, column->numbers[rows[i]])
                                            : class == (outputs == 1 ? 1 : j);
            if (dtype == GRAM_F32)
                ((float *)y)[j * count + i] = (float)v;
            else
                ((double *)y)[j * count + i] = v;
        }
    }
}

double gram_machine_target_decode(const struct machine_target *target, const double *f,
                                  int64_t stride)
{
    double v = unscaled(target, f[0]);
    int64_t best = 0;

    if (target->classes == 2)
        return isnan(f[0]) ? NAN : f[0] > 0.5;
    if (target->classes == 0 && target->transform == GRAM_TRANSFORM_LOG)
        return exp(v);
    if (target->classes == 0 && target->transform == GRAM_TRANSFORM_SQRT)
        return isnan(v) ? NAN : v > 0 ? v * v : 0;
    if (target->classes == 0)
        return v;
    for (int64_t j = 1; j < target->classes; j++)
        if (f[j * stride] > f[best * stride])
            best = j;
    return isnan(f[best * stride]) ? NAN : (double)best;
}

void gram_machine_target_probabilities(const struct machine_target *target, const double *f,
                                       int64_t stride, double *out, int64_t out_stride)
{
    int64_t outputs = gram_machine_target_outputs(target);
    double sum = 0;

    for (int64_t j = 0; j < target->classes; j++) {
        double v = outputs == 1 ? (j ? f[0] : 1 - f[0]) : f[j * stride];
        v = v < gram_machine_least_probability ? gram_machine_least_probability
            : v > 1                            ? 1
                                               : v; /* NaN stays */
        out[j * out_stride] = v;
        sum += v;
    }
    for (int64_t j = 0; j < target->classes; j++)
        out[j * out_stride] /= sum;
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* Sums that every metric is made of; those of a regression in units of unit, a power of two about
 * as large as the largest target, so that no square overflows or vanishes. */
struct tally {
    int64_t rows, right;
    double unit, mean, absolute, squared, spread, log_loss;
};

static void count_class(const struct machine_target *target, int64_t class, const double *f,
                        int64_t stride, double *p, struct tally *t)
{
    gram_machine_target_probabilities(target, f, stride, p, 1);
    t->right += class >= 0 && gram_machine_target_decode(target, f, stride) == (double)class;
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): a class is one of the target's
    t->log_loss -= log(class >= 0 ? p[class] : gram_machine_least_probability);
}

/* Sets unit and mean. */
static void measure(const gram_column *column, const int64_t *rows, int64_t count, struct tally *t)
{
    double largest = 0;
    int64_t known = 0;

    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows ? rows[i] : i;
        if (!gram_machine_target_missing(column, row))
            largest = fmax(largest, fabs(column->numbers[row])), known++;
    }
    t->unit = largest > 0 && isfinite(largest) ? ldexp(1, ilogb(largest)) : 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows ? rows[i] : i;
        if (!gram_machine_target_missing(column, row))
            t->mean += column->numbers[row] / t->unit;
    }
    t->mean = known ? t->mean / (double)known : 0;
}

static void count_number(double y, double f, struct tally *t)
{
    double e = f / t->unit - y / t->unit, d = y / t->unit - t->mean;

    t->absolute += fabs(e);
    t->squared += e * e;
    t->spread += d * d;
}

gram_status gram_machine_score_outputs(gram_context *g, const struct machine_target *target,
                                       const gram_column *column, const int64_t *rows,
                                       int64_t count, const double *f, gram_machine_score *out)
{
    double *p = malloc((size_t)target->classes * sizeof *p + 1);
    struct tally t = {0};

    if (!p)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld probabilities",
                         (long long)target->classes);
    if (!target->classes)
        measure(column, rows, count, &t);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows ? rows[i] : i;

        if (gram_machine_target_missing(column, row))
            continue;
        t.rows++;
        if (target->classes)
            count_class(target, find_class(target, column, row), f + i, count, p, &t);
        else
            count_number(column->numbers[row], gram_machine_target_decode(target, f + i, count),
                         &t);
    }
    free(p);
    *out = (gram_machine_score){
        .size = sizeof *out, .rows = t.rows, .score = NAN, .mae = NAN, .r2 = NAN, .log_loss = NAN};
    out->metric = target->classes ? "accuracy" : "rmse";
    if (t.rows > 0 && target->classes) {
        out->score = (double)t.right / (double)t.rows;
        out->log_loss = t.log_loss / (double)t.rows;
    } else if (t.rows > 0) {
        out->score = sqrt(t.squared / (double)t.rows) * t.unit;
        out->mae = t.absolute / (double)t.rows * t.unit;
        out->r2 = t.spread > 0 ? 1 - t.squared / t.spread : NAN;
    }
    return GRAM_OK;
}

static gram_status check_target(gram_context *g, const struct machine_target *target,
                                const gram_column *column)
{
    bool numbers = target->classes == 0 || target->class_value;

    if (!column || !column->name || !column->numbers == !column->labels)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "target is not a column of numbers or labels");
    if (numbers != (column->numbers != NULL))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "target \"%s\" holds %s, expected %s",
                         column->name, column->numbers ? "numbers" : "labels",
                         numbers ? "numbers" : "labels");
    return GRAM_OK;
}

gram_status gram_machine_evaluate(gram_context *g, const gram_machine *machine,
                                  const gram_table *table, const gram_column *target,
                                  gram_machine_score *score)
{
    gram_machine_score result;
    size_t size;
    double *f;
    gram_status status;

    TRY(gram_begin(g, __func__));
    if (!machine)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "machine is NULL");
    if (!score || score->size < sizeof score->size || score->size > sizeof *score)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "score.size is %zu, expected at most %zu",
                         score ? score->size : 0, sizeof *score);
    size = score->size;
    TRY(check_target(g, &machine->target, target));
    status = gram_machine_table_outputs(g, machine, table, &f);
    if (status == GRAM_OK)
        status =
            gram_machine_score_outputs(g, &machine->target, target, NULL, table->rows, f, &result);
    free(f);
    if (status == GRAM_OK) {
        result.size = size;
        memcpy(score, &result, size);
    }
    return gram_call_ended(g, status);
}
