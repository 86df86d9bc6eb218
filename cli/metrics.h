/*
 * metrics.h - the names of --metric, and the metrics that they stand for
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_METRICS_H
#define GRAM_CLI_METRICS_H
#include <gram/gram.h>

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

#endif
