/*
 * case_syrk_ema.c - the rows of gram_syrk_ema
 *
 * On the CPU panels have 256 rows, and up to order 1024 threads share the items.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>

struct ema_row {
    int64_t m, k;
    int64_t batch, x_batch; /* of l and x; 0: none */
    gram_dtype dtype;
    enum layout layout, l_layout;
    bool transpose, packed, sum, keep;
    double beta, alpha; /* alpha 0: 1 */
    bool per_item;      /* alpha and beta are tensors */
    double spoilt;      /* what the first element of the last x is; 0: nothing */
    bool info;
    const char *why;
};

/* clang-format off */
static const struct ema_row rows[] = {
    {.m = 1, .k = 1, .dtype = GRAM_F32, .beta = 0.9, .why = "smallest"},
    {.m = 7, .k = 5, .dtype = GRAM_F64, .beta = 0.9, .why = "row-major"},
    {.m = 7, .k = 5, .dtype = GRAM_F32, .beta = 0, .why = "nothing of l is read"},
    {.m = 7, .k = 5, .dtype = GRAM_F64, .beta = 1, .why = "beta 1 leaves l, but for its mirror"},
    {.m = 7, .k = 5, .dtype = GRAM_F64, .beta = 1, .sum = true, .alpha = 3, .why = "a sum"},
    {.m = 7, .k = 9, .dtype = GRAM_F32, .beta = 0.5, .transpose = true, .why = "G^T G"},
    {.m = 7, .k = 9, .dtype = GRAM_F32, .beta = 0.5, .packed = true, .why = "packed"},
    {.m = 7, .k = 8, .dtype = GRAM_F64, .beta = 0.5, .packed = true, .transpose = true,
     .l_layout = EVERY_SECOND, .why = "packed, every second number"},
    {.m = 7, .k = 8, .dtype = GRAM_F64, .beta = 0, .packed = true, .why = "packed, not read"},
    {.m = 0, .k = 8, .dtype = GRAM_F64, .beta = 0.9, .info = true, .why = "no rows"},
    {.m = 5, .k = 0, .dtype = GRAM_F64, .beta = 0.5, .why = "an empty sum"},
    {.m = 5, .k = 0, .dtype = GRAM_F32, .beta = 0, .packed = true, .why = "an empty sum is 0"},
    {.m = 9, .k = 4, .dtype = GRAM_F32, .beta = 0.9, .layout = COLUMN_MAJOR,
     .l_layout = COLUMN_MAJOR, .why = "by columns"},
    {.m = 9, .k = 4, .dtype = GRAM_F64, .beta = 0.9, .layout = PADDED, .l_layout = PADDED,
     .why = "leading dimensions above the width"},
    {.m = 9, .k = 4, .dtype = GRAM_F32, .beta = 0.9, .layout = EVERY_SECOND, .l_layout = REVERSED,
     .why = "no unit stride: packed"},
    {.m = 9, .k = 4, .dtype = GRAM_F64, .beta = 0.9, .layout = ROWS_REPEATED,
     .l_layout = EVERY_SECOND, .why = "one row many times"},
    {.m = 6, .k = 11, .batch = 3, .x_batch = 3, .dtype = GRAM_F32, .beta = 0.9, .why = "a batch"},
    {.m = 6, .k = 11, .batch = 5, .x_batch = 1, .dtype = GRAM_F64, .beta = 0.9, .packed = true,
     .per_item = true, .why = "one x for a batch, other numbers for every item"},
    {.m = 6, .k = 11, .batch = 5, .dtype = GRAM_F64, .layout = REVERSED, .per_item = true,
     .transpose = true, .why = "the same packed by each thread"},
    {.m = 6, .k = 7, .batch = 3, .x_batch = 3, .dtype = GRAM_F32, .beta = 0.9, .spoilt = NAN,
     .info = true, .why = "NaN goes to its row and column, and is told"},
    {.m = 6, .k = 7, .batch = 3, .x_batch = 3, .dtype = GRAM_F32, .beta = 0.9, .spoilt = NAN,
     .keep = true, .info = true, .why = "NaN does not poison what is kept"},
    {.m = 6, .k = 7, .batch = 2, .x_batch = 2, .dtype = GRAM_F64, .beta = 0.9, .spoilt = INFINITY,
     .keep = true, .packed = true, .why = "nor does infinity, where nobody asks"},
    {.m = 6, .k = 7, .dtype = GRAM_F32, .beta = 0.9, .spoilt = 1e30, .keep = true, .info = true,
     .layout = COLUMN_MAJOR, .why = "nor a number whose square overflows"},
    {.m = 6, .k = 7, .dtype = GRAM_F64, .beta = 0.9, .spoilt = 1e30, .keep = true, .info = true,
     .why = "which in f64 it does not"},
    {.m = 300, .k = 20, .dtype = GRAM_F32, .beta = 0.9, .why = "two panels"},
    {.m = 300, .k = 20, .dtype = GRAM_F64, .beta = 0.9, .layout = COLUMN_MAJOR, .packed = true,
     .why = "two packed panels, x by columns"},
    {.m = 20, .k = 290, .batch = 3, .dtype = GRAM_F64, .beta = 0.9, .transpose = true,
     .why = "two panels of a batch"},
    {.m = 1040, .k = 3, .batch = 2, .x_batch = 2, .dtype = GRAM_F32, .beta = 0.9,
     .why = "items so large that threads share them"},
};
/* clang-format on */

