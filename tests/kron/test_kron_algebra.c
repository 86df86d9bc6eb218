/*
 * test_kron_algebra.c - diagonal, trace and determinant of Kronecker products, against the product
 * written out
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>

enum {
    MOST = 3 /* factors */
};

struct product {
    int count;
    struct test_tensor factor[MOST];
    const gram_tensor *factors[MOST];
    struct reference_batch batch;
    int64_t order;
};

/* The first factor has a batch of items, 0: none; the second one is stored by columns. */
static void make_product(struct harness *h, struct product *p, gram_dtype dtype, int count,
                         const int64_t *n, int64_t items)
{
    static const enum layout layouts[MOST] = {PADDED, COLUMN_MAJOR, REVERSED};
    int core[MOST] = {2, 2, 2};

    *p = (struct product){.count = count, .order = 1};
    for (int f = 0; f < count; f++) {
        int64_t shape[3] = {items, n[f], n[f]};
        bool batch = f == 0 && items > 0;
        test_tensor_create(h, &p->factor[f], dtype, layouts[f], batch ? 3 : 2,
                           batch ? shape : shape + 1);
        if (dtype == GRAM_I32 || dtype == GRAM_I64)
            test_fill_integers(h, &p->factor[f], 100);
        else
            test_fill_uniform(h, &p->factor[f], -1, 1);
        p->factors[f] = &p->factor[f].t;
        p->order *= n[f];
    }
    p->batch = reference_join(count, p->factors, core);
}

static void drop_product(struct harness *h, struct product *p)
{
    for (int f = 0; f < p->count; f++)
        test_tensor_destroy(h, &p->factor[f], "a factor");
}

static double at(const struct product *p, int64_t item, int64_t i, int64_t j)
{
    return reference_kron(p->factors, p->count, &p->batch, (int64_t[]){item, i, j});
}

static const int64_t sizes[][MOST] = {
    {1, 1, 1},
    {3, 4, 2},
    {7, 1, 5},
    {2, 0, 3},
};
static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64, GRAM_I32, GRAM_I64};

static void check_diagonal(struct harness *h, struct product *p, gram_dtype dtype)
{
    int64_t shape[2] = {p->batch.count, p->order};
    struct test_tensor out;

    test_tensor_create(h, &out, dtype, EVERY_SECOND, p->batch.ndim + 1,
                       p->batch.ndim ? shape : shape + 1);
    CHECK(h, gram_kron_diagonal(h->g, p->factors, p->count, &out.t) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int64_t e = 0; e < test_count(&out.t); e++) {
        double want = at(p, e / p->order, e % p->order, e % p->order), got = test_at(&out.t, e);
        CHECK(h, fabs(got - want) <= 3 * test_eps(dtype) * fabs(want), "element %lld is %g, not %g",
              (long long)e, got, want);
    }
    test_tensor_destroy(h, &out, "the diagonal");
}

static void check_trace(struct harness *h, struct product *p, gram_dtype dtype)
{
    struct test_tensor out;

    test_tensor_create(h, &out, dtype, ROW_MAJOR, p->batch.ndim, p->batch.shape);
    CHECK(h, gram_kron_trace(h->g, p->factors, p->count, &out.t) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int64_t item = 0; item < p->batch.count; item++) {
        double want = 0, size = 0, got = test_at(&out.t, item);
        for (int64_t i = 0; i < p->order; i++)
            want += at(p, item, i, i), size += fabs(at(p, item, i, i));
        CHECK(h, fabs(got - want) <= 20 * 0x1p-52 * size + test_eps(dtype) * fabs(want),
              "the trace is %.17g, not %.17g", got, want);
    }
    test_tensor_destroy(h, &out, "the trace");
}

static void diagonals_and_traces(struct harness *h)
{
    for (int s = 0; s < LENGTH(sizes); s++)
        for (int d = 0; d < LENGTH(dtypes); d++)
            for (int64_t items = 0; items < 4; items += 3)
                for (int count = 1; count <= MOST; count++) {
                    struct product p;
                    make_product(h, &p, dtypes[d], count, sizes[s], items);
                    check_diagonal(h, &p, dtypes[d]);
                    check_trace(h, &p, dtypes[d]);
                    drop_product(h, &p);
                }
}

