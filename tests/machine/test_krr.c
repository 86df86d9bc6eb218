/*
 * test_krr.c - kernel matrices in blocks, and products with few vectors, against plain loops
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/random.h"
#include "cpu/cpu_kernels.h"
#include "krr/krr_passes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 3,
    MOST_ROWS = 29, /* two tiles of rows and some over, on every instruction set */
    MOST_COLS = 9,
    LDA = 12
};

static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64};

static void fill(gram_dtype dtype, void *to, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++)
        krr_set_element(dtype, to, i, gram_random_unit(&seed) - 0.5);
}

/* ---- A block times a strip ------------------------------------------------------------------- */

static void one_strip(struct harness *h, gram_dtype dtype, int64_t rows, int64_t cols, int strips,
                      bool transposed)
{
    static _Alignas(64) char a[MOST_ROWS * LDA * 8], v[MOST_ROWS * 128], out[(MOST_ROWS + 1) * 128],
        before[sizeof out];
    int64_t lanes = strips * (int64_t)(GEMM_SKINNY_BYTES / gram_dtype_size(dtype));
    int64_t into = transposed ? cols : rows, over = transposed ? rows : cols;
    const struct gemm_skinny_op op = {dtype, rows, cols, LDA, strips, transposed, a, v, out};
    double worst = 0, eps = dtype == GRAM_F32 ? 1e-6 : 1e-14;

    fill(dtype, a, MOST_ROWS * LDA, 1);
    fill(dtype, v, over * lanes, 2);
    fill(dtype, out, (into + 1) * lanes, 3);
    memcpy(before, out, sizeof out);
    gram_cpu_kernels_of(h->g)->gemm_skinny[dtype](&op);
    for (int64_t i = 0; i < into; i++)
        for (int64_t k = 0; k < lanes; k++) {
            double sum = krr_element(dtype, before, i * lanes + k);
            for (int64_t j = 0; j < over; j++)
                sum += krr_element(dtype, a, transposed ? j * LDA + i : i * LDA + j) *
                       krr_element(dtype, v, j * lanes + k);
            worst = fmax(worst, fabs(sum - krr_element(dtype, out, i * lanes + k)));
        }
    CHECK(h, worst <= eps * (double)(over + 1), "%lld by %lld, %d strips, transposed %d: off by %g",
          (long long)rows, (long long)cols, strips, (int)transposed, worst);
    CHECK(h,
          memcmp(out + into * strips * GEMM_SKINNY_BYTES,
                 before + into * strips * GEMM_SKINNY_BYTES, GEMM_SKINNY_BYTES) == 0,
          "%lld rows", (long long)into);
}

static void strips(struct harness *h)
{
    for (int d = 0; d < 2; d++)
        for (int64_t rows = 0; rows <= MOST_ROWS; rows += rows < 4 ? 1 : 5)
            for (int64_t cols = 0; cols <= MOST_COLS; cols += 3)
                for (int way = 0; way < 4; way++)
                    one_strip(h, dtypes[d], rows, cols, 1 + way % 2, way / 2);
}

/* ---- A kernel matrix in blocks --------------------------------------------------------------- */

/* (K + diag(ridge)) v of a few rows against gram_kernel's matrix of these rows. */
static void check_rows(struct harness *h, const gram_tensor *x, const gram_kernel_options *kernel,
                       int64_t columns, const double *ridge, const void *v, const void *out)
{
    int64_t n = x->shape[0], picked[] = {0, n / 3, n / 2, n - 1};
    double worst = 0, *row = malloc((size_t)n * sizeof *row);
    gram_tensor one = *x, k;

    CHECK(h, row != NULL, "no memory");
    for (size_t p = 0; row && p < sizeof picked / sizeof *picked; p++) {
        int64_t i = picked[p];

        one.data = (char *)x->data + (size_t)(i * WIDTH) * gram_dtype_size(x->dtype);
        one.shape[0] = 1;
        k = gram_matrix(row, 1, n, x->dtype);
        CHECK(h, gram_kernel(h->g, &one, x, kernel, &k) == GRAM_OK, "%s", gram_message(h->g));
        for (int64_t c = 0; c < columns; c++) {
            double sum = ridge[i] * krr_element(x->dtype, v, c * n + i);
            for (int64_t j = 0; j < n; j++)
                sum += krr_element(x->dtype, row, j) * krr_element(x->dtype, v, c * n + j);
            worst = fmax(worst, fabs(sum - krr_element(x->dtype, out, c * n + i)));
        }
    }
    CHECK(h, worst <= (x->dtype == GRAM_F32 ? 1e-4 : 1e-12), "%lld rows: off by %g", (long long)n,
          worst);
    free(row);
}

static void one_matrix(struct harness *h, gram_dtype dtype, int64_t n, int64_t columns)
{
    size_t size = gram_dtype_size(dtype), vectors = (size_t)(n * columns) * size;
    void *points = malloc((size_t)(n * WIDTH + 1) * size), *v = malloc(vectors + 8),
         *out = malloc(vectors + 8);
    double *ridge = malloc((size_t)n * sizeof *ridge);
    gram_kernel_options kernel = gram_lpq_laplace(1.5, 1.2, 2);
    gram_tensor x = gram_matrix(points, n, WIDTH, dtype);
    struct krr_matrix k = {0};

    CHECK(h, points && v && out && ridge, "no memory");
    if (points && v && out && ridge) {
        fill(dtype, points, n * WIDTH, 4);
        fill(dtype, v, n * columns, 5);
        fill(GRAM_F64, ridge, n, 6);
        CHECK(h, gram_krr_matrix_create(h->g, &x, &kernel, &k) == GRAM_OK, "%s",
              gram_message(h->g));
        const struct krr_product op = {&k, ridge, columns, v, out};
        CHECK(h, cpu_krr_passes.multiply(h->g, &op) == GRAM_OK, "%s", gram_message(h->g));
        check_rows(h, &x, &kernel, columns, ridge, v, out);
        gram_krr_free(h->g, &k.memory);
    }
    free(points);
    free(v);
    free(out);
    free(ridge);
}

static void blocks(struct harness *h)
{
    one_matrix(h, GRAM_F32, 1, 1);
    one_matrix(h, GRAM_F32, 1024, 26);
    one_matrix(h, GRAM_F32, 2100, 40); /* three blocks an edge, the last ragged; a second group */
    one_matrix(h, GRAM_F64, 1025, 8);
    one_matrix(h, GRAM_F64, 1500, 17);
}

static const struct test_function tests[] = {
    {"strips", strips},
    {"blocks", blocks},
};

int main(void)
{
    return harness_run_tests_each_isa(tests, LENGTH(tests));
}
