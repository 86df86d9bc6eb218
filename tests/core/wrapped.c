/*
 * wrapped.c - the wrappers that --wrap puts before gram_<op>: arguments to a struct and back
 *
 * SPDX-License-Identifier: MIT
 */
#include "wrapped.h"

/* The linker's names: __wrap_ is called instead of the function, __real_ is the function. */
// NOLINTBEGIN(bugprone-reserved-identifier, readability-*)

/* ---- gram_cdist, gram_kernel, gram_median_distance ---------------------------------------- */

gram_status __real_gram_cdist(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                              gram_scalar p, const gram_cdist_options *options, gram_tensor *out);
gram_status __wrap_gram_cdist(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                              gram_scalar p, const gram_cdist_options *options, gram_tensor *out);

static gram_status run_cdist(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_cdist(g, c->tensors[0], c->tensors[1], c->p, c->options, c->out);
}

static gram_status cdist_workspace(gram_context *g, const struct wrapped_call *c,
                                   gram_workspace *need)
{
    return gram_cdist_workspace(g, c->tensors[0], c->tensors[1], c->p, c->options, c->out, need);
}

gram_status __wrap_gram_cdist(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                              gram_scalar p, const gram_cdist_options *options, gram_tensor *out)
{
    struct wrapped_call c = {.name = "gram_cdist", .run = run_cdist, .workspace = cdist_workspace};

    c.tensors[0] = x, c.tensors[1] = y;
    c.p = p, c.options = options;
    c.out = out;
    add_output(&c, out);
    return wrapped_torture(g, &c);
}

gram_status __real_gram_kernel(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                               const gram_kernel_options *options, gram_tensor *out);
gram_status __wrap_gram_kernel(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                               const gram_kernel_options *options, gram_tensor *out);

static gram_status run_kernel(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_kernel(g, c->tensors[0], c->tensors[1], c->options, c->out);
}

static gram_status kernel_workspace(gram_context *g, const struct wrapped_call *c,
                                    gram_workspace *need)
{
    return gram_kernel_workspace(g, c->tensors[0], c->tensors[1], c->options, c->out, need);
}

gram_status __wrap_gram_kernel(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                               const gram_kernel_options *options, gram_tensor *out)
{
    struct wrapped_call c = {
        .name = "gram_kernel", .run = run_kernel, .workspace = kernel_workspace};

    c.tensors[0] = x, c.tensors[1] = y;
    c.options = options;
    c.out = out;
    add_output(&c, out);
    return wrapped_torture(g, &c);
}

gram_status __real_gram_median_distance(gram_context *g, const gram_tensor *x, gram_scalar p,
                                        const gram_median_options *options, gram_tensor *out);
gram_status __wrap_gram_median_distance(gram_context *g, const gram_tensor *x, gram_scalar p,
                                        const gram_median_options *options, gram_tensor *out);

static gram_status run_median(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_median_distance(g, c->tensors[0], c->p, c->options, c->out);
}

static gram_status median_workspace(gram_context *g, const struct wrapped_call *c,
                                    gram_workspace *need)
{
    return gram_median_distance_workspace(g, c->tensors[0], c->p, c->options, c->out, need);
}

gram_status __wrap_gram_median_distance(gram_context *g, const gram_tensor *x, gram_scalar p,
                                        const gram_median_options *options, gram_tensor *out)
{
    struct wrapped_call c = {
        .name = "gram_median_distance", .run = run_median, .workspace = median_workspace};

    c.tensors[0] = x;
    c.p = p, c.options = options;
    c.out = out;
    add_output(&c, out);
    return wrapped_torture(g, &c);
}

/* ---- gram_nearest --------------------------------------------------------------------------- */

gram_status __real_gram_nearest(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                gram_scalar p, const gram_nearest_options *options,
                                gram_tensor *indices, gram_tensor *distances);
gram_status __wrap_gram_nearest(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                gram_scalar p, const gram_nearest_options *options,
                                gram_tensor *indices, gram_tensor *distances);

static gram_status run_nearest(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_nearest(g, c->tensors[0], c->tensors[1], c->p, c->options, c->info, c->out);
}

static gram_status nearest_workspace(gram_context *g, const struct wrapped_call *c,
                                     gram_workspace *need)
{
    return gram_nearest_workspace(g, c->tensors[0], c->tensors[1], c->p, c->options, c->info,
                                  c->out, need);
}

