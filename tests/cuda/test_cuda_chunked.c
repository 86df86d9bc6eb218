/*
 * test_cuda_chunked.c - gram_matmul_chunked on the device: pieces of what is there, and of what is
 * on the CPU
 *
 * Without a device and outside of the emulation: skipped.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/reference/reference.h"
#include "tests/core/refusal.h"
#include <stdlib.h>
#include <string.h>

enum {
    A = 1, /* on the CPU */
    B = 2,
    C = 4,
    OUT = 8,
    ALL = 15,
    PINNED = 16 /* what is on the CPU is known to the driver */
};

struct row {
    int64_t m, n, k, batch; /* batch 0: none */
    gram_dtype dtype;
    enum layout layout[3], out_layout;
    int host;
    size_t elements; /* of memory; 0: half of what there is */
    bool c_apart, c_same, transposed;
    const char *why;
};

/* clang-format off */
static const struct row rows[] = {
    {.m = 50, .n = 40, .k = 30, .dtype = GRAM_F32, .elements = 0, .why = "on the device, it fits"},
    {.m = 300, .n = 280, .k = 9, .dtype = GRAM_F64, .elements = 89219,
     .why = "on the device, one number too many"},
    {.m = 300, .n = 270, .k = 12, .dtype = GRAM_F32, .elements = 40000,
     .c_same = true, .why = "on the device, c is out, its 256 by 256 do not fit"},
    {.m = 60, .n = 50, .k = 40, .dtype = GRAM_F64, .elements = 900, .c_apart = true,
     .layout = {EVERY_SECOND, REVERSED, PADDED}, .why = "on the device, many pieces, no unit stride"},
    {.m = 50, .n = 40, .k = 30, .dtype = GRAM_F32, .host = ALL, .why = "all on the CPU"},
    {.m = 50, .n = 40, .k = 30, .dtype = GRAM_F32, .host = ALL | PINNED, .why = "all of it pinned"},
    {.m = 700, .n = 600, .k = 3, .dtype = GRAM_F32, .host = ALL, .elements = 350000,
     .why = "several tiles: slots are used again"},
    {.m = 700, .n = 600, .k = 3, .dtype = GRAM_F64, .host = ALL | PINNED, .elements = 350000,
     .c_apart = true, .layout = {COLUMN_MAJOR, PADDED}, .out_layout = COLUMN_MAJOR,
     .why = "several tiles, pinned, each its own layout"},
    {.m = 600, .n = 300, .k = 4, .dtype = GRAM_F32, .host = B | OUT, .elements = 290000,
     .c_same = true, .why = "b and out on the CPU: turned"},
    {.m = 300, .n = 520, .k = 5, .dtype = GRAM_F64, .host = A, .elements = 150000,
     .layout = {REVERSED, COLUMN_MAJOR}, .out_layout = PADDED, .why = "a alone on the CPU, reversed"},
    {.m = 400, .n = 520, .k = 5, .dtype = GRAM_F32, .host = C, .elements = 220000, .c_apart = true,
     .why = "c alone on the CPU"},
    {.m = 40, .n = 30, .k = 200, .dtype = GRAM_F32, .host = ALL, .elements = 4000,
     .c_same = true, .out_layout = EVERY_SECOND, .why = "a long sum"},
    {.m = 40, .n = 30, .k = 35, .batch = 3, .dtype = GRAM_F64, .host = A | B | OUT,
     .elements = 9000, .transposed = true, .why = "a batch"},
    {.m = 5, .n = 6, .k = 0, .dtype = GRAM_F32, .host = ALL, .elements = 40,
     .c_apart = true, .why = "no terms"},
    {.m = 0, .n = 6, .k = 4, .dtype = GRAM_F32, .host = ALL, .elements = 1, .why = "no rows"},
    {.m = 5, .n = 4, .k = 3, .dtype = GRAM_F32, .host = ALL, .elements = 8,
     .why = "two of each number"},
};
/* clang-format on */

/* A tensor where a row wants it: the test's own, one of the device or pinned memory. */
struct operand {
    struct test_tensor own;
    struct test_copy there;
    gram_tensor pinned;
    void *memory;
    gram_tensor *t;
};

struct product {
    gram_context *g;
    const struct row *row;
    struct operand a, b, c, out;
    struct test_tensor whole; /* what gram_matmul_batched gives */
    struct test_copy whole_there;
    gram_matmul_options options;
};

