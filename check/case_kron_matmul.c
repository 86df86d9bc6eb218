/*
 * case_kron_matmul.c - gram_kron_matmul against the reference; the rows are in kron_matmul_rows.c
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "kron_matmul_problem.h"
#include <math.h>
#include <string.h>

struct problem {
    const struct kron_matmul_row *row;
    int64_t p[GRAM_MAX_FACTORS], q[GRAM_MAX_FACTORS];
    struct test_tensor x, y, z, alpha, beta, factor[GRAM_MAX_FACTORS];
    struct { /* where the context's device is */
        struct test_copy x, y, z, alpha, beta, factor[GRAM_MAX_FACTORS];
    } there;
    struct test_tensor before; /* x or z before the call, where y is it */
    struct reference_batch batch;
    gram_kron_options options;
};

static const char *const dtype_names[] = {"?", "f32", "f64", "f16", "bf16", "i32", "i64"};

static void label(int row, char *text, size_t size)
{
    snprintf(text, size, "m=%lld, %d factors %s %s: %s", (long long)kron_matmul_rows[row].m,
             kron_matmul_rows[row].count, dtype_names[kron_matmul_rows[row].dtype],
             kron_matmul_rows[row].side == GRAM_LEFT ? "left" : "right", kron_matmul_rows[row].why);
}

/* ---- Data ---------------------------------------------------------------------------------- */

static void create(struct harness *h, const struct problem *q, struct test_tensor *t,
                   enum layout layout, const int64_t batch[2], int64_t m, int64_t n)
{
    int64_t shape[4];
    int ndim = 0;

    for (int i = 0; i < 2 && batch[i]; i++)
        shape[ndim++] = batch[i];
    shape[ndim++] = m;
    shape[ndim++] = n;
    test_tensor_create(h, t, q->row->dtype, layout, ndim, shape);
}

static void fill(struct harness *h, const struct problem *q, struct test_tensor *t)
{
    for (int64_t i = 0; i < test_count(&t->t); i++)
        test_put(&t->t, i,
                 q->row->contents == INTEGERS ? floor(ldexp(test_uniform(h) - 0.5, 32))
                                              : test_uniform(h) * 2 - 1);
}

static void put_nan(const struct problem *q)
{
    const gram_tensor *x = &q->x.t;
    bool by_columns = (q->row->side == GRAM_LEFT) != q->row->transpose_x;

    test_set(x, by_columns ? (int64_t[]){x->shape[0] - 1, 1} : (int64_t[]){1, x->shape[1] - 1},
             NAN);
}

static void create_scalar(struct harness *h, struct problem *q, struct test_tensor *t, double first)
{
    test_tensor_create(h, t, GRAM_F64, ROW_MAJOR, q->batch.ndim, q->batch.shape);
    for (int64_t i = 0; i < q->batch.count; i++)
        test_put(&t->t, i, i == 1 ? 0 : first + (double)i / 4); /* one of them is 0 */
    test_tensor_freeze(t);
}

static struct reference_batch join(const struct problem *q)
{
    const gram_tensor *tensors[GRAM_MAX_FACTORS + 1] = {&q->x.t};
    int core[GRAM_MAX_FACTORS + 1] = {2};

    for (int f = 0; f < q->row->count; f++)
        tensors[1 + f] = &q->factor[f].t, core[1 + f] = 2;
    return reference_join(q->row->count + 1, tensors, core);
}

/* y, z and what they were. */
static void create_outputs(struct harness *h, struct problem *q, int64_t rows_y, int64_t cols_y)
{
    const struct kron_matmul_row *row = q->row;
    int64_t batch[2] = {0};

    memcpy(batch, q->batch.shape, (size_t)q->batch.ndim * sizeof *batch);
    create(h, q, &q->y, row->y_layout, batch, rows_y, cols_y);
    create(h, q, &q->z, row->destination == Z_ITSELF ? row->y_layout : COLUMN_MAJOR,
           row->destination == Z_ITSELF ? batch : (int64_t[]){0, 0}, rows_y, cols_y);
    fill(h, q, &q->z);
    if (row->beta == 0) /* not to be read */
        for (int64_t i = 0; i < test_count(&q->z.t); i++)
            test_put(&q->z.t, i, NAN);
    q->options.z = &q->z.t;
}

