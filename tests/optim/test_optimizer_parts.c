/*
 * test_optimizer_parts.c - the bases of SOAP and the orthogonalisation of Muon, each by itself
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "check/reference/reference.h"
#include "optim/cpu_optimizer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ORDER = 12,
    SQUARE = ORDER * ORDER
};

static double at(gram_dtype dtype, const void *data, int64_t i)
{
    return dtype == GRAM_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void put(gram_dtype dtype, void *data, int64_t i, double value)
{
    if (dtype == GRAM_F32)
        ((float *)data)[i] = (float)value;
    else
        ((double *)data)[i] = value;
}

/* A sum of rank outer products. */
static void make_factor(struct harness *h, gram_dtype dtype, int64_t n, int64_t rank, void *factor)
{
    double vectors[SQUARE];

    for (int64_t i = 0; i < rank * n; i++)
        vectors[i] = 2 * test_uniform(h) - 1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t r = 0; r < rank; r++)
                sum += vectors[r * n + i] * vectors[r * n + j];
            put(dtype, factor, i + j * n, sum);
        }
}

static void check_orthogonal(struct harness *h, gram_dtype dtype, int64_t n, const void *q)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double product = i == j ? -1 : 0;
            for (int64_t k = 0; k < n; k++)
                product += at(dtype, q, k + i * n) * at(dtype, q, k + j * n);
            CHECK(h, fabs(product) <= 50 * test_eps(dtype), "%d %d: %g", (int)i, (int)j, product);
        }
}

/* q_i . factor q_j */
static double between(gram_dtype dtype, int64_t n, const void *factor, const void *q, int64_t i,
                      int64_t j)
{
    double sum = 0;

    for (int64_t k = 0; k < n; k++)
        for (int64_t l = 0; l < n; l++)
            sum += at(dtype, q, k + i * n) * at(dtype, factor, k + l * n) * at(dtype, q, l + j * n);
    return sum;
}

static void first_bases(struct harness *h)
{
    static const int64_t sizes[][2] = {
        {    1,     1},
        {    1,     0},
        {    2,     2},
        {ORDER, ORDER},
        {ORDER,     1}, /* rank one */
        {ORDER,     0}, /* no gradient yet */
    };

    for (int s = 0; s < 2 * LENGTH(sizes); s++) {
        gram_dtype dtype = s % 2 ? GRAM_F32 : GRAM_F64;
        int64_t n = sizes[s / 2][0];
        double factor[SQUARE], q[SQUARE];
        void *scratch = malloc(cpu_soap_basis_bytes(n));
        make_factor(h, dtype, n, sizes[s / 2][1], factor);
        if (CHECK(h, scratch && cpu_soap_basis_first(dtype, n, factor, q, scratch), "order %d",
                  (int)n)) {
            check_orthogonal(h, dtype, n, q);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < i; j++) {
                    double off = between(dtype, n, factor, q, i, j);
                    CHECK(h, fabs(off) <= 500 * test_eps(dtype), "%g", off);
                    CHECK(h,
                          between(dtype, n, factor, q, j, j) >=
                              between(dtype, n, factor, q, i, i) - 500 * test_eps(dtype),
                          "not descending");
                }
        }
        free(scratch);
    }
}

/* Columns of a random orthogonal q in disorder: those of the next basis must be, in the order that
 * is told, what Gram and Schmidt make of the columns of factor q. */
static void check_next(struct harness *h, gram_dtype dtype, int64_t n)
{
    double factor[SQUARE], other[SQUARE], q[SQUARE], next[SQUARE], product[SQUARE];
    int32_t order[ORDER];
    struct soap_factor from = {.factor = factor, .q = q};
    void *scratch = malloc(cpu_soap_basis_bytes(n));

    make_factor(h, dtype, n, n, factor);
    make_factor(h, dtype, n, n, other);
    if (CHECK(h, scratch && cpu_soap_basis_first(dtype, n, other, q, scratch), "no basis") &&
        CHECK(h, cpu_soap_basis_next(dtype, n, &from, next, order, scratch) == SOAP_REFRESHED,
              "not refreshed")) {
        check_orthogonal(h, dtype, n, next);
        for (int64_t j = 0; j < n; j++) {
            if (j > 0)
                CHECK(h,
                      between(dtype, n, factor, q, order[j - 1], order[j - 1]) >=
                          between(dtype, n, factor, q, order[j], order[j]) - 1e-3,
                      "columns %d and %d", (int)order[j - 1], (int)order[j]);
            for (int64_t i = 0; i < n; i++) {
                product[i + j * n] = 0;
                for (int64_t k = 0; k < n; k++)
                    product[i + j * n] +=
                        at(dtype, factor, i + k * n) * at(dtype, q, k + (int64_t)order[j] * n);
            }
            for (int64_t k = j + 1; k < n; k++) { /* later columns have no part in column j */
                double part = 0;
                for (int64_t i = 0; i < n; i++)
                    part += product[i + j * n] * at(dtype, next, i + k * n);
                CHECK(h, fabs(part) <= 500 * test_eps(dtype), "column %d in %d: %g", (int)k, (int)j,
                      part);
            }
        }
    }
    free(scratch);
}

