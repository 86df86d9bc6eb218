/*
 * kernel_matmul_vjp_loops.h - template: moves rows and sums of gram_kernel_matmul_vjp, of one dtype
 *
 * Parameters: SOURCE and real; see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */

/* Rows of a matrix, `stride` numbers apart, with zeros behind them up to `padded`. */
static void CAT(rows_of, SOURCE)(const struct gram_view *v, int64_t padded, int64_t stride,
                                 void *to_rows)
{
    real *to = to_rows;

    for (int64_t r = 0; r < v->rows; r++, to += stride) {
        const real *row = (const real *)v->data + r * v->row_stride;
        for (int64_t c = 0; c < v->cols; c++)
            to[c] = row[c * v->col_stride];
        for (int64_t c = v->cols; c < padded; c++)
            to[c] = 0;
    }
}

static void CAT(add_tile, SOURCE)(const void *tile, int64_t count, double *sums)
{
    const real *from = tile;

    for (int64_t i = 0; i < count; i++)
        sums[i] += (double)from[i];
}

/* to[r][c] = sign times the sum over p < parts of sums[p part + c column + r row] */
static void CAT(store_sums, SOURCE)(const struct gram_view *to, const struct vjp_sums *sums)
{
    for (int64_t c = 0; c < to->cols; c++)
        for (int64_t r = 0; r < to->rows; r++) {
            const double *from = sums->data + c * sums->column + r * sums->row;
            double sum = 0;
            for (int64_t p = 0; p < sums->parts; p++)
                sum += from[p * sums->part];
            ((real *)to->data)[r * to->row_stride + c * to->col_stride] = (real)(sums->sign * sum);
        }
}

/* The sum of the products of the elements of two matrices of one size. */
static double CAT(dot, SOURCE)(const struct gram_view *a, const struct gram_view *b)
{
    double total = 0;

    for (int64_t r = 0; r < a->rows; r++) {
        const real *u = (const real *)a->data + r * a->row_stride;
        const real *v = (const real *)b->data + r * b->row_stride;
        double sum = 0;
        for (int64_t c = 0; c < a->cols; c++)
            sum += (double)u[c * a->col_stride] * (double)v[c * b->col_stride];
        total += sum;
    }
    return total;
}
