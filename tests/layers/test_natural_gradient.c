/*
 * test_natural_gradient.c - gram_natural_gradient against dense solves in double
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include "tests/core/refusal.h"
#include <math.h>
#include <stdlib.h>

struct natural {
    int64_t n, p, batch; /* batch 0: none; else of v, damping and out, and of gradients if many */
    bool many, nan, same;
    gram_dtype dtype;
    enum layout layout, v_layout;
    double damping;
    const char *why;
};

/* clang-format off */
static const struct natural cases[] = {
    {.n = 1, .p = 1, .dtype = GRAM_F32, .damping = 0.5, .why = "smallest"},
    {.n = 20, .p = 6, .dtype = GRAM_F64, .damping = 1e-3, .why = "more samples than parameters"},
    {.n = 6, .p = 20, .dtype = GRAM_F64, .damping = 1e-3, .why = "fewer"},
    {.n = 7, .p = 7, .dtype = GRAM_F64, .damping = 1e-2, .same = true, .why = "as many, in place"},
    {.n = 20, .p = 6, .dtype = GRAM_F32, .damping = 0.1, .layout = EVERY_SECOND,
     .v_layout = EVERY_SECOND, .why = "no unit stride"},
    {.n = 6, .p = 20, .dtype = GRAM_F32, .damping = 0.1, .layout = REVERSED,
     .v_layout = EVERY_SECOND, .why = "no unit stride, fewer samples"},
    {.n = 6, .p = 20, .dtype = GRAM_F64, .damping = 0.1, .layout = COLUMN_MAJOR, .same = true,
     .why = "by columns"},
    {.n = 20, .p = 6, .dtype = GRAM_F64, .damping = 0.1, .layout = COLUMN_MAJOR,
     .why = "by columns, more samples"},
    {.n = 0, .p = 5, .dtype = GRAM_F64, .damping = 0.25, .why = "no samples"},
    {.n = 5, .p = 0, .dtype = GRAM_F64, .damping = 0.25, .why = "no parameters"},
    {.n = 5, .p = 9, .batch = 3, .dtype = GRAM_F64, .damping = 0.1, .why = "one J for a batch of v"},
    {.n = 9, .p = 5, .batch = 3, .many = true, .nan = true, .dtype = GRAM_F64, .damping = 0.1,
     .why = "NaN in one of a batch"},
    {.n = 5, .p = 9, .batch = 3, .many = true, .nan = true, .dtype = GRAM_F32, .damping = 0.1,
     .layout = PADDED, .why = "NaN in one of a batch, fewer samples"},
    {.n = 90, .p = 100, .dtype = GRAM_F64, .damping = 0.1, .why = "a matrix of order 90"},
};
/* clang-format on */

struct problem {
    const struct natural *row;
    int64_t items;
    struct test_tensor j, v, out, info, damping;
    struct {
        struct test_copy j, v, out, info, damping;
    } there;        /* the same on the device */
    double *before; /* what v held */
};

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    gram_tensor *j = &q->there.j.t, *v = &q->there.v.t;
    gram_tensor *out = q->row->same ? v : &q->there.out.t;
    gram_scalar damping = gram_values(&q->there.damping.t);

    return need ? gram_natural_gradient_workspace(h->g, j, v, damping, out, need)
                : gram_natural_gradient(h->g, j, v, damping, out, &q->there.info.t);
}

