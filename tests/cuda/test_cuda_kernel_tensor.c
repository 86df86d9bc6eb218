/*
 * test_cuda_kernel_tensor.c - gram_kernel_matmul by tensor cores: all rows of its table; elements
 * of clustered points far from the origin one by one; points that coincide; the same bits in every
 * run, whatever the rounds of scratch
 *
 * On a device, or emulated.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS = 1300, /* two blocks of rows, and one that is not filled */
    DEPTH = 24,
    COLUMNS = 9,     /* two passes, the second of which is not filled */
    CLUSTERED = 264, /* so many points and columns of v go by kernel_matmul_wide.cuh */
    FEW = 200,       /* so many do not */
    COINCIDING = 1100,
    PLACES = 3 /* at which they lie */
};

/* ---- Tables ---------------------------------------------------------------------------------- */

static bool run_table(struct harness_count *count)
{
    const struct harness_options options = {
        .threads = 2, .device = {GRAM_CUDA, 0}
    };
    const struct case_op *op = harness_find("kernel_matmul");

    return op && setenv("GRAM_KERNEL_MATMUL", "tensor", 1) == 0 &&
           harness_run_table(op, -1, &options, count);
}

/* ---- Products with what this file makes ------------------------------------------------------ */

struct product {
    gram_kernel_options kernel;
    int64_t m, n, columns; /* m: 0 where x is y */
    const float *x, *y, *v;
    float *out;
};

/* A copy of `count` numbers in the memory of the device; NULL is a failure. */
static float *there(const float *numbers, int64_t count)
{
    const size_t bytes = (size_t)count * sizeof *numbers;
    float *copy = device_allocate(bytes);

    if (copy && numbers && !device_upload(copy, numbers, bytes)) {
        device_release(copy);
        return NULL;
    }
    return copy;
}

/* In a context of its own, so that it takes the way that `form` names. */
static bool multiply(const char *form, const struct product *p)
{
    const gram_context_options options = {
        .size = sizeof options, .device = {GRAM_CUDA, 0}
    };
    const int64_t m = p->m ? p->m : p->n;
    float *x = p->m ? there(p->x, m * DEPTH) : NULL, *y = there(p->y, p->n * DEPTH);
    float *v = there(p->v, p->n * p->columns), *out = there(NULL, m * p->columns);
    gram_tensor tx = gram_matrix(p->m ? x : y, m, DEPTH, GRAM_F32);
    gram_tensor ty = gram_matrix(y, p->n, DEPTH, GRAM_F32);
    gram_tensor tv = gram_matrix(v, p->n, p->columns, GRAM_F32);
    gram_tensor to = gram_matrix(out, m, p->columns, GRAM_F32);
    gram_context *g = NULL;
    bool right = y && v && out && (x || !p->m);

    tx.device = ty.device = tv.device = to.device = options.device;
    right = right && setenv("GRAM_KERNEL_MATMUL", form, 1) == 0 &&
            gram_context_create(&options, &g) == GRAM_OK &&
            gram_kernel_matmul(g, &tx, p->m ? &ty : NULL, &p->kernel, &tv, NULL, &to) == GRAM_OK &&
            gram_context_synchronize(g) == GRAM_OK &&
            device_download(p->out, out, (size_t)(m * p->columns) * sizeof *p->out);
    if (!right)
        printf("%s: %s\n", form, gram_message(g));
    gram_context_destroy(g);
    device_release(x);
    device_release(y);
    device_release(v);
    device_release(out);
    return right;
}

/* ---- Bits ------------------------------------------------------------------------------------ */

static bool has_same_bits(void)
{
    static const char *const forms[] = {"tensor", "tensor", "tensor-blocks"};
    static float x[POINTS * DEPTH], v[POINTS * COLUMNS], out[LENGTH(forms)][POINTS * COLUMNS];
    struct product p = {
        .kernel = gram_gaussian(1), .n = POINTS, .columns = COLUMNS, .y = x, .v = v};

    for (int i = 0; i < LENGTH(x); i++)
        x[i] = (float)(i * 7919 % 1009) / 1009;
    for (int i = 0; i < LENGTH(v); i++)
        v[i] = (float)(i * 7907 % 1013) / 1013 - 0.5F;
    for (int i = 0; i < LENGTH(forms); i++) {
        p.out = out[i];
        if (!multiply(forms[i], &p))
            return false;
        if (memcmp(out[0], out[i], sizeof out[i]) != 0) {
            printf("run %d, %s: other bits than the first run\n", i, forms[i]);
            return false;
        }
    }
    return true;
}

/* ---- Elements -------------------------------------------------------------------------------- */

