/*
 * case_kron.c - the rows of gram_kron; with sizes, gram_kron_matmul beside other variants
 * (kron_tool.c)
 *
 * On the CPU a thread takes 32768 elements of out at a time, and factors are taken apart where the
 * right ones have as many columns as the left ones.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "kron_variants.h"
#include <math.h>
#include <string.h>

enum contents {
    UNIFORM,
    INTEGERS, /* of 31 bits: their products wrap around */
    SPECIAL,  /* NaN, infinity and the smallest numbers */
};

struct kron_row {
    int count;
    int64_t size[GRAM_MAX_FACTORS][2];
    int64_t batch[2][2]; /* of the factors in turn; 0: no such dimension */
    gram_dtype dtype;
    enum layout layout[2], out_layout; /* of the factors in turn */
    enum contents contents;
    const char *why;
};

/* clang-format off */
static const struct kron_row rows[] = {
    {.count = 1, .size = {{1, 1}}, .dtype = GRAM_F32, .why = "smallest"},
    {.count = 1, .size = {{5, 7}}, .dtype = GRAM_F64, .layout = {COLUMN_MAJOR}, .why = "a copy"},
    {.count = 2, .size = {{2, 3}, {4, 5}}, .dtype = GRAM_F32, .why = "two"},
    {.count = 2, .size = {{3, 2}, {5, 4}}, .dtype = GRAM_F64, .layout = {COLUMN_MAJOR, EVERY_SECOND},
     .out_layout = COLUMN_MAJOR, .why = "by columns"},
    {.count = 2, .size = {{3, 5}, {4, 6}}, .dtype = GRAM_F32, .layout = {REVERSED, PADDED},
     .out_layout = EVERY_SECOND, .why = "no unit stride"},
    {.count = 3, .size = {{3, 5}, {1, 1}, {4, 2}}, .dtype = GRAM_F64, .out_layout = REVERSED,
     .layout = {MISALIGNED, ROWS_REPEATED}, .why = "one by one in the middle"},
    {.count = 3, .size = {{31, 5}, {7, 31}, {2, 3}}, .dtype = GRAM_F32, .out_layout = PADDED,
     .why = "odd sizes"},
    {.count = 16, .size = {{2, 1}, {1, 2}, {1, 1}, {2, 1}, {1, 2}, {1, 1}, {2, 2}, {1, 1}, {1, 2},
                           {2, 1}, {1, 1}, {1, 1}, {2, 1}, {1, 2}, {3, 1}, {1, 3}},
     .dtype = GRAM_F32, .why = "as many factors as there may be"},
    {.count = 2, .size = {{1, 400}, {1, 300}}, .dtype = GRAM_F32, .why = "one row, four tasks"},
    {.count = 2, .size = {{400, 1}, {300, 1}}, .dtype = GRAM_F64, .why = "one column"},
    {.count = 2, .size = {{1, 2}, {1, 70000}}, .dtype = GRAM_F32, .why = "a long right row"},
    {.count = 2, .size = {{1, 70000}, {2, 2}}, .dtype = GRAM_F32, .why = "a long left row"},
    {.count = 2, .size = {{0, 3}, {2, 2}}, .dtype = GRAM_F32, .why = "no rows"},
    {.count = 2, .size = {{3, 3}, {2, 0}}, .dtype = GRAM_F64, .why = "no columns"},
    {.count = 2, .size = {{3, 4}, {5, 6}}, .batch = {{0, 0}, {3}}, .dtype = GRAM_F32,
     .why = "one factor for a batch of others"},
    {.count = 3, .size = {{3, 4}, {2, 2}, {2, 3}}, .batch = {{2, 1}, {3}}, .dtype = GRAM_F64,
     .layout = {COLUMN_MAJOR, PADDED}, .out_layout = COLUMN_MAJOR, .why = "both broadcast"},
    {.count = 2, .size = {{3, 4}, {2, 2}}, .batch = {{0, 0}, {0, 0}}, .dtype = GRAM_F16,
     .why = "halves, rounded once"},
    {.count = 4, .size = {{3, 4}, {2, 2}, {3, 3}, {2, 5}}, .dtype = GRAM_BF16,
     .layout = {COLUMN_MAJOR, EVERY_SECOND}, .why = "bfloat16"},
    {.count = 2, .size = {{9, 40}, {11, 30}}, .dtype = GRAM_F16, .contents = SPECIAL,
     .why = "rounding of halves: NaN, infinity, the smallest and the largest"},
    {.count = 2, .size = {{9, 40}, {11, 30}}, .dtype = GRAM_BF16, .contents = SPECIAL,
     .why = "the same of bfloat16"},
    {.count = 2, .size = {{5, 4}, {3, 3}}, .dtype = GRAM_F32, .contents = SPECIAL,
     .why = "0 times infinity, and NaN in its places only"},
    {.count = 3, .size = {{3, 4}, {2, 5}, {3, 2}}, .dtype = GRAM_I32, .contents = INTEGERS,
     .layout = {COLUMN_MAJOR, PADDED}, .why = "i32 wraps around"},
    {.count = 3, .size = {{3, 4}, {2, 5}, {3, 2}}, .dtype = GRAM_I64, .contents = INTEGERS,
     .out_layout = COLUMN_MAJOR, .why = "i64 wraps around"},
};
/* clang-format on */

