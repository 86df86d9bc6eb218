/*
 * test_mpi_krr.c - gram_krr_solve on the ranks of MPI: against one process, and where a rank has
 * other options, is cancelled or fails
 *
 * SPDX-License-Identifier: MIT
 */
#include "mpi_ranks.h"
#ifdef GRAM_TEST_MPI
#  include "core/backend.h"
#  include "krr/krr_passes.h"
#  include "krr_parts.h"
#  include <stdlib.h>
#  include <string.h>
#  include <unistd.h>

static void set(struct harness *h, struct krr_parts *p, int row)
{
    harness_seed(h, "mpi_krr", row);
    krr_parts_make(h, p, &krr_parts_table[row]);
    krr_parts_take(p, mpi_ranks(h));
}

/* A number that all ranks have. */
static void same_everywhere(struct harness *h, const char *name, double number)
{
    double limits[2] = {number, -number};

    CHECK(h,
          MPI_Allreduce(MPI_IN_PLACE, limits, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD) ==
              MPI_SUCCESS,
          "MPI failed");
    CHECK(h, limits[0] == -limits[1], "%s is %.17g to %.17g", name, -limits[1], limits[0]);
}

static void parts_make_the_whole(struct harness *h)
{
    for (int row = 0; row < KRR_PARTS_ROWS; row++) {
        char name[48];
        struct krr_parts p;
        snprintf(name, sizeof name, "row %d", row);
        h->where = name;
        set(h, &p, row);
        CHECK(h, krr_parts_solve(h->g, &p) == GRAM_OK, "%s", gram_message(h->g));
        krr_parts_compare(h, &p);
        same_everywhere(h, "the residual", p.report.residual);
        same_everywhere(h, "the number of products", (double)p.report.products);
        same_everywhere(h, "the rank", (double)p.report.rank);
        krr_parts_drop(h, &p);
    }
}

/* The same ranks get the same bits. */
static void parts_are_the_same_again(struct harness *h)
{
    double first[700 * 3];

    for (int row = 5; row < KRR_PARTS_ROWS; row++) {
        struct krr_parts p;
        set(h, &p, row);
        CHECK(h, krr_parts_solve(h->g, &p) == GRAM_OK, "%s", gram_message(h->g));
        for (int64_t i = 0; i < test_count(&p.alpha.t); i++)
            first[i] = test_at(&p.alpha.t, i);
        CHECK(h, krr_parts_solve(h->g, &p) == GRAM_OK, "%s", gram_message(h->g));
        for (int64_t i = 0; i < test_count(&p.alpha.t); i++)
            CHECK(h, test_at(&p.alpha.t, i) == first[i], "row %d, element %lld: %.17g and %.17g",
                  row, (long long)i, first[i], test_at(&p.alpha.t, i));
        krr_parts_drop(h, &p);
    }
}

/* Every rank gets status; the one in trouble has own in its message, the others other. */
static void all_refuse(struct harness *h, struct krr_parts *p, gram_status status, const char *own,
                       const char *other)
{
    mpi_expect_refusal(h, krr_parts_solve(h->g, p), status, own, other);
    krr_parts_drop(h, p);
}

static void trouble_of_one_rank_ends_all(struct harness *h)
{
    const bool alone = gram_communicator_size(mpi_ranks(h)) == 1;
    struct krr_parts p;

    set(h, &p, 0);
    if (mpi_rank() == 0)
        p.options.ridge = -1;
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "options.ridge is -1",
               "rank 0 failed with GRAM_INVALID_ARGUMENT: options.ridge is -1");
    set(h, &p, 0);
    test_put(&p.x.t, 0, 0.0 / 0.0); /* which every rank finds */
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "x[0, 0]", "x[0, 0]");
    if (!alone) {
        set(h, &p, 0);
        if (mpi_rank() == 0)
            p.options.rank = 7;
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "the ranks disagree: options.rank",
                   "the ranks disagree: options.rank");
        set(h, &p, 0);
        if (mpi_rank() == 0)
            p.kernel.bandwidth.value = 2;
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "the ranks disagree: the bits of kernel.bandwidth",
                   "the ranks disagree: the bits of kernel.bandwidth");
    }
    set(h, &p, 0);
    p.options.rows = &(gram_rows)GRAM_ROWS_INIT;
    all_refuse(h, &p, GRAM_UNSUPPORTED, "options.rows is given", "options.rows is given");
    if (!alone) {
        set(h, &p, 0);
        p.options.checkpoint = mpi_rank() == 0 ? "never" : NULL;
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "the ranks disagree: options.checkpoint",
                   "the ranks disagree: options.checkpoint");
    }
    set(h, &p, 0);
    p.options.products = 5;
    all_refuse(h, &p, GRAM_NUMERICAL, "options.products are used up", "options.products are");
    set(h, &p, 0);
    p.options.time_limit = 1e-9;
    all_refuse(h, &p, GRAM_NUMERICAL, "options.time_limit is over", "options.time_limit is over");
}

/* Product number fails_at of rank 0 fails, or finds that the call is cancelled. */
static int products, fails_at;
static bool cancels;

static gram_status failing_product(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    if (mpi_rank() == 0 && !g->measure && products++ == fails_at) {
        if (!cancels)
            return gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test");
        gram_context_cancel(g);
    }
    return gram_cpu_backend.kernel_matmul(g, op);
}

