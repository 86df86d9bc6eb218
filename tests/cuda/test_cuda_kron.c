/*
 * test_cuda_kron.c - diagonals, traces and determinants of Kronecker products on a device, and
 * gradients of many rows, against the CPU's
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <math.h>

enum {
    FACTORS = 3,
    ITEMS = 3,
    ORDER = 5 * 300 * 4,
};

static const int64_t orders[FACTORS] = {5, 300, 4}; /* one is larger than a block */

struct product {
    struct test_tensor factor[FACTORS], diagonal, trace;
    struct test_copy there[FACTORS], diagonal_there, trace_there;
};

/* The first factor is a batch, the second one lies by columns. */
static void setup(struct harness *h, struct product *p, gram_dtype dtype)
{
    const int64_t shape[2] = {ITEMS, ORDER};

    for (int f = 0; f < FACTORS; f++) {
        const int64_t sizes[3] = {ITEMS, orders[f], orders[f]};
        test_tensor_create(h, &p->factor[f], dtype, f == 1 ? COLUMN_MAJOR : PADDED, f == 0 ? 3 : 2,
                           f == 0 ? sizes : sizes + 1);
        if (dtype == GRAM_I32 || dtype == GRAM_I64)
            test_fill_integers(h, &p->factor[f], 100);
        else
            test_fill_uniform(h, &p->factor[f], 0, 1);
    }
    test_tensor_create(h, &p->diagonal, dtype, EVERY_SECOND, 2, shape);
    test_tensor_create(h, &p->trace, dtype, ROW_MAJOR, 1, shape);
}

static bool compute(struct harness *there, struct product *p)
{
    const gram_tensor *factors[FACTORS];
    bool ran = test_send(there, &p->diagonal, &p->diagonal_there) &&
               test_send(there, &p->trace, &p->trace_there);

    for (int f = 0; f < FACTORS; f++) {
        ran = test_send(there, &p->factor[f], &p->there[f]) && ran;
        factors[f] = &p->there[f].t;
    }
    ran = ran &&
          CHECK(there,
                gram_kron_diagonal(there->g, factors, FACTORS, &p->diagonal_there.t) == GRAM_OK &&
                    gram_kron_trace(there->g, factors, FACTORS, &p->trace_there.t) == GRAM_OK,
                "%s", gram_message(there->g));
    for (int f = 0; f < FACTORS; f++)
        ran = test_fetch(there, &p->factor[f], &p->there[f]) && ran;
    ran = test_fetch(there, &p->diagonal, &p->diagonal_there) && ran;
    return test_fetch(there, &p->trace, &p->trace_there) && ran;
}

/* Sums and products of positive numbers: a few roundings apart. */
static void compare(struct harness *h, const struct test_tensor *got, const gram_tensor *want)
{
    for (int64_t i = 0; i < test_count(want); i++) {
        double a = test_at(&got->t, i), b = test_at(want, i);
        CHECK(h, fabs(a - b) <= 4 * test_eps(want->dtype) * fabs(b),
              "element %lld is %.17g, not %.17g", (long long)i, a, b);
    }
}

static void one_dtype(struct harness *h, struct harness *there, gram_dtype dtype)
{
    const int64_t shape[2] = {ITEMS, ORDER};
    struct test_tensor diagonal, trace;
    const gram_tensor *factors[FACTORS];
    struct product p;

    setup(h, &p, dtype);
    test_tensor_create(h, &diagonal, dtype, ROW_MAJOR, 2, shape);
    test_tensor_create(h, &trace, dtype, ROW_MAJOR, 1, shape);
    for (int f = 0; f < FACTORS; f++)
        factors[f] = &p.factor[f].t;
    CHECK(h,
          gram_kron_diagonal(h->g, factors, FACTORS, &diagonal.t) == GRAM_OK &&
              gram_kron_trace(h->g, factors, FACTORS, &trace.t) == GRAM_OK,
          "%s", gram_message(h->g));
    if (compute(there, &p)) {
        compare(h, &p.diagonal, &diagonal.t);
        compare(h, &p.trace, &trace.t);
    }
    for (int f = 0; f < FACTORS; f++)
        test_tensor_destroy(h, &p.factor[f], "a factor");
    test_tensor_destroy(h, &p.diagonal, "the diagonal");
    test_tensor_destroy(h, &p.trace, "the trace");
    test_tensor_destroy(h, &diagonal, "the CPU's diagonal");
    test_tensor_destroy(h, &trace, "the CPU's trace");
}

