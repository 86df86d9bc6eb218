/*
 * case_kernel_reduce.c - the rows of gram_kernel_reduce
 *
 * On the CPU a block has 1024 columns of f32 or 512 of f64, and a part of a strip at least 2048
 * columns.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include "pairwise_problem.h"
#include "vjp_problem.h"
#include <math.h>
#include <stdlib.h>

struct row {
    gram_reduction what;
    gram_inner inner;
    gram_function function;
    double p, outer, scale;
    int64_t m, n, k, r;
    int64_t x_batch, y_batch, v_batch; /* 0: none */
    gram_dtype dtype;                  /* of x */
    enum layout x_layout, y_layout, v_layout, out_layout;
    bool integers, same, nan; /* nan: in row 1 of x */
    bool nan_y;               /* in the row of y before the last one */
    bool per_item;            /* the bandwidth is a tensor */
    bool logs;                /* log-weights are given; the first one is -INFINITY */
    int64_t logs_batch;
    enum layout logs_layout;
    bool no_out, indices;
    double regularization;
    double offset; /* of the points from the origin */
    const char *why;
};

/* clang-format off */
#define MIN     .what = GRAM_REDUCE_MIN
#define MAX     .what = GRAM_REDUCE_MAX
#define LSE     .what = GRAM_REDUCE_LOGSUMEXP
#define SOFTMAX .what = GRAM_REDUCE_SOFTMAX
#define GAUSSIAN .inner = GRAM_DIFFERENCE, .function = GRAM_GAUSSIAN, .p = 2, .outer = 1, .scale = 1
#define LAPLACE  .inner = GRAM_DIFFERENCE, .function = GRAM_LAPLACE, .p = 1, .outer = 1, .scale = 1
#define DISTANCE .inner = GRAM_DIFFERENCE, .function = GRAM_IDENTITY, .p = 2, .outer = 0.5
#define DOT      .inner = GRAM_DOT, .function = GRAM_IDENTITY, .p = 2, .outer = 1

