/*
 * launch_kron.c - calls of Kronecker products of tiny items
 *
 * SPDX-License-Identifier: MIT
 */
#include "launch_calls.h"

gram_status launch_kron(struct launch_call *c)
{
    const gram_tensor *f[] = {launch_matrix(c, 2, 2), launch_matrix(c, 3, 3)};

    return gram_kron(c->g, f, 2, launch_matrix(c, 6, 6));
}

gram_status launch_kron_matmul(struct launch_call *c)
{
    const gram_tensor *f[] = {launch_matrix(c, 2, 2), launch_matrix(c, 3, 3)};

    return gram_kron_matmul(c->g, launch_matrix(c, 4, 6), f, 2, NULL, launch_matrix(c, 4, 6));
}

gram_status launch_kron_matmul_shared(struct launch_call *c)
{
    const gram_tensor *f[] = {launch_tensor(c, 0, GRAM_F32, 8, 8),
                              launch_tensor(c, 0, GRAM_F32, 8, 8)};

    return gram_kron_matmul(c->g, launch_matrix(c, 1, 64), f, 2, NULL, launch_matrix(c, 1, 64));
}

static gram_status kron_vjp(struct launch_call *c, const gram_tensor *f[2], gram_tensor *to[2])
{
    const gram_kron_grads grads = {.x = launch_matrix(c, 4, 6), .factors = to};

    return gram_kron_matmul_vjp(c->g, launch_matrix(c, 4, 6), f, 2, NULL, launch_matrix(c, 4, 6),
                                &grads);
}

gram_status launch_kron_matmul_vjp(struct launch_call *c)
{
    const gram_tensor *f[] = {launch_matrix(c, 2, 2), launch_matrix(c, 3, 3)};

    return kron_vjp(c, f, (gram_tensor *[]){launch_matrix(c, 2, 2), launch_matrix(c, 3, 3)});
}

gram_status launch_kron_matmul_vjp_shared(struct launch_call *c)
{
    const gram_tensor *f[] = {launch_tensor(c, 0, GRAM_F32, 2, 2),
                              launch_tensor(c, 0, GRAM_F32, 3, 3)};

    return kron_vjp(c, f,
                    (gram_tensor *[]){launch_tensor(c, 0, GRAM_F32, 2, 2),
                                      launch_tensor(c, 0, GRAM_F32, 3, 3)});
}

gram_status launch_kron_diagonal(struct launch_call *c)
{
    const gram_tensor *f[] = {launch_matrix(c, 2, 2), launch_matrix(c, 3, 3)};

    return gram_kron_diagonal(c->g, f, 2, launch_vector(c, 6));
}

gram_status launch_kron_trace(struct launch_call *c)
{
    const gram_tensor *f[] = {launch_matrix(c, 2, 2), launch_matrix(c, 3, 3)};

    return gram_kron_trace(c->g, f, 2, launch_number(c, GRAM_F32));
}

gram_status launch_kron_logdet(struct launch_call *c)
{
    const gram_tensor *f[] = {launch_matrix(c, 2, 2), launch_matrix(c, 3, 3)};

    return gram_kron_logdet(c->g, f, 2, launch_number(c, GRAM_F32), launch_number(c, GRAM_F32));
}

static gram_status kron_solve_by(struct launch_call *c, gram_kron_method method)
{
    const gram_tensor *f[] = {launch_matrix(c, 2, 2), launch_matrix(c, 3, 3)};
    gram_kron_solve_options o = GRAM_KRON_SOLVE_OPTIONS_INIT;

    o.method = method;
    return gram_kron_solve(c->g, f, 2, launch_matrix(c, 4, 6), &o, launch_matrix(c, 4, 6),
                           launch_number(c, GRAM_I32));
}

gram_status launch_kron_solve_lu(struct launch_call *c)
{
    return kron_solve_by(c, GRAM_KRON_LU);
}

gram_status launch_kron_solve_cholesky(struct launch_call *c)
{
    return kron_solve_by(c, GRAM_KRON_CHOLESKY);
}

gram_status launch_kron_solve_eigen(struct launch_call *c)
{
    return kron_solve_by(c, GRAM_KRON_EIGEN);
}
