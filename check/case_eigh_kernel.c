/*
 * case_eigh_kernel.c - the rows of gram_eigh_kernel
 *
 * Against the eigenvalues of the matrix that reference_kernel gives, and residuals with it.  A
 * basis has 2 k + 160 vectors: larger n restarts.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "eigh_problem.h"
#include "vjp_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct row {
    gram_inner inner;
    gram_function function;
    double p, outer;
    int64_t n, d, k;
    int64_t batch; /* 0: none */
    gram_dtype dtype;
    enum layout x_layout, layout; /* of x; of values and vectors */
    bool smallest, per_item, values_only, nan, lengths;
    const char *why;
};

/* clang-format off */
#define LAPLACE  .inner = GRAM_DIFFERENCE, .function = GRAM_LAPLACE, .p = 1, .outer = 1
#define GAUSSIAN .inner = GRAM_DIFFERENCE, .function = GRAM_GAUSSIAN, .p = 2, .outer = 1
#define CUBIC    .inner = GRAM_DOT, .function = GRAM_POLYNOMIAL, .p = 2, .outer = 1

static const struct row rows[] = {
    {LAPLACE, .n = 1, .d = 1, .k = 1, .dtype = GRAM_F32, .why = "smallest"},
    {LAPLACE, .n = 0, .d = 3, .k = 0, .dtype = GRAM_F64, .why = "no points"},
    {LAPLACE, .n = 9, .d = 3, .k = 0, .dtype = GRAM_F64, .why = "no pairs"},
    {GAUSSIAN, .n = 7, .d = 0, .k = 2, .dtype = GRAM_F64, .why = "no coordinates: ones, and r"},
    {GAUSSIAN, .n = 60, .d = 4, .k = 5, .dtype = GRAM_F32, .why = "a basis of all dimensions"},
    {GAUSSIAN, .n = 210, .d = 4, .k = 5, .dtype = GRAM_F64, .layout = EVERY_SECOND, .why = "strides"},
    {LAPLACE, .n = 400, .d = 3, .k = 3, .dtype = GRAM_F32, .x_layout = COLUMN_MAJOR,
     .why = "two blocks of points"},
    {LAPLACE, .n = 200, .d = 3, .k = 3, .dtype = GRAM_F64, .smallest = true, .why = "the smallest"},
    {CUBIC, .n = 200, .d = 3, .k = 4, .dtype = GRAM_F64, .x_layout = REVERSED,
     .layout = COLUMN_MAJOR, .why = "polynomial"},
    {LAPLACE, .n = 40, .d = 3, .k = 2, .batch = 3, .dtype = GRAM_F64, .per_item = true,
     .why = "a batch, another L for every item"},
    {GAUSSIAN, .n = 50, .d = 3, .k = 2, .dtype = GRAM_F16, .values_only = true, .why = "halves"},
    {GAUSSIAN, .n = 60, .d = 4, .k = 3, .dtype = GRAM_F32, .lengths = true, .why = "lengths"},
    {LAPLACE, .n = 40, .d = 3, .k = 2, .batch = 2, .dtype = GRAM_F64, .lengths = true,
     .why = "a batch, other lengths for every item"},
    {LAPLACE, .n = 40, .d = 3, .k = 2, .batch = 2, .dtype = GRAM_F32, .nan = true,
     .why = "NaN in the first item"},
};
/* clang-format on */

static void label(int row, char *text, size_t size)
{
    const struct row *r = &rows[row];

    snprintf(text, size, "%lld %lld k=%lld function=%d dtype=%d: %s", (long long)r->n,
             (long long)r->d, (long long)r->k, (int)r->function, (int)r->dtype, r->why);
}

enum argument {
    X,
    VALUES,
    VECTORS,
    INFO,
    BANDWIDTH,
    LENGTHS,
    ARGUMENTS
};

static const char *const names[] = {"x", "values", "vectors", "info", "bandwidth", "lengths"};

struct problem {
    const struct row *row;
    int64_t items;
    struct test_tensor t[ARGUMENTS];
    struct test_copy there[ARGUMENTS];
    gram_kernel_options kernel;
    gram_eigh_options options;
};

static void create(struct harness *h, struct problem *q, enum argument which, gram_dtype dtype,
                   enum layout layout, int ndim, const int64_t *core)
{
    int64_t shape[3] = {q->row->batch}, skip = q->row->batch == 0;

    for (int i = 0; i < ndim; i++)
        shape[i + 1] = core[i];
    test_tensor_create(h, &q->t[which], dtype, layout, ndim + 1 - (int)skip, shape + skip);
}

