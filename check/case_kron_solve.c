/*
 * case_kron_solve.c - the rows of gram_kron_solve
 *
 * The product is written out in double and solved by elimination; x may be off by 16 eps times the
 * condition of the product and the sum of the orders.  Conditions are those of each factor.  On the
 * CPU half a MiB of b is a piece; 8 pieces and more are worked on at the same time.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "solve_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct kron_row {
    int count;
    int64_t n[GRAM_MAX_FACTORS], r; /* orders; right-hand sides */
    gram_dtype dtype;
    gram_side side;
    gram_kron_method method;
    gram_uplo uplo;
    double shift, condition;         /* 0: well conditioned */
    double scale[2];                 /* of the factors in turn; 0: 1 */
    enum layout layout[2], b_layout; /* of the factors in turn */
    int64_t batch[2], b_batch;       /* of the factors in turn; 0: none */
    bool in_place;
    int damaged; /* factor, counted from 1, that cannot be divided by; 0: none */
    enum solve_damage damage;
    const char *why;
};

/* clang-format off */
static const struct kron_row rows[] = {
    {.count = 1, .n = {1}, .r = 1, .dtype = GRAM_F32, .why = "smallest"},
    {.count = 1, .n = {7}, .r = 3, .dtype = GRAM_F64, .why = "one factor"},
    {.count = 2, .n = {3, 5}, .r = 4, .dtype = GRAM_F64, .why = "two, from the right"},
    {.count = 2, .n = {3, 5}, .r = 4, .dtype = GRAM_F64, .side = GRAM_LEFT, .why = "from the left"},
    {.count = 3, .n = {4, 2, 6}, .r = 5, .dtype = GRAM_F32, .side = GRAM_LEFT,
     .layout = {COLUMN_MAJOR, EVERY_SECOND}, .b_layout = PADDED, .why = "three, any strides"},
    {.count = 3, .n = {4, 2, 6}, .r = 5, .dtype = GRAM_F64, .layout = {REVERSED, PADDED},
     .b_layout = COLUMN_MAJOR, .in_place = true, .why = "in place"},
    {.count = 2, .n = {4, 5}, .r = 3, .dtype = GRAM_F64, .side = GRAM_LEFT,
     .method = GRAM_KRON_CHOLESKY, .in_place = true, .why = "Cholesky, the lower triangles"},
    {.count = 2, .n = {4, 5}, .r = 3, .dtype = GRAM_F32, .method = GRAM_KRON_CHOLESKY,
     .uplo = GRAM_UPPER, .layout = {COLUMN_MAJOR}, .why = "Cholesky, the upper ones"},
    {.count = 3, .n = {4, 3, 5}, .r = 6, .dtype = GRAM_F64, .method = GRAM_KRON_EIGEN,
     .why = "eigenvectors, no shift"},
    {.count = 2, .n = {6, 5}, .r = 7, .dtype = GRAM_F64, .side = GRAM_LEFT, .condition = 1e8,
     .method = GRAM_KRON_EIGEN, .shift = 1e-3, .uplo = GRAM_UPPER, .why = "a shift"},
    {.count = 2, .n = {8, 9}, .r = 4, .dtype = GRAM_F32, .method = GRAM_KRON_EIGEN, .shift = 0.5,
     .b_layout = EVERY_SECOND, .in_place = true, .condition = 1e6, .why = "a shift, f32, in place"},
    {.count = 2, .n = {10, 9}, .r = 4, .dtype = GRAM_F64, .condition = 1e5,
     .why = "ill-conditioned: 1e10"},
    {.count = 2, .n = {10, 9}, .r = 4, .dtype = GRAM_F64, .side = GRAM_LEFT, .condition = 1e6,
     .method = GRAM_KRON_CHOLESKY, .why = "ill-conditioned: 1e12"},
    {.count = 2, .n = {11, 12}, .r = 40, .dtype = GRAM_F32, .condition = 50,
     .why = "as ill-conditioned as f32 allows"},
    {.count = 16, .n = {1, 2, 1, 1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 2, 1, 1}, .r = 3, .dtype = GRAM_F64,
     .why = "as many factors as there may be"},
    {.count = 2, .n = {33, 17}, .r = 5, .dtype = GRAM_F32, .why = "orders of more than a register"},
    {.count = 2, .n = {2, 40}, .r = 70, .dtype = GRAM_F64, .side = GRAM_LEFT,
     .method = GRAM_KRON_CHOLESKY, .b_layout = COLUMN_MAJOR, .why = "right-hand sides by columns"},
    {.count = 3, .n = {3, 4, 16}, .r = 6, .dtype = GRAM_F32, .batch = {2, 0}, .b_batch = 2,
     .side = GRAM_LEFT, .why = "items with columns side by side"},
    {.count = 2, .n = {70, 2}, .r = 3, .dtype = GRAM_F64, .why = "a large and a small factor"},
    {.count = 2, .n = {5, 12}, .r = 9000, .dtype = GRAM_F64, .why = "pieces at the same time"},
    {.count = 2, .n = {5, 12}, .r = 9000, .dtype = GRAM_F64, .side = GRAM_LEFT, .shift = 0.1,
     .method = GRAM_KRON_EIGEN, .why = "the same with eigenvectors, from the left"},
    {.count = 3, .n = {5, 9, 13}, .r = 1, .dtype = GRAM_F32, .why = "one row, systems in tiles"},
    {.count = 3, .n = {6, 9, 13}, .r = 2, .dtype = GRAM_F64, .method = GRAM_KRON_CHOLESKY,
     .why = "the same by Cholesky"},
    {.count = 2, .n = {2, 64}, .r = 5, .dtype = GRAM_F32, .side = GRAM_LEFT,
     .why = "the largest order that is small"},
    {.count = 2, .n = {3, 65}, .r = 5, .dtype = GRAM_F64, .why = "the least that is not"},
    {.count = 2, .n = {2, 7}, .r = 4, .dtype = GRAM_F32, .scale = {0x1p127, 0x1p-121},
     .why = "a diagonal that has no normal reciprocals"},
    {.count = 2, .n = {3, 4}, .r = 0, .dtype = GRAM_F32, .why = "no right-hand side"},
    {.count = 2, .n = {3, 0}, .r = 2, .dtype = GRAM_F64, .why = "no unknowns"},
    {.count = 2, .n = {3, 4}, .r = 2, .dtype = GRAM_F64, .b_batch = 3,
     .why = "one product for a batch of b"},
    {.count = 2, .n = {3, 4}, .r = 2, .dtype = GRAM_F32, .batch = {3}, .method = GRAM_KRON_CHOLESKY,
     .side = GRAM_LEFT, .b_batch = 3, .why = "a factor for each item, one for all"},
    {.count = 2, .n = {3, 4}, .r = 2, .dtype = GRAM_F64, .batch = {3, 3}, .b_batch = 3,
     .damaged = 2, .damage = BROKEN, .why = "a singular factor spoils its item alone"},
    {.count = 2, .n = {3, 4}, .r = 2, .dtype = GRAM_F64, .batch = {3, 3}, .b_batch = 3,
     .method = GRAM_KRON_CHOLESKY, .damaged = 1, .damage = BROKEN, .why = "one is not definite"},
    {.count = 2, .n = {3, 4}, .r = 2, .dtype = GRAM_F32, .batch = {3, 3}, .b_batch = 3,
     .method = GRAM_KRON_EIGEN, .damaged = 2, .damage = HAS_NAN, .why = "NaN and eigenvectors"},
    {.count = 2, .n = {3, 4}, .r = 2, .dtype = GRAM_F32, .batch = {3, 3}, .b_batch = 3,
     .damaged = 1, .damage = HAS_NAN, .why = "NaN and LU"},
};
/* clang-format on */