/* log |det| by elimination with partial pivoting, of an n by n array; *sign its sign. */
static double eliminate(int64_t n, double *a, double *sign)
{
    double sum = 0;

    *sign = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            best = fabs(a[i * n + k]) > fabs(a[best * n + k]) ? i : best;
        for (int64_t j = 0; best != k && j < n; j++) {
            double kept = a[k * n + j];
            a[k * n + j] = a[best * n + j], a[best * n + j] = kept;
        }
        *sign *= (best != k ? -1 : 1) * (a[k * n + k] < 0 ? -1 : a[k * n + k] > 0);
        sum += log(fabs(a[k * n + k]));
        for (int64_t i = k + 1; i < n && a[k * n + k] != 0; i++) {
            double f = a[i * n + k] / a[k * n + k];
            for (int64_t j = k; j < n; j++)
                a[i * n + j] -= f * a[k * n + j];
        }
    }
    return sum;
}

/* Calls in exactly the scratch that is named. */
static gram_status logdet_call(struct harness *h, void *arg, gram_workspace *need)
{
    struct {
        struct product *p;
        struct test_tensor *sign, *out;
    } *c = arg;

    if (need)
        return gram_kron_logdet_workspace(h->g, c->p->factors, c->p->count, &c->sign->t, &c->out->t,
                                          need);
    return gram_kron_logdet(h->g, c->p->factors, c->p->count, &c->sign->t, &c->out->t);
}

static void check_logdet(struct harness *h, struct product *p, gram_dtype dtype)
{
    struct test_tensor out, sign;
    struct {
        struct product *p;
        struct test_tensor *sign, *out;
    } c = {p, &sign, &out};
    double *a = calloc((size_t)(p->order * p->order + 1), sizeof *a);

    test_tensor_create(h, &out, dtype, ROW_MAJOR, p->batch.ndim, p->batch.shape);
    test_tensor_create(h, &sign, dtype, ROW_MAJOR, p->batch.ndim, p->batch.shape);
    CHECK(h, a != NULL, "no memory");
    test_in_exact_scratch(h, logdet_call, &c);
    for (int64_t item = 0; a && item < p->batch.count; item++) {
        double want, want_sign, got = test_at(&out.t, item), got_sign = test_at(&sign.t, item);
        for (int64_t e = 0; e < p->order * p->order; e++)
            a[e] = at(p, item, e / p->order, e % p->order);
        want = eliminate(p->order, a, &want_sign);
        CHECK(h, fabs(got - want) <= test_eps(dtype) * fabs(want) + 1e-9 && got_sign == want_sign,
              "log |det| is %.12g with sign %g, expected %.12g with %g", got, got_sign, want,
              want_sign);
    }
    free(a);
    test_tensor_destroy(h, &out, "log |det|");
    test_tensor_destroy(h, &sign, "the sign");
}

static void determinants(struct harness *h)
{
    for (int s = 0; s < LENGTH(sizes); s++)
        for (int d = 0; d < 2; d++)
            for (int64_t items = 0; items < 6; items += 5)
                for (int count = 1; count <= MOST; count++) {
                    struct product p;
                    make_product(h, &p, dtypes[d], count, sizes[s], items);
                    check_logdet(h, &p, dtypes[d]);
                    drop_product(h, &p);
                }
}

static void expect_logdet(struct harness *h, double *second, double want, double want_sign)
{
    double first[] = {2, 0, 0, -3}, value = 7, sign = 7;
    gram_tensor a = gram_matrix(first, 2, 2, GRAM_F64), b = gram_matrix(second, 2, 2, GRAM_F64);
    gram_tensor out = gram_vector(&value, 1, GRAM_F64), to = gram_vector(&sign, 1, GRAM_F64);
    const gram_tensor *factors[] = {&a, &b};

    out.ndim = to.ndim = 0;
    CHECK(h, gram_kron_logdet(h->g, factors, 2, &to, &out) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, (isnan(want) ? isnan(value) : value == want || fabs(value - want) < 1e-14),
          "log |det| is %g, expected %g", value, want);
    CHECK(h, isnan(want_sign) ? isnan(sign) : sign == want_sign, "the sign is %g, expected %g",
          sign, want_sign);
    CHECK(h, gram_kron_logdet(h->g, factors, 2, NULL, &out) == GRAM_OK, "%s", gram_message(h->g));
}

/* Each factor counts as often as the order of the other one says: twice here, so no sign stays. */
static void determinants_that_are_known(struct harness *h)
{
    expect_logdet(h, (double[]){5, 0, 0, 7}, 2 * log(6) + 2 * log(35), 1);
    expect_logdet(h, (double[]){1, 2, 2, 4}, -INFINITY, 0);
    expect_logdet(h, (double[]){NAN, 2, 2, 4}, NAN, NAN);
    expect_logdet(h, (double[]){1e-300, 0, 0, 1e-300}, 2 * log(6) + 2 * 2 * log(1e-300), 1);
}

static const struct test_function tests[] = {
    {       "diagonals_and_traces",        diagonals_and_traces},
    {               "determinants",                determinants},
    {"determinants_that_are_known", determinants_that_are_known},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
