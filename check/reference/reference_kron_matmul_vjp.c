/*
 * reference_kron_matmul_vjp.c - the gradients of a product with Kronecker factors, term by term
 *
 * y[m, j] = alpha sum_k x[m, k] f_1[k_1, j_1] ... f_N[k_N, j_N]: each of its terms adds to the
 * gradient of x and of every factor the product of what else is in it.  The rows m of one k and j
 * have all elements of factors in common.
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"

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
