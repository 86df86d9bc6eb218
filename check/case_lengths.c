/*
 * case_lengths.c - the rows of options.lengths: kernels, products and gradients of divided points
 *
 * Every row goes through gram_kernel, gram_kernel_matmul and, in f32 and f64, gram_kernel_vjp.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include "vjp_problem.h"
#include <math.h>
#include <stdlib.h>

struct row {
    gram_inner inner;
    gram_function function;
    double p, outer;
    int64_t m, n, k;
    int64_t x_batch, y_batch, lengths_batch; /* 0: none */
    gram_dtype dtype;
    enum layout layout;      /* of x, lengths and the gradients */
    double far;              /* added to all coordinates */
    bool same, only, weight; /* only: of the gradients that of the lengths alone */
    const char *why;
};

/* clang-format off */
#define LAPLACE  .inner = GRAM_DIFFERENCE, .function = GRAM_LAPLACE, .p = 1, .outer = 1
#define GAUSSIAN .inner = GRAM_DIFFERENCE, .function = GRAM_GAUSSIAN, .p = 2, .outer = 1
#define MATERN   .inner = GRAM_DIFFERENCE, .function = GRAM_MATERN52, .p = 2, .outer = 0.5
#define LPQ      .inner = GRAM_DIFFERENCE, .function = GRAM_EXPONENTIAL_POWER, .p = 1.3, \
                 .outer = 1 / 1.3
#define CUBIC    .inner = GRAM_DOT, .function = GRAM_POLYNOMIAL, .p = 2, .outer = 1
#define COSINE   .inner = GRAM_DOT, .function = GRAM_COSINE, .p = 2, .outer = 1

static const struct row rows[] = {
    {GAUSSIAN, .m = 1, .n = 1, .k = 1, .dtype = GRAM_F32, .why = "smallest"},
    {GAUSSIAN, .m = 0, .n = 3, .k = 2, .dtype = GRAM_F32, .why = "no rows of x"},
    {GAUSSIAN, .m = 3, .n = 0, .k = 2, .dtype = GRAM_F64, .why = "no rows of y"},
    {GAUSSIAN, .m = 3, .n = 4, .k = 0, .dtype = GRAM_F64, .why = "no coordinates"},
    {GAUSSIAN, .m = 30, .n = 41, .k = 7, .dtype = GRAM_F32, .why = "Gaussian"},
    {GAUSSIAN, .m = 30, .n = 41, .k = 7, .dtype = GRAM_F64, .why = "Gaussian"},
    {GAUSSIAN, .m = 30, .n = 41, .k = 7, .dtype = GRAM_F32, .far = 8192,
     .why = "points far from the origin"},
    {LAPLACE, .m = 30, .n = 41, .k = 7, .dtype = GRAM_F32, .far = 8192,
     .why = "points far from the origin"},
    {LAPLACE, .m = 30, .n = 41, .k = 7, .dtype = GRAM_F64, .weight = true, .why = "L1, weights"},
    {MATERN, .m = 30, .n = 41, .k = 40, .dtype = GRAM_F64, .why = "more columns than a task"},
    {LPQ, .m = 20, .n = 31, .k = 3, .dtype = GRAM_F32, .only = true, .why = "lengths alone"},
    {CUBIC, .m = 20, .n = 31, .k = 5, .dtype = GRAM_F32, .why = "an inner product"},
    {COSINE, .m = 20, .n = 31, .k = 5, .dtype = GRAM_F64, .why = "the cosine of the quotients"},
    {COSINE, .m = 20, .n = 31, .k = 5, .dtype = GRAM_F64, .only = true, .why = "lengths alone"},
    {GAUSSIAN, .m = 40, .k = 5, .dtype = GRAM_F32, .same = true, .why = "y is x"},
    {LAPLACE, .m = 40, .k = 5, .dtype = GRAM_F64, .same = true, .only = true, .why = "y is x"},
    {GAUSSIAN, .m = 20, .n = 31, .k = 5, .dtype = GRAM_F16, .why = "halves"},
    {LAPLACE, .m = 20, .n = 31, .k = 5, .dtype = GRAM_BF16, .why = "halves"},
    {MATERN, .m = 20, .n = 31, .k = 5, .dtype = GRAM_F64, .layout = EVERY_SECOND, .why = "strides"},
    {LAPLACE, .m = 20, .n = 31, .k = 5, .dtype = GRAM_F32, .layout = REVERSED, .why = "strides"},
    {GAUSSIAN, .m = 9, .n = 7, .k = 3, .x_batch = 4, .y_batch = 4, .dtype = GRAM_F64,
     .why = "the same lengths for all items"},
    {GAUSSIAN, .m = 9, .n = 7, .k = 3, .lengths_batch = 4, .dtype = GRAM_F64,
     .why = "a batch of lengths alone"},
    {MATERN, .m = 9, .n = 7, .k = 3, .x_batch = 4, .lengths_batch = 4, .dtype = GRAM_F32,
     .only = true, .why = "y is broadcast"},
    {LAPLACE, .m = 9, .k = 3, .x_batch = 3, .lengths_batch = 3, .same = true, .dtype = GRAM_F64,
     .layout = PADDED, .why = "y is x, a batch"},
    {GAUSSIAN, .m = 2600, .n = 3, .k = 2, .dtype = GRAM_F64, .why = "several chunks of rows"},
    {GAUSSIAN, .m = 5, .n = 4, .k = 2, .lengths_batch = 3, .x_batch = 1, .dtype = GRAM_F64,
     .why = "a batch of size 1"},
};
/* clang-format on */

