/*
 * test_mpi_trouble.c - gram_kron_matmul_multi where a rank has bad arguments, lacks memory or
 * fails: all of them get an error, none hangs, and nothing is written
 *
 * SPDX-License-Identifier: MIT
 */
#include "mpi_kron_problem.h"
#ifdef GRAM_TEST_MPI
#  include "backend.h"
#  include <string.h>

/* ---- One rank has trouble ------------------------------------------------------------------ */

/* Every rank gets status, the one in trouble with own in its message, the others with other; nobody
 * has written. */
static void all_refuse(struct harness *h, struct kron_parts *p, gram_status status, const char *own,
                       const char *other)
{
    const char *text = mpi_rank() == 0 ? own : other;
    gram_status got = multiply(h, p);

    CHECK(h, got == status, "%s: %s", gram_status_name(got), gram_message(h->g));
    CHECK(h, strstr(gram_message(h->g), text) != NULL, "\"%s\", expected \"%s\"",
          gram_message(h->g), text);
    for (int64_t i = 0; i < test_count(&p->y.t); i++)
        if (!CHECK(h, test_at(&p->y.t, i) == 77, "y was written"))
            break;
}

static void a_bad_argument_of_one_rank_ends_all(struct harness *h)
{
    for (int split = 0; split < 2; split++) {
        struct kron_parts p;
        set(h, &p, (gram_kron_split)split);
        if (mpi_rank() == 0)
            p.my_x.shape[1]++;
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "x has", "rank 0 failed with GRAM_INVALID");
        take_part(h, &p, (gram_kron_split)split);
        if (mpi_rank() == 0)
            p.options.split = GRAM_KRON_SPLIT_AUTO;
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "options.split is 2", "rank 0 failed");
        take_part(h, &p, (gram_kron_split)split);
        if (mpi_rank() == 0)
            p.options.alpha.value = 2;
        if (gram_communicator_size(mpi_ranks(h)) == 1) { /* with itself a rank agrees */
            kron_parts_drop(h, &p);
            continue;
        }
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "the ranks disagree: options.alpha",
                   "the ranks disagree: options.alpha");
        p.options.alpha.value = 1;
        CHECK(h, multiply(h, &p) == GRAM_OK, "afterwards: %s", gram_message(h->g));
        kron_parts_drop(h, &p);
    }
}

static void other_factors_on_one_rank_are_noticed(struct harness *h)
{
    struct kron_parts p;
    gram_tensor turned[3];
    const gram_tensor *saved[3];

    if (gram_communicator_size(mpi_ranks(h)) == 1)
        return;
    set(h, &p, GRAM_KRON_SPLIT_ROWS);
    memcpy(saved, p.factors, sizeof saved);
    for (int i = 0; i < 3; i++) { /* 6 by 6 seen as 4 by 9 and 9 by 4: x still fits */
        turned[i] = p.factor[i].t;
        turned[i].shape[0] = (int64_t[]){4, 9, 6}[i];
        turned[i].shape[1] = (int64_t[]){4, 9, 6}[i];
        turned[i].stride[0] = 0;
        if (mpi_rank() == 0)
            p.factors[i] = &turned[i];
    }
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "the ranks disagree: the rows of factors[0] is 4",
               "6 on another");
    memcpy(p.factors, saved, sizeof saved);
    kron_parts_drop(h, &p);
}

static void scratch_that_one_rank_lacks_ends_all(struct harness *h)
{
    _Alignas(64) static char little[64];
    struct kron_parts p;

    for (int split = 0; split < 2; split++) {
        set(h, &p, (gram_kron_split)split);
        if (mpi_rank() == 0)
            CHECK(h, gram_context_use_workspace(h->g, little, 64) == GRAM_OK, "%s",
                  gram_message(h->g));
        all_refuse(h, &p, GRAM_OUT_OF_MEMORY, "the given workspace", "rank 0 failed with GRAM_OUT");
        CHECK(h, gram_context_use_workspace(h->g, NULL, 0) == GRAM_OK, "%s", gram_message(h->g));
        kron_parts_drop(h, &p);
    }
}

/* The backend of rank 0, whose product number fails_at fails. */
static int products, fails_at;

static gram_status failing_product(gram_context *g, const struct gram_kron_matmul_op *op)
{
    if (mpi_rank() == 0 && products++ == fails_at)
        return gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test");
    return gram_cpu_backend.kron_matmul(g, op);
}

static void a_rank_that_fails_in_the_middle_ends_all(struct harness *h)
{
    const struct gram_backend *whole = h->g->backend;
    struct gram_backend broken = *whole;

    broken.kron_matmul = failing_product;
    for (fails_at = 0; fails_at < 2; fails_at++) {
        struct kron_parts p;
        set(h, &p, GRAM_KRON_SPLIT_COLUMNS);
        products = 0;
        h->g->backend = &broken;
        all_refuse(h, &p, GRAM_DEVICE_FAILED, "broken for the test", "rank 0 failed with GRAM_DEV");
        h->g->backend = whole;
        CHECK(h, multiply(h, &p) == GRAM_OK, "afterwards: %s", gram_message(h->g));
        kron_parts_drop(h, &p);
    }
}

