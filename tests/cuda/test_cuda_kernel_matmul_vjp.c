/*
 * test_cuda_kernel_matmul_vjp.c - the rows of gram_kernel_matmul_vjp by each of its ways on a GPU;
 * edges of its tiles, duplicates and NaN against a CPU in f64; and the same bits in every run,
 * whatever the rounds of scratch
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
    POINTS = 700, /* of a set, at most */
    DEPTH = 44,
    COLUMNS = 66,
    NUMBERS = POINTS * COLUMNS, /* of an argument, at most */
    ARGUMENTS = 8
};

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Emulated, the rows take the ways in turns: all of them by each way take minutes. */
static bool by_each_way(struct harness_count *count)
{
    static const char *const forms[] = {"panels", "fused", "blocks"};
    const struct harness_options options = {
        .threads = 2, .device = {GRAM_CUDA, 0}
    };
    const struct case_op *op = harness_find("kernel_matmul_vjp");
    const int step = getenv("GRAM_TEST_EMULATED") ? LENGTH(forms) : 1;

    for (int i = 0; i < LENGTH(forms); i++) {
        if (!op || setenv("GRAM_KERNEL_MATMUL", forms[i], 1) != 0)
            return false;
        for (int row = step > 1 ? i : 0; row < op->rows; row += step)
            if (!harness_run_table(op, row, &options, count))
                return false;
    }
    return true;
}

/* ---- Problems -------------------------------------------------------------------------------- */

enum trouble {
    NONE,
    DUPLICATES, /* a few different points */
    FAR,        /* from the origin */
    NAN_POINT,  /* of x */
    NAN_COTANGENT
};

struct problem {
    int64_t m, n, depth, columns; /* n 0: y is x */
    double p, q;                  /* q 0: the cosine */
    enum trouble trouble;
};

/* Arguments, in this order; the gradients are those that are compared. */
enum argument {
    X,
    Y,
    V,
    GRAD,
    TO_X,
    TO_Y,
    TO_V,
    TO_BANDWIDTH
};

struct numbers {
    gram_dtype dtype;
    gram_device device;
    void *at[ARGUMENTS]; /* on the device */
};

static int64_t count_of(const struct problem *p, int argument)
{
    const int64_t n = p->n ? p->n : p->m;

    switch (argument) {
    case X:
    case TO_X:
        return p->m * p->depth;
    case Y:
    case TO_Y:
        return n * p->depth;
    case GRAD:
        return p->m * p->columns;
    case TO_BANDWIDTH:
        return 1;
    default:
        return n * p->columns;
    }
}

static double number_of(const struct problem *p, int argument, int64_t i)
{
    const bool point = argument == X || argument == Y;
    const int64_t row = i / (point ? p->depth : p->columns);
    const int64_t at = point && p->trouble == DUPLICATES ? i % (3 * p->depth) : i;
    const double u = (double)((at * 7919 + argument * 31) % 1009) / 1024;

    if (row == 3 && ((argument == X && p->trouble == NAN_POINT) ||
                     (argument == GRAD && p->trouble == NAN_COTANGENT)))
        return (double)NAN;
    if (point)
        return p->trouble == FAR ? u + 4096 : u;
    return u - 0.5;
}

static void set(void *to, gram_dtype dtype, int64_t i, double value)
{
    if (dtype == GRAM_F32)
        ((float *)to)[i] = (float)value;
    else
        ((double *)to)[i] = value;
}

