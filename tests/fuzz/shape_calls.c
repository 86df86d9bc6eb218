/*
 * shape_calls.c - calls of every operation, with their queries, on tensors of a table
 *
 * SPDX-License-Identifier: MIT
 */
#include "shape_calls.h"
#include <stddef.h>

static gram_status cdist(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;

    if (c->query)
        return gram_cdist_workspace(g, &t[0], &t[1], gram_values(&t[2]), NULL, &t[3], &c->need);
    return gram_cdist(g, &t[0], &t[1], gram_values(&t[2]), NULL, &t[3]);
}

static gram_status symmetric(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;

    if (c->query)
        return gram_cdist_workspace(g, &t[0], NULL, gram_number(2), NULL, &t[1], &c->need);
    return gram_cdist(g, &t[0], NULL, gram_number(2), NULL, &t[1]);
}

static gram_kernel_options laplace(const gram_tensor *bandwidth)
{
    gram_kernel_options o = gram_lpq_laplace(1, 1, 1);

    o.bandwidth = gram_values(bandwidth);
    return o;
}

static gram_status kernel(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    gram_kernel_options o = laplace(&t[2]);

    o.regularization = gram_values(&t[3]);
    if (c->query)
        return gram_kernel_workspace(g, &t[0], &t[1], &o, &t[4], &c->need);
    return gram_kernel(g, &t[0], &t[1], &o, &t[4]);
}

static gram_status expression(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
    const gram_parameter a = {"a", gram_values(&t[2])};

    o.function = GRAM_EXPRESSION;
    o.expression = "exp(-s / a)";
    o.parameters = &a, o.parameter_count = 1;
    if (c->query)
        return gram_kernel_workspace(g, &t[0], &t[1], &o, &t[3], &c->need);
    return gram_kernel(g, &t[0], &t[1], &o, &t[3]);
}

static gram_status median(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;

    if (c->query)
        return gram_median_distance_workspace(g, &t[0], gram_values(&t[1]), NULL, &t[2], &c->need);
    return gram_median_distance(g, &t[0], gram_values(&t[1]), NULL, &t[2]);
}

static gram_status kernel_matmul(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_kernel_options o = laplace(&t[3]);

    if (c->query)
        return gram_kernel_matmul_workspace(g, &t[0], &t[1], &o, &t[2], NULL, &t[4], &c->need);
    return gram_kernel_matmul(g, &t[0], &t[1], &o, &t[2], NULL, &t[4]);
}

static gram_status kernel_vjp(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_kernel_options o = laplace(&t[3]);
    const gram_kernel_grads grads = {.x = &t[4], .y = &t[5], .bandwidth = &t[6]};

    if (c->query)
        return gram_kernel_vjp_workspace(g, &t[0], &t[1], &o, &t[2], &grads, &c->need);
    return gram_kernel_vjp(g, &t[0], &t[1], &o, &t[2], &grads);
}

static gram_status kernel_matmul_vjp(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_kernel_options o = laplace(&t[4]);
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;

    grads.x = &t[5], grads.y = &t[6], grads.v = &t[7], grads.bandwidth = &t[8];
    if (c->query)
        return gram_kernel_matmul_vjp_workspace(g, &t[0], &t[1], &o, &t[2], &t[3], &grads,
                                                &c->need);
    return gram_kernel_matmul_vjp(g, &t[0], &t[1], &o, &t[2], &t[3], &grads);
}

static gram_status kernel_reduce_vjp(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_kernel_options o = laplace(&t[4]);
    gram_kernel_reduce_grads grads = GRAM_KERNEL_REDUCE_GRADS_INIT;
    gram_kernel_reduce_options options = GRAM_KERNEL_REDUCE_OPTIONS_INIT;

    options.log_weights = &t[5];
    grads.x = &t[6], grads.y = &t[7], grads.v = &t[8], grads.bandwidth = &t[9];
    grads.log_weights = &t[10];
    if (c->query)
        return gram_kernel_reduce_vjp_workspace(g, &t[0], &t[1], &o, GRAM_REDUCE_SOFTMAX, &t[2],
                                                &options, &t[3], &grads, &c->need);
    return gram_kernel_reduce_vjp(g, &t[0], &t[1], &o, GRAM_REDUCE_SOFTMAX, &t[2], &options, &t[3],
                                  &grads);
}