/* Rank 0 has no memory for one of the blocks of a communicator. */
static void a_communicator_needs_memory_everywhere(struct harness *h)
{
    static struct failing_alloc alloc = FAILING_ALLOC_INIT;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    MPI_Comm world = MPI_COMM_WORLD;
    int64_t blocks = 1;
    gram_context *g;

    failing_alloc_use(&alloc, &options);
    if (!CHECK(h, gram_context_create(&options, &g) == GRAM_OK, "%s", gram_message(NULL)))
        return;
    for (int64_t i = 1; i <= blocks; i++) {
        gram_communicator *c;
        gram_status status;
        failing_alloc_reset(&alloc, 0);
        CHECK(h, gram_communicator_create_mpi(g, &world, sizeof world, &c) == GRAM_OK, "%s",
              gram_message(g));
        gram_communicator_destroy(c);
        blocks = alloc.calls; /* the same on all ranks */
        failing_alloc_reset(&alloc, mpi_rank() == 0 ? i : 0);
        status = gram_communicator_create_mpi(g, &world, sizeof world, &c);
        CHECK(h, status == GRAM_OUT_OF_MEMORY && !c, "block %lld: %s", (long long)i,
              gram_status_name(status));
    }
    CHECK(h, blocks > 1, "%lld blocks", (long long)blocks);
    gram_context_destroy(g);
    CHECK(h, alloc.live == 0, "%lld blocks are left", (long long)alloc.live);
}

/* ---- What is refused ----------------------------------------------------------------------- */

static void refused(struct harness *h, gram_status status, const char *expected)
{
    CHECK(h, status == GRAM_INVALID_ARGUMENT, "%s", gram_status_name(status));
    CHECK(h, strstr(gram_message(h->g), expected) != NULL, "\"%s\", expected \"%s\"",
          gram_message(h->g), expected);
}

static void bad_input_is_named(struct harness *h)
{
    gram_communicator *c = mpi_ranks(h), *none = c;
    MPI_Comm null = MPI_COMM_NULL, world = MPI_COMM_WORLD;
    gram_kron_options o = GRAM_KRON_OPTIONS_INIT;
    gram_kron_part part;
    struct kron_parts p;

    set(h, &p, GRAM_KRON_SPLIT_COLUMNS);
    refused(h, gram_communicator_create_mpi(h->g, &world, 1, &none), "bytes is 1, expected");
    CHECK(h, !none, "a communicator in spite of an error");
    refused(h, gram_communicator_create_mpi(h->g, NULL, sizeof world, &none), "mpi_comm is NULL");
    refused(h, gram_communicator_create_mpi(h->g, &world, sizeof world, NULL), "out is NULL");
    refused(h, gram_communicator_create_mpi(h->g, &null, sizeof null, &none), "MPI_COMM_NULL");
    refused(h, gram_kron_matmul_multi(h->g, &p.my_x, p.factors, 3, &o, &p.my_y),
            "options.communicator is NULL");
    refused(h, gram_kron_matmul_multi(h->g, &p.my_x, p.factors, 3, NULL, &p.my_y),
            "options.communicator is NULL");
    refused(h, gram_kron_matmul(h->g, &p.x.t, p.factors, 3, &p.options, &p.y.t),
            "options.communicator is given");
    refused(h, gram_kron_matmul_part(h->g, -1, p.factors, 3, &p.options, &part), "rows is -1");
    refused(h, gram_kron_matmul_part(h->g, 1, p.factors, 3, &p.options, NULL), "part is NULL");
    refused(h, gram_kron_matmul_part(h->g, 1, p.factors, 0, &p.options, &part), "count is 0");
    p.options.split = (gram_kron_split)3;
    refused(h, gram_kron_matmul_part(h->g, 1, p.factors, 3, &p.options, &part), "split is 3");
    kron_parts_drop(h, &p);
}

int main(int argc, char **argv)
{
    static const struct test_function tests[] = {
        {     "a bad argument of one rank ends all",      a_bad_argument_of_one_rank_ends_all},
        {   "other factors on one rank are noticed",    other_factors_on_one_rank_are_noticed},
        {    "scratch that one rank lacks ends all",     scratch_that_one_rank_lacks_ends_all},
        {"a rank that fails in the middle ends all", a_rank_that_fails_in_the_middle_ends_all},
        {  "a communicator needs memory everywhere",   a_communicator_needs_memory_everywhere},
        {                      "bad input is named",                       bad_input_is_named},
    };

    return mpi_run_tests(&argc, &argv, tests, LENGTH(tests));
}
#endif