struct problem {
    const struct kron_row *row;
    struct test_tensor factor[GRAM_MAX_FACTORS], b, x, info;
    struct test_copy there[GRAM_MAX_FACTORS], b_there, x_there, info_there;
    struct reference_batch batch;
    int64_t order, rows, cols; /* of b */
};

static void label(int row, char *text, size_t size)
{
    static const char *const methods[] = {"lu", "cholesky", "eigen"};

    snprintf(text, size, "%d factors r=%lld %s %s: %s", rows[row].count, (long long)rows[row].r,
             rows[row].dtype == GRAM_F32 ? "f32" : "f64", methods[rows[row].method], rows[row].why);
}

static double condition_of(const struct kron_row *row)
{
    return row->condition > 0 ? row->condition : 4;
}

/* ---- Data ---------------------------------------------------------------------------------- */

static bool is_read(const struct kron_row *row, int64_t i, int64_t j)
{
    return row->method == GRAM_KRON_LU || (row->uplo == GRAM_LOWER ? i >= j : i <= j);
}

/* The second item, where there is a batch, of the damaged factor. */
static bool is_damaged(const struct kron_row *row, int f, int64_t item)
{
    return row->damaged == f + 1 && item == (row->batch[f % 2] > 0);
}

static void fill_factor(struct harness *h, const struct problem *q, int f, double *a)
{
    const struct kron_row *row = q->row;
    int64_t n = row->n[f], items = row->batch[f % 2] > 0 ? row->batch[f % 2] : 1;
    double scale = row->scale[f % 2] != 0 ? row->scale[f % 2] : 1;

    for (int64_t item = 0; item < items; item++) {
        solve_make_matrix(h, n, condition_of(row), row->method == GRAM_KRON_LU, a);
        if (is_damaged(row, f, item))
            solve_damage_matrix(row->damage, n, row->method == GRAM_KRON_LU, a);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                if (is_read(row, i, j)) /* the rest stays NaN */
                    test_put(&q->factor[f].t, (item * n + i) * n + j, a[i * n + j] * scale);
    }
}

