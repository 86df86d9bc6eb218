/*
 * test_mpi_matmul.c - gram_kernel_matmul_multi on the ranks of MPI: against one process, and where
 * a rank has bad arguments, lacks memory or fails
 *
 * SPDX-License-Identifier: MIT
 */
#include "mpi_ranks.h"
#ifdef GRAM_TEST_MPI
#  include "core/backend.h"
#  include "matmul_parts.h"
#  include <string.h>

static void set(struct harness *h, struct matmul_parts *p, int row)
{
    harness_seed(h, "mpi_matmul", row);
    matmul_parts_make(h, p, &matmul_parts_table[row]);
    matmul_parts_take(p, mpi_ranks(h));
}

static void parts_make_the_whole(struct harness *h)
{
    for (int row = 0; row < MATMUL_PARTS_ROWS; row++) {
        char name[48];
        struct matmul_parts p;
        snprintf(name, sizeof name, "row %d", row);
        h->where = name;
        set(h, &p, row);
        CHECK(h, matmul_parts_multiply(h->g, &p) == GRAM_OK, "%s", gram_message(h->g));
        matmul_parts_compare(h, &p);
        matmul_parts_drop(h, &p);
    }
}

/* Not one bit, whatever the threads of the ranks. */
static void a_call_is_repeated_exactly(struct harness *h)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    struct test_tensor first;
    struct matmul_parts p;
    gram_context *other;

    o.threads = 1 + mpi_rank() % 3;
    CHECK(h, gram_context_create(&o, &other) == GRAM_OK, "%s", gram_message(NULL));
    set(h, &p, 0);
    test_tensor_create(h, &first, GRAM_F32, ROW_MAJOR, 2, p.out.t.shape);
    CHECK(h, matmul_parts_multiply(h->g, &p) == GRAM_OK, "%s", gram_message(h->g));
    for (int64_t i = 0; i < test_count(&first.t); i++)
        test_put(&first.t, i, test_at(&p.out.t, i));
    CHECK(h, matmul_parts_multiply(other, &p) == GRAM_OK, "%s", gram_message(other));
    for (int64_t i = 0; i < test_count(&first.t); i++)
        if (!CHECK(h, test_at(&first.t, i) == test_at(&p.out.t, i), "element %lld", (long long)i))
            break;
    gram_context_destroy(other);
    test_tensor_destroy(h, &first, "first");
    matmul_parts_drop(h, &p);
}

static gram_status multiply_or_ask(struct harness *h, void *problem, gram_workspace *need)
{
    struct matmul_parts *p = problem;

    if (need)
        return gram_kernel_matmul_multi_workspace(h->g, &p->my_x, p->row->n ? &p->my_y : NULL,
                                                  &p->kernel, &p->my_v, &p->options, &p->my_out,
                                                  need);
    return matmul_parts_multiply(h->g, p);
}

static void scratch_is_told_exactly(struct harness *h)
{
    static const int rows[] = {0, 11, 12};

    for (int i = 0; i < LENGTH(rows); i++) {
        struct matmul_parts p;
        set(h, &p, rows[i]);
        CHECK(h, test_in_exact_scratch(h, multiply_or_ask, &p), "%s", gram_message(h->g));
        matmul_parts_drop(h, &p);
    }
}

/* Every rank gets status, the one in trouble with own in its message, the others with other; nobody
 * has written.  p is dropped. */
static void all_refuse(struct harness *h, struct matmul_parts *p, gram_status status,
                       const char *own, const char *other)
{
    mpi_expect_refusal(h, matmul_parts_multiply(h->g, p), status, own, other);
    for (int64_t i = 0; i < test_count(&p->out.t); i++)
        if (!CHECK(h, test_at(&p->out.t, i) == 77, "out was written"))
            break;
    matmul_parts_drop(h, p);
}

/* The message of the rank in trouble reaches the others. */
static void a_bad_argument_of_one_rank_ends_all(struct harness *h)
{
    struct matmul_parts p;

    set(h, &p, 0);
    if (mpi_rank() == 0)
        p.my_v.shape[0]++;
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "v has",
               "rank 0 failed with GRAM_INVALID_ARGUMENT: v has");
    set(h, &p, 0);
    if (mpi_rank() == 0)
        p.kernel.bandwidth.value = -1;
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "options.bandwidth is -1",
               "rank 0 failed with GRAM_INVALID_ARGUMENT: options.bandwidth is -1");
    set(h, &p, 11);
    if (mpi_rank() == 0)
        p.my_x.shape[0]--;
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT,
               gram_communicator_size(mpi_ranks(h)) > 1 ? "the ranks disagree: the number of points"
                                                        : "x has 599 rows with options.all_points",
               "the ranks disagree: the number of points of x is 599 on one rank and 600");
}