static void diagonals_and_traces(struct harness *h)
{
    static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64, GRAM_I32, GRAM_I64};
    struct harness there = *h;

    there.device.type = GRAM_CUDA;
    there.g = test_cuda_context(h, NULL);
    if (!there.g)
        return;
    for (int i = 0; i < LENGTH(dtypes); i++)
        one_dtype(h, &there, dtypes[i]);
    h->checks += there.checks, h->failures += there.failures;
    gram_context_destroy(there.g);
}

/* ---- Determinants ---------------------------------------------------------------------------- */

enum {
    MOST_ORDER = 70, /* more than a block of solve_small has */
};

static const struct determinant {
    int64_t n[2];
    double damage; /* a column of the second item of factor 0 is this; 1: nothing is damaged */
    const char *why;
} determinants[] = {
    {         {5, 4},   1, "signs count, since orders are even and odd"},
    {         {1, 1},   1,                                    "numbers"},
    {{3, MOST_ORDER},   1,      "a factor that cuSOLVER takes, or many"},
    {         {6, 3},   0,                   "an item that is singular"},
    {         {6, 3}, NAN,                             "NaN in an item"},
    {         {3, 0},   1,                           "nothing: it is 1"},
};

struct logdet {
    struct test_tensor factor[2], sign, out;
    struct test_copy there[2], sign_there, out_there;
};

static gram_status find_logdet(struct harness *h, void *problem, gram_workspace *need)
{
    struct logdet *q = problem;
    const gram_tensor *factors[] = {&q->there[0].t, &q->there[1].t};

    if (need)
        return gram_kron_logdet_workspace(h->g, factors, 2, &q->sign_there.t, &q->out_there.t,
                                          need);
    return gram_kron_logdet(h->g, factors, 2, &q->sign_there.t, &q->out_there.t);
}

static void make_logdet(struct harness *h, struct logdet *q, const struct determinant *row,
                        gram_dtype dtype)
{
    const int64_t items = ITEMS;

    for (int f = 0; f < 2; f++) {
        int64_t n = row->n[f], shape[3] = {ITEMS, n, n};
        test_tensor_create(h, &q->factor[f], dtype, f ? COLUMN_MAJOR : REVERSED, f ? 2 : 3,
                           f ? shape + 1 : shape);
        test_fill_uniform(h, &q->factor[f], -1, 1);
        for (int64_t i = 0; f == 0 && row->damage != 1 && i < n; i++)
            test_put(&q->factor[0].t, (n + i) * n, row->damage);
        test_tensor_freeze(&q->factor[f]);
    }
    test_tensor_create(h, &q->sign, dtype, ROW_MAJOR, 1, &items);
    test_tensor_create(h, &q->out, dtype, EVERY_SECOND, 1, &items);
}

static bool run_logdet(struct harness *h, struct logdet *q)
{
    const struct test_pair pairs[] = {
        {     &q->sign, &q->sign_there},
        {      &q->out,  &q->out_there},
        {&q->factor[0],   &q->there[0]},
        {&q->factor[1],   &q->there[1]},
    };

    return test_call_there(h, pairs, LENGTH(pairs), find_logdet, q);
}

static void drop_logdet(struct harness *h, struct logdet *q)
{
    for (int f = 0; f < 2; f++)
        test_tensor_destroy(h, &q->factor[f], "a factor");
    test_tensor_destroy(h, &q->sign, "the sign");
    test_tensor_destroy(h, &q->out, "the determinant");
}

static bool same(double a, double b, double error)
{
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= error;
}

static void one_determinant(struct harness *h, struct harness *there, const struct determinant *row,
                            gram_dtype dtype)
{
    struct logdet want, got;
    uint64_t random = h->random;

    make_logdet(h, &want, row, dtype);
    h->random = random;
    make_logdet(h, &got, row, dtype);
    if (run_logdet(h, &want) && run_logdet(there, &got))
        for (int64_t i = 0; i < ITEMS; i++) {
            double a = test_at(&got.out.t, i), b = test_at(&want.out.t, i);
            double s = test_at(&got.sign.t, i), t = test_at(&want.sign.t, i);
            CHECK(h, same(s, t, 0), "%s: the sign of item %lld is %g, not %g", row->why,
                  (long long)i, s, t);
            CHECK(h, same(a, b, 4 * test_eps(dtype) * fabs(b) + 1e-9),
                  "%s: item %lld is %.17g, not %.17g", row->why, (long long)i, a, b);
        }
    drop_logdet(h, &want);
    drop_logdet(h, &got);
}

