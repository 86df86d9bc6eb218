/*
 * kron_expand_loops.h - template: rows of a Kronecker product, of one dtype
 *
 * Parameters: SOURCE, stored, real, LOAD and STORE: see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */

/* The Kronecker product of count rows goes to `to`.  It grows in place, from its end. */
static void CAT(expand, SOURCE)(const struct kron_row *rows, int count, void *to)
{
    real *row = to;
    int64_t n = 1;

    row[0] = 1;
    for (int f = 0; f < count; f++) {
        const stored *from = rows[f].data;
        for (int64_t j = n - 1; j >= 0; j--) {
            real v = row[j];
            for (int64_t q = 0; q < rows[f].cols; q++)
                row[j * rows[f].cols + q] = v * LOAD(from[q * rows[f].stride]);
        }
        n *= rows[f].cols;
    }
}

/* out[i * n + j] = left[i] right[j], a row of the whole product. */
static void CAT(outer, SOURCE)(const struct kron_outer *o)
{
    const real *left = o->left, *right = o->right;
    int64_t n = o->right_count, step = o->stride;

    for (int64_t i = 0; i < o->left_count; i++) {
        stored *out = (stored *)o->out + i * n * step;
        real v = left[i];
        if (step == 1)
            for (int64_t j = 0; j < n; j++)
                out[j] = STORE(v * right[j]);
        else
            for (int64_t j = 0; j < n; j++)
                out[j * step] = STORE(v * right[j]);
    }
}
