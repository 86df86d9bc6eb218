/*
 * cmd_nearest.c - `gram nearest`: the nearest rows of one matrix for every row of another
 *
 * The result is a list of pairs, one line for each: the row of X, the row of Y, their distance.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "metrics.h"
#include "text.h"
#include <math.h>
#include <string.h>

struct settings {
    struct common_settings common;
    struct input_settings input;
    struct output_settings output;
    int dtype; /* enum dtype_choice */
    int64_t count;
    double p, radius;
    int exclude_self;
    struct metric_settings metric;
};

static const struct option_row rows[] = {
    INTEGER("count", 'k', "N", offsetof(struct settings, count), "10", 1, GRAM_MAX_NEIGHBOURS,
            "the most neighbours of each row"),
    NUMBER("p", 'p', "P", offsetof(struct settings, p), "2", 0, INFINITY,
           "the norm, from 0 (the number of coordinates that differ) to inf (the largest "
           "difference)"),
    CHOICE("metric", 'm', "NAME", offsetof(struct settings, metric.metric), "minkowski",
           METRIC_NAMES,
           "another distance than that of the p-norm; haversine takes latitude and longitude in "
           "radians"),
    METRIC_WEIGHTS(offsetof(struct settings, metric.weights)),
    METRIC_BITS(offsetof(struct settings, metric.bits)),
    NUMBER("radius", 'r', "R", offsetof(struct settings, radius), "inf", 0, INFINITY,
           "only neighbours at a distance of at most R"),
    FLAG("exclude-self", 0, offsetof(struct settings, exclude_self),
         "without Y: no row is its own neighbour"),
    DTYPE(offsetof(struct settings, dtype),
          "auto: f32 if all inputs are float32 or float16 arrays, else f64"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Neighbours", rows, 0),
    GROUP("Input", input_options, offsetof(struct settings, input)),
    GROUP("Output", output_options, offsetof(struct settings, output)),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

/* The one or two matrices, what was found, and the list of pairs. */
struct problem {
    struct matrix x, y, indices, distances, pairs;
    int two; /* y is there */
};

/* ---- Input ---------------------------------------------------------------------------------- */

static enum exit_status load_one(const struct settings *s, const char *path, struct matrix *m,
                                 struct failure *why)
{
    const int dtype = s->metric.bits > 0 ? DTYPE_F32 : s->dtype;

    TRY(matrix_load(path, &s->input, (enum dtype_choice)dtype, m, why));
    if (m->t.ndim != 2)
        return fail(why, CLI_BAD_DATA, "%s has %d dimension%s, expected a matrix", text_name(path),
                    m->t.ndim, m->t.ndim == 1 ? "" : "s");
    return metric_pack(&s->metric, path, m, why);
}

static enum exit_status load(const struct settings *s, int count, char *const *paths,
                             struct problem *p, struct failure *why)
{
    p->two = count == 2;
    TRY(metric_check(&s->metric, s->dtype, why));
    if (p->two && s->exclude_self)
        return fail(why, CLI_USAGE, "--exclude-self applies only without Y");
    TRY(load_one(s, paths[0], &p->x, why));
    if (!p->two)
        return CLI_OK;
    TRY(load_one(s, paths[1], &p->y, why));
    if (p->x.t.shape[1] != p->y.t.shape[1])
        return fail(why, CLI_BAD_DATA, "%s has %lld columns, but %s has %lld", text_name(paths[0]),
                    (long long)p->x.t.shape[1], text_name(paths[1]), (long long)p->y.t.shape[1]);
    return matrix_common_dtype(&p->x, &p->y, why);
}

/* ---- The search ----------------------------------------------------------------------------- */

/* The matrices where the context computes. */
struct there {
    struct device_matrix x, y, indices, distances;
    struct metric_weights weights;
};

static enum exit_status search(gram_context *g, const struct settings *s, struct problem *p,
                               struct there *at, struct failure *why)
{
    gram_nearest_options options = GRAM_NEAREST_OPTIONS_INIT;
    gram_distance metric;
    gram_status done;

    options.exclude_self = s->exclude_self;
    options.within = s->radius < INFINITY;
    options.radius = s->radius;
    if (metric_describe(&s->metric, s->p, &at->weights, &metric))
        options.metric = &metric;
    TRY(metric_weights_load(g, &s->metric, &s->input, &p->x.t, &at->weights, why));
    TRY(device_matrix_send(g, &p->x, &at->x, why));
    if (p->two)
        TRY(device_matrix_send(g, &p->y, &at->y, why));
    TRY(device_matrix_result(g, &p->indices, &at->indices, why));
    TRY(device_matrix_result(g, &p->distances, &at->distances, why));
    done = gram_nearest(g, &at->x.t, p->two ? &at->y.t : NULL, gram_number(s->p), &options,
                        &at->indices.t, &at->distances.t);
    if (done != GRAM_OK)
        return fail_gram(why, done, g);
    TRY(device_matrix_fetch(g, &at->indices, &p->indices, why));
    return device_matrix_fetch(g, &at->distances, &p->distances, why);
}

static enum exit_status compute(const struct settings *s, struct problem *p, struct failure *why)
{
    const int64_t shape[2] = {p->x.t.shape[0], s->count};
    const gram_dtype real = p->x.t.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    struct there at;
    enum exit_status status;
    gram_context *g;

    memset(&at, 0, sizeof at);
    TRY(matrix_allocate(&p->indices, GRAM_I64, 2, shape, why));
    TRY(matrix_allocate(&p->distances, real, 2, shape, why));
    TRY(open_context(&s->common, &g, why));
    status = search(g, s, p, &at, why);
    metric_weights_free(g, &at.weights);
    device_matrix_free(g, &at.x);
    device_matrix_free(g, &at.y);
    device_matrix_free(g, &at.indices);
    device_matrix_free(g, &at.distances);
    gram_context_destroy(g);
    return status;
}

/* ---- Output --------------------------------------------------------------------------------- */

/* The pairs that were found, row by row.  Indices are exact as doubles. */
static enum exit_status list_pairs(struct problem *p, struct failure *why)
{
    const int64_t *index = p->indices.t.data, places = matrix_count(&p->indices),
                  count = p->indices.t.shape[1];
    const int is_double = p->distances.t.dtype == GRAM_F64;
    int64_t found = 0;
    double *to;

    for (int64_t e = 0; e < places; e++)
        found += index[e] >= 0;
    TRY(matrix_allocate(&p->pairs, GRAM_F64, 2, (int64_t[]){found, 3}, why));
    to = p->pairs.t.data;
    for (int64_t e = 0; e < places; e++) {
        const int64_t row = e / count;
        if (index[e] < 0)
            continue;
        *to++ = (double)row;
        *to++ = (double)index[e];
        *to++ = is_double ? ((const double *)p->distances.t.data)[e]
                          : (double)((const float *)p->distances.t.data)[e];
    }
    return CLI_OK;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    struct problem p = {.two = 0};
    enum exit_status status = load(s, count, operands, &p, why);

    if (status == CLI_OK)
        status = compute(s, &p, why);
    if (status == CLI_OK)
        status = list_pairs(&p, why);
    if (status == CLI_OK)
        status = matrix_save(&p.pairs, &s->output, why);
    matrix_free(&p.x);
    matrix_free(&p.y);
    matrix_free(&p.indices);
    matrix_free(&p.distances);
    matrix_free(&p.pairs);
    return status;
}

const struct command cmd_nearest = {
    .name = "nearest",
    .operands = "X [Y]",
    .summary = "find the nearest rows of a matrix",
    .details =
        "Writes one line for each neighbour: the row of X, the row of Y, and their distance. Rows "
        "are counted from 0. The neighbours of a row are in ascending order of distance; of those "
        "at the same distance, the lower row of Y comes first. Without Y, it searches among the "
        "rows of X. The search is exact, and compares all pairs.\n\n"
        "X and Y are numeric tables in text or .npy arrays. A row that holds a missing number has "
        "no neighbours, except with --metric nan-euclidean, which measures what both rows have.",
    .examples =
        "  gram nearest points.csv -k 5 --exclude-self -o graph.csv\n"
        "  gram nearest queries.npy points.npy -p 1 --radius 0.5 | head\n"
        "  gram nearest documents.npy --metric cosine -k 3",
    .least = 1,
    .most = 2,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