static void create(struct harness *h, struct test_tensor *t, gram_dtype dtype, enum layout layout,
                   int64_t batch, int64_t m, int64_t n)
{
    const int64_t shape[3] = {batch, m, n};

    test_tensor_create(h, t, dtype, layout, batch > 0 ? 3 : 2, batch > 0 ? shape : shape + 1);
}

static void setup(struct harness *h, struct problem *q)
{
    const struct kron_row *row = q->row;
    const gram_tensor *tensors[GRAM_MAX_FACTORS + 1];
    int core[GRAM_MAX_FACTORS + 1];

    q->order = 1;
    for (int f = 0; f < row->count; f++) {
        int64_t n = row->n[f];
        double *a = calloc((size_t)(n * n + 1), sizeof *a);
        create(h, &q->factor[f], row->dtype, row->layout[f % 2], row->batch[f % 2], n, n);
        if (a)
            fill_factor(h, q, f, a);
        CHECK(h, a != NULL, "no memory for a matrix");
        free(a);
        test_tensor_freeze(&q->factor[f]);
        tensors[f] = &q->factor[f].t, core[f] = 2;
        q->order *= n;
    }
    q->rows = row->side == GRAM_LEFT ? q->order : row->r;
    q->cols = row->side == GRAM_LEFT ? row->r : q->order;
    create(h, &q->b, row->dtype, row->b_layout, row->b_batch, q->rows, q->cols);
    test_fill_uniform(h, &q->b, -1, 1);
    tensors[row->count] = &q->b.t, core[row->count] = 2;
    q->batch = reference_join(row->count + 1, tensors, core);
    create(h, &q->x, row->dtype, row->b_layout, q->batch.ndim ? q->batch.shape[0] : 0, q->rows,
           q->cols);
    test_tensor_create(h, &q->info, GRAM_I32, ROW_MAJOR, q->batch.ndim, q->batch.shape);
}

static void finish(struct harness *h, struct problem *q)
{
    for (int f = 0; f < q->row->count; f++)
        test_tensor_destroy(h, &q->factor[f], "a factor");
    test_tensor_destroy(h, &q->b, "b");
    test_tensor_destroy(h, &q->x, "x");
    test_tensor_destroy(h, &q->info, "info");
}

/* ---- The call ------------------------------------------------------------------------------ */

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    gram_kron_solve_options o = GRAM_KRON_SOLVE_OPTIONS_INIT;
    gram_tensor *x = q->row->in_place ? &q->b_there.t : &q->x_there.t;

    for (int f = 0; f < q->row->count; f++)
        factors[f] = &q->there[f].t;
    o.side = q->row->side;
    o.method = q->row->method;
    o.uplo = q->row->uplo;
    o.shift = gram_number(q->row->shift);
    if (need)
        return gram_kron_solve_workspace(h->g, factors, q->row->count, &q->b_there.t, &o, x, need);
    return gram_kron_solve(h->g, factors, q->row->count, &q->b_there.t, &o, x, &q->info_there.t);
}