static const struct row rows[] = {
    {MIN, DISTANCE, .m = 1, .n = 1, .k = 1, .dtype = GRAM_F32, .indices = true, .why = "smallest"},
    {MIN, DISTANCE, .m = 0, .n = 3, .k = 2, .dtype = GRAM_F32, .why = "no rows of x"},
    {MIN, DISTANCE, .m = 3, .n = 0, .k = 2, .dtype = GRAM_F32, .indices = true,
     .why = "no rows of y: infinity, and no index"},
    {MAX, DISTANCE, .m = 3, .n = 0, .k = 2, .dtype = GRAM_F64, .indices = true,
     .why = "no rows of y: minus infinity"},
    {LSE, GAUSSIAN, .m = 3, .n = 0, .k = 2, .dtype = GRAM_F64, .why = "no rows of y"},
    {SOFTMAX, GAUSSIAN, .m = 3, .n = 0, .k = 2, .r = 2, .dtype = GRAM_F32, .why = "no rows of y"},
    {SOFTMAX, GAUSSIAN, .m = 3, .n = 5, .k = 2, .r = 0, .dtype = GRAM_F32,
     .why = "no columns of v"},
    {MIN, DISTANCE, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32, .indices = true,
     .why = "the nearest"},
    {MAX, LAPLACE, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F64, .indices = true, .why = "Laplace"},
    {MIN, DISTANCE, .m = 70, .n = 1700, .k = 3, .dtype = GRAM_F32, .integers = true,
     .indices = true, .why = "ties, the first of them"},
    {MAX, DISTANCE, .m = 70, .n = 1700, .k = 3, .dtype = GRAM_F64, .integers = true,
     .indices = true, .no_out = true, .why = "ties, indices alone"},
    {MIN, DISTANCE, .m = 3, .n = 9000, .k = 2, .dtype = GRAM_F32, .integers = true,
     .indices = true, .why = "parts of a strip are merged"},
    {MIN, DISTANCE, .m = 60, .n = 700, .k = 40, .dtype = GRAM_F32, .offset = 1e6,
     .why = "a million from the origin"},
    {LSE, GAUSSIAN, .m = 60, .n = 700, .k = 3, .dtype = GRAM_F32, .offset = 1e6,
     .why = "a million from the origin"},
    {SOFTMAX, LAPLACE, .m = 60, .k = 3, .r = 2, .dtype = GRAM_F64, .offset = 1e6, .same = true,
     .why = "a million from the origin, y is x"},
    {MIN, DISTANCE, .m = 40, .n = 50, .k = 0, .dtype = GRAM_F32, .integers = true, .indices = true,
     .why = "no columns: the first row"},
    {LSE, DOT, .scale = 1, .m = 4, .n = 50, .k = 0, .dtype = GRAM_F64, .why = "no columns"},
    {MAX, DISTANCE, .m = 3, .n = 9000, .k = 1, .dtype = GRAM_F32, .integers = true,
     .indices = true, .why = "duplicates by the thousand, parts"},
    {MAX, DOT, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32, .why = "values alone"},
    {LSE, GAUSSIAN, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32, .why = "Gaussian"},
    {LSE, DISTANCE, .scale = -3, .m = 70, .n = 1200, .k = 5, .dtype = GRAM_F64,
     .why = "a soft minimum, several blocks"},
    {LSE, DOT, .scale = 300, .m = 70, .n = 90, .k = 5, .dtype = GRAM_F32,
     .why = "exponents that would overflow"},
    {LSE, DISTANCE, .scale = -500, .m = 3, .n = 5000, .k = 5, .dtype = GRAM_F32,
     .why = "parts are merged"},
    {LSE, DISTANCE, .scale = 0, .m = 4, .n = 60, .k = 5, .dtype = GRAM_F64,
     .why = "all exponents 0"},
    {SOFTMAX, GAUSSIAN, .m = 70, .n = 90, .k = 5, .r = 3, .dtype = GRAM_F32, .why = "Gaussian"},
    {SOFTMAX, DOT, .scale = 40, .m = 70, .n = 1300, .k = 5, .r = 2, .dtype = GRAM_F64,
     .why = "attention, several blocks"},
    {SOFTMAX, DISTANCE, .scale = -30, .m = 5, .n = 5000, .k = 3, .r = 2, .dtype = GRAM_F32,
     .why = "parts are merged"},
    {SOFTMAX, DISTANCE, .scale = -4, .m = 60, .k = 3, .r = 1, .dtype = GRAM_F32, .same = true,
     .why = "y is x"},
    {MAX, LAPLACE, .m = 60, .k = 3, .dtype = GRAM_F32, .same = true, .regularization = 2,
     .indices = true, .why = "y is x, the diagonal is largest"},
    {MIN, DISTANCE, .m = 30, .n = 40, .k = 5, .dtype = GRAM_F32, .nan = true, .indices = true,
     .why = "NaN in one row"},
    {SOFTMAX, GAUSSIAN, .m = 30, .n = 40, .k = 5, .r = 2, .dtype = GRAM_F64, .nan = true,
     .why = "NaN in one row"},
    {LSE, GAUSSIAN, .m = 30, .n = 40, .k = 5, .dtype = GRAM_F32, .nan = true,
     .why = "NaN in one row"},
    {MIN, DISTANCE, .m = 5, .n = 5000, .k = 3, .dtype = GRAM_F32, .nan_y = true, .indices = true,
     .why = "NaN in one row of y, in the last part"},
    {MAX, LAPLACE, .m = 30, .n = 1027, .k = 3, .dtype = GRAM_F64, .nan_y = true, .indices = true,
     .why = "NaN behind the last whole vector"},
    {LSE, GAUSSIAN, .m = 30, .n = 1027, .k = 3, .dtype = GRAM_F32, .nan_y = true,
     .why = "NaN behind the last whole vector"},
    {SOFTMAX, LAPLACE, .m = 25, .n = 1025, .k = 3, .r = 7, .dtype = GRAM_F32,
     .why = "one row behind a group, one column behind a block"},
    {SOFTMAX, DISTANCE, .scale = -9, .m = 49, .n = 511, .k = 3, .r = 13, .dtype = GRAM_F64,
     .why = "columns of v of every width"},
    {SOFTMAX, GAUSSIAN, .m = 23, .n = 193, .k = 3, .r = 16, .dtype = GRAM_F32,
     .why = "one column behind a piece"},
    {SOFTMAX, GAUSSIAN, .m = 2, .n = 1, .k = 3, .r = 33, .dtype = GRAM_F32,
     .why = "more columns of v than rows"},
    {LSE, DISTANCE, .scale = -1e30, .m = 30, .n = 97, .k = 3, .dtype = GRAM_F64,
     .why = "one exponential counts"},
    {MIN, DISTANCE, .m = 20, .n = 30, .k = 3, .dtype = GRAM_F16, .indices = true, .why = "halves"},
    {LSE, GAUSSIAN, .m = 20, .n = 30, .k = 3, .dtype = GRAM_BF16, .why = "bfloat16"},
    {SOFTMAX, LAPLACE, .m = 20, .n = 30, .k = 3, .r = 4, .dtype = GRAM_F64,
     .x_layout = COLUMN_MAJOR, .y_layout = EVERY_SECOND, .v_layout = EVERY_SECOND,
     .out_layout = COLUMN_MAJOR, .why = "strides"},
    {SOFTMAX, LAPLACE, .m = 20, .n = 30, .k = 3, .r = 4, .dtype = GRAM_F32, .x_layout = REVERSED,
     .y_layout = PADDED, .v_layout = REVERSED, .out_layout = PADDED, .why = "strides"},
    {SOFTMAX, LAPLACE, .m = 9, .n = 7, .k = 3, .r = 2, .x_batch = 3, .y_batch = 3, .v_batch = 3,
     .dtype = GRAM_F32, .per_item = true, .why = "a batch, another L for every item"},
    {SOFTMAX, GAUSSIAN, .m = 9, .n = 7, .k = 3, .r = 2, .v_batch = 3, .dtype = GRAM_F64,
     .why = "a batch of v alone"},
    {LSE, GAUSSIAN, .m = 30, .n = 90, .k = 5, .dtype = GRAM_F32, .logs = true,
     .why = "log-weights"},
    {LSE, DISTANCE, .scale = -20, .m = 3, .n = 5001, .k = 2, .dtype = GRAM_F32, .logs = true,
     .why = "log-weights of parts"},
    {LSE, DISTANCE, .scale = 0, .m = 5, .n = 40, .k = 2, .dtype = GRAM_F64, .logs = true,
     .why = "log-weights alone"},
    {LSE, GAUSSIAN, .m = 4, .n = 1, .k = 2, .dtype = GRAM_F64, .logs = true,
     .why = "no weight but 0"},
    {LSE, GAUSSIAN, .m = 4, .n = 0, .k = 2, .dtype = GRAM_F32, .logs = true,
     .why = "no log-weights"},
    {LSE, GAUSSIAN, .m = 4, .n = 70, .k = 2, .dtype = GRAM_F64, .logs = true, .nan = true,
     .why = "NaN in one row"},
    {SOFTMAX, LAPLACE, .m = 30, .n = 1030, .k = 5, .r = 3, .dtype = GRAM_F64, .logs = true,
     .logs_layout = EVERY_SECOND, .why = "log-weights with a stride"},
    {SOFTMAX, DISTANCE, .scale = -9, .m = 26, .n = 70, .k = 3, .r = 2, .dtype = GRAM_F32,
     .logs = true, .logs_layout = REVERSED, .why = "log-weights backwards"},
    {SOFTMAX, GAUSSIAN, .m = 9, .n = 7, .k = 3, .r = 2, .dtype = GRAM_F32, .logs = true,
     .logs_batch = 3, .why = "a batch of log-weights alone"},
    {LSE, GAUSSIAN, .m = 9, .n = 7, .k = 3, .x_batch = 2, .dtype = GRAM_F16, .logs = true,
     .why = "log-weights of halves, shared by items"},
    {LSE, LAPLACE, .m = 60, .k = 3, .dtype = GRAM_F32, .same = true, .logs = true,
     .why = "log-weights, y is x"},
    {MIN, DISTANCE, .m = 2, .n = 3, .k = 1, .x_batch = 150, .y_batch = 150, .dtype = GRAM_F64,
     .indices = true, .why = "many tiny items"},
};
/* clang-format on */