struct problem {
    const struct kron_row *row;
    struct test_tensor factor[GRAM_MAX_FACTORS], out;
    struct test_copy there[GRAM_MAX_FACTORS], out_there;
    struct reference_batch batch;
};

static void label(int row, char *text, size_t size)
{
    static const char *const names[] = {"?", "f32", "f64", "f16", "bf16", "i32", "i64"};

    snprintf(text, size, "%d factors %s: %s", rows[row].count, names[rows[row].dtype],
             rows[row].why);
}

static void fill(struct harness *h, struct test_tensor *t, enum contents contents)
{
    const double specials[] = {NAN, INFINITY, 0, -INFINITY, 6.1e-5, 5.9e-8, 256, 255.9, -1.0 / 3};

    if (contents == UNIFORM) {
        test_fill_uniform(h, t, -2, 2);
        return;
    }
    for (int64_t i = 0; i < test_count(&t->t); i++)
        test_put(&t->t, i,
                 contents == INTEGERS ? floor(ldexp(test_uniform(h) - 0.5, 32))
                 : i % 7 == 3         ? specials[i / 7 % LENGTH(specials)]
                                      : test_uniform(h) * pow(2, 17 * (test_uniform(h) - 0.5)));
}

static void create(struct harness *h, struct problem *q, int f)
{
    const struct kron_row *row = q->row;
    int64_t shape[4];
    int ndim = 0;

    for (int i = 0; i < 2 && row->batch[f % 2][i]; i++)
        shape[ndim++] = row->batch[f % 2][i];
    shape[ndim++] = row->size[f][0], shape[ndim++] = row->size[f][1];
    test_tensor_create(h, &q->factor[f], row->dtype, row->layout[f % 2], ndim, shape);
    fill(h, &q->factor[f], row->contents);
    test_tensor_freeze(&q->factor[f]);
}

/* The factors, or where they are now. */
static void collect(const struct problem *q, bool there, const gram_tensor **factors)
{
    for (int f = 0; f < q->row->count; f++)
        factors[f] = there ? &q->there[f].t : &q->factor[f].t;
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    const gram_tensor *factors[GRAM_MAX_FACTORS];

    collect(q, true, factors);
    return need ? gram_kron_workspace(h->g, factors, q->row->count, &q->out_there.t, need)
                : gram_kron(h->g, factors, q->row->count, &q->out_there.t);
}

