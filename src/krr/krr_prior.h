/*
 * krr_prior.h - draws of a Gaussian process before it has seen anything: see krr_prior.c
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRR_PRIOR_H
#define GRAM_KRR_PRIOR_H
#include "krr_solve.h"

/* How the frequencies of a kernel are drawn.  The kernel is the mean of exp(-a u^power) over a,
 * with u = sum_k |x_k - y_k|^p. */
struct krr_spectrum {
    enum {
        KRR_STABLE = 1, /* a is the number `factor` */
        KRR_GAMMA,      /* a is factor times a gamma variable of shape and rate `shape` */
        KRR_STUDENT /* Matern: multivariate t of 2 nu = shape degrees of freedom, factor 1 / L */
    } kind;
    double p, power, factor, shape;
};

struct krr_prior {
    gram_krr_prior kind; /* JOINT or FEATURES */
    int64_t count;       /* points: those of x, and z behind them */
    int64_t width;       /* their coordinates */
    int64_t features;
    uint64_t seed;
    struct krr_spectrum spectrum;
    struct krr_array points; /* f64, where the context computes; with a 1 behind each (FEATURES) */
    struct krr_array factor; /* JOINT: L L^T = K + floor I */
    double floor;
    struct krr_array side, vector,
        out;      /* frequencies; their amplitudes, or normal numbers; draws */
    double *host; /* what goes to side and vector */
    size_t bytes;
    int32_t minor; /* not 0: the joint matrix is not positive definite */
};

/* Draws of the kernel of p at its n points and at z, m by d in f64, up to `columns` at a time. */
gram_status gram_krr_prior_create(gram_context *g, struct krr_problem *p, const struct krr_array *z,
                                  const gram_krr_samples_options *o, int64_t m, int64_t columns,
                                  struct krr_prior *out);
void gram_krr_prior_destroy(gram_context *g, struct krr_prior *w);
/* The draws `first` and so on at all points, one after the other, to the host. */
gram_status gram_krr_prior_draw(gram_context *g, struct krr_prior *w, int64_t first,
                                int64_t columns, double *to);
/* n numbers of the noise of draw `number`, each with variance 1. */
void gram_krr_prior_noise(uint64_t seed, int64_t number, int64_t n, double *to);
#endif
