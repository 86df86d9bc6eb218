/*
 * test_matmul.c - matrix products: in pieces that fit into memory, and what is refused
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "tests/core/refusal.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* ---- Products in pieces --------------------------------------------------------------------- */

struct chunked {
    int64_t m, n, k, batch; /* batch 0: none */
    gram_dtype dtype;
    enum layout layout[2], out_layout;
    size_t memory;
    bool c_apart, c_same;
    int least, most; /* pieces */
    const char *why;
};

/* clang-format off */
static const struct chunked chunked[] = {
    {.m = 50, .n = 40, .k = 30, .dtype = GRAM_F32, .memory = 0, .least = 1, .most = 1,
     .why = "it fits"},
    {.m = 50, .n = 40, .k = 30, .dtype = GRAM_F32, .memory = 18800, .least = 1, .most = 1,
     .why = "it fits exactly"},
    {.m = 50, .n = 40, .k = 30, .dtype = GRAM_F32, .memory = 18799, .least = 2, .most = 4,
     .why = "one byte less"},
    {.m = 50, .n = 40, .k = 30, .dtype = GRAM_F64, .memory = 4000, .least = 8, .most = 400,
     .c_apart = true, .why = "many pieces, a c"},
    {.m = 9, .n = 7, .k = 8, .dtype = GRAM_F64, .memory = 24, .least = 504, .most = 504,
     .why = "one element of each"},
    {.m = 300, .n = 4, .k = 20, .dtype = GRAM_F32, .memory = 8000, .least = 4, .most = 20,
     .layout = {COLUMN_MAJOR, ROW_MAJOR}, .c_same = true, .why = "few columns"},
    {.m = 3, .n = 400, .k = 20, .dtype = GRAM_F32, .memory = 8000, .least = 4, .most = 40,
     .out_layout = COLUMN_MAJOR, .why = "few rows"},
    {.m = 40, .n = 30, .k = 2000, .dtype = GRAM_F32, .memory = 40000, .least = 8, .most = 60,
     .c_apart = true, .why = "a long sum"},
    {.m = 40, .n = 30, .k = 35, .batch = 3, .dtype = GRAM_F64, .memory = 9000, .least = 9,
     .most = 90, .layout = {EVERY_SECOND, REVERSED}, .out_layout = EVERY_SECOND, .c_same = true,
     .why = "a batch without unit strides: the scratch counts"},
    {.m = 5, .n = 6, .k = 0, .dtype = GRAM_F32, .memory = 40, .least = 2, .most = 30,
     .c_apart = true, .why = "no terms"},
    {.m = 0, .n = 6, .k = 4, .dtype = GRAM_F32, .memory = 1, .why = "no rows"},
};
/* clang-format on */

struct product {
    const struct chunked *row;
    struct test_tensor a, b, c, out;
    gram_matmul_options options;
};

static void make(struct harness *h, struct test_tensor *t, const struct chunked *row, int64_t rows,
                 int64_t cols, enum layout layout)
{
    const int64_t shape[3] = {row->batch, rows, cols};

    test_tensor_create(h, t, row->dtype, layout, row->batch ? 3 : 2, shape + !row->batch);
    test_fill_uniform(h, t, -1, 1);
}

static gram_status multiply(struct harness *h, void *product, gram_workspace *need)
{
    struct product *p = product;

    for (int64_t i = 0; p->row->c_same && i < test_count(&p->out.t); i++)
        test_put(&p->out.t, i, test_at(&p->c.t, i));
    return need ? gram_matmul_chunked_workspace(h->g, &p->a.t, &p->b.t, &p->options, p->row->memory,
                                                &p->out.t, need)
                : gram_matmul_chunked(h->g, &p->a.t, &p->b.t, &p->options, p->row->memory,
                                      &p->out.t);
}

