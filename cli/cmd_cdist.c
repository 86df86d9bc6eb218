/*
 * cmd_cdist.c - `gram cdist`: distances between the rows of one or two matrices
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "metrics.h"
#include <math.h>

struct settings {
    struct matrix_pair_settings pair;
    double p;
    struct metric_settings metric;
    int no_root;
};

static const struct option_row rows[] = {
    NUMBER("p", 'p', "P", offsetof(struct settings, p), "2", 0, INFINITY,
           "the norm, from 0 (the number of coordinates that differ) to inf (the largest "
           "difference)"),
    CHOICE("metric", 'm', "NAME", offsetof(struct settings, metric.metric), "minkowski",
           METRIC_NAMES,
           "another distance than that of the p-norm; haversine takes latitude and longitude in "
           "radians"),
    METRIC_WEIGHTS(offsetof(struct settings, metric.weights)),
    METRIC_BITS(offsetof(struct settings, metric.bits)),
    FLAG("no-root", 0, offsetof(struct settings, no_root),
         "write the sum itself, without the root"),
    DTYPE(offsetof(struct settings, pair.dtype),
          "auto: f32 if all inputs are float32 or float16 arrays, else f64"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Distance", rows, 0),
    GROUP("Input", input_options, offsetof(struct settings, pair.input)),
    GROUP("Output", output_options, offsetof(struct settings, pair.output)),
    GROUP("Device", device_options, offsetof(struct settings, pair.common)),
    GROUP("Other options", threads_options, offsetof(struct settings, pair.common)),
    GROUP("", common_options, offsetof(struct settings, pair.common)),
    GROUP_END,
};

static enum exit_status compute(gram_context *g, const void *settings, const gram_tensor *x,
                                const gram_tensor *y, gram_tensor *out, struct failure *why)
{
    const struct settings *s = settings;
    gram_cdist_options options = GRAM_CDIST_OPTIONS_INIT;
    gram_distance metric;
    struct metric_weights weights = {.read.memory = NULL};
    enum exit_status status = metric_weights_load(g, &s->metric, &s->pair.input, x, &weights, why);

    options.no_root = s->no_root;
    if (metric_describe(&s->metric, s->p, &weights, &metric))
        options.metric = &metric;
    if (status == CLI_OK) {
        gram_status done = gram_cdist(g, x, y, gram_number(s->p), &options, out);
        if (done != GRAM_OK)
            status = fail_gram(why, done, g);
    }
    metric_weights_free(g, &weights);
    return status;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    const struct matrix_pair_job job = {&s->pair, &s->metric, s, compute};

    TRY(metric_check(&s->metric, s->pair.dtype, why));
    return matrix_pair_run(&job, count, operands, why);
}

const struct command cmd_cdist = {
    .name = "cdist",
    .operands = "X [Y]",
    .summary = "compute distances between the rows of matrices",
    .details =
        "Writes the matrix D[i,j] = (sum over k of |X[i,k] - Y[j,k]|^p)^(1/p). Without Y, it "
        "computes the distances between the rows of X, in half the time.\n\n"
        "X and Y are numeric tables in text, Parquet, Arrow or Feather files, or .npy "
        "arrays; arrays with more than two dimensions "
        "are batches of matrices. A row that holds a missing number has the distance NaN to all "
        "others. --metric names another distance; nan-euclidean takes a missing number as unknown "
        "and measures what both rows have.",
    .examples =
        "  gram cdist points.csv -p 1.3 -o distances.npy\n"
        "  gram cdist queries.npy points.npy -p inf --format csv | head\n"
        "  gram cdist counts.csv --metric braycurtis\n"
        "  gram cdist points.csv --metric seuclidean --weights variances.csv\n"
        "  gram cdist fingerprints.npy --metric jaccard --bits 1021",
    .least = 1,
    .most = 2,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};