static void a_rank_that_fails_in_the_middle_ends_all(struct harness *h)
{
    const struct gram_backend *whole = h->g->backend;
    struct gram_backend broken = *whole;

    broken.kernel_matmul = failing_product;
    for (fails_at = 0; fails_at < 6; fails_at += 2) {
        struct krr_parts p;
        cancels = fails_at == 2;
        products = 0;
        set(h, &p, 0);
        h->g->backend = &broken;
        all_refuse(h, &p, cancels ? GRAM_CANCELLED : GRAM_DEVICE_FAILED,
                   cancels ? "cancelled" : "broken for the test",
                   cancels ? "rank 0 failed with GRAM_CANCELLED: cancelled"
                           : "rank 0 failed with GRAM_DEVICE_FAILED: broken for the test");
        h->g->backend = whole;
        set(h, &p, 0);
        CHECK(h, krr_parts_solve(h->g, &p) == GRAM_OK, "afterwards: %s", gram_message(h->g));
        krr_parts_compare(h, &p);
        krr_parts_drop(h, &p);
    }
}

/* Pass number fails_at of rank 0 fails: the factorisation, or one application of it. */
static int passes;

static bool fails_now(void)
{
    return mpi_rank() == 0 && passes++ == fails_at;
}

static gram_status failing_whiten(gram_context *g, const struct krr_whiten *op)
{
    return fails_now() ? gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test")
                       : cpu_krr_passes.whiten(g, op);
}

static gram_status failing_factorise(gram_context *g, struct krr_preconditioner *p)
{
    return fails_now() ? gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test")
                       : cpu_krr_passes.factorise(g, p);
}

static gram_status failing_apply(gram_context *g, const struct krr_preconditioner *p, const void *v,
                                 void *out)
{
    return fails_now() ? gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test")
                       : cpu_krr_passes.apply(g, p, v, out);
}

/* Three steps, the factorisation, and two applications; rank 0 has rows here. */
static void a_preconditioner_that_fails_ends_all(struct harness *h)
{
    const struct gram_backend *whole = h->g->backend;
    struct gram_krr_passes some = *whole->krr;
    struct gram_backend broken = *whole;

    broken.krr = &some;
    some.whiten = failing_whiten;
    some.factorise = failing_factorise;
    some.apply = failing_apply;
    for (fails_at = 0; fails_at < 6; fails_at++) {
        struct krr_parts p;
        set(h, &p, 6);
        passes = 0;
        h->g->backend = &broken;
        all_refuse(h, &p, GRAM_DEVICE_FAILED, "broken for the test",
                   "rank 0 failed with GRAM_DEVICE_FAILED: broken for the test");
        h->g->backend = whole;
    }
}

/* A path that all ranks have, in a folder of the first one. */
static void make_path(struct harness *h, char path[64])
{
    if (mpi_rank() == 0) {
        snprintf(path, 64, "/tmp/gram_ranksXXXXXX");
        CHECK(h, mkdtemp(path) != NULL, "no folder");
        strcat(path, "/file"); /* NOLINT(clang-analyzer-security.insecureAPI.strcpy) */
    }
    CHECK(h, MPI_Bcast(path, 64, MPI_CHAR, 0, MPI_COMM_WORLD) == MPI_SUCCESS, "MPI failed");
}

static void drop_path(struct harness *h, char path[64])
{
    CHECK(h, MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS, "MPI failed");
    if (mpi_rank() > 0)
        return;
    CHECK(h, unlink(path) == 0, "%s is not there", path);
    path[strlen(path) - strlen("/file")] = '\0';
    CHECK(h, rmdir(path) == 0, "%s is not empty", path);
}

/* What ends at a limit with some ranks goes on with others: the communicator, or each alone. */
static void a_checkpoint_resumes_with_other_ranks(struct harness *h)
{
    for (int first_alone = 0; first_alone < 2; first_alone++) {
        char path[64];
        struct krr_parts p;
        gram_status status = GRAM_NUMERICAL;

        make_path(h, path);
        set(h, &p, 7); /* steps of a preconditioner */
        p.options.checkpoint = path;
        p.options.checkpoint_iterations = 1;
        p.options.products = 6;
        if (!first_alone)
            status = krr_parts_solve(h->g, &p);
        else if (mpi_rank() == 0)
            status = krr_parts_solve_alone(h->g, &p);
        CHECK(h, status == GRAM_NUMERICAL, "%s", gram_message(h->g));
        CHECK(h, MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS, "MPI failed");
        p.options.products = 1000;
        p.options.resume = 1;
        if (first_alone)
            status = krr_parts_solve(h->g, &p);
        else
            status = mpi_rank() == 0 ? krr_parts_solve_alone(h->g, &p) : GRAM_OK;
        CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
        if (first_alone)
            krr_parts_compare(h, &p);
        krr_parts_drop(h, &p);
        drop_path(h, path);
    }
}

int main(int argc, char **argv)
{
    static const struct test_function tests[] = {
        {                    "parts make the whole",                     parts_make_the_whole},
        {                "parts are the same again",                 parts_are_the_same_again},
        {            "trouble of one rank ends all",             trouble_of_one_rank_ends_all},
        {"a rank that fails in the middle ends all", a_rank_that_fails_in_the_middle_ends_all},
        {    "a preconditioner that fails ends all",     a_preconditioner_that_fails_ends_all},
        {   "a checkpoint resumes with other ranks",    a_checkpoint_resumes_with_other_ranks},
    };

    return mpi_run_tests(&argc, &argv, tests, LENGTH(tests));
}
#endif
