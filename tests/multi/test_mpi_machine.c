/*
 * test_mpi_machine.c - gram_machine_fit on the ranks of MPI: solves of a single leaf and the halves
 * of a search, which they share, and a rank that fails in one
 *
 * SPDX-License-Identifier: MIT
 */
#include "mpi_ranks.h"
#ifdef GRAM_TEST_MPI
#  include "core/backend.h"
#  include "tests/machine/machine_sample.h"

/* One leaf by iterations, whose matrix of 2.9 MB is not stored. */
static gram_machine_options one_leaf(void)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;

    o.search = -1;
    o.leaf_rows = ROWS;
    o.solver = GRAM_SOLVER_CG;
    o.dtype = GRAM_F64;
    o.tolerance = 1e-10;
    o.memory_limit = 1000000;
    return o;
}

enum {
    FEW_ROWS = 120 /* of a search */
};

/* One machine by the usual choice. */
static gram_machine_options a_search(void)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;

    o.ensemble = 1;
    return o;
}

/* Products, or paths of ridges, of this rank; number fails_at of rank fails_on fails, or finds that
 * the call is cancelled. */
static int products, fails_at, fails_on;
static bool cancels;

static gram_status counted(gram_context *g)
{
    if (!g->measure && products++ == fails_at && mpi_rank() == fails_on) {
        if (!cancels)
            return gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test");
        gram_context_cancel(g);
    }
    return GRAM_OK;
}

static gram_status counted_product(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    const gram_status status = counted(g);

    return status == GRAM_OK ? gram_cpu_backend.kernel_matmul(g, op) : status;
}

static gram_status counted_path(gram_context *g, const struct gram_krr_path_op *op)
{
    const gram_status status = counted(g);

    return status == GRAM_OK ? gram_cpu_backend.krr_path(g, op) : status;
}

/* A call by all ranks, through the operations above: of a search its ridges. */
static gram_status fit_with(struct harness *h, struct sample *s, const gram_column *target,
                            gram_machine_options o, gram_machine **m)
{
    const struct gram_backend *whole = h->g->backend;
    struct gram_backend counting = *whole;
    gram_status status;

    if (o.search < 0)
        counting.kernel_matmul = counted_product;
    else
        counting.krr_path = counted_path;
    o.communicator = mpi_ranks(h);
    products = 0;
    h->g->backend = &counting;
    status = gram_machine_fit(h->g, table_of(s), target, &o, m);
    h->g->backend = whole;
    return status;
}

static gram_status fit(struct harness *h, struct sample *s, gram_machine **m)
{
    return fit_with(h, s, &s->number, one_leaf(), m);
}

/* Predictions were 3e-12 apart, of numbers of about 10. */
static void ranks_share_the_solves_of_a_single_leaf(struct harness *h)
{
    const gram_machine_options o = one_leaf();
    struct sample s = sample_make(h, ROWS);
    gram_machine *together = NULL, *again = NULL;

    fails_on = -1;
    CHECK(h, fit(h, &s, &together) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_communicator_size(mpi_ranks(h)) == 1 || products > 3, "%d products", products);
    CHECK(h, fit(h, &s, &again) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, (together != NULL) == (mpi_rank() == 0), "a machine on rank %d", mpi_rank());
    if (together && again) {
        gram_machine *alone = sample_fit(h, &s, &s.number, &o);

        expect_alike(h, alone, together, &s, 1e-9);
        expect_alike(h, together, again, &s, 0);
        gram_machine_destroy(alone);
    }
    gram_machine_destroy(together);
    gram_machine_destroy(again);
    sample_destroy(&s);
}

static void a_rank_that_fails_in_a_shared_solve_ends_all(struct harness *h)
{
    const int last = gram_communicator_size(mpi_ranks(h)) - 1;
    struct sample s = sample_make(h, ROWS);

    for (int way = 0; last > 0 && way < 6; way++) {
        gram_machine *m = NULL;
        gram_status status;

        fails_at = way / 2;
        fails_on = way % 2 ? last : 0;
        cancels = fails_at == 1;
        status = fit(h, &s, &m);
        CHECK(h,
              status == (cancels ? GRAM_CANCELLED : GRAM_DEVICE_FAILED) && !m &&
                  strstr(gram_message(h->g), cancels ? "cancelled" : "broken for the test"),
              "way %d: %s: %s", way, gram_status_name(status), gram_message(h->g));
        CHECK(h, mpi_rank() == fails_on || strstr(gram_message(h->g), "failed with"), "way %d: %s",
              way, gram_message(h->g));
        gram_machine_destroy(m);
    }
    fails_on = -1;
    sample_destroy(&s);
    ranks_share_the_solves_of_a_single_leaf(h);
}