gram_status __wrap_gram_nearest(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                gram_scalar p, const gram_nearest_options *options,
                                gram_tensor *indices, gram_tensor *distances)
{
    struct wrapped_call c = {
        .name = "gram_nearest", .run = run_nearest, .workspace = nearest_workspace};

    c.tensors[0] = x, c.tensors[1] = y;
    c.p = p, c.options = options;
    c.info = indices, c.out = distances;
    add_output(&c, indices);
    add_output(&c, distances);
    add_output(&c, options ? options->counts : NULL);
    return wrapped_torture(g, &c);
}

/* ---- gram_kernel_reduce --------------------------------------------------------------------- */

gram_status __real_gram_kernel_reduce(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                      const gram_kernel_options *kernel, gram_reduction what,
                                      const gram_tensor *v,
                                      const gram_kernel_reduce_options *options, gram_tensor *out,
                                      gram_tensor *indices);
gram_status __wrap_gram_kernel_reduce(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                      const gram_kernel_options *kernel, gram_reduction what,
                                      const gram_tensor *v,
                                      const gram_kernel_reduce_options *options, gram_tensor *out,
                                      gram_tensor *indices);

static gram_status run_reduce(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_kernel_reduce(g, c->tensors[0], c->tensors[1], c->tensors[3],
                                     (gram_reduction)c->count, c->tensors[2], c->options, c->out,
                                     c->info);
}

static gram_status reduce_workspace(gram_context *g, const struct wrapped_call *c,
                                    gram_workspace *need)
{
    return gram_kernel_reduce_workspace(g, c->tensors[0], c->tensors[1], c->tensors[3],
                                        (gram_reduction)c->count, c->tensors[2], c->options, c->out,
                                        c->info, need);
}

gram_status __wrap_gram_kernel_reduce(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                      const gram_kernel_options *kernel, gram_reduction what,
                                      const gram_tensor *v,
                                      const gram_kernel_reduce_options *options, gram_tensor *out,
                                      gram_tensor *indices)
{
    struct wrapped_call c = {
        .name = "gram_kernel_reduce", .run = run_reduce, .workspace = reduce_workspace};

    c.tensors[0] = x, c.tensors[1] = y, c.tensors[2] = v, c.tensors[3] = kernel;
    c.count = (int64_t)what, c.options = options;
    c.out = out, c.info = indices;
    add_output(&c, out);
    add_output(&c, indices);
    return wrapped_torture(g, &c);
}

/* ---- gram_kernel_reduce_vjp ---------------------------------------------------------------- */

gram_status __real_gram_kernel_reduce_vjp(gram_context *g, const gram_tensor *x,
                                          const gram_tensor *y, const gram_kernel_options *kernel,
                                          gram_reduction what, const gram_tensor *v,
                                          const gram_kernel_reduce_options *options,
                                          const gram_tensor *grad,
                                          const gram_kernel_reduce_grads *grads);
gram_status __wrap_gram_kernel_reduce_vjp(gram_context *g, const gram_tensor *x,
                                          const gram_tensor *y, const gram_kernel_options *kernel,
                                          gram_reduction what, const gram_tensor *v,
                                          const gram_kernel_reduce_options *options,
                                          const gram_tensor *grad,
                                          const gram_kernel_reduce_grads *grads);

static gram_status run_reduce_vjp(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_kernel_reduce_vjp(g, c->tensors[0], c->tensors[1], c->tensors[4],
                                         (gram_reduction)c->count, c->tensors[2], c->options,
                                         c->tensors[3], c->tensors[5]);
}

static gram_status reduce_vjp_workspace(gram_context *g, const struct wrapped_call *c,
                                        gram_workspace *need)
{
    return gram_kernel_reduce_vjp_workspace(g, c->tensors[0], c->tensors[1], c->tensors[4],
                                            (gram_reduction)c->count, c->tensors[2], c->options,
                                            c->tensors[3], c->tensors[5], need);
}

