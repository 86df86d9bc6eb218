/*
 * case_median.c - the rows of gram_median_distance
 *
 * Without a sample the answer is the median of all distances.  With one it must be the median of
 * the distances of some set of so many different rows: rows of powers of two tell which.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>

/* clang-format off */
static const struct median_row {
    int64_t m, k, batch;
    gram_dtype dtype;
    enum layout layout;
    double p;
    bool no_root, nan;
    int64_t rows; /* option */
    const char *why;
} rows[] = {
    {.m = 9, .k = 4, .dtype = GRAM_F32, .p = 2, .why = "36 distances, an even number"},
    {.m = 6, .k = 4, .dtype = GRAM_F64, .p = 1, .why = "15 distances, an odd number"},
    {.m = 0, .k = 4, .dtype = GRAM_F32, .p = 2, .why = "no rows"},
    {.m = 1, .k = 4, .dtype = GRAM_F64, .p = 2, .why = "one row"},
    {.m = 2, .k = 4, .dtype = GRAM_F32, .p = 2, .why = "one distance"},
    {.m = 5, .k = 0, .dtype = GRAM_F32, .p = 2, .why = "no columns"},
    {.m = 80, .k = 3, .dtype = GRAM_F32, .p = 1.3, .layout = COLUMN_MAJOR, .why = "any power"},
    {.m = 81, .k = 3, .dtype = GRAM_F64, .p = 2, .no_root = true, .layout = REVERSED,
     .why = "the sums themselves"},
    {.m = 60, .k = 3, .dtype = GRAM_F32, .p = 1, .nan = true, .why = "NaN is left out"},
    {.m = 2, .k = 3, .dtype = GRAM_F32, .p = 1, .nan = true, .why = "nothing but NaN"},
    {.m = 30, .k = 3, .dtype = GRAM_F16, .p = 1, .why = "f16"},
    {.m = 30, .k = 3, .dtype = GRAM_BF16, .p = INFINITY, .why = "bf16"},
    {.m = 20, .k = 3, .batch = 3, .dtype = GRAM_F32, .p = 1, .why = "a batch"},
    {.m = 4, .k = 2, .batch = 150, .dtype = GRAM_F64, .p = 2, .layout = COLUMN_MAJOR,
     .why = "many tiny items"},
    {.m = 110, .k = 2, .batch = 3, .dtype = GRAM_F32, .p = 1, .why = "a batch of larger items"},
    {.m = 40, .k = 2, .batch = 3, .dtype = GRAM_F64, .p = 1, .rows = 3, .layout = PADDED,
     .why = "a batch of samples: the same rows"},
    {.m = 20, .k = 3, .dtype = GRAM_F32, .p = 1, .rows = 20, .why = "a sample of all rows"},
    {.m = 40, .k = 1, .dtype = GRAM_F64, .p = 1, .rows = 2, .why = "a sample of two rows"},
    {.m = 40, .k = 2, .dtype = GRAM_F64, .p = 1, .rows = 3, .layout = EVERY_SECOND,
     .why = "a sample of three rows"},
    {.m = 2500, .k = 2, .dtype = GRAM_F32, .p = 1, .rows = 2500, .why = "more than the default"},
};
/* clang-format on */

static void label(int row, char *text, size_t size)
{
    snprintf(text, size, "%lldx%lld p=%g rows=%lld: %s", (long long)rows[row].m,
             (long long)rows[row].k, rows[row].p, (long long)rows[row].rows, rows[row].why);
}

static double expected(const struct median_row *row, const gram_tensor *x, int64_t item)
{
    const struct reference_batch batch = {
        .ndim = row->batch ? 1 : 0, .shape = {row->batch}, .count = row->batch ? row->batch : 1};
    int64_t count = row->m * (row->m - 1) / 2, n = 0;
    double *all = malloc((size_t)(count > 0 ? count : 1) * sizeof *all), median;

    if (!all)
        harness_end_without_memory("a reference");
    for (int64_t i = 0; i < row->m; i++)
        for (int64_t j = i + 1; j < row->m; j++)
            all[n++] = reference_cdist(x, NULL, gram_number(row->p), row->no_root, &batch,
                                       (int64_t[]){item, i, j});
    median = reference_median(n, all);
    free(all);
    return median;
}

/* The call where the context's device is, in memory of that device. */
struct call {
    struct test_tensor *x, *out;
    struct test_copy x_there, out_there;
    double p;
    gram_median_options options;
};

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct call *c = problem;
    const gram_tensor *x = &c->x_there.t;
    gram_scalar p = gram_number(c->p);

    return need ? gram_median_distance_workspace(h->g, x, p, &c->options, &c->out_there.t, need)
                : gram_median_distance(h->g, x, p, &c->options, &c->out_there.t);
}

static bool run(struct harness *h, struct call *c)
{
    const struct test_pair pairs[] = {
        {  c->x,   &c->x_there},
        {c->out, &c->out_there},
    };

    return test_call_there(h, pairs, LENGTH(pairs), call, c);
}

static void check_all(struct harness *h, const struct median_row *row, struct call *c)
{
    const gram_tensor *x = &c->x->t, *out = &c->out->t;
    double eps = test_eps(out->dtype);

    if (!run(h, c))
        return;
    for (int64_t item = 0; item < test_count(out); item++) {
        double want = expected(row, x, item), got = test_at(out, item);
        double bound = ((double)row->k + 20) * eps * want;
        CHECK(h, isnan(want) ? isnan(got) : fabs(got - want) <= bound,
              "the median is %.9g, expected %.9g +- %.2g", got, want, bound);
    }
}

