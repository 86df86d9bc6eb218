/*
 * eigh_time.c - which driver was measured to be fastest for an eigenproblem, and how long it takes
 *
 * A class of problems is a kind of machine, a dtype, what is asked for, and sizes: n by its three
 * leading bits, the numbers of items and of pairs to the next power of two.  What is kept for it is
 * the driver and the time of an operation of the work below, so that other sizes of the class can
 * be told.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/tuned.h"
#include "eigh.h"
#include <math.h>

enum {
    DRIVER_BITS = 4
};

static const uint64_t eigenproblem = 1ull << 63; /* classes of gram_tune stay below */
static const double least_time = 1e-15;          /* seconds an operation, the unit that is kept */

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

bool gram_eigh_time_keep(const gram_context *g, const struct gram_eigh_op *op,
                         gram_eigh_driver driver, double seconds)
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
