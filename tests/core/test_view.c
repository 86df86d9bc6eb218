/*
 * test_view.c - the door: broadcasting, overlap, hyperparameters and options, from the inside
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/view.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

static float data[4096];

static gram_tensor tensor(int ndim, const int64_t *shape)
{
    gram_tensor t = {.data = data, .dtype = GRAM_F32, .ndim = ndim};
    int64_t step = 1;

    for (int i = ndim - 1; i >= 0; i--) {
        t.shape[i] = shape[i];
        t.stride[i] = step;
        step *= shape[i];
    }
    return t;
}

/* Rounds follow one another without a gap, none has more items than asked, and all but the last one
 * along the dimension that is cut have as many as was said. */
static void a_batch_is_cut_into_rounds(struct harness *h)
{
    static const struct gram_batch batches[] = {
        {0,       {0},  1},
        {1,       {7},  7},
        {2,    {3, 5}, 15},
        {3, {4, 1, 6}, 24},
        {3, {2, 3, 5}, 30},
        {1,       {0},  0},
    };

    for (int i = 0; i < LENGTH(batches); i++)
        for (int64_t most = 1; most < 40; most++) {
            const struct gram_rounds r = gram_rounds_of(&batches[i], most);
            const gram_tensor t = tensor(batches[i].ndim, batches[i].shape);
            struct gram_view v = {.data = (char *)data, .dtype = GRAM_F32};
            int64_t first = 0, count = 0;
            memcpy(v.batch_stride, t.stride, sizeof t.stride);
            for (; first < batches[i].count; first += count) {
                const struct gram_batch round = gram_round_at(&batches[i], &r, first);
                const struct gram_view own = gram_view_alone(&v, &batches[i], first);
                count = round.count;
                CHECK(h, count == r.items || count == r.last_items, "%lld items", (long long)count);
                CHECK(h, count <= most && 2 * r.items > gram_least(most, batches[i].count),
                      "%lld items, rounds of %lld, of at most %lld", (long long)count,
                      (long long)r.items, (long long)most);
                for (int64_t item = 0; item < count; item++)
                    CHECK(h, gram_view_item(&own, &round, item) == (char *)(data + first + item),
                          "item %lld of batch %d", (long long)(first + item), i);
            }
            CHECK(h, first == batches[i].count, "%lld items", (long long)first);
            CHECK(h, batches[i].count == 0 || count == r.last_items, "%lld items at last",
                  (long long)count);
        }
}

/* NumPy's rules: sizes are aligned at the end, 1 stretches, 0 stays. */
static void batches_broadcast(struct harness *h)
{
    static const struct {
        int a_dims, b_dims, dims; /* dims -1: refused */
        int64_t a[3], b[3], joined[3], count;
    } rows[] = {
        {0, 0,  0,       {0},    {0},       {0},  1},
        {1, 0,  1,       {4},    {0},       {4},  4},
        {0, 2,  2,       {0}, {2, 3},    {2, 3},  6},
        {2, 1,  2,    {2, 3},    {3},    {2, 3},  6},
        {2, 2,  2,    {2, 1}, {1, 3},    {2, 3},  6},
        {3, 2,  3, {5, 1, 3}, {4, 1}, {5, 4, 3}, 60},
        {1, 1,  1,       {0},    {1},       {0},  0},
        {1, 1, -1,       {0},    {3},       {0},  0},
        {1, 1, -1,       {2},    {3},       {0},  0},
        {2, 2, -1,    {2, 3}, {2, 4},       {0},  0},
    };

    for (int r = 0; r < LENGTH(rows); r++) {
        struct gram_batch batch = {.count = 1};
        gram_tensor a = tensor(rows[r].a_dims, rows[r].a), b = tensor(rows[r].b_dims, rows[r].b);
        gram_status status;
        h->g->call = "test";
        CHECK(h, gram_batch_join(h->g, &batch, "a", &a, 0) == GRAM_OK, "%s", gram_message(h->g));
        status = gram_batch_join(h->g, &batch, "b", &b, 0);
        if (rows[r].dims < 0) {
            CHECK(h, status == GRAM_INVALID_ARGUMENT, "row %d: %s", r, gram_status_name(status));
            CHECK(h, strstr(gram_message(h->g), "test: b has batch shape ("), "%s",
                  gram_message(h->g));
            continue;
        }
        CHECK(h, status == GRAM_OK, "row %d: %s", r, gram_message(h->g));
        CHECK(h, batch.ndim == rows[r].dims && batch.count == rows[r].count, "row %d: %d, %lld", r,
              batch.ndim, (long long)batch.count);
        CHECK(h, memcmp(batch.shape, rows[r].joined, sizeof *batch.shape * (size_t)batch.ndim) == 0,
              "row %d", r);
    }
}

