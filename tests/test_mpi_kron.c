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
#  include "backend.h"
#  include "communicator.h"
#  include <math.h>
#  include <string.h>

/* clang-format off */
static const struct row table[] = {
    {4, {2, 2}, {2, 2}, 0, GRAM_F64, false, false, 1, 0, ROW_MAJOR},
    {37, {8, 8, 8}, {8, 8, 8}, 0, GRAM_F32, false, false, 1, 0, ROW_MAJOR},
    {1, {4, 4, 4, 4, 4, 4}, {4, 4, 4, 4, 4, 4}, 0, GRAM_F32, false, false, 1, 0, ROW_MAJOR}, /* fewer rows than ranks */
    {2, {5, 7, 3}, {5, 7, 3}, 0, GRAM_F64, false, false, -2, 0, ROW_MAJOR},       /* nothing divides */
    {5, {3, 4, 5}, {6, 2, 7}, 0, GRAM_F64, false, false, 0.5, 2, PADDED},         /* rectangles, z */
    {3, {7, 2}, {1, 9}, 0, GRAM_F64, false, false, 1, -1, COLUMN_MAJOR},
    {6, {1, 1, 5}, {1, 1, 4}, 0, GRAM_F32, false, false, 1, 0, ROW_MAJOR},        /* no more than one index in front */
    {4, {9}, {5}, 0, GRAM_F64, false, false, 3, 0, ROW_MAJOR},                    /* one factor: an empty group */
    {1, {9}, {5}, 0, GRAM_F64, false, false, 1, 0, ROW_MAJOR},                    /* one rank does it all */
    {4, {3, 4, 2}, {2, 3, 4}, 5, GRAM_F32, false, false, 2, 1, ROW_MAJOR},        /* a batch */
    {4, {3, 4, 2}, {2, 3, 4}, 3, GRAM_F64, true, true, 2, 1, EVERY_SECOND},
    {5, {6}, {4}, 2, GRAM_F64, false, false, 1, 1, ROW_MAJOR},                    /* a batch and an empty group */
    {7, {6, 5, 4}, {6, 5, 4}, 0, GRAM_F32, true, false, 1, 0, ROW_MAJOR},
    {7, {6, 5, 4}, {5, 6, 3}, 0, GRAM_F64, true, true, 1, 0.25, COLUMN_MAJOR},
    {1, {8, 8, 8}, {8, 8, 8}, 0, GRAM_F64, true, false, 1, 0, ROW_MAJOR},
    {9, {4, 6, 3}, {3, 5, 4}, 0, GRAM_I32, false, true, 3, -7, ROW_MAJOR},        /* they wrap around */
    {3, {4, 6, 3}, {3, 5, 4}, 2, GRAM_I64, false, false, -5, 2, REVERSED},
    {1, {2, 3, 2, 3}, {3, 2, 3, 2}, 0, GRAM_I64, true, false, 1, 0, ROW_MAJOR},
    {0, {4, 3}, {4, 3}, 0, GRAM_F64, false, false, 1, 0, ROW_MAJOR},              /* no rows */
    {2000, {3, 3}, {2, 4}, 0, GRAM_F32, false, false, 1, 0, ROW_MAJOR},           /* the move is cut into pieces */
};
/* clang-format on */

