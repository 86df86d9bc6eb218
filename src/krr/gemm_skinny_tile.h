/*
 * gemm_skinny_tile.h - template: a matrix, or its transpose, times a few vectors
 *
 * For a few vectors BLAS would spend more on packing the matrix than on the product.  Here some
 * rows of the matrix at a time pass by as they lie, each element broadcast once: of the product
 * their sums stay in registers; of the transpose's their rows of v do, and each column's two sums
 * are added to its row of out.
 *
 * From the caller: DTYPE, real, vec, VBYTES (see kernels.h).  Contract: struct gemm_skinny_op.
 *
 * SPDX-License-Identifier: MIT
 */
#define FN(name) CAT(CAT(name, DTYPE), ISA)
#define MOST     (2 * GEMM_SKINNY_BYTES / VBYTES) /* vectors of a row of two strips */
/* Sums or rows of v fill three quarters of the registers or less. */
#define STRIP_ROWS (VBYTES == 64 ? 12 : VBYTES == 32 ? 3 : 1)

static inline __attribute__((always_inline)) void
FN(gemm_skinny_rows)(const struct gemm_skinny_op *op, int64_t r, const int rows, const int vectors)
{
    const real *a = (const real *)op->a + r * op->lda;
    const vec *v = op->v;
    vec *out = (vec *)op->out + r * vectors, sum[STRIP_ROWS][MOST] = {{{0}}};

    for (int64_t c = 0; c < op->cols; c++, v += vectors)
        UNROLL_FOR (i, rows) {
            real element = a[i * op->lda + c];
            UNROLL_FOR (k, vectors)
                sum[i][k] += v[k] * element;
        }
    UNROLL_FOR (i, rows)
        UNROLL_FOR (k, vectors)
            out[i * vectors + k] += sum[i][k];
}

static inline __attribute__((always_inline)) void
FN(gemm_skinny_columns)(const struct gemm_skinny_op *op, int64_t r, const int rows,
                        const int vectors)
{
    const real *a = (const real *)op->a + r * op->lda;
    const vec *from = (const vec *)op->v + r * vectors;
    vec *out = op->out, v[STRIP_ROWS][MOST];

    UNROLL_FOR (i, rows)
        UNROLL_FOR (k, vectors)
            v[i][k] = from[i * vectors + k];
    for (int64_t c = 0; c < op->cols; c++, out += vectors) {
        vec part[2][MOST] = {{{0}}};
        UNROLL_FOR (i, rows) {
            real element = a[i * op->lda + c];
            UNROLL_FOR (k, vectors)
                part[i % 2][k] += v[i][k] * element;
        }
        UNROLL_FOR (k, vectors)
            out[k] += part[0][k] + part[1][k];
    }
}

/* All rows, those that are left over one by one. */
static inline __attribute__((always_inline)) void
FN(gemm_skinny_all)(const struct gemm_skinny_op *op, const int vectors)
{
    int64_t whole = op->rows / STRIP_ROWS * STRIP_ROWS;

    for (int64_t r = 0; r < whole; r += STRIP_ROWS)
        if (op->transposed)
            FN(gemm_skinny_columns)(op, r, STRIP_ROWS, vectors);
        else
            FN(gemm_skinny_rows)(op, r, STRIP_ROWS, vectors);
    for (int64_t r = whole; r < op->rows; r++)
        if (op->transposed)
            FN(gemm_skinny_columns)(op, r, 1, vectors);
        else
            FN(gemm_skinny_rows)(op, r, 1, vectors);
}

static void FN(gemm_skinny)(const struct gemm_skinny_op *op)
{
    if (op->strips == 2)
        FN(gemm_skinny_all)(op, MOST);
    else
        FN(gemm_skinny_all)(op, MOST / 2);
}

#undef FN
#undef MOST
#undef STRIP_ROWS