enum argument {
    X,
    Y,
    V,
    GRAD,
    LENGTHS,
    OUT,
    PRODUCT,
    TO_X,
    TO_Y,
    TO_L,
    TO_LENGTHS,
    ARGUMENTS
};

static const char *const names[] = {"x",
                                    "y",
                                    "v",
                                    "grad",
                                    "lengths",
                                    "out",
                                    "out",
                                    "grads.x",
                                    "grads.y",
                                    "grads.bandwidth",
                                    "grads.lengths"};

struct problem {
    const struct row *row;
    struct test_tensor t[ARGUMENTS];
    struct test_copy there[ARGUMENTS];
    gram_kernel_options options; /* with the lengths of the host */
    struct reference_batch batch;
    int64_t n;
    int call; /* 0: gram_kernel, 1: gram_kernel_matmul, 2: gram_kernel_vjp */
};

static void label(int row, char *text, size_t size)
{
    const struct row *r = &rows[row];

    snprintf(text, size, "%lldx%lldx%lld dtype=%d function=%d p=%g: %s", (long long)r->m,
             (long long)r->n, (long long)r->k, (int)r->dtype, (int)r->function, r->p, r->why);
}

/* A tensor of some dimensions behind a batch of so many items; 0: without a batch. */
static void create(struct harness *h, struct problem *q, enum argument which, gram_dtype dtype,
                   int64_t batch, int core, const int64_t *shape)
{
    int64_t all[3] = {batch};
    int skip = batch == 0;
    bool plain = which == V || which == GRAD || which == OUT || which == PRODUCT || which == TO_L;

    for (int i = 0; i < core; i++)
        all[i + 1] = shape[i];
    test_tensor_create(h, &q->t[which], dtype, plain ? ROW_MAJOR : q->row->layout, core + 1 - skip,
                       all + skip);
    test_fill_uniform(h, &q->t[which], -1, 1);
}

static void fill(struct harness *h, struct problem *q)
{
    const struct row *row = q->row;

    for (int which = X; which <= Y; which++)
        for (int64_t i = 0; i < test_count(&q->t[which].t); i++)
            test_put(&q->t[which].t, i, test_at(&q->t[which].t, i) + row->far);
    test_fill_uniform(h, &q->t[LENGTHS], 0.5, 3);
    for (int which = X; which <= LENGTHS; which++)
        test_tensor_freeze(&q->t[which]);
}

static void setup(struct harness *h, const struct row *row, struct problem *q)
{
    const gram_dtype real = row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    const int64_t n = row->same ? row->m : row->n;
    int64_t items;

    *q = (struct problem){.row = row, .n = n, .options = vjp_options(row->inner, row->function)};
    q->options.p = gram_number(row->p), q->options.outer_power = gram_number(row->outer);
    create(h, q, X, row->dtype, row->x_batch, 2, (int64_t[]){row->m, row->k});
    create(h, q, Y, row->dtype, row->same ? row->x_batch : row->y_batch, 2, (int64_t[]){n, row->k});
    create(h, q, LENGTHS, real, row->lengths_batch, 1, (int64_t[]){row->k});
    create(h, q, V, real, 0, 2, (int64_t[]){n, 2});
    create(h, q, GRAD, real, 0, 2, (int64_t[]){row->m, n});
    q->options.lengths = &q->t[LENGTHS].t;
    q->batch =
        reference_join(3,
                       (const gram_tensor *[]){&q->t[X].t, row->same ? &q->t[X].t : &q->t[Y].t,
                                               q->options.lengths},
                       (const int[]){2, 2, 1});
    items = q->batch.ndim ? q->batch.shape[0] : 0;
    create(h, q, OUT, real, items, 2, (int64_t[]){row->m, n});
    create(h, q, PRODUCT, real, items, 2, (int64_t[]){row->m, 2});
    create(h, q, TO_X, real, items, 2, (int64_t[]){row->m, row->k});
    create(h, q, TO_Y, real, items, 2, (int64_t[]){n, row->k});
    create(h, q, TO_L, real, items, 0, NULL);
    create(h, q, TO_LENGTHS, real, items, 1, (int64_t[]){row->k});
    fill(h, q);
}