static void next_bases(struct harness *h)
{
    check_next(h, GRAM_F64, ORDER);
    check_next(h, GRAM_F32, ORDER);
    check_next(h, GRAM_F64, 1);
}

/* An eigenbasis stays with any tolerance above rounding, another one does not. */
static void a_basis_that_fits_stays(struct harness *h)
{
    double factor[SQUARE], other[SQUARE], q[SQUARE], wrong[SQUARE], next[SQUARE];
    int32_t order[ORDER];
    struct soap_factor fits = {.factor = factor, .q = q, .skip = 1e-8};
    struct soap_factor not = {.factor = factor, .q = wrong, .skip = 1e-8};
    void *scratch = malloc(cpu_soap_basis_bytes(ORDER));

    make_factor(h, GRAM_F64, ORDER, ORDER, factor);
    make_factor(h, GRAM_F64, ORDER, ORDER, other);
    CHECK(h,
          scratch && cpu_soap_basis_first(GRAM_F64, ORDER, factor, q, scratch) &&
              cpu_soap_basis_first(GRAM_F64, ORDER, other, wrong, scratch),
          "no basis");
    CHECK(h, cpu_soap_basis_next(GRAM_F64, ORDER, &fits, next, order, scratch) == SOAP_KEPT,
          "eigenvectors fit");
    fits.skip = 0;
    CHECK(h, cpu_soap_basis_next(GRAM_F64, ORDER, &fits, next, order, scratch) == SOAP_REFRESHED,
          "0 never skips");
    CHECK(h, cpu_soap_basis_next(GRAM_F64, ORDER, &not, next, order, scratch) == SOAP_REFRESHED,
          "a wrong basis does not fit");
    not .skip = 1;
    CHECK(h, cpu_soap_basis_next(GRAM_F64, ORDER, &not, next, order, scratch) == SOAP_KEPT,
          "everything fits within 1");
    free(scratch);
}

static void trouble_with_factors(struct harness *h)
{
    double factor[SQUARE], q[SQUARE], next[SQUARE];
    float large[SQUARE], basis[SQUARE], after[SQUARE], expected[SQUARE];
    int32_t order[ORDER], orders[ORDER];
    struct soap_factor from = {.factor = factor, .q = q};
    struct soap_factor f32 = {.factor = large, .q = basis};
    void *scratch = malloc(cpu_soap_basis_bytes(ORDER));

    for (int i = 0; i < SQUARE; i++) /* its largest eigenvalue is above 12 times its elements */
        large[i] = i % (ORDER + 1) ? 1 : 1 + 0.008f * (float)(ORDER + i);
    if (!CHECK(h, scratch && cpu_soap_basis_first(GRAM_F32, ORDER, large, basis, scratch), "f32"))
        return;
    /* Near the largest float the product overflows and is taken in f64: the basis is the same. */
    CHECK(h,
          cpu_soap_basis_next(GRAM_F32, ORDER, &f32, expected, orders, scratch) == SOAP_REFRESHED,
          "f32");
    for (int i = 0; i < SQUARE; i++)
        large[i] *= 0x1.ap126f;
    CHECK(h, cpu_soap_basis_next(GRAM_F32, ORDER, &f32, after, order, scratch) == SOAP_REFRESHED,
          "overflow");
    for (int i = 0; i < SQUARE; i++)
        CHECK(h, fabsf(after[i] - expected[i]) <= 1e-3f, "%g, not %g", (double)after[i],
              (double)expected[i]);
    make_factor(h, GRAM_F64, ORDER, ORDER, factor);
    CHECK(h, cpu_soap_basis_first(GRAM_F64, ORDER, factor, q, scratch), "f64");
    factor[5] = NAN;
    CHECK(h, !cpu_soap_basis_first(GRAM_F64, ORDER, factor, next, scratch), "NaN");
    CHECK(h, cpu_soap_basis_next(GRAM_F64, ORDER, &from, next, order, scratch) == SOAP_FAILED,
          "NaN");
    large[7] = INFINITY;
    CHECK(h, !cpu_soap_basis_first(GRAM_F32, ORDER, large, after, scratch), "infinity");
    CHECK(h, cpu_soap_basis_next(GRAM_F32, ORDER, &f32, after, order, scratch) == SOAP_FAILED,
          "infinity");
    free(scratch);
}