gram_status __wrap_gram_kernel_reduce_vjp(gram_context *g, const gram_tensor *x,
                                          const gram_tensor *y, const gram_kernel_options *kernel,
                                          gram_reduction what, const gram_tensor *v,
                                          const gram_kernel_reduce_options *options,
                                          const gram_tensor *grad,
                                          const gram_kernel_reduce_grads *grads)
{
    struct wrapped_call c = {
        .name = "gram_kernel_reduce_vjp", .run = run_reduce_vjp, .workspace = reduce_vjp_workspace};

    c.tensors[0] = x, c.tensors[1] = y, c.tensors[2] = v, c.tensors[3] = grad;
    c.tensors[4] = kernel, c.tensors[5] = grads;
    c.count = (int64_t)what, c.options = options;
    add_output(&c, grads->x);
    add_output(&c, grads->y);
    add_output(&c, grads->v);
    add_output(&c, grads->log_weights);
    add_output(&c, grads->bandwidth);
    add_output(&c, grads->regularization);
    return wrapped_torture(g, &c);
}

/* ---- gram_kernel_matmul ------------------------------------------------------------------- */

gram_status __real_gram_kernel_matmul(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                      const gram_kernel_options *kernel, const gram_tensor *v,
                                      const gram_kernel_matmul_options *options, gram_tensor *out);
gram_status __wrap_gram_kernel_matmul(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                      const gram_kernel_options *kernel, const gram_tensor *v,
                                      const gram_kernel_matmul_options *options, gram_tensor *out);

static gram_status run_matmul(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_kernel_matmul(g, c->tensors[0], c->tensors[1], c->tensors[3], c->tensors[2],
                                     c->options, c->out);
}

static gram_status matmul_workspace(gram_context *g, const struct wrapped_call *c,
                                    gram_workspace *need)
{
    return gram_kernel_matmul_workspace(g, c->tensors[0], c->tensors[1], c->tensors[3],
                                        c->tensors[2], c->options, c->out, need);
}

gram_status __wrap_gram_kernel_matmul(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                      const gram_kernel_options *kernel, const gram_tensor *v,
                                      const gram_kernel_matmul_options *options, gram_tensor *out)
{
    struct wrapped_call c = {
        .name = "gram_kernel_matmul", .run = run_matmul, .workspace = matmul_workspace};

    c.tensors[0] = x, c.tensors[1] = y, c.tensors[2] = v, c.tensors[3] = kernel;
    c.options = options;
    c.out = out;
    add_output(&c, out);
    return wrapped_torture(g, &c);
}

/* ---- gram_kernel_matmul_vjp --------------------------------------------------------------- */

gram_status __real_gram_kernel_matmul_vjp(gram_context *g, const gram_tensor *x,
                                          const gram_tensor *y, const gram_kernel_options *kernel,
                                          const gram_tensor *v, const gram_tensor *grad,
                                          const gram_kernel_matmul_grads *grads);
gram_status __wrap_gram_kernel_matmul_vjp(gram_context *g, const gram_tensor *x,
                                          const gram_tensor *y, const gram_kernel_options *kernel,
                                          const gram_tensor *v, const gram_tensor *grad,
                                          const gram_kernel_matmul_grads *grads);

static gram_status run_matmul_vjp(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_kernel_matmul_vjp(g, c->tensors[0], c->tensors[1], c->options, c->tensors[2],
                                         c->tensors[3], c->tensors[4]);
}

static gram_status matmul_vjp_workspace(gram_context *g, const struct wrapped_call *c,
                                        gram_workspace *need)
{
    return gram_kernel_matmul_vjp_workspace(g, c->tensors[0], c->tensors[1], c->options,
                                            c->tensors[2], c->tensors[3], c->tensors[4], need);
}

gram_status __wrap_gram_kernel_matmul_vjp(gram_context *g, const gram_tensor *x,
                                          const gram_tensor *y, const gram_kernel_options *kernel,
                                          const gram_tensor *v, const gram_tensor *grad,
                                          const gram_kernel_matmul_grads *grads)
{
    struct wrapped_call c = {
        .name = "gram_kernel_matmul_vjp", .run = run_matmul_vjp, .workspace = matmul_vjp_workspace};

    c.tensors[0] = x, c.tensors[1] = y, c.tensors[2] = v, c.tensors[3] = grad, c.tensors[4] = grads;
    c.options = kernel;
    if (grads) {
        add_output(&c, grads->x);
        add_output(&c, grads->y);
        add_output(&c, grads->v);
        add_output(&c, grads->bandwidth);
        add_output(&c, grads->regularization);
        add_output(&c, grads->lengths);
    }
    return wrapped_torture(g, &c);
}