static bool run(struct harness *h, struct problem *q)
{
    struct test_pair pairs[GRAM_MAX_FACTORS + 1] = {
        {&q->out, &q->out_there}
    };

    for (int f = 0; f < q->row->count; f++)
        pairs[f + 1] = (struct test_pair){&q->factor[f], &q->there[f]};
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* An element of the product of integers as they wrap around. */
static int64_t wrapped(const struct problem *q, int64_t i, int64_t j)
{
    uint64_t value = 1;

    for (int f = q->row->count - 1; f >= 0; f--) {
        const gram_tensor *t = &q->factor[f].t;
        value *= (uint64_t)(int64_t)test_get(t, (int64_t[]){i % t->shape[0], j % t->shape[1]});
        i /= t->shape[0], j /= t->shape[1];
    }
    return q->row->dtype == GRAM_I32 ? (int32_t)(uint32_t)value : (int64_t)value;
}

static int64_t integer_at(const gram_tensor *t, int64_t item)
{
    const void *at = test_address(t, item);

    return t->dtype == GRAM_I32 ? *(const int32_t *)at : *(const int64_t *)at;
}

/* A rounding a product and one at the end, and a step of the smallest numbers for each. */
static void check_element(struct harness *h, const struct problem *q, const int64_t at[3],
                          int64_t element)
{
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    bool half = q->row->dtype == GRAM_F16 || q->row->dtype == GRAM_BF16;
    double f32 = test_eps(GRAM_F32), eps = test_eps(q->row->dtype), want, got, bound;
    double least = q->row->dtype == GRAM_F16 ? 0x1p-25 : q->row->dtype == GRAM_BF16 ? 0x1p-134 : 0;
    double most = q->row->dtype == GRAM_F16 ? 65520 : INFINITY;

    collect(q, false, factors);
    want = reference_kron(factors, q->row->count, &q->batch, at);
    got = test_at(&q->out.t, element);
    bound = fabs(want) * (half ? eps / 2 + q->row->count * f32 : q->row->count * eps / 2) + least;
    if (isnan(want) || isinf(want) || (fabs(want) >= most && isinf(got)))
        CHECK(h, isnan(want) ? isnan(got) : isinf(got) && signbit(got) == signbit(want),
              "item %lld, out[%lld, %lld] is %g, expected %g", (long long)at[0], (long long)at[1],
              (long long)at[2], got, want);
    else
        CHECK(h, fabs(got - want) <= bound,
              "item %lld, out[%lld, %lld] is %.17g, expected %.17g +- %.2g", (long long)at[0],
              (long long)at[1], (long long)at[2], got, want, bound);
}

static void check_out(struct harness *h, const struct problem *q)
{
    int64_t m = q->out.t.shape[q->batch.ndim], n = q->out.t.shape[q->batch.ndim + 1];

    for (int64_t e = 0; e < test_count(&q->out.t); e++) {
        const int64_t at[3] = {e / n / m, e / n % m, e % n};
        if (q->row->contents != INTEGERS)
            check_element(h, q, at, e);
        else
            CHECK(h, integer_at(&q->out.t, e) == wrapped(q, at[1], at[2]),
                  "out[%lld, %lld] is %lld, expected %lld", (long long)at[1], (long long)at[2],
                  (long long)integer_at(&q->out.t, e), (long long)wrapped(q, at[1], at[2]));
    }
}

static void check(struct harness *h, int row)
{
    struct problem q = {.row = &rows[row]};
    const gram_tensor *tensors[GRAM_MAX_FACTORS];
    int64_t shape[4], size[2] = {1, 1};
    int core[GRAM_MAX_FACTORS];

    for (int f = 0; f < q.row->count; f++) {
        create(h, &q, f);
        tensors[f] = &q.factor[f].t;
        core[f] = 2;
        size[0] *= q.row->size[f][0], size[1] *= q.row->size[f][1];
    }
    q.batch = reference_join(q.row->count, tensors, core);
    memcpy(shape, q.batch.shape, (size_t)q.batch.ndim * sizeof *shape);
    shape[q.batch.ndim] = size[0], shape[q.batch.ndim + 1] = size[1];
    test_tensor_create(h, &q.out, q.row->dtype, q.row->out_layout, q.batch.ndim + 2, shape);
    if (run(h, &q))
        check_out(h, &q);
    for (int f = 0; f < q.row->count; f++)
        test_tensor_destroy(h, &q.factor[f], "a factor");
    test_tensor_destroy(h, &q.out, "out");
}

const struct case_op case_kron = {
    .name = "kron",
    .sizes = "M P",
    .params = "dtype=f32 side=right implementation=gram",
    .open = true,
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = kron_prepare,
    .compare = kron_check,
    .bench = kron_bench,
};
