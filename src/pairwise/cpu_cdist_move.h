/*
 * cpu_cdist_move.h - template: moves blocks between a buffer and a strided matrix
 *
 * Parameters, undefined again at the end: SUFFIX (of store_, load_, mirror_) and real.
 *
 * SPDX-License-Identifier: MIT
 */
#define CAT_(a, b) a##_##b
#define CAT(a, b)  CAT_(a, b)

enum {
    CAT(MIRRORED, SUFFIX) = 64 / sizeof(real) /* rows of a square that is mirrored: a cache line */
};

static void CAT(store, SUFFIX)(const struct cdist_piece *piece)
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

static void CAT(load, SUFFIX)(const struct cdist_piece *piece)
{
    for (int64_t r = 0; r < piece->rows; r++) {
        real *to = (real *)piece->buffer + r * piece->ld;
        const real *from = (const real *)piece->out + r * piece->row_stride;
        for (int64_t c = first_column(piece, r); c < piece->cols; c++)
            to[c] = from[c * piece->col_stride];
    }
}

/* out[c][r] = buffer[r][c], above the diagonal only. */
static void CAT(mirror, SUFFIX)(const struct cdist_piece *piece)
{
    const real *buffer = (const real *)piece->buffer;
    real *out = (real *)piece->out;
    const int64_t side = CAT(MIRRORED, SUFFIX);

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

#undef CAT
#undef CAT_
#undef SUFFIX
#undef real