struct problem {
    const struct ema_row *row;
    int64_t n, items;
    struct test_tensor x, l, beta, alpha, info;
    double *before; /* what l held, item by item */
    struct reference_batch batch;
    gram_syrk_ema_options options;
    struct {
        struct test_copy x, l, beta, alpha, info;
    } there; /* the same on the device */
};

static void label(int row, char *text, size_t size)
{
    const struct ema_row *r = &rows[row];

    snprintf(text, size, "%lld %lld %s: %s", (long long)r->m, (long long)r->k,
             r->dtype == GRAM_F32 ? "f32" : "f64", r->why);
}

static void setup(struct harness *h, struct problem *q)
{
    const struct ema_row *r = q->row;
    int64_t x_shape[3] = {r->x_batch, r->m, r->k}, l_shape[3] = {r->batch};
    int core = r->packed ? 1 : 2;

    q->n = r->transpose ? r->k : r->m;
    q->items = r->batch ? r->batch : 1;
    l_shape[1] = r->packed ? gram_packed_size(q->n) : q->n;
    l_shape[2] = q->n;
    test_tensor_create(h, &q->x, r->dtype, r->layout, r->x_batch ? 3 : 2, x_shape + !r->x_batch);
    test_tensor_create(h, &q->l, r->dtype, r->l_layout, core + (r->batch > 0), l_shape + !r->batch);
    test_tensor_create(h, &q->info, GRAM_I32, ROW_MAJOR, r->batch > 0, l_shape);
    test_tensor_create(h, &q->beta, GRAM_F32, ROW_MAJOR, 1, (int64_t[]){q->items});
    test_tensor_create(h, &q->alpha, GRAM_F64, ROW_MAJOR, 0, NULL);
    test_fill_uniform(h, &q->x, -1, 1);
    test_fill_uniform(h, &q->l, -1, 1);
    test_fill_uniform(h, &q->beta, 0, 1);
    test_put(&q->beta.t, 0, 0);
    test_put(&q->alpha.t, 0, -1.5);
    if (r->spoilt != 0)
        test_put(&q->x.t, test_count(&q->x.t) - r->m * r->k, r->spoilt);
    for (int64_t i = 0; r->beta == 0 && !r->per_item && i < test_count(&q->l.t); i++)
        test_put(&q->l.t, i, NAN);
    for (int64_t item = 0; !r->packed && item < q->items; item++) /* must not be read */
        for (int64_t i = 0; i < q->n; i++)
            for (int64_t j = 0; j < i && !r->keep; j++)
                test_put(&q->l.t, (item * q->n + i) * q->n + j, NAN);
    test_tensor_freeze(&q->x);
    q->options = (gram_syrk_ema_options)GRAM_SYRK_EMA_OPTIONS_INIT;
    q->options.transpose = r->transpose, q->options.packed = r->packed;
    q->options.sum = r->sum, q->options.keep = r->keep;
    q->options.beta = r->per_item ? gram_values(&q->beta.t) : gram_number(r->beta);
    q->options.alpha =
        r->per_item ? gram_values(&q->alpha.t) : gram_number(r->alpha != 0 ? r->alpha : 1);
    q->batch = reference_join(1, (const gram_tensor *[]){&q->l.t}, &core);
    q->before = dense_doubles(test_count(&q->l.t));
    for (int64_t i = 0; i < test_count(&q->l.t); i++)
        q->before[i] = test_at(&q->l.t, i);
}

