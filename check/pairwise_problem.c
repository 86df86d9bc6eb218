/*
 * pairwise_problem.c - the rows of gram_cdist and gram_kernel: data, the call, every element
 * checked
 *
 * The call gets exactly the scratch that its workspace query names, and one byte less is refused.
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise_problem.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct pair_problem {
    const struct pair_row *row;
    struct test_tensor x, y, out, hyper;
    struct reference_batch batch;
    gram_scalar p;
    gram_cdist_options options;
    gram_kernel_options kernel;
    gram_parameter parameters[PAIR_PARAMETERS]; /* of an expression: the numbers of kernel */
    struct test_copy x_there, y_there, out_there, hyper_there; /* where the context wants them */
};

static const char *const dtype_names[] = {"?", "f32", "f64", "f16", "bf16"};

void pair_row_label(const struct pair_row *row, char *text, size_t size)
{
    snprintf(text, size, "%lldx%lldx%lld %s p=%g%s: %s", (long long)row->m, (long long)row->n,
             (long long)row->k, dtype_names[row->dtype],
             row->kernel ? row->kernel->p.value : row->p, row->same ? " x = y" : "", row->why);
}

/* ---- Data ---------------------------------------------------------------------------------- */

static double draw(struct harness *h, enum pair_data data, int64_t at)
{
    double u = test_uniform(h) - 0.5;

    switch (data) {
    case DATA_UNIFORM:
        return u + 0.5;
    case DATA_INTEGERS:
        return floor(3 * (u + 0.5));
    case DATA_CLUSTERED: /* centres differ in the sign of each coordinate */
        return (double)(at * 2654435761 % 3) - 1 + 1e-4 * u;
    case DATA_OFFSET:
        return 1e4 + 3 * u;
    case DATA_TINY:
        return u * pow(2, -100 - 49 * test_uniform(h));
    case DATA_WIDE:
        return copysign(pow(10, 60 * fabs(u) - 15), test_uniform(h) - 0.5);
    default:
        return 2 * u;
    }
}

static void fill(struct harness *h, struct test_tensor *t, enum pair_data data)
{
    int64_t cols = t->t.shape[t->t.ndim - 1], count = test_count(&t->t);

    for (int64_t i = 0; i < count; i++) /* four clusters of rows */
        test_put(&t->t, i, draw(h, data, cols ? i % cols + 7 * (i / cols % 4) : 0));
    if (data != DATA_SPECIAL || count < 4 * cols)
        return;
    test_put(&t->t, cols + cols / 2, NAN);
    test_put(&t->t, 2 * cols, INFINITY);
    for (int64_t k = 0; k < cols; k++)
        test_put(&t->t, 3 * cols + k, 0);
}

static void duplicate_rows(const struct test_tensor *x, struct test_tensor *y)
{
    int64_t cols = x->t.shape[x->t.ndim - 1], count = test_count(&y->t);

    for (int64_t i = 0; i < count; i++)
        test_put(&y->t, i, test_at(&x->t, (i / cols * 7) * cols % test_count(&x->t) + i % cols));
}

static void create(struct harness *h, struct test_tensor *t, gram_dtype dtype, enum layout layout,
                   const int64_t batch[2], const int64_t core[2])
{
    int64_t shape[4];
    int ndim = 0;

    for (int i = 0; i < 2 && batch[i]; i++)
        shape[ndim++] = batch[i];
    shape[ndim++] = core[0], shape[ndim++] = core[1];
    test_tensor_create(h, t, dtype, layout, ndim, shape);
}

static void create_hyper(struct harness *h, struct pair_problem *q)
{
    double base = q->row->kernel ? q->row->kernel->bandwidth.value : q->row->p;

    test_tensor_create(h, &q->hyper, GRAM_F64, ROW_MAJOR, q->batch.ndim, q->batch.shape);
    for (int64_t i = 0; i < test_count(&q->hyper.t); i++)
        test_put(&q->hyper.t, i, base + (double)i / 2);
    test_tensor_freeze(&q->hyper);
    if (q->row->kernel)
        q->kernel.bandwidth = gram_values(&q->hyper.t);
    else
        q->p = gram_values(&q->hyper.t);
}

static void setup(struct harness *h, const struct pair_row *row, struct pair_problem *q)
{
    const int64_t x_core[2] = {row->m, row->k}, y_core[2] = {row->n, row->k};
    const int core[2] = {2, 2};
    gram_dtype result = row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    int64_t shape[4] = {0};

    *q = (struct pair_problem){.row = row, .p = gram_number(row->p)};
    q->options = (gram_cdist_options)GRAM_CDIST_OPTIONS_INIT;
    q->options.no_root = row->no_root;
    if (row->kernel)
        q->kernel = *row->kernel;
    create(h, &q->x, row->dtype, row->x_layout, row->x_batch, x_core);
    create(h, &q->y, row->dtype, row->y_layout, row->y_batch, y_core);
    fill(h, &q->x, row->data);
    if (row->data == DATA_DUPLICATED)
        duplicate_rows(&q->x, &q->y);
    else
        fill(h, &q->y, row->data);
    test_tensor_freeze(&q->x);
    test_tensor_freeze(&q->y);
    q->batch = reference_join(row->same ? 1 : 2, (const gram_tensor *[]){&q->x.t, &q->y.t}, core);
    memcpy(shape, q->batch.shape, (size_t)q->batch.ndim * sizeof *shape);
    shape[q->batch.ndim] = row->m, shape[q->batch.ndim + 1] = row->same ? row->m : row->n;
    test_tensor_create(h, &q->out, result, row->out_layout, q->batch.ndim + 2, shape);
    if (row->per_item)
        create_hyper(h, q);
}