/* ---- gram_kernel_vjp ---------------------------------------------------------------------- */

gram_status __real_gram_kernel_vjp(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                   const gram_kernel_options *options, const gram_tensor *grad,
                                   const gram_kernel_grads *grads);
gram_status __wrap_gram_kernel_vjp(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                   const gram_kernel_options *options, const gram_tensor *grad,
                                   const gram_kernel_grads *grads);

static gram_status run_vjp(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_kernel_vjp(g, c->tensors[0], c->tensors[1], c->options, c->tensors[2],
                                  c->tensors[3]);
}

static gram_status vjp_workspace(gram_context *g, const struct wrapped_call *c,
                                 gram_workspace *need)
{
    return gram_kernel_vjp_workspace(g, c->tensors[0], c->tensors[1], c->options, c->tensors[2],
                                     c->tensors[3], need);
}

gram_status __wrap_gram_kernel_vjp(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                   const gram_kernel_options *options, const gram_tensor *grad,
                                   const gram_kernel_grads *grads)
{
    struct wrapped_call c = {.name = "gram_kernel_vjp", .run = run_vjp, .workspace = vjp_workspace};

    c.tensors[0] = x, c.tensors[1] = y, c.tensors[2] = grad, c.tensors[3] = grads;
    c.options = options;
    if (grads) {
        add_output(&c, grads->x);
        add_output(&c, grads->y);
        add_output(&c, grads->bandwidth);
        add_output(&c, grads->regularization);
        if (options && options->size == sizeof *options && options->lengths)
            add_output(&c, grads->lengths);
    }
    return wrapped_torture(g, &c);
}

/* ---- gram_cdist_grad, gram_agop ----------------------------------------------------------- */

gram_status __real_gram_cdist_grad(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                   const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                                   gram_tensor *out);
gram_status __wrap_gram_cdist_grad(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                   const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                                   gram_tensor *out);

static gram_status run_cdist_grad(gram_context *g, const struct wrapped_call *w)
{
    return __real_gram_cdist_grad(g, w->tensors[0], w->tensors[1], w->tensors[2], w->tensors[3],
                                  w->p, w->out);
}

static gram_status cdist_grad_workspace(gram_context *g, const struct wrapped_call *w,
                                        gram_workspace *need)
{
    return gram_cdist_grad_workspace(g, w->tensors[0], w->tensors[1], w->tensors[2], w->tensors[3],
                                     w->p, w->out, need);
}

gram_status __wrap_gram_cdist_grad(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                   const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                                   gram_tensor *out)
{
    struct wrapped_call w = {
        .name = "gram_cdist_grad", .run = run_cdist_grad, .workspace = cdist_grad_workspace};

    w.tensors[0] = a, w.tensors[1] = b, w.tensors[2] = c, w.tensors[3] = d;
    w.p = p;
    w.out = out;
    add_output(&w, out);
    return wrapped_torture(g, &w);
}

gram_status __real_gram_agop(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                             const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                             const gram_agop_options *options, gram_tensor *out);
gram_status __wrap_gram_agop(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                             const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                             const gram_agop_options *options, gram_tensor *out);

static gram_status run_agop(gram_context *g, const struct wrapped_call *w)
{
    return __real_gram_agop(g, w->tensors[0], w->tensors[1], w->tensors[2], w->tensors[3], w->p,
                            w->options, w->out);
}

static gram_status agop_workspace(gram_context *g, const struct wrapped_call *w,
                                  gram_workspace *need)
{
    return gram_agop_workspace(g, w->tensors[0], w->tensors[1], w->tensors[2], w->tensors[3], w->p,
                               w->options, w->out, need);
}

gram_status __wrap_gram_agop(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                             const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                             const gram_agop_options *options, gram_tensor *out)
{
    struct wrapped_call w = {.name = "gram_agop", .run = run_agop, .workspace = agop_workspace};

    w.tensors[0] = a, w.tensors[1] = b, w.tensors[2] = c, w.tensors[3] = d;
    w.p = p, w.options = options;
    w.out = out;
    add_output(&w, out);
    return wrapped_torture(g, &w);
}

