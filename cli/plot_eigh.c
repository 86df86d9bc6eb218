/*
 * plot_eigh.c - `gram bench eigh --plot`: time and workspace of every driver over n
 *
 * All pairs with vectors of random symmetric matrices: the least wall time of some calls, each
 * until the device is done, and what gram_eigh_workspace says.  A driver stops where a call takes
 * longer than limit_s.
 *
 * SPDX-License-Identifier: MIT
 */
#include "plot_eigh.h"
#include "eigh_sample.h"
#include "line_chart.h"
#include "plot_eigh_workspace.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_POINTS = 64,
    DRIVERS = GRAM_EIGH_DRIVER_BATCHED + 1,
    LEAST_CALLS = 3,
    MOST_CALLS = 10000
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

/* 4, 6, 8, 12, 16, ...: two an octave. */
static int64_t next_order(int64_t n)
{
    return (n & (n - 1)) == 0 ? n / 2 * 3 : n / 3 * 4;
}

/* The least seconds of a call after one that warms up; more than limit_s: of that one. */
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

/* One more point of a driver, unless it does not take the matrices. */
static enum exit_status add_point(gram_context *g, const struct plot_eigh *p, struct eigh_sample *s,
                                  int64_t n, int driver, struct track *to, struct failure *why)
{
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    gram_workspace need = {0};
    double seconds;
    gram_status status;

    options.driver = (gram_eigh_driver)driver;
    status = gram_eigh_workspace(g, &s->a.t, &options, &s->values.t, &s->vectors.t, &need);
    if (status == GRAM_OK)
        status = least_seconds(g, s, &options, p->seconds, &seconds);
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

static enum exit_status measure(gram_context *g, const struct plot_eigh *p, struct track *tracks,
                                struct failure *why)
{
    enum exit_status status = CLI_OK;
    int points = 0;

    for (int64_t n = 4; n <= p->most && points < MOST_POINTS && status == CLI_OK; points++) {
        const struct eigh_shape shape = {p->dtype, p->items, n, 0};
        struct eigh_sample sample;
        int left = 0;
        status = eigh_sample_make(g, &shape, n, 1, &sample, why);
        for (int d = GRAM_EIGH_DRIVER_JACOBI; d < DRIVERS && status == CLI_OK; d++) {
            if (d == GRAM_EIGH_DRIVER_KRYLOV || tracks[d].stopped) /* it is for few pairs */
                continue;
            status = add_point(g, p, &sample, n, d, &tracks[d], why);
            left += !tracks[d].stopped;
        }
        eigh_sample_free(g, &sample);
        if (!left)
            break;
        n = next_order(n);
    }
    return status;
}

/* What is drawn. */
struct picture {
    struct track tracks[DRIVERS];
    struct workspace_track planned[WORKSPACE_TRACKS];
    int plans;
};

/* ---- Files ---------------------------------------------------------------------------------- */

static const char *device_name(gram_context *g)
{
    return gram_context_device(g).type == GRAM_CPU ? "cpu" : "cuda";
}

static void write_csv(struct output *out, const struct plot_eigh *p, gram_context *g,
                      const struct picture *drawn)
{
    const struct track *tracks = drawn->tracks;

    output_text(out, "device,dtype,driver,items,n,seconds,workspace_bytes\n");
    for (int d = 0; d < DRIVERS; d++)
        for (int i = 0; i < tracks[d].count; i++)
            output_format(out, "%s,%s,%s,%lld,%.0f,%.6g,%.0f\n", device_name(g),
                          p->dtype == GRAM_F64 ? "float64" : "float32", eigh_driver_names[d],
                          (long long)p->items, tracks[d].n[i], tracks[d].seconds[i],
                          tracks[d].bytes[i]);
    for (int d = 0; d < drawn->plans; d++) /* no time: of each GPU, as its plan says */
        for (int i = 0; i < drawn->planned[d].count; i++)
            output_format(out, "%s x%d,%s,divide,1,%.0f,,%.0f\n", device_name(g),
                          drawn->planned[d].devices, p->dtype == GRAM_F64 ? "float64" : "float32",
                          drawn->planned[d].n[i], drawn->planned[d].bytes[i]);
}

static void write_picture(struct output *out, const struct plot_eigh *p, gram_context *g,
                          const struct picture *drawn)
{
    struct line times[DRIVERS], bytes[DRIVERS], plans[WORKSPACE_TRACKS];
    struct line_panel panels[] = {
        {                 "time of a call", "n", LINE_SECONDS, times,            0},
        {                      "workspace", "n",   LINE_BYTES, bytes,            0},
        {"workspace of each GPU, 1 matrix", "n",   LINE_BYTES, plans, drawn->plans},
    };
    char title[128];
    int count = 0;

    for (int d = 0; d < DRIVERS; d++) {
        const struct track *t = &drawn->tracks[d];
        if (t->count == 0)
            continue;
        times[count] = (struct line){eigh_driver_names[d], d, t->count, t->n, t->seconds};
        bytes[count] = (struct line){eigh_driver_names[d], d, t->count, t->n, t->bytes};
        panels[0].count = panels[1].count = ++count;
    }
    for (int d = 0; d < drawn->plans; d++)
        plans[d] = (struct line){drawn->planned[d].name, d, drawn->planned[d].count,
                                 drawn->planned[d].n, drawn->planned[d].bytes};
    snprintf(title, sizeof title, "eigh: all pairs of %lld n x n, %s, %s", (long long)p->items,
             p->dtype == GRAM_F64 ? "f64" : "f32", device_name(g));
    line_chart_write(out, title, panels, drawn->plans ? 3 : 2);
}

enum exit_status plot_eigh_csv(const char *svg, char **path, struct failure *why)
{
    size_t length = strlen(svg);

    if (length < 5 || strcmp(svg + length - 4, ".svg") != 0)
        return fail(why, CLI_USAGE, "--plot %s: expected a name that ends with .svg", svg);
    *path = malloc(length + 1);
    if (!*path)
        return fail_memory(why, "a path");
    snprintf(*path, length + 1, "%.*s.csv", (int)length - 4, svg);
    return CLI_OK;
}

static enum exit_status write_both(gram_context *g, const struct plot_eigh *p,
                                   const struct picture *drawn, struct failure *why)
{
    struct output out;
    enum exit_status status;
    char *path;

    TRY(plot_eigh_csv(p->path, &path, why));
    status = output_open(&out, path, why);
    if (status == CLI_OK) {
        write_csv(&out, p, g, drawn);
        status = output_close(&out, why);
    }
    free(path);
    TRY(status);
    TRY(output_open(&out, p->path, why));
    write_picture(&out, p, g, drawn);
    return output_close(&out, why);
}

enum exit_status plot_eigh(gram_context *g, const struct plot_eigh *p, struct failure *why)
{
    struct picture *drawn;
    enum exit_status status;

    drawn = calloc(1, sizeof *drawn);
    if (!drawn)
        return fail_memory(why, "the measurements");
    status = measure(g, p, drawn->tracks, why);
    if (status == CLI_OK)
        status = workspace_plans(g, p->dtype, drawn->planned, &drawn->plans, why);
    if (status == CLI_OK)
        status = write_both(g, p, drawn, why);
    free(drawn);
    return status;
}
