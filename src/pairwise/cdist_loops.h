/*
 * cdist_loops.h - template: packs panels of one dtype, and moves blocks of it from and to out
 *
 * Parameters: SOURCE, stored, real, LOAD and HALF; see each_dtype.h.  Panels come from tensors of
 * every dtype; blocks are of the dtype of the arithmetic, never of halves.
 *
 * SPDX-License-Identifier: MIT
 */

static void CAT(pack, SOURCE)(const struct rows *from, int64_t count, int64_t depth, int64_t width,
                              void *panel)
{
    const stored *rows = (const stored *)from->data;
    real *to = panel;

    if (depth == 0)
        return;
    if (count < width)
        memset(panel, 0, (size_t)(width * depth) * sizeof(real));
    if (from->row_stride == 1) {
        for (int64_t k = 0; k < depth; k++)
            for (int64_t r = 0; r < count; r++)
                to[k * width + r] = LOAD(rows[k * from->col_stride + r]);
        return;
    }
    for (int64_t r = 0; r < count; r++) {
        const stored *row = rows + r * from->row_stride;
        for (int64_t k = 0; k < depth; k++)
            to[k * width + r] = LOAD(row[k * from->col_stride]);
    }
}

static void CAT(norms, SOURCE)(const struct rows *from, int64_t count, int64_t cols,
                               double *inverse)
{
    for (int64_t r = 0; r < count; r++) {
        const stored *row = (const stored *)from->data + (cols ? r * from->row_stride : 0);
        double sum = 0;
        for (int64_t k = 0; k < cols; k++) {
            double e = (double)LOAD(row[k * from->col_stride]);
            sum += e * e;
        }
        inverse[r] = sum == 0 ? 0 : 1 / sqrt(sum);
    }
}

static void CAT(lengths, SOURCE)(const struct rows *from, int64_t count, int64_t width,
                                 int64_t cols, void *norms)
{
    real *to = norms;

    for (int64_t r = 0; r < width; r++) {
        const stored *row = (const stored *)from->data + (cols ? r * from->row_stride : 0);
        double sum = 0;
        for (int64_t k = 0; r < count && k < cols; k++) {
            double e = (double)LOAD(row[k * from->col_stride]);
            sum += e * e;
        }
        to[r] = (real)sqrt(sum);
    }
}

#if !HALF
enum {
    CAT(MIRRORED, SOURCE) = 64 / sizeof(real) /* rows of a square that is mirrored: a cache line */
};

static void CAT(store, SOURCE)(const struct cdist_piece *piece)
{
    for (int64_t r = 0; r < piece->rows; r++) {
        const real *from = (const real *)piece->buffer + r * piece->ld;
        real *to = (real *)piece->out + r * piece->row_stride;
        int64_t c = first_column(piece, r);
        if (piece->col_stride == 1)
            memcpy(to + c, from + c, (size_t)(piece->cols - c) * sizeof *to);
        else
            for (; c < piece->cols; c++)
                to[c * piece->col_stride] = from[c];
    }
}

static void CAT(load, SOURCE)(const struct cdist_piece *piece)
{
    for (int64_t r = 0; r < piece->rows; r++) {
        real *to = (real *)piece->buffer + r * piece->ld;
        const real *from = (const real *)piece->out + r * piece->row_stride;
        for (int64_t c = first_column(piece, r); c < piece->cols; c++)
            to[c] = from[c * piece->col_stride];
    }
}

/* out[c][r] = buffer[r][c], above the diagonal only. */
static void CAT(mirror, SOURCE)(const struct cdist_piece *piece)
{
    const real *buffer = (const real *)piece->buffer;
    real *out = (real *)piece->out;
    const int64_t side = CAT(MIRRORED, SOURCE);

    for (int64_t r0 = 0; r0 < piece->rows; r0 += side) {
        int64_t r_end = r0 + side < piece->rows ? r0 + side : piece->rows;
        for (int64_t c = first_column(piece, r0); c < piece->cols; c++) {
            /* rows whose first column is c or before it: r + diagonal <= c */
            int64_t end = c - piece->diagonal + 1 < r_end ? c - piece->diagonal + 1 : r_end;
            real *to = out + c * piece->row_stride;
            for (int64_t r = r0; r < end; r++)
                to[r * piece->col_stride] = buffer[r * piece->ld + c];
        }
    }
}
#endif
