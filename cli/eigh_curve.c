/*
 * eigh_curve.c - `gram bench eigh --curve`: time and workspace of every driver over n, as CSV
 *
 * The calls compute all pairs of random symmetric matrices.  The table has the least wall time of
 * several calls, each measured until the device is done, and the result of gram_eigh_workspace.  A
 * driver stops when a call takes longer than limit_s.  On a GPU, rows without a time follow, which
 * have the workspace of one matrix on each of 1, 2, 4, ...  GPUs, as plans state it.  A plan reads
 * no data, so these matrices are described at addresses without memory. gram.plot.eigh_overview
 * draws the table.
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_curve.h"
#include "eigh_sample.h"
#include "output.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_POINTS = 64,
    DRIVERS = GRAM_EIGH_DRIVER_BATCHED + 1,
    LEAST_CALLS = 3,
    MOST_CALLS = 10000,
    LEAST_PLANNED = 1024,
    MOST_PLANNED = 1 << 17,
    PLANNED_POINTS = 32,
    MOST_DEVICES = 16,
    PLANNED_TRACKS = 5 /* 1, 2, 4, 8, 16 GPUs */
};

static const double limit_s = 2;

/* The points of a driver. */
struct track {
    int count;
    int stopped;
    double n[MOST_POINTS], seconds[MOST_POINTS], bytes[MOST_POINTS];
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The orders 4, 6, 8, 12, 16, ...: two per octave. */
static int64_t next_order(int64_t n)
{
    return (n & (n - 1)) == 0 ? n / 2 * 3 : n / 3 * 4;
}

/* The least seconds of a call after one for warming up; if that one takes more than limit_s, its
 * own. */
static gram_status least_seconds(gram_context *g, struct eigh_sample *s, gram_eigh_options *options,
                                 double at_least, double *least)
{
    double begin = now();
    gram_status status = GRAM_OK;

    *least = INFINITY;
    for (int calls = 0; calls < MOST_CALLS; calls++) {
        double start = now(), took;
        status = gram_eigh(g, &s->a.t, options, &s->values.t, &s->vectors.t, NULL);
        if (status == GRAM_OK)
            status = gram_context_synchronize(g);
        if (status != GRAM_OK)
            return status;
        took = now() - start;
        if (calls > 0 || took > limit_s)
            *least = fmin(*least, took);
        if (took > limit_s || (calls >= LEAST_CALLS && now() - begin >= at_least))
            break;
    }
    return GRAM_OK;
}

/* Adds a point of a driver, if it can be used for the matrices. */
static enum exit_status add_point(gram_context *g, const struct eigh_curve *c,
                                  struct eigh_sample *s, int64_t n, int driver, struct track *to,
                                  struct failure *why)
{
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    gram_workspace need = {0};
    double seconds;
    gram_status status;

    options.driver = (gram_eigh_driver)driver;
    status = gram_eigh_workspace(g, &s->a.t, &options, &s->values.t, &s->vectors.t, &need);
    if (status == GRAM_OK)
        status = least_seconds(g, s, &options, c->seconds, &seconds);
    if (status == GRAM_UNSUPPORTED)
        return CLI_OK;
    if (status != GRAM_OK)
        return fail_gram(why, status, g);
    to->n[to->count] = (double)n;
    to->seconds[to->count] = seconds;
    to->bytes[to->count++] = (double)need.host_bytes + (double)need.device_bytes;
    to->stopped = seconds > limit_s;
    return CLI_OK;
}

static enum exit_status measure(gram_context *g, const struct eigh_curve *c, struct track *tracks,
                                struct failure *why)
{
    enum exit_status status = CLI_OK;
    int points = 0;