static void other_options_of_one_rank_are_noticed(struct harness *h)
{
    static const struct matmul_parts_row with_y = {.n = 1};
    struct matmul_parts p;

    if (gram_communicator_size(mpi_ranks(h)) == 1)
        return;
    for (int way = 0; way < 4; way++) {
        static const char *const texts[] = {"the bits of kernel.bandwidth", "kernel.function",
                                            "the number of columns of v", "y, NULL or not,"};
        set(h, &p, 4);
        if (mpi_rank() == 0) {
            p.kernel.bandwidth.value += way == 0;
            p.kernel.function = way == 1 ? GRAM_LAPLACE : p.kernel.function;
            p.my_v.shape[1] -= way == 2;
            p.my_out.shape[1] -= way == 2;
            if (way == 3)
                p.row = &with_y;
            p.my_y = p.my_x;
        }
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, texts[way], texts[way]);
    }
}

static void scratch_that_one_rank_lacks_ends_all(struct harness *h)
{
    _Alignas(64) static char little[64];
    struct matmul_parts p;

    set(h, &p, 0);
    if (mpi_rank() == 0)
        CHECK(h, gram_context_use_workspace(h->g, little, 64) == GRAM_OK, "%s", gram_message(h->g));
    all_refuse(h, &p, GRAM_OUT_OF_MEMORY, "the given workspace", "rank 0 failed with GRAM_OUT");
    CHECK(h, gram_context_use_workspace(h->g, NULL, 0) == GRAM_OK, "%s", gram_message(h->g));
}

static gram_status failing_product(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    if (mpi_rank() == 0 && !g->measure)
        return gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test");
    return gram_cpu_backend.kernel_matmul(g, op);
}

static void a_rank_that_fails_in_the_middle_ends_all(struct harness *h)
{
    const struct gram_backend *whole = h->g->backend;
    struct gram_backend broken = *whole;
    struct matmul_parts p;

    broken.kernel_matmul = failing_product;
    set(h, &p, 0);
    h->g->backend = &broken;
    all_refuse(h, &p, GRAM_DEVICE_FAILED, "broken for the test",
               "rank 0 failed with GRAM_DEVICE_FAILED: broken for the test");
    h->g->backend = whole;
    set(h, &p, 0);
    CHECK(h, matmul_parts_multiply(h->g, &p) == GRAM_OK, "afterwards: %s", gram_message(h->g));
    matmul_parts_compare(h, &p);
    matmul_parts_drop(h, &p);
}

static void refused(struct harness *h, gram_status status, const char *expected)
{
    CHECK(h, status == GRAM_INVALID_ARGUMENT || status == GRAM_UNSUPPORTED, "%s",
          gram_status_name(status));
    CHECK(h, strstr(gram_message(h->g), expected) != NULL, "\"%s\", expected \"%s\"",
          gram_message(h->g), expected);
}

static void bad_input_is_named(struct harness *h)
{
    gram_tensor batch[3];
    struct matmul_parts p;

    set(h, &p, 4);
    refused(h, gram_kernel_matmul(h->g, &p.x.t, NULL, &p.kernel, &p.v.t, &p.options, &p.out.t),
            "options.communicator is given");
    p.options.communicator = NULL;
    refused(h, matmul_parts_multiply(h->g, &p), "options.communicator is NULL");
    p.options.communicator = mpi_ranks(h);
    for (int i = 0; i < 3; i++) {
        const gram_tensor *const all[] = {&p.my_x, &p.my_v, &p.my_out};
        batch[i] = *all[i];
        batch[i].ndim = 3;
        for (int d = 2; d > 0; d--) {
            batch[i].shape[d] = batch[i].shape[d - 1];
            batch[i].stride[d] = batch[i].stride[d - 1];
        }
        batch[i].shape[0] = 1;
    }
    refused(h,
            gram_kernel_matmul_multi(h->g, &batch[0], NULL, &p.kernel, &batch[1], &p.options,
                                     &batch[2]),
            "1 batch dimensions");
    matmul_parts_drop(h, &p);
}

int main(int argc, char **argv)
{
    static const struct test_function tests[] = {
        {                    "parts make the whole",                     parts_make_the_whole},
        {              "a call is repeated exactly",               a_call_is_repeated_exactly},
        {                 "scratch is told exactly",                  scratch_is_told_exactly},
        {     "a bad argument of one rank ends all",      a_bad_argument_of_one_rank_ends_all},
        {   "other options of one rank are noticed",    other_options_of_one_rank_are_noticed},
        {    "scratch that one rank lacks ends all",     scratch_that_one_rank_lacks_ends_all},
        {"a rank that fails in the middle ends all", a_rank_that_fails_in_the_middle_ends_all},
        {                      "bad input is named",                       bad_input_is_named},
    };

    return mpi_run_tests(&argc, &argv, tests, LENGTH(tests));
}
#endif