static double distance(const float *x, const float *y)
{
    double sum = 0;

    for (int k = 0; k < DEPTH; k++)
        sum += ((double)x[k] - (double)y[k]) * ((double)x[k] - (double)y[k]);
    return sqrt(sum);
}

/* Whether elements that a unit matrix lets through are within the bounds of gram.h: that of the
 * distance, (k + 8) eps + 1e-6 of it, of e^-t, and of a product with n points. */
static bool check_elements(const char *name, const struct product *p, double q, double length)
{
    const double slope = q * ((DEPTH + 8) * (double)FLT_EPSILON + 1e-6);
    int64_t wrong = 0;

    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            const double t =
                pow(distance(p->x + i * DEPTH, p->y + j * DEPTH) / length, q) / (q == 2 ? 2 : 1);
            const double got = (double)p->out[i * p->n + j], want = exp(-t);
            const double bound =
                want * (t * slope + (8 * (1 + t) + (double)p->n + 8) * (double)FLT_EPSILON);
            if (!(fabs(got - want) <= bound + (double)FLT_MIN) && wrong++ == 0)
                printf("%s: element %lld, %lld is %.9g, expected %.9g +- %.2g\n", name,
                       (long long)i, (long long)j, got, want, bound);
        }
    return wrong == 0;
}

/* Clusters of points with distances of 0.05, tens apart and 1000 from the origin, whose squares
 * would have few right digits as differences of squares of norms. */
static bool has_right_elements(int64_t count)
{
    static float x[CLUSTERED * DEPTH], y[CLUSTERED * DEPTH], v[CLUSTERED * CLUSTERED],
        out[CLUSTERED * CLUSTERED];
    struct product p = {
        .m = count, .n = count, .columns = count, .x = x, .y = y, .v = v, .out = out};
    bool right;

    for (int i = 0; i < LENGTH(x); i++) {
        const int place = i / DEPTH % 7;
        const float centre = 1000 + (float)(place * 31 + i % DEPTH * 17 % 23);
        x[i] = centre + (float)(i * 7919 % 1009) / 65536;
        y[i] = centre + (float)(i * 7907 % 1013) / 65536;
    }
    memset(v, 0, sizeof v);
    for (int64_t i = 0; i < count; i++)
        v[i * count + i] = 1;
    p.kernel = gram_gaussian(0.05);
    right = multiply("tensor", &p) && check_elements("Gaussian", &p, 2, 0.05);
    p.kernel = gram_lpq_laplace(2, 1, 0.05);
    right = multiply("tensor", &p) && check_elements("Laplace", &p, 1, 0.05) && right;
    p.kernel = gram_gaussian(40); /* of which no pair of clusters is 0 */
    return multiply("tensor", &p) && check_elements("wide Gaussian", &p, 2, 40) && right;
}

/* ---- Points that coincide -------------------------------------------------------------------- */

/* Each point has as many equal ones as its place, each with an element of exactly 1, and all others
 * are too far for more than 0. */
static bool counts_equals(const char *name, gram_kernel_options kernel)
{
    static float x[COINCIDING * DEPTH], v[COINCIDING], out[COINCIDING];
    struct product p = {
        .kernel = kernel, .n = COINCIDING, .columns = 1, .y = x, .v = v, .out = out};
    int points[PLACES] = {0};

    for (int i = 0; i < COINCIDING; i++) {
        for (int k = 0; k < DEPTH; k++)
            x[i * DEPTH + k] = 10000 + (float)(i % PLACES * (k + 1)) / 8;
        v[i] = 1;
        points[i % PLACES]++;
    }
    if (!multiply("tensor", &p))
        return false;
    for (int i = 0; i < COINCIDING; i++)
        if (out[i] != (float)points[i % PLACES]) {
            printf("%s: point %d has %.9g equal ones, expected %d\n", name, i, (double)out[i],
                   points[i % PLACES]);
            return false;
        }
    return true;
}

int main(void)
{
    struct harness_count count = {0};
    bool right;

    if (gram_best_device().type != GRAM_CUDA || !device_open(0)) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    right = has_same_bits();
    right = has_right_elements(FEW) && right;
    right = has_right_elements(CLUSTERED) && right;
    right = counts_equals("Gaussian", gram_gaussian(0.01)) && right;
    right = counts_equals("Laplace", gram_lpq_laplace(2, 1, 0.01)) && right;
    if (!run_table(&count))
        return EXIT_FAILURE;
    printf("%d passed, %d failed; the same bits in every run, right elements: %s\n", count.passed,
           count.failed, right ? "yes" : "no");
    return count.failed == 0 && count.passed > 0 && right ? EXIT_SUCCESS : EXIT_FAILURE;
}
