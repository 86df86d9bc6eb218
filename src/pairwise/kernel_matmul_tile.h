/*
 * kernel_matmul_tile.h - template: a piece of a kernel matrix times some columns of v
 *
 * A piece lies in L1, row-major.  Its product has sums along rows: each is a vector of the sums of
 * every LANES-th column, which are added at the end of a strip.  The product of its transpose has
 * sums along columns, of which a vector holds as many.  Both keep a block of sums in registers:
 * SUMS of them, and the numbers that they share, fit 32 registers on AVX-512, 16 otherwise.
 *
 * From the caller: DTYPE, real, vec, MR, NV, VBYTES (see kernels.h).  Contract: struct
 * gram_product_tile.
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES    ((int)(VBYTES / sizeof(real)))
#define FN(name) CAT(CAT(name, DTYPE), ISA)
#define SUMS     (VBYTES == 64 ? 24 : VBYTES == 32 ? 12 : 8)
#define MOST     (VBYTES == 64 ? 8 : 4) /* columns of v */
/* Rows of the piece that a block of sums has, which divide MR. */
#define ROWS(columns) (SUMS / (columns) < MR ? SUMS / (columns) : MR)

static inline __attribute__((always_inline)) void
FN(product_rows_of)(const struct gram_product_tile *t, const int columns, const int rows)
{
    const int64_t ldk = t->ldk / LANES, ldv = t->ldv / LANES;

    for (int64_t first = 0; first < t->rows; first += rows) {
        const vec *k = (const vec *)t->k + first * ldk, *v = t->v;
        vec *to = (vec *)t->sums + first * columns, sum[MR][MOST];

        UNROLL_FOR (i, rows)
            UNROLL_FOR (c, columns)
                sum[i][c] = to[i * columns + c];
        for (int64_t j = 0; j < t->vectors; j++, k++, v++) {
            vec row[MR];
            UNROLL_FOR (i, rows)
                row[i] = k[i * ldk];
            UNROLL_FOR (c, columns) {
                const vec shared = v_load(v + c * ldv);
                UNROLL_FOR (i, rows)
                    sum[i][c] += row[i] * shared;
            }
        }
        UNROLL_FOR (i, rows)
            UNROLL_FOR (c, columns)
                to[i * columns + c] = sum[i][c];
    }
}

/* The columns of the piece from vector `first` on, as many vectors at a time as fit. */
static inline __attribute__((always_inline)) int64_t
FN(product_columns_of)(const struct gram_product_tile *t, int64_t first, const int columns,
                       const int vectors)
{
    const int64_t ldk = t->ldk / LANES, ld = t->ld_sums / LANES;

    for (; first + vectors <= t->vectors; first += vectors) {
        const vec *k = (const vec *)t->k + first;
        const real *v = t->v;
        vec *to = (vec *)t->sums + first, sum[MOST][SUMS];

        UNROLL_FOR (c, columns)
            UNROLL_FOR (w, vectors)
                sum[c][w] = to[c * ld + w];
        for (int64_t i = 0; i < t->rows; i++, k += ldk, v += t->ldv)
            UNROLL_FOR (c, columns) {
                const vec shared = (vec){0} + v[c];
                UNROLL_FOR (w, vectors)
                    sum[c][w] += k[w] * shared;
            }
        UNROLL_FOR (c, columns)
            UNROLL_FOR (w, vectors)
                to[c * ld + w] = sum[c][w];
    }
    return first;
}

static void FN(product_rows_1)(const struct gram_product_tile *t)
{
    FN(product_rows_of)(t, 1, ROWS(1));
}

static void FN(product_rows_2)(const struct gram_product_tile *t)
{
    FN(product_rows_of)(t, 2, ROWS(4));
}

static void FN(product_rows_4)(const struct gram_product_tile *t)
{
    FN(product_rows_of)(t, 4, ROWS(4));
}

static void FN(product_columns_1)(const struct gram_product_tile *t)
{
    FN(product_columns_of)(t, FN(product_columns_of)(t, 0, 1, 6), 1, NV);
}

static void FN(product_columns_2)(const struct gram_product_tile *t)
{
    FN(product_columns_of)(t, FN(product_columns_of)(t, 0, 2, SUMS / 2 < 6 ? NV : 6), 2, NV);
}

static void FN(product_columns_4)(const struct gram_product_tile *t)
{
    FN(product_columns_of)(t, FN(product_columns_of)(t, 0, 4, SUMS / 4 < 6 ? NV : 6), 4, NV);
}

#if VBYTES == 64
static void FN(product_rows_8)(const struct gram_product_tile *t)
{
    FN(product_rows_of)(t, 8, ROWS(8));
}

static void FN(product_columns_8)(const struct gram_product_tile *t)
{
    FN(product_columns_of)(t, FN(product_columns_of)(t, 0, 8, 3), 8, 1);
}
#endif

static void FN(product_lanes)(int64_t n, const void *sums, double *to)
{
    const vec *from = sums;
    vec four[4] = {{0}};
    real total[4];

    for (int64_t i = 0; i < n; i += 4) {
        const int count = n - i < 4 ? (int)(n - i) : 4;
        for (int k = 0; k < count; k++)
            four[k] = from[i + k];
        v_totals(four, total);
        for (int k = 0; k < count; k++)
            to[i + k] += (double)total[k];
    }
}

static const struct gram_product_kernels FN(product) = {
    .vector_bytes = VBYTES,
    .most = MOST,
#if VBYTES == 64
    .rows = {   FN(product_rows_1),    FN(product_rows_2),    FN(product_rows_4),FN(product_rows_8)               },
    .columns = {FN(product_columns_1), FN(product_columns_2), FN(product_columns_4),
             FN(product_columns_8)},
#else
    .rows = {FN(product_rows_1), FN(product_rows_2), FN(product_rows_4)},
    .columns = {FN(product_columns_1), FN(product_columns_2), FN(product_columns_4)},
#endif
    .lanes = FN(product_lanes),
};

#undef LANES
#undef FN
#undef SUMS
#undef MOST
#undef ROWS