/* The call where the context's device is, in memory of that device. */
static bool run(struct harness *h, struct problem *q)
{
    const struct test_pair pairs[] = {
        {      &q->j,       &q->there.j},
        {      &q->v,       &q->there.v},
        {    &q->out,     &q->there.out},
        {   &q->info,    &q->there.info},
        {&q->damping, &q->there.damping},
    };

    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

static void setup(struct harness *h, struct problem *q)
{
    const struct natural *r = q->row;
    const int64_t j[3] = {r->batch, r->n, r->p}, v[2] = {r->batch, r->p};
    int batch = r->batch > 0;

    q->items = batch ? r->batch : 1;
    test_tensor_create(h, &q->j, r->dtype, r->layout, r->many ? 3 : 2, j + !r->many);
    test_tensor_create(h, &q->v, r->dtype, r->v_layout, 1 + batch, v + !batch);
    test_tensor_create(h, &q->out, r->dtype, r->v_layout, 1 + batch, v + !batch);
    test_tensor_create(h, &q->info, GRAM_I32, ROW_MAJOR, batch, v);
    test_tensor_create(h, &q->damping, GRAM_F64, ROW_MAJOR, batch, v);
    test_fill_uniform(h, &q->j, -1, 1);
    test_fill_uniform(h, &q->v, -1, 1);
    for (int64_t i = 0; i < q->items; i++)
        test_put(&q->damping.t, i, r->damping * (double)(i + 1));
    if (r->nan)
        test_put(&q->j.t, r->n * r->p + 1, NAN);
    test_tensor_freeze(&q->j);
    q->before = dense_doubles(test_count(&q->v.t));
    for (int64_t i = 0; i < test_count(&q->v.t); i++)
        q->before[i] = test_at(&q->v.t, i);
}

static void check_item(struct harness *h, const struct problem *q, int64_t item)
{
    const struct natural *r = q->row;
    const gram_tensor *out = r->same ? &q->v.t : &q->out.t;
    int64_t p = r->p, n = r->n, first = r->many ? item * n * p : 0;
    double *f = dense_doubles(p * p), *want = dense_doubles(p), most = 0, bound;
    double damping = r->damping * (double)(item + 1);

    for (int64_t i = 0; i < p; i++) {
        for (int64_t k = 0; k < p; k++)
            for (int64_t s = 0; s < n; s++)
                f[i * p + k] += test_at(&q->j.t, first + s * p + i) *
                                test_at(&q->j.t, first + s * p + k) / (double)n;
        f[i * p + i] += damping;
        want[i] = q->before[item * p + i];
    }
    reference_solve(p, 1, f, want);
    for (int64_t i = 0; i < p; i++)
        most = fmax(most, fabs(want[i]));
    /* |J^T J / N| is at most P; the condition is (P + damping) / damping */
    bound = 8 * (double)(n + p) * test_eps(r->dtype) * ((double)p + damping) / damping * most;
    for (int64_t i = 0; i < p; i++)
        CHECK(h, fabs(test_at(out, item * p + i) - want[i]) <= bound,
              "item %lld, number %lld is %.12g, not %.12g +- %.2g", (long long)item, (long long)i,
              test_at(out, item * p + i), want[i], bound);
    free(f);
    free(want);
}

static void natural_gradients_are_those_of_dense_solves(struct harness *h)
{
    for (int c = 0; c < LENGTH(cases); c++) {
        struct problem q = {.row = &cases[c]};
        h->where = cases[c].why;
        setup(h, &q);
        for (int64_t item = 0, ran = run(h, &q); ran && item < q.items; item++) {
            bool bad = q.row->nan && item == 1;
            CHECK(h, (test_at(&q.info.t, item) != 0) == bad, "info of item %lld is %g",
                  (long long)item, test_at(&q.info.t, item));
            for (int64_t i = 0; bad && i < q.row->p; i++)
                CHECK(h, isnan(test_at(&q.out.t, item * q.row->p + i)), "a number is not NaN");
            if (!bad)
                check_item(h, &q, item);
        }
        free(q.before);
        test_tensor_destroy(h, &q.j, "gradients");
        test_tensor_destroy(h, &q.v, "v");
        test_tensor_destroy(h, &q.out, "out");
        test_tensor_destroy(h, &q.info, "info");
        test_tensor_destroy(h, &q.damping, "damping");
    }
}

struct call {
    double data[12], v_data[4], out_data[4];
    gram_tensor j, v, out;
    double damping;
};

static void long_v(struct call *c)
{
    c->v.shape[0] = 4;
}

static void f32_v(struct call *c)
{
    c->v.dtype = GRAM_F32;
}

static void short_out(struct call *c)
{
    c->out.shape[0] = 2;
}

static void out_in_j(struct call *c)
{
    c->out.data = c->data;
}

static void no_damping(struct call *c)
{
    c->damping = 0;
}

static void a_nan(struct call *c)
{
    c->data[3] = NAN;
}

static const struct refusal refusals[] = {
    {    long_v, GRAM_INVALID_ARGUMENT, "gram_natural_gradient: v has 4 elements per item, expected 3"},
    {     f32_v, GRAM_INVALID_ARGUMENT,                                "v has dtype f32, expected f64"},
    { short_out, GRAM_INVALID_ARGUMENT,                      "out has 2 elements per item, expected 3"},
    {  out_in_j, GRAM_INVALID_ARGUMENT,                                       "out overlaps gradients"},
    {no_damping, GRAM_INVALID_ARGUMENT,                           "damping is 0, expected more than 0"},
    {     a_nan,        GRAM_NUMERICAL,                                        "not positive definite"},
};

static void bad_calls_are_refused(struct harness *h)
{
    for (int i = 0; i < LENGTH(refusals); i++) {
        struct call c = {.damping = 0.5};
        c.j = gram_matrix(c.data, 4, 3, GRAM_F64);
        c.v = gram_vector(c.v_data, 3, GRAM_F64);
        c.out = gram_vector(c.out_data, 3, GRAM_F64);
        c.j.device = c.v.device = c.out.device = h->device;
        if (refusals[i].status == GRAM_NUMERICAL && h->device.type != GRAM_CPU)
            continue; /* info alone tells there */
        refusals[i].spoil(&c);
        refusal_check(
            h, &refusals[i],
            gram_natural_gradient(h->g, &c.j, &c.v, gram_number(c.damping), &c.out, NULL));
    }
}

static const struct test_function tests[] = {
    {"natural_gradients_are_those_of_dense_solves", natural_gradients_are_those_of_dense_solves},
    {                      "bad_calls_are_refused",                       bad_calls_are_refused},
};

int main(void)
{
    return harness_run_tests_where_asked(tests, LENGTH(tests));
}
