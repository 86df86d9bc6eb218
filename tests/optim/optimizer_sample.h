/*
 * optimizer_sample.h - a small list of parameters with gradients, for the tests of optimizers
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_OPTIMIZER_SAMPLE_H
#define GRAM_OPTIMIZER_SAMPLE_H
#include "check/harness/harness.h"

enum {
    SAMPLE = 4,         /* parameters: 6 by 5, 7, a number, 0 by 3 */
    SAMPLE_NUMBERS = 38 /* of all of them */
};

struct sample {
    double w[SAMPLE_NUMBERS], g[SAMPLE_NUMBERS], p[SAMPLE_NUMBERS];
    gram_tensor value[SAMPLE], grad[SAMPLE], dir[SAMPLE];
    gram_tensor *values[SAMPLE], *directions[SAMPLE];
    const gram_tensor *gradients[SAMPLE];
};

/* With options of its own. */
struct call {
    struct sample s;
    gram_optimizer_options options;
};

/* Points into itself. */
void sample_open(struct harness *h, struct sample *s);
/* The same, and options that make several blocks of it. */
void sample_call(struct harness *h, struct call *c);
/* Its values, and its gradients behind them, to memory of g's device. */
void sample_send(struct harness *h, gram_context *g, const struct sample *s, void *memory);
/* New gradients. */
void sample_next(struct harness *h, struct sample *s);
/* An optimizer of it, or the end of the program. */
gram_optimizer *sample_optimizer(struct harness *h, struct sample *s,
                                 const gram_optimizer_options *o);
/* A step that must go well; its report. */
gram_optimizer_report sample_step(struct harness *h, struct sample *s, gram_optimizer *o);

/* Writes a number into every factor of parameter 0. */
void sample_spoil(struct harness *h, gram_context *g, gram_optimizer *o, double number);

/* Steps of a matrix of 16 by 4 and a vector by every method of roots, with gradients of rank one,
 * of zeros and of random numbers, on g's device: no root fails, every value is finite. */
void sample_low_rank(struct harness *h, gram_context *g, gram_device device);

/* A copy of all state, to be freed; and whether all of it is still the same, byte for byte. */
char *sample_state(struct harness *h, gram_optimizer *o);
bool sample_same_state(struct harness *h, gram_optimizer *o, const char *copy);
#endif
