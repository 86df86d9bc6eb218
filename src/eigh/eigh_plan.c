/*
 * eigh_plan.c - calls of gram_eigh foreseen: plans, the time of drivers, and the fastest one here
 *
 * A class of problems is a kind of machine, a dtype, what is asked for, and sizes: n by its three
 * leading bits, the numbers of items and of pairs to the next power of two.  What gram_tune_eigh
 * keeps for it is the fastest driver and the time of an operation of the work below, so that other
 * sizes of the class can be told.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/database.h"
#include "core/scratch.h"
#include "eigh.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    DRIVER_BITS = 4,
    ROUNDS = 3, /* of a measurement; the least time counts */
    MOST_CALLS = 1 << 14
};

static const uint64_t eigenproblem = 1ull << 63; /* classes of gram_tune stay below */
static const double least_time = 1e-15;          /* seconds an operation, the unit that is kept */

static const double least_ms = 20,   /* a measured round */
    long_ms = 1000,                  /* a call that is measured once */
    hopeless = 8, least_gain = 0.98; /* of the table's time: less is noise */

/* ---- Classes --------------------------------------------------------------------------------- */

/* The place of the leading bit and the two below it. */
static uint64_t leading_bits(int64_t n)
{
    uint64_t bits = 0;

    while (n >> bits > 7)
        bits++;
    return bits << 3 | (uint64_t)(n >> bits);
}

static uint64_t class_of(const gram_context *g, const struct gram_eigh_op *op)
{
    int64_t n = op->a.rows, last = op->first + op->count;
    uint64_t class = (uint64_t)g->options.device.type << 16 | g->backend->machine(g);

    class = class << 1 | (op->a.dtype == GRAM_F64);
    class = class << 1 | op->has_vectors;
    class = class << 1 | op->by_value;
    class = class << 1 | (op->first == 0 || last == n);
    class = class << 9 | leading_bits(n);
    class = class << 6 | (uint64_t)gram_octave(op->batch.count);
    return eigenproblem | class << 6 | (uint64_t)(op->count == n ? 63 : gram_octave(op->count));
}

/* Operations of the textbook: to tridiagonal form, and back for the vectors. */
static double work(const struct gram_eigh_op *op)
{
    double n = (double)op->a.rows, k = (double)op->count;

    return (double)op->batch.count * (n * n * n * 4 / 3 + (op->has_vectors ? 2 * n * n * k : 0));
}

/* Keeps what was measured; false if not for later processes. */
static bool keep_time(const gram_context *g, const struct gram_eigh_op *op, gram_eigh_driver driver,
                      double seconds)
{
    double unit = seconds / work(op) / least_time;
    int64_t kept = unit < 1 ? 1 : unit < 0x1p58 ? (int64_t)unit : (int64_t)1 << 58;

    return gram_tuned_put(g, class_of(g, op), kept << DRIVER_BITS | (int64_t)driver);
}

gram_eigh_driver gram_eigh_time_best(const gram_context *g, const struct gram_eigh_op *op)
{
    if (op->batch.count == 0 || op->a.rows == 0 || !gram_tuned_any(g))
        return GRAM_EIGH_DRIVER_AUTO;
    return (gram_eigh_driver)(gram_tuned_get(g, class_of(g, op)) & ((1 << DRIVER_BITS) - 1));
}

/* ---- Estimates ------------------------------------------------------------------------------- */

/* Milliseconds at an order: of one item, and of each further one of many (on a CPU with one thread,
 * which threads share).  Of all pairs with vectors in f32.  CUDA: an H200, the CSV files of
 * bench/results/2026-11-21-h200-eigh.md; CPU: a Zen 4 core with AVX-512. */
struct point {
    gram_device_type device;
    gram_eigh_driver driver;
    double n, alone, further;
};