static gram_status cdist_grad(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_scalar p = gram_values(&t[4]);

    if (c->query)
        return gram_cdist_grad_workspace(g, &t[0], &t[1], &t[2], &t[3], p, &t[5], &c->need);
    return gram_cdist_grad(g, &t[0], &t[1], &t[2], &t[3], p, &t[5]);
}

static gram_status agop(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_scalar p = gram_values(&t[4]);

    if (c->query)
        return gram_agop_workspace(g, &t[0], &t[1], &t[2], &t[3], p, NULL, &t[5], &c->need);
    return gram_agop(g, &t[0], &t[1], &t[2], &t[3], p, NULL, &t[5]);
}

static gram_status cholesky_with(gram_context *g, struct shape_call *c, const gram_solve_options *o)
{
    gram_tensor *t = c->t;

    if (c->query)
        return gram_solve_cholesky_workspace(g, &t[0], &t[1], o, &t[2], &c->need);
    return gram_solve_cholesky(g, &t[0], &t[1], o, &t[2], &t[3]);
}

static gram_status cholesky(gram_context *g, struct shape_call *c)
{
    return cholesky_with(g, c, NULL);
}

static gram_status cholesky_keeps_its_factor(gram_context *g, struct shape_call *c)
{
    gram_solve_options o = GRAM_SOLVE_OPTIONS_INIT;

    o.factor = &c->t[4];
    return cholesky_with(g, c, &o);
}

static gram_status cholesky_jitters(gram_context *g, struct shape_call *c)
{
    static const double jitter[] = {0, 1e-8};
    gram_solve_options o = GRAM_SOLVE_OPTIONS_INIT;

    o.jitter = jitter, o.jitters = 2;
    o.rcond = &c->t[4], o.jittered = &c->t[5];
    return cholesky_with(g, c, &o);
}

static gram_status cholesky_refines(gram_context *g, struct shape_call *c)
{
    gram_solve_options o = GRAM_SOLVE_OPTIONS_INIT;

    o.refine = 1;
    o.backward = &c->t[4], o.refinings = &c->t[5];
    return cholesky_with(g, c, &o);
}

static gram_status lu_with(gram_context *g, struct shape_call *c, const gram_solve_options *o)
{
    gram_tensor *t = c->t;

    if (c->query)
        return gram_solve_lu_workspace(g, &t[0], &t[1], o, &t[2], &c->need);
    return gram_solve_lu(g, &t[0], &t[1], o, &t[2], &t[3]);
}

static gram_status lu(gram_context *g, struct shape_call *c)
{
    return lu_with(g, c, NULL);
}

static gram_status lu_keeps_its_factor(gram_context *g, struct shape_call *c)
{
    gram_solve_options o = GRAM_SOLVE_OPTIONS_INIT;

    o.factor = &c->t[4], o.pivots = &c->t[5];
    return lu_with(g, c, &o);
}

static gram_status matmul_batched(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    gram_matmul_options o = GRAM_MATMUL_OPTIONS_INIT;

    o.alpha = gram_values(&t[2]), o.beta = gram_values(&t[3]), o.c = &t[4];
    if (c->query)
        return gram_matmul_batched_workspace(g, &t[0], &t[1], &o, &t[5], &c->need);
    return gram_matmul_batched(g, &t[0], &t[1], &o, &t[5]);
}

static gram_status matmul_chunked(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;

    if (c->query)
        return gram_matmul_chunked_workspace(g, &t[0], &t[1], NULL, 0, &t[2], &c->need);
    return gram_matmul_chunked(g, &t[0], &t[1], NULL, 0, &t[2]);
}

static gram_status syrk_ema(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    gram_syrk_ema_options o = GRAM_SYRK_EMA_OPTIONS_INIT;

    o.beta = gram_values(&t[1]), o.alpha = gram_values(&t[2]);
    if (c->query)
        return gram_syrk_ema_workspace(g, &t[0], &o, &t[3], &c->need);
    return gram_syrk_ema(g, &t[0], &o, &t[3], &t[4]);
}

static gram_status eigh_with(gram_context *g, struct shape_call *c, const gram_eigh_options *o)
{
    gram_tensor *t = c->t;

    if (c->query)
        return gram_eigh_workspace(g, &t[0], o, &t[1], &t[2], &c->need);
    return gram_eigh(g, &t[0], o, &t[1], &t[2], &t[3]);
}

static gram_status eigh(gram_context *g, struct shape_call *c)
{
    return eigh_with(g, c, NULL);
}

