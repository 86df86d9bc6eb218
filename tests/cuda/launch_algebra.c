/*
 * launch_algebra.c - calls of linear algebra and of gradients of samples with tiny items
 *
 * SPDX-License-Identifier: MIT
 */
#include "launch_calls.h"

gram_status launch_solve_cholesky(struct launch_call *c)
{
    return gram_solve_cholesky(c->g, launch_matrix(c, 8, 8), launch_matrix(c, 8, 2), NULL,
                               launch_matrix(c, 8, 2), launch_number(c, GRAM_I32));
}

gram_status launch_solve_cholesky_jitter(struct launch_call *c)
{
    const double jitter[] = {0, 1e-3};
    gram_solve_options o = GRAM_SOLVE_OPTIONS_INIT;

    o.rcond = launch_number(c, GRAM_F32);
    o.jitter = jitter, o.jitters = 2;
    return gram_solve_cholesky(c->g, launch_matrix(c, 2, 2), launch_matrix(c, 2, 1), &o,
                               launch_matrix(c, 2, 1), launch_number(c, GRAM_I32));
}

gram_status launch_solve_lu(struct launch_call *c)
{
    return gram_solve_lu(c->g, launch_matrix(c, 8, 8), launch_matrix(c, 8, 2), NULL,
                         launch_matrix(c, 8, 2), launch_number(c, GRAM_I32));
}

gram_status launch_matmul_batched(struct launch_call *c)
{
    return gram_matmul_batched(c->g, launch_matrix(c, 4, 3), launch_matrix(c, 3, 5), NULL,
                               launch_matrix(c, 4, 5));
}

gram_status launch_matmul_batched_of_numbers(struct launch_call *c)
{
    gram_matmul_options o = GRAM_MATMUL_OPTIONS_INIT;

    o.alpha = gram_values(launch_number(c, GRAM_F32));
    return gram_matmul_batched(c->g, launch_matrix(c, 4, 3), launch_tensor(c, 0, GRAM_F32, 3, 5),
                               &o, launch_matrix(c, 4, 5));
}

gram_status launch_matmul_chunked(struct launch_call *c)
{
    return gram_matmul_chunked(c->g, launch_matrix(c, 4, 3), launch_matrix(c, 3, 5), NULL,
                               (size_t)1 << 30, launch_matrix(c, 4, 5));
}

gram_status launch_syrk_ema(struct launch_call *c)
{
    return gram_syrk_ema(c->g, launch_matrix(c, 4, 3), NULL, launch_matrix(c, 4, 4),
                         launch_number(c, GRAM_I32));
}

gram_status launch_natural_gradient(struct launch_call *c)
{
    return gram_natural_gradient(c->g, launch_matrix(c, 4, 3), launch_vector(c, 3), gram_number(1),
                                 launch_vector(c, 3), launch_number(c, GRAM_I32));
}

gram_status launch_eigh(struct launch_call *c)
{
    return gram_eigh(c->g, launch_matrix(c, 8, 8), NULL, launch_vector(c, 8),
                     launch_matrix(c, 8, 8), launch_number(c, GRAM_I32));
}

gram_status launch_eigh_closed_form(struct launch_call *c)
{
    return gram_eigh(c->g, launch_matrix(c, 3, 3), NULL, launch_vector(c, 3),
                     launch_matrix(c, 3, 3), launch_number(c, GRAM_I32));
}

gram_status launch_eigh_largest(struct launch_call *c)
{
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;

    o.select = GRAM_EIGH_LARGEST;
    o.count = 2;
    return gram_eigh(c->g, launch_matrix(c, 8, 8), &o, launch_vector(c, 2), launch_matrix(c, 8, 2),
                     launch_number(c, GRAM_I32));
}

static gram_status power(struct launch_call *c, gram_power_method method)
{
    gram_matrix_power_options o = GRAM_MATRIX_POWER_OPTIONS_INIT;

    o.method = method;
    o.condition = 100;
    return gram_matrix_power(c->g, launch_matrix(c, 4, 4), &o, launch_matrix(c, 4, 4),
                             launch_number(c, GRAM_I32));
}

gram_status launch_matrix_power_eigh(struct launch_call *c)
{
    return power(c, GRAM_POWER_EIGH);
}

gram_status launch_matrix_power_minimax(struct launch_call *c)
{
    return power(c, GRAM_POWER_MINIMAX);
}

gram_status launch_matrix_power_newton(struct launch_call *c)
{
    return power(c, GRAM_POWER_COUPLED_NEWTON);
}

/* ---- Samples --------------------------------------------------------------------------------- */

gram_status launch_sample_grad(struct launch_call *c)
{
    const gram_layer layer = GRAM_LAYER_INIT;
    const gram_sample_grads out = {.weight = launch_matrix(c, 2, 3),
                                   .norms = launch_number(c, GRAM_F32)};

    return gram_sample_grad(c->g, &layer, launch_matrix(c, 4, 3), launch_matrix(c, 4, 2), NULL,
                            &out);
}

gram_status launch_sample_grad_sums(struct launch_call *c)
{
    const gram_layer layer = GRAM_LAYER_INIT;
    gram_sample_grad_options o = GRAM_SAMPLE_GRAD_OPTIONS_INIT;
    const gram_sample_grads out = {.sum_weight = launch_tensor(c, 0, GRAM_F32, 2, 3)};

    o.clip = 1;
    return gram_sample_grad(c->g, &layer, launch_matrix(c, 4, 3), launch_matrix(c, 4, 2), &o, &out);
}

gram_status launch_kfac_factors(struct launch_call *c)
{
    const gram_layer layer = GRAM_LAYER_INIT;

    return gram_kfac_factors(c->g, &layer, launch_matrix(c, 4, 3), launch_matrix(c, 4, 2), NULL,
                             launch_tensor(c, 0, GRAM_F32, 3, 3),
                             launch_tensor(c, 0, GRAM_F32, 2, 2));
}
