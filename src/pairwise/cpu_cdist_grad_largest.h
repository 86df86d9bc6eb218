/*
 * cpu_cdist_grad_largest.h - sums of gradients with p = infinity, for one point
 *
 * Parameters, undefined at the end: real; LARGEST, the name of the function.
 *
 * SPDX-License-Identifier: MIT
 */

/* Adds to sums[o * features + n] what all centres give for point m. */
static void LARGEST(const struct largest_item *item, int64_t m, double *sums)
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

#undef real
#undef LARGEST