static void setup(struct harness *h, const struct row *row, struct problem *q)
{
    gram_dtype out = row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    *q = (struct problem){.row = row, .kernel = vjp_options(row->inner, row->function)};
    q->items = row->batch ? row->batch : 1;
    q->kernel.p = gram_number(row->p), q->kernel.outer_power = gram_number(row->outer);
    q->options = (gram_eigh_options)GRAM_EIGH_OPTIONS_INIT;
    q->options.select = row->smallest ? GRAM_EIGH_SMALLEST : GRAM_EIGH_LARGEST;
    q->options.count = row->k;
    create(h, q, X, row->dtype, row->x_layout, 2, (int64_t[]){row->n, row->d});
    create(h, q, VALUES, out, row->layout, 1, (int64_t[]){row->k});
    create(h, q, VECTORS, out, row->layout, 2, (int64_t[]){row->n, row->k});
    create(h, q, INFO, GRAM_I32, ROW_MAJOR, 0, NULL);
    create(h, q, BANDWIDTH, GRAM_F64, ROW_MAJOR, 0, NULL);
    test_fill_uniform(h, &q->t[X], -1, 1);
    test_fill_uniform(h, &q->t[BANDWIDTH], 1, 3);
    create(h, q, LENGTHS, out, ROW_MAJOR, 1, (int64_t[]){row->d});
    test_fill_uniform(h, &q->t[LENGTHS], 0.5, 2);
    if (row->lengths)
        q->kernel.lengths = &q->t[LENGTHS].t;
    if (row->nan)
        test_put(&q->t[X].t, 1, NAN);
    if (row->per_item)
        q->kernel.bandwidth = gram_values(&q->t[BANDWIDTH].t);
    test_tensor_freeze(&q->t[X]);
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    const gram_tensor *x = &q->there[X].t;
    gram_tensor *values = &q->there[VALUES].t,
                *vectors = q->row->values_only ? NULL : &q->there[VECTORS].t;
    gram_kernel_options kernel = q->kernel;

    if (q->row->per_item)
        kernel.bandwidth = gram_values(&q->there[BANDWIDTH].t);
    if (q->row->lengths)
        kernel.lengths = &q->there[LENGTHS].t;
    return need ? gram_eigh_kernel_workspace(h->g, x, &kernel, &q->options, values, vectors, need)
                : gram_eigh_kernel(h->g, x, &kernel, &q->options, values, vectors,
                                   &q->there[INFO].t);
}

static bool run(struct harness *h, struct problem *q)
{
    struct test_pair pairs[ARGUMENTS];

    for (int i = 0; i < ARGUMENTS; i++)
        pairs[i] = (struct test_pair){&q->t[i], &q->there[i]};
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* The item's pairs against matrix, n by n, of which w are all eigenvalues, ascending. */
static void compare(struct harness *h, const struct problem *q, int64_t item, const double *matrix,
                    const double *w)
{
    const struct row *row = q->row;
    int64_t n = row->n, k = row->k, first = row->smallest ? 0 : n - k;
    double norm = fmax(fabs(w[0]), fabs(w[n - 1])), eps = test_eps(q->t[VALUES].t.dtype);
    /* The kernel's elements are wrong by this much, and so is what multiplies by it. */
    double bound = fmin(10 * (double)n * eps, 1e-5) + 300 * eps * (double)n / fmax(norm, 1);

    for (int64_t j = 0; j < k; j++) {
        double value = test_at(&q->t[VALUES].t, item * k + j), sum = 0, length = 0;
        CHECK(h, fabs(value - w[first + j]) <= bound * norm, "value %lld is %g, expected %g",
              (long long)j, value, w[first + j]);
        for (int64_t r = 0; !row->values_only && r < n; r++) {
            double y = -value * test_at(&q->t[VECTORS].t, (item * n + r) * k + j);
            for (int64_t i = 0; i < n; i++)
                y += matrix[r * n + i] * test_at(&q->t[VECTORS].t, (item * n + i) * k + j);
            sum += y * y;
            length += pow(test_at(&q->t[VECTORS].t, (item * n + r) * k + j), 2);
        }
        CHECK(h, sqrt(sum) <= bound * norm, "residual %g of norm %g", sqrt(sum), norm);
        CHECK(h, row->values_only || fabs(length - 1) <= 100 * eps, "length^2 %.17g", length);
    }
}

static void check_item(struct harness *h, const struct problem *q, int64_t item)
{
    const struct reference_batch batch = {
        .ndim = q->row->batch > 0, .shape = {q->items}, .count = q->items};
    int64_t n = q->row->n, info = (int64_t)test_at(&q->t[INFO].t, item);
    double *matrix = calloc((size_t)(n * n + n + 1), sizeof *matrix), *w = matrix + n * n;

    if (q->row->nan && item == 0) {
        CHECK(h, info == 2 && isnan(test_at(&q->t[VALUES].t, 0)), "info %lld", (long long)info);
    } else if (CHECK(h, info == 0 && matrix, "info %lld", (long long)info) && matrix && n > 0) {
        for (int64_t i = 0; i < n * n; i++)
            matrix[i] = reference_kernel(&q->t[X].t, &q->t[X].t, &q->kernel, &batch,
                                         (int64_t[]){item, i / n, i % n});
        eigh_exact_values(n, matrix, w);
        compare(h, q, item, matrix, w);
    }
    free(matrix);
}

static void check(struct harness *h, int row)
{
    struct problem q;

    setup(h, &rows[row], &q);
    if (run(h, &q))
        for (int64_t item = 0; item < q.items; item++)
            check_item(h, &q, item);
    for (int i = 0; i < ARGUMENTS; i++)
        test_tensor_destroy(h, &q.t[i], names[i]);
}

/* ---- A problem of any size ------------------------------------------------------------------ */

struct bench {
    gram_tensor x, values, vectors;
    gram_kernel_options kernel;
    gram_eigh_options options;
    gram_eigh_report report;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return gram_eigh_kernel(g, &s->x, &s->kernel, &s->options, &s->values, &s->vectors, NULL);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->x.data);
    free(s->values.data);
    free(s->vectors.data);
    free(s);
}