/* Row i of each item is 2^i (in every column): a difference of two rows tells which they are. */
static void check_sample(struct harness *h, const struct median_row *row, struct call *c)
{
    int64_t seen[64] = {0}, different = 0;
    const gram_tensor *out = &c->out->t;
    double again;

    for (int64_t i = 0; i < test_count(&c->x->t); i++)
        test_put(&c->x->t, i, ldexp(1, (int)(i / row->k % row->m)));
    for (c->options.seed = 0; c->options.seed < 400; c->options.seed++) {
        double got;
        int high;
        if (!run(h, c))
            return;
        got = test_at(out, 0) / (double)row->k;
        frexp(got, &high); /* 2^high - 2^low, low < high, has this exponent or is 2^low */
        CHECK(h, got >= 1 && got < ldexp(1, (int)row->m), "the median %g is of no two rows", got);
        seen[high < 64 ? high : 63]++;
        for (int64_t item = 1; item < row->batch; item++)
            CHECK(h, test_at(out, item) == test_at(out, 0), "item %lld has %g, expected %g",
                  (long long)item, test_at(out, item), test_at(out, 0));
    }
    for (int i = 0; i < 64; i++)
        different += seen[i] > 0;
    CHECK(h, different > row->m * 2 / 3, "400 seeds drew only %lld sizes of distances",
          (long long)different);
    again = test_at(out, 0);
    c->options.seed--;
    CHECK(h, run(h, c) && test_at(out, 0) == again, "the same seed gave %g, then %g", again,
          test_at(out, 0));
}

static void check(struct harness *h, int index)
{
    const struct median_row *row = &rows[index];
    int64_t shape[3] = {row->batch, row->m, row->k};
    struct test_tensor x, out;
    struct call c = {.x = &x, .out = &out, .p = row->p, .options = GRAM_MEDIAN_OPTIONS_INIT};

    c.options.rows = row->rows, c.options.no_root = row->no_root;
    test_tensor_create(h, &x, row->dtype, row->layout, row->batch ? 3 : 2,
                       shape + (row->batch ? 0 : 1));
    test_tensor_create(h, &out, row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32, ROW_MAJOR,
                       row->batch ? 1 : 0, shape);
    test_fill_normal(h, &x, 1, 2);
    if (row->nan)
        test_put(&x.t, row->k, NAN);
    if (row->rows > 0 && row->rows < row->m)
        check_sample(h, row, &c);
    else
        check_all(h, row, &c);
    test_tensor_destroy(h, &x, "x");
    test_tensor_destroy(h, &out, "out");
}

/* ---- Any size ------------------------------------------------------------------------------ */

struct bench {
    gram_tensor x, out;
    gram_median_options options;
    double p;
    double result[2];
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return gram_median_distance(g, &s->x, gram_number(s->p), &s->options, &s->out);
}

/* The share of 4000 random distances that are below the median, off one half by three standard
 * deviations of both samples. */
static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    const struct reference_batch batch = {.count = 1};
    double median = test_at(&s->out, 0), m = (double)s->x.shape[0];
    int below = 0, draws = 4000;
    double drawn = fmin(m, s->options.rows ? (double)s->options.rows : 2000);

    for (int i = 0; i < draws; i++) {
        int64_t a = (int64_t)(test_uniform(h) * m), b = (int64_t)(test_uniform(h) * (m - 1));
        b += b >= a;
        below += reference_cdist(&s->x, NULL, gram_number(s->p), 0, &batch, (int64_t[]){0, a, b}) <
                 median;
    }
    return fabs((double)below / draws - 0.5) / (1.5 / sqrt(draws) + 1.5 / sqrt(drawn));
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->x.data);
    free(s);
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    int64_t m = args->sizes[0], k = args->sizes[1];
    size_t bytes = (size_t)(m * k) * gram_dtype_size(args->dtype);
    struct bench *s = calloc(1, sizeof *s);
    double drawn;

    if (!s)
        return harness_no_memory(h, "the problem");
    if (m < 2) {
        fprintf(stderr, "M: expected at least 2\n");
        free(s);
        return false;
    }
    s->options = (gram_median_options)GRAM_MEDIAN_OPTIONS_INIT;
    s->options.rows = (int64_t)case_number(args, "rows", 2000);
    s->p = case_number(args, "p", 2);
    s->x = gram_matrix(malloc(bytes ? bytes : 1), m, k, args->dtype);
    s->out = gram_vector(s->result, 1, args->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32);
    s->out.ndim = 0;
    if (!s->x.data) {
        (void)harness_no_memory(h, "the problem");
        free(s);
        return false;
    }
    for (int64_t i = 0; i < m * k; i++)
        test_put(&s->x, i, test_uniform(h));
    drawn = fmin((double)m, s->options.rows ? (double)s->options.rows : 2000);
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->x, &s->out},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = drawn * drawn / 2 * (double)k,
        .unit = "row pairs times k",
        .bytes = drawn * (double)k * (double)gram_dtype_size(args->dtype),
    };
    return true;
}

const struct case_op case_median = {
    .name = "median",
    .sizes = "M K",
    .params = "p=2 rows=2000 dtype=f32",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
