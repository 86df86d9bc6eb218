/*
 * case_matmul_batched.c - the rows of gram_matmul_batched
 *
 * On the CPU batches of items of at most 2^27 multiplications are shared among threads, a batch of
 * a that meets one b becomes rows, and what has no unit stride is packed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>

enum c_use {
    NO_C,
    APART, /* a tensor of its own */
    SAME   /* out itself */
};

struct matmul_row {
    int64_t m, n, k;
    int64_t batch[4][2]; /* of a, b, c and out; 0: no such dimension, -1: one of size 0 */
    gram_dtype dtype;
    enum layout layout[3], out_layout; /* of a, b, c */
    bool transpose[2];
    double alpha, beta; /* alpha 0: 1 */
    bool per_item;      /* alpha and beta are tensors */
    bool nan;           /* in the first row of a */
    enum c_use c;
    const char *why;
};

/* clang-format off */
static const struct matmul_row rows[] = {
    {.m = 1, .n = 1, .k = 1, .dtype = GRAM_F32, .why = "smallest"},
    {.m = 7, .n = 5, .k = 11, .dtype = GRAM_F64, .why = "row-major"},
    {.m = 7, .n = 1, .k = 11, .dtype = GRAM_F32, .why = "a vector from the right"},
    {.m = 1, .n = 9, .k = 11, .dtype = GRAM_F32, .why = "a vector from the left"},
    {.m = 9, .n = 8, .k = 0, .dtype = GRAM_F64, .why = "an empty sum is 0"},
    {.m = 9, .n = 1, .k = 0, .dtype = GRAM_F32, .beta = 2, .c = SAME, .why = "and leaves beta c"},
    {.m = 0, .n = 8, .k = 3, .dtype = GRAM_F32, .why = "no rows"},
    {.m = 3, .n = 0, .k = 3, .dtype = GRAM_F64, .why = "no columns"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F32, .layout = {COLUMN_MAJOR, ROW_MAJOR},
     .out_layout = COLUMN_MAJOR, .why = "out by columns: everything is turned"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F64, .layout = {COLUMN_MAJOR, COLUMN_MAJOR},
     .why = "inputs by columns"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F64, .layout = {PADDED, MISALIGNED},
     .out_layout = PADDED, .why = "leading dimensions above the width"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F32, .layout = {EVERY_SECOND, REVERSED},
     .out_layout = EVERY_SECOND, .why = "no unit stride: packed"},
    {.m = 40, .n = 70, .k = 50, .dtype = GRAM_F64, .layout = {ROWS_REPEATED, EVERY_SECOND},
     .out_layout = REVERSED, .why = "one row many times"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F64, .transpose = {true, false}, .why = "a transposed"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F32, .transpose = {false, true},
     .layout = {REVERSED, COLUMN_MAJOR}, .why = "b transposed"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F32, .transpose = {true, true}, .why = "both"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F64, .alpha = -2.5, .beta = 0.5, .c = APART,
     .layout = {ROW_MAJOR, ROW_MAJOR, REVERSED}, .why = "another c"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F32, .alpha = 3, .beta = -1, .c = SAME,
     .why = "c is out"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F32, .beta = -1, .c = SAME, .out_layout = EVERY_SECOND,
     .why = "c is out, packed"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F64, .beta = 2, .c = SAME, .out_layout = COLUMN_MAJOR,
     .why = "c is out, turned"},
    {.m = 6, .n = 7, .k = 5, .dtype = GRAM_F64, .beta = 0, .c = APART, .why = "c is not read"},
    {.m = 5, .n = 6, .k = 4, .dtype = GRAM_F32, .batch = {{3}, {3}, {3}, {3}}, .why = "a batch"},
    {.m = 5, .n = 6, .k = 4, .dtype = GRAM_F64, .batch = {{3, 2}, {1, 2}, {3, 1}, {3, 2}},
     .beta = 1, .c = APART, .per_item = true, .layout = {PADDED, COLUMN_MAJOR},
     .why = "a batch broadcast, other numbers for every item"},
    {.m = 5, .n = 6, .k = 4, .dtype = GRAM_F32, .batch = {{3, 2}, {0}, {0}, {3, 2}},
     .why = "a batch of rows that meets one b: one product"},
    {.m = 5, .n = 6, .k = 4, .dtype = GRAM_F64, .batch = {{4}, {0}, {0}, {4}}, .beta = 1, .c = APART,
     .why = "the same with one c: not one product"},
    {.m = 5, .n = 6, .k = 4, .dtype = GRAM_F64, .batch = {{0}, {4}, {4}, {4}}, .beta = 2, .c = SAME,
     .why = "one a for a batch"},
    {.m = 5, .n = 6, .k = 4, .dtype = GRAM_F64, .batch = {{0}, {4}, {4}, {4}}, .beta = 2, .c = SAME,
     .layout = {EVERY_SECOND, REVERSED}, .out_layout = COLUMN_MAJOR,
     .why = "one a for a batch by columns: its columns go on"},
    {.m = 5, .n = 6, .k = 4, .dtype = GRAM_F32, .batch = {{0}, {2, -1}, {2, -1}, {2, -1}},
     .why = "an empty batch"},
    {.m = 5, .n = 6, .k = 4, .dtype = GRAM_F32, .nan = true, .batch = {{2}, {2}, {2}, {2}},
     .why = "NaN stays in its rows"},
    {.m = 600, .n = 300, .k = 800, .dtype = GRAM_F32, .batch = {{2}, {2}, {2}, {2}},
     .why = "large items one after the other"},
    {.m = 130, .n = 140, .k = 150, .dtype = GRAM_F64, .layout = {REVERSED, EVERY_SECOND},
     .batch = {{3}, {0}, {0}, {3}}, .why = "several threads pack"},
};
/* clang-format on */