static void orthogonalised_matrices(struct harness *h)
{
    static const int64_t sizes[][2] = {
        { 1,  1},
        { 1,  9},
        { 9,  1},
        {12, 12},
        { 7, 20},
        {20,  7},
    };

    for (int s = 0; s < 2 * LENGTH(sizes); s++) {
        double x[256], spare[256], g[256], u[256], buffer[256] = {0};
        struct muon_matrix m = {.dtype = s % 2 ? GRAM_F32 : GRAM_F64,
                                .rows = sizes[s / 2][0],
                                .cols = sizes[s / 2][1],
                                .steps = 5,
                                .least = 1e-8};
        struct reference_muon r = {
            .rows = m.rows, .cols = m.cols, .steps = 5, .epsilon = 1e-8, .momentum = buffer};
        void *scratch = malloc(cpu_muon_bytes(&m)), *result;
        double scale = sqrt(fmax(1, (double)m.rows / (double)m.cols));
        for (int64_t i = 0; i < m.rows * m.cols; i++) {
            put(m.dtype, x, i, test_uniform(h) - 0.5);
            g[i] = at(m.dtype, x, i);
        }
        reference_muon_step(&r, g, u);
        if (CHECK(h, scratch != NULL, "no memory")) {
            result = cpu_muon_orthogonalise(&m, x, spare, scratch);
            for (int64_t i = 0; i < m.rows * m.cols; i++)
                CHECK(h, fabs(at(m.dtype, result, i) - u[i] / scale) <= 1e4 * test_eps(m.dtype),
                      "%g, not %g", at(m.dtype, result, i), u[i] / scale);
        }
        free(scratch);
    }
}

/* |to - from| / |from|; room for as many as the largest. */
static double distance_of(const float *to, const float *from, int64_t count)
{
    double sum = 0, all = 0;

    for (int64_t i = 0; i < count; i++) {
        double d = (double)to[i] - (double)from[i];
        sum += d * d;
        all += (double)from[i] * (double)from[i];
    }
    return sqrt(sum / all);
}

/* By products of bf16: as in f32, to 8 bits; the same from one thread and from several. */
static void orthogonalised_in_bf16(struct harness *h)
{
    static const int64_t sizes[][2] = {
        {  1,   1},
        {  1,   9},
        {  9,   1},
        { 48,  48},
        { 49,  97},
        { 97,  49},
        {130,  61},
        { 64, 200},
        {  8,   7},
    };

    bool runs = cpu_muon_bf16_runs(h->g);

    CHECK(h, !runs || strcmp(h->isa, "avx512") == 0, "%s multiplies in bf16", h->isa);
    for (int s = 0; runs && s < LENGTH(sizes); s++) {
        struct muon_matrix m = {GRAM_F32, sizes[s][0], sizes[s][1], 5, 1e-8};
        int64_t count = m.rows * m.cols;
        size_t room = (size_t)count * sizeof(float);
        float *x = malloc(4 * room), *alone = x + count, *team = x + 2 * count, *result;
        void *scratch = malloc(cpu_muon_bf16_bytes(&m) + cpu_muon_bytes(&m));
        if (!CHECK(h, x && scratch, "no memory"))
            exit(1);
        for (int64_t i = 0; i < count; i++)
            x[i] = (float)(test_uniform(h) - 0.5);
        memcpy(alone, x, room);
        memcpy(team, x, room);
        memset(scratch, 0xFF, cpu_muon_bf16_bytes(&m)); /* NaN */
        cpu_muon_bf16(h->g, false, &m, alone, scratch);
        cpu_muon_bf16(h->g, true, &m, team, scratch);
        result = cpu_muon_orthogonalise(&m, x, x + 3 * count, scratch);
        CHECK(h, distance_of(alone, result, count) <= 0.04, "%lld by %lld: %g", (long long)m.rows,
              (long long)m.cols, distance_of(alone, result, count));
        CHECK(h, memcmp(alone, team, room) == 0, "threads change the result");
        free(x);
        free(scratch);
    }
}

static const struct test_function tests[] = {
    {            "first_bases",             first_bases},
    {             "next_bases",              next_bases},
    {"a_basis_that_fits_stays", a_basis_that_fits_stays},
    {   "trouble_with_factors",    trouble_with_factors},
    {"orthogonalised_matrices", orthogonalised_matrices},
    { "orthogonalised_in_bf16",  orthogonalised_in_bf16},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