static void compare(struct harness *h, const struct product *p)
{
    gram_matmul_options o = p->options;
    struct reference_batch batch =
        reference_join(1, (const gram_tensor *[]){&p->out.t}, (int[]){2});
    int64_t m = p->row->m, n = p->row->n;

    o.c = &p->c.t;
    for (int64_t e = 0; e < test_count(&p->out.t); e++) {
        double magnitude, want, got = test_at(&p->out.t, e), bound;
        want = reference_matmul_batched(&p->a.t, &p->b.t, &o, &batch,
                                        (int64_t[]){e / n / m, e / n % m, e % n}, &magnitude);
        bound = (double)(p->row->k + 3) * test_eps(p->row->dtype) * magnitude;
        CHECK(h, fabs(got - want) <= bound, "element %lld is %.17g, expected %.17g +- %.2g",
              (long long)e, got, want, bound);
    }
}

static void count_product(void *user, const gram_trace_event *event)
{
    if (strcmp(event->name, "matmul") == 0)
        atomic_fetch_add((atomic_int *)user, 1);
}

/* How many products of BLAS a call is. */
static int count_pieces(struct harness *h, struct product *p)
{
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *kept = h->g, *g;
    atomic_int pieces = 0;

    options.threads = 2;
    options.trace = count_product, options.trace_user = &pieces;
    if (!CHECK(h, gram_context_create(&options, &g) == GRAM_OK, "%s", gram_message(NULL)))
        return -1;
    h->g = g;
    CHECK(h, multiply(h, p, NULL) == GRAM_OK, "%s", gram_message(g));
    gram_context_destroy(g);
    h->g = kept;
    return pieces;
}

static void products_in_pieces(struct harness *h)
{
    for (int i = 0; i < LENGTH(chunked); i++) {
        const struct chunked *row = &chunked[i];
        struct product p = {.row = row, .options = GRAM_MATMUL_OPTIONS_INIT};
        gram_workspace need = {0};
        int pieces;
        h->where = row->why;
        make(h, &p.a, row, row->m, row->k, row->layout[0]);
        make(h, &p.b, row, row->k, row->n, row->layout[1]);
        make(h, &p.c, row, row->m, row->n, ROW_MAJOR);
        make(h, &p.out, row, row->m, row->n, row->out_layout);
        p.options.alpha = gram_number(-0.5);
        if (row->c_apart || row->c_same) {
            p.options.beta = gram_number(2);
            p.options.c = row->c_same ? &p.out.t : &p.c.t;
        }
        if (test_in_exact_scratch(h, multiply, &p))
            compare(h, &p);
        pieces = count_pieces(h, &p);
        CHECK(h, pieces >= row->least && pieces <= row->most, "%d pieces, expected %d to %d",
              pieces, row->least, row->most);
        CHECK(h, multiply(h, &p, &need) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, row->memory == 0 || need.host_bytes < row->memory, "%zu bytes of scratch",
              need.host_bytes);
        test_tensor_destroy(h, &p.a, "a");
        test_tensor_destroy(h, &p.b, "b");
        test_tensor_destroy(h, &p.c, "c");
        test_tensor_destroy(h, &p.out, "out");
    }
}

static void pieces_can_be_cancelled(struct harness *h)
{
    double a[6] = {1, 2, 3, 4, 5, 6}, out[9];
    gram_tensor x = gram_matrix(a, 3, 2, GRAM_F64), y = gram_matrix(a, 2, 3, GRAM_F64);
    gram_tensor z = gram_matrix(out, 3, 3, GRAM_F64);

    gram_context_cancel(h->g);
    CHECK(h, gram_matmul_chunked(h->g, &x, &y, NULL, 48, &z) == GRAM_CANCELLED, "%s",
          gram_message(h->g));
    CHECK(h, gram_matmul_chunked(h->g, &x, &y, NULL, 48, &z) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, out[0] == 9 && out[8] == 51, "%g and %g", out[0], out[8]);
}

/* ---- What is refused ------------------------------------------------------------------------ */

enum function {
    MATMUL,
    CHUNKED,
    SYRK
};

struct call {
    enum function function;
    double a_data[6], b_data[6], out_data[9], l_data[9];
    int32_t info_data;
    gram_tensor a, b, out, l, info, c, numbers;
    double scalars[2];
    gram_matmul_options options;
    gram_syrk_ema_options syrk;
    size_t memory;
};