static gram_status eigh_largest(gram_context *g, struct shape_call *c)
{
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;

    o.select = GRAM_EIGH_LARGEST, o.count = 1;
    o.driver = GRAM_EIGH_DRIVER_KRYLOV;
    return eigh_with(g, c, &o);
}

static gram_status eigh_kernel(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_kernel_options kernel = laplace(&t[1]);
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;

    o.select = GRAM_EIGH_LARGEST, o.count = 1;
    if (c->query)
        return gram_eigh_kernel_workspace(g, &t[0], &kernel, &o, &t[2], &t[3], &c->need);
    return gram_eigh_kernel(g, &t[0], &kernel, &o, &t[2], &t[3], &t[4]);
}

static gram_status power_with(gram_context *g, struct shape_call *c, gram_power_method method)
{
    gram_tensor *t = c->t;
    gram_matrix_power_options o = GRAM_MATRIX_POWER_OPTIONS_INIT;

    o.ridge = gram_values(&t[1]);
    o.error = &t[4];
    o.method = method;
    if (c->query)
        return gram_matrix_power_workspace(g, &t[0], &o, &t[2], &c->need);
    return gram_matrix_power(g, &t[0], &o, &t[2], &t[3]);
}

static gram_status power(gram_context *g, struct shape_call *c)
{
    return power_with(g, c, GRAM_POWER_EIGH);
}

static gram_status power_by_iterations(gram_context *g, struct shape_call *c)
{
    return power_with(g, c, GRAM_POWER_MINIMAX);
}

static gram_status kron(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_tensor *const factors[] = {&t[0], &t[1]};

    if (c->query)
        return gram_kron_workspace(g, factors, 2, &t[2], &c->need);
    return gram_kron(g, factors, 2, &t[2]);
}

static gram_status kron_matmul(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_tensor *const factors[] = {&t[1], &t[2]};
    gram_kron_options o = GRAM_KRON_OPTIONS_INIT;

    o.alpha = gram_values(&t[3]), o.beta = gram_values(&t[4]), o.z = &t[5];
    if (c->query)
        return gram_kron_matmul_workspace(g, &t[0], factors, 2, &o, &t[6], &c->need);
    return gram_kron_matmul(g, &t[0], factors, 2, &o, &t[6]);
}

static gram_status kron_matmul_vjp(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_tensor *const factors[] = {&t[2], &t[4]};
    const gram_kron_grads grads = {
        .x = &t[1], .factors = (gram_tensor *[]){&t[3], &t[5]}
    };

    if (c->query)
        return gram_kron_matmul_vjp_workspace(g, &t[0], factors, 2, NULL, &t[6], &grads, &c->need);
    return gram_kron_matmul_vjp(g, &t[0], factors, 2, NULL, &t[6], &grads);
}

static gram_status kron_diagonal(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_tensor *const factors[] = {&t[0], &t[1]};

    if (c->query)
        return gram_kron_diagonal_workspace(g, factors, 2, &t[2], &c->need);
    return gram_kron_diagonal(g, factors, 2, &t[2]);
}

static gram_status kron_trace(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;

    if (c->query) /* it takes no scratch, and has no query */
        return GRAM_OK;
    return gram_kron_trace(g, (const gram_tensor *[]){&t[0], &t[1]}, 2, &t[2]);
}

static gram_status kron_logdet(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_tensor *const factors[] = {&t[0], &t[1]};

    if (c->query)
        return gram_kron_logdet_workspace(g, factors, 2, &t[2], &t[3], &c->need);
    return gram_kron_logdet(g, factors, 2, &t[2], &t[3]);
}

static gram_status kron_solve_with(gram_context *g, struct shape_call *c, gram_kron_method method)
{
    gram_tensor *t = c->t;
    const gram_tensor *const factors[] = {&t[0], &t[1]};
    gram_kron_solve_options o = GRAM_KRON_SOLVE_OPTIONS_INIT;

    o.method = method;
    if (method == GRAM_KRON_EIGEN)
        o.shift = gram_values(&t[3]);
    if (c->query)
        return gram_kron_solve_workspace(g, factors, 2, &t[2], &o, &t[4], &c->need);
    return gram_kron_solve(g, factors, 2, &t[2], &o, &t[4], &t[5]);
}

static gram_status kron_solve(gram_context *g, struct shape_call *c)
{
    return kron_solve_with(g, c, GRAM_KRON_EIGEN);
}

