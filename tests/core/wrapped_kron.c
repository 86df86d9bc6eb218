/*
 * wrapped_kron.c - the wrappers of wrapped.c for Kronecker products
 *
 * SPDX-License-Identifier: MIT
 */
#include "wrapped.h"

// NOLINTBEGIN(bugprone-reserved-identifier, readability-*)

/* ---- gram_kron ---------------------------------------------------------------------------- */

gram_status __real_gram_kron(gram_context *g, const gram_tensor *const *factors, int64_t count,
                             gram_tensor *out);
gram_status __wrap_gram_kron(gram_context *g, const gram_tensor *const *factors, int64_t count,
                             gram_tensor *out);

static gram_status run_kron(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_kron(g, c->tensors[0], c->count, c->out);
}

static gram_status kron_workspace(gram_context *g, const struct wrapped_call *c,
                                  gram_workspace *need)
{
    return gram_kron_workspace(g, c->tensors[0], c->count, c->out, need);
}

gram_status __wrap_gram_kron(gram_context *g, const gram_tensor *const *factors, int64_t count,
                             gram_tensor *out)
{
    struct wrapped_call c = {.name = "gram_kron", .run = run_kron, .workspace = kron_workspace};

    c.tensors[0] = factors, c.count = count;
    c.out = out;
    add_output(&c, out);
    return wrapped_torture(g, &c);
}

/* ---- gram_kron_matmul_vjp ----------------------------------------------------------------- */

gram_status __real_gram_kron_matmul_vjp(gram_context *g, const gram_tensor *x,
                                        const gram_tensor *const *factors, int64_t count,
                                        const gram_kron_options *options, const gram_tensor *grad,
                                        const gram_kron_grads *grads);
gram_status __wrap_gram_kron_matmul_vjp(gram_context *g, const gram_tensor *x,
                                        const gram_tensor *const *factors, int64_t count,
                                        const gram_kron_options *options, const gram_tensor *grad,
                                        const gram_kron_grads *grads);

static gram_status run_kron_vjp(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_kron_matmul_vjp(g, c->tensors[0], c->tensors[1], c->count, c->options,
                                       c->tensors[2], c->tensors[3]);
}

static gram_status kron_vjp_workspace(gram_context *g, const struct wrapped_call *c,
                                      gram_workspace *need)
{
    return gram_kron_matmul_vjp_workspace(g, c->tensors[0], c->tensors[1], c->count, c->options,
                                          c->tensors[2], c->tensors[3], need);
}

gram_status __wrap_gram_kron_matmul_vjp(gram_context *g, const gram_tensor *x,
                                        const gram_tensor *const *factors, int64_t count,
                                        const gram_kron_options *options, const gram_tensor *grad,
                                        const gram_kron_grads *grads)
{
    struct wrapped_call c = {
        .name = "gram_kron_matmul_vjp", .run = run_kron_vjp, .workspace = kron_vjp_workspace};

    c.tensors[0] = x, c.tensors[1] = factors, c.tensors[2] = grad, c.tensors[3] = grads;
    c.count = count, c.options = options;
    add_output(&c, grads->x);
    for (int64_t i = 0; grads->factors && i < count && c.output_count < WRAPPED_OUTPUTS; i++)
        add_output(&c, grads->factors[i]);
    return wrapped_torture(g, &c);
}

/* ---- gram_kron_solve ---------------------------------------------------------------------- */

gram_status __real_gram_kron_solve(gram_context *g, const gram_tensor *const *factors,
                                   int64_t count, const gram_tensor *b,
                                   const gram_kron_solve_options *options, gram_tensor *x,
                                   gram_tensor *info);
gram_status __wrap_gram_kron_solve(gram_context *g, const gram_tensor *const *factors,
                                   int64_t count, const gram_tensor *b,
                                   const gram_kron_solve_options *options, gram_tensor *x,
                                   gram_tensor *info);

static gram_status run_kron_solve(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_kron_solve(g, c->tensors[0], c->count, c->tensors[1], c->options, c->out,
                                  c->info);
}

static gram_status kron_solve_workspace(gram_context *g, const struct wrapped_call *c,
                                        gram_workspace *need)
{
    return gram_kron_solve_workspace(g, c->tensors[0], c->count, c->tensors[1], c->options, c->out,
                                     need);
}

gram_status __wrap_gram_kron_solve(gram_context *g, const gram_tensor *const *factors,
                                   int64_t count, const gram_tensor *b,
                                   const gram_kron_solve_options *options, gram_tensor *x,
                                   gram_tensor *info)
{
    struct wrapped_call c = {
        .name = "gram_kron_solve", .run = run_kron_solve, .workspace = kron_solve_workspace};

    c.tensors[0] = factors, c.tensors[1] = b;
    c.count = count, c.options = options;
    c.out = x, c.info = info;
    add_output(&c, x);
    add_output(&c, info);
    return wrapped_torture(g, &c);
}
// NOLINTEND(bugprone-reserved-identifier, readability-*)
