/*
 * metrics.h - the names of --metric, the metrics that they stand for, and their weights
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_METRICS_H
#define GRAM_CLI_METRICS_H
#include "device.h"

#define METRIC_NAMES                                                                \
  "minkowski|cosine|correlation|canberra|braycurtis|hamming|jaccard|jensenshannon|" \
  "kullback-leibler|hellinger|chi2|haversine|nan-euclidean"

static const gram_distance_kind metric_kinds[] = {
    GRAM_DISTANCE_MINKOWSKI,     GRAM_DISTANCE_COSINE,        GRAM_DISTANCE_CORRELATION,
    GRAM_DISTANCE_CANBERRA,      GRAM_DISTANCE_BRAYCURTIS,    GRAM_DISTANCE_HAMMING,
    GRAM_DISTANCE_JACCARD,       GRAM_DISTANCE_JENSENSHANNON, GRAM_DISTANCE_KULLBACK_LEIBLER,
    GRAM_DISTANCE_HELLINGER,     GRAM_DISTANCE_CHI2,          GRAM_DISTANCE_HAVERSINE,
    GRAM_DISTANCE_NAN_EUCLIDEAN,
};

#define METRIC_WEIGHTS(at)                                                                \
  FILE_NAME("weights", 'w', "FILE", at, NULL,                                             \
            "a row or column with one number per column of X, by which the terms of the " \
            "distance are multiplied; not for haversine")

/* The file of --weights, NULL: none, and how it is read. */
struct metric_weights_file {
    const char *path;
    const struct input_settings *input;
};

/* Weights that were read, and where the context computes: metric_weights_free when done. */
struct metric_weights {
    struct matrix read;
    struct device_matrix there;
};

/* Refuses --weights where the metric has none. */
enum exit_status metric_weights_check(int metric, const char *path, struct failure *why);

/* The weights for points like x.  Without a file nothing happens. */
enum exit_status metric_weights_load(gram_context *g, const struct metric_weights_file *file,
                                     const gram_tensor *x, struct metric_weights *w,
                                     struct failure *why);
void metric_weights_free(gram_context *g, struct metric_weights *w);

#endif
