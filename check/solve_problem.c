/*
 * solve_problem.c - systems of a known condition, solved, and their residuals in double
 *
 * A solution is right if |A x - b| <= 4 n eps |A| |x| (infinity norms), whatever the condition of
 * A: what Cholesky and LU with partial pivoting promise.  The part of a that Cholesky must not read
 * holds NaN.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_problem.h"
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row's tensors, and plain copies of a and b as the tensors hold them. */
struct system {
    const struct solve_row *row;
    bool lu;
    int ndim;         /* of the joined batch */
    int64_t batch[2]; /* its shape */
    int64_t items, a_items;
    struct test_tensor a, b, x, factor, pivots, info;
    struct { /* the same where the context's device is */
        struct test_copy a, b, x, factor, pivots, info;
    } there;
    double *a_copy, *b_copy; /* a_items of n by n, items of n by r */
    gram_solve_options options;
};

void solve_row_label(int index, char *text, size_t size)
{
    const struct solve_row *row = &solve_rows[index];

    snprintf(text, size, "n=%lld r=%lld %s %s: %s", (long long)row->n, (long long)row->r,
             row->dtype == GRAM_F32 ? "f32" : "f64", row->uplo == GRAM_LOWER ? "lower" : "upper",
             row->why);
}

/* ---- Matrices ------------------------------------------------------------------------------ */

/* Singular values from 1 down to 1 / condition; positive definite unless lu. */
void solve_make_matrix(struct harness *h, int64_t n, double condition, bool lu, double *a)
{
    double *v = dense_doubles(n);

    memset(a, 0, (size_t)(n * n) * sizeof *a);
    for (int64_t i = 0; i < n; i++)
        a[i * n + i] = n > 1 ? pow(condition, -(double)i / (double)(n - 1)) : 1;
    for (int i = 0; i < 3; i++)
        dense_reflect(h, n, a, !lu, v);
    free(v);
}

/* The order at which a broken matrix breaks, counted from 1. */
static int64_t broken_order(int64_t n)
{
    return n * 2 / 3 + 1;
}

void solve_damage_matrix(enum solve_damage damage, int64_t n, bool lu, double *a)
{
    int64_t k = broken_order(n) - 1;

    if (damage == HAS_NAN) {
        a[k * n + k / 2] = a[k / 2 * n + k] = NAN;
    } else if (damage == BROKEN && !lu) {
        a[k * n + k] = -1;
    } else if (damage == BROKEN) {
        for (int64_t i = 0; i < n; i++)
            a[k * n + i] = a[i * n + k] = 0;
    }
}

static bool is_damaged(const struct system *s, int64_t a_item)
{
    return s->row->damage != SOUND && a_item == (s->a_items > 1 ? 1 : 0);
}

/* True for what gram may read of a. */
static bool is_read(const struct system *s, int64_t i, int64_t j)
{
    return s->lu || (s->row->uplo == GRAM_LOWER ? i >= j : i <= j);
}

static void fill_matrices(struct harness *h, struct system *s)
{
    int64_t n = s->row->n;

    for (int64_t item = 0; item < s->a_items; item++) {
        double *a = s->a_copy + item * n * n;
        solve_make_matrix(h, n, s->row->condition, s->lu, a);
        if (is_damaged(s, item))
            solve_damage_matrix(s->row->damage, n, s->lu, a);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                int64_t at = (item * n + i) * n + j;
                if (!is_read(s, i, j))
                    continue; /* stays NaN in the tensor */
                test_put(&s->a.t, at, a[i * n + j]);
                a[i * n + j] = test_at(&s->a.t, at);
                if (!s->lu)
                    a[j * n + i] = a[i * n + j];
            }
    }
}

/* ---- Batches -------------------------------------------------------------------------------- */

static int batch_dims(const int64_t batch[2])
{
    return (batch[0] > 0) + (batch[1] > 0);
}

/* Item of a tensor with that batch shape which belongs to an item of the joined batch. */
static int64_t item_of(const struct system *s, const int64_t batch[2], int64_t item)
{
    int64_t last = s->batch[1] > 0 ? s->batch[1] : 1, i = item / last, j = item % last;

    if (batch[0] <= 1)
        i = 0;
    if (batch[1] <= 1)
        j = 0;
    return i * (batch[1] > 0 ? batch[1] : 1) + j;
}

static void create(struct harness *h, struct test_tensor *t, gram_dtype dtype, enum layout layout,
                   const int64_t batch[2], const int64_t core[2], int core_dims)
{
    int64_t shape[4];
    int ndim = 0;

    for (int i = 0; i < 2; i++)
        if (batch[i] > 0)
            shape[ndim++] = batch[i];
    for (int i = 0; i < core_dims; i++)
        shape[ndim++] = core[i];
    test_tensor_create(h, t, dtype, layout, ndim, shape);
}

