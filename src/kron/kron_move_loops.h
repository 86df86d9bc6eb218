/*
 * kron_move_loops.h - template: factors packed, tensors of any strides in and out, of one dtype
 *
 * Parameters: SOURCE, stored, real, LOAD, STORE and NUMBER: see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */

static void CAT(pack_columns, SOURCE)(const struct kron_factor *f,
                                      const struct gram_kron_kernels *k, void *to)
{
    int64_t panels = gram_kron_panels(k, f->outs), first = 0;
    real *panel = to;

    for (int64_t i = 0; i < panels; i++) {
        int64_t rows = f->outs / panels + (i < f->outs % panels);
        for (int64_t p = 0; p < f->depth; p++)
            for (int64_t q = 0; q < rows; q++)
                *panel++ = LOAD(((const stored *)f->data)[p * f->step + (first + q) * f->next]);
        first += rows;
    }
}

static void CAT(pack_slices, SOURCE)(const struct kron_factor *f, const struct gram_kron_kernels *k,
                                     void *to)
{
    int64_t lanes = gram_kron_slice_lanes(k, f->outs), vectors = gram_ceil_div(f->outs, lanes);
    real *group = to;

    for (int64_t v = 0; v < vectors; v += 2)
        for (int64_t p = 0; p < f->depth; p++)
            for (int64_t w = v; w < gram_least(v + 2, vectors); w++, group += lanes) {
                int64_t first = gram_kron_slice_first(w, lanes, f->outs);
                const stored *from = (const stored *)f->data + p * f->step + first * f->next;
                int64_t count = gram_least(lanes, f->outs);
                for (int64_t q = 0; q < count; q++)
                    group[q] = LOAD(from[q * f->next]);
                for (int64_t q = count; q < lanes; q++)
                    group[q] = 0;
            }
}

/* The elements of a piece, one after the other. */
static void CAT(load, SOURCE)(const struct kron_piece *piece, void *tile)
{
    const int64_t *n = piece->size, *s = piece->stride;
    real *to = tile;

    for (int64_t a = 0; a < n[0]; a++)
        for (int64_t b = 0; b < n[1]; b++)
            for (int64_t c = 0; c < n[2]; c++, to += n[3]) {
                const stored *from = (const stored *)piece->data + a * s[0] + b * s[1] + c * s[2];
                if (s[3] == 1)
                    for (int64_t d = 0; d < n[3]; d++)
                        to[d] = LOAD(from[d]);
                else
                    for (int64_t d = 0; d < n[3]; d++)
                        to[d] = LOAD(from[d * s[3]]);
            }
}

/* y = alpha tile + beta z, or without z. */
static void CAT(store, SOURCE)(const struct kron_piece *y, const struct kron_piece *z,
                               const double scale[2], const void *tile)
{
    const int64_t *n = y->size, *s = y->stride;
    const real *from = tile;
    const real alpha = NUMBER(scale[0]), beta = NUMBER(scale[1]);

    for (int64_t a = 0; a < n[0]; a++)
        for (int64_t b = 0; b < n[1]; b++)
            for (int64_t c = 0; c < n[2]; c++, from += n[3]) {
                stored *to = (stored *)y->data + a * s[0] + b * s[1] + c * s[2];
                const stored *add;
                if (!z) {
                    for (int64_t d = 0; d < n[3]; d++)
                        to[d * s[3]] = STORE(alpha * from[d]);
                    continue;
                }
                add = (const stored *)z->data + a * z->stride[0] + b * z->stride[1] +
                      c * z->stride[2];
                for (int64_t d = 0; d < n[3]; d++)
                    to[d * s[3]] = STORE(alpha * from[d] + beta * LOAD(add[d * z->stride[3]]));
            }
}
