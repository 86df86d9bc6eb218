/*
 * test_mpi_nearest.c - gram_nearest_multi on the ranks of MPI: against one process, and failures
 * has other arguments or fails
 *
 * Coordinates are small whole numbers, so that distances are exact and many of them are equal.
 *
 * SPDX-License-Identifier: MIT
 */
#include "mpi_ranks.h"
#ifdef GRAM_TEST_MPI
#  include "core/backend.h"
#  include "matmul_parts.h"
#  include <math.h>
#  include <string.h>

static const struct nearest_row {
    int64_t m, n, depth, count; /* n 0: y is NULL */
    gram_dtype dtype;
    double p;
    int exclude_self, within, metric, first_has_none;
    enum layout layout;
} rows[] = {
  /* clang-format off */
    {230, 0, 3, 7, GRAM_F64, 2, 1, 0, 0, 0, ROW_MAJOR},
    {200, 0, 2, 12, GRAM_F32, 1, 1, 1, 0, 1, PADDED},          /* an empty rank, a radius */
    {90, 150, 4, 5, GRAM_F64, INFINITY, 0, 0, 0, 0, COLUMN_MAJOR},
    {3, 2, 2, 4, GRAM_F32, 2, 0, 0, 0, 0, ROW_MAJOR},          /* more ranks than rows, more neighbours */
    {0, 9, 2, 2, GRAM_F64, 2, 0, 0, 0, 0, ROW_MAJOR},
    {60, 40, 3, 3, GRAM_F64, 2, 0, 0, 1, 0, EVERY_SECOND},     /* a metric */
    {50, 0, 0, 2, GRAM_F32, 2, 1, 0, 0, 0, ROW_MAJOR},         /* no coordinates: all are equal */
  /* clang-format on */
};

struct parts {
    const struct nearest_row *row;
    struct test_tensor x, y, indices, distances, counts, all_indices, all_distances, all_counts;
    gram_distance metric;
    gram_nearest_options options;
    gram_tensor my_x, my_y, my_indices, my_distances, my_counts;
    int64_t first, mine;
};

static void make(struct harness *h, struct test_tensor *t, gram_dtype dtype, enum layout layout,
                 int64_t count, int64_t cols)
{
    test_tensor_create(h, t, dtype, layout, cols < 0 ? 1 : 2, (int64_t[]){count, cols});
    if (dtype == GRAM_F32 || dtype == GRAM_F64)
        for (int64_t i = 0; i < test_count(&t->t); i++)
            test_put(&t->t, i, floor(4 * test_uniform(h)));
}

static int64_t first_of(const struct parts *p, int64_t count, int rank, int ranks)
{
    const int less = p->row->first_has_none && ranks > 1;

    return rank < less ? 0 : count * (rank - less) / (ranks - less);
}

static void set(struct harness *h, struct parts *p, int row)
{
    const struct nearest_row *r = &rows[row];
    const int rank = mpi_rank(), ranks = gram_communicator_size(mpi_ranks(h));
    const int64_t n = r->n ? r->n : r->m;
    int64_t first;
    gram_status status;

    harness_seed(h, "mpi_nearest", row);
    *p = (struct parts){
        .row = r, .metric = GRAM_DISTANCE_INIT, .options = GRAM_NEAREST_OPTIONS_INIT};
    make(h, &p->x, r->dtype, r->layout, r->m, r->depth);
    make(h, &p->y, r->dtype, r->layout, n, r->depth);
    make(h, &p->indices, GRAM_I64, ROW_MAJOR, r->m, r->count);
    make(h, &p->all_indices, GRAM_I64, ROW_MAJOR, r->m, r->count);
    make(h, &p->distances, r->dtype, ROW_MAJOR, r->m, r->count);
    make(h, &p->all_distances, r->dtype, ROW_MAJOR, r->m, r->count);
    make(h, &p->counts, GRAM_I64, ROW_MAJOR, r->m, -1);
    make(h, &p->all_counts, GRAM_I64, ROW_MAJOR, r->m, -1);
    p->metric.kind = GRAM_DISTANCE_CANBERRA;
    p->options.metric = r->metric ? &p->metric : NULL;
    p->options.exclude_self = r->exclude_self;
    p->options.within = r->within;
    p->options.radius = 2;
    p->options.counts = &p->all_counts.t;
    status = gram_nearest(h->g, &p->x.t, r->n ? &p->y.t : NULL, gram_number(r->p), &p->options,
                          &p->all_indices.t, &p->all_distances.t);
    CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    p->first = first_of(p, r->m, rank, ranks);
    p->mine = first_of(p, r->m, rank + 1, ranks) - p->first;
    p->my_x = some_rows(&p->x.t, p->first, p->mine);
    p->my_indices = some_rows(&p->indices.t, p->first, p->mine);
    p->my_distances = some_rows(&p->distances.t, p->first, p->mine);
    p->my_counts = some_rows(&p->counts.t, p->first, p->mine);
    first = first_of(p, n, rank, ranks);
    p->my_y = some_rows(&p->y.t, first, first_of(p, n, rank + 1, ranks) - first);
    p->options.counts = &p->my_counts;
    p->options.communicator = mpi_ranks(h);
}