/* New right-hand sides, as the tensor holds them broadcast into b_copy. */
static void fill_rhs(struct harness *h, struct system *s)
{
    int64_t size = s->row->n * s->row->r;

    test_fill_uniform(h, &s->b, -1, 1);
    for (int64_t item = 0; item < s->items; item++)
        for (int64_t i = 0; i < size; i++)
            s->b_copy[item * size + i] =
                test_at(&s->b.t, item_of(s, s->row->b_batch, item) * size + i);
}

static void open_system(struct harness *h, struct system *s, const struct solve_row *row, bool lu)
{
    int64_t square[2] = {row->n, row->n}, tall[2] = {row->n, row->r};

    *s = (struct system){.row = row, .lu = lu, .items = 1, .a_items = 1};
    for (int i = 0; i < 2; i++) {
        int64_t a = row->a_batch[i], b = row->b_batch[i];
        s->batch[i] = a > b ? a : b;
        s->items *= s->batch[i] > 0 ? s->batch[i] : 1;
        s->a_items *= a > 0 ? a : 1;
    }
    s->ndim = batch_dims(s->batch);
    create(h, &s->a, row->dtype, row->a_layout, row->a_batch, square, 2);
    create(h, &s->b, row->dtype, row->b_layout, row->b_batch, tall, 2);
    create(h, &s->x, row->dtype, row->b_layout, s->batch, tall, 2);
    create(h, &s->factor, row->dtype, row->a_layout, row->a_batch, square, 2);
    create(h, &s->pivots, GRAM_I32, row->a_layout == EVERY_SECOND ? EVERY_SECOND : ROW_MAJOR,
           row->a_batch, square, 1);
    create(h, &s->info, GRAM_I32, ROW_MAJOR, s->batch, NULL, 0);
    s->a_copy = dense_doubles(s->a_items * row->n * row->n);
    s->b_copy = dense_doubles(s->items * row->n * row->r);
    fill_matrices(h, s);
    fill_rhs(h, s);
    if (row->factor != FACTOR_IN_PLACE)
        test_tensor_freeze(&s->a);
}

static void close_system(struct harness *h, struct system *s)
{
    test_tensor_destroy(h, &s->a, "a");
    test_tensor_destroy(h, &s->b, "b");
    test_tensor_destroy(h, &s->x, "x");
    test_tensor_destroy(h, &s->factor, "factor");
    test_tensor_destroy(h, &s->pivots, "pivots");
    test_tensor_destroy(h, &s->info, "info");
    free(s->a_copy);
    free(s->b_copy);
}

/* ---- Checks --------------------------------------------------------------------------------- */

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct system *s = problem;
    const gram_solve_options *o = &s->options;
    gram_tensor *b = &s->there.b.t, *x = s->row->in_place ? b : &s->there.x.t;
    gram_tensor *info = &s->there.info.t;
    const gram_tensor *a =
        o->factored && s->row->factor == FACTOR_APART ? &s->there.factor.t : &s->there.a.t;

    if (s->lu)
        return need ? gram_solve_lu_workspace(h->g, a, b, o, x, need)
                    : gram_solve_lu(h->g, a, b, o, x, info);
    return need ? gram_solve_cholesky_workspace(h->g, a, b, o, x, need)
                : gram_solve_cholesky(h->g, a, b, o, x, info);
}

/* The call where the context's device is, in memory of that device. */
static void run(struct harness *h, struct system *s)
{
    const struct test_pair pairs[] = {
        {     &s->a,      &s->there.a},
        {     &s->b,      &s->there.b},
        {     &s->x,      &s->there.x},
        {&s->factor, &s->there.factor},
        {&s->pivots, &s->there.pivots},
        {  &s->info,   &s->there.info},
    };

    test_call_there(h, pairs, LENGTH(pairs), call, s);
}

static void check_info(struct harness *h, const struct system *s, int64_t item)
{
    int64_t n = s->row->n, a_item = item_of(s, s->row->a_batch, item);
    double info = test_at(&s->info.t, item);
    bool known = !s->lu || s->row->damage == BROKEN;

    if (!is_damaged(s, a_item))
        CHECK(h, info == 0, "info of item %lld is %g", (long long)item, info);
    else if (known)
        CHECK(h, info == (double)broken_order(n), "info of item %lld is %g, expected %lld",
              (long long)item, info, (long long)broken_order(n));
    else
        CHECK(h, info >= 1 && info <= (double)n, "info of item %lld is %g", (long long)item, info);
}

static void check_solution(struct harness *h, const struct system *s)
{
    int64_t n = s->row->n, r = s->row->r;
    const gram_tensor *solution = s->row->in_place ? &s->b.t : &s->x.t;
    double *x = dense_doubles(n * r), bound = 4 * (double)n * test_eps(s->row->dtype);

    for (int64_t item = 0; item < s->items; item++) {
        int64_t a_item = item_of(s, s->row->a_batch, item), nans = 0;
        double error;
        check_info(h, s, item);
        for (int64_t i = 0; i < n * r; i++) {
            x[i] = test_at(solution, item * n * r + i);
            nans += isnan(x[i]) != 0;
        }
        if (is_damaged(s, a_item)) {
            CHECK(h, nans == n * r, "item %lld of x has %lld NaN, expected all", (long long)item,
                  (long long)nans);
            continue;
        }
        error = reference_solve_residual(n, n, r, s->a_copy + a_item * n * n, x,
                                         s->b_copy + item * n * r);
        CHECK(h, error <= bound, "item %lld: residual %g, bound %g", (long long)item, error, bound);
    }
    free(x);
}