static void logdets(struct harness *h)
{
    struct harness there = *h;

    there.device.type = GRAM_CUDA;
    there.g = test_cuda_context(h, NULL);
    if (!there.g)
        return;
    for (int i = 0; i < LENGTH(determinants); i++)
        for (int d = GRAM_F32; d <= GRAM_F64; d++)
            one_determinant(h, &there, &determinants[i], (gram_dtype)d);
    h->checks += there.checks, h->failures += there.failures;
    gram_context_destroy(there.g);
}

/* ---- Gradients in little scratch ------------------------------------------------------------- */

enum {
    X = 2, /* behind the factors */
    GRAD,
    MATRICES,
    ROWS = 900,
    LIMIT = 9 << 20, /* of scratch, of which rows have a half: three pieces of them */
};

static const int64_t sizes[MATRICES][3] = {
    {1,   12,   8},
    {1,   10,  12},
    {1, ROWS, 120},
    {3, ROWS,  96}
};

/* x is one for the three items of grad, so that its gradient is a sum over pieces. */
static bool differentiate(struct harness *h, struct test_tensor *in, struct test_tensor *out)
{
    struct test_copy from[MATRICES], to[GRAD];
    const gram_tensor *factors[] = {&from[0].t, &from[1].t};
    gram_tensor *const grads[] = {&to[0].t, &to[1].t};
    const gram_kron_grads all = {&to[X].t, grads};
    bool ran = true;

    for (int i = 0; i < MATRICES; i++) {
        ran = test_send(h, &in[i], &from[i]) && ran;
        ran = (i == GRAD || test_send(h, &out[i], &to[i])) && ran;
    }
    ran = ran && CHECK(h,
                       gram_kron_matmul_vjp(h->g, &from[X].t, factors, X, NULL, &from[GRAD].t,
                                            &all) == GRAM_OK,
                       "%s", gram_message(h->g));
    for (int i = 0; i < MATRICES; i++) {
        ran = test_fetch(h, &in[i], &from[i]) && ran;
        ran = (i == GRAD || test_fetch(h, &out[i], &to[i])) && ran;
    }
    return ran;
}

static void gradients_in_pieces(struct harness *h)
{
    struct test_tensor in[MATRICES], want[GRAD], got[GRAD];
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    struct harness there = *h;

    o.device.type = there.device.type = GRAM_CUDA;
    o.scratch_limit = LIMIT;
    if (!CHECK(h, gram_context_create(&o, &there.g) == GRAM_OK, "%s", gram_message(NULL)))
        return;
    for (int i = 0; i < MATRICES; i++) {
        const int64_t *shape = i == GRAD ? sizes[i] : sizes[i] + 1;
        test_tensor_create(h, &in[i], GRAM_F64, ROW_MAJOR, i == GRAD ? 3 : 2, shape);
        test_fill_uniform(h, &in[i], 0, 1);
        if (i == GRAD)
            continue;
        test_tensor_create(h, &want[i], GRAM_F64, ROW_MAJOR, 2, shape);
        test_tensor_create(h, &got[i], GRAM_F64, EVERY_SECOND, 2, shape);
    }
    if (differentiate(h, in, want) && differentiate(&there, in, got))
        for (int i = 0; i < GRAD; i++)
            for (int64_t e = 0; e < test_count(&want[i].t); e++) {
                double a = test_at(&got[i].t, e), b = test_at(&want[i].t, e);
                CHECK(h, fabs(a - b) <= 1e-12 * b, "gradient %d: element %lld is %.17g, not %.17g",
                      i, (long long)e, a, b);
            }
    for (int i = 0; i < MATRICES; i++) {
        test_tensor_destroy(h, &in[i], "an input");
        if (i == GRAD)
            continue;
        test_tensor_destroy(h, &want[i], "the CPU's gradient");
        test_tensor_destroy(h, &got[i], "a gradient");
    }
    h->checks += there.checks, h->failures += there.failures;
    gram_context_destroy(there.g);
}

static const struct test_function tests[] = {
    {"diagonals_and_traces", diagonals_and_traces},
    {             "logdets",              logdets},
    { "gradients_in_pieces",  gradients_in_pieces},
};

int main(void)
{
    if (gram_best_device().type != GRAM_CUDA) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