/* y is right in this rank's part, and as it was elsewhere. */
static void compare(struct harness *h, const struct problem *p)
{
    const gram_tensor *y = &p->y.t, *whole = &p->whole.t;
    bool whole_numbers = y->dtype == GRAM_I32 || y->dtype == GRAM_I64, left = p->row->left;
    double bound = whole_numbers ? 0 : 100 * test_eps(y->dtype);
    int64_t rows = y->shape[y->ndim - 2], cols = y->shape[y->ndim - 1], wrong = 0, mine = 0;

    for (int64_t i = 0; i < test_count(y); i++) {
        int64_t row = i / cols % rows, col = i % cols;
        int64_t m = left ? col : row, q = left ? row : col;
        bool here = m >= p->part.first_row && m < p->part.first_row + p->part.rows &&
                    q >= p->part.first_out && q < p->part.first_out + p->part.outs;
        double got = test_at(y, i), want = here ? test_at(whole, i) : 77;
        double scale = here && !whole_numbers ? 1 + fabs(want) : 1;
        mine += here;
        if (y->dtype == GRAM_I64 && here)
            wrong += *(int64_t *)test_address(y, i) != *(int64_t *)test_address(whole, i);
        else
            wrong += !(fabs(got - want) <= bound * scale);
    }
    CHECK(h, wrong == 0, "%lld of %lld elements, %lld of them this rank's, are wrong",
          (long long)wrong, (long long)test_count(y), (long long)mine);
}

static void parts_make_the_whole(struct harness *h)
{
    for (int r = 0; r < LENGTH(table); r++) {
        char name[48];
        struct problem p;
        harness_seed(h, "mpi_kron", r);
        setup(h, &p, &table[r]);
        CHECK(h,
              gram_kron_matmul(h->g, &p.x.t, p.factors, p.count, &p.options, &p.whole.t) == GRAM_OK,
              "%s", gram_message(h->g));
        for (int split = 0; split < 2; split++) {
            snprintf(name, sizeof name, "row %d by %s", r, split ? "columns" : "rows");
            h->where = name;
            spoil(&p);
            take_part(h, &p, (gram_kron_split)split);
            CHECK(h,
                  gram_kron_matmul_multi(h->g, &p.my_x, p.factors, p.count, &p.options, &p.my_y) ==
                      GRAM_OK,
                  "%s", gram_message(h->g));
            compare(h, &p);
        }
        drop(h, &p);
    }
}

/* y of one product is the x of the next, in its own place. */
static void products_follow_one_another(struct harness *h)
{
    struct problem p;

    for (int split = 0; split < 2; split++) {
        set(h, &p, (gram_kron_split)split);
        p.options.communicator = NULL;
        CHECK(h, gram_kron_matmul(h->g, &p.x.t, p.factors, 3, &p.options, &p.y.t) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, gram_kron_matmul(h->g, &p.y.t, p.factors, 3, &p.options, &p.whole.t) == GRAM_OK,
              "%s", gram_message(h->g));
        p.options.communicator = mpi_ranks(h);
        spoil(&p);
        CHECK(h, multiply(h, &p) == GRAM_OK, "%s", gram_message(h->g));
        p.my_x = p.my_y;
        CHECK(h, multiply(h, &p) == GRAM_OK, "%s", gram_message(h->g));
        compare(h, &p);
        drop(h, &p);
    }
}

static gram_status multiply_or_ask(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *p = problem;

    if (need)
        return gram_kron_matmul_multi_workspace(h->g, &p->my_x, p->factors, p->count, &p->options,
                                                &p->my_y, need);
    return multiply(h, p);
}

static void scratch_is_told_exactly(struct harness *h)
{
    for (int split = 0; split < 2; split++) {
        struct problem p;
        set(h, &p, (gram_kron_split)split);
        CHECK(h, test_in_exact_scratch(h, multiply_or_ask, &p), "%s", gram_message(h->g));
        drop(h, &p);
    }
}

/* Rows on a GPU, be it emulated; columns are refused on all ranks. */
static void rows_may_be_on_a_gpu(struct harness *h)
{
    gram_context *cpu = h->g;
    struct test_copy x, y, factor[3];
    gram_tensor all_x, all_y;
    struct problem p;

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
    compare(h, &p);
    gram_context_destroy(h->g);
    h->g = cpu, h->device = gram_context_device(cpu);
    drop(h, &p);
}

static void the_split_follows_the_rows(struct harness *h)
{
    struct problem p;
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
    drop(h, &p);
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