static void drop(struct harness *h, struct parts *p)
{
    struct test_tensor *const all[] = {
        &p->x,      &p->y,           &p->indices,       &p->distances,
        &p->counts, &p->all_indices, &p->all_distances, &p->all_counts};

    for (int i = 0; i < LENGTH(all); i++)
        test_tensor_destroy(h, all[i], "a tensor");
}

static gram_status search(struct harness *h, struct parts *p)
{
    return gram_nearest_multi(h->g, &p->my_x, p->row->n ? &p->my_y : NULL, gram_number(p->row->p),
                              &p->options, &p->my_indices, &p->my_distances);
}

static void compare(struct harness *h, const struct parts *p)
{
    for (int64_t i = 0; i < p->mine; i++) {
        const int64_t row = p->first + i, at = row * p->row->count;

        CHECK(h, test_at(&p->counts.t, row) == test_at(&p->all_counts.t, row),
              "row %lld has %g neighbours, alone %g", (long long)row, test_at(&p->counts.t, row),
              test_at(&p->all_counts.t, row));
        for (int64_t c = 0; c < p->row->count; c++)
            CHECK(h,
                  test_at(&p->indices.t, at + c) == test_at(&p->all_indices.t, at + c) &&
                      test_at(&p->distances.t, at + c) == test_at(&p->all_distances.t, at + c),
                  "neighbour %lld of row %lld is %g, alone %g", (long long)c, (long long)row,
                  test_at(&p->indices.t, at + c), test_at(&p->all_indices.t, at + c));
    }
}

static void parts_make_the_whole(struct harness *h)
{
    for (int row = 0; row < LENGTH(rows); row++) {
        gram_workspace need = {0};
        char name[48];
        struct parts p;

        snprintf(name, sizeof name, "row %d", row);
        h->where = name;
        set(h, &p, row);
        CHECK(h, search(h, &p) == GRAM_OK, "%s", gram_message(h->g));
        compare(h, &p);
        CHECK(h,
              gram_nearest_multi_workspace(h->g, &p.my_x, p.row->n ? &p.my_y : NULL,
                                           gram_number(p.row->p), &p.options, &p.my_indices,
                                           &p.my_distances, &need) == GRAM_OK,
              "%s", gram_message(h->g));
        drop(h, &p);
    }
}

/* Every rank gets status; the one in trouble has own in its message, the others other. */
static void all_refuse(struct harness *h, struct parts *p, gram_status status, const char *own,
                       const char *other)
{
    mpi_expect_refusal(h, search(h, p), status, own, other);
    drop(h, p);
}

static gram_status failing_search(gram_context *g, const struct gram_nearest_op *op)
{
    if (mpi_rank() == 0 && !g->measure)
        return gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test");
    return gram_cpu_backend.nearest(g, op);
}

static void trouble_of_one_rank_ends_all(struct harness *h)
{
    const struct gram_backend *whole = h->g->backend;
    struct gram_backend broken = *whole;
    struct parts p;

    set(h, &p, 1);
    if (mpi_rank() == 0)
        p.options.radius = -1;
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "options.radius is -1",
               "rank 0 failed with GRAM_INVALID_ARGUMENT: options.radius is -1");
    if (gram_communicator_size(mpi_ranks(h)) > 1) {
        set(h, &p, 0);
        if (mpi_rank() == 0)
            p.my_x.shape[1] = 2;
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "the ranks disagree: the number of columns of x",
                   "the ranks disagree: the number of columns of x");
        set(h, &p, 1);
        if (mpi_rank() == 0)
            p.options.radius = 3;
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "the ranks disagree: the bits of options.radius",
                   "the ranks disagree: the bits of options.radius");
    }
    set(h, &p, 0);
    broken.nearest = failing_search;
    h->g->backend = &broken;
    all_refuse(h, &p, GRAM_DEVICE_FAILED, "broken for the test",
               "rank 0 failed with GRAM_DEVICE_FAILED: broken for the test");
    h->g->backend = whole;
    set(h, &p, 0);
    CHECK(h, search(h, &p) == GRAM_OK, "afterwards: %s", gram_message(h->g));
    compare(h, &p);
    p.options.communicator = NULL;
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "options.communicator is NULL",
               "options.communicator is NULL");
    set(h, &p, 0);
    CHECK(h,
          gram_nearest(h->g, &p.my_x, NULL, gram_number(2), &p.options, &p.my_indices,
                       &p.my_distances) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "options.communicator is given"),
          "%s", gram_message(h->g));
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
