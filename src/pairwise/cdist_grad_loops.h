/*
 * cdist_grad_loops.h - template: the loops of cpu_cdist_grad.c over numbers of one dtype
 *
 * Parameters: SOURCE and real; see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */
/* ---- Pieces --------------------------------------------------------------------------------- */

/* Columns next to each other: row by row, so that memory is read in long runs. */
static void CAT(pack_rows, SOURCE)(const struct grad_piece *piece, const struct grad_panels *to)
{
    int64_t width = to->width;

    for (int64_t r = 0; r < piece->rows; r++) {
        const real *restrict from = (const real *)piece->data + r * piece->row_stride;
        real *restrict panel = (real *)to->panel + r * width;
        real factor = to->factor ? ((const real *)to->factor)[r * to->factor_stride] : 1;
        for (int64_t w = 0; r + AHEAD < piece->rows && w < piece->cols;
             w += (int64_t)(64 / sizeof(real)))
            __builtin_prefetch(from + AHEAD * piece->row_stride + w);
        for (int64_t left = piece->cols; left > 0; left -= width) {
            int64_t cols = left < width ? left : width, w = 0;
            for (; w < cols; w++)
                panel[w] = from[w] * factor;
            for (; w < width; w++)
                panel[w] = 0;
            from += width;
            panel += to->depth * width;
        }
    }
}

static void CAT(pack, SOURCE)(const struct grad_piece *piece, const struct grad_panels *to)
{
    int64_t width = to->width;
    real *panel = to->panel;

    if (piece->rows < to->depth)
        memset(panel, 0,
               (size_t)((piece->cols + width - 1) / width * width * to->depth) * sizeof(real));
    if (piece->col_stride == 1) {
        CAT(pack_rows, SOURCE)(piece, to);
        return;
    }
    for (int64_t first = 0; first < piece->cols; first += width, panel += to->depth * width)
        for (int64_t w = 0; w < width; w++) {
            const real *from = (const real *)piece->data + (first + w) * piece->col_stride;
            bool inside = first + w < piece->cols;
            for (int64_t r = 0; r < piece->rows; r++) {
                real factor = to->factor ? ((const real *)to->factor)[r * to->factor_stride] : 1;
                panel[r * width + w] = inside ? from[r * piece->row_stride] * factor : 0;
            }
        }
}

static void CAT(store, SOURCE)(const struct grad_piece *piece, const void *tile, int64_t stride,
                               bool add)
{
    const real *from = tile;

    for (int64_t r = 0; r < piece->rows; r++, from += stride) {
        real *to = (real *)piece->data + r * piece->row_stride;
        int64_t step = piece->col_stride;
        if (step == 1 && add)
            for (int64_t w = 0; w < piece->cols; w++)
                to[w] += from[w];
        else if (step == 1)
            memcpy(to, from, (size_t)piece->cols * sizeof(real));
        else
            for (int64_t w = 0; w < piece->cols; w++)
                to[w * step] = add ? to[w * step] + from[w] : from[w];
    }
}

/* ---- p = 2: around the product -------------------------------------------------------------- */

/* mean[n] of row n of b; 0 if it is not finite, so that infinities stay where they are. */
static void CAT(find_mean, SOURCE)(const struct square_block *s, int64_t n)
{
    const real *b = (const real *)s->b.data + n * s->b.row_stride;
    double sum = 0;

    for (int64_t k = 0; k < s->b.cols; k++)
        sum += (double)b[k * s->b.col_stride];
    sum /= (double)s->b.cols;
    s->mean[n] = isfinite(sum) ? sum : 0;
}

/* Rows of the left factor: c[o, k] for n = -1, else c[o, k] (b[n, k] - mean[n]). */
static void CAT(write_factors, SOURCE)(const struct square_block *s, int64_t n)
{
    const real *b = (const real *)s->b.data + n * s->b.row_stride + s->k * s->b.col_stride;
    real *to = (real *)s->factors + (n + 1) * s->c.rows * s->depth, mean = 0;

    if (n >= 0)
        mean = (real)s->mean[n];
    for (int64_t o = 0; o < s->c.rows; o++, to += s->depth) {
        const real *c = (const real *)s->c.data + o * s->c.row_stride + s->k * s->c.col_stride;
        for (int64_t k = 0; n < 0 && k < s->depth; k++)
            to[k] = c[k * s->c.col_stride];
        for (int64_t k = 0; n >= 0 && k < s->depth; k++)
            to[k] = c[k * s->c.col_stride] * (b[k * s->b.col_stride] - mean);
    }
}

/* out[o, n, m] = or += (d[n, m] - mean[n]) (c a)[o, m] - (c b a)[n, o, m] */
static void CAT(combine, SOURCE)(const struct square_block *s, int64_t n)
{
    const real *d = (const real *)s->d.data + n * s->d.row_stride, mean = (real)s->mean[n];
    const real *ca = s->products, *cba = ca + (n + 1) * s->c.rows * s->d.cols;

    for (int64_t o = 0; o < s->c.rows; o++, ca += s->d.cols, cba += s->d.cols) {
        real *out = (real *)s->out.data + o * s->out_plane + n * s->out.row_stride;
        for (int64_t m = 0; m < s->d.cols; m++) {
            real value = (d[m * s->d.col_stride] - mean) * ca[m] - cba[m];
            real *at = out + m * s->out.col_stride;
            *at = s->add ? *at + value : value;
        }
    }
}

/* ---- p = infinity --------------------------------------------------------------------------- */

/* Adds to sums[o * features + n] what all centres give for point m. */
static void CAT(add_largest, SOURCE)(const struct largest_item *item, int64_t m, double *sums)
{
    const struct gram_view *va = &item->a, *vb = &item->b, *vc = &item->c, *vd = &item->d;
    const real *a = (const real *)va->data + m * va->col_stride;
    const real *d = (const real *)vd->data + m * vd->col_stride;

    for (int64_t k = 0; k < va->rows; k++) {
        const real *b = (const real *)vb->data + k * vb->col_stride;
        const real *c = (const real *)vc->data + k * vc->col_stride;
        const real weight = a[k * va->row_stride];
        real most = 0;

        for (int64_t n = 0; n < vd->rows; n++) {
            const real t = d[n * vd->row_stride] - b[n * vb->row_stride], size = t < 0 ? -t : t;
            most = size > most || size != size ? size : most;
        }
        for (int64_t n = 0; n < vd->rows; n++) {
            const real t = d[n * vd->row_stride] - b[n * vb->row_stride];
            const double sign = (double)(t > 0) - (double)(t < 0);
            if (most != most || (sign != 0 && (t < 0 ? -t : t) == most))
                for (int64_t o = 0; o < vc->rows; o++)
                    sums[o * vd->rows + n] += (double)c[o * vc->row_stride] * (double)weight *
                                              (most != most ? (double)most : sign);
        }
    }
}
