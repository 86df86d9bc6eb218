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

/* Whether there are more different numbers than two, which a look at few rows mostly tells. */
static bool more_than_two(const double *value, int64_t count)
{
    double second = count > 0 ? value[0] : 0;

    for (int64_t i = 0; i < count; i++) {
        if (value[i] == value[0] || value[i] == second)
            continue;
        if (second != value[0])
            return true;
        second = value[i];
    }
    return false;
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
    if (most == 2 && more_than_two(value, count)) {
        free(value);
        return GRAM_OK;
    }
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
    for (int64_t p = 0; target->part && p < target->parts; p++)
        gram_machine_target_destroy(&target->part[p]);
    free(target->part);
    free(target->class_name);
    free(target->class_value);
    free(target->calibration);
    free(target->score);
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
static gram_status scale_one(gram_context *g, const gram_column *column, gram_transform transform,
                             const int64_t *rows, int64_t count, struct machine_target *target)
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

gram_status gram_machine_target_scale(gram_context *g, const gram_column *column,
                                      gram_transform transform, const int64_t *rows, int64_t count,
                                      struct machine_target *target)
{
    if (target->parts == 0)
        return scale_one(g, column, transform, rows, count, target);
    target->transform = transform;
    for (int64_t p = 0; p < target->parts; p++)
        TRY(scale_one(g, &column[p], transform, rows, count, &target->part[p]));
    return GRAM_OK;
}

int64_t gram_machine_target_outputs(const struct machine_target *target)
{
    return target->classes > 2 ? target->classes : gram_machine_target_parts(target);
}

int64_t gram_machine_target_class(const struct machine_target *target, const gram_column *column,
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
    const size_t column_bytes = (size_t)count * gram_dtype_size(dtype);

    for (int64_t p = 0; p < target->parts; p++)
        gram_machine_target_encode(&target->part[p], &column[p], rows, count, dtype,
                                   (char *)y + (size_t)p * column_bytes);
    for (int64_t i = 0; target->parts == 0 && i < count; i++) {
        int64_t class = target->classes ? gram_machine_target_class(target, column, rows[i]) : 0;

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

/* One row's output for a class; two classes share one. */
static double output_of(const struct machine_target *target, const double *f, int64_t stride,
                        int64_t class)
{
    if (gram_machine_target_outputs(target) == 1)
        return class ? f[0] : 1 - f[0];
    return f[class * stride];
}

/* What is largest for the most probable class. */
static double rank_of(const struct machine_target *target, const double *f, int64_t stride,
                      int64_t class)
{
    double v = output_of(target, f, stride, class);

    return target->calibration ? target->calibration[0] * v + target->calibration[1 + class] : v;
}

static double most_probable(const struct machine_target *target, const double *f, int64_t stride)
{
    double most = rank_of(target, f, stride, 0);
    int64_t best = 0;

    for (int64_t j = 1; j < target->classes; j++) {
        double v = rank_of(target, f, stride, j);
        if (v > most) {
            most = v;
            best = j;
        }
    }
    return isnan(most) ? NAN : (double)best;
}

double gram_machine_target_decode(const struct machine_target *target, const double *f,
                                  int64_t stride)
{
    double v = unscaled(target, f[0]);

    if (target->classes > 0)
        return most_probable(target, f, stride);
    if (target->transform == GRAM_TRANSFORM_LOG)
        return exp(v);
    if (target->transform == GRAM_TRANSFORM_SQRT)
        return isnan(v) ? NAN : v > 0 ? v * v : 0;
    return v;
}

/* Outputs of least squares that nothing has calibrated: clipped, and divided by their sum. */
static void clipped(const struct machine_target *target, const double *f, int64_t stride,
                    double *out, int64_t out_stride)
{
    double sum = 0;

    for (int64_t j = 0; j < target->classes; j++) {
        double v = output_of(target, f, stride, j);
        v = v < gram_machine_least_probability ? gram_machine_least_probability
            : v > 1                            ? 1
                                               : v; /* NaN stays */
        out[j * out_stride] = v;
        sum += v;
    }
    for (int64_t j = 0; j < target->classes; j++)
        out[j * out_stride] /= sum;
}

void gram_machine_target_probabilities(const struct machine_target *target, const double *f,
                                       int64_t stride, double *out, int64_t out_stride)
{
    double most = -INFINITY, sum = 0;

    if (!target->calibration) {
        clipped(target, f, stride, out, out_stride);
        return;
    }
    for (int64_t j = 0; j < target->classes; j++) {
        out[j * out_stride] = rank_of(target, f, stride, j);
        most = fmax(most, out[j * out_stride]);
    }
    for (int64_t j = 0; j < target->classes; j++)
        sum += out[j * out_stride] = exp(out[j * out_stride] - most);
    for (int64_t j = 0; j < target->classes; j++) {
        double uniform = target->calibration[1 + target->classes];

        out[j * out_stride] =
            (1 - uniform) * out[j * out_stride] / sum + uniform / (double)target->classes;
    }
}

/* ---- Calibration ----------------------------------------------------------------------------- */

/*
 * p_j = (1 - u) exp(a f_j + c log pi_j) / sum_i exp(a f_i + c log pi_i) + u / classes, where pi are
 * the shares of the classes: temperature scaling (Guo, Pleiss, Sun and Weinberger, ICML 2017), with
 * a weight of the prior, which is Platt's scaling where there are two classes, and a share u of
 * labels that say nothing, without which some wrong labels far from all others of their class would
 * make every probability timid.  The mean log loss is convex in a and c; Newton's method with
 * halved steps finds its minimum.  u is found by expectation and maximisation (Dempster, Laird and
 * Rubin, JRSS B 39, 1977), which never raises the loss; it is 1 / (rows + 1) or more, since so many
 * rows cannot show that a class is rarer.
 */
struct calibration {
    const struct machine_target *target;
    const double *f, *prior; /* log pi */
    const int64_t *class;
    const double *weight; /* of the rows; their sum is count */
    int64_t count;
};

/* a f_j + c log pi_j of a row, and the largest of them. */
static double logits(const struct calibration *k, const double *at, int64_t row, double *v)
{
    double most = -INFINITY;

    for (int64_t j = 0; j < k->target->classes; j++) {
        v[j] = at[0] * output_of(k->target, k->f + row, k->count, j) + at[1] * k->prior[j];
        most = fmax(most, v[j]);
    }
    return most;
}

/* The mean log loss at (a, c), with its gradient and Hessian, and a little of |a, c|^2, without
 * which classes that are told apart without an error would have no minimum. */
static double log_loss_at(const struct calibration *k, const double *at, double *gradient,
                          double *hessian, double *v)
{
    const double least = 1e-6;
    double loss = least * (at[0] * at[0] / 2 + at[1] * at[1] / 2), rows = (double)k->count;

    gradient[0] = least * at[0];
    gradient[1] = least * at[1];
    hessian[0] = hessian[2] = least;
    hessian[1] = 0;
    for (int64_t i = 0; i < k->count; i++) {
        double most = logits(k, at, i, v), sum = 0, mean[2] = {0, 0}, second[3] = {0, 0, 0};
        double w = k->weight[i];

        for (int64_t j = 0; j < k->target->classes; j++) {
            double x[2] = {output_of(k->target, k->f + i, k->count, j), k->prior[j]};
            double p = exp(v[j] - most);

            sum += p;
            for (int d = 0; d < 2; d++)
                mean[d] += p * x[d];
            second[0] += p * x[0] * x[0];
            second[1] += p * x[0] * x[1];
            second[2] += p * x[1] * x[1];
        }
        loss += w * (log(sum) + most - v[k->class[i]]) / rows;
        for (int d = 0; d < 2; d++)
            mean[d] /= sum;
        gradient[0] += w * (mean[0] - output_of(k->target, k->f + i, k->count, k->class[i])) / rows;
        gradient[1] += w * (mean[1] - k->prior[k->class[i]]) / rows;
        hessian[0] += w * (second[0] / sum - mean[0] * mean[0]) / rows;
        hessian[1] += w * (second[1] / sum - mean[0] * mean[1]) / rows;
        hessian[2] += w * (second[2] / sum - mean[1] * mean[1]) / rows;
    }
    return loss;
}

static void minimise(const struct calibration *k, double *at, double *v)
{
    double gradient[2], hessian[3], next[2] = {at[0], at[1]};
    double loss = log_loss_at(k, at, gradient, hessian, v);

    for (int step = 0; step < 50; step++) {
        double det = hessian[0] * hessian[2] - hessian[1] * hessian[1], size = 1, tried = INFINITY;
        double d[2] = {(hessian[2] * gradient[0] - hessian[1] * gradient[1]) / det,
                       (hessian[0] * gradient[1] - hessian[1] * gradient[0]) / det};
        double slope = gradient[0] * d[0] + gradient[1] * d[1];

        if (!(slope > 1e-12)) /* NaN too */
            return;
        for (int halved = 0; halved < 20 && !(tried <= loss - 1e-4 * size * slope); halved++) {
            size = ldexp(1, -halved);
            next[0] = at[0] - size * d[0];
            next[1] = at[1] - size * d[1];
            tried = log_loss_at(k, next, gradient, hessian, v);
        }
        if (!(tried < loss))
            return;
        at[0] = next[0];
        at[1] = next[1];
        loss = tried;
    }
}

/* The share of the uniform distribution in a row's probability of its own class. */
static double uniform_share(const struct calibration *k, const double *at, double uniform,
                            int64_t row, double *v)
{
    const double flat = uniform / (double)k->target->classes;
    const double most = logits(k, at, row, v);
    double sum = 0;

    for (int64_t j = 0; j < k->target->classes; j++)
        sum += exp(v[j] - most);
    return flat / (flat + (1 - uniform) * exp(v[k->class[row]] - most) / sum);
}

enum {
    MOST_MIXES = 40
};

/* (a, c) and the share of the uniform distribution; room is for as many numbers as rows. */
static double mix(const struct calibration *k, double *at, double *v, double *room)
{
    const double least = 1 / (double)(k->count + 1);
    struct calibration sure = *k;
    double uniform = 0.02, before = 1;

    minimise(k, at, v);
    sure.weight = room;
    for (int step = 0; step < MOST_MIXES && fabs(uniform - before) > 1e-3 * uniform; step++) {
        double sum = 0;

        for (int64_t i = 0; i < k->count; i++) {
            const double share = uniform_share(k, at, uniform, i, v);

            room[i] = (1 - share) * k->weight[i];
            sum += share * k->weight[i];
        }
        before = uniform;
        uniform = fmax(sum / (double)k->count, least);
        minimise(&sure, at, v);
    }
    return uniform;
}

/* The logarithms of the shares of the classes, each of which counts once more than it is there. */
static void priors(const struct machine_target *target, const struct calibration *k, double *out)
{
    for (int64_t j = 0; j < target->classes; j++)
        out[j] = 1;
    for (int64_t i = 0; i < k->count; i++)
        out[k->class[i]] += k->weight[i];
    for (int64_t j = 0; j < target->classes; j++)
        out[j] = log(out[j] / (double)(k->count + target->classes));
}

/* Divides weights by their mean. */
static void normalise(double *weight, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += weight[i];
    for (int64_t i = 0; i < count; i++)
        weight[i] *= (double)count / sum;
}

/* Rows that were left out, as a caller has them; weights are those of all rows, or NULL. */
struct left_out {
    const gram_column *column;
    const int64_t *rows;
    const double *weights;
    int64_t count;
    const double *f;
};

/* Rows of a known class and finite outputs, side by side, with their weights. */
static int64_t known(const struct machine_target *target, const struct left_out *from,
                     int64_t *class, double *weight, double *out)
{
    int64_t outputs = gram_machine_target_outputs(target), kept = 0, count = from->count;

    for (int pass = 0; pass < 2; pass++) {
        int64_t at = 0;

        for (int64_t i = 0; i < count; i++) {
            int64_t found = gram_machine_target_class(target, from->column, from->rows[i]);
            bool finite = found >= 0;

            for (int64_t j = 0; j < outputs; j++)
                finite &= isfinite(from->f[j * count + i]) != 0;
            if (!finite)
                continue;
            for (int64_t j = 0; pass && j < outputs; j++)
                out[j * kept + at] = from->f[j * count + i];
            class[at] = found;
            weight[at] = from->weights ? from->weights[from->rows[i]] : 1;
            at++;
        }
        kept = at;
    }
    normalise(weight, kept);
    return kept;
}

gram_status gram_machine_target_calibrate(gram_context *g, const gram_column *column,
                                          const int64_t *rows, const double *weights, int64_t count,
                                          const double *f, struct machine_target *target)
{
    const struct left_out from = {column, rows, weights, count, f};
    int64_t classes = target->classes, outputs = gram_machine_target_outputs(target);
    size_t numbers = (size_t)(count * (outputs + 2) + 2 * classes);
    double *own = malloc(numbers * sizeof *own + 1), at[2] = {1, 0}, uniform = 1;
    int64_t *class = malloc((size_t)count * sizeof *class + 1);
    double *calibration = malloc((size_t)(classes + CALIBRATION_NUMBERS) * sizeof *calibration);
    double *prior = own ? own + count * (outputs + 2) : NULL;
    double *weight = own ? own + count * outputs : NULL;
    struct calibration k = {
        .target = target, .f = own, .class = class, .weight = weight, .prior = prior};

    if (!own || !class || !calibration) {
        free(own);
        free(class);
        free(calibration);
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the outputs of %lld rows",
                         (long long)count);
    }
    k.count = known(target, &from, class, weight, own);
    priors(target, &k, prior);
    if (k.count > 0)
        uniform = mix(&k, at, prior + classes, weight + count);
    calibration[0] = at[0];
    for (int64_t j = 0; j < classes; j++)
        calibration[1 + j] = at[1] * k.prior[j];
    calibration[1 + classes] = uniform;
    free(own);
    free(class);
    if (k.count > 0 && at[0] > 0) {
        free(target->calibration);
        target->calibration = calibration;
    } else {
        free(calibration); /* outputs that say nothing of the classes are left as they are */
    }
    return GRAM_OK;
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* Sums that every metric is made of; those of a regression in units of unit, a power of two about
 * as large as the largest target, so that no square overflows or vanishes. */
struct tally {
    int64_t rows, right;
    double unit, mean, absolute, squared, fourth, spread, log_loss;
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
    t->fourth += e * e * e * e;
    t->spread += d * d;
}

/* The standard error of a root of a mean of squares, from that of the mean. */
static double spread_of_rmse(const struct tally *t)
{
    double n = (double)t->rows, mean = t->squared / n;
    double variance = fmax(0, t->fourth / n - mean * mean) / (n - 1);

    return mean > 0 ? sqrt(variance / mean) / 2 : n > 1 ? 0 : NAN;
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
            count_class(target, gram_machine_target_class(target, column, row), f + i, count, p,
                        &t);
        else
            count_number(column->numbers[row], gram_machine_target_decode(target, f + i, count),
                         &t);
    }
    free(p);
    *out = (gram_machine_score){
        .size = sizeof *out,
        .rows = t.rows,
        .score = NAN,
        .mae = NAN,
        .r2 = NAN,
        .log_loss = NAN,
        .spread = NAN,
    };
    out->metric = target->classes ? "accuracy" : "rmse";
    if (t.rows > 0 && target->classes) {
        out->score = (double)t.right / (double)t.rows;
        out->log_loss = t.log_loss / (double)t.rows;
        out->spread = sqrt(out->score * (1 - out->score) / (double)(t.rows - 1));
    } else if (t.rows > 0) {
        out->score = sqrt(t.squared / (double)t.rows) * t.unit;
        out->mae = t.absolute / (double)t.rows * t.unit;
        out->r2 = t.spread > 0 ? 1 - t.squared / t.spread : NAN;
        out->spread = spread_of_rmse(&t) * t.unit;
    }
    return GRAM_OK;
}

gram_status gram_machine_target_check(gram_context *g, const struct machine_target *target,
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
    const struct machine_target *one;
    gram_machine_score result;
    int64_t index;
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
    TRY(gram_machine_target_find(g, &machine->target, target, &index));
    one = gram_machine_target_part(&machine->target, index);
    status = gram_machine_table_outputs(g, machine, table, &f);
    if (status == GRAM_OK)
        status = gram_machine_score_outputs(g, one, target, NULL, table->rows,
                                            f + index * table->rows, &result);
    free(f);
    if (status == GRAM_OK) {
        result.size = size;
        memcpy(score, &result, size);
    }
    return gram_call_ended(g, status);
}
