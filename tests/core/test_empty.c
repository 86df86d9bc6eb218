/*
 * test_empty.c - every operation with a batch of no items, in each of its arguments alone
 *
 * An empty batch of one argument makes the call's empty, though the other arguments have an item
 * each: nothing of them may be taken for a part of the batch.  Calls and workspace queries, all
 * arguments that have a batch, numbers per item too, and a batch whose stride is 0, as NumPy's
 * broadcast_to makes it; on the device that GRAM_TEST_DEVICE names.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "tests/fuzz/shape_calls.h"
#include <string.h>
#include <unistd.h>

enum {
    BYTES = 2048
};

/* The memory of each tensor, where the context computes. */
static void *memory[SHAPE_TENSORS];

/* The i'th tensor, with a batch of so many items in front; -1: without. */
static void lay(struct harness *h, const struct shape_row *row, int i, int64_t batch,
                gram_tensor *t)
{
    const double number = 0.5; /* within the range of every hyperparameter */
    char name[SHAPE_NAME];

    if (!shape_tensor(row, i, batch, t))
        return;
    t->device = h->device;
    t->data = batch == 0 ? NULL : memory[i];
    if (batch != 0 && !strpbrk(shape_name(row, i, name), "!=+ "))
        CHECK(h, gram_memory_copy(h->g, memory[i], &number, sizeof number) == GRAM_OK, "%s",
              gram_message(h->g));
}

/* Whether the i'th tensor is empty where that of index empty is: itself, and outputs that follow.
 */
static bool is_empty(const struct shape_row *row, int i, int empty)
{
    char name[SHAPE_NAME];
    const char *mark = shape_name(row, i, name) ? strpbrk(name, "!=+") : NULL;

    if (empty == SHAPE_TENSORS || (mark && *mark == '!'))
        return true;
    return empty == (!mark ? i : *mark == '=' ? 0 : i - 1);
}

/* Input empty alone has a batch of 0, or with SHAPE_TENSORS every one.  flat: of stride 0. */
static void try_one(struct harness *h, const struct shape_row *row, int empty, bool flat)
{
    struct shape_call c = {.query = false};
    char name[SHAPE_NAME] = "all";
    gram_status status, expected;

    if (empty < SHAPE_TENSORS)
        (void)shape_name(row, empty, name);
    expected = strchr(name, '~') ? GRAM_INVALID_ARGUMENT : GRAM_OK;
    for (int i = 0; i < SHAPE_TENSORS; i++) {
        lay(h, row, i, is_empty(row, i, empty) ? 0 : -1, &c.t[i]);
        if (flat && is_empty(row, i, empty))
            c.t[i].stride[0] = 0;
    }
    for (int query = 1; query >= 0; query--) {
        c.query = query;
        status = row->run(h->g, &c);
        CHECK(h, status == expected, "%s, %s empty%s, %s: %s \"%s\"", row->name, name,
              flat ? " of stride 0" : "", query ? "query" : "call", gram_status_name(status),
              gram_message(h->g));
    }
    CHECK(h, gram_context_synchronize(h->g) == GRAM_OK, "%s", gram_message(h->g));
}

/* 9 on the diagonal of the square matrices, definite whatever their order. */
static void fill(struct harness *h)
{
    double values[BYTES / sizeof(double)];

    for (int i = 0; i < LENGTH(values); i++)
        values[i] = i % 5 == 0 ? 9 : 0.25;
    for (int i = 0; i < SHAPE_TENSORS; i++)
        CHECK(h,
              memory[i] || (gram_memory_allocate(h->g, BYTES, &memory[i]) == GRAM_OK &&
                            gram_memory_copy(h->g, memory[i], values, BYTES) == GRAM_OK),
              "%s", gram_message(h->g));
}

static void try_all(struct harness *h, bool flat)
{
    char name[SHAPE_NAME];

    fill(h);
    for (const struct shape_row *row = shape_rows; row->name; row++) {
        for (int i = 0; shape_name(row, i, name); i++)
            if (!strpbrk(name, "!=+"))
                try_one(h, row, i, flat);
        try_one(h, row, SHAPE_TENSORS, flat);
    }
    for (int i = 0; i < SHAPE_TENSORS; i++) {
        gram_memory_free(h->g, memory[i], BYTES);
        memory[i] = NULL;
    }
}

static void each_argument_empty_alone(struct harness *h)
{
    try_all(h, false);
}

static void an_empty_batch_of_stride_0_has_no_first_item(struct harness *h)
{
    try_all(h, true);
}

/* A number for items without elements, as many as an int64_t counts, is looked at once. */
static void a_number_for_endless_items_ends(struct harness *h)
{
    double number = 0.5, memory_of_out[20];
    gram_tensor y = gram_matrix(memory_of_out, 5, 3, GRAM_F64),
                p = gram_vector(&number, 1, GRAM_F64);
    gram_tensor x = {
        .dtype = GRAM_F64, .ndim = 3, .shape = {INT64_MAX / 64, 0, 3},
                .stride = {             0, 3, 1}
    };
    gram_tensor out = gram_matrix(memory_of_out, 4, 5, GRAM_F64);
    gram_workspace need;
    gram_context *g = NULL;

    /* On a device the numbers are looked at where they are used. */
    CHECK(h, gram_context_create(NULL, &g) == GRAM_OK, "no context of the CPU");
    p.ndim = 0;
    alarm(600); /* it would take ages */
    CHECK(h, gram_cdist(g, &x, &y, gram_values(&p), NULL, &out) == GRAM_INVALID_ARGUMENT,
          "out has no batch");
    CHECK(h, strstr(gram_message(g), "out has"), "%s", gram_message(g));
    out.ndim = 3, out.shape[0] = x.shape[0], out.shape[1] = 0, out.shape[2] = 5;
    out.stride[0] = 0, out.stride[1] = 5, out.stride[2] = 1;
    CHECK(h, gram_cdist_workspace(g, &x, &y, gram_values(&p), NULL, &out, &need) == GRAM_OK, "%s",
          gram_message(g));
    number = -1;
    CHECK(h, gram_cdist(g, &x, &y, gram_values(&p), NULL, &out) == GRAM_INVALID_ARGUMENT,
          "p is -1");
    (void)alarm(0);
    gram_context_destroy(g);
}

static const struct test_function tests[] = {
    {             "a_number_for_endless_items_ends",              a_number_for_endless_items_ends},
    {                   "each_argument_empty_alone",                    each_argument_empty_alone},
    {"an_empty_batch_of_stride_0_has_no_first_item", an_empty_batch_of_stride_0_has_no_first_item},
};

int main(void)
{
    return harness_run_tests_where_asked(tests, LENGTH(tests));
}
