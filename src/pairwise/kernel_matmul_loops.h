/*
 * kernel_matmul_loops.h - template: moves v, sums and out of one dtype
 *
 * Parameters: SOURCE and real; see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */

static void CAT(v_by_rows, SOURCE)(const struct v_rows *from, real *to)
{
    const struct gram_view *v = &from->v;

    for (int64_t r = 0; r < v->rows; r++, to += from->padded) {
        const real *row = (const real *)v->data + r * v->row_stride;
        for (int64_t c = 0; c < v->cols; c++)
            to[c] = row[c * v->col_stride];
        for (int64_t c = v->cols; c < from->padded; c++)
            to[c] = 0;
    }
}

static void CAT(v_by_columns, SOURCE)(const struct v_rows *from, real *to)
{
    const struct gram_view *v = &from->v;

    for (int64_t c = 0; c < from->padded; c++, to += from->edge) {
        const int64_t rows = c < v->cols ? v->rows : 0;
        const real *column = (const real *)v->data + (c < v->cols ? c * v->col_stride : 0);
        for (int64_t r = 0; r < rows; r++)
            to[r] = column[r * v->row_stride];
        for (int64_t r = rows; r < from->edge; r++)
            to[r] = 0;
    }
}

/* to[r*cols + c] += from[c*ld + r] */
static void CAT(add_columns, SOURCE)(const real *from, int64_t ld, int64_t rows, int64_t cols,
                                     double *to)
{
    for (int64_t r = 0; r < rows; r++, to += cols)
        for (int64_t c = 0; c < cols; c++)
            to[c] += (double)from[c * ld + r];
}

/* Sums become out, or are added to it. */
static void CAT(finish, SOURCE)(const struct gram_view *out, bool accumulate, const double *sums)
{
    for (int64_t r = 0; r < out->rows; r++, sums += out->cols) {
        real *row = (real *)out->data + r * out->row_stride;
        for (int64_t c = 0; c < out->cols; c++) {
            real *to = row + c * out->col_stride;
            *to = (real)(accumulate ? (double)*to + sums[c] : sums[c]);
        }
    }
}
