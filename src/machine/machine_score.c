/*
 * machine_score.c - how far predictions are from a target
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
            count_class(target, gram_machine_target_class(target, column, row), f + i, count, p,
                        &t);
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
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "target is not a column of numbers or of labels");
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