static void label(int row, char *text, size_t size)
{
    const struct row *r = &rows[row];

    snprintf(text, size, "what=%d %lld %lld %lld %lld function=%d dtype=%d: %s", (int)r->what,
             (long long)r->m, (long long)(r->same ? r->m : r->n), (long long)r->k, (long long)r->r,
             (int)r->function, (int)r->dtype, r->why);
}

enum argument {
    X,
    Y,
    V,
    OUT,
    INDICES,
    BANDWIDTH,
    LOGS,
    ARGUMENTS
};

struct problem {
    const struct row *row;
    struct test_tensor t[ARGUMENTS];
    struct test_copy there[ARGUMENTS];
    bool used[ARGUMENTS];
    int64_t n;
    gram_kernel_options kernel;
    struct reference_batch batch;
};

static const char *const names[] = {"x", "y", "v", "out", "indices", "bandwidth", "log_weights"};

static void create(struct harness *h, struct problem *q, enum argument which, gram_dtype dtype,
                   enum layout layout, const int64_t shape[3], int dims)
{
    int skip = shape[0] == 0;

    test_tensor_create(h, &q->t[which], dtype, layout, dims - skip, shape + skip);
    q->used[which] = true;
    if (dtype == GRAM_I64)
        return;
    if (q->row->integers)
        test_fill_integers(h, &q->t[which], 3);
    else if (which == X || which == Y)
        test_fill_uniform(h, &q->t[which], q->row->offset - 1, q->row->offset + 1);
    else
        test_fill_uniform(h, &q->t[which], -1, 1);
}