/* x itself where a is so well conditioned that it must agree with elimination in double. */
static void check_against_elimination(struct harness *h, const struct system *s)
{
    int64_t n = s->row->n, r = s->row->r;
    const gram_tensor *solution = s->row->in_place ? &s->b.t : &s->x.t;
    double *a = dense_doubles(n * n), *b = dense_doubles(n * r), most = 0, scale = 0;
    double bound = 16 * (double)n * test_eps(s->row->dtype) * s->row->condition;

    memcpy(a, s->a_copy, (size_t)(n * n) * sizeof *a);
    memcpy(b, s->b_copy, (size_t)(n * r) * sizeof *b);
    reference_solve(n, r, a, b);
    for (int64_t i = 0; i < n * r; i++) {
        double error = fabs(test_at(solution, i) - b[i]);
        most = error > most || isnan(error) ? error : most;
        scale = fabs(b[i]) > scale ? fabs(b[i]) : scale;
    }
    CHECK(h, most <= bound * scale, "item 0 is off by %g, bound %g", most, bound * scale);
    free(a);
    free(b);
}

/* L and U of an item as stored: Cholesky's L L^T or U^T U, LU's unit lower and upper factors with
 * the exchanged rows of a (of a transposed where it is stored by rows). */
static void check_factor(struct harness *h, const struct system *s, int64_t item)
{
    int64_t n = s->row->n;
    const gram_tensor *f = s->row->factor == FACTOR_APART ? &s->factor.t : &s->a.t;
    double *l = dense_doubles(n * n), *u = dense_doubles(n * n), *a = dense_doubles(n * n), error;
    int64_t rows = llabs((long long)f->stride[f->ndim - 2]);
    bool by_rows = s->lu && n > 1 && llabs((long long)f->stride[f->ndim - 1]) < rows;
    bool flip = s->lu ? by_rows : s->row->uplo == GRAM_UPPER;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t at = (item * n + i) * n + j;
            double v = test_at(f, at), *lower = flip ? &l[j * n + i] : &l[i * n + j];
            bool is_lower = flip ? i <= j : i >= j;
            a[flip ? j * n + i : i * n + j] = s->a_copy[at];
            if (s->lu && i == j)
                l[i * n + i] = 1, u[i * n + i] = v;
            else if (is_lower)
                *lower = v;
            else if (s->lu)
                *(flip ? &u[j * n + i] : &u[i * n + j]) = v;
            if (!s->lu && is_lower)
                *(flip ? &u[i * n + j] : &u[j * n + i]) = v;
            if (!s->lu && !is_lower && i != j && s->row->factor == FACTOR_IN_PLACE)
                CHECK(h, isnan(v), "the other triangle of a was changed to %g", v);
        }
    for (int64_t k = 0; s->lu && k < n; k++) {
        int64_t p = (int64_t)test_at(&s->pivots.t, item * n + k) - 1;
        CHECK(h, p >= k && p < n, "pivot %lld is %lld", (long long)k, (long long)p + 1);
        for (int64_t j = 0; p >= k && p < n && j < n; j++) {
            double kept = a[k * n + j];
            a[k * n + j] = a[p * n + j];
            a[p * n + j] = kept;
        }
    }
    error = reference_product_residual(n, l, u, a);
    CHECK(h, error <= 4 * (double)n * test_eps(s->row->dtype), "item %lld: the factor is off by %g",
          (long long)item, error);
    free(l);
    free(u);
    free(a);
}

void solve_row_check(struct harness *h, const struct solve_row *row, bool lu)
{
    struct system s;
    gram_solve_options *o = &s.options;
    bool kept = row->factor != NO_FACTOR;

    open_system(h, &s, row, lu);
    *o = (gram_solve_options)GRAM_SOLVE_OPTIONS_INIT;
    o->uplo = row->uplo;
    if (kept)
        o->factor = row->factor == FACTOR_APART ? &s.there.factor.t : &s.there.a.t;
    if (lu && kept)
        o->pivots = &s.there.pivots.t;
    run(h, &s);
    check_solution(h, &s);
    if (row->damage == SOUND && row->condition < 100 && row->n > 0)
        check_against_elimination(h, &s);
    for (int64_t i = 0; kept && i < s.a_items; i++)
        if (!is_damaged(&s, i))
            check_factor(h, &s, i);
    if (kept) { /* again, for new right-hand sides */
        fill_rhs(h, &s);
        o->factor = NULL;
        o->factored = 1;
        run(h, &s);
        check_solution(h, &s);
    }
    close_system(h, &s);
}