static void make_good(struct call *c)
{
    *c = (struct call){.options = GRAM_MATMUL_OPTIONS_INIT, .syrk = GRAM_SYRK_EMA_OPTIONS_INIT};
    c->a = gram_matrix(c->a_data, 3, 2, GRAM_F64);
    c->b = gram_matrix(c->b_data, 2, 3, GRAM_F64);
    c->out = gram_matrix(c->out_data, 3, 3, GRAM_F64);
    c->c = gram_matrix(c->l_data, 3, 3, GRAM_F64);
    c->l = gram_matrix(c->l_data, 3, 3, GRAM_F64);
    c->info = (gram_tensor){.data = &c->info_data, .dtype = GRAM_I32};
    c->numbers = gram_vector(c->scalars, 2, GRAM_F64);
}

static void short_b(struct call *c)
{
    c->b.shape[0] = 1;
}

static void transposed_a(struct call *c)
{
    c->options.transpose_a = 1;
}

static void f32_b(struct call *c)
{
    c->b.dtype = GRAM_F32;
}

static void whole_a(struct call *c)
{
    c->a.dtype = GRAM_I32;
}

static void f32_out(struct call *c)
{
    c->out.dtype = c->l.dtype = GRAM_F32;
}

static void narrow_out(struct call *c)
{
    c->out.shape[1] = c->l.shape[1] = 2;
}

static void out_is_a(struct call *c)
{
    c->out.data = c->l.data = c->a_data;
}

static void beta_without_c(struct call *c)
{
    c->options.beta = gram_number(1);
}

static void narrow_c(struct call *c)
{
    c->options.c = &c->c;
    c->c.shape[0] = 2;
}

static void c_beside_out(struct call *c)
{
    c->options.c = &c->c;
    c->c.data = c->out_data + 1;
    c->c.shape[0] = 3;
}

static void nan_alpha(struct call *c)
{
    c->options.alpha = c->syrk.alpha = gram_number(NAN);
}

static void infinite_beta(struct call *c)
{
    c->options.c = &c->c;
    c->options.beta = gram_number(INFINITY);
}

static void batch_of_beta(struct call *c)
{
    c->syrk.beta = c->options.alpha = gram_values(&c->numbers);
}

static void beta_above_1(struct call *c)
{
    c->syrk.beta = gram_number(1.5);
}

static void packed_matrix(struct call *c)
{
    c->syrk.packed = 1;
}

static void short_triangle(struct call *c)
{
    c->syrk.packed = 1;
    c->l = gram_vector(c->l_data, 5, GRAM_F64);
}

static void transposed_x(struct call *c)
{
    c->syrk.transpose = 1;
}

static void f32_info(struct call *c)
{
    c->info.dtype = GRAM_F32;
}

static void info_in_x(struct call *c)
{
    c->info.data = c->a_data;
}

static void few_bytes(struct call *c)
{
    c->memory = 23;
}

static void repeated_out(struct call *c)
{
    c->out.stride[0] = c->l.stride[0] = 0;
}

static gram_status make_call(struct harness *h, struct call *c)
{
    switch (c->function) {
    case MATMUL:
        return gram_matmul_batched(h->g, &c->a, &c->b, &c->options, &c->out);
    case CHUNKED:
        return gram_matmul_chunked(h->g, &c->a, &c->b, &c->options, c->memory, &c->out);
    default:
        return gram_syrk_ema(h->g, &c->a, &c->syrk, &c->l, &c->info);
    }
}