static gram_status call_vjp(struct harness *h, struct problem *q,
                            const gram_kernel_options *options, gram_workspace *need)
{
    struct test_copy *t = q->there;
    const gram_tensor *y = q->row->same ? NULL : &t[Y].t;
    gram_kernel_grads grads = {.lengths = &t[TO_LENGTHS].t};

    if (!q->row->only)
        grads.x = &t[TO_X].t, grads.y = &t[TO_Y].t;
    if (!q->row->only)
        grads.bandwidth = &t[TO_L].t;
    return need ? gram_kernel_vjp_workspace(h->g, &t[X].t, y, options, &t[GRAD].t, &grads, need)
                : gram_kernel_vjp(h->g, &t[X].t, y, options, &t[GRAD].t, &grads);
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    struct test_copy *t = q->there;
    const gram_tensor *x = &t[X].t, *y = q->row->same ? NULL : &t[Y].t;
    gram_kernel_options options = q->options;

    options.lengths = &t[LENGTHS].t;
    if (q->call == 2)
        return call_vjp(h, q, &options, need);
    options.output = q->row->weight ? GRAM_WEIGHT : GRAM_VALUE;
    if (q->call == 1)
        return need ? gram_kernel_matmul_workspace(h->g, x, y, &options, &t[V].t, NULL,
                                                   &t[PRODUCT].t, need)
                    : gram_kernel_matmul(h->g, x, y, &options, &t[V].t, NULL, &t[PRODUCT].t);
    return need ? gram_kernel_workspace(h->g, x, y, &options, &t[OUT].t, need)
                : gram_kernel(h->g, x, y, &options, &t[OUT].t);
}

