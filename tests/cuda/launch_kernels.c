/*
 * launch_kernels.c - calls of distances, kernels and their gradients with tiny items
 *
 * SPDX-License-Identifier: MIT
 */
#include "launch_calls.h"
#include <string.h>

gram_status launch_cdist(struct launch_call *c)
{
    return gram_cdist(c->g, launch_matrix(c, 4, 3), launch_matrix(c, 5, 3), gram_number(1.3), NULL,
                      launch_matrix(c, 4, 5));
}

gram_status launch_kernel_of_long_rows(struct launch_call *c)
{
    const gram_kernel_options o = gram_gaussian(1);

    return gram_kernel(c->g, launch_tensor(c, 0, GRAM_F32, 2, 2000), launch_repeated(c, 1, 2000),
                       &o, launch_matrix(c, 2, 1));
}

gram_status launch_median(struct launch_call *c)
{
    return gram_median_distance(c->g, launch_matrix(c, 4, 3), gram_number(2), NULL,
                                launch_number(c, GRAM_F32));
}

gram_status launch_median_of_samples(struct launch_call *c)
{
    const gram_median_options o = {.size = sizeof o, .rows = 3};

    return gram_median_distance(c->g, launch_tensor(c, c->items, GRAM_F64, 4, 3), gram_number(1),
                                &o, launch_number(c, GRAM_F64));
}

gram_status launch_nearest(struct launch_call *c)
{
    return gram_nearest(c->g, launch_matrix(c, 4, 3), launch_tensor(c, 0, GRAM_F32, 5, 3),
                        gram_number(2), NULL, launch_tensor(c, c->items, GRAM_I64, 4, 2),
                        launch_matrix(c, 4, 2));
}

gram_status launch_kernel_reduce(struct launch_call *c)
{
    const gram_kernel_options o = gram_gaussian(1);

    return gram_kernel_reduce(c->g, launch_matrix(c, 4, 3), launch_matrix(c, 5, 3), &o,
                              GRAM_REDUCE_SOFTMAX, launch_matrix(c, 5, 2), NULL,
                              launch_matrix(c, 4, 2), NULL);
}

gram_status launch_kernel_reduce_vjp(struct launch_call *c)
{
    const gram_kernel_options o = gram_gaussian(1);
    gram_kernel_reduce_grads grads = GRAM_KERNEL_REDUCE_GRADS_INIT;
    gram_kernel_reduce_options options = GRAM_KERNEL_REDUCE_OPTIONS_INIT;

    options.scale = 2;
    grads.x = launch_matrix(c, 4, 3), grads.v = launch_matrix(c, 5, 2);
    grads.log_weights = launch_vector(c, 5);
    grads.bandwidth = launch_number(c, GRAM_F32), grads.regularization = launch_number(c, GRAM_F32);
    return gram_kernel_reduce_vjp(c->g, launch_matrix(c, 4, 3), launch_matrix(c, 5, 3), &o,
                                  GRAM_REDUCE_SOFTMAX, launch_matrix(c, 5, 2), &options,
                                  launch_matrix(c, 4, 2), &grads);
}

gram_status launch_kernel_matmul(struct launch_call *c)
{
    gram_kernel_options o = gram_gaussian(1);

    o.bandwidth = gram_values(launch_number(c, GRAM_F64));
    return gram_kernel_matmul(c->g, launch_matrix(c, 4, 3), launch_tensor(c, 0, GRAM_F32, 5, 3), &o,
                              launch_matrix(c, 5, 2), NULL, launch_matrix(c, 4, 2));
}

gram_status launch_kernel_matmul_symmetric(struct launch_call *c)
{
    const gram_kernel_options o = gram_gaussian(1);
    const gram_kernel_matmul_options add = {.size = sizeof add, .accumulate = 1};

    return gram_kernel_matmul(c->g, launch_matrix(c, 4, 3), NULL, &o, launch_matrix(c, 4, 2), &add,
                              launch_matrix(c, 4, 2));
}

static gram_status vjp(struct launch_call *c, const gram_kernel_options *o, bool numbers)
{
    const gram_kernel_grads grads = {
        .x = launch_matrix(c, 4, 3),
        .y = launch_matrix(c, 5, 3),
        .bandwidth = numbers ? launch_number(c, GRAM_F32) : NULL,
        .regularization = numbers ? launch_number(c, GRAM_F32) : NULL,
    };

    return gram_kernel_vjp(c->g, launch_matrix(c, 4, 3), launch_matrix(c, 5, 3), o,
                           launch_matrix(c, 4, 5), &grads);
}

gram_status launch_kernel_vjp(struct launch_call *c)
{
    const gram_kernel_options o = gram_lpq_laplace(1, 1, 1);

    return vjp(c, &o, true);
}

gram_status launch_kernel_vjp_gaussian(struct launch_call *c)
{
    const gram_kernel_options o = gram_gaussian(1);

    return vjp(c, &o, true);
}

gram_status launch_kernel_vjp_cosine(struct launch_call *c)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    o.inner = GRAM_DOT;
    o.function = GRAM_COSINE;
    return vjp(c, &o, false);
}

gram_status launch_kernel_matmul_vjp(struct launch_call *c)
{
    const gram_kernel_options o = gram_lpq_laplace(1, 1, 1);
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;

    grads.x = launch_matrix(c, 4, 3), grads.y = launch_matrix(c, 5, 3);
    grads.bandwidth = launch_number(c, GRAM_F32), grads.regularization = launch_number(c, GRAM_F32);
    return gram_kernel_matmul_vjp(c->g, launch_matrix(c, 4, 3), launch_matrix(c, 5, 3), &o,
                                  launch_matrix(c, 5, 2), launch_matrix(c, 4, 2), &grads);
}

gram_status launch_kernel_vjp_lengths(struct launch_call *c)
{
    gram_kernel_options o = gram_gaussian(1);
    const gram_kernel_grads grads = {.lengths = launch_vector(c, 3)};

    o.lengths = launch_vector(c, 3);
    return gram_kernel_vjp(c->g, launch_matrix(c, 4, 3), launch_matrix(c, 5, 3), &o,
                           launch_matrix(c, 4, 5), &grads);
}

gram_status launch_cdist_grad(struct launch_call *c)
{
    gram_tensor *out = launch_tensor(c, c->items, GRAM_F32, 2, 12);

    out->ndim = 4;
    memcpy(out->shape + 1, (const int64_t[]){2, 3, 4}, 3 * sizeof(int64_t));
    memcpy(out->stride + 1, (const int64_t[]){12, 4, 1}, 3 * sizeof(int64_t));
    return gram_cdist_grad(c->g, launch_matrix(c, 6, 4), launch_matrix(c, 3, 6),
                           launch_matrix(c, 2, 6), launch_matrix(c, 3, 4), gram_number(1), out);
}

static gram_status agop_of(struct launch_call *c, double p, int diagonal)
{
    const gram_agop_options o = {.size = sizeof o, .diagonal = diagonal};

    return gram_agop(c->g, launch_matrix(c, 6, 4), launch_matrix(c, 3, 6), launch_matrix(c, 2, 6),
                     launch_matrix(c, 3, 4), gram_number(p), &o,
                     diagonal ? launch_vector(c, 3) : launch_matrix(c, 3, 3));
}

gram_status launch_agop(struct launch_call *c)
{
    return agop_of(c, 2, 0);
}

gram_status launch_agop_diagonal(struct launch_call *c)
{
    return agop_of(c, 1.3, 1);
}