static void items_of_a_view(struct harness *h)
{
    int64_t big[] = {2, 3, 4, 5}, small[] = {3, 1, 5};
    gram_tensor a = tensor(4, big), b = tensor(3, small);
    struct gram_batch batch = {.count = 1};
    struct gram_view v;

    CHECK(h, gram_batch_join(h->g, &batch, "a", &a, 2) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_batch_join(h->g, &batch, "b", &b, 2) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, batch.count == 6, "%lld items", (long long)batch.count);
    CHECK(h, gram_view_of(h->g, &batch, "b", &b, 2, GRAM_READ, &v) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, v.rows == 1 && v.cols == 5 && v.row_stride == 5 && v.col_stride == 1, "b's shape");
    for (int64_t i = 0; i < 6; i++)
        CHECK(h, gram_view_item(&v, &batch, i) == (char *)(data + i % 3 * 5), "b's item %d",
              (int)i);
    CHECK(h, gram_view_of(h->g, &batch, "a", &a, 2, GRAM_WRITE, &v) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int64_t i = 0; i < 6; i++)
        CHECK(h, gram_view_item(&v, &batch, i) == (char *)(data + i * 20), "a's item %d", (int)i);
    CHECK(h, gram_view_of(h->g, &batch, "b", &b, 2, GRAM_WRITE, &v) == GRAM_INVALID_ARGUMENT,
          "an output of a smaller batch");
}

static void outputs_without_two_elements_in_one_place(struct harness *h)
{
    static const struct {
        int64_t shape[3], stride[3];
        gram_status status;
    } rows[] = {
        {{2, 3, 4},    {12, 4, 1},               GRAM_OK},
        {{2, 3, 4},     {1, 2, 6},               GRAM_OK}, /* all dimensions the other way */
        {{2, 3, 4}, {-12, -4, -1},               GRAM_OK},
        {{2, 3, 4},  {100, 10, 2},               GRAM_OK},
        {{2, 3, 4},    {12, 4, 0}, GRAM_INVALID_ARGUMENT},
        {{2, 3, 4},    {12, 3, 1}, GRAM_INVALID_ARGUMENT}, /* rows overlap by one */
        {{2, 3, 4},    {11, 4, 1}, GRAM_INVALID_ARGUMENT},
        {{1, 3, 1},     {0, 1, 0},               GRAM_OK}, /* strides of single elements */
        {{2, 0, 4},     {0, 0, 0},               GRAM_OK}, /* nothing at all */
    };

    for (int r = 0; r < LENGTH(rows); r++) {
        struct gram_batch batch = {.count = 1};
        gram_tensor t = tensor(3, rows[r].shape);
        struct gram_view v;
        gram_status status;
        memcpy(t.stride, rows[r].stride, sizeof rows[r].stride);
        t.data = data + 2000;
        status = gram_view_of(h->g, &batch, "t", &t, 3, GRAM_WRITE, &v);
        CHECK(h, status == rows[r].status, "row %d: %s", r, gram_status_name(status));
    }
}

