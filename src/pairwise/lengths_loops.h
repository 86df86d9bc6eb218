/*
 * lengths_loops.h - template: rows divided by lengths, and what sums of columns become
 *
 * Parameters: SOURCE, stored, real, HALF, LOAD; see each_dtype.h, and cpu_lengths.c.
 *
 * SPDX-License-Identifier: MIT
 */
static void CAT(divide_row, SOURCE)(const struct divide_row *row)
{
    const stored *in = row->in, *centre = row->centre;
    const real *lengths = row->lengths;
    real *out = row->out;

    for (int64_t k = 0; k < row->cols; k++) {
        double c = centre ? (double)LOAD(centre[k * row->centre_step]) : 0;
        c = fabs(c) <= GRAM_FAR_AWAY ? c : 0;
        out[k * row->out_step] = (real)(((double)LOAD(in[k * row->in_step]) - c) /
                                        (lengths ? (double)lengths[k * row->lengths_step] : 1));
    }
}

#if !HALF
/* sums[k] += the sum over the rows of v[i][k] to[i][k] */
static void CAT(add_products, SOURCE)(const struct gram_view *v, const struct gram_view *to,
                                      int64_t cols, double *sums)
{
    const real *a = (const real *)v->data, *b = (const real *)to->data;

    for (int64_t i = 0; i < v->rows; i++)
        for (int64_t k = 0; k < cols; k++)
            sums[k] += (double)a[i * v->row_stride + k * v->col_stride] *
                       (double)b[i * to->row_stride + k * to->col_stride];
}

static void CAT(store_gradient, SOURCE)(const struct gram_view *lengths,
                                        const struct gram_view *out, int64_t cols,
                                        const double *sums)
{
    const real *l = (const real *)lengths->data;
    real *to = (real *)out->data;

    for (int64_t k = 0; k < cols; k++)
        to[k * out->col_stride] = (real)((0 - sums[k]) / (double)l[k * lengths->col_stride]);
}
#endif