static const struct point points[] = {
    { GRAM_CPU, GRAM_EIGH_DRIVER_CLOSED_FORM,     3, 0.0006, 0.00008},
    { GRAM_CPU,      GRAM_EIGH_DRIVER_JACOBI,     4, 0.0011, 0.00012},
    { GRAM_CPU,      GRAM_EIGH_DRIVER_JACOBI,     8, 0.0056, 0.00043},
    { GRAM_CPU,      GRAM_EIGH_DRIVER_JACOBI,    16,  0.036,  0.0028},
    { GRAM_CPU,      GRAM_EIGH_DRIVER_JACOBI,    32,  0.295,   0.024},
    { GRAM_CPU,      GRAM_EIGH_DRIVER_DIVIDE,     8, 0.0047,  0.0047},
    { GRAM_CPU,      GRAM_EIGH_DRIVER_DIVIDE,    32,  0.063,   0.063},
    { GRAM_CPU,      GRAM_EIGH_DRIVER_DIVIDE,   128,   0.67,    0.67},
    { GRAM_CPU,      GRAM_EIGH_DRIVER_DIVIDE,   512,   18.1,    18.1},
    { GRAM_CPU,      GRAM_EIGH_DRIVER_DIVIDE,  1024,    125,     125},
    { GRAM_CPU,      GRAM_EIGH_DRIVER_DIVIDE,  2048,    818,     818},
    { GRAM_CPU,   GRAM_EIGH_DRIVER_BISECTION,     8, 0.0095,  0.0095},
    { GRAM_CPU,   GRAM_EIGH_DRIVER_BISECTION,    32,   0.16,    0.16},
    { GRAM_CPU,   GRAM_EIGH_DRIVER_BISECTION,   128,    3.0,     3.0},
    { GRAM_CPU,   GRAM_EIGH_DRIVER_BISECTION,   512,   55.9,    55.9},
    { GRAM_CPU,   GRAM_EIGH_DRIVER_BISECTION,  1024,    278,     278},
    {GRAM_CUDA, GRAM_EIGH_DRIVER_CLOSED_FORM,     3,   0.01,    7e-8},
    {GRAM_CUDA,      GRAM_EIGH_DRIVER_JACOBI,     8,  0.025,    2e-6},
    {GRAM_CUDA,      GRAM_EIGH_DRIVER_JACOBI,    16,  0.058,  1.8e-5},
    {GRAM_CUDA,      GRAM_EIGH_DRIVER_JACOBI,    32,  0.156,  1.4e-4},
    {GRAM_CUDA,      GRAM_EIGH_DRIVER_DIVIDE,     8,  0.087,   0.083},
    {GRAM_CUDA,      GRAM_EIGH_DRIVER_DIVIDE,    32,  0.197,    0.19},
    {GRAM_CUDA,      GRAM_EIGH_DRIVER_DIVIDE,   128,   1.34,    1.33},
    {GRAM_CUDA,      GRAM_EIGH_DRIVER_DIVIDE,   512,    4.6,     4.6},
    {GRAM_CUDA,      GRAM_EIGH_DRIVER_DIVIDE,  1024,   10.2,    10.2},
    {GRAM_CUDA,      GRAM_EIGH_DRIVER_DIVIDE,  2048,   24.2,    24.2},
    {GRAM_CUDA,      GRAM_EIGH_DRIVER_DIVIDE,  4096,   88.2,    88.2},
    {GRAM_CUDA,      GRAM_EIGH_DRIVER_DIVIDE, 10000,    708,     708},
    {GRAM_CUDA,     GRAM_EIGH_DRIVER_BATCHED,     8,  0.083,  0.0001},
    {GRAM_CUDA,     GRAM_EIGH_DRIVER_BATCHED,    32,  0.186,  0.0004},
    {GRAM_CUDA,     GRAM_EIGH_DRIVER_BATCHED,   128,   1.33,   0.004},
    {GRAM_CUDA,     GRAM_EIGH_DRIVER_BATCHED,   256,   1.93,   0.027},
    {GRAM_CUDA,     GRAM_EIGH_DRIVER_BATCHED,   512,    4.6,    0.42},
    {GRAM_CUDA,     GRAM_EIGH_DRIVER_BATCHED,  1024,   10.1,     7.4},
    {GRAM_CUDA,     GRAM_EIGH_DRIVER_BATCHED,  2048,   24.1,      50},
    {GRAM_CUDA,     GRAM_EIGH_DRIVER_BATCHED,  4096,   88.3,     400},
};