static double get(const void *from, gram_dtype dtype, int64_t i)
{
    return dtype == GRAM_F32 ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

static gram_kernel_options kernel_of(const struct problem *p)
{
    gram_kernel_options o = gram_lpq_laplace(p->p, p->q > 0 ? p->q : 1, 1.5);

    if (p->q == 2 && p->p == 2)
        o = gram_gaussian(1.5);
    if (p->q == 0) {
        o = (gram_kernel_options)GRAM_KERNEL_OPTIONS_INIT;
        o.inner = GRAM_DOT, o.function = GRAM_COSINE;
    }
    return o;
}

/* ---- A call ---------------------------------------------------------------------------------- */

static gram_tensor matrix(const struct numbers *w, int argument, int64_t rows, int64_t cols)
{
    gram_tensor t = gram_matrix(w->at[argument], rows, cols, w->dtype);

    t.device = w->device;
    return t;
}

static gram_status differentiate(gram_context *g, const struct problem *p, const struct numbers *w)
{
    const int64_t n = p->n ? p->n : p->m;
    const gram_kernel_options kernel = kernel_of(p);
    gram_tensor x = matrix(w, X, p->m, p->depth), y = matrix(w, Y, n, p->depth);
    gram_tensor v = matrix(w, V, n, p->columns), grad = matrix(w, GRAD, p->m, p->columns);
    gram_tensor to_x = matrix(w, TO_X, p->m, p->depth), to_y = matrix(w, TO_Y, n, p->depth);
    gram_tensor to_v = matrix(w, TO_V, n, p->columns), bandwidth = matrix(w, TO_BANDWIDTH, 1, 1);
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;

    bandwidth.ndim = 0;
    grads.x = &to_x, grads.v = &to_v, grads.bandwidth = &bandwidth;
    if (p->n)
        grads.y = &to_y;
    return gram_kernel_matmul_vjp(g, &x, p->n ? &y : NULL, &kernel, &v, &grad, &grads);
}

/* The gradients of a problem, ARGUMENTS times NUMBERS of them. */
static bool solve(const struct problem *p, gram_dtype dtype, const char *form, double *result)
{
    const bool on_device = form != NULL;
    const gram_context_options options = {
        .size = sizeof options, .device = {on_device ? GRAM_CUDA : GRAM_CPU, 0}
    };
    struct numbers w = {.dtype = dtype, .device = options.device};
    const size_t size = dtype == GRAM_F32 ? 4 : 8;
    gram_context *g = NULL;
    void *host = malloc(NUMBERS * sizeof(double));
    bool right = host && (!form || setenv("GRAM_KERNEL_MATMUL", form, 1) == 0) &&
                 gram_context_create(&options, &g) == GRAM_OK;

    for (int a = 0; right && a < ARGUMENTS; a++) {
        const int64_t count = count_of(p, a);
        for (int64_t i = 0; i < count; i++) /* an f64 call gets the numbers of the f32 one */
            set(host, dtype, i, (double)(float)number_of(p, a, i));
        w.at[a] = on_device ? device_allocate((size_t)count * size) : malloc((size_t)count * size);
        right = w.at[a] != NULL;
        if (right && on_device)
            right = device_upload(w.at[a], host, (size_t)count * size);
        else if (right)
            memcpy(w.at[a], host, (size_t)count * size);
    }
    right = right && differentiate(g, p, &w) == GRAM_OK && gram_context_synchronize(g) == GRAM_OK;
    if (!right)
        printf("%s\n", gram_message(g));
    for (int a = TO_X; right && a < ARGUMENTS; a++) {
        const int64_t count = count_of(p, a);
        if (on_device)
            right = device_download(host, w.at[a], (size_t)count * size);
        else
            memcpy(host, w.at[a], (size_t)count * size);
        for (int64_t i = 0; right && i < count; i++)
            result[a * NUMBERS + i] = get(host, dtype, i);
    }
    for (int a = 0; a < ARGUMENTS; a++)
        on_device ? device_release(w.at[a]) : free(w.at[a]);
    gram_context_destroy(g);
    free(host);
    return right;
}

/* ---- Edges ----------------------------------------------------------------------------------- */

/* Errors in units of the largest number of an argument: sums of hundreds of terms. */
static bool is_near(const struct problem *p, const double *got, const double *want, double eps)
{
    for (int a = TO_X; a < ARGUMENTS; a++) {
        const int64_t count = a == TO_Y && !p->n ? 0 : count_of(p, a);
        double most = 1;
        for (int64_t i = 0; i < count; i++)
            most = fmax(most, fabs(want[a * NUMBERS + i])); /* NaN is left out */
        for (int64_t i = 0; i < count; i++) {
            const double g = got[a * NUMBERS + i], w = want[a * NUMBERS + i];
            if (isnan(g) == isnan(w) && (isnan(w) || fabs(g - w) <= 400 * eps * most))
                continue;
            printf(
                "m=%d n=%d depth=%d columns=%d p=%g q=%g trouble=%d: element %d of argument %d "
                "is %.9g, expected %.9g\n",
                (int)p->m, (int)p->n, (int)p->depth, (int)p->columns, p->p, p->q, (int)p->trouble,
                (int)i, a, g, w);
            return false;
        }
    }
    return true;
}

static bool is_right(const struct problem *p, double *got, double *want)
{
    bool right = solve(p, GRAM_F64, NULL, want);

    for (int dtype = 0; right && dtype < 2; dtype++)
        right = solve(p, dtype ? GRAM_F64 : GRAM_F32, "fused", got) &&
                is_near(p, got, want, dtype ? DBL_EPSILON : (double)FLT_EPSILON);
    return right;
}

static bool edges_are_right(double *got, double *want)
{
    static const struct problem problems[] = {
        {  5,   0,  3, 1,        2, 2,          NONE},
        {129, 131, 43, 1,        2, 2,          NONE}, /* all the room for coordinates */
        {129,   0, 43, 1,        2, 1,          NONE}, /* the same, two passes of columns */
        { 40,  50, 43, 1,      0.7, 1,          NONE},
        { 40,  50, 27, 1,      2.5, 1,          NONE}, /* long steps */
        { 20,  30, 44, 2,        2, 2,          NONE}, /* more than that */
        {600,  40,  2, 2,        1, 1,          NONE}, /* two blocks of points */
        { 40, 600,  2, 2,        2, 1,          NONE},
        { 60,  70,  3, 2,      0.5, 1,          NONE},
        { 60,  70,  3, 2,      0.7, 1,          NONE},
        { 60,  70,  3, 2,      1.3, 1,          NONE},
        { 60,  70,  3, 2,      1.5, 1,          NONE},
        { 60,  70,  3, 2,      2.5, 1,          NONE},
        { 60,  70,  3, 2,        3, 1,          NONE},
        { 60,  70,  3, 2, INFINITY, 1,          NONE},
        { 60,   0,  3, 2,        2, 0,          NONE}, /* the cosine */
        {200,   0,  3, 2,        2, 1,    DUPLICATES},
        {200,   0,  3, 2,        1, 1,    DUPLICATES},
        {200,  90,  3, 2,      1.3, 1,    DUPLICATES},
        {200,  90,  3, 2, INFINITY, 1,    DUPLICATES},
        {200,  90,  3, 2,        2, 2,           FAR},
        {200,   0,  3, 2,        2, 1,           FAR},
        { 60,  70,  3, 2,        2, 2,     NAN_POINT},
        { 60,  70,  3, 2,        1, 1,     NAN_POINT},
        { 60,  70,  3, 2,      1.3, 1,     NAN_POINT},
        { 60,  70,  3, 2, INFINITY, 1,     NAN_POINT},
        { 60,   0,  3, 2,        2, 1,     NAN_POINT},
        { 60,  70,  3, 2,        2, 0,     NAN_POINT},
        { 60,  70,  3, 2,        2, 1, NAN_COTANGENT},
    };
    bool right = true;

    for (int i = 0; i < LENGTH(problems); i++)
        right = is_right(&problems[i], got, want) && right;
    for (int columns = 1; columns <= 65; columns += columns < 9 ? 1 : 7)
        for (int same = 0; same < 2; same++) {
            const struct problem p = {65, same ? 0 : 33, 2, columns, 2, 2, NONE};
            right = is_right(&p, got, want) && right;
        }
    return right;
}

/* ---- Bits ------------------------------------------------------------------------------------ */

static bool has_same_bits(double *first, double *next)
{
    static const char *const forms[] = {"fused", "fused", "blocks"};
    static const struct problem problems[] = {
        {700,   0, 3, 2, 2, 2, NONE},
        {700, 650, 3, 3, 1, 1, NONE},
    };
    bool same = true;

    memset(first, 0, ARGUMENTS * NUMBERS * sizeof *first);
    memset(next, 0, ARGUMENTS * NUMBERS * sizeof *next);
    for (int k = 0; k < LENGTH(problems); k++)
        for (int i = 0; i < LENGTH(forms); i++) {
            if (!solve(&problems[k], GRAM_F32, forms[i], i ? next : first))
                return false;
            if (i && memcmp(first, next, ARGUMENTS * NUMBERS * sizeof *first) != 0) {
                printf("run %d, %s: other bits than the first run\n", i, forms[i]);
                same = false;
            }
        }
    return same;
}

int main(void)
{
    struct harness_count count = {0};
    double *got, *want;
    bool right;

    if (gram_best_device().type != GRAM_CUDA || !device_open(0)) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    got = calloc(ARGUMENTS * (size_t)NUMBERS, sizeof *got);
    want = calloc(ARGUMENTS * (size_t)NUMBERS, sizeof *want);
    right = got && want && edges_are_right(got, want);
    right = right && has_same_bits(got, want);
    free(got);
    free(want);
    if (!by_each_way(&count))
        return EXIT_FAILURE;
    printf("%d passed, %d failed; edges, and the same bits in every run: %s\n", count.passed,
           count.failed, right ? "yes" : "no");
    return count.failed == 0 && count.passed > 0 && right ? EXIT_SUCCESS : EXIT_FAILURE;
}