/* What fails for want of scratch leaves l as it was: one call changes it. */
static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    gram_tensor *x = &q->there.x.t, *l = &q->there.l.t;
    gram_syrk_ema_options o = q->options;

    if (q->row->per_item)
        o.beta = gram_values(&q->there.beta.t), o.alpha = gram_values(&q->there.alpha.t);
    return need ? gram_syrk_ema_workspace(h->g, x, &o, l, need)
                : gram_syrk_ema(h->g, x, &o, l, q->row->info ? &q->there.info.t : NULL);
}

/* The call where the context's device is, in memory of that device. */
static bool run(struct harness *h, struct problem *q)
{
    const struct test_pair pairs[] = {
        {    &q->x,     &q->there.x},
        {    &q->l,     &q->there.l},
        { &q->beta,  &q->there.beta},
        {&q->alpha, &q->there.alpha},
        { &q->info,  &q->there.info},
    };

    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

static bool is_bad(const struct problem *q, int64_t item)
{
    const struct ema_row *r = q->row;
    double most = r->dtype == GRAM_F32 ? 0x1p63 : 0x1p511; /* its square is about the largest */

    return r->spoilt != 0 && !(fabs(r->spoilt) < most) && item == q->items - 1;
}

static int64_t index_of(const struct problem *q, int64_t item, int64_t i, int64_t j)
{
    return q->row->packed ? item * gram_packed_size(q->n) + i * (2 * q->n - i - 1) / 2 + j
                          : (item * q->n + i) * q->n + j;
}

static void check_element(struct harness *h, const struct problem *q, const int64_t at[3])
{
    const struct ema_row *r = q->row;
    int64_t e = index_of(q, at[0], at[1], at[2]), depth = r->transpose ? r->m : r->k;
    double got = test_at(&q->l.t, e), magnitude, want, bound;

    if (!r->packed)
        CHECK(h, got == test_at(&q->l.t, index_of(q, at[0], at[2], at[1])) || isnan(got),
              "item %lld is not symmetric at %lld, %lld", (long long)at[0], (long long)at[1],
              (long long)at[2]);
    want = reference_syrk_ema(&q->x.t, &q->options, q->before[e], &q->batch, at, &magnitude);
    bound = (double)(depth + 4) * test_eps(r->dtype) * magnitude;
    CHECK(h, isnan(want) ? isnan(got) : fabs(got - want) <= bound,
          "item %lld, l[%lld, %lld] is %.17g, expected %.17g +- %.2g", (long long)at[0],
          (long long)at[1], (long long)at[2], got, want, bound);
}

static void check_l(struct harness *h, const struct problem *q)
{
    int64_t item_size = q->row->packed ? gram_packed_size(q->n) : q->n * q->n;

    for (int64_t item = 0; item < q->items; item++) {
        if (q->row->info)
            CHECK(h, test_at(&q->info.t, item) == is_bad(q, item), "info of item %lld is %g",
                  (long long)item, test_at(&q->info.t, item));
        for (int64_t i = 0; is_bad(q, item) && q->row->keep && i < item_size; i++)
            CHECK(h, test_at(&q->l.t, item * item_size + i) == q->before[item * item_size + i],
                  "item %lld did not keep number %lld", (long long)item, (long long)i);
        for (int64_t i = 0; !(is_bad(q, item) && q->row->keep) && i < q->n; i++)
            for (int64_t j = i; j < q->n; j++)
                if (test_sampled(i * q->n + j, q->n * q->n, q->row->k))
                    check_element(h, q, (int64_t[]){item, i, j});
    }
}

static void check(struct harness *h, int row)
{
    struct problem q = {.row = &rows[row]};

    setup(h, &q);
    if (run(h, &q))
        check_l(h, &q);
    free(q.before);
    test_tensor_destroy(h, &q.x, "x");
    test_tensor_destroy(h, &q.l, "l");
    test_tensor_destroy(h, &q.info, "info");
    test_tensor_destroy(h, &q.beta, "beta");
    test_tensor_destroy(h, &q.alpha, "alpha");
}

/* ---- One problem of any sizes --------------------------------------------------------------- */

struct made {
    gram_tensor x, l;
};

static gram_status run_made(gram_context *g, void *state)
{
    struct made *p = state;

    return gram_syrk_ema(g, &p->x, NULL, &p->l, NULL);
}

static double error_made(struct harness *h, void *state)
{
    const struct made *p = state;
    const gram_syrk_ema_options o = GRAM_SYRK_EMA_OPTIONS_INIT;
    const struct reference_batch batch = {
        .ndim = 1, .shape = {p->l.shape[0]}, .count = p->l.shape[0]};
    int64_t n = p->l.shape[1], count = test_count(&p->l);
    double worst = 0, magnitude;

    for (int i = 0; i < 1000 && count > 0; i++) {
        int64_t e = (int64_t)(test_uniform(h) * (double)count);
        const int64_t at[3] = {e / n / n, e / n % n, e % n};
        double want = reference_syrk_ema(&p->x, &o, 0, &batch, at, &magnitude);
        double bound = (double)(p->x.shape[2] + 4) * test_eps(p->l.dtype) * magnitude;
        worst = fmax(worst, fabs(test_at(&p->l, e) - want) / (bound > 0 ? bound : 1e-300));
    }
    return worst;
}

static void destroy_made(void *state)
{
    struct made *p = state;

    free(p->x.data);
    free(p->l.data);
    free(p);
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    int64_t m = args->sizes[0], k = args->sizes[1], count = args->sizes[2];
    bool real = args->dtype == GRAM_F32 || args->dtype == GRAM_F64;
    struct made *p = real ? calloc(1, sizeof *p) : NULL;

    if (p) {
        p->x = dense_random(h, count * m, k, args->dtype);
        p->x = gram_matrices(p->x.data, count, m, k, args->dtype);
        p->l = dense_random(h, count * m, m, args->dtype);
        p->l = gram_matrices(p->l.data, count, m, m, args->dtype);
    }
    if (!p || !p->x.data || !p->l.data) {
        if (real)
            (void)harness_no_memory(h, "the problem");
        else
            fprintf(stderr, "syrk_ema: dtype is f32 or f64\n");
        if (p)
            destroy_made(p);
        return false;
    }
    *out = (struct case_problem){
        .state = p,
        .tensors = {&p->x, &p->l},
        .run = run_made,
        .error = error_made,
        .destroy = destroy_made,
        .work = (double)m * (double)(m + 1) * (double)k * (double)count,
        .unit = "flop",
        .bytes = (double)(m * k + m * m) * (double)count * (double)gram_dtype_size(args->dtype),
    };
    return true;
}

const struct case_op case_syrk_ema = {
    .name = "syrk_ema",
    .sizes = "M K B",
    .params = "dtype=f32",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
