/*
 * kernel_reduce_vjp_loops.h - template: rows of gram_kernel_reduce_vjp, of one dtype
 *
 * Parameters: SOURCE and real; see each_dtype.h, and cpu_kernel_reduce_vjp.c.
 *
 * SPDX-License-Identifier: MIT
 */

/* to[j] = scale row[j] + logs[j] - logarithm, in double and rounded once */
static void CAT(exponents, SOURCE)(const struct soft_row *row, int64_t first, int64_t count,
                                   void *to)
{
    const real *values = (const real *)row->values + first, *logs = row->logs;
    real *e = to;

    for (int64_t j = 0; j < count; j++)
        e[j] = (real)(row->scale * (double)values[j] - row->logarithm);
    for (int64_t j = 0; logs && j < count; j++)
        e[j] = (real)(row->scale * (double)values[j] +
                      (double)logs[(first + j) * row->logs_stride] - row->logarithm);
}

/* The row's values become weights, and its cotangent that of the kernel. */
static void CAT(weigh_row, SOURCE)(const struct soft_row *row, int64_t first, int64_t count,
                                   const void *weights)
{
    const real *w = weights;
    real *values = (real *)row->values + first, *d = (real *)row->cotangent + first;
    const double factor = row->factor;

    for (int64_t j = 0; j < count; j++)
        values[j] = w[j];
    if (row->is_average)
        for (int64_t j = 0; j < count; j++)
            d[j] = (real)(factor * (double)w[j] * ((double)d[j] - row->mean));
    else
        for (int64_t j = 0; j < count; j++)
            d[j] = (real)(factor * (double)w[j] * row->mean);
}

static void CAT(scale_row, SOURCE)(void *row, double scale, int64_t n)
{
    real *d = row;

    for (int64_t j = 0; j < n; j++)
        d[j] = (real)(scale * (double)d[j]);
}

/* sums[j] += row[j] */
static void CAT(add_row, SOURCE)(const void *row, int64_t n, double *sums)
{
    const real *d = row;

    for (int64_t j = 0; j < n; j++)
        sums[j] += (double)d[j];
}

static void CAT(store_row, SOURCE)(const struct gram_view *to, const double *sums)
{
    for (int64_t j = 0; j < to->cols; j++)
        ((real *)to->data)[j * to->col_stride] = (real)sums[j];
}

/* The sum of the products of row i of two matrices of one size. */
static double CAT(dot_row, SOURCE)(const struct gram_view *a, const struct gram_view *b, int64_t i)
{
    const real *u = (const real *)a->data + i * a->row_stride;
    const real *v = (const real *)b->data + i * b->row_stride;
    double sum = 0;

    for (int64_t c = 0; c < a->cols; c++)
        sum += (double)u[c * a->col_stride] * (double)v[c * b->col_stride];
    return sum;
}