static gram_status natural_gradient(gram_context *g, struct shape_call *c)
{
    gram_tensor *t = c->t;
    const gram_scalar damping = gram_values(&t[2]);

    if (c->query)
        return gram_natural_gradient_workspace(g, &t[0], &t[1], damping, &t[3], &c->need);
    return gram_natural_gradient(g, &t[0], &t[1], damping, &t[3], &t[4]);
}

/* clang-format off */
const struct shape_row shape_rows[] = {
    {"cdist", cdist, "x 4 3, y 5 3, p, out! 4 5"},
    {"cdist of x", symmetric, "x 4 3, out! 4 4"},
    {"kernel", kernel, "x 4 3, y 5 3, bandwidth, regularization, out! 4 5"},
    {"an expression", expression, "x 4 3, y 5 3, a, out! 4 5"},
    {"median_distance", median, "x 4 3, p, out!"},
    {"kernel_matmul", kernel_matmul, "x 4 3, y 5 3, v 5 2, bandwidth, out! 4 2"},
    {"kernel_matmul_vjp", kernel_matmul_vjp,
     "x 4 3, y 5 3, v 5 2, grad 4 2, bandwidth, to_x! 4 3, to_y! 5 3, to_v! 5 2, to_l!"},
    {"kernel_reduce_vjp", kernel_reduce_vjp,
     "x 4 3, y 5 3, v 5 2, grad 4 2, bandwidth, logs 5, to_x! 4 3, to_y! 5 3, to_v! 5 2, to_l!, "
     "to_logs! 5"},
    {"kernel_vjp", kernel_vjp, "x 4 3, y 5 3, grad~ 4 5, bandwidth, to_x! 4 3, to_y! 5 3, to_l!"},
    {"cdist_grad", cdist_grad, "a 6 4, b 3 6, c 2 6, d 3 4, p, out! 2 3 4"},
    {"agop", agop, "a 6 4, b 3 6, c 2 6, d 3 4, p, out! 3 3"},
    {"solve_cholesky", cholesky, "a 4 4, b 4 2, x! 4 2, info!"},
    {"cholesky, factor", cholesky_keeps_its_factor, "a 4 4, b 4 2, x! 4 2, info!, factor= 4 4"},
    {"cholesky, jitter", cholesky_jitters, "a 4 4, b 4 2, x! 4 2, info!, rcond=, jittered="},
    {"cholesky, refined", cholesky_refines, "a 4 4, b 4 2, x! 4 2, info!, backward!, info!"},
    {"solve_lu", lu, "a 4 4, b 4 2, x! 4 2, info!"},
    {"lu, factor", lu_keeps_its_factor, "a 4 4, b 4 2, x! 4 2, info!, factor= 4 4, pivots= 4"},
    {"matmul_batched", matmul_batched, "a 4 3, b 3 5, alpha, beta, c 4 5, out! 4 5"},
    {"matmul_chunked", matmul_chunked, "a 4 3, b 3 5, out! 4 5"},
    {"syrk_ema", syrk_ema, "x 4 3, beta, alpha, l! 4 4, info!"},
    {"eigh", eigh, "a 4 4, values! 4, vectors! 4 4, info!"},
    {"eigh, largest", eigh_largest, "a 4 4, values! 1, vectors! 4 1, info!"},
    {"eigh_kernel", eigh_kernel, "x 4 3, bandwidth, values! 1, vectors! 4 1, info!"},
    {"matrix_power", power, "a 4 4, ridge, out! 4 4, info!, error!"},
    {"matrix_power, minimax", power_by_iterations, "a 4 4, ridge, out! 4 4, info!, error!"},
    {"kron", kron, "f 2 3, f 4 2, out! 8 6"},
    {"kron_matmul", kron_matmul, "x 3 8, f 2 3, f 4 2, alpha, beta, z 3 6, y! 3 6"},
    {"kron_matmul_vjp", kron_matmul_vjp,
     "x 3 8, to_x+ 3 8, f 2 3, to_f+ 2 3, f 4 2, to_f+ 4 2, grad 3 6"},
    {"kron_diagonal", kron_diagonal, "f 2 2, f 3 3, out! 6"},
    {"kron_trace", kron_trace, "f 2 2, f 3 3, out!"},
    {"kron_logdet", kron_logdet, "f 2 2, f 3 3, sign!, out!"},
    {"kron_solve", kron_solve, "f 2 2, f 2 2, b 3 4, shift, x! 3 4, info!"},
    {"natural_gradient", natural_gradient, "j 5 3, v 3, damping, out! 3, info!"},
    {NULL, NULL, NULL},
};
/* clang-format on */