/* Of values that grow like a power between two points, and like n^3 beyond the last. */
static double between(double n, double n0, double y0, double n1, double y1)
{
    return y0 * pow(n / n0, log(y1 / y0) / log(n1 / n0));
}

static double estimate(const gram_context *g, const struct gram_eigh_op *op,
                       gram_eigh_driver driver)
{
    const struct point *low = NULL, *high = NULL;
    double n = (double)op->a.rows, threads = 1, alone, further;

    if (g->options.device.type == GRAM_CUDA && driver == GRAM_EIGH_DRIVER_BISECTION)
        driver = GRAM_EIGH_DRIVER_DIVIDE; /* Xsyevdx takes as long, whatever the range */
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        const struct point *at = &points[i];
        if (at->device != g->options.device.type || at->driver != driver)
            continue;
        if (!low || at->n <= n)
            low = at; /* nothing takes less than the smallest */
        if (!high && at->n > n)
            high = at;
    }
    if (!low)
        return NAN;
    alone = low->alone, further = low->further;
    if (n > low->n) {
        alone = high ? between(n, low->n, alone, high->n, high->alone) : alone * pow(n / low->n, 3);
        further = high ? between(n, low->n, further, high->n, high->further)
                       : further * pow(n / low->n, 3);
    }
    if (low->device == GRAM_CPU)
        threads = g->threads;
    return 1e-3 * (alone + (double)(op->batch.count - 1) * further / threads);
}

