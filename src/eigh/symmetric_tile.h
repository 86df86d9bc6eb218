/*
 * symmetric_tile.h - template: a block of a symmetric matrix times a few vectors, both ways
 *
 * Some rows of the block at a time keep their sums and their rows of x_i in registers while the
 * columns pass by; each element is broadcast once and used in two fused multiply-adds.  The sum for
 * a column has two parts, since additions to one would wait for each other.
 *
 * From the caller: DTYPE, real, vec, VBYTES (see kernels.h).  Contract: eigh_kernels.h.
 *
 * SPDX-License-Identifier: MIT
 */
#define FN(name) CAT(CAT(name, DTYPE), ISA)
#define VECTORS  (SYMMETRIC_ROW_BYTES / VBYTES)
/* Sums and rows of x_i fill half of the registers or less. */
#define SYMMETRIC_ROWS (VBYTES == 64 ? 8 : VBYTES == 32 ? 2 : 1)

/* Rows r to r + SYMMETRIC_ROWS of the block. */
static inline void FN(symmetric_rows)(const struct gram_symmetric_block *b, int64_t r)
{
    const real *a = (const real *)b->a + r * b->lda;
    const vec *x_j = b->x_j, *from = (const vec *)b->x_i + r * VECTORS;
    vec *y_i = (vec *)b->y_i + r * VECTORS, *y_j = b->y_j;
    vec sum[SYMMETRIC_ROWS][VECTORS], x_i[SYMMETRIC_ROWS][VECTORS];

    UNROLL_FOR (i, SYMMETRIC_ROWS)
        UNROLL_FOR (v, VECTORS) {
            sum[i][v] = y_i[i * VECTORS + v];
            x_i[i][v] = from[i * VECTORS + v];
        }
    for (int64_t c = 0; c < b->cols; c++, x_j += VECTORS, y_j += VECTORS)
        UNROLL_FOR (v, VECTORS) {
            vec part[2] = {y_j[v], {0}};
            UNROLL_FOR (i, SYMMETRIC_ROWS) {
                real element = a[i * b->lda + c];
                sum[i][v] += x_j[v] * element;
                part[i % 2] += x_i[i][v] * element;
            }
            y_j[v] = part[0] + part[1];
        }
    UNROLL_FOR (i, SYMMETRIC_ROWS)
        UNROLL_FOR (v, VECTORS)
            y_i[i * VECTORS + v] = sum[i][v];
}

/* One row, for what is left over. */
static inline void FN(symmetric_row)(const struct gram_symmetric_block *b, int64_t r)
{
    const real *a = (const real *)b->a + r * b->lda;
    const vec *x_i = (const vec *)b->x_i + r * VECTORS, *x_j = b->x_j;
    vec *y_i = (vec *)b->y_i + r * VECTORS, *y_j = b->y_j;

    for (int64_t c = 0; c < b->cols; c++)
        UNROLL_FOR (v, VECTORS) {
            y_i[v] += x_j[c * VECTORS + v] * a[c];
            y_j[c * VECTORS + v] += x_i[v] * a[c];
        }
}

static void FN(symmetric_block)(const struct gram_symmetric_block *b)
{
    int64_t r = 0;

    for (; r + SYMMETRIC_ROWS <= b->rows; r += SYMMETRIC_ROWS)
        FN(symmetric_rows)(b, r);
    for (; r < b->rows; r++)
        FN(symmetric_row)(b, r);
}

#undef FN
#undef VECTORS
#undef SYMMETRIC_ROWS
