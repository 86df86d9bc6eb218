/*
 * pack_panel.h - template: packs panels from one dtype
 *
 * Parameters: SOURCE (the functions are pack_<source> and norms_<source>), stored, real, undefined
 * again at the end, and LOAD: see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */

static void CAT(pack, SOURCE)(const struct gram_rows *from, int64_t count, int64_t depth,
                              int64_t width, void *panel)
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

static void CAT(norms, SOURCE)(const struct gram_rows *from, int64_t count, int64_t cols,
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

#undef SOURCE
#undef stored
#undef real