gram_time_source gram_eigh_time(const gram_context *g, const struct gram_eigh_op *op,
                                gram_eigh_driver driver, double *seconds)
{
    int64_t kept;

    *seconds = 0;
    if (op->batch.count == 0 || op->a.rows == 0)
        return GRAM_TIME_ESTIMATED;
    kept = gram_tuned_get(g, class_of(g, op));
    if (kept > 0 && (gram_eigh_driver)(kept & ((1 << DRIVER_BITS) - 1)) == driver) {
        *seconds = (double)(kept >> DRIVER_BITS) * least_time * work(op);
        return GRAM_TIME_MEASURED;
    }
    *seconds = estimate(g, op, driver);
    return isnan(*seconds) ? GRAM_TIME_UNKNOWN : GRAM_TIME_ESTIMATED;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static const char *const drivers[] = {
    [GRAM_EIGH_DRIVER_AUTO] = "auto",
    [GRAM_EIGH_DRIVER_CLOSED_FORM] = "closed form",
    [GRAM_EIGH_DRIVER_JACOBI] = "Jacobi",
    [GRAM_EIGH_DRIVER_DIVIDE] = "divide and conquer",
    [GRAM_EIGH_DRIVER_BISECTION] = "a range of pairs",
    [GRAM_EIGH_DRIVER_KRYLOV] = "block Lanczos",
    [GRAM_EIGH_DRIVER_BATCHED] = "batched divide and conquer",
};

/* The drivers of a device that wait inside are cuSOLVER's for one matrix. */
static bool only_enqueues(const gram_context *g, gram_eigh_driver driver)
{
    return g->options.device.type == GRAM_CUDA &&
           (driver == GRAM_EIGH_DRIVER_CLOSED_FORM || driver == GRAM_EIGH_DRIVER_JACOBI ||
            driver == GRAM_EIGH_DRIVER_BATCHED);
}

static void put_in_words(const struct gram_eigh_planned *plan, gram_plan_description *d)
{
    static const char *const sources[] = {
        [GRAM_TIME_UNKNOWN] = "unknown",
        [GRAM_TIME_MEASURED] = "measured",
        [GRAM_TIME_ESTIMATED] = "estimated",
    };
    long long items = 1, n = plan->a.shape[plan->a.ndim - 1];

    for (int i = 0; i < plan->a.ndim - 2; i++)
        items *= plan->a.shape[i];
    snprintf(
        d->text, sizeof d->text,
        "%s of %lld x %lld x %lld %s on %s, %lld %s per item; scratch: %zu bytes of the device, "
        "%zu of the host; %s; time: %.3g ms, %s",
        drivers[d->driver], items, n, n, gram_dtype_name(plan->a.dtype),
        plan->plan.g->backend->name, (long long)plan->values.shape[plan->values.ndim - 1],
        plan->has_vectors ? "pairs" : "values", d->need.device_bytes, d->need.host_bytes,
        d->only_enqueues ? "only enqueues" : "keeps the calling thread", d->seconds * 1e3,
        sources[d->time_source]);
}

static gram_status execute(gram_plan *plan)
{
    struct gram_eigh_planned *p = (struct gram_eigh_planned *)plan;
    gram_tensor *vectors = p->has_vectors ? &p->vectors : NULL;
    gram_tensor *info = p->has_info ? &p->info : NULL;

    if (p->group.count)
        return gram_eigh_multi(&p->group, &p->a, &p->options, &p->values, vectors, info);
    return gram_eigh(plan->g, &p->a, &p->options, &p->values, vectors, info);
}

gram_status gram_eigh_keep(gram_context *g, const struct gram_eigh_call *call,
                           struct gram_eigh_planned **made)
{
    struct gram_eigh_planned *p;
    gram_plan *plan;

    TRY(gram_plan_allocate(g, sizeof *p, &plan));
    plan->execute = execute;
    p = *made = (struct gram_eigh_planned *)plan;
    p->options = (gram_eigh_options)GRAM_EIGH_OPTIONS_INIT;
    if (call->options)
        memcpy(&p->options, call->options, call->options->size);
    p->options.size = sizeof p->options;
    p->a = *call->a;
    p->values = *call->values;
    p->has_vectors = call->vectors != NULL;
    if (call->vectors)
        p->vectors = *call->vectors;
    p->has_info = call->info != NULL;
    if (call->info)
        p->info = *call->info;
    if (p->options.found) {
        p->found = *p->options.found;
        p->options.found = &p->found;
    }
    return GRAM_OK;
}

gram_status gram_eigh_plan(gram_context *g, const gram_tensor *a, const gram_eigh_options *options,
                           gram_tensor *values, gram_tensor *vectors, gram_tensor *info,
                           gram_plan **plan)
{
    const struct gram_eigh_call call = {a, options, values, vectors, info};
    gram_plan_description d = {.size = sizeof d};
    struct gram_eigh_planned *made;

    TRY(gram_begin(g, __func__));
    if (!plan)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "plan is NULL");
    *plan = NULL;
    TRY(gram_eigh_query(g, &call, &d));
    TRY(gram_eigh_keep(g, &call, &made));
    if (d.driver != GRAM_EIGH_DRIVER_KRYLOV) /* which AUTO alone replaces where it gives up */
        made->options.driver = d.driver;
    d.only_enqueues = only_enqueues(g, d.driver);
    d.devices = 1;
    d.device_bytes[0] = d.need.device_bytes;
    put_in_words(made, &d);
    made->plan.description = d;
    *plan = &made->plan;
    return GRAM_OK;
}

/* ---- Tuning ---------------------------------------------------------------------------------- */

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
    status = gram_measure(g, &bytes, g->backend->eigh(g, &tried)); /* says which it would be */
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
        return gram_fail(g, GRAM_NUMERICAL, "no driver can compute this");
    t->kept = keep_time(g, op, t->driver, best * 1e-3);
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
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "vectors is a itself, which every measured call would overwrite");
    if (op.batch.count == 0 || op.a.rows == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "a has no elements: nothing can be measured");
    op.background = false;
    status = measure(g, &op, &found);
    if (status == GRAM_OK)
        memcpy(result, &found, size);
    return gram_call_ended(g, status);
}
