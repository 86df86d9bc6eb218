/*
 * eigh_tune.c - gram_tune_eigh: which driver does an eigenproblem fastest here
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh.h"
#include <math.h>
#include <string.h>

enum {
    ROUNDS = 3, /* of a measurement; the least time counts */
    MOST_CALLS = 1 << 14
};

static const double least_ms = 20,   /* a measured round */
    long_ms = 1000,                  /* a call that is measured once */
    hopeless = 8, least_gain = 0.98; /* of the table's time: less is noise */

static gram_status time_calls(gram_context *g, const struct gram_eigh_op *op, int calls, double *ms)
{
    const int64_t start = gram_nanoseconds();

    for (int i = 0; i < calls; i++)
        TRY(g->backend->eigh(g, op));
    if (g->backend->synchronize)
        TRY(g->backend->synchronize(g));
    *ms = gram_milliseconds_since(start);
    return GRAM_OK;
}

/* Milliseconds a call.  The first compiles, opens libraries and warms up; where it is far from the
 * best so far, it is enough. */
static gram_status time_driver(gram_context *g, const struct gram_eigh_op *op, double best_ms,
                               double *ms)
{
    double total = 0, least;
    int calls = 1;

    TRY(time_calls(g, op, 1, ms));
    if (*ms > long_ms && *ms > hopeless * best_ms)
        return GRAM_OK;
    for (;; calls *= 2) {
        TRY(time_calls(g, op, calls, &total));
        if (total >= least_ms || calls >= MOST_CALLS)
            break;
    }
    least = total;
    for (int round = 1; round < ROUNDS && total < long_ms; round++) {
        TRY(time_calls(g, op, calls, &total));
        least = fmin(least, total);
    }
    *ms = least / calls;
    return GRAM_OK;
}

/* NaN where driver (AUTO: the table's choice, which becomes *driver) does not do it or gives up. */
static gram_status try_driver(gram_context *g, const struct gram_eigh_op *op, double best_ms,
                              gram_eigh_driver *driver, double *ms)
{
    gram_eigh_report report = {0};
    struct gram_eigh_op tried = *op;
    gram_status status;
    size_t bytes;

    *ms = NAN;
    tried.tuned = *driver;
    tried.report = &report;
    status = g->backend->eigh_workspace(g, &tried, &bytes); /* says which it would be */
    if (status == GRAM_OK && *driver != GRAM_EIGH_DRIVER_AUTO && report.driver != *driver)
        return GRAM_OK;
    if (status == GRAM_OK)
        status = time_driver(g, &tried, best_ms, ms);
    if (status != GRAM_OK || report.dense > 0)
        *ms = NAN;
    if (*driver == GRAM_EIGH_DRIVER_AUTO)
        *driver = report.driver;
    else if (status == GRAM_UNSUPPORTED) /* a library is missing, say */
        return GRAM_OK;
    return status;
}

static gram_status measure(gram_context *g, const struct gram_eigh_op *op, gram_eigh_tuning *t)
{
    double best = INFINITY, ms;

    for (size_t i = 0; i < sizeof t->driver_seconds / sizeof *t->driver_seconds; i++)
        t->driver_seconds[i] = NAN;
    t->table_driver = GRAM_EIGH_DRIVER_AUTO;
    TRY(try_driver(g, op, best, &t->table_driver, &ms));
    t->driver = t->table_driver;
    t->candidates = 1;
    t->driver_seconds[t->driver] = ms * 1e-3;
    best = isnan(ms) ? INFINITY : ms; /* NaN: block Lanczos gave up */
    for (int i = 1; i <= GRAM_EIGH_DRIVER_BATCHED; i++) {
        gram_eigh_driver driver = (gram_eigh_driver)i;
        if (driver == t->table_driver)
            continue;
        TRY(try_driver(g, op, best, &driver, &ms));
        if (isnan(ms))
            continue;
        gram_log(g, "driver %d: %.4f ms, the best so far %.4f ms", i, ms, best);
        t->candidates++;
        t->driver_seconds[i] = ms * 1e-3;
        if (ms < best && !(ms >= least_gain * t->driver_seconds[t->table_driver] * 1e3)) {
            best = ms;
            t->driver = driver;
        }
    }
    if (isinf(best))
        return gram_fail(g, GRAM_NUMERICAL, "no driver does it");
    t->kept = gram_eigh_time_keep(g, op, t->driver, best * 1e-3);
    return GRAM_OK;
}

gram_status gram_tune_eigh(gram_context *g, const gram_tensor *a, const gram_eigh_options *options,
                           gram_tensor *values, gram_tensor *vectors, gram_tensor *info,
                           gram_eigh_tuning *result)
{
    const struct gram_eigh_call call = {a, options, values, vectors, info};
    const size_t size = result ? result->size : 0;
    gram_eigh_tuning found = {.size = size};
    struct gram_eigh_op op;
    gram_status status;

    TRY(gram_begin(g, __func__));
    if (size < sizeof size || size > sizeof found)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "result.size is %zu, expected at most %zu", size,
                         sizeof found);
    TRY(gram_eigh_describe(g, &call, &op));
    if (op.driver != GRAM_EIGH_DRIVER_AUTO)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.driver is %d, expected GRAM_EIGH_DRIVER_AUTO", (int)op.driver);
    if (op.in_place)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "vectors is a, which every call needs anew");
    if (op.batch.count == 0 || op.a.rows == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "a has no elements: nothing can be measured");
    op.background = false;
    status = measure(g, &op, &found);
    if (status == GRAM_OK)
        memcpy(result, &found, size);
    return gram_call_ended(g, status);
}
