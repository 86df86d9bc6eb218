/*
 * test_mpi_killed.c - a process that dies in the middle of gram_kron_matmul_multi, or of
 * gram_krr_solve, ends the job
 *
 * Starts mpirun with this same program, in which rank 0 kills itself before its second group of
 * factors, while the others wait for it; what hangs is ended by the test's time limit.
 *
 * SPDX-License-Identifier: MIT
 */
#include "mpi_ranks.h"
#ifdef GRAM_TEST_MPI
#  include "core/backend.h"
#  include "krr_parts.h"
#  include <signal.h>
#  include <stdlib.h>
#  include <string.h>
#  include <sys/wait.h>

static int products;

static gram_status dying_product(gram_context *g, const struct gram_kron_matmul_op *op)
{
    if (mpi_rank() == 0 && products++ == 1)
        raise(SIGKILL);
    return gram_cpu_backend.kron_matmul(g, op);
}

static void die(struct harness *h)
{
    double data[64] = {0}, px[16], py[16];
    gram_tensor f = gram_matrix(data, 4, 4, GRAM_F64), x, y;
    const gram_tensor *const factors[] = {&f, &f};
    gram_kron_options o = GRAM_KRON_OPTIONS_INIT;
    struct gram_backend dying = *h->g->backend;
    const struct gram_backend *whole = h->g->backend;
    gram_kron_part part;

    o.communicator = mpi_ranks(h);
    o.split = GRAM_KRON_SPLIT_COLUMNS;
    CHECK(h, gram_kron_matmul_part(h->g, 1, factors, 2, &o, &part) == GRAM_OK, "%s",
          gram_message(h->g));
    x = gram_matrix(px, 1, part.columns, GRAM_F64);
    y = gram_matrix(py, 1, part.outs, GRAM_F64);
    memset(px, 0, sizeof px);
    dying.kron_matmul = dying_product;
    h->g->backend = &dying;
    CHECK(h, gram_kron_matmul_multi(h->g, &x, factors, 2, &o, &y) != GRAM_OK,
          "the product of a dead rank has arrived");
    h->g->backend = whole;
    puts("outlived rank 0"); /* which its parent looks for */
}

/* In the third product of a solve, which has had its agreements before. */
static gram_status dying_kernel_product(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    if (mpi_rank() == 0 && !g->measure && products++ == 2)
        raise(SIGKILL);
    return gram_cpu_backend.kernel_matmul(g, op);
}

static void die_in_a_solve(struct harness *h)
{
    const struct gram_backend *whole = h->g->backend;
    struct gram_backend dying = *whole;
    struct krr_parts p;

    harness_seed(h, "mpi_killed", 0);
    krr_parts_make(h, &p, &krr_parts_table[0]);
    krr_parts_take(&p, mpi_ranks(h));
    dying.kernel_matmul = dying_kernel_product;
    h->g->backend = &dying;
    CHECK(h, krr_parts_solve(h->g, &p) != GRAM_OK, "the solve of a dead rank has ended");
    h->g->backend = whole;
    puts("outlived rank 0");
}

static void a_job_ends(struct harness *h, const char *how)
{
    char command[4096], line[512];
    bool outlived = false;
    FILE *job;
    int status;

    snprintf(command, sizeof command, "%s -n 2 '%s/tests/test_mpi_killed' %s 2>&1", GRAM_TEST_MPI,
             getenv("GRAM_BUILD_DIR"), how);
    job = popen(command, "r");
    if (!CHECK(h, job, "%s cannot be started", command))
        return;
    while (fgets(line, sizeof line, job))
        outlived |= strstr(line, "outlived") != NULL;
    status = pclose(job);
    CHECK(h, WIFEXITED(status) && WEXITSTATUS(status) != 0, "mpirun ended with %d", status);
    CHECK(h, !outlived, "the other rank went on");
}

static void the_job_ends(struct harness *h)
{
    a_job_ends(h, "die");
    a_job_ends(h, "solve");
}

int main(int argc, char **argv)
{
    static const struct test_function parent[] = {
        {"the job ends", the_job_ends}
    };
    static const struct test_function child[] = {
        {           "die",            die},
        {"die in a solve", die_in_a_solve},
    };

    if (argc > 1)
        return mpi_run_tests(&argc, &argv, &child[strcmp(argv[1], "solve") == 0], 1);
    return harness_run_tests(parent, 1);
}
#endif