static void create_outputs(struct harness *h, struct problem *q)
{
    const struct row *row = q->row;
    const int64_t batch = q->batch.ndim ? q->batch.shape[0] : 0;
    const gram_dtype real = row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    if (!row->no_out)
        create(h, q, OUT, real, row->out_layout, (int64_t[]){batch, row->m, row->r},
               row->what == GRAM_REDUCE_SOFTMAX ? 3 : 2);
    if (row->indices)
        create(h, q, INDICES, GRAM_I64, ROW_MAJOR, (int64_t[]){batch, row->m, 0}, 2);
    if (row->per_item) {
        test_tensor_create(h, &q->t[BANDWIDTH], GRAM_F64, ROW_MAJOR, 1, q->batch.shape);
        q->used[BANDWIDTH] = true;
        test_fill_uniform(h, &q->t[BANDWIDTH], 1, 3);
        q->kernel.bandwidth = gram_values(&q->t[BANDWIDTH].t);
    }
}

static void setup(struct harness *h, const struct row *row, struct problem *q)
{
    const gram_dtype real = row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    *q = (struct problem){.row = row,
                          .n = row->same ? row->m : row->n,
                          .kernel = vjp_options(row->inner, row->function)};
    q->kernel.p = gram_number(row->p), q->kernel.outer_power = gram_number(row->outer);
    q->kernel.regularization = gram_number(row->regularization);
    create(h, q, X, row->dtype, row->x_layout, (int64_t[]){row->x_batch, row->m, row->k}, 3);
    if (!row->same)
        create(h, q, Y, row->dtype, row->y_layout, (int64_t[]){row->y_batch, q->n, row->k}, 3);
    if (row->what == GRAM_REDUCE_SOFTMAX)
        create(h, q, V, real, row->v_layout, (int64_t[]){row->v_batch, q->n, row->r}, 3);
    if (row->logs) {
        create(h, q, LOGS, real, row->logs_layout, (int64_t[]){row->logs_batch, q->n, 0}, 2);
        if (q->n > 0) /* of the first item */
            test_set(&q->t[LOGS].t, (int64_t[]){0, 0}, -INFINITY);
    }
    if (row->nan)
        test_set(&q->t[X].t, (int64_t[]){1, 0}, NAN);
    if (row->nan_y)
        test_set(&q->t[Y].t, (int64_t[]){q->n - 2, 0}, NAN);
    q->batch = reference_join(4,
                              (const gram_tensor *[]){&q->t[X].t, q->used[Y] ? &q->t[Y].t : NULL,
                                                      q->used[V] ? &q->t[V].t : NULL,
                                                      q->used[LOGS] ? &q->t[LOGS].t : NULL},
                              (const int[]){2, 2, 2, 1});
    create_outputs(h, q);
    for (int i = 0; i < ARGUMENTS; i++)
        if (q->used[i] && i != OUT && i != INDICES)
            test_tensor_freeze(&q->t[i]);
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    gram_kernel_reduce_options options = GRAM_KERNEL_REDUCE_OPTIONS_INIT;
    gram_tensor *at[ARGUMENTS];
    gram_kernel_options kernel = q->kernel;

    for (int i = 0; i < ARGUMENTS; i++)
        at[i] = q->used[i] ? &q->there[i].t : NULL;
    options.scale = q->row->scale;
    options.log_weights = at[LOGS];
    if (q->row->per_item)
        kernel.bandwidth = gram_values(at[BANDWIDTH]);
    return need ? gram_kernel_reduce_workspace(h->g, at[X], at[Y], &kernel, q->row->what, at[V],
                                               &options, at[OUT], at[INDICES], need)
                : gram_kernel_reduce(h->g, at[X], at[Y], &kernel, q->row->what, at[V], &options,
                                     at[OUT], at[INDICES]);
}

