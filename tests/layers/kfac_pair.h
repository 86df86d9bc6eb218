/*
 * kfac_pair.h - gram_kfac twice, on the CPU and where the harness works, on the same layers
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KFAC_PAIR_H
#define GRAM_KFAC_PAIR_H
#include "check/harness/harness.h"

enum {
    KFAC_PAIR_LAYERS = 5,
    KFAC_PAIR_SAMPLES = 5
};

/* A layer with its tensors: what goes in, gradients of what comes out, of weight and bias. */
struct kfac_pair_layer {
    gram_layer layer;
    struct test_tensor a, d, weight, bias, to_weight, to_bias;
};

struct kfac_pair_side {
    gram_context *g;
    gram_kfac *kfac;
};

struct kfac_pair {
    struct harness *h;
    struct kfac_pair_layer one[KFAC_PAIR_LAYERS];
    int64_t inputs[KFAC_PAIR_LAYERS], outputs[KFAC_PAIR_LAYERS];
    struct kfac_pair_side cpu, gpu;
};

/* How an object is made, and how far directions may be apart, of the largest number. */
struct kfac_pair_row {
    const char *why;
    gram_dtype dtype, state;
    int damping, setting, corrected;
    double kl_clip, bound;
};

bool kfac_pair_open(struct harness *h, struct kfac_pair *p, const struct kfac_pair_row *row);
void kfac_pair_close(struct kfac_pair *p);
/* New numbers for all tensors that go in. */
void kfac_pair_draw(struct kfac_pair *p);
/* gram_kfac_update and gram_kfac_refresh of both. */
void kfac_pair_learn(struct kfac_pair *p);
void kfac_pair_refresh(struct kfac_pair *p);
/* Directions of a side to to_weight and to_bias; on the GPU by copies. */
gram_status kfac_pair_direct(struct kfac_pair *p, bool on_gpu);
/* Number e of the direction of a layer, and how many it has. */
double kfac_pair_number(const struct kfac_pair_layer *o, int64_t e);
int64_t kfac_pair_numbers(const struct kfac_pair *p, int i);
/* Directions of both sides. */
void kfac_pair_compare(struct kfac_pair *p, double bound);
#endif
