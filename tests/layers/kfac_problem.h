/*
 * kfac_problem.h - a layer in gram_kfac with its gradient, its data, and what is right, naively
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KFAC_PROBLEM_H
#define GRAM_KFAC_PROBLEM_H
#include "check/harness/harness.h"

enum {
    KFAC_SAMPLES = 60,
    KFAC_MOST = 64 /* numbers of M, or of a factor */
};

struct kfac_one {
    gram_layer layer;
    int64_t inputs, outputs, rows, cols;
    gram_kfac_options options;
    gram_kfac *kfac;
    double weight[KFAC_MOST], bias[KFAC_MOST], to_weight[KFAC_MOST], to_bias[KFAC_MOST];
};

/* What goes in, and gradients that depend on it: a is samples by positions by inputs. */
struct kfac_data {
    int64_t samples, positions, inputs, outputs;
    double a[KFAC_SAMPLES * 2 * 8], g[KFAC_SAMPLES * 2 * 8];
};

/* A layer of that kind, options being set, and a random gradient. */
void kfac_open(struct harness *h, struct kfac_one *o, gram_layer_kind kind, int64_t inputs,
               int64_t outputs, bool bias);
gram_status kfac_direct(struct harness *h, struct kfac_one *o, double rate);
/* M of the gradient or of the direction, row by row. */
double kfac_number(const struct kfac_one *o, bool direction, int64_t row, int64_t col);
/* Checks the direction against factor (dense)^-1 M, dense having a row and a column a number. */
void kfac_check(struct harness *h, const struct kfac_one *o, const double *dense, double factor,
                double tolerance);

void kfac_fill(struct harness *h, struct kfac_data *d, int64_t positions, int64_t inputs,
               int64_t outputs);
gram_status kfac_learn(struct harness *h, struct kfac_one *o, struct kfac_data *d);
/* The gradient of a sample in [W b]: sum_s g a'^T. */
double kfac_sample(const struct kfac_data *d, int64_t n, int64_t row, int64_t col);
/* The exact (empirical) Fisher of a layer: 1/N sum_n vec(G_n) vec(G_n)^T, shift on the diagonal. */
void kfac_fisher(const struct kfac_data *d, bool bias, double shift, double *f);
/* A part of the state by its name. */
gram_tensor kfac_state(struct harness *h, gram_kfac *kfac, const char *wanted);
#endif
