/*
 * py_xla_calls.c - the operations of gram.jax, except those on kernels
 *
 * Each operation lists its arrays, integers and numbers, in the order of gram/_jax_algebra.py and
 * gram/_jax_points.py.  An item of a batch that fails becomes NaN, as in JAX itself; every solve
 * therefore has an array for info among its results.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_xla.h"

/* x, y (optional) -> distances; root | p */
static gram_status cdist(gram_context *g, struct py_xla_call *c)
{
    gram_cdist_options options = GRAM_CDIST_OPTIONS_INIT;

    options.no_root = !c->integers[0];
    return gram_cdist(g, &c->in[0], c->in_count > 1 ? &c->in[1] : NULL, gram_number(c->numbers[0]),
                      &options, &c->out[0]);
}

/* x -> medians; root, rows, seed | p */
static gram_status median_distance(gram_context *g, struct py_xla_call *c)
{
    gram_median_options options = GRAM_MEDIAN_OPTIONS_INIT;

    options.no_root = !c->integers[0];
    options.rows = c->integers[1];
    options.seed = (uint64_t)c->integers[2];
    return gram_median_distance(g, &c->in[0], gram_number(c->numbers[0]), &options, &c->out[0]);
}

/* a, b, c, d -> gradients; | p */
static gram_status cdist_grad(gram_context *g, struct py_xla_call *c)
{
    return gram_cdist_grad(g, &c->in[0], &c->in[1], &c->in[2], &c->in[3],
                           gram_number(c->numbers[0]), &c->out[0]);
}

/* a, b, c, d -> products; diagonal, points | p */
static gram_status agop(gram_context *g, struct py_xla_call *c)
{
    gram_agop_options options = GRAM_AGOP_OPTIONS_INIT;

    options.diagonal = c->integers[0] != 0;
    options.points = c->integers[1];
    return gram_agop(g, &c->in[0], &c->in[1], &c->in[2], &c->in[3], gram_number(c->numbers[0]),
                     &options, &c->out[0]);
}

/* a -> factor, info; lower |: no right-hand side */
static gram_status cholesky(gram_context *g, struct py_xla_call *c)
{
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;
    gram_tensor none = c->in[0];

    options.uplo = c->integers[0] ? GRAM_LOWER : GRAM_UPPER;
    options.factor = &c->out[0];
    if (none.ndim >= 2)
        none.shape[none.ndim - 1] = 0;
    return gram_solve_cholesky(g, &c->in[0], &none, &options, &none, &c->out[1]);
}

/* factor, b -> x, info; lower | */
static gram_status solve_factored(gram_context *g, struct py_xla_call *c)
{
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;

    options.uplo = c->integers[0] ? GRAM_LOWER : GRAM_UPPER;
    options.factored = 1;
    return gram_solve_cholesky(g, &c->in[0], &c->in[1], &options, &c->out[0], &c->out[1]);
}

/* a, b -> x, info */
static gram_status solve_lu(gram_context *g, struct py_xla_call *c)
{
    return gram_solve_lu(g, &c->in[0], &c->in[1], NULL, &c->out[0], &c->out[1]);
}

/* a -> values, vectors, info; lower, select, first, count | */
static gram_status eigh(gram_context *g, struct py_xla_call *c)
{
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;

    options.uplo = c->integers[0] ? GRAM_LOWER : GRAM_UPPER;
    options.select = (gram_eigh_select)c->integers[1];
    options.first = c->integers[2];
    options.count = c->integers[3];
    return gram_eigh(g, &c->in[0], &options, &c->out[0], &c->out[1], &c->out[2]);
}

/* a -> power, info; numerator, denominator, method, lower | ridge, power, floor */
static gram_status matrix_power(gram_context *g, struct py_xla_call *c)
{
    gram_matrix_power_options options = GRAM_MATRIX_POWER_OPTIONS_INIT;

    options.numerator = (int)c->integers[0];
    options.denominator = (int)c->integers[1];
    options.method = (gram_power_method)c->integers[2];
    options.uplo = c->integers[3] ? GRAM_LOWER : GRAM_UPPER;
    options.ridge = gram_number(c->numbers[0]);
    options.power = c->numbers[1];
    options.floor = c->numbers[2];
    return gram_matrix_power(g, &c->in[0], &options, &c->out[0], &c->out[1]);
}

static gram_kron_options product_options(const struct py_xla_call *c)
{
    gram_kron_options options = GRAM_KRON_OPTIONS_INIT;

    options.side = (gram_side)c->integers[0];
    options.alpha = gram_number(c->numbers[0]);
    return options;
}

/* x, factors -> product; side | alpha */
static gram_status kron_matmul(gram_context *g, struct py_xla_call *c)
{
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    gram_kron_options options = product_options(c);

    for (int i = 1; i < c->in_count; i++)
        factors[i - 1] = &c->in[i];
    return gram_kron_matmul(g, &c->in[0], factors, c->in_count - 1, &options, &c->out[0]);
}

/* gradient, x, factors -> gradients of x and of the factors; side | alpha */
static gram_status kron_matmul_vjp(gram_context *g, struct py_xla_call *c)
{
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    gram_tensor *of[GRAM_MAX_FACTORS];
    gram_kron_options options = product_options(c);
    gram_kron_grads grads = {&c->out[0], of};

    c->wrong = c->out_count != c->in_count - 1;
    if (c->wrong)
        return GRAM_INVALID_ARGUMENT;
    for (int i = 2; i < c->in_count; i++) {
        factors[i - 2] = &c->in[i];
        of[i - 2] = &c->out[i - 1];
    }
    return gram_kron_matmul_vjp(g, &c->in[1], factors, c->in_count - 2, &options, &c->in[0],
                                &grads);
}

const struct py_xla_operation *py_xla_operation(const struct xla_text *name)
{
    enum {
        FACTORS = GRAM_MAX_FACTORS
    };
    static const struct py_xla_operation table[] = {
        {          "cdist",           cdist, 1,           2, 1,           1, 1, 1},
        {"median_distance", median_distance, 1,           1, 1,           1, 3, 1},
        {     "cdist_grad",      cdist_grad, 4,           4, 1,           1, 0, 1},
        {           "agop",            agop, 4,           4, 1,           1, 2, 1},
        {       "cholesky",        cholesky, 1,           1, 2,           2, 1, 0},
        { "solve_factored",  solve_factored, 2,           2, 2,           2, 1, 0},
        {       "solve_lu",        solve_lu, 2,           2, 2,           2, 0, 0},
        {           "eigh",            eigh, 1,           1, 3,           3, 4, 0},
        {   "matrix_power",    matrix_power, 1,           1, 2,           2, 4, 3},
        {    "kron_matmul",     kron_matmul, 2, 1 + FACTORS, 1,           1, 1, 1},
        {"kron_matmul_vjp", kron_matmul_vjp, 3, 2 + FACTORS, 2, 1 + FACTORS, 1, 1},
        {             NULL,            NULL, 0,           0, 0,           0, 0, 0},
    };

    return py_xla_find(table, name);
}