static bool place(struct harness *h, const struct row *row, int which, struct operand *o)
{
    o->t = &o->own.t;
    if (!test_send(h, &o->own, &o->there))
        return false;
    if (!(row->host & which)) {
        o->t = &o->there.t;
        return true;
    }
    if (!(row->host & PINNED))
        return true;
    o->memory = device_pinned(8 * (size_t)test_count(&o->own.t) + 8);
    o->pinned = (gram_tensor){.data = o->memory, .dtype = o->own.t.dtype, .ndim = o->own.t.ndim};
    memcpy(o->pinned.shape, o->own.t.shape, sizeof o->pinned.shape);
    for (int i = o->own.t.ndim - 1, step = 1; i >= 0; step *= (int)o->own.t.shape[i--])
        o->pinned.stride[i] = step;
    for (int64_t i = 0; i < test_count(&o->own.t); i++)
        test_put(&o->pinned, i, test_at(&o->own.t, i));
    o->t = &o->pinned;
    return CHECK(h, o->memory != NULL, "no pinned memory");
}

static void make(struct harness *h, const struct row *row, int64_t m, int64_t n, enum layout layout,
                 struct test_tensor *t)
{
    const int64_t shape[3] = {row->batch, m, n};

    test_tensor_create(h, t, row->dtype, layout, row->batch ? 3 : 2, shape + !row->batch);
    test_fill_integers(h, t, 64); /* sums are exact, so that no order of them is another */
}

static bool make_product(struct harness *h, const struct row *row, struct product *p)
{
    const bool t = row->transposed;

    *p = (struct product){.g = h->g, .row = row, .options = GRAM_MATMUL_OPTIONS_INIT};
    make(h, row, t ? row->k : row->m, t ? row->m : row->k, row->layout[0], &p->a.own);
    make(h, row, row->k, row->n, row->layout[1], &p->b.own);
    make(h, row, row->m, row->n, row->layout[2], &p->c.own);
    make(h, row, row->m, row->n, row->out_layout, &p->out.own);
    make(h, row, row->m, row->n, row->out_layout, &p->whole);
    for (int64_t i = 0; i < test_count(&p->c.own.t); i++) {
        test_put(&p->out.own.t, i, test_at(&p->c.own.t, i));
        test_put(&p->whole.t, i, test_at(&p->c.own.t, i));
    }
    if (!place(h, row, A, &p->a) || !place(h, row, B, &p->b) || !place(h, row, C, &p->c) ||
        !place(h, row, OUT, &p->out) || !test_send(h, &p->whole, &p->whole_there))
        return false;
    p->options.transpose_a = t;
    p->options.alpha = gram_number(-0.5);
    if (row->c_apart || row->c_same) {
        p->options.beta = gram_number(2);
        p->options.c = row->c_same ? p->out.t : p->c.t;
    }
    return true;
}

/* All of it at once, on the device. */
static void multiply_whole(struct harness *h, struct product *p)
{
    gram_matmul_options o = p->options;

    if (o.c)
        o.c = p->row->c_same ? &p->whole_there.t : &p->c.there.t;
    CHECK(h,
          gram_matmul_batched(p->g, &p->a.there.t, &p->b.there.t, &o, &p->whole_there.t) == GRAM_OK,
          "%s", gram_message(p->g));
    CHECK(h, gram_context_synchronize(p->g) == GRAM_OK, "%s", gram_message(p->g));
    test_fetch(h, &p->whole, &p->whole_there);
}

static void compare(struct harness *h, const struct product *p, const gram_tensor *got)
{
    gram_matmul_options o = p->options;
    struct reference_batch batch =
        reference_join(1, (const gram_tensor *[]){&p->whole.t}, (int[]){2});
    const int64_t m = p->row->m, n = p->row->n, step = test_count(got) > 9999 ? 97 : 1;

    o.c = &p->c.own.t;
    for (int64_t e = 0; e < test_count(got); e += step) {
        double magnitude, want;
        want = reference_matmul_batched(&p->a.own.t, &p->b.own.t, &o, &batch,
                                        (int64_t[]){e / n / m, e / n % m, e % n}, &magnitude);
        CHECK(h, test_at(got, e) == want, "element %lld is %.17g, expected %.17g", (long long)e,
              test_at(got, e), want);
    }
    for (int64_t e = 0; e < test_count(got); e++)
        if (!CHECK(h, test_at(got, e) == test_at(&p->whole.t, e),
                   "element %lld is %.17g, of the whole product %.17g", (long long)e,
                   test_at(got, e), test_at(&p->whole.t, e)))
            return;
}

