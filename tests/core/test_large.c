/*
 * test_large.c - outputs of more than 2^31 elements and strides beyond 2^31, in little memory
 *
 * An output of 8.7 GB is 130 views of the same 64 MB in a row: each address is writable and no two
 * are the same, as the library sees it.  Only its first and last 64 MB are its own, and these are
 * what is checked.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t segment = (size_t)64 << 20;
static const int64_t rows = 50000, cols = 43500; /* 2.175e9 elements */

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
static const bool sanitized = true; /* 2e9 elements would take minutes */
#else
static const bool sanitized = false;
#endif

/* NULL where the system does not give so much address space: said, and the test left out. */
static float *map_output(struct harness *h, size_t bytes)
{
    int file = memfd_create("gram-test-large", MFD_CLOEXEC);
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool mapped = file >= 0 && base != MAP_FAILED && ftruncate(file, (off_t)segment) == 0;

    for (size_t at = segment; mapped && at + 2 * segment < bytes; at += segment)
        mapped = mmap(base + at, segment, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                      0) != MAP_FAILED;
    if (file >= 0)
        close(file);
    if (mapped)
        return (float *)base;
    if (base != MAP_FAILED)
        munmap(base, bytes);
    printf("SKIPPED: %s: no %zu bytes of address space\n", h->where, bytes);
    CHECK(h, true, "left out");
    return NULL;
}

/* Distances of these are exact in f32, and differ in all the places that are checked. */
static float feature(int64_t i, int64_t period)
{
    return (float)(i % period) * 0.125f;
}

static float *features(int64_t n, int64_t period)
{
    float *x = malloc((size_t)n * sizeof *x);

    if (!x) {
        fprintf(stderr, "test_large: no memory\n");
        exit(EXIT_FAILURE);
    }
    for (int64_t i = 0; i < n; i++)
        x[i] = feature(i, period);
    return x;
}

/* Rows and columns near both ends. */
static const int64_t ends[] = {0, 1, 17, 300, -300, -17, -2, -1};

static int64_t from_end(int64_t at, int64_t size)
{
    return at < 0 ? size + at : at;
}

/* Checks out[i][j] = value(i, j) at the ends; out is m by n, row-major or column-major. */
static void check_ends(struct harness *h, const gram_tensor *out,
                       double (*value)(int64_t i, int64_t j), double bound)
{
    int last = out->ndim - 1;
    int64_t m = out->shape[last - 1], n = out->shape[last];

    for (int a = 0; a < LENGTH(ends); a++)
        for (int b = 0; b < LENGTH(ends); b++) {
            int64_t i = from_end(ends[a], m), j = from_end(ends[b], n);
            double got = ((float *)out->data)[i * out->stride[last - 1] + j * out->stride[last]];
            CHECK(h, fabs(got - value(i, j)) <= bound, "out[%lld, %lld] is %.9g, expected %.9g",
                  (long long)i, (long long)j, got, value(i, j));
        }
}

static double distance(int64_t i, int64_t j)
{
    return fabs((double)feature(i, 1009) - (double)feature(j, 761));
}

static double own_distance(int64_t i, int64_t j)
{
    return fabs((double)feature(i, 1009) - (double)feature(j, 1009));
}

static double kernel(int64_t i, int64_t j)
{
    return exp(-distance(i, j)) + (i - 7000 == j ? 0.5 : 0);
}

static double gradient(int64_t n, int64_t m)
{
    double d = (double)feature(m, 761) - (double)feature(n, 1009);

    return 3 * ((d > 0) - (d < 0)) * sqrt(fabs(d));
}

static void general_distances(struct harness *h)
{
    size_t bytes = (size_t)rows * (size_t)cols * sizeof(float);
    float *out = sanitized ? NULL : map_output(h, bytes);
    float *x = features(rows, 1009), *y = features(cols, 761);
    gram_tensor tx = gram_matrix(x, rows, 1, GRAM_F32), ty = gram_matrix(y, cols, 1, GRAM_F32);
    gram_tensor to = gram_matrix(out, rows, cols, GRAM_F32);

    CHECK(h, rows * cols > INT32_MAX, "not large");
    if (out) {
        to.stride[0] = 1, to.stride[1] = rows; /* column-major; row-major below */
        CHECK(h, gram_cdist(h->g, &tx, &ty, gram_number(1), NULL, &to) == GRAM_OK, "%s",
              gram_message(h->g));
        check_ends(h, &to, distance, 0);
        munmap(out, bytes);
    }
    free(x);
    free(y);
}

