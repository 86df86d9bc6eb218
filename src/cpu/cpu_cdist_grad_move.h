/*
 * cpu_cdist_grad_move.h - template: pack and store of cpu_cdist_grad_pack.h for one dtype
 *
 * Parameters, all undefined again at the end: real, PACK and STORE (the functions' names).
 *
 * SPDX-License-Identifier: MIT
 */

static void PACK(const struct grad_piece *piece, const struct grad_panels *to)
{
    int64_t width = to->width;
    real *panel = to->panel;

    for (int64_t first = 0; first < piece->cols; first += width, panel += to->depth * width) {
        const real *from = (const real *)piece->data + first * piece->col_stride;
        int64_t cols = piece->cols - first < width ? piece->cols - first : width;
        if (cols < width || piece->rows < to->depth)
            memset(panel, 0, (size_t)(to->depth * width) * sizeof(real));
        if (piece->col_stride == 1)
            for (int64_t r = 0; r < piece->rows; r++)
                memcpy(panel + r * width, from + r * piece->row_stride,
                       (size_t)cols * sizeof(real));
        else
            for (int64_t w = 0; w < cols; w++)
                for (int64_t r = 0; r < piece->rows; r++)
                    panel[r * width + w] = from[r * piece->row_stride + w * piece->col_stride];
        if (to->factor)
            for (int64_t r = 0; r < piece->rows; r++) {
                real factor = ((const real *)to->factor)[r * to->factor_stride];
                for (int64_t w = 0; w < width; w++)
                    panel[r * width + w] *= factor;
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
#undef PACK
#undef real
