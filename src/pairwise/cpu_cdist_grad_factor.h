/*
 * cpu_cdist_grad_factor.h - template: what p = 2 does around its matrix product, for one dtype
 *
 * Parameters, all undefined again at the end: real, and the names of the functions MEANS, FACTORS
 * and COMBINE.  Each works on one feature n of a block; see cpu_cdist_grad_square.c.
 *
 * SPDX-License-Identifier: MIT
 */

/* mean[n] of row n of b; 0 if it is not finite, so that infinities stay where they are. */
static void MEANS(const struct square_block *s, int64_t n)
{
    const real *b = (const real *)s->b.data + n * s->b.row_stride;
    double sum = 0;

    for (int64_t k = 0; k < s->b.cols; k++)
        sum += (double)b[k * s->b.col_stride];
    sum /= (double)s->b.cols;
    s->mean[n] = isfinite(sum) ? sum : 0;
}

/* Rows of the left factor: c[o, k] for n = -1, else c[o, k] (b[n, k] - mean[n]). */
static void FACTORS(const struct square_block *s, int64_t n)
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
static void COMBINE(const struct square_block *s, int64_t n)
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

#undef COMBINE
#undef FACTORS
#undef MEANS
#undef real
