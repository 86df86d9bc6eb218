/*
 * eigh_problem.c - eigenproblems solved, and held against LAPACK's bounds and the reference
 *
 * Pairs are right if |A V - V W| and |V^T V - I| are below 30 n eps (the first relative to |A|),
 * LAPACK's own bound, and the values are within the same of the reference's.  The triangle that
 * must not be read holds NaN.
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_problem.h"
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row's tensors, and plain copies of a before it was scaled. */
struct problem {
    const struct eigh_row *row;
    int ndim; /* of the batch */
    int64_t batch[2], items, k;
    struct test_tensor a, values, vectors, info, found;
    struct { /* the same where the context's device is */
        struct test_copy a, values, vectors, info, found;
    } there;
    double *copy; /* items of n by n */
    gram_eigh_options options;
};

static void create(struct harness *h, const struct problem *p, struct test_tensor *t,
                   gram_dtype dtype, enum layout layout, const int64_t *core, int core_dims)
{
    int64_t shape[4];
    int ndim = 0;

    for (int i = 0; i < 2; i++)
        if (p->row->batch[i] > 0)
            shape[ndim++] = p->row->batch[i];
    for (int i = 0; i < core_dims; i++)
        shape[ndim++] = core[i];
    test_tensor_create(h, t, dtype, layout, ndim, shape);
}

static bool is_damaged(const struct problem *p, int64_t item)
{
    return p->row->damage != EIGH_SOUND && item == (p->items > 1 ? 1 : 0);
}

/* The triangle of each item, scaled and rounded; copy gets what the tensor holds. */
static void fill(struct harness *h, struct problem *p)
{
    const struct eigh_row *row = p->row;
    int64_t n = row->n;

    for (int64_t item = 0; item < p->items; item++) {
        double *a = p->copy + item * n * n;
        zoo_fill(h, row->kind, n, test_eps(row->dtype), a);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++) {
                int64_t at = item * n * n + (row->uplo == GRAM_LOWER ? i * n + j : j * n + i);
                bool spoilt = is_damaged(p, item) && i == n - 1 && j == n / 2;
                test_put(&p->a.t, at, ldexp(a[i * n + j], row->exponent));
                a[i * n + j] = a[j * n + i] = ldexp(test_at(&p->a.t, at), -row->exponent);
                if (spoilt)
                    test_put(&p->a.t, at, row->damage == EIGH_HAS_NAN ? NAN : INFINITY);
            }
    }
}

static void open_problem(struct harness *h, struct problem *p, const struct eigh_row *row)
{
    *p = (struct problem){.row = row, .items = 1, .options = GRAM_EIGH_OPTIONS_INIT};
    p->k = row->select == GRAM_EIGH_ALL ? row->n : row->count;
    for (int i = 0; i < 2; i++)
        p->items *= row->batch[i] > 0 ? row->batch[i] : 1;
    create(h, p, &p->a, row->dtype, row->a_layout, (int64_t[]){row->n, row->n}, 2);
    create(h, p, &p->values, row->dtype, row->layout, (int64_t[]){p->k}, 1);
    create(h, p, &p->vectors, row->dtype, row->layout, (int64_t[]){row->n, p->k}, 2);
    create(h, p, &p->info, GRAM_I32, ROW_MAJOR, NULL, 0);
    create(h, p, &p->found, GRAM_I64, ROW_MAJOR, NULL, 0);
    p->copy = dense_doubles(p->items * row->n * row->n);
    fill(h, p);
    if (!row->in_place)
        test_tensor_freeze(&p->a);
    p->options.uplo = row->uplo;
    p->options.select = row->select;
    p->options.first = row->first;
    p->options.count = row->count;
    p->options.lower = ldexp(row->lower, row->exponent);
    p->options.upper = ldexp(row->upper, row->exponent);
    p->options.driver = row->driver;
    p->options.found = row->select == GRAM_EIGH_VALUE ? &p->there.found.t : NULL;
}

static void close_problem(struct harness *h, struct problem *p)
{
    test_tensor_destroy(h, &p->a, "a");
    test_tensor_destroy(h, &p->values, "values");
    test_tensor_destroy(h, &p->vectors, "vectors");
    test_tensor_destroy(h, &p->info, "info");
    test_tensor_destroy(h, &p->found, "found");
    free(p->copy);
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *p = problem;
    gram_tensor *a = &p->there.a.t, *values = &p->there.values.t;
    gram_tensor *vectors = p->row->in_place ? a : &p->there.vectors.t;

    if (p->row->values_only)
        vectors = NULL;
    return need ? gram_eigh_workspace(h->g, a, &p->options, values, vectors, need)
                : gram_eigh(h->g, a, &p->options, values, vectors, &p->there.info.t);
}

