/*
 * matmul_parts.c - products with kernel matrices of which every rank has some rows
 *
 * SPDX-License-Identifier: MIT
 */
#include "matmul_parts.h"
#include "core/backend.h"
#include <math.h>

static gram_kernel_options gaussian(void)
{
    return gram_gaussian(1.5);
}

static gram_kernel_options laplace(void)
{
    return gram_lpq_laplace(1, 1, 3);
}

static gram_kernel_options fractional(void)
{
    return gram_lpq_laplace(1.3, 0.7, 2);
}

static gram_kernel_options cosine(void)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    o.inner = GRAM_DOT;
    o.function = GRAM_COSINE;
    return o;
}

/* The halves do not mirror each other. */
static gram_kernel_options of_norm(void)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    o.function = GRAM_EXPRESSION;
    o.expression = "exp(-s / 4) * norm_x";
    return o;
}

static gram_kernel_options divergence(void)
{
    static gram_distance metric = GRAM_DISTANCE_INIT;
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    metric.kind = GRAM_DISTANCE_KULLBACK_LEIBLER;
    o.function = GRAM_LAPLACE;
    o.metric = &metric;
    return o;
}

static gram_kernel_options canberra(void)
{
    static gram_distance metric = GRAM_DISTANCE_INIT;
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    metric.kind = GRAM_DISTANCE_CANBERRA;
    o.function = GRAM_LAPLACE;
    o.metric = &metric;
    return o;
}

/* clang-format off */
const struct matmul_parts_row matmul_parts_table[MATMUL_PARTS_ROWS] = {
    {1100, 0, 5, 3, GRAM_F32, {EVENLY}, gaussian, ROW_MAJOR, false, false, 0.5, GRAM_MATMUL_FUSED},     /* several tasks and blocks a rank */
    {1037, 0, 12, 1, GRAM_F32, {BY_RANK}, gaussian, ROW_MAJOR, false, true, 0, GRAM_MATMUL_TENSOR},   /* a last block that is not filled */
    {800, 0, 3, 2, GRAM_F64, {ALL_LAST}, laplace, COLUMN_MAJOR, false, false, 0, GRAM_MATMUL_BLOCKS},
    {2100, 0, 4, 20, GRAM_F64, {BY_RANK}, fractional, PADDED, false, false, 2, GRAM_MATMUL_PANELS},     /* BLAS multiplies */
    {3, 0, 2, 2, GRAM_F64, {EVENLY}, gaussian, ROW_MAJOR, false, false, 1, 0},                             /* as many rows as some ranks */
    {1, 0, 2, 1, GRAM_F32, {ALL_FIRST}, gaussian, ROW_MAJOR, false, false, 0, 0},
    {0, 0, 2, 1, GRAM_F32, {EVENLY}, gaussian, ROW_MAJOR, false, false, 0, 0},                             /* no rows */
    {700, 0, 2, 0, GRAM_F32, {EVENLY}, gaussian, ROW_MAJOR, false, false, 0, 0},                           /* no columns */
    {500, 0, 300, 3, GRAM_F64, {EVENLY}, cosine, ROW_MAJOR, false, false, 1, 0},                       /* by blocks */
    {300, 0, 3, 2, GRAM_F64, {BY_RANK}, of_norm, EVERY_SECOND, false, false, 1, 0},                    /* not symmetric */
    {200, 0, 3, 2, GRAM_F64, {EVENLY}, divergence, ROW_MAJOR, false, true, 0, 0},
    {600, 0, 3, 2, GRAM_F64, {EVENLY}, canberra, ROW_MAJOR, true, false, 0, 0},                        /* a metric, and points that are there */
    {130, 211, 6, 4, GRAM_F32, {BY_RANK, EVENLY}, gaussian, ROW_MAJOR, false, true, 0.25, 0},              /* rectangles */
    {150, 90, 6, 2, GRAM_F64, {EVENLY, ALL_FIRST}, laplace, REVERSED, true, false, 1, 0},
};
/* clang-format on */

static void make(struct harness *h, struct test_tensor *t, const struct matmul_parts_row *row,
                 int64_t rows, int64_t cols)
{
    test_tensor_create(h, t, row->dtype, row->layout, 2, (int64_t[]){rows, cols});
    test_fill_uniform(h, t, 0.1, 1.1);
}

