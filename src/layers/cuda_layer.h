/*
 * cuda_layer.h - a layer as device code sees it
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_LAYER_H
#define GRAM_CUDA_LAYER_H
#include "layer.h"
#include "layer_params.h"

/* The layer for kernels, which count a sample's positions, features and axes in 32 bits. */
struct layer_params cuda_layer_params(const struct gram_layer_op *l);
struct layer_output cuda_layer_output(const struct gram_layer_output *out);

/* Refuses a layer that kernels cannot count in 32 bits, or that has more than this many samples. */
gram_status cuda_layer_check(gram_context *g, const struct gram_layer_op *l, int64_t samples);
#endif