/* Some rows of K v - w v against the norm, over the tolerance and the kernel's own error. */
static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    const struct reference_batch batch = {.count = 1};
    int64_t n = s->x.shape[0], k = s->options.count;
    double eps = test_eps(s->x.dtype), worst = 0;
    double norm = k > 0 ? fabs(test_at(&s->values, k - 1)) : 0;

    for (int sample = 0; sample < 20 && n > 0 && k > 0; sample++) {
        const int64_t i = (int64_t)(test_uniform(h) * (double)n), j = sample % k;
        double size[2], got = test_at(&s->values, j) * test_get(&s->vectors, (int64_t[]){i, j});
        gram_tensor v = s->vectors;
        v.data = (char *)v.data + (size_t)j * gram_dtype_size(v.dtype);
        v.shape[1] = 1;
        worst = fmax(worst, fabs(reference_kernel_matmul(&s->x, NULL, &s->kernel, &v, &batch,
                                                         (int64_t[]){0, i, 0}, size) -
                                 got) /
                                (2e-5 * norm + 300 * eps * size[0]));
    }
    return isnan(worst) ? INFINITY : worst;
}

static bool allocate(gram_tensor *t, int64_t rows_of, int64_t cols, gram_dtype dtype)
{
    size_t bytes = (size_t)(rows_of * cols) * gram_dtype_size(dtype);

    *t = gram_matrix(aligned_alloc(64, bytes / 64 * 64 + 64), rows_of, cols, dtype);
    return t->data != NULL;
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    int64_t n = args->sizes[0], d = args->sizes[1], k = (int64_t)case_number(args, "k", 10);
    struct bench *s = calloc(1, sizeof *s);
    bool gaussian = strcmp(case_param(args, "kernel", "laplace"), "gaussian") == 0;
    double bandwidth = case_number(args, "bandwidth", 1);

    if (!s)
        return harness_no_memory(h, "the problem");
    s->kernel = gaussian ? gram_gaussian(bandwidth)
                         : gram_lpq_laplace(case_number(args, "p", 2), 1, bandwidth);
    s->options = (gram_eigh_options)GRAM_EIGH_OPTIONS_INIT;
    s->options.select = GRAM_EIGH_LARGEST;
    s->options.count = k;
    s->options.tolerance = case_number(args, "tolerance", 0);
    s->report.size = sizeof s->report;
    s->options.report = &s->report;
    if (!allocate(&s->x, n, d, args->dtype) || !allocate(&s->values, 1, k, args->dtype) ||
        !allocate(&s->vectors, n, k, args->dtype)) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    s->values = gram_vector(s->values.data, k, args->dtype);
    for (int64_t i = 0; i < n * d; i++)
        test_put(&s->x, i, test_uniform(h));
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->x, &s->values, &s->vectors},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = (double)n * (double)n,
        .unit = "pairs of points",
        .bytes = (double)gram_dtype_size(args->dtype) * (double)n * (double)(d + k),
    };
    return true;
}

const struct case_op case_eigh_kernel = {
    .name = "eigh_kernel",
    .sizes = "N D",
    .params = "k=10 kernel=laplace p=2 bandwidth=1 tolerance=0 dtype=f32",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
