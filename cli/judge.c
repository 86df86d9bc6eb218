/*
 * judge.c - the predictions of a model for rows whose answers are known, and how good they are
 *
 * SPDX-License-Identifier: MIT
 */
#include "judge.h"
#include "interrupt.h"
#include "number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A class of the model, as it is looked for. */
struct known_class {
    const char *name;
    double value; /* if the classes are numbers */
    int64_t index;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct known_class *)a)->name, ((const struct known_class *)b)->name);
}

static int by_value(const void *a, const void *b)
{
    const double x = ((const struct known_class *)a)->value,
                 y = ((const struct known_class *)b)->value;

    return (x > y) - (x < y);
}

/* The index of the class of every row. */
static enum exit_status find_classes(const gram_machine *machine, const gram_column *target,
                                     int64_t rows, int64_t *truth, struct failure *why)
{
    const int64_t count = gram_machine_class_count(machine);
    int (*const order)(const void *, const void *) = target->numbers ? by_value : by_name;
    struct known_class *known = calloc((size_t)count + 1, sizeof *known);

    if (!known)
        return fail_memory(why, "the classes of the model");
    for (int64_t k = 0; k < count; k++) {
        known[k] = (struct known_class){.name = gram_machine_class_name(machine, k), .index = k};
        if (target->numbers)
            number_parse(known[k].name, &known[k].value);
    }
    qsort(known, (size_t)count, sizeof *known, order);
    for (int64_t row = 0; row < rows; row++) {
        const struct known_class key = {.name = target->labels ? target->labels[row] : NULL,
                                        .value = target->numbers ? target->numbers[row] : 0};
        const struct known_class *found;
        truth[row] = CLASS_MISSING;
        if (target->numbers ? isnan(key.value) : !key.name)
            continue;
        found = bsearch(&key, known, (size_t)count, sizeof *known, order);
        truth[row] = found ? found->index : CLASS_UNKNOWN;
    }
    free(known);
    return CLI_OK;
}

/* Predictions, and intervals or sets if the model has them. */
struct predicted {
    const gram_machine *machine;
    int64_t rows, classes;
    double *value; /* rows, or rows by classes probabilities */
    double *ends;  /* rows by 2, or NULL */
    int32_t *place;
};

static gram_tensor tensor_of(void *data, gram_dtype dtype, int64_t rows, int64_t columns)
{
    return (gram_tensor){
        .data = data,
        .dtype = dtype,
        .device = {                 GRAM_CPU,       0},
        .ndim = columns > 0 ? 2 : 1,
        .shape = {                     rows, columns},
        .stride = {columns > 0 ? columns : 1,       1},
    };
}

static enum exit_status allocate(struct predicted *p, struct failure *why)
{
    const int64_t width = p->classes > 0 ? p->classes : 1;
    const int covers = gram_machine_highest_level(p->machine) >= COVERAGE_LEVEL;

    if (p->rows > INT64_MAX / 16 / width)
        return fail_memory(why, "the predictions");
    p->value = malloc((size_t)(p->rows * width + 1) * sizeof *p->value);
    if (covers && p->classes > 0)
        p->place = malloc((size_t)(p->rows * width + 1) * sizeof *p->place);
    else if (covers)
        p->ends = malloc((size_t)(2 * p->rows + 1) * sizeof *p->ends);
    return p->value && (!covers || p->place || p->ends) ? CLI_OK
                                                        : fail_memory(why, "the predictions");
}

/* Makes one call of the library that Ctrl-C can stop. */
static enum exit_status predict(gram_context *g, const gram_table *table, const struct predicted *p,
                                struct failure *why)
{
    gram_tensor value = tensor_of(p->value, GRAM_F64, p->rows, p->classes);
    gram_tensor ends = tensor_of(p->ends, GRAM_F64, p->rows, 2);
    gram_tensor place = tensor_of(p->place, GRAM_I32, p->rows, p->classes);
    gram_status status;