static void multiply_alone(struct harness *h, struct matmul_parts *p)
{
    gram_kernel_matmul_options o = GRAM_KERNEL_MATMUL_OPTIONS_INIT;
    const int64_t elements = test_count(&p->whole.t);

    o.accumulate = p->row->accumulate;
    for (int64_t i = 0; i < elements; i++)
        test_put(&p->whole.t, i, 77);
    CHECK(h,
          gram_kernel_matmul(h->g, &p->x.t, p->row->n ? &p->y.t : NULL, &p->kernel, &p->v.t, &o,
                             &p->whole.t) == GRAM_OK,
          "%s", gram_message(h->g));
}

void matmul_parts_make(struct harness *h, struct matmul_parts *p,
                       const struct matmul_parts_row *row)
{
    const int64_t points = row->n ? row->n : row->m;

    *p = (struct matmul_parts){.row = row, .options = GRAM_KERNEL_MATMUL_OPTIONS_INIT};
    p->kernel = row->kernel();
    p->kernel.regularization.value = row->regularization;
    make(h, &p->x, row, row->m, row->depth);
    make(h, &p->y, row, row->n, row->depth);
    make(h, &p->v, row, points, row->columns);
    make(h, &p->out, row, row->m, row->columns);
    make(h, &p->whole, row, row->m, row->columns);
    p->options.all_points = row->all_points;
    p->options.accumulate = row->accumulate;
    multiply_alone(h, p);
    matmul_parts_spoil(p);
}

void matmul_parts_drop(struct harness *h, struct matmul_parts *p)
{
    struct test_tensor *const all[] = {&p->x, &p->y, &p->v, &p->out, &p->whole};

    for (int i = 0; i < LENGTH(all); i++)
        test_tensor_destroy(h, all[i], "a tensor");
}

/* Where the rows of a rank begin. */
static int64_t first_of(enum matmul_share share, int64_t rows, int rank, int ranks)
{
    const int64_t weights = (int64_t)ranks * (ranks - 1) / 2;

    if (rank == 0 || rank == ranks)
        return rank == 0 ? 0 : rows;
    if (share == EVENLY)
        return rows * rank / ranks;
    if (share == BY_RANK)
        return rows * ((int64_t)rank * (rank - 1) / 2) / weights;
    return share == ALL_LAST ? 0 : rows;
}

void matmul_parts_take(struct matmul_parts *p, gram_communicator *c)
{
    const int rank = gram_communicator_rank(c), ranks = gram_communicator_size(c);
    const struct matmul_parts_row *row = p->row;
    const enum matmul_share of_v = row->n ? row->share[1] : row->share[0];
    const int64_t points = row->n ? row->n : row->m, start = first_of(of_v, points, rank, ranks);
    const int64_t count = first_of(of_v, points, rank + 1, ranks) - start;

    p->options.communicator = c;
    p->first = first_of(row->share[0], row->m, rank, ranks);
    p->rows = first_of(row->share[0], row->m, rank + 1, ranks) - p->first;
    p->my_x = row->all_points ? p->x.t : some_rows(&p->x.t, p->first, p->rows);
    p->my_y = row->all_points ? p->y.t : some_rows(&p->y.t, start, count);
    p->my_v = some_rows(&p->v.t, start, count);
    p->my_out = some_rows(&p->out.t, p->first, p->rows);
}

void matmul_parts_spoil(struct matmul_parts *p)
{
    for (int64_t i = 0; i < test_count(&p->out.t); i++)
        test_put(&p->out.t, i, 77);
}

gram_status matmul_parts_multiply(gram_context *g, struct matmul_parts *p)
{
    return gram_kernel_matmul_multi(g, &p->my_x, p->row->n ? &p->my_y : NULL, &p->kernel, &p->my_v,
                                    &p->options, &p->my_out);
}

/* The sums of one process and of several differ by their rounding alone. */
void matmul_parts_compare(struct harness *h, const struct matmul_parts *p)
{
    const gram_tensor *out = &p->out.t, *whole = &p->whole.t;
    const double bound = out->dtype == GRAM_F32 ? 1e-6 : 1e-14;
    const int64_t columns = out->shape[1];
    double difference = 0, size = 0;
    int64_t written = 0;

    for (int64_t i = 0; i < test_count(out); i++) {
        const double got = test_at(out, i), want = test_at(whole, i);
        const bool here = i / columns >= p->first && i / columns < p->first + p->rows;
        if (here) {
            difference += (got - want) * (got - want);
            size += want * want;
        } else {
            written += got != 77;
        }
    }
    CHECK(h, written == 0, "%lld elements of other ranks were written", (long long)written);
    CHECK(h, sqrt(difference) <= bound * sqrt(size), "relative difference %.2e",
          sqrt(difference / size));
}