struct problem {
    const struct matmul_row *row;
    struct test_tensor in[3], alpha, beta, out; /* a, b, c */
    double *before;                             /* what out held */
    struct reference_batch batch;
    gram_matmul_options options;
    struct {
        struct test_copy in[3], alpha, beta, out;
    } there; /* the same on the device */
};

static void label(int row, char *text, size_t size)
{
    const struct matmul_row *r = &rows[row];

    snprintf(text, size, "%lld %lld %lld %s: %s", (long long)r->m, (long long)r->n, (long long)r->k,
             r->dtype == GRAM_F32 ? "f32" : "f64", r->why);
}

static void create(struct harness *h, struct test_tensor *t, const struct matmul_row *row,
                   int which, const int64_t core[2], enum layout layout)
{
    int64_t shape[4];
    int ndim = 0;

    for (int i = 0; i < 2; i++)
        if (row->batch[which][i])
            shape[ndim++] = row->batch[which][i] > 0 ? row->batch[which][i] : 0;
    shape[ndim++] = core[0], shape[ndim++] = core[1];
    test_tensor_create(h, t, row->dtype, layout, ndim, shape);
    test_fill_uniform(h, t, -1, 1);
}

static void setup(struct harness *h, struct problem *q)
{
    const struct matmul_row *r = q->row;
    const bool *t = r->transpose;
    const int64_t a[2] = {t[0] ? r->k : r->m, t[0] ? r->m : r->k};
    const int64_t b[2] = {t[1] ? r->n : r->k, t[1] ? r->k : r->n}, c[2] = {r->m, r->n};

    create(h, &q->in[0], r, 0, a, r->layout[0]);
    create(h, &q->in[1], r, 1, b, r->layout[1]);
    create(h, &q->in[2], r, 2, c, r->layout[2]);
    create(h, &q->out, r, 3, c, r->out_layout);
    if (r->nan)
        test_put(&q->in[0].t, 0, NAN);
    for (int64_t i = 0; r->beta == 0 && i < test_count(&q->in[2].t); i++)
        test_put(&q->in[2].t, i, NAN); /* must not be read */
    for (int64_t i = 0; r->c != SAME && i < test_count(&q->out.t); i++)
        test_put(&q->out.t, i, NAN);
    test_tensor_create(h, &q->alpha, GRAM_F32, ROW_MAJOR, 1, (int64_t[]){2});
    test_tensor_create(h, &q->beta, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){3, 1});
    test_fill_uniform(h, &q->alpha, -2, 2);
    test_fill_uniform(h, &q->beta, -2, 2);
    test_put(&q->beta.t, 1, 0);
    for (int i = 0; i < 3; i++)
        test_tensor_freeze(&q->in[i]);
    q->options = (gram_matmul_options)GRAM_MATMUL_OPTIONS_INIT;
    q->options.transpose_a = t[0], q->options.transpose_b = t[1];
    q->options.alpha =
        r->per_item ? gram_values(&q->alpha.t) : gram_number(r->alpha != 0 ? r->alpha : 1);
    q->options.beta = r->per_item ? gram_values(&q->beta.t) : gram_number(r->beta);
    q->options.c = r->c == NO_C ? NULL : r->c == SAME ? &q->out.t : &q->in[2].t;
    q->batch = reference_join(1, (const gram_tensor *[]){&q->out.t}, (int[]){2});
    q->before = dense_doubles(test_count(&q->out.t));
    for (int64_t i = 0; i < test_count(&q->out.t); i++)
        q->before[i] = test_at(&q->out.t, i);
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    const gram_tensor *a = &q->there.in[0].t, *b = &q->there.in[1].t;
    gram_tensor *out = &q->there.out.t;
    gram_matmul_options o = q->options;

    if (o.c)
        o.c = q->row->c == SAME ? out : &q->there.in[2].t;
    if (q->row->per_item)
        o.alpha = gram_values(&q->there.alpha.t), o.beta = gram_values(&q->there.beta.t);
    return need ? gram_matmul_batched_workspace(h->g, a, b, &o, out, need)
                : gram_matmul_batched(h->g, a, b, &o, out);
}