/* ---- A search -------------------------------------------------------------------------------- */

/* The second rank has half of the paths of ridges; the others wait. */
static void ranks_share_the_halves_of_a_search(struct harness *h)
{
    const gram_machine_options o = a_search();
    struct sample s = sample_make(h, FEW_ROWS);

    fails_on = -1;
    for (int classes = 0; classes < 2; classes++) {
        const gram_column *target = classes ? &s.label : &s.number;
        gram_machine *together = NULL, *again = NULL;

        CHECK(h, fit_with(h, &s, target, o, &together) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, mpi_rank() == 1 ? products > 20 : mpi_rank() == 0 || products == 0,
              "%d paths on rank %d", products, mpi_rank());
        CHECK(h, fit_with(h, &s, target, o, &again) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, (together != NULL) == (mpi_rank() == 0), "a machine on rank %d", mpi_rank());
        if (together && again) {
            gram_machine *alone = sample_fit(h, &s, target, &o);
            const double one = sample_score(h, alone, &s, target);
            const double all = sample_score(h, together, &s, target);

            CHECK(h, all <= 1.1 * one + 0.01, "a score of %g by ranks, %g alone", all, one);
            CHECK(h, sample_score(h, again, &s, target) == all, "another machine");
            gram_machine_destroy(alone);
        }
        gram_machine_destroy(together);
        gram_machine_destroy(again);
    }
    sample_destroy(&s);
}

/* Both in what they work on at once and, of the first rank, in what it does alone afterwards. */
static void a_rank_that_fails_in_a_search_ends_all(struct harness *h)
{
    const int last = gram_communicator_size(mpi_ranks(h)) - 1;
    struct sample s = sample_make(h, FEW_ROWS);

    for (int way = 0; last > 0 && way < 8; way++) {
        gram_machine *m = NULL;
        gram_status status;

        fails_at = way / 4 == 0 ? 0 : 9;
        fails_on = way % 2;
        cancels = way / 2 % 2;
        status = fit_with(h, &s, &s.number, a_search(), &m);
        CHECK(h,
              status == (cancels ? GRAM_CANCELLED : GRAM_DEVICE_FAILED) && !m &&
                  strstr(gram_message(h->g), cancels ? "cancelled" : "broken for the test"),
              "way %d: %s: %s", way, gram_status_name(status), gram_message(h->g));
        CHECK(h, mpi_rank() == fails_on || strstr(gram_message(h->g), "failed with"), "way %d: %s",
              way, gram_message(h->g));
        gram_machine_destroy(m);
    }
    fails_on = -1;
    sample_destroy(&s);
}

/* The second rank has no memory for one of its blocks: nobody waits for it. */
static void memory_that_a_rank_lacks_in_a_search_ends_all(struct harness *h)
{
    struct sample s = sample_make(h, FEW_ROWS);

    for (int64_t block = 2; block < 400; block += 97) {
        static struct failing_alloc alloc = FAILING_ALLOC_INIT;
        gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
        gram_machine_options o = a_search();
        gram_machine *m = NULL;
        gram_context *g;
        gram_status status;

        failing_alloc_use(&alloc, &options);
        if (!CHECK(h, gram_context_create(&options, &g) == GRAM_OK, "%s", gram_message(NULL)))
            break;
        o.communicator = mpi_ranks(h);
        failing_alloc_reset(&alloc, mpi_rank() == 1 ? block : 0);
        status = gram_machine_fit(g, table_of(&s), &s.number, &o, &m);
        CHECK(h, status == GRAM_OK || (status == GRAM_OUT_OF_MEMORY && !m), "block %lld: %s",
              (long long)block, gram_message(g));
        CHECK(h, gram_communicator_agree(h->g, mpi_ranks(h), GRAM_OK) == GRAM_OK, "%s",
              gram_message(h->g));
        gram_machine_destroy(m);
        gram_context_destroy(g);
        CHECK(h, alloc.live == 0, "%lld blocks are left", (long long)alloc.live);
    }
    sample_destroy(&s);
}

int main(int argc, char **argv)
{
    static const struct test_function tests[] = {
        {   "ranks share solves of a leaf",       ranks_share_the_solves_of_a_single_leaf},
        {  "a failure in a solve ends all",  a_rank_that_fails_in_a_shared_solve_ends_all},
        { "ranks share halves of a search",            ranks_share_the_halves_of_a_search},
        { "a failure in a search ends all",        a_rank_that_fails_in_a_search_ends_all},
        {"a lack of memory there ends all", memory_that_a_rank_lacks_in_a_search_ends_all},
    };

    return mpi_run_tests(&argc, &argv, tests, LENGTH(tests));
}
#endif