static const struct {
    enum function function;
    struct refusal refusal;
} refusals[] = {
    { MATMUL, {short_b, GRAM_INVALID_ARGUMENT, "gram_matmul_batched: a has 2 columns but b has 1"}},
    { MATMUL,               {transposed_a, GRAM_INVALID_ARGUMENT, "a has 3 rows but b has 2 rows"}},
    { MATMUL,                      {f32_b, GRAM_INVALID_ARGUMENT, "b has dtype f32, expected f64"}},
    { MATMUL,             {whole_a, GRAM_INVALID_ARGUMENT, "a has dtype i32, expected f32 or f64"}},
    { MATMUL,                  {f32_out, GRAM_INVALID_ARGUMENT, "out has dtype f32, expected f64"}},
    { MATMUL,                {narrow_out, GRAM_INVALID_ARGUMENT, "out is 3 by 2, expected 3 by 3"}},
    { MATMUL,                                  {out_is_a, GRAM_INVALID_ARGUMENT, "out overlaps a"}},
    { MATMUL,              {repeated_out, GRAM_INVALID_ARGUMENT, "two elements in the same place"}},
    { MATMUL,                         {beta_without_c, GRAM_INVALID_ARGUMENT, "options.c is NULL"}},
    { MATMUL,            {narrow_c, GRAM_INVALID_ARGUMENT, "options.c is 2 by 3, expected 3 by 3"}},
    { MATMUL,                      {c_beside_out, GRAM_INVALID_ARGUMENT, "out overlaps options.c"}},
    { MATMUL,                           {nan_alpha, GRAM_INVALID_ARGUMENT, "options.alpha is nan"}},
    { MATMUL,                        {infinite_beta, GRAM_INVALID_ARGUMENT, "options.beta is inf"}},
    { MATMUL,                        {batch_of_beta, GRAM_INVALID_ARGUMENT, "out has batch shape"}},
    {CHUNKED,        {few_bytes, GRAM_INVALID_ARGUMENT, "gram_matmul_chunked: memory is 23 bytes"}},
    {CHUNKED,             {short_b, GRAM_INVALID_ARGUMENT, "gram_matmul_chunked: a has 2 columns"}},
    {   SYRK,                   {whole_a, GRAM_INVALID_ARGUMENT, "gram_syrk_ema: x has dtype i32"}},
    {   SYRK,                    {f32_out, GRAM_INVALID_ARGUMENT, "l has dtype f32, expected f64"}},
    {   SYRK,                  {narrow_out, GRAM_INVALID_ARGUMENT, "l is 3 by 2, expected 3 by 3"}},
    {   SYRK,                {transposed_x, GRAM_INVALID_ARGUMENT, "l is 3 by 3, expected 2 by 2"}},
    {   SYRK,                                    {out_is_a, GRAM_INVALID_ARGUMENT, "l overlaps x"}},
    {   SYRK,              {repeated_out, GRAM_INVALID_ARGUMENT, "two elements in the same place"}},
    {   SYRK,                           {nan_alpha, GRAM_INVALID_ARGUMENT, "options.alpha is nan"}},
    {   SYRK,                         {beta_above_1, GRAM_INVALID_ARGUMENT, "options.beta is 1.5"}},
    {   SYRK,                          {batch_of_beta, GRAM_INVALID_ARGUMENT, "l has batch shape"}},
    {   SYRK,      {packed_matrix, GRAM_INVALID_ARGUMENT, "l has 3 elements per item, expected 6"}},
    {   SYRK,     {short_triangle, GRAM_INVALID_ARGUMENT, "l has 5 elements per item, expected 6"}},
    {   SYRK,                {f32_info, GRAM_INVALID_ARGUMENT, "info has dtype f32, expected i32"}},
    {   SYRK,                                {info_in_x, GRAM_INVALID_ARGUMENT, "info overlaps x"}},
};

static void bad_calls_are_refused(struct harness *h)
{
    for (int i = 0; i < LENGTH(refusals); i++) {
        struct call good, spoilt;
        make_good(&good);
        good.function = refusals[i].function;
        CHECK(h, make_call(h, &good) == GRAM_OK, "the good call: %s", gram_message(h->g));
        make_good(&spoilt);
        spoilt.function = refusals[i].function;
        spoilt.memory = 24;
        refusals[i].refusal.spoil(&spoilt);
        refusal_check(h, &refusals[i].refusal, make_call(h, &spoilt));
    }
}

static const struct test_function tests[] = {
    {     "products_in_pieces",      products_in_pieces},
    {"pieces_can_be_cancelled", pieces_can_be_cancelled},
    {  "bad_calls_are_refused",   bad_calls_are_refused},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