static void symmetric_distances(struct harness *h)
{
    int64_t n = 46400; /* squared: 2.15e9 */
    size_t bytes = (size_t)n * (size_t)n * sizeof(float);
    float *out = sanitized ? NULL : map_output(h, bytes), *x = features(n, 1009);
    gram_tensor tx = gram_matrix(x, n, 1, GRAM_F32), to = gram_matrix(out, n, n, GRAM_F32);

    CHECK(h, n * n > INT32_MAX, "not large");
    if (out) {
        CHECK(h, gram_cdist(h->g, &tx, NULL, gram_number(2), NULL, &to) == GRAM_OK, "%s",
              gram_message(h->g));
        check_ends(h, &to, own_distance, 0);
        munmap(out, bytes);
    }
    free(x);
}

static void kernels_and_their_diagonal(struct harness *h)
{
    size_t bytes = (size_t)rows * (size_t)cols * sizeof(float);
    float *out = sanitized ? NULL : map_output(h, bytes);
    float *x = features(rows, 1009), *y = features(cols, 761);
    gram_tensor tx = gram_matrix(x, rows, 1, GRAM_F32), ty = gram_matrix(y, cols, 1, GRAM_F32);
    gram_tensor to = gram_matrix(out, rows, cols, GRAM_F32);
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    o.p = gram_number(1);
    o.function = GRAM_LAPLACE;
    o.regularization = gram_number(0.5);
    CHECK(h, rows * cols > INT32_MAX, "not large");
    o.row_offset = (int64_t)1 << 40, o.column_offset = ((int64_t)1 << 40) + 7000;
    if (out) {
        CHECK(h, gram_kernel(h->g, &tx, &ty, &o, &to) == GRAM_OK, "%s", gram_message(h->g));
        check_ends(h, &to, kernel, 1e-6);
        for (int64_t i = rows - 20; i < rows; i++)
            CHECK(h, fabs(out[i * cols + i - 7000] - kernel(i, i - 7000)) < 1e-6,
                  "diagonal at row %d", (int)i);
        munmap(out, bytes);
    }
    free(x);
    free(y);
}

static void gradients(struct harness *h)
{
    size_t bytes = (size_t)rows * (size_t)cols * sizeof(float);
    float *out = sanitized ? NULL : map_output(h, bytes), one = 3;
    float *b = features(rows, 1009), *d = features(cols, 761), *a = malloc((size_t)cols * 4);
    int64_t shape[] = {1, rows, cols};
    gram_tensor ta = gram_matrix(a, 1, cols, GRAM_F32), tb = gram_matrix(b, rows, 1, GRAM_F32);
    gram_tensor tc = gram_matrix(&one, 1, 1, GRAM_F32), td = gram_matrix(d, rows, cols, GRAM_F32);
    gram_tensor to = gram_matrices(out, shape[0], shape[1], shape[2], GRAM_F32);

    td.stride[0] = 0; /* the same features d for every row */
    CHECK(h, a != NULL && rows * cols > INT32_MAX, "no memory, or not large");
    if (out && a) {
        for (int64_t m = 0; m < cols; m++)
            a[m] = 1;
        CHECK(h, gram_cdist_grad(h->g, &ta, &tb, &tc, &td, gram_number(1.5), &to) == GRAM_OK, "%s",
              gram_message(h->g));
        check_ends(h, &to, gradient, 1e-5);
        munmap(out, bytes);
    }
    free(a);
    free(b);
    free(d);
}

/* Three rows each, 2^31 + 3 elements apart: few pages are ever touched. */
static void strides_beyond_31_bits(struct harness *h)
{
    int64_t step = ((int64_t)1 << 31) + 3;
    size_t bytes = (size_t)(3 * step) * sizeof(float);
    float *x = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    gram_tensor tx, to;

    if (x == MAP_FAILED) {
        printf("SKIPPED: %s: no %zu bytes of address space\n", h->where, 2 * bytes);
        CHECK(h, true, "left out");
        return;
    }
    tx = gram_matrix(x, 3, 2, GRAM_F32);
    to = gram_matrix(x + 3 * step, 3, 3, GRAM_F32);
    tx.stride[0] = to.stride[0] = step;
    for (int64_t i = 0; i < 3; i++)
        x[i * step] = (float)(i * i), x[i * step + 1] = (float)i;
    CHECK(h, gram_cdist(h->g, &tx, NULL, gram_number(1), NULL, &to) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < 3; j++)
            CHECK(h,
                  test_get(&to, (int64_t[]){i, j}) == (double)(llabs(i * i - j * j) + llabs(i - j)),
                  "out[%d, %d] is %g", (int)i, (int)j, test_get(&to, (int64_t[]){i, j}));
    munmap(x, 2 * bytes);
}

static const struct test_function tests[] = {
    {         "general_distances",          general_distances},
    {       "symmetric_distances",        symmetric_distances},
    {"kernels_and_their_diagonal", kernels_and_their_diagonal},
    {                 "gradients",                  gradients},
    {    "strides_beyond_31_bits",     strides_beyond_31_bits},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