static void finish(struct harness *h, struct pair_problem *q)
{
    test_tensor_destroy(h, &q->x, "x");
    test_tensor_destroy(h, &q->y, "y");
    test_tensor_destroy(h, &q->out, "out");
    if (q->row->per_item)
        test_tensor_destroy(h, &q->hyper, "the hyperparameter");
}

/* ---- The call ------------------------------------------------------------------------------ */

void pair_write_out(const char *expression, gram_parameter *parameters, gram_kernel_options *kernel)
{
    const gram_parameter numbers[PAIR_PARAMETERS] = {
        {    "L", kernel->bandwidth},
        {    "q",  kernel->exponent},
        {"alpha",     kernel->alpha},
        {"gamma",     kernel->gamma},
        {"coef0",     kernel->coef0},
        {   NULL,    kernel->degree}
    };

    memcpy(parameters, numbers, sizeof numbers);
    kernel->function = GRAM_EXPRESSION;
    kernel->expression = expression;
    kernel->parameters = parameters;
    kernel->parameter_count = PAIR_PARAMETERS;
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct pair_problem *q = problem;
    const gram_tensor *x = &q->x_there.t, *y = q->row->same ? NULL : &q->y_there.t;
    gram_tensor *out = &q->out_there.t;
    gram_kernel_options kernel = q->kernel;
    gram_scalar p = q->p;

    if (q->row->per_item)
        *(q->row->kernel ? &kernel.bandwidth : &p) = gram_values(&q->hyper_there.t);
    if (q->row->expression)
        pair_write_out(q->row->expression, q->parameters, &kernel);
    if (q->row->kernel)
        return need ? gram_kernel_workspace(h->g, x, y, &kernel, out, need)
                    : gram_kernel(h->g, x, y, &kernel, out);
    return need ? gram_cdist_workspace(h->g, x, y, p, &q->options, out, need)
                : gram_cdist(h->g, x, y, p, &q->options, out);
}

/* The call where the context's device is, in memory of that device. */
static bool run(struct harness *h, struct pair_problem *q)
{
    const struct test_pair pairs[] = {
        {                              &q->x,     &q->x_there},
        {                              &q->y,     &q->y_there},
        {                            &q->out,   &q->out_there},
        {q->row->per_item ? &q->hyper : NULL, &q->hyper_there},
    };

    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* ---- The answer ---------------------------------------------------------------------------- */

static double element(const struct pair_problem *q, int64_t item, int64_t i, int64_t j)
{
    const int64_t *shape = q->out.t.shape + q->batch.ndim;

    return test_at(&q->out.t, (item * shape[0] + i) * shape[1] + j);
}

static bool agree(double got, double want, double bound)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= bound;
}

/* The reverse of x and y gives the same bits, and equal rows are exactly 0 apart. */
static void check_symmetry(struct harness *h, const struct pair_problem *q, int64_t item)
{
    for (int64_t i = 0; i < q->row->m; i++) {
        double own = element(q, item, i, i);
        CHECK(h, q->row->kernel || own == 0 || q->row->data == DATA_SPECIAL,
              "out[%lld, %lld] is %g, expected exactly 0", (long long)i, (long long)i, own);
        for (int64_t j = 0; j < i; j++) {
            double a = element(q, item, i, j), b = element(q, item, j, i);
            CHECK(h, a == b || (isnan(a) && isnan(b)) || q->row->kernel,
                  "out[%lld, %lld] is %.17g but its mirror %.17g", (long long)i, (long long)j, a,
                  b);
        }
    }
}

void pair_row_check(struct harness *h, const struct pair_row *row)
{
    struct pair_problem q;
    int64_t n = row->same ? row->m : row->n;

    setup(h, row, &q);
    struct pair_question question = {.x = &q.x.t,
                                     .y = row->same ? NULL : &q.y.t,
                                     .p = q.p,
                                     .no_root = row->no_root,
                                     .kernel = row->kernel ? &q.kernel : NULL};

    for (int64_t item = run(h, &q) ? 0 : q.batch.count; item < q.batch.count; item++) {
        for (int64_t i = 0; i < row->m; i++)
            for (int64_t j = 0; j < n; j++) {
                const int64_t at[3] = {item, i, j};
                if (!test_sampled((item * row->m + i) * n + j, q.batch.count * row->m * n, row->k))
                    continue;
                double want = pair_want(&question, &q.batch, at), got = element(&q, item, i, j);
                double bound = pair_bound(&question, &q.batch, at, want);
                CHECK(h, agree(got, want, bound),
                      "item %lld, out[%lld, %lld] is %.17g, expected %.17g +- %.2g",
                      (long long)item, (long long)i, (long long)j, got, want, bound);
            }
        if (row->same)
            check_symmetry(h, &q, item);
    }
    finish(h, &q);
}