static bool run(struct harness *h, struct problem *q)
{
    struct test_pair pairs[GRAM_MAX_FACTORS + 3] = {
        {   &q->b,    &q->b_there},
        {   &q->x,    &q->x_there},
        {&q->info, &q->info_there},
    };

    for (int f = 0; f < q->row->count; f++)
        pairs[f + 3] = (struct test_pair){&q->factor[f], &q->there[f]};
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* ---- What is right ------------------------------------------------------------------------- */

/* Element (i, j) of the product of an item, plus the shift. */
static double product_at(const struct problem *q, int64_t item, int64_t i, int64_t j)
{
    double value = 1, shift = i == j ? q->row->shift : 0;

    for (int f = q->row->count - 1; f >= 0; f--) {
        int64_t n = q->row->n[f], at[2] = {i % n, j % n};
        if (!is_read(q->row, at[0], at[1]))
            at[0] = j % n, at[1] = i % n;
        value *= reference_element(&q->factor[f].t, &q->batch, item, 2, at);
        i /= n, j /= n;
    }
    return value + shift;
}

/* What x of an item is, column after column of right-hand sides: order by r. */
static void solve_item(const struct problem *q, int64_t item, const double *b, double *a, double *x)
{
    int64_t n = q->order, r = q->row->r;
    bool left = q->row->side == GRAM_LEFT;

    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++)
            a[i * n + j] = left ? product_at(q, item, i, j) : product_at(q, item, j, i);
        for (int64_t j = 0; j < r; j++)
            x[i * r + j] = b[(item % (q->row->b_batch > 0 ? q->row->b_batch : 1)) * n * r +
                             (left ? i * r + j : j * n + i)];
    }
    reference_solve(n, r, a, x);
}

static void check_item(struct harness *h, const struct problem *q, int64_t item, const double *want)
{
    const gram_tensor *x = q->row->in_place ? &q->b.t : &q->x.t;
    int64_t n = q->order, r = q->row->r;
    double most = 0, error = 0, orders = 0, condition = 1, bound;

    for (int f = 0; f < q->row->count; f++) {
        orders += (double)q->row->n[f];
        condition *= q->row->n[f] > 1 ? condition_of(q->row) : 1;
    }
    if (q->row->shift > 0) /* the eigenvalues of the product lie in (0, 1] */
        condition = fmin(condition, (1 + q->row->shift) / q->row->shift);
    for (int64_t e = 0; e < n * r; e++) {
        int64_t i = e / r, j = e % r;
        int64_t at = item * n * r + (q->row->side == GRAM_LEFT ? i * r + j : j * n + i);
        most = fmax(most, fabs(want[e]));
        error = fmax(error, fabs(test_at(x, at) - want[e]));
        CHECK(h, isfinite(test_at(x, at)), "x is %g", test_at(x, at));
    }
    bound = 16 * orders * condition * test_eps(q->row->dtype) * most;
    CHECK(h, error <= bound, "item %lld of x is off by %g, bound %g", (long long)item, error,
          bound);
}

static void check_damaged_item(struct harness *h, const struct problem *q, int64_t item)
{
    const gram_tensor *x = q->row->in_place ? &q->b.t : &q->x.t;
    int64_t size = q->order * q->row->r;

    for (int64_t e = 0; e < size; e++)
        CHECK(h, isnan(test_at(x, item * size + e)), "x is %g, expected NaN",
              test_at(x, item * size + e));
}

static void check_answer(struct harness *h, const struct problem *q, const double *b)
{
    int64_t n = q->order, r = q->row->r;
    double *a = calloc((size_t)(n * n + n * r + 1), sizeof *a);

    CHECK(h, a != NULL, "no memory for the reference");
    for (int64_t item = 0; a && item < q->batch.count; item++) {
        bool spoilt = q->row->damaged && is_damaged(q->row, q->row->damaged - 1, item);
        double info = test_at(&q->info.t, item);
        CHECK(h, info == (spoilt ? q->row->damaged : 0), "info of item %lld is %g", (long long)item,
              info);
        if (spoilt) {
            check_damaged_item(h, q, item);
            continue;
        }
        solve_item(q, item, b, a, a + n * n);
        check_item(h, q, item, a + n * n);
    }
    free(a);
}

static void check(struct harness *h, int row)
{
    struct problem q = {.row = &rows[row]};
    double *b;

    setup(h, &q);
    b = calloc((size_t)test_count(&q.b.t) + 1, sizeof *b);
    CHECK(h, b != NULL, "no memory for b");
    for (int64_t i = 0; b && i < test_count(&q.b.t); i++)
        b[i] = test_at(&q.b.t, i);
    if (b && run(h, &q))
        check_answer(h, &q, b);
    free(b);
    finish(h, &q);
}

/* ---- One system of any sizes ----------------------------------------------------------------- */

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    return kron_solve_prepare(h, args, out);
}

const struct case_op case_kron_solve = {
    .name = "kron_solve",
    .sizes = "M N P",
    .params = "dtype=f32 method=lu",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