static void drop(struct harness *h, struct operand *o, const char *name)
{
    device_unpin(o->memory);
    if (o->there.memory)
        device_release(o->there.memory);
    test_tensor_destroy(h, &o->own, name);
}

static gram_status multiply(struct harness *h, void *product, gram_workspace *need)
{
    struct product *p = product;
    const size_t memory = p->row->elements * gram_dtype_size(p->row->dtype);

    return need ? gram_matmul_chunked_workspace(h->g, p->a.t, p->b.t, &p->options, memory, p->out.t,
                                                need)
                : gram_matmul_chunked(h->g, p->a.t, p->b.t, &p->options, memory, p->out.t);
}

static void products_in_pieces(struct harness *h)
{
    for (int i = 0; i < LENGTH(rows); i++) {
        struct product p;
        h->where = rows[i].why;
        if (make_product(h, &rows[i], &p)) {
            multiply_whole(h, &p);
            if (rows[i].c_same
                    ? CHECK(h, multiply(h, &p, NULL) == GRAM_OK, "%s", gram_message(h->g))
                    : test_in_exact_scratch(h, multiply, &p)) {
                CHECK(h, gram_context_synchronize(h->g) == GRAM_OK, "%s", gram_message(h->g));
                if (!(rows[i].host & OUT))
                    test_fetch(h, &p.out.own, &p.out.there), p.out.there.memory = NULL;
                compare(h, &p, rows[i].host & OUT ? p.out.t : &p.out.own.t);
            }
        }
        drop(h, &p.a, "a");
        drop(h, &p.b, "b");
        drop(h, &p.c, "c");
        drop(h, &p.out, "out");
        test_tensor_destroy(h, &p.whole, "whole");
    }
}

static void pieces_can_be_cancelled(struct harness *h)
{
    static const struct row row = {
        .m = 9, .n = 8, .k = 3, .dtype = GRAM_F32, .host = ALL, .elements = 90};
    struct product p;

    if (!make_product(h, &row, &p))
        return;
    gram_context_cancel(h->g);
    CHECK(h, multiply(h, &p, NULL) == GRAM_CANCELLED, "%s", gram_message(h->g));
    CHECK(h, multiply(h, &p, NULL) == GRAM_OK, "%s", gram_message(h->g));
    multiply_whole(h, &p);
    compare(h, &p, p.out.t);
    drop(h, &p.a, "a");
    drop(h, &p.b, "b");
    drop(h, &p.c, "c");
    drop(h, &p.out, "out");
    test_tensor_destroy(h, &p.whole, "whole");
}

static void bad_calls_are_refused(struct harness *h)
{
    double data[9] = {0};
    gram_tensor a = gram_matrix(data, 3, 2, GRAM_F64), b = gram_matrix(data, 2, 3, GRAM_F64);
    double result[9];
    gram_tensor out = gram_matrix(result, 3, 3, GRAM_F64), other = out;

    CHECK(h,
          gram_matmul_chunked(h->g, &a, &b, NULL, 40, &out) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "gram_matmul_chunked: memory is 40 bytes"),
          "%s", gram_message(h->g));
    CHECK(h,
          gram_matmul_chunked(h->g, &a, &a, NULL, 0, &out) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "a has 2 columns but b has 3 rows"),
          "%s", gram_message(h->g));
    CHECK(h,
          gram_matmul_chunked(h->g, &a, NULL, NULL, 0, &out) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "b is NULL"),
          "%s", gram_message(h->g));
    other.device = (gram_device){GRAM_CUDA, h->device.index + 1};
    CHECK(h,
          gram_matmul_chunked(h->g, &a, &b, NULL, 0, &other) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "out is on device"),
          "%s", gram_message(h->g));
}

static const struct test_function tests[] = {
    {     "products_in_pieces",      products_in_pieces},
    {"pieces_can_be_cancelled", pieces_can_be_cancelled},
    {  "bad_calls_are_refused",   bad_calls_are_refused},
};

int main(void)
{
    if (gram_best_device().type != GRAM_CUDA || !device_open(0)) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    if (setenv("GRAM_TEST_DEVICE", "cuda", 1) != 0)
        return 1;
    return harness_run_tests_where_asked(tests, LENGTH(tests));
}