/* The call where the context's device is, in memory of that device. */
static void run(struct harness *h, struct problem *p)
{
    const struct test_pair pairs[] = {
        {      &p->a,       &p->there.a},
        { &p->values,  &p->there.values},
        {&p->vectors, &p->there.vectors},
        {   &p->info,    &p->there.info},
        {  &p->found,   &p->there.found},
    };

    test_call_there(h, pairs, LENGTH(pairs), call, p);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static int64_t count_nan(const gram_tensor *t, int64_t first, int64_t count)
{
    int64_t nans = 0;

    for (int64_t i = 0; i < count; i++)
        nans += isnan(test_at(t, first + i)) != 0;
    return nans;
}

static void check_damaged(struct harness *h, const struct problem *p, int64_t item)
{
    int64_t n = p->row->n, k = p->k;
    const gram_tensor *vectors = p->row->in_place ? &p->a.t : &p->vectors.t;

    CHECK(h, test_at(&p->info.t, item) == 2, "info of item %lld is %g", (long long)item,
          test_at(&p->info.t, item));
    CHECK(h, count_nan(&p->values.t, item * k, k) == k, "values of item %lld are not all NaN",
          (long long)item);
    if (!p->row->values_only)
        CHECK(h, count_nan(vectors, item * n * k, n * k) == n * k,
              "vectors of item %lld are not all NaN", (long long)item);
    if (p->row->select == GRAM_EIGH_VALUE)
        CHECK(h, test_at(&p->found.t, item) == 0, "found of item %lld is %g", (long long)item,
              test_at(&p->found.t, item));
}

/* The pairs that the row asks for, among the reference's values; gives how many are stored. */
static int64_t expected(struct harness *h, const struct problem *p, int64_t item, const double *w,
                        int64_t *first)
{
    const struct eigh_row *row = p->row;
    int64_t low = 0, high = 0;

    *first = row->select == GRAM_EIGH_INDEX ? row->first : 0;
    if (row->select == GRAM_EIGH_LARGEST)
        *first = row->n - row->count;
    if (row->select != GRAM_EIGH_VALUE)
        return p->k;
    for (int64_t i = 0; i < row->n; i++) {
        low += w[i] <= row->lower;
        high += w[i] <= row->upper;
    }
    *first = low;
    CHECK(h, test_at(&p->found.t, item) == (double)(high - low), "found %g, expected %lld",
          test_at(&p->found.t, item), (long long)(high - low));
    return high - low < p->k ? high - low : p->k;
}

/* Values and vectors that were stored, packed and scaled back; the rest must be NaN. */
static void fetch_pairs(struct harness *h, const struct problem *p, int64_t item, int64_t stored,
                        double *w, double *v)
{
    int64_t n = p->row->n, k = p->k;
    const gram_tensor *vectors = p->row->in_place ? &p->a.t : &p->vectors.t;
    bool no_vectors = p->row->values_only;

    for (int64_t j = 0; j < k; j++) {
        double value = test_at(&p->values.t, item * k + j);
        if (j < stored)
            w[j] = ldexp(value, -p->row->exponent);
        else
            CHECK(h, isnan(value), "value %lld is %g, expected NaN", (long long)j, value);
        for (int64_t i = 0; !no_vectors && i < n; i++) {
            double element = test_at(vectors, (item * n + i) * k + j);
            if (j < stored)
                v[i * stored + j] = element;
            else
                CHECK(h, isnan(element), "vector %lld is %g, expected NaN", (long long)j, element);
        }
    }
}

void eigh_exact_values(int64_t n, const double *a, double *values)
{
    long double *room = calloc((size_t)(n * n + 2 * n) + 1, sizeof *room);

    if (!room)
        harness_end_without_memory("a reference");
    for (int64_t i = 0; i < n * n; i++)
        room[i] = a[i];
    reference_eigenvalues(n, room, room + n * n, values);
    free(room);
}

static void check_item(struct harness *h, const struct problem *p, int64_t item)
{
    int64_t n = p->row->n, first, stored;
    double *a = p->copy + item * n * n;
    double *w = dense_doubles(n), *v = dense_doubles(n * n), *exact = dense_doubles(n), largest = 0;
    double bound = 30 * (double)n * test_eps(p->row->dtype), error;

    eigh_exact_values(n, a, exact);
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(exact[i]));
    CHECK(h, test_at(&p->info.t, item) == 0, "info of item %lld is %g", (long long)item,
          test_at(&p->info.t, item));
    stored = expected(h, p, item, exact, &first);
    fetch_pairs(h, p, item, stored, w, v);
    for (int64_t j = 0; j < stored; j++) {
        error = fabs(w[j] - exact[first + j]);
        CHECK(h, error <= bound * largest, "value %lld of item %lld is %g, expected %g",
              (long long)j, (long long)item, w[j], exact[first + j]);
        CHECK(h, j == 0 || w[j - 1] <= w[j], "values %g and %g do not ascend", w[j ? j - 1 : 0],
              w[j]);
    }
    if (!p->row->values_only) {
        error = reference_eigh_residual(n, stored, a, w, v);
        CHECK(h, error <= bound, "item %lld: residual %g, bound %g", (long long)item, error, bound);
        error = reference_orthogonality(n, stored, v);
        CHECK(h, error <= bound, "item %lld: not orthogonal by %g, bound %g", (long long)item,
              error, bound);
    }
    free(w);
    free(v);
    free(exact);
}

void eigh_row_check(struct harness *h, const struct eigh_row *row)
{
    struct problem p;

    open_problem(h, &p, row);
    run(h, &p);
    for (int64_t item = 0; item < p.items; item++)
        (is_damaged(&p, item) ? check_damaged : check_item)(h, &p, item);
    close_problem(h, &p);
}