    for (int64_t n = 4; n <= c->most && points < MOST_POINTS && status == CLI_OK; points++) {
        const struct eigh_shape shape = {c->dtype, c->items, n, 0};
        struct eigh_sample sample;
        int left = 0;
        status = eigh_sample_make(g, &shape, n, 1, &sample, why);
        for (int d = GRAM_EIGH_DRIVER_JACOBI; d < DRIVERS && status == CLI_OK; d++) {
            if (d == GRAM_EIGH_DRIVER_KRYLOV || tracks[d].stopped) /* it is for few pairs */
                continue;
            status = add_point(g, c, &sample, n, d, &tracks[d], why);
            left += !tracks[d].stopped;
        }
        eigh_sample_free(g, &sample);
        if (!left)
            break;
        n = next_order(n);
    }
    return status;
}

/* ---- Plans of one matrix on several GPUs ---------------------------------------------------- */

/* The bytes of each of a number of GPUs over n. */
struct planned_track {
    int devices, count;
    double n[PLANNED_POINTS], bytes[PLANNED_POINTS];
};

/* The which'th of three tensors, apart from the others. */
static gram_tensor described(int which, int64_t rows, int64_t cols, gram_dtype dtype,
                             gram_device device)
{
    const uintptr_t address = ((uintptr_t)1 << 60) + ((uintptr_t)which << 56);
    gram_tensor t = gram_matrix(NULL, rows, cols, dtype);

    memcpy(&t.data, &address, sizeof t.data);
    t.device = device;
    return t;
}

/* Bytes of each device; 0 where no plan can be made. */
static size_t planned_bytes(const gram_group *group, int64_t n, gram_dtype dtype)
{
    gram_context *g = group->contexts[0];
    const gram_device device = gram_context_device(g);
    gram_tensor a = described(1, n, n, dtype, device), v = described(2, n, n, dtype, device);
    gram_tensor w = described(3, 1, n, dtype, device);
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    gram_plan_description d = {.size = sizeof d};
    gram_plan *plan;
    gram_status status;

    w.ndim = 1, w.shape[0] = n, w.stride[0] = 1;
    options.driver = GRAM_EIGH_DRIVER_DIVIDE;
    status = group->count == 1 ? gram_eigh_plan(g, &a, &options, &w, &v, NULL, &plan)
                               : gram_eigh_multi_plan(group, &a, &options, &w, &v, NULL, &plan);
    if (status != GRAM_OK)
        return 0;
    status = gram_plan_describe(plan, &d);
    gram_plan_destroy(plan);
    return status == GRAM_OK ? d.device_bytes[0] : 0;
}

static void fill(const gram_group *group, gram_dtype dtype, struct planned_track *to)
{
    *to = (struct planned_track){.devices = (int)group->count};
    for (int64_t n = LEAST_PLANNED; n <= MOST_PLANNED && to->count < PLANNED_POINTS; n *= 2) {
        size_t bytes = planned_bytes(group, n, dtype);
        if (bytes == 0)
            break;
        to->n[to->count] = (double)n;
        to->bytes[to->count++] = (double)bytes;
    }
}

/* Writes a track for every power of two up to the number of GPUs; on the CPU there is none.
 * Nothing is computed.  A track ends when a plan cannot be made. */
static enum exit_status plan(gram_context *g, gram_dtype dtype,
                             struct planned_track tracks[PLANNED_TRACKS], int *count,
                             struct failure *why)
{
    gram_info info = {.size = sizeof info};
    gram_context *contexts[MOST_DEVICES] = {NULL};
    gram_group group = GRAM_GROUP_INIT;
    gram_status status = gram_context_info(g, &info);
    int made = 0;

    *count = 0;
    if (gram_context_device(g).type == GRAM_CPU)
        return CLI_OK;
    while (status == GRAM_OK && made < info.cuda_devices && made < MOST_DEVICES) {
        gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
        options.device = (gram_device){GRAM_CUDA, made};
        status = gram_context_create(&options, &contexts[made]);
        made += status == GRAM_OK;
    }
    group.contexts = contexts;
    for (int devices = 1; status == GRAM_OK && devices <= made; devices *= 2) {
        group.count = devices;
        fill(&group, dtype, &tracks[(*count)++]);
    }
    while (made > 0)
        gram_context_destroy(contexts[--made]);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, NULL);
}

/* ---- The table ------------------------------------------------------------------------------ */

struct table {
    struct track tracks[DRIVERS];
    struct planned_track planned[PLANNED_TRACKS];
    int plans;
};

static void write_table(struct output *out, const struct eigh_curve *c, gram_context *g,
                        const struct table *table)
{
    const char *device = gram_context_device(g).type == GRAM_CPU ? "cpu" : "cuda";
    const char *dtype = c->dtype == GRAM_F64 ? "float64" : "float32";

    output_text(out, "device,dtype,driver,items,n,seconds,workspace_bytes\n");
    for (int d = 0; d < DRIVERS; d++) {
        const struct track *t = &table->tracks[d];
        for (int i = 0; i < t->count; i++)
            output_format(out, "%s,%s,%s,%lld,%.0f,%.6g,%.0f\n", device, dtype,
                          eigh_driver_names[d], (long long)c->items, t->n[i], t->seconds[i],
                          t->bytes[i]);
    }
    for (int d = 0; d < table->plans; d++) {
        const struct planned_track *t = &table->planned[d];
        for (int i = 0; i < t->count; i++)
            output_format(out, "%s x%d,%s,divide,1,%.0f,,%.0f\n", device, t->devices, dtype,
                          t->n[i], t->bytes[i]);
    }
}

enum exit_status eigh_curve(gram_context *g, const struct eigh_curve *c, struct failure *why)
{
    struct table *table = calloc(1, sizeof *table);
    struct output out;
    enum exit_status status;

    if (!table)
        return fail_memory(why, "the measurements");
    status = measure(g, c, table->tracks, why);
    if (status == CLI_OK)
        status = plan(g, c->dtype, table->planned, &table->plans, why);
    if (status == CLI_OK)
        status = output_open(&out, c->path, why);
    if (status == CLI_OK) {
        write_table(&out, c, g, table);
        status = output_close(&out, why);
    }
    free(table);
    return status;
}
