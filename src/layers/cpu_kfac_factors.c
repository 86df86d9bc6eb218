/*
 * cpu_kfac_factors.c - gram_kfac_factors on the CPU: a block of positions at a time
 *
 * A block of positions of all samples becomes one matrix (of patches, with a 1 where there is a
 * bias), which adds its product with its transpose to one triangle of the factor in scratch; the
 * whole is then stored in both.  An embedding's factor counts rows.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu/cpu.h"
#include "cpu/move.h"
#include "cpu_layer.h"
#include <string.h>

/* ---- Products ------------------------------------------------------------------------------- */

/* One side's factor, of each group. */
struct factor_job {
    gram_context *g;
    const struct gram_kfac_factors_op *op;
    struct cpu_layer_block block;
    const struct gram_layer_output *out;
    int64_t order, positions, count; /* of a block */
    double scale;
    size_t block_at, sums_at, bytes; /* in scratch: the triangle first */
};

static gram_status make_job(gram_context *g, const struct gram_kfac_factors_op *op, bool gradients,
                            struct factor_job *job)
{
    const struct gram_layer_op *l = &op->layer;
    size_t size = gram_dtype_size(l->dtype), room;
    int64_t features;
    double divisor;

    *job = (struct factor_job){.g = g, .op = op, .out = gradients ? &op->b : &op->a};
    job->block = (struct cpu_layer_block){.layer = l,
                                          .gradients = gradients,
                                          .ones = !gradients && l->bias,
                                          .reduced = op->setting == GRAM_KFAC_REDUCE};
    job->order = cpu_layer_block_features(&job->block);
    job->positions = cpu_layer_block_positions(&job->block);
    if (l->positions == 0)
        job->positions = 0;
    features = job->order - job->block.ones;
    divisor = gradients ? (double)l->samples : (double)job->positions;
    job->scale = job->positions == 0 ? 0
                 : gradients         ? op->scale * op->scale / divisor
                                     : 1 / divisor;
    job->count = cpu_layer_block_count(l, job->order, job->positions);
    if (!gram_blas_fits(job->order, job->count, features))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "a factor of order %lld is too large for BLAS",
                         (long long)job->order);
    if (__builtin_mul_overflow((size_t)job->order, (size_t)job->order, &room) ||
        __builtin_mul_overflow(room, size, &room) || room > SIZE_MAX / 4)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of a factor overflows");
    job->block_at = gram_round64(room);
    job->sums_at = job->block_at + gram_round64((size_t)(job->order * job->count) * size);
    job->bytes = job->sums_at;
    if (job->block.reduced)
        job->bytes += gram_round64((size_t)(features * g->threads) * 2 * sizeof(double));
    return GRAM_OK;
}

struct store_job {
    struct cpu_layer_store store;
    const char *triangle;
    int64_t order;
};

/* Copies the triangle to its other side, and a row of both to the output. */
static void store_row(void *arg, int64_t row, int thread)
{
    const struct store_job *job = arg;
    struct cpu_layer_store s = job->store;

    (void)thread;
    s.row = row;
    s.rows = 1;
    cpu_layer_store(&s, job->triangle + (size_t)(row * job->order) * gram_dtype_size(s.dtype), 0);
}

static void run_group(struct factor_job *job, int64_t group, char *scratch)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct store_job store = {
        .store = {.out = job->out,
                  .dtype = l->dtype,
                  .sample = group,
                  .cols = job->order,
                  .scale = 1 - job->op->keep,
                  .add = job->op->keep},
        .triangle = scratch,
        .order = job->order,
    };

    job->block.group = group;
    memset(scratch, 0, job->block_at);
    for (int64_t first = 0; first < job->positions; first += job->count) {
        int64_t count = gram_least(job->count, job->positions - first);
        struct gram_blas_matrix m =
            cpu_layer_block_load(job->g, &job->block, first, count, scratch + job->block_at);
        gram_blas_threads(job->g);
        gram_blas_syrk(l->dtype, GRAM_LOWER, job->order, count, job->scale, m, 1, scratch,
                       job->order);
    }
    cpu_mirror(l->dtype, job->order, scratch);
    if (job->positions == 0)
        store.store.scale = 0;
    gram_parallel_for(job->g, job->order, store_row, &store);
}