/* ---- gram_solve_cholesky, gram_solve_lu --------------------------------------------------- */

static void solve_call(struct wrapped_call *c, const gram_tensor *a, const gram_tensor *b,
                       const gram_solve_options *options, gram_tensor *x, gram_tensor *info)
{
    c->tensors[0] = a, c->tensors[1] = b;
    c->options = options;
    c->out = x, c->info = info;
    add_output(c, x);
    if (options) {
        add_output(c, options->factor);
        if (!options->factored)
            add_output(c, options->pivots);
        add_output(c, options->rcond);
        add_output(c, options->jittered);
        add_output(c, options->backward);
        add_output(c, options->refinings);
    }
    if (info && x && is_info(info, x, 2))
        add_output(c, info);
}

gram_status __real_gram_solve_cholesky(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                       const gram_solve_options *options, gram_tensor *x,
                                       gram_tensor *info);
gram_status __wrap_gram_solve_cholesky(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                       const gram_solve_options *options, gram_tensor *x,
                                       gram_tensor *info);

static gram_status run_cholesky(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_solve_cholesky(g, c->tensors[0], c->tensors[1], c->options, c->out, c->info);
}

static gram_status cholesky_workspace(gram_context *g, const struct wrapped_call *c,
                                      gram_workspace *need)
{
    return gram_solve_cholesky_workspace(g, c->tensors[0], c->tensors[1], c->options, c->out, need);
}

gram_status __wrap_gram_solve_cholesky(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                       const gram_solve_options *options, gram_tensor *x,
                                       gram_tensor *info)
{
    struct wrapped_call c = {
        .name = "gram_solve_cholesky", .run = run_cholesky, .workspace = cholesky_workspace};

    solve_call(&c, a, b, options, x, info);
    return wrapped_torture(g, &c);
}

gram_status __real_gram_solve_lu(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                 const gram_solve_options *options, gram_tensor *x,
                                 gram_tensor *info);
gram_status __wrap_gram_solve_lu(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                 const gram_solve_options *options, gram_tensor *x,
                                 gram_tensor *info);

static gram_status run_lu(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_solve_lu(g, c->tensors[0], c->tensors[1], c->options, c->out, c->info);
}

static gram_status lu_workspace(gram_context *g, const struct wrapped_call *c, gram_workspace *need)
{
    return gram_solve_lu_workspace(g, c->tensors[0], c->tensors[1], c->options, c->out, need);
}

gram_status __wrap_gram_solve_lu(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                 const gram_solve_options *options, gram_tensor *x,
                                 gram_tensor *info)
{
    struct wrapped_call c = {.name = "gram_solve_lu", .run = run_lu, .workspace = lu_workspace};

    solve_call(&c, a, b, options, x, info);
    return wrapped_torture(g, &c);
}

/* ---- gram_kron_matmul ---------------------------------------------------------------------- */

gram_status __real_gram_kron_matmul(gram_context *g, const gram_tensor *x,
                                    const gram_tensor *const *factors, int64_t count,
                                    const gram_kron_options *options, gram_tensor *y);
gram_status __wrap_gram_kron_matmul(gram_context *g, const gram_tensor *x,
                                    const gram_tensor *const *factors, int64_t count,
                                    const gram_kron_options *options, gram_tensor *y);

static gram_status run_kron_matmul(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_kron_matmul(g, c->tensors[0], c->tensors[1], c->count, c->options, c->out);
}

static gram_status kron_matmul_workspace(gram_context *g, const struct wrapped_call *c,
                                         gram_workspace *need)
{
    return gram_kron_matmul_workspace(g, c->tensors[0], c->tensors[1], c->count, c->options, c->out,
                                      need);
}

gram_status __wrap_gram_kron_matmul(gram_context *g, const gram_tensor *x,
                                    const gram_tensor *const *factors, int64_t count,
                                    const gram_kron_options *options, gram_tensor *y)
{
    struct wrapped_call c = {
        .name = "gram_kron_matmul", .run = run_kron_matmul, .workspace = kron_matmul_workspace};

    c.tensors[0] = x, c.tensors[1] = factors;
    c.count = count, c.options = options;
    c.out = y;
    add_output(&c, y);
    return wrapped_torture(g, &c);
}
// NOLINTEND(bugprone-reserved-identifier, readability-*)
