/*
 * metrics.h - the names of --metric, what they stand for, their weights, and packed bits
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_METRICS_H
#define GRAM_CLI_METRICS_H
#include "device.h"
#include <stdbool.h>

#define METRIC_NAMES                                                                           \
  "minkowski|seuclidean|cosine|correlation|canberra|braycurtis|hamming|jaccard|jensenshannon|" \
  "kullback-leibler|hellinger|chi2|haversine|nan-euclidean"

static const gram_distance_kind metric_kinds[] = {
    GRAM_DISTANCE_MINKOWSKI,        GRAM_DISTANCE_SEUCLIDEAN,    GRAM_DISTANCE_COSINE,
    GRAM_DISTANCE_CORRELATION,      GRAM_DISTANCE_CANBERRA,      GRAM_DISTANCE_BRAYCURTIS,
    GRAM_DISTANCE_HAMMING,          GRAM_DISTANCE_JACCARD,       GRAM_DISTANCE_JENSENSHANNON,
    GRAM_DISTANCE_KULLBACK_LEIBLER, GRAM_DISTANCE_HELLINGER,     GRAM_DISTANCE_CHI2,
    GRAM_DISTANCE_HAVERSINE,        GRAM_DISTANCE_NAN_EUCLIDEAN,
};

#define METRIC_WEIGHTS(at)                                                                       \
  FILE_NAME("weights", 'w', "FILE", at, NULL,                                                    \
            "a row or column with one number per column of X, by which the terms of the "        \
            "distance are multiplied; the variances, by which seuclidean divides them; not for " \
            "haversine")
#define METRIC_BITS(at)                                                                           \
  INTEGER("bits", 0, "N", at, NULL, 1, 0x1p31 - 1,                                                \
          "for hamming and jaccard: rows are N bits, packed into columns of bytes (numbers from " \
          "0 to 255) as numpy.packbits does")

/* The options that say what a distance is. */
struct metric_settings {
    int metric; /* the place in metric_kinds */
    const char *weights;
    int64_t bits; /* below 1: rows are numbers */
};

/* Weights that were read, and where the context computes: metric_weights_free when done. */
struct metric_weights {
    struct matrix read;
    struct device_matrix there;
};

/* Refuses options that do not go together. */
enum exit_status metric_check(const struct metric_settings *s, int dtype, struct failure *why);

/* What was read from path, in f32, as the bytes of --bits; nothing happens without it. */
enum exit_status metric_pack(const struct metric_settings *s, const char *path, struct matrix *m,
                             struct failure *why);

/* The weights for points like x.  Without --weights nothing happens. */
enum exit_status metric_weights_load(gram_context *g, const struct metric_settings *s,
                                     const struct input_settings *input, const gram_tensor *x,
                                     struct metric_weights *w, struct failure *why);
void metric_weights_free(gram_context *g, struct metric_weights *w);

/* Fills in the distance, of which p is that of a p-norm; false where that is the plain p-norm. */
bool metric_describe(const struct metric_settings *s, double p, const struct metric_weights *w,
                     gram_distance *metric);

#endif