static bool run(struct harness *h, struct problem *q)
{
    struct test_pair pairs[ARGUMENTS];

    for (int i = 0; i < ARGUMENTS; i++)
        pairs[i] = (struct test_pair){q->used[i] ? &q->t[i] : NULL, &q->there[i]};
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* ---- The answer ----------------------------------------------------------------------------- */

/* A row of the matrix, and the largest error that its elements may have. */
struct answer {
    int64_t item, i;
    double *values, error;
};

static void find_values(const struct problem *q, struct answer *a)
{
    const struct pair_question question = {
        .x = &q->t[X].t, .y = q->used[Y] ? &q->t[Y].t : NULL, .kernel = &q->kernel};

    a->error = 0;
    for (int64_t j = 0; j < q->n; j++) {
        const int64_t at[3] = {a->item, a->i, j};
        double bound;
        a->values[j] = pair_want(&question, &q->batch, at);
        bound = pair_bound(&question, &q->batch, at, a->values[j]);
        a->error = bound > a->error ? bound : a->error;
    }
}

static void check_extreme(struct harness *h, const struct problem *q, const struct answer *a)
{
    const int64_t at = a->item * q->row->m + a->i;
    int64_t index, got = -1;
    double want = reference_extreme(q->n, a->values, q->row->what == GRAM_REDUCE_MIN, &index);

    if (q->used[OUT]) {
        double value = test_at(&q->t[OUT].t, at);
        CHECK(h, isnan(want) ? isnan(value) : value == want || fabs(value - want) <= a->error,
              "out[%lld][%lld] is %.9g, expected %.9g +- %.2g", (long long)a->item, (long long)a->i,
              value, want, a->error);
    }
    if (!q->used[INDICES])
        return;
    got = (int64_t)test_at(&q->t[INDICES].t, at);
    CHECK(h,
          got == index || (!q->row->integers && got >= 0 && got < q->n &&
                           fabs(a->values[got] - want) <= 2 * a->error),
          "indices[%lld][%lld] is %lld, expected %lld", (long long)a->item, (long long)a->i,
          (long long)got, (long long)index);
}

/* The values become exponents; the largest rounding of a log-weight's addition. */
static double find_exponents(const struct problem *q, const struct answer *a, double eps)
{
    double most = 0;

    for (int64_t j = 0; j < q->n; j++) {
        const double logarithm =
            q->used[LOGS] ? reference_element(&q->t[LOGS].t, &q->batch, a->item, 1, (int64_t[]){j})
                          : 0;
        const double value = q->row->scale * a->values[j], size = fabs(value) + fabs(logarithm);
        if (q->used[LOGS] && isfinite(size))
            most = fmax(most, 2 * eps * size);
        a->values[j] = value + logarithm;
    }
    return most;
}

static void check_soft(struct harness *h, const struct problem *q, const struct answer *a)
{
    const struct row *row = q->row;
    const double eps = test_eps(row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32),
                 rounding = find_exponents(q, a, eps),
                 want = reference_logsumexp(q->n, a->values, 1),
                 error = fabs(row->scale) * a->error + rounding + ((double)q->n + 16) * eps;
    const int64_t at = a->item * row->m + a->i;

    if (row->what == GRAM_REDUCE_LOGSUMEXP) {
        double got = test_at(&q->t[OUT].t, at), bound = error + 4 * eps * fabs(want);
        CHECK(h, isnan(want) ? isnan(got) : got == want || fabs(got - want) <= bound,
              "out[%lld][%lld] is %.9g, expected %.9g +- %.2g", (long long)a->item, (long long)a->i,
              got, want, bound);
        return;
    }
    for (int64_t c = 0; c < row->r; c++) {
        double sum = q->n ? 0 : NAN, size = 0, got = test_at(&q->t[OUT].t, at * row->r + c);
        for (int64_t j = 0; j < q->n; j++) {
            double v = reference_element(&q->t[V].t, &q->batch, a->item, 2, (int64_t[]){j, c});
            double w = exp(a->values[j] - want);
            sum += w * v, size += w * fabs(v);
        }
        CHECK(h, isnan(sum) ? isnan(got) : fabs(got - sum) <= 2 * error * size + eps,
              "out[%lld][%lld][%lld] is %.9g, expected %.9g +- %.2g", (long long)a->item,
              (long long)a->i, (long long)c, got, sum, 2 * error * size);
    }
}

static void check(struct harness *h, int row)
{
    struct problem q;
    struct answer a;

    setup(h, &rows[row], &q);
    a = (struct answer){.values = dense_doubles(q.n)};
    if (run(h, &q))
        for (a.item = 0; a.item < q.batch.count; a.item++)
            for (a.i = 0; a.i < q.row->m; a.i++) {
                find_values(&q, &a);
                if (q.row->what == GRAM_REDUCE_MIN || q.row->what == GRAM_REDUCE_MAX)
                    check_extreme(h, &q, &a);
                else
                    check_soft(h, &q, &a);
            }
    free(a.values);
    for (int i = 0; i < ARGUMENTS; i++)
        if (q.used[i])
            test_tensor_destroy(h, &q.t[i], names[i]);
}

/* ---- A problem of any size ------------------------------------------------------------------ */

struct bench {
    gram_tensor x, y, v, out;
    gram_kernel_options kernel;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return gram_kernel_reduce(g, &s->x, &s->y, &s->kernel, GRAM_REDUCE_SOFTMAX, &s->v, NULL,
                              &s->out, NULL);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->x.data);
    free(s->y.data);
    free(s->v.data);
    free(s->out.data);
    free(s);
}

