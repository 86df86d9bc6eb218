/*
 * test_mpi_eigh_kernel.c - gram_eigh_kernel_multi on the ranks of MPI: one process, and failures
 *
 * SPDX-License-Identifier: MIT
 */
#include "mpi_ranks.h"
#ifdef GRAM_TEST_MPI
#  include "core/backend.h"
#  include "matmul_parts.h"
#  include <math.h>
#  include <string.h>

static const struct eigh_row {
    int64_t n, depth, count;
    gram_dtype dtype;
    bool smallest, first_has_none, vectors;
    enum layout layout;
} rows[] = {
  /* clang-format off */
    {300, 3, 5, GRAM_F64, false, false, true, ROW_MAJOR},
    {250, 2, 3, GRAM_F32, false, true, true, COLUMN_MAJOR},   /* an empty rank */
    {90, 3, 2, GRAM_F64, true, false, false, ROW_MAJOR},
    {2, 2, 1, GRAM_F64, false, false, true, ROW_MAJOR},       /* fewer rows than some ranks */
  /* clang-format on */
};

struct parts {
    const struct eigh_row *row;
    struct test_tensor x, values, vectors, alone;
    gram_kernel_options kernel;
    gram_eigh_options options;
    gram_tensor my_x, my_vectors;
    int64_t first, mine;
};

static void make(struct harness *h, struct test_tensor *t, gram_dtype dtype, enum layout layout,
                 int64_t count, int64_t cols)
{
    test_tensor_create(h, t, dtype, layout, cols < 0 ? 1 : 2, (int64_t[]){count, cols});
    test_fill_uniform(h, t, -1, 1.5);
}

static int64_t first_of(const struct eigh_row *r, int rank, int ranks)
{
    const int less = r->first_has_none && ranks > 1;

    return rank < less ? 0 : r->n * (rank - less) / (ranks - less);
}

static void set(struct harness *h, struct parts *p, int row)
{
    const struct eigh_row *r = &rows[row];
    const int rank = mpi_rank(), ranks = gram_communicator_size(mpi_ranks(h));

    harness_seed(h, "mpi_eigh", row);
    *p = (struct parts){.row = r, .kernel = gram_gaussian(1), .options = GRAM_EIGH_OPTIONS_INIT};
    p->kernel.regularization = gram_number(0.1);
    p->options.select = r->smallest ? GRAM_EIGH_SMALLEST : GRAM_EIGH_LARGEST;
    p->options.count = r->count;
    make(h, &p->x, r->dtype, r->layout, r->n, r->depth);
    make(h, &p->vectors, r->dtype, r->layout, r->n, r->count);
    make(h, &p->values, r->dtype, ROW_MAJOR, r->count, -1);
    make(h, &p->alone, r->dtype, ROW_MAJOR, r->count, -1);
    CHECK(h,
          gram_eigh_kernel(h->g, &p->x.t, &p->kernel, &p->options, &p->alone.t, NULL, NULL) ==
              GRAM_OK,
          "%s", gram_message(h->g));
    p->first = first_of(r, rank, ranks);
    p->mine = first_of(r, rank + 1, ranks) - p->first;
    p->my_x = some_rows(&p->x.t, p->first, p->mine);
    p->my_vectors = some_rows(&p->vectors.t, p->first, p->mine);
}

static void drop(struct harness *h, struct parts *p)
{
    struct test_tensor *const all[] = {&p->x, &p->values, &p->vectors, &p->alone};

    for (int i = 0; i < LENGTH(all); i++)
        test_tensor_destroy(h, all[i], "a tensor");
}

static gram_status solve(struct harness *h, struct parts *p)
{
    return gram_eigh_kernel_multi(h->g, mpi_ranks(h), &p->my_x, &p->kernel, &p->options,
                                  &p->values.t, p->row->vectors ? &p->my_vectors : NULL, NULL);
}

/* Values are those of one process, and the rows of a vector of all ranks have the norm 1. */
static void compare(struct harness *h, const struct parts *p)
{
    const double eps = p->row->dtype == GRAM_F32 ? 1e-4 : 1e-9;

    for (int64_t c = 0; c < p->row->count; c++) {
        double sum = 0;

        CHECK(h,
              fabs(test_at(&p->values.t, c) - test_at(&p->alone.t, c)) <= eps * (double)p->row->n,
              "value %lld is %.12g, alone %.12g", (long long)c, test_at(&p->values.t, c),
              test_at(&p->alone.t, c));
        for (int64_t i = 0; p->row->vectors && i < p->mine; i++) {
            const double v = test_at(&p->vectors.t, (p->first + i) * p->row->count + c);
            sum += v * v;
        }
        CHECK(h,
              MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) ==
                  MPI_SUCCESS,
              "MPI failed");
        CHECK(h, !p->row->vectors || fabs(sum - 1) <= eps, "vector %lld has the square %.12g",
              (long long)c, sum);
    }
}

static void parts_make_the_whole(struct harness *h)
{
    for (int row = 0; row < LENGTH(rows); row++) {
        char name[48];
        struct parts p;

        snprintf(name, sizeof name, "row %d", row);
        h->where = name;
        set(h, &p, row);
        CHECK(h, solve(h, &p) == GRAM_OK, "%s", gram_message(h->g));
        compare(h, &p);
        drop(h, &p);
    }
}

/* Every rank gets status; the one in trouble has own in its message, the others other. */
static void all_refuse(struct harness *h, struct parts *p, gram_status status, const char *own,
                       const char *other)
{
    mpi_expect_refusal(h, solve(h, p), status, own, other);
    drop(h, p);
}

static int products, fails_at;

static gram_status failing_product(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    if (mpi_rank() == 0 && !g->measure && products++ == fails_at)
        return gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test");
    return gram_cpu_backend.kernel_matmul(g, op);
}

static void trouble_of_one_rank_ends_all(struct harness *h)
{
    const struct gram_backend *whole = h->g->backend;
    struct gram_backend broken = *whole;
    struct parts p;

    set(h, &p, 0);
    if (mpi_rank() == 0)
        p.options.tolerance = -1;
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "", "");
    set(h, &p, 0);
    if (mpi_rank() == 0)
        p.my_x.ndim = 1;
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "x has 1 dimensions, expected 2",
               "rank 0 failed with GRAM_INVALID_ARGUMENT: x has 1 dimensions");
    set(h, &p, 0);
    p.options.count = 301;
    p.my_vectors.shape[1] = 301;
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "options.count is 301", "options.count is 301");
    broken.kernel_matmul = failing_product;
    for (fails_at = 0; fails_at < 4; fails_at += 3) {
        products = 0;
        set(h, &p, 0);
        h->g->backend = &broken;
        all_refuse(h, &p, GRAM_DEVICE_FAILED, "broken for the test",
                   "rank 0 failed with GRAM_DEVICE_FAILED: broken for the test");
        h->g->backend = whole;
    }
    set(h, &p, 0);
    CHECK(h, solve(h, &p) == GRAM_OK, "afterwards: %s", gram_message(h->g));
    compare(h, &p);
    drop(h, &p);
}

int main(int argc, char **argv)
{
    static const struct test_function tests[] = {
        {        "parts make the whole",         parts_make_the_whole},
        {"trouble of one rank ends all", trouble_of_one_rank_ends_all},
    };

    return mpi_run_tests(&argc, &argv, tests, LENGTH(tests));
}
#endif