    interrupt_cancels(g);
    if (p->place)
        status = gram_machine_predict_set(g, p->machine, table, COVERAGE_LEVEL, &value, &place);
    else if (p->ends)
        status = gram_machine_predict_interval(g, p->machine, table, COVERAGE_LEVEL, &value, &ends);
    else
        status = p->classes > 0 ? gram_machine_predict_proba(g, p->machine, table, &value)
                                : gram_machine_predict(g, p->machine, table, &value);
    status = interrupt_ends(status);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

static enum exit_status judge_numbers(const gram_column *target, int64_t rows,
                                      struct judgement *out, struct failure *why)
{
    struct number_measures *m = &out->numbers;

    TRY(number_measures_make(target->numbers, out->value, rows, m, why));
    out->score = (gram_machine_score){
        .size = sizeof out->score,
        .metric = "rmse",
        .score = m->rmse,
        .rows = m->rows,
        .mae = m->mae,
        .r2 = m->r2,
        .log_loss = NAN,
    };
    return CLI_OK;
}

/* The loss of a label that is no class of the model is the library's to say. */
static enum exit_status evaluate(gram_context *g, const gram_machine *machine,
                                 const gram_table *table, const gram_column *target,
                                 gram_machine_score *score, struct failure *why)
{
    gram_status status;

    interrupt_cancels(g);
    status = gram_machine_evaluate(g, machine, table, target, score);
    status = interrupt_ends(status);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

static enum exit_status judge_classes(gram_context *g, const gram_machine *machine,
                                      const gram_table *table, const gram_column *target,
                                      struct judgement *out, struct failure *why)
{
    struct class_measures *m = &out->classes;
    enum exit_status status;

    out->truth = malloc((size_t)(table->rows + 1) * sizeof *out->truth);
    if (!out->truth)
        return fail_memory(why, "the classes of the rows");
    status = find_classes(machine, target, table->rows, out->truth, why);
    if (status == CLI_OK)
        status = class_measures_make(out->truth, out->proba, table->rows,
                                     gram_machine_class_count(machine), m, why);
    out->score = (gram_machine_score){
        .size = sizeof out->score,
        .metric = "accuracy",
        .score = m->accuracy,
        .rows = m->rows,
        .mae = NAN,
        .r2 = NAN,
        .log_loss = m->log_loss,
    };
    if (status == CLI_OK && m->unknown > 0)
        status = evaluate(g, machine, table, target, &out->score, why);
    return status;
}

enum exit_status judge(gram_context *g, const gram_machine *machine, const gram_table *table,
                       const gram_column *target, struct judgement *out, struct failure *why)
{
    struct predicted p = {
        .machine = machine, .rows = table->rows, .classes = gram_machine_class_count(machine)};
    enum exit_status status;

    *out = (struct judgement){
        .score = {.size = sizeof out->score},
          .coverage = { NAN, NAN, NAN}
    };
    status = allocate(&p, why);
    *(p.classes > 0 ? &out->proba : &out->value) = p.value;
    if (status == CLI_OK)
        status = predict(g, table, &p, why);
    if (status == CLI_OK)
        status = p.classes > 0 ? judge_classes(g, machine, table, target, out, why)
                               : judge_numbers(target, table->rows, out, why);
    if (status == CLI_OK && p.place)
        out->coverage = set_coverage(out->truth, p.place, p.rows, p.classes, COVERAGE_LEVEL);
    else if (status == CLI_OK && p.ends)
        out->coverage = interval_coverage(target->numbers, p.ends, p.rows, COVERAGE_LEVEL);
    free(p.place);
    free(p.ends);
    if (status != CLI_OK)
        judgement_free(out);
    return status;
}

void judgement_free(struct judgement *j)
{
    class_measures_free(&j->classes);
    free(j->truth);
    free(j->value);
    free(j->proba);
    j->truth = NULL;
    j->value = j->proba = NULL;
}
