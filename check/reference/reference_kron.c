/*
 * reference_kron.c - Kronecker products, products with them and their gradients, term by term
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

/* ---- One element of every factor ------------------------------------------------------------- */

double reference_kron(const gram_tensor *const *factors, int count,
                      const struct reference_batch *batch, const int64_t item_ij[3])
{
    int64_t i = item_ij[1], j = item_ij[2];
    double value = 1;

    for (int f = count - 1; f >= 0; f--) {
        const gram_tensor *t = factors[f];
        int64_t rows = t->shape[t->ndim - 2], cols = t->shape[t->ndim - 1];
        value *= reference_element(t, batch, item_ij[0], 2, (int64_t[]){i % rows, j % cols});
        i /= rows;
        j /= cols;
    }
    return value;
}

/* ---- Products: a sum over a row of x, each term times one element of every factor ------------ */

/* An element of a matrix, or of its transpose. */
static double element_of(const gram_tensor *t, const struct reference_batch *batch, int64_t item,
                         bool transposed, int64_t i, int64_t j)
{
    return reference_element(t, batch, item, 2, transposed ? (int64_t[]){j, i} : (int64_t[]){i, j});
}

static int64_t size_of(const gram_tensor *t, bool transposed, int dimension)
{
    return t->shape[t->ndim - 2 + (transposed ? 1 - dimension : dimension)];
}

/* The factors of term k of y[i, j]: x's element, then one of each factor, in values. */
static void term(const struct reference_kron_matmul *in, const struct reference_batch *batch,
                 const int64_t item_ij[3], int64_t k, double *values)
{
    const gram_kron_options *o = in->options;
    bool left = o->side == GRAM_LEFT;
    int64_t row = left ? item_ij[1] : k, col = left ? k : item_ij[2];

    values[0] = left ? element_of(in->x, batch, item_ij[0], o->transpose_x, k, item_ij[2])
                     : element_of(in->x, batch, item_ij[0], o->transpose_x, item_ij[1], k);
    for (int f = in->count - 1; f >= 0; f--) {
        bool transposed = o->transpose_factors >> f & 1;
        int64_t rows = size_of(in->factors[f], transposed, 0);
        int64_t cols = size_of(in->factors[f], transposed, 1);
        values[1 + f] =
            element_of(in->factors[f], batch, item_ij[0], transposed, row % rows, col % cols);
        row /= rows, col /= cols;
    }
}

static int64_t terms(const struct reference_kron_matmul *in)
{
    const gram_kron_options *o = in->options;

    return size_of(in->x, o->transpose_x, o->side == GRAM_LEFT ? 0 : 1);
}

double reference_kron_matmul(const struct reference_kron_matmul *in,
                             const struct reference_batch *batch, const int64_t item_ij[3],
                             double *magnitude)
{
    double alpha = reference_scalar(in->options->alpha, batch, item_ij[0]);
    double beta = reference_scalar(in->options->beta, batch, item_ij[0]);
    double values[1 + GRAM_MAX_FACTORS], sum = 0, z = 0;

    *magnitude = 0;
    for (int64_t k = 0, n = terms(in); k < n; k++) {
        double product = 1;
        term(in, batch, item_ij, k, values);
        for (int f = 0; f <= in->count; f++)
            product *= values[f];
        sum += product;
        *magnitude += fabs(product);
    }
    if (beta != 0)
        z = beta * reference_element(in->options->z, batch, item_ij[0], 2, item_ij + 1);
    *magnitude = fabs(alpha) * *magnitude + fabs(z);
    return alpha * sum + z;
}

uint64_t reference_kron_matmul_integer(const struct reference_kron_matmul *in,
                                       const struct reference_batch *batch,
                                       const int64_t item_ij[3])
{
    double alpha = reference_scalar(in->options->alpha, batch, item_ij[0]);
    double beta = reference_scalar(in->options->beta, batch, item_ij[0]);
    double values[1 + GRAM_MAX_FACTORS], z = 0;
    uint64_t sum = 0;

    for (int64_t k = 0, n = terms(in); k < n; k++) {
        uint64_t product = 1;
        term(in, batch, item_ij, k, values);
        for (int f = 0; f <= in->count; f++)
            product *= (uint64_t)(int64_t)values[f];
        sum += product;
    }
    if (beta != 0)
        z = reference_element(in->options->z, batch, item_ij[0], 2, item_ij + 1);
    return (uint64_t)(int64_t)alpha * sum + (uint64_t)(int64_t)beta * (uint64_t)(int64_t)z;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/*
 * y[m, j] = alpha sum_k x[m, k] f_1[k_1, j_1] ... f_N[k_N, j_N]: each of its terms adds to the
 * gradient of x and of every factor the product of what else is in it.  The rows m of one k and j
 * have all elements of factors in common.
 */

/* Takes the parts of k and j that belong to each factor, the last one's first. */
static void split(const struct reference_kron_vjp *in, int64_t k, int64_t j, int64_t *at)
{
    for (int f = in->count - 1; f >= 0; f--) {
        int64_t p = k % in->size[f][0], q = j % in->size[f][1];
        at[f] = p * in->size[f][1] + q;
        k /= in->size[f][0];
        j /= in->size[f][1];
    }
}

/* The product of one element of every factor but the without'th; of all for -1. */
static double product(const struct reference_kron_vjp *in, const int64_t *at, int without)
{
    double value = 1;

    for (int f = 0; f < in->count; f++)
        value *= f == without ? 1 : in->factor[f][at[f]];
    return value;
}

void reference_kron_matmul_vjp(const struct reference_kron_vjp *in, double *to_x,
                               double *const *to_factor)
{
    int64_t at[GRAM_MAX_FACTORS], k_count = 1, j_count = 1;
    double all, sum;

    for (int f = 0; f < in->count; f++) {
        k_count *= in->size[f][0];
        j_count *= in->size[f][1];
    }
    for (int64_t k = 0; k < k_count; k++)
        for (int64_t j = 0; j < j_count; j++) {
            split(in, k, j, at);
            all = product(in, at, -1);
            sum = 0;
            for (int64_t m = 0; m < in->rows; m++) {
                double grad = in->alpha * in->grad[m * j_count + j];
                to_x[m * k_count + k] += grad * all;
                sum += grad * in->x[m * k_count + k];
            }
            for (int f = 0; f < in->count; f++)
                to_factor[f][at[f]] += sum * product(in, at, f);
        }
}
