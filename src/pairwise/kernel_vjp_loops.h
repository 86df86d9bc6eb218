/*
 * kernel_vjp_loops.h - template: the element-wise parts of gram_kernel_vjp, for one dtype
 *
 * Parameters: SOURCE and real; see each_dtype.h, and struct vjp_rows in cpu_kernel_vjp.c.
 *
 * SPDX-License-Identifier: MIT
 */
static void CAT(times_grad, SOURCE)(void *row, const void *grad, int64_t step, int64_t n)
{
    real *w = row;
    const real *g = grad;

    for (int64_t j = 0; j < n; j++)
        w[j] *= g[j * step];
}

static void CAT(zero, SOURCE)(void *row, int64_t step, int64_t n)
{
    real *x = row;

    for (int64_t k = 0; k < n; k++)
        x[k * step] = 0;
}

static double CAT(grad_sum, SOURCE)(const void *row, const void *grad, int64_t step, int64_t n)
{
    const real *w = row, *g = grad;
    double sum = 0;

    for (int64_t j = 0; j < n; j++)
        sum += (double)(w ? w[j] : 1) * (double)g[j * step];
    return sum;
}

static double CAT(norm, SOURCE)(const void *row, int64_t step, int64_t n)
{
    const real *x = row;
    double sum = 0;

    for (int64_t k = 0; k < n; k++)
        sum += (double)x[k * step] * (double)x[k * step];
    return sqrt(sum);
}

static void CAT(cosine_row, SOURCE)(void *row, const void *grad, int64_t step, double norm,
                                    const double *norms, int64_t n)
{
    real *w = row;
    const real *g = grad;

    for (int64_t j = 0; j < n; j++) {
        double scale = norm * norms[j];
        w[j] = scale == 0 ? 0 : (real)((double)g[j * step] / scale);
    }
}

static void CAT(cosine_correct, SOURCE)(void *to, int64_t to_step, const void *row, int64_t step,
                                        double factor, int64_t n)
{
    real *out = to;
    const real *x = row;

    for (int64_t k = 0; k < n; k++)
        out[k * to_step] -= (real)(factor * (double)x[k * step]);
}