static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    const struct reference_batch batch = {.count = 1};
    const int64_t n = s->y.shape[0], r = s->v.shape[1];
    const double eps = test_eps(s->out.dtype);
    double *values = dense_doubles(n), worst = 0;

    for (int i = 0; i < 20 && test_count(&s->out) > 0; i++) {
        const int64_t row = (int64_t)(test_uniform(h) * (double)s->x.shape[0]),
                      c = (int64_t)(test_uniform(h) * (double)r);
        double sum = 0, size = 0, total, error;
        for (int64_t j = 0; j < n; j++)
            values[j] = reference_kernel(&s->x, &s->y, &s->kernel, &batch, (int64_t[]){0, row, j});
        total = reference_logsumexp(n, values, 1);
        for (int64_t j = 0; j < n; j++) {
            double w = exp(values[j] - total), v = test_at(&s->v, j * r + c);
            sum += w * v, size += w * fabs(v);
        }
        error = fabs(test_at(&s->out, row * r + c) - sum) /
                (2 * ((double)(n + s->x.shape[1]) + 300) * eps * size);
        worst = error > worst || isnan(error) ? error : worst;
    }
    free(values);
    return isnan(worst) ? INFINITY : worst;
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    const int64_t m = args->sizes[0], n = args->sizes[1], k = args->sizes[2], r = args->sizes[3];
    struct bench *s = calloc(1, sizeof *s);

    if (!s)
        return harness_no_memory(h, "the problem");
    s->kernel = gram_lpq_laplace(case_number(args, "p", 2), case_number(args, "q", 1), 1);
    s->x = dense_random(h, m, k, args->dtype);
    s->y = dense_random(h, n, k, args->dtype);
    s->v = dense_random(h, n, r, args->dtype);
    s->out = dense_random(h, m, r, args->dtype);
    if (!s->x.data || !s->y.data || !s->v.data || !s->out.data) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->x, &s->y, &s->v, &s->out},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = (double)m * (double)n,
        .unit = "pairs",
        .bytes = (double)gram_dtype_size(args->dtype) * (double)(m + n) * (double)(k + r),
    };
    return true;
}

const struct case_op case_kernel_reduce = {
    .name = "kernel_reduce",
    .sizes = "M N K R",
    .params = "p=2 q=1 dtype=f32",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
