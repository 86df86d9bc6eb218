/*
 * test_mpi_machine.c - gram_machine_fit on the ranks of MPI: solves of a single leaf, which they
 * share, and a rank that fails in one
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

/* Products of this rank; number fails_at of rank fails_on fails, or finds that the call is
 * cancelled. */
static int products, fails_at, fails_on;
static bool cancels;

static gram_status counted_product(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    if (!g->measure && products++ == fails_at && mpi_rank() == fails_on) {
        if (!cancels)
            return gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test");
        gram_context_cancel(g);
    }
    return gram_cpu_backend.kernel_matmul(g, op);
}

/* A call by all ranks, through the product above. */
static gram_status fit(struct harness *h, struct sample *s, gram_machine **m)
{
    const struct gram_backend *whole = h->g->backend;
    struct gram_backend counted = *whole;
    gram_machine_options o = one_leaf();
    gram_status status;

    counted.kernel_matmul = counted_product;
    o.communicator = mpi_ranks(h);
    products = 0;
    h->g->backend = &counted;
    status = gram_machine_fit(h->g, table_of(s), &s->number, &o, m);
    h->g->backend = whole;
    return status;
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

int main(int argc, char **argv)
{
    static const struct test_function tests[] = {
        { "ranks share solves of a leaf",      ranks_share_the_solves_of_a_single_leaf},
        {"a failure in a solve ends all", a_rank_that_fails_in_a_shared_solve_ends_all},
    };

    return mpi_run_tests(&argc, &argv, tests, LENGTH(tests));
}
#endif
