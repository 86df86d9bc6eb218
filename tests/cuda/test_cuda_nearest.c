/*
 * test_cuda_nearest.c - nearest neighbours whose candidates tensor cores choose, where panels of
 * distances would be as quick: the rows of gram_nearest's table, and data on which bounds and
 * candidates are hard
 *
 * On a device, or emulated for a chip of each kind.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct case_op case_nearest;

enum {
    ON_OTHERS = 3 /* problems that are solved on a second chip too */
};

/* Coordinate k of row i of n, of a uniform number u; cluster c is at 8 c in every coordinate. */
static double in_order(int64_t i, int64_t n, double u)
{
    return floor(8 * (double)i / (double)n) * 8 + u;
}

static double descending(int64_t i, int64_t n, double u)
{
    return (double)(n - i) + 0.1 * u;
}

static double equal(int64_t i, int64_t n, double u)
{
    return 0 * (double)(i + n) * u + 0.7;
}

/* Half of the rows are one point. */
static double half_equal(int64_t i, int64_t n, double u)
{
    return i < n / 2 ? 0.25 : u;
}

static double offset(int64_t i, int64_t n, double u)
{
    return 0 * (double)(i + n) + 1e4 + u;
}

/* Squares that underflow, that overflow, and others. */
static double wide(int64_t i, int64_t n, double u)
{
    return 0 * (double)n + u * pow(10, (double)(i % 5) * 11 - 24);
}

static double uniform(int64_t i, int64_t n, double u)
{
    return 0 * (double)(i + n) + u;
}

static const struct problem {
    int64_t m, n, k; /* n = 0: y is x */
    int count;
    gram_dtype dtype;
    double (*value)(int64_t i, int64_t n, double u);
    const char *why;
} problems[] = {
    {130, 700, 40, 10,  GRAM_F32,    uniform,                   "several parts, ragged tiles"},
    { 50, 600, 40, 64,  GRAM_F32,    uniform,                       "candidates by the dozen"},
    { 60, 600,  3,  5,  GRAM_F32,    uniform,    "fewer coordinates than a product's sixteen"},
    { 30, 700, 20, 10,  GRAM_F32,   in_order,                   "clusters, one after another"},
    {  0, 500, 20, 10,  GRAM_F32, descending,           "y is x, ever nearer to the last row"},
    {  0, 300, 20, 10,  GRAM_F32,      equal, "equal points: every row's candidates overflow"},
    {  0, 300, 20, 10,  GRAM_F32, half_equal,   "the candidates of half of the rows overflow"},
    { 40, 500, 30, 10,  GRAM_F32,     offset,                                      "mean 1e4"},
    { 40, 500, 30, 10,  GRAM_F32,       wide,           "squares that underflow and overflow"},
    { 40, 500, 30, 10,  GRAM_F16,    uniform,                                           "f16"},
    { 40, 500, 30, 10, GRAM_BF16,   in_order,                                          "bf16"},
};

static void fill(struct harness *h, struct test_tensor *t, const struct problem *p, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < p->k; k++)
            test_set(&t->t, (int64_t[]){i, k}, p->value(i, rows, test_uniform(h)));
}

