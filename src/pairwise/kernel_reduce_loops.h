/*
 * kernel_reduce_loops.h - template: moves v and log-weights of one dtype
 *
 * Parameters: SOURCE and real; see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */

/* The columns of a matrix one after another, each with zeros up to ld, and columns of zeros up to
 * `padded` ones. */
static void CAT(pack_columns, SOURCE)(const struct gram_view *v, int64_t padded, int64_t ld,
                                      real *to)
{
    for (int64_t c = 0; c < padded; c++, to += ld) {
        const int64_t rows = c < v->cols ? v->rows : 0;
        const real *column = (const real *)v->data + (c < v->cols ? c * v->col_stride : 0);
        for (int64_t r = 0; r < rows; r++)
            to[r] = column[r * v->row_stride];
        for (int64_t r = rows; r < ld; r++)
            to[r] = 0;
    }
}