/* A copy of what the call overwrites, for the reference. */
static void keep_before(struct harness *h, struct problem *q)
{
    const struct test_tensor *from = q->row->destination == X_ITSELF ? &q->x : &q->z;

    test_tensor_create(h, &q->before, from->t.dtype, ROW_MAJOR, from->t.ndim, from->t.shape);
    for (int64_t i = 0; i < test_count(&from->t); i++)
        memcpy(test_address(&q->before.t, i), test_address(&from->t, i),
               gram_dtype_size(from->t.dtype));
}

static void setup(struct harness *h, const struct kron_matmul_row *row, struct problem *q)
{
    int64_t p = 1, n = 1;
    bool left = row->side == GRAM_LEFT, turned;

    *q = (struct problem){.row = row, .options = GRAM_KRON_OPTIONS_INIT};
    for (int f = 0; f < row->count; f++) {
        q->p[f] = row->size[f][0], q->q[f] = row->size[f][1] ? row->size[f][1] : q->p[f];
        if (q->p[f] < 0)
            q->p[f] = q->q[f], q->q[f] = 0;
        p *= q->p[f], n *= q->q[f];
        turned = row->transpose_factors >> f & 1;
        create(h, q, &q->factor[f], row->factor_layout[f % 2], row->batch[1 + f % 2],
               turned ? q->q[f] : q->p[f], turned ? q->p[f] : q->q[f]);
        fill(h, q, &q->factor[f]);
        test_tensor_freeze(&q->factor[f]);
    }
    turned = left != row->transpose_x;
    create(h, q, &q->x, row->destination == X_ITSELF ? row->y_layout : row->x_layout, row->batch[0],
           turned ? (left ? n : p) : row->m, turned ? row->m : (left ? n : p));
    fill(h, q, &q->x);
    if (row->contents == NAN_ROW)
        put_nan(q);
    q->batch = join(q);
    create_outputs(h, q, left ? p : row->m, left ? row->m : n);
    keep_before(h, q);
    if (row->destination != X_ITSELF)
        test_tensor_freeze(&q->x);
    if (row->destination != Z_ITSELF)
        test_tensor_freeze(&q->z);
    q->options.side = row->side;
    q->options.transpose_x = row->transpose_x;
    q->options.transpose_factors = row->transpose_factors;
    q->options.alpha = gram_number(row->alpha == 0 ? 1 : row->alpha);
    q->options.beta = gram_number(row->beta);
    if (row->scalars_per_item) {
        create_scalar(h, q, &q->alpha, row->alpha);
        create_scalar(h, q, &q->beta, row->beta);
        q->options.alpha = gram_values(&q->alpha.t), q->options.beta = gram_values(&q->beta.t);
    }
}

static void finish(struct harness *h, struct problem *q)
{
    for (int f = 0; f < q->row->count; f++)
        test_tensor_destroy(h, &q->factor[f], "a factor");
    test_tensor_destroy(h, &q->x, "x");
    test_tensor_destroy(h, &q->y, "y");
    test_tensor_destroy(h, &q->z, "z");
    test_tensor_destroy(h, &q->before, "a copy");
    if (q->row->scalars_per_item) {
        test_tensor_destroy(h, &q->alpha, "alpha");
        test_tensor_destroy(h, &q->beta, "beta");
    }
}

/* ---- The call ------------------------------------------------------------------------------ */

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    const gram_tensor *factors[GRAM_MAX_FACTORS], *x = &q->there.x.t;
    gram_kron_options o = q->options;
    gram_tensor *y = q->row->destination == X_ITSELF   ? &q->there.x.t
                     : q->row->destination == Z_ITSELF ? &q->there.z.t
                                                       : &q->there.y.t;

    for (int f = 0; f < q->row->count; f++)
        factors[f] = &q->there.factor[f].t;
    o.z = &q->there.z.t;
    if (q->row->scalars_per_item)
        o.alpha = gram_values(&q->there.alpha.t), o.beta = gram_values(&q->there.beta.t);
    return need ? gram_kron_matmul_workspace(h->g, x, factors, q->row->count, &o, y, need)
                : gram_kron_matmul(h->g, x, factors, q->row->count, &o, y);
}