static void overlap_of_two_tensors(struct harness *h)
{
    gram_tensor a = gram_matrix(data, 10, 8, GRAM_F32), b;

    b = gram_matrix(data + 79, 10, 8, GRAM_F32);
    CHECK(h, gram_tensors_overlap(&a, &b), "the last element of a is the first of b");
    b = gram_matrix(data + 80, 10, 8, GRAM_F32);
    CHECK(h, !gram_tensors_overlap(&a, &b), "one ends where the other begins");
    b.data = data + 80 + 79;
    b.stride[0] = -8, b.stride[1] = -1;
    CHECK(h, !gram_tensors_overlap(&a, &b) && !gram_tensors_overlap(&b, &a), "reversed, after");
    b.data = data + 80 + 78;
    CHECK(h, gram_tensors_overlap(&a, &b) && gram_tensors_overlap(&b, &a), "reversed, into");
    a = gram_matrix(data, 10, 3, GRAM_F32), b = gram_matrix(data + 3, 10, 5, GRAM_F32);
    a.stride[0] = b.stride[0] = 8;
    CHECK(h, !gram_tensors_overlap(&a, &b) && !gram_tensors_overlap(&b, &a), "columns 0-2 and 3-7");
    b.data = data + 2;
    CHECK(h, gram_tensors_overlap(&a, &b), "columns 0-2 and 2-6");
    b.data = data + 4;
    CHECK(h, gram_tensors_overlap(&a, &b), "columns 4-8 go into the next row's column 0");
    b.shape[0] = 0;
    CHECK(h, !gram_tensors_overlap(&a, &b), "an empty tensor overlaps nothing");
}

static void hyperparameters(struct harness *h)
{
    double values[3] = {0.5, 2, NAN};
    gram_tensor t = gram_vector(values, 3, GRAM_F64), narrow = gram_vector(data, 3, GRAM_F16);
    struct gram_batch batch = {
        .ndim = 2, .shape = {2, 3},
             .count = 6
    };
    struct gram_hyper hyper;

    CHECK(h, gram_hyper_of(h->g, &batch, "p", gram_values(&t), &hyper) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int64_t i = 0; i < 6; i++)
        CHECK(h, i % 3 == 2 || gram_hyper_at(&hyper, &batch, i) == values[i % 3], "%d", (int)i);
    CHECK(h, gram_hyper_check(h->g, &batch, "p", &hyper, 0, INFINITY, false) != GRAM_OK, "NaN");
    values[2] = 0;
    CHECK(h, gram_hyper_check(h->g, &batch, "p", &hyper, 0, INFINITY, false) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, gram_hyper_check(h->g, &batch, "p", &hyper, 0, INFINITY, true) != GRAM_OK, "open");
    CHECK(h, gram_hyper_check(h->g, &batch, "p", &hyper, 0, 1, false) != GRAM_OK, "2 above 1");
    CHECK(h, gram_hyper_of(h->g, &batch, "p", gram_values(&narrow), &hyper) != GRAM_OK, "f16");
}

static void options_of_older_and_newer_headers(struct harness *h)
{
    gram_kernel_options mine = GRAM_KERNEL_OPTIONS_INIT, given = GRAM_KERNEL_OPTIONS_INIT;

    CHECK(h, gram_options_copy(h->g, &mine, sizeof mine, NULL) == GRAM_OK, "NULL");
    given.size = offsetof(gram_kernel_options, alpha);
    given.exponent = gram_number(7);
    given.alpha = gram_number(7);
    CHECK(h, gram_options_copy(h->g, &mine, sizeof mine, &given) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, mine.exponent.value == 7 && mine.alpha.value == 1, "%g, %g", mine.exponent.value,
          mine.alpha.value);
    given.size = sizeof given + 1;
    CHECK(h, gram_options_copy(h->g, &mine, sizeof mine, &given) == GRAM_INVALID_ARGUMENT, "newer");
    given.size = 1;
    CHECK(h, gram_options_copy(h->g, &mine, sizeof mine, &given) == GRAM_INVALID_ARGUMENT, "1");
}

static const struct test_function tests[] = {
    {               "a_batch_is_cut_into_rounds",                a_batch_is_cut_into_rounds},
    {                        "batches_broadcast",                         batches_broadcast},
    {                          "items_of_a_view",                           items_of_a_view},
    {"outputs_without_two_elements_in_one_place", outputs_without_two_elements_in_one_place},
    {                   "overlap_of_two_tensors",                    overlap_of_two_tensors},
    {                          "hyperparameters",                           hyperparameters},
    {       "options_of_older_and_newer_headers",        options_of_older_and_newer_headers},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