static double distance(const struct problem *p, const gram_tensor *x, const gram_tensor *y,
                       int64_t i, int64_t j)
{
    double sum = 0;

    for (int64_t k = 0; k < p->k; k++) {
        const double d = test_get(x, (int64_t[]){i, k}) - test_get(y, (int64_t[]){j, k});
        sum += d * d;
    }
    return sqrt(sum);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct answer {
    const gram_tensor *x, *y, *indices, *distances; /* y is x where x was searched in itself */
    double *all;                                    /* room for the distances of a row */
};

/* The distances of a row are those of the rows that are named, which are the smallest, within the
 * error of a sum of squares; of equal distances the lower row comes first, and none twice. */
static void check_row(struct harness *h, const struct problem *p, const struct answer *of,
                      int64_t i)
{
    const gram_tensor *x = of->x, *y = of->y;
    const int64_t n = y->shape[0];
    double *all = of->all;
    const double error = FLT_EPSILON * (4 + (double)p->k / 16), least = 1e-19;
    double before = -1;
    int64_t last = -1;

    for (int64_t j = 0; j < n; j++)
        all[j] = distance(p, x, y, i, j);
    if (x == y)
        all[i] = INFINITY;
    qsort(all, (size_t)n, sizeof *all, ascending);
    for (int64_t c = 0; c < p->count; c++) {
        const int64_t j = (int64_t)test_get(of->indices, (int64_t[]){i, c});
        const double got = test_get(of->distances, (int64_t[]){i, c}),
                     is = j >= 0 && j < n ? distance(p, x, y, i, j) : INFINITY;
        const double want = all[c] <= FLT_MAX ? all[c] : INFINITY;
        if (is > 1e19 && got == INFINITY && j == -1)
            continue; /* squares overflow: no neighbour */
        CHECK(h, fabs(got - is) <= error * is + least && fabs(got - want) <= error * want + least,
              "row %d, neighbour %d: row %d at %.9g, expected %.9g, and that row is at %.9g",
              (int)i, (int)c, (int)j, got, want, is);
        CHECK(h, got > before || (got == before && j > last),
              "row %d, neighbour %d: row %d at %.9g after row %d at %.9g", (int)i, (int)c, (int)j,
              got, (int)last, before);
        before = got, last = j;
    }
}

static void check(struct harness *h, const struct problem *p)
{
    const bool same = p->m == 0;
    const int64_t m = same ? p->n : p->m;
    struct test_tensor x, y, indices, distances;
    struct test_copy sent[4];
    gram_nearest_options options = GRAM_NEAREST_OPTIONS_INIT;
    double *all = malloc((size_t)p->n * sizeof *all);

    options.exclude_self = same;
    test_tensor_create(h, &x, p->dtype, ROW_MAJOR, 2, (int64_t[]){m, p->k});
    test_tensor_create(h, &y, p->dtype, ROW_MAJOR, 2, (int64_t[]){p->n, p->k});
    test_tensor_create(h, &indices, GRAM_I64, ROW_MAJOR, 2, (int64_t[]){m, p->count});
    test_tensor_create(h, &distances, GRAM_F32, ROW_MAJOR, 2, (int64_t[]){m, p->count});
    fill(h, &x, p, m);
    fill(h, &y, p, p->n);
    if (all && test_send(h, &x, &sent[0]) && test_send(h, &y, &sent[1]) &&
        test_send(h, &indices, &sent[2]) && test_send(h, &distances, &sent[3])) {
        CHECK(h,
              gram_nearest(h->g, &sent[0].t, same ? NULL : &sent[1].t, gram_number(2), &options,
                           &sent[2].t, &sent[3].t) == GRAM_OK,
              "%s", gram_message(h->g));
        CHECK(h, gram_context_synchronize(h->g) == GRAM_OK, "%s", gram_message(h->g));
        if (test_fetch(h, &indices, &sent[2]) && test_fetch(h, &distances, &sent[3]) &&
            test_fetch(h, &x, &sent[0]) && test_fetch(h, &y, &sent[1]))
            for (int64_t i = 0; i < m; i++)
                check_row(h, p,
                          &(struct answer){&x.t, same ? &x.t : &y.t, &indices.t, &distances.t, all},
                          i);
    }
    test_tensor_destroy(h, &x, "x");
    test_tensor_destroy(h, &y, "y");
    test_tensor_destroy(h, &indices, "indices");
    test_tensor_destroy(h, &distances, "distances");
    free(all);
}

static bool run(struct harness_count *count, int many)
{
    const struct harness_options options = {
        .threads = 2, .device = {GRAM_CUDA, 0}
    };
    struct harness h;

    for (int i = 0; i < many; i++) {
        if (!harness_open(&h, &options, NULL))
            return false;
        harness_seed(&h, problems[i].why, i);
        check(&h, &problems[i]);
        count->failed += h.failures > 0, count->passed += h.failures == 0;
        harness_close(&h);
    }
    return true;
}

/* Rows of other distances go by panels here too. */
static bool is_euclidean(int row)
{
    char text[200];

    case_nearest.label(row, text, sizeof text);
    return strstr(text, "metric=0 p=2 dtype=");
}

int main(void)
{
    static const char *const chips[] = {"90", "80"};
    const struct harness_options options = {
        .threads = 2, .device = {GRAM_CUDA, 0}
    };
    const bool emulated = getenv("GRAM_TEST_EMULATED") != NULL;
    struct harness_count count = {0};

    if (gram_best_device().type != GRAM_CUDA) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    if (setenv("GRAM_CDIST_FORM", "expansion", 1) != 0)
        return EXIT_FAILURE;
    for (int row = 0; row < case_nearest.rows; row++)
        if (is_euclidean(row) && !harness_run_table(&case_nearest, row, &options, &count))
            return EXIT_FAILURE;
    /* Chips differ in how they multiply, and in nothing else. */
    for (int i = 0; i < (emulated ? LENGTH(chips) : 1); i++)
        if (setenv("GRAM_FAKE_CUDA_ARCH", chips[i], 1) != 0 ||
            !run(&count, i == 0 ? LENGTH(problems) : ON_OTHERS))
            return EXIT_FAILURE;
    printf("%d passed, %d failed\n", count.passed, count.failed);
    return count.failed == 0 && count.passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