/* The call where the context's device is, in memory of that device. */
static bool run(struct harness *h, struct problem *q)
{
    struct test_pair pairs[GRAM_MAX_FACTORS + 5] = {
        {                                      &q->x,     &q->there.x},
        {                                      &q->y,     &q->there.y},
        {                                      &q->z,     &q->there.z},
        {q->row->scalars_per_item ? &q->alpha : NULL, &q->there.alpha},
        { q->row->scalars_per_item ? &q->beta : NULL,  &q->there.beta},
    };

    for (int f = 0; f < q->row->count; f++)
        pairs[f + 5] = (struct test_pair){&q->factor[f], &q->there.factor[f]};
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* ---- The answer ---------------------------------------------------------------------------- */

/* (p_1 + ... + 2) eps of the formula of absolute values, and one rounding to halves. */
static double bound_of(const struct problem *q, double magnitude, double want)
{
    bool half = q->row->dtype == GRAM_F16 || q->row->dtype == GRAM_BF16;
    double eps = test_eps(half ? GRAM_F32 : q->row->dtype), steps = 2;

    for (int f = 0; f < q->row->count; f++)
        steps += (double)(q->row->side == GRAM_LEFT ? q->q[f] : q->p[f]);
    return steps * eps * magnitude +
           (half ? test_eps(q->row->dtype) / 2 * fabs(want) + 0x1p-25 : 0);
}

static void check_element(struct harness *h, const struct problem *q,
                          const struct reference_kron_matmul *in, const gram_tensor *y,
                          int64_t element)
{
    int64_t m = y->shape[y->ndim - 2], n = y->shape[y->ndim - 1];
    const int64_t at[3] = {element / n / m, element / n % m, element % n};
    double magnitude, want, got = test_at(y, element);
    const void *integer = test_address(y, element);

    if (q->row->contents == INTEGERS) {
        uint64_t exact = reference_kron_matmul_integer(in, &q->batch, at);
        bool same = y->dtype == GRAM_I32 ? *(const uint32_t *)integer == (uint32_t)exact
                                         : *(const uint64_t *)integer == exact;
        CHECK(h, same, "item %lld, y[%lld, %lld] is %.17g, expected the last bits of %#llx",
              (long long)at[0], (long long)at[1], (long long)at[2], got, (unsigned long long)exact);
        return;
    }
    want = reference_kron_matmul(in, &q->batch, at, &magnitude);
    CHECK(h, isnan(want) ? isnan(got) : fabs(got - want) <= bound_of(q, magnitude, want),
          "item %lld, y[%lld, %lld] is %.17g, expected %.17g +- %.2g", (long long)at[0],
          (long long)at[1], (long long)at[2], got, want, bound_of(q, magnitude, want));
}

static void check(struct harness *h, int index)
{
    struct problem q;
    const gram_tensor *factors[GRAM_MAX_FACTORS], *y;
    struct reference_kron_matmul in = {.factors = factors};
    int64_t count, terms = 1;

    setup(h, &kron_matmul_rows[index], &q);
    for (int f = 0; f < q.row->count; f++) {
        factors[f] = &q.factor[f].t;
        terms *= q.row->side == GRAM_LEFT ? q.q[f] : q.p[f];
    }
    if (run(h, &q)) {
        in.count = q.row->count;
        in.options = &q.options;
        in.x = q.row->destination == X_ITSELF ? &q.before.t : &q.x.t;
        y = q.row->destination == X_ITSELF   ? &q.x.t
            : q.row->destination == Z_ITSELF ? &q.z.t
                                             : &q.y.t;
        if (q.row->destination == Z_ITSELF)
            q.options.z = &q.before.t;
        count = test_count(y);
        for (int64_t e = 0; e < count; e++)
            if (test_sampled(e, count, terms * q.row->count * 4))
                check_element(h, &q, &in, y, e);
    }
    finish(h, &q);
}

const struct case_op case_kron_matmul = {
    .name = "kron_matmul",
    .sizes = "M P Q N",
    .params = "dtype=f32 side=right",
    .rows = KRON_MATMUL_ROWS,
    .label = label,
    .check = check,
    .prepare = kron_matmul_prepare,
};
