/*
 * test_mpi_kron.c - gram_kron_matmul_multi on the ranks of MPI against one process
 *
 * cmake/tests.cmake starts it with mpirun.  Every rank makes the whole problem from one seed,
 * multiplies it alone and in its part, and compares.
 *
 * SPDX-License-Identifier: MIT
 */
#include "mpi_kron_problem.h"
#ifdef GRAM_TEST_MPI
#  include "core/backend.h"
#  include "multi/communicator.h"
#  include <math.h>
#  include <string.h>

static void parts_make_the_whole(struct harness *h)
{
    for (int r = 0; r < KRON_PARTS_ROWS; r++) {
        char name[48];
        struct kron_parts p;
        harness_seed(h, "mpi_kron", r);
        kron_parts_make(h, &p, &kron_parts_table[r]);
        CHECK(h,
              gram_kron_matmul(h->g, &p.x.t, p.factors, p.count, &p.options, &p.whole.t) == GRAM_OK,
              "%s", gram_message(h->g));
        for (int split = 0; split < 2; split++) {
            snprintf(name, sizeof name, "row %d by %s", r, split ? "columns" : "rows");
            h->where = name;
            kron_parts_spoil(&p);
            take_part(h, &p, (gram_kron_split)split);
            CHECK(h,
                  gram_kron_matmul_multi(h->g, &p.my_x, p.factors, p.count, &p.options, &p.my_y) ==
                      GRAM_OK,
                  "%s", gram_message(h->g));
            kron_parts_compare(h, &p);
        }
        kron_parts_drop(h, &p);
    }
}

/* y of one product is the x of the next, in its own place. */
static void products_follow_one_another(struct harness *h)
{
    struct kron_parts p;

    for (int split = 0; split < 2; split++) {
        set(h, &p, (gram_kron_split)split);
        p.options.communicator = NULL;
        CHECK(h, gram_kron_matmul(h->g, &p.x.t, p.factors, 3, &p.options, &p.y.t) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, gram_kron_matmul(h->g, &p.y.t, p.factors, 3, &p.options, &p.whole.t) == GRAM_OK,
              "%s", gram_message(h->g));
        p.options.communicator = mpi_ranks(h);
        kron_parts_spoil(&p);
        CHECK(h, multiply(h, &p) == GRAM_OK, "%s", gram_message(h->g));
        p.my_x = p.my_y;
        CHECK(h, multiply(h, &p) == GRAM_OK, "%s", gram_message(h->g));
        kron_parts_compare(h, &p);
        kron_parts_drop(h, &p);
    }
}

static gram_status multiply_or_ask(struct harness *h, void *problem, gram_workspace *need)
{
    struct kron_parts *p = problem;

    if (need)
        return gram_kron_matmul_multi_workspace(h->g, &p->my_x, p->factors, p->count, &p->options,
                                                &p->my_y, need);
    return multiply(h, p);
}

static void scratch_is_told_exactly(struct harness *h)
{
    for (int split = 0; split < 2; split++) {
        struct kron_parts p;
        set(h, &p, (gram_kron_split)split);
        CHECK(h, test_in_exact_scratch(h, multiply_or_ask, &p), "%s", gram_message(h->g));
        kron_parts_drop(h, &p);
    }
}

/* Rows on a GPU, be it emulated; columns are refused on all ranks. */
static void rows_may_be_on_a_gpu(struct harness *h)
{
    gram_context *cpu = h->g;
    struct test_copy x, y, factor[3];
    gram_tensor all_x, all_y;
    struct kron_parts p;

    set(h, &p, GRAM_KRON_SPLIT_COLUMNS);
    p.options.communicator = NULL;
    CHECK(h, gram_kron_matmul(cpu, &p.x.t, p.factors, 3, &p.options, &p.whole.t) == GRAM_OK, "%s",
          gram_message(cpu));
    h->g = test_cuda_context(h, NULL);
    h->device = gram_context_device(h->g);
    test_send(h, &p.x, &x);
    test_send(h, &p.y, &y);
    for (int f = 0; f < 3; f++) {
        test_send(h, &p.factor[f], &factor[f]);
        p.factors[f] = &factor[f].t;
    }
    all_x = p.x.t, all_y = p.y.t;
    for (int split = 1; split >= 0; split--) {
        p.x.t = x.t, p.y.t = y.t;
        take_part(h, &p, (gram_kron_split)split);
        p.x.t = all_x, p.y.t = all_y;
        CHECK(h, multiply(h, &p) == (split == 0 ? GRAM_OK : GRAM_UNSUPPORTED), "split %d: %s",
              split, gram_message(h->g));
    }
    CHECK(h, gram_context_synchronize(h->g) == GRAM_OK, "%s", gram_message(h->g));
    test_fetch(h, &p.x, &x);
    test_fetch(h, &p.y, &y);
    for (int f = 0; f < 3; f++)
        test_fetch(h, &p.factor[f], &factor[f]);
    kron_parts_compare(h, &p);
    gram_context_destroy(h->g);
    h->g = cpu, h->device = gram_context_device(cpu);
    kron_parts_drop(h, &p);
}

static void the_split_follows_the_rows(struct harness *h)
{
    struct kron_parts p;
    gram_kron_part part;
    int ranks;

    set(h, &p, GRAM_KRON_SPLIT_ROWS);
    ranks = gram_communicator_size(p.options.communicator);
    p.options.split = GRAM_KRON_SPLIT_AUTO;
    for (int64_t m = 0; m < 1000; m += m < 3 ? 1 : 99) {
        bool by_columns = m > 0 && m < ranks;
        CHECK(h, gram_kron_matmul_part(h->g, m, p.factors, 3, &p.options, &part) == GRAM_OK, "%s",
              gram_message(h->g));
        if (m < ranks || m % ranks == 0 || m > 100)
            CHECK(h, (part.split == GRAM_KRON_SPLIT_COLUMNS) == by_columns, "%lld rows: split %d",
                  (long long)m, (int)part.split);
    }
    kron_parts_drop(h, &p);
}

int main(int argc, char **argv)
{
    static const struct test_function tests[] = {
        {       "parts make the whole",        parts_make_the_whole},
        {"products follow one another", products_follow_one_another},
        {    "scratch is told exactly",     scratch_is_told_exactly},
        { "the split follows the rows",  the_split_follows_the_rows},
        {       "rows may be on a gpu",        rows_may_be_on_a_gpu},
    };
    bool gpu = gram_best_device().type == GRAM_CUDA;

    return mpi_run_tests(&argc, &argv, tests, LENGTH(tests) - !gpu);
}
#endif