/* The call where the context's device is, in memory of that device. */
static bool run(struct harness *h, struct problem *q)
{
    const struct test_pair pairs[] = {
        {&q->in[0], &q->there.in[0]},
        {&q->in[1], &q->there.in[1]},
        {&q->in[2], &q->there.in[2]},
        {&q->alpha, &q->there.alpha},
        { &q->beta,  &q->there.beta},
        {  &q->out,   &q->there.out},
    };

    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

static void check_out(struct harness *h, const struct problem *q)
{
    const struct matmul_row *r = q->row;
    gram_matmul_options o = q->options;
    gram_tensor c = q->out.t;
    double eps = test_eps(r->dtype), magnitude;

    if (r->c == SAME) { /* what out held, row-major */
        c.data = q->before, c.dtype = GRAM_F64, o.c = &c;
        for (int64_t step = 1, i = c.ndim - 1; i >= 0; step *= c.shape[i--])
            c.stride[i] = step;
    }
    for (int64_t e = 0, all = test_count(&q->out.t); e < all; e++) {
        const int64_t at[3] = {e / r->n / r->m, e / r->n % r->m, e % r->n};
        double want, got = test_at(&q->out.t, e), bound;
        if (!test_sampled(e, all, r->k))
            continue;
        want = reference_matmul_batched(&q->in[0].t, &q->in[1].t, &o, &q->batch, at, &magnitude);
        bound = (double)(r->k + 3) * eps * magnitude;
        CHECK(h, isnan(want) ? isnan(got) : fabs(got - want) <= bound,
              "item %lld, out[%lld, %lld] is %.17g, expected %.17g +- %.2g", (long long)at[0],
              (long long)at[1], (long long)at[2], got, want, bound);
    }
}

static void check(struct harness *h, int row)
{
    struct problem q = {.row = &rows[row]};

    setup(h, &q);
    if (run(h, &q))
        check_out(h, &q);
    free(q.before);
    for (int i = 0; i < 3; i++)
        test_tensor_destroy(h, &q.in[i], "an input");
    test_tensor_destroy(h, &q.alpha, "alpha");
    test_tensor_destroy(h, &q.beta, "beta");
    test_tensor_destroy(h, &q.out, "out");
}

/* ---- One problem of any sizes --------------------------------------------------------------- */

struct made {
    gram_tensor a, b, out;
};

static gram_status run_made(gram_context *g, void *state)
{
    struct made *p = state;

    return gram_matmul_batched(g, &p->a, &p->b, NULL, &p->out);
}

static double error_made(struct harness *h, void *state)
{
    const struct made *p = state;
    const gram_matmul_options o = GRAM_MATMUL_OPTIONS_INIT;
    const struct reference_batch batch = {
        .ndim = 1, .shape = {p->out.shape[0]}, .count = p->out.shape[0]};
    int64_t m = p->out.shape[1], n = p->out.shape[2], k = p->a.shape[2];
    double worst = 0, magnitude;

    for (int i = 0; i < 1000 && test_count(&p->out) > 0; i++) {
        int64_t e = (int64_t)(test_uniform(h) * (double)test_count(&p->out));
        const int64_t at[3] = {e / n / m, e / n % m, e % n};
        double want = reference_matmul_batched(&p->a, &p->b, &o, &batch, at, &magnitude);
        double bound = (double)(k + 3) * test_eps(p->out.dtype) * magnitude;
        worst = fmax(worst, fabs(test_at(&p->out, e) - want) / (bound > 0 ? bound : 1e-300));
    }
    return worst;
}

static void destroy_made(void *state)
{
    struct made *p = state;

    free(p->a.data);
    free(p->b.data);
    free(p->out.data);
    free(p);
}

static gram_tensor random_batch(struct harness *h, int64_t count, int64_t rows_of, int64_t cols,
                                gram_dtype dtype)
{
    gram_tensor t = dense_random(h, count * rows_of, cols, dtype);

    return gram_matrices(t.data, count, rows_of, cols, dtype);
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    int64_t m = args->sizes[0], n = args->sizes[1], k = args->sizes[2], count = args->sizes[3];
    struct made *p = calloc(1, sizeof *p);

    if (!p)
        return harness_no_memory(h, "the problem");
    if (args->dtype != GRAM_F32 && args->dtype != GRAM_F64) {
        fprintf(stderr, "matmul_batched: dtype is f32 or f64\n");
        free(p);
        return false;
    }
    p->a = random_batch(h, count, m, k, args->dtype);
    p->b = random_batch(h, count, k, n, args->dtype);
    p->out = random_batch(h, count, m, n, args->dtype);
    if (!p->a.data || !p->b.data || !p->out.data) {
        (void)harness_no_memory(h, "the problem");
        destroy_made(p);
        return false;
    }
    *out = (struct case_problem){
        .state = p,
        .tensors = {&p->a, &p->b, &p->out},
        .run = run_made,
        .error = error_made,
        .destroy = destroy_made,
        .work = 2.0 * (double)m * (double)n * (double)k * (double)count,
        .unit = "flop",
        .bytes =
            (double)(m * k + k * n + m * n) * (double)count * (double)gram_dtype_size(args->dtype),
    };
    return true;
}

const struct case_op case_matmul_batched = {
    .name = "matmul_batched",
    .sizes = "M N K B",
    .params = "dtype=f32",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
