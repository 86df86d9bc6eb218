/*
 * syrk_ema_loops.h - template: a panel of a Gram matrix added to the average, and what is finite
 *
 * Parameters: SOURCE and real; see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */

/* Columns [first, last) of the rows of a panel, those of the upper triangle, in tiles: the mirror
 * image is written along columns. */
static void CAT(ema_add, SOURCE)(const struct ema_panel *p, int64_t first, int64_t last)
{
    const struct gram_view *l = p->l;
    const real *product = p->product;
    real beta = (real)p->beta, *out = (real *)p->data;

    for (int64_t i = p->row; i < p->row + p->rows; i++) {
        int64_t from = first > i ? first : i;
        const real *row = product + (i - p->row) * p->width - p->row;
        real *at = out + i * l->row_stride;
        if (p->packed) /* an element (i, j) of the triangle is number i (2 n - i - 1) / 2 + j */
            at = out + (i % 2 == 0 ? i / 2 * (2 * p->n - i - 1) : (2 * p->n - i - 1) / 2 * i) *
                           l->col_stride;
        for (int64_t j = from; j < last; j++) {
            real *to = at + j * l->col_stride;
            real value = p->beta == 0 ? row[j] : beta * *to + row[j];
            *to = value;
            if (!p->packed)
                out[j * l->row_stride + i * l->col_stride] = value;
        }
    }
}

/* The sum of the squares of a matrix: not finite, as a real, where an element of its Gram matrix
 * could be so. */
static bool CAT(ema_finite, SOURCE)(const struct gram_view *x, const char *data)
{
    bool along = (x->row_stride < 0 ? -x->row_stride : x->row_stride) <
                 (x->col_stride < 0 ? -x->col_stride : x->col_stride);
    int64_t outer = along ? x->cols : x->rows, inner = along ? x->rows : x->cols;
    int64_t outer_stride = along ? x->col_stride : x->row_stride;
    int64_t inner_stride = along ? x->row_stride : x->col_stride;
    double sum = 0;

    for (int64_t i = 0; i < outer && inner > 0; i++) {
        const real *row = (const real *)(const void *)data + i * outer_stride;
        double part[8] = {0};
        for (int64_t j = 0; j < inner; j++)
            part[j % 8] += (double)row[j * inner_stride] * (double)row[j * inner_stride];
        for (int l = 0; l < 8; l++)
            sum += part[l];
    }
    return isfinite((real)sum);
}
