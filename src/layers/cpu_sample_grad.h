/*
 * cpu_sample_grad.h - how the files of gram_sample_grad on the CPU divide the work
 *
 * First every sample is dealt with for itself, in parallel: its gradient and the square of its
 * norm.  From the norms come the factors of the samples, and with them one pass makes the sums.
 * There are three families of layers: products (linear, convolution), rows (embedding) and affine
 * (normalisations).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_SAMPLE_GRAD_H
#define GRAM_CPU_SAMPLE_GRAD_H
#include "cpu_layer.h"

struct cpu_sample_job {
    gram_context *g;
    const struct gram_sample_grad_op *op;
    bool each, squares, sums; /* what is wanted: something of each sample; its norm; sums */
    /* Products: how a sample's norm is found, positions and gradients' features of a block. */
    bool ghost, direct;
    int64_t positions, features;
    size_t left_at, right_at, weight_at, second_at, doubles_at; /* in a thread's scratch */
    size_t thread_bytes, sum_bytes;
    char *threads;  /* scratch of the threads, thread_bytes each */
    char *sum;      /* scratch of the sums, sum_bytes */
    double *square; /* of each sample's norm */
    double *factor; /* what multiplies its gradients in sums, the scale included */
};

/* One family: sizes in a job, one sample, the sums. */
struct cpu_sample_family {
    gram_status (*plan)(struct cpu_sample_job *job);
    void (*each)(void *job, int64_t sample, int thread);
    void (*sums)(struct cpu_sample_job *job);
};

/* cpu_sample_grad_product.c: linear layers and convolutions */
extern const struct cpu_sample_family cpu_sample_products;

/* A thread's scratch from one of its offsets on. */
static inline void *cpu_sample_at(const struct cpu_sample_job *job, int thread, size_t at)
{
    return job->threads + (size_t)thread * job->thread_bytes + at;
}

/* count doubles times scale as numbers of the dtype. */
static inline void cpu_sample_round(gram_dtype dtype, const double *from, int64_t count,
                                    double scale, void *to)
{
    for (int64_t i = 0; i < count; i++)
        if (dtype == GRAM_F32)
            ((float *)to)[i] = (float)(from[i] * scale);
        else
            ((double *)to)[i] = from[i] * scale;
}
#endif
