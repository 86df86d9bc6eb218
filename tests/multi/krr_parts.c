/*
 * krr_parts.c - kernel solves of which every rank has some rows
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr_parts.h"
#include "matmul_parts.h"
#include <math.h>

/* clang-format off */
const struct krr_parts_row krr_parts_table[KRR_PARTS_ROWS] = {
    {500, 3, 2, GRAM_F64, GRAM_KRR_CG, 0.01, 1e-9, 40, 0, false, false, false},
    {400, 4, 1, GRAM_F32, GRAM_KRR_CG, 1, 1e-4, 0, 1, true, false, false},     /* rank 0 has no rows; it may grow */
    {300, 4, 3, GRAM_F32, GRAM_KRR_CG, 0.1, 1e-5, -1, 0, true, true, false},   /* rounds, no preconditioner */
    {300, 2, 1, GRAM_F64, GRAM_KRR_CG, 0.5, 1e-8, 20, 1, false, false, true},  /* a first guess */
    {90, 5, 2, GRAM_F64, GRAM_KRR_AUTO, 0.1, 1e-9, 0, 0, true, false, false},  /* by Cholesky */
    {2, 2, 1, GRAM_F64, GRAM_KRR_CG, 0.1, 1e-9, 0, 0, false, false, false},    /* fewer rows than some ranks */
    {700, 3, 3, GRAM_F64, GRAM_KRR_CG, 0.001, 1e-9, 250, 1, true, false, false}, /* steps of a preconditioner */
    {600, 2, 2, GRAM_F32, GRAM_KRR_CG, 0.1, 1e-5, 230, 0, false, false, false},
    {0, 2, 1, GRAM_F64, GRAM_KRR_AUTO, 0.1, 1e-9, 0, 0, false, false, false},
};
/* clang-format on */

static void make(struct harness *h, struct test_tensor *t, gram_dtype dtype, int64_t rows,
                 int64_t cols, double low)
{
    test_tensor_create(h, t, dtype, ROW_MAJOR, 2, (int64_t[]){rows, cols});
    test_fill_uniform(h, t, low, 1.5);
}

static void spoil(const gram_tensor *t)
{
    for (int64_t i = 0; i < test_count(t); i++)
        test_put(t, i, 0.25);
}

void krr_parts_make(struct harness *h, struct krr_parts *p, const struct krr_parts_row *row)
{
    *p = (struct krr_parts){.row = row,
                            .kernel = gram_gaussian(1),
                            .options = GRAM_KRR_OPTIONS_INIT,
                            .report.size = sizeof p->report,
                            .alone.size = sizeof p->alone};
    make(h, &p->x, row->dtype, row->n, row->depth, -1);
    make(h, &p->y, row->dtype, row->n, row->columns, -1);
    make(h, &p->weights, row->dtype, row->n, 1, 0.5);
    make(h, &p->alpha, row->dtype, row->n, row->columns, 0);
    make(h, &p->whole, row->dtype, row->n, row->columns, 0);
    spoil(&p->alpha.t);
    spoil(&p->whole.t);
    p->options.method = row->method;
    p->options.ridge = row->ridge;
    p->options.tolerance = row->tolerance;
    p->options.rank = row->rank;
    p->options.refine = row->refine;
    p->options.warm_start = row->warm;
    p->options.weights = row->weights ? &p->weights.t : NULL;
    p->options.report = &p->alone;
    CHECK(h,
          gram_krr_solve(h->g, &p->x.t, &p->kernel, &p->y.t, &p->options, &p->whole.t) == GRAM_OK,
          "%s", gram_message(h->g));
}

void krr_parts_drop(struct harness *h, struct krr_parts *p)
{
    struct test_tensor *const all[] = {&p->x, &p->y, &p->weights, &p->alpha, &p->whole};

    for (int i = 0; i < LENGTH(all); i++)
        test_tensor_destroy(h, all[i], "a tensor");
}

static int64_t first_of(const struct krr_parts *p, int rank, int ranks)
{
    const int less = p->row->first_has_none && ranks > 1;

    return rank < less ? 0 : p->row->n * (rank - less) / (ranks - less);
}

void krr_parts_take(struct krr_parts *p, gram_communicator *c)
{
    const int rank = gram_communicator_rank(c), ranks = gram_communicator_size(c);

    p->options.communicator = c;
    p->options.report = &p->report;
    p->first = first_of(p, rank, ranks);
    p->rows = first_of(p, rank + 1, ranks) - p->first;
    p->my_x = some_rows(&p->x.t, p->first, p->rows);
    p->my_y = some_rows(&p->y.t, p->first, p->rows);
    p->my_weights = some_rows(&p->weights.t, p->first, p->rows);
    p->my_alpha = some_rows(&p->alpha.t, p->first, p->rows);
    p->options.weights = p->row->weights ? &p->my_weights : NULL;
}

gram_status krr_parts_solve(gram_context *g, struct krr_parts *p)
{
    return gram_krr_solve(g, &p->my_x, &p->kernel, &p->my_y, &p->options, &p->my_alpha);
}

gram_status krr_parts_solve_alone(gram_context *g, struct krr_parts *p)
{
    gram_krr_options options = p->options;

    options.communicator = NULL;
    options.weights = p->row->weights ? &p->weights.t : NULL;
    return gram_krr_solve(g, &p->x.t, &p->kernel, &p->y.t, &options, &p->whole.t);
}

/* Both answers have residuals below the tolerance, and so (K + ridge) of their difference is below
 * twice as much: divided by the ridge it bounds the difference. */
void krr_parts_compare(struct harness *h, const struct krr_parts *p)
{
    const double least = p->row->ridge / (p->row->weights ? 1.5 : 1);
    const gram_tensor *alpha = &p->alpha.t;
    const int64_t columns = p->row->columns;
    double difference = 0, size = 0;
    int64_t written = 0;

    for (int64_t i = 0; i < test_count(alpha); i++) {
        const double got = test_at(alpha, i), want = test_at(&p->whole.t, i);
        const bool here = i / columns >= p->first && i / columns < p->first + p->rows;
        size += test_at(&p->y.t, i) * test_at(&p->y.t, i);
        if (here)
            difference += (got - want) * (got - want);
        else
            written += got != 0.25;
    }
    CHECK(h, written == 0, "%lld elements of other ranks were written", (long long)written);
    CHECK(h, sqrt(difference) <= 2 * p->row->tolerance * sqrt(size) / least, "difference %.2e of y",
          sqrt(difference / size));
    CHECK(h, p->report.reached && p->report.residual <= p->row->tolerance, "residual %.2e",
          p->report.residual);
    CHECK(h, p->report.method == p->alone.method, "method %d", (int)p->report.method);
    CHECK(h, p->report.products <= p->alone.products + 4, "%lld products, alone %lld",
          (long long)p->report.products, (long long)p->alone.products);
}
