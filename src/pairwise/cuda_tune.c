/*
 * cuda_tune.c - gram_tune: tiles of gram_cdist and gram_kernel measured on the device
 *
 * Problems of one class (chip, term, loads, and sizes up to the next power of two) share a tile.
 * gram_tune times every tile that the term can have, and the file of the cache keeps the fastest.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/database.h"
#include "cuda_cdist.h"

enum {
    ROUNDS = 3, /* of a measurement; the least time counts */
    MOST_CALLS = 1 << 14
};

static const double least_ms = 5, /* a measured round */
    least_gain = 0.98;            /* of the table's time: less is noise */

/* ---- Classes of problems -------------------------------------------------------------------- */

/* The key under which the file of the cache has what was measured: small numbers side by side. */
static uint64_t class_of(int arch, const struct gram_cdist_op *op,
                         const struct cuda_cdist_options *o)
{
    /* f32 and f64 are 0, as in all files that were ever written. */
    const int halves = o->stored == DEVICE_F16 ? 1 : o->stored == DEVICE_BF16 ? 2 : 0;
    const int field[][2] = {
        {                        arch, 10},
        {                o->is_double,  1},
        {                      halves,  2},
        {                     o->step,  4},
        {                    o->whole,  4},
        {                 o->fraction,  1},
        {                   o->x_load,  2},
        {                   o->y_load,  2},
        {               op->symmetric,  1},
        {   gram_octave(op->out.rows),  6},
        {   gram_octave(op->out.cols),  6},
        {     gram_octave(op->x.cols),  6},
        {gram_octave(op->batch.count),  6},
    };
    uint64_t number = 0;

    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        number = number << field[i][1] | (uint64_t)field[i][0];
    return number;
}

/* A context without any measured tile does not even look for one. */
int cuda_tuned_tile(const gram_context *g, const struct gram_cdist_op *op,
                    const struct cuda_cdist_options *o)
{
    const struct cuda_device *device = g->device;
    const int most = cuda_cdist_most_tile(o);
    int64_t tile;

    if (!gram_tuned_any(g))
        return 0;
    tile = gram_tuned_get(g, class_of(device->arch, op, o));
    return (tile == 2 || tile == 4 || tile == 8) && tile <= most ? (int)tile : 0;
}

/* ---- Measuring ------------------------------------------------------------------------------ */

/* The time of some calls one after the other, with the wait for the last of them. */
static gram_status time_calls(gram_context *g, gram_status (*run)(gram_context *, const void *),
                              const void *what, int calls, double *ms)
{
    const int64_t start = gram_nanoseconds();

    for (int i = 0; i < calls; i++)
        TRY(run(g, what));
    TRY(g->backend->synchronize(g));
    *ms = gram_milliseconds_since(start);
    return GRAM_OK;
}

/* The calls of a round are doubled until it is long enough to be measured. */
gram_status cuda_tune_time(gram_context *g, gram_status (*run)(gram_context *g, const void *what),
                           const void *what, double *ms)
{
    double total = 0, best = 0;
    int calls = 1;

    TRY(time_calls(g, run, what, 1, &total));
    for (;; calls *= 2) {
        TRY(time_calls(g, run, what, calls, &total));
        if (total >= least_ms || calls >= MOST_CALLS)
            break;
    }
    best = total;
    for (int round = 1; round < ROUNDS; round++) {
        TRY(time_calls(g, run, what, calls, &total));
        best = total < best ? total : best;
    }
    *ms = best / calls;
    return GRAM_OK;
}

struct attempt {
    const struct gram_cdist_op *op;
    int tile;
};

/* A candidate as cuda_tune_time runs it. */
static gram_status run_tile(gram_context *g, const void *attempt)
{
    const struct attempt *a = attempt;

    return cuda_cdist_tiled(g, a->op, a->tile);
}

/* The time of one call with tiles of this size, in milliseconds. */
static gram_status time_tile(gram_context *g, const struct gram_cdist_op *op, int tile, double *ms)
{
    const struct attempt attempt = {op, tile};

    return cuda_tune_time(g, run_tile, &attempt, ms);
}

/* Every tile is measured that the options can have, the table's first.  What is faster by more
 * than noise is kept for problems of the same class. */
gram_status cuda_tune(gram_context *g, const struct gram_cdist_op *op, gram_tuning *result)
{
    const struct cuda_device *device = g->device;
    struct cuda_cdist_plan plan = {0};
    int best;

    cuda_cdist_plan(op, device->processors, &plan);
    if (plan.tiles == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out has no elements: nothing can be measured");
    best = plan.options.tm;
    TRY(time_tile(g, op, best, &result->table_ms));
    result->tile_ms = result->table_ms;
    result->candidates = 1;
    for (int tile = cuda_cdist_most_tile(&plan.options); tile >= 2; tile /= 2) {
        double ms;
        if (tile == plan.options.tm)
            continue;
        TRY(time_tile(g, op, tile, &ms));
        gram_log(g, "tiles of %d: %.4f ms, the table's of %d: %.4f ms", 16 * tile, ms,
                 16 * plan.options.tm, result->table_ms);
        result->candidates++;
        if (ms < result->tile_ms && ms < least_gain * result->table_ms) {
            result->tile_ms = ms;
            best = tile;
        }
    }
    result->tile = 16 * best;
    result->table_tile = 16 * plan.options.tm;
    result->kept = gram_tuned_put(g, class_of(device->arch, op, &plan.options), best);
    return GRAM_OK;
}