static void run_factor(struct factor_job *job, char *scratch)
{
    if (job->order == 0)
        return;
    job->block.sums = (double *)(void *)(scratch + job->sums_at);
    for (int64_t group = 0; group < job->op->layer.groups; group++)
        run_group(job, group, scratch);
}

/* ---- An embedding's A ----------------------------------------------------------------------- */

static size_t table_bytes(const struct gram_layer_op *l)
{
    return 3 * gram_round64((size_t)l->in * sizeof(double));
}

/* sum[r] += (how often row r is in the sample)^2; count is all 0 before and after. */
static void add_squares(const struct gram_layer_op *l, int64_t n, double *count, double *sum)
{
    for (int64_t s = 0; s < l->positions; s++)
        count[cpu_layer_row_at(l, n, s)]++;
    for (int64_t s = 0; s < l->positions; s++) {
        int64_t row = cpu_layer_row_at(l, n, s);
        sum[row] += count[row] * count[row];
        count[row] = 0;
    }
}

static void count_rows(const struct gram_kfac_factors_op *op, void *scratch)
{
    const struct gram_layer_op *l = &op->layer;
    size_t array = gram_round64((size_t)l->in * sizeof(double));
    double *sum = scratch, *count = (double *)(void *)((char *)scratch + array);
    void *values = (char *)scratch + 2 * array;
    double all = (double)l->samples * (double)l->positions;
    bool reduced = op->setting == GRAM_KFAC_REDUCE;
    struct cpu_layer_store store = {.out = &op->a,
                                    .dtype = l->dtype,
                                    .rows = l->in,
                                    .cols = 1,
                                    .scale = 1 - op->keep,
                                    .add = op->keep};

    memset(scratch, 0, 2 * array);
    for (int64_t n = 0; n < l->samples; n++)
        for (int64_t s = 0; !reduced && s < l->positions; s++)
            sum[cpu_layer_row_at(l, n, s)]++;
    for (int64_t n = 0; reduced && n < l->samples; n++)
        add_squares(l, n, count, sum);
    if (l->padding_row >= 0 && l->padding_row < l->in)
        sum[l->padding_row] = 0;
    if (reduced)
        all *= (double)l->positions;
    if (all == 0)
        all = 1, store.scale = 0;
    for (int64_t r = 0; r < l->in; r++)
        if (l->dtype == GRAM_F32)
            ((float *)values)[r] = (float)(sum[r] / all);
        else
            ((double *)values)[r] = sum[r] / all;
    cpu_layer_store(&store, values, 1);
}

/* ---- The call ------------------------------------------------------------------------------- */

static gram_status make_jobs(gram_context *g, const struct gram_kfac_factors_op *op,
                             struct factor_job *a, struct factor_job *b, size_t *bytes)
{
    *a = *b = (struct factor_job){0};
    if (op->layer.kind == GRAM_LAYER_EMBEDDING)
        a->bytes = op->a.wanted ? table_bytes(&op->layer) : 0;
    else if (op->a.wanted)
        TRY(make_job(g, op, false, a));
    if (op->b.wanted)
        TRY(make_job(g, op, true, b));
    *bytes = gram_most_bytes(a->bytes, b->bytes);
    return GRAM_OK;
}

gram_status cpu_kfac_factors(gram_context *g, const struct gram_kfac_factors_op *op)
{
    struct gram_layout layout = {0};
    struct factor_job a, b;
    size_t bytes;
    void *scratch; /* of A, and then of B */

    TRY(make_jobs(g, op, &a, &b, &bytes));
    gram_take(&layout, &scratch, bytes);
    TRY(gram_layout_open(g, &layout));
    if (op->layer.kind == GRAM_LAYER_EMBEDDING)
        TRY(cpu_layer_check_rows(g, &op->layer));
    if (op->a.wanted && op->layer.kind == GRAM_LAYER_EMBEDDING)
        count_rows(op, scratch);
    else if (op->a.wanted)
        run_factor(&a, scratch);
    if (op->b.wanted)
        run_factor(&b, scratch);
    return GRAM_OK;
}