static bool run(struct harness *h, struct problem *q, int which)
{
    struct test_pair pairs[ARGUMENTS];

    q->call = which;
    for (int i = 0; i < ARGUMENTS; i++)
        pairs[i] = (struct test_pair){&q->t[i], &q->there[i]};
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* magnitude: what the terms of a result sum to in absolute value, and what terms of size 1 would
 * sum to: for the rounding of kernels.  Quotients are wrong by eps of the extent of the data. */
static void compare(struct harness *h, const struct problem *q, enum argument which, int64_t at,
                    const double want_magnitude[3])
{
    const double got = test_at(&q->t[which].t, at), want = want_magnitude[0];
    const double bound = (double)(q->row->k + 300) * test_eps(q->t[which].t.dtype) *
                         (want_magnitude[1] + want_magnitude[2]);

    CHECK(h, fabs(got - want) <= bound, "element %lld of %s is %.9g, expected %.9g +- %.2g",
          (long long)at, names[which], got, want, bound);
}

static void check_values(struct harness *h, const struct problem *q)
{
    const gram_tensor *x = &q->t[X].t, *y = q->row->same ? x : &q->t[Y].t;
    gram_kernel_options options = q->options;
    int64_t at = 0;

    options.output = q->row->weight ? GRAM_WEIGHT : GRAM_VALUE;
    for (int64_t item = 0; item < q->batch.count; item++)
        for (int64_t i = 0; i < q->row->m; i++)
            for (int64_t j = 0; j < q->n; j++, at++) {
                double want = reference_kernel(x, y, &options, &q->batch, (int64_t[]){item, i, j});
                compare(h, q, OUT, at, (double[]){want, fabs(want), 1});
            }
    at = 0;
    for (int64_t item = 0; item < q->batch.count; item++)
        for (int64_t i = 0; i < q->row->m; i++)
            for (int64_t c = 0; c < 2; c++, at++) {
                double size[2];
                double want = reference_kernel_matmul(x, y, &options, &q->t[V].t, &q->batch,
                                                      (int64_t[]){item, i, c}, size);
                compare(h, q, PRODUCT, at, (double[]){want, size[0] + size[1], size[1]});
            }
}

static void check_points(struct harness *h, const struct problem *q, const struct reference_vjp *in,
                         bool of_y)
{
    const int64_t rows_of = of_y ? q->n : q->row->m, others = of_y ? q->row->m : q->n;
    int64_t at = 0;

    for (int64_t item = 0; item < q->batch.count; item++)
        for (int64_t i = 0; i < rows_of; i++)
            for (int64_t k = 0; k < q->row->k; k++) {
                double magnitude, want = reference_vjp_points(
                                      in, &q->batch, (int64_t[]){item, i, k}, of_y, &magnitude);
                compare(h, q, of_y ? TO_Y : TO_X, at++,
                        (double[]){want, magnitude, (double)others});
            }
}

static void check_gradients(struct harness *h, const struct problem *q)
{
    const struct reference_vjp in = {&q->t[X].t, q->row->same ? &q->t[X].t : &q->t[Y].t,
                                     &q->t[GRAD].t, &q->options};
    const double pairs = (double)q->row->m * (double)q->n;
    double magnitude, want;

    for (int of_y = 0; of_y < 2 && !q->row->only; of_y++)
        check_points(h, q, &in, of_y);
    for (int64_t item = 0; item < q->batch.count; item++) {
        for (int64_t k = 0; k < q->row->k; k++) {
            want = reference_vjp_length(&in, &q->batch, (int64_t[]){item, k}, &magnitude);
            compare(h, q, TO_LENGTHS, item * q->row->k + k, (double[]){want, magnitude, pairs});
        }
        want = reference_vjp_scalar(&in, &q->batch, item, false, &magnitude);
        if (!q->row->only)
            compare(h, q, TO_L, item, (double[]){want, magnitude, pairs});
    }
}

static void check(struct harness *h, int row)
{
    struct problem q;

    setup(h, &rows[row], &q);
    if (run(h, &q, 0) && run(h, &q, 1))
        check_values(h, &q);
    if ((rows[row].dtype == GRAM_F32 || rows[row].dtype == GRAM_F64) && run(h, &q, 2))
        check_gradients(h, &q);
    for (int i = 0; i < ARGUMENTS; i++)
        test_tensor_destroy(h, &q.t[i], names[i]);
}

/* ---- A problem of any size ------------------------------------------------------------------ */

struct bench {
    gram_tensor x, y, lengths, out;
    gram_kernel_options options;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return gram_kernel(g, &s->x, &s->y, &s->options, &s->out);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->x.data);
    free(s->y.data);
    free(s->lengths.data);
    free(s->out.data);
    free(s);
}

static double bench_error(struct harness *h, void *state)
{
    const struct bench *s = state;
    const struct reference_batch batch = {.count = 1};
    double worst = 0;

    for (int i = 0; i < 60 && test_count(&s->out) > 0; i++) {
        const int64_t at[3] = {0, (int64_t)(test_uniform(h) * (double)s->out.shape[0]),
                               (int64_t)(test_uniform(h) * (double)s->out.shape[1])};
        double want = reference_kernel(&s->x, &s->y, &s->options, &batch, at);
        double bound = ((double)s->x.shape[1] + 300) * test_eps(s->x.dtype) * (1 + fabs(want));
        double error = fabs(test_get(&s->out, at + 1) - want) / bound;
        worst = error > worst || isnan(error) ? error : worst;
    }
    return isnan(worst) ? INFINITY : worst;
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    int64_t m = args->sizes[0], n = args->sizes[1], k = args->sizes[2];
    struct bench *s = calloc(1, sizeof *s);

    if (!s)
        return harness_no_memory(h, "the problem");
    s->options = gram_lpq_laplace(case_number(args, "p", 2), case_number(args, "q", 1), 1);
    s->x = dense_random(h, m, k, args->dtype);
    s->y = dense_random(h, n, k, args->dtype);
    s->lengths = dense_random(h, 1, k, args->dtype);
    s->out = dense_random(h, m, n, args->dtype);
    if (!s->x.data || !s->y.data || !s->lengths.data || !s->out.data) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    s->lengths.ndim = 1, s->lengths.shape[0] = k, s->lengths.stride[0] = 1;
    for (int64_t i = 0; i < k; i++)
        test_put(&s->lengths, i, 1 + fabs(test_at(&s->lengths, i)));
    s->options.lengths = &s->lengths;
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->x, &s->y, &s->lengths, &s->out},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = (double)m * (double)n * (double)k,
        .unit = "m n k steps",
        .bytes = (double)gram_dtype_size(args->dtype) *
                 ((double)m * (double)n + (double)(m + n) * (double)k),
    };
    return true;
}

const struct case_op case_lengths = {
    .name = "lengths",
    .sizes = "M N K",
    .params = "p=2 q=1 dtype=f32",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
