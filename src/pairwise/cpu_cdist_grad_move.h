/*
 * cpu_cdist_grad_move.h - template: pack and store of cpu_cdist_grad_pack.h for one dtype
 *
 * Parameters, all undefined again at the end: real, and the names PACK, PACK_ROWS and STORE of
 * the functions.
 *
 * SPDX-License-Identifier: MIT
 */

/* Columns next to each other: row by row, so that memory is read in long runs. */
static void PACK_ROWS(const struct grad_piece *piece, const struct grad_panels *to)
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

static void PACK(const struct grad_piece *piece, const struct grad_panels *to)
{
    int64_t width = to->width;
    real *panel = to->panel;

    if (piece->rows < to->depth)
        memset(panel, 0,
               (size_t)((piece->cols + width - 1) / width * width * to->depth) * sizeof(real));
    if (piece->col_stride == 1) {
        PACK_ROWS(piece, to);
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

static void STORE(const struct grad_piece *piece, const void *tile, int64_t stride, bool add)
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

#undef STORE
#undef PACK_ROWS
#undef PACK
#undef real
