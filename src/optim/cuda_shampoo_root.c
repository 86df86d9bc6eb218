/*
 * cuda_shampoo_root.c - the roots of Shampoo's factors on the device: those that are due, in
 * batches
 *
 * Factors of a kind that are due go to gram_matrix_power's driver together; a root that could not
 * be taken is seen in info, on the device, and leaves the previous one in place.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_optimizer.h"

static const struct cuda_kernel optimizer_count_failures = {"optimizer_matrix.cu",
                                                            "optimizer_count_failures"};
static const struct cuda_kernel optimizer_store_roots = {"optimizer_matrix.cu",
                                                         "optimizer_store_roots"};
static const struct cuda_kernel optimizer_unpack_items = {"optimizer_matrix.cu",
                                                          "optimizer_unpack_items"};

enum {
    BATCH_BYTES = 1 << 28 /* of factors: enough to fill any device */
};

gram_status cuda_shampoo_batch(gram_context *g, const gram_optimizer *o,
                               const struct cuda_optimizer_kind *kind, int k,
                               struct cuda_optimizer_batch *batch)
{
    int64_t n = kind->block->size[k], bytes = n * n * (int64_t)gram_dtype_size(kind->work);
    struct gram_matrix_power_op op;

    batch->count = gram_least(gram_least(kind->count, OPTIMIZER_ITEMS), BATCH_BYTES / bytes + 1);
    batch->out = gram_round64((size_t)(batch->count * bytes));
    batch->info = 2 * batch->out;
    batch->kept = batch->info + gram_round64((size_t)batch->count * sizeof(int32_t));
    batch->power = batch->kept + gram_round64((size_t)batch->count * sizeof(int));
    op = gram_optimizer_power(o, kind->block, n, kind->work, batch->count);
    TRY(cuda_matrix_power_workspace(g, &op, &batch->power_bytes));
    batch->bytes = batch->power_bytes;
    if (o->options.skip > 0)
        batch->bytes = gram_most_bytes(batch->bytes, cuda_shampoo_fit_bytes(kind, n, batch->count));
    batch->bytes += batch->power;
    return GRAM_OK;
}

static gram_status take_power(gram_context *g, const struct gram_matrix_power_op *op, char *memory,
                              size_t bytes)
{
    const struct cuda_optimizer_given before =
        cuda_optimizer_give(g, (struct cuda_optimizer_given){memory, bytes});
    gram_status status = cuda_matrix_power(g, op);

    (void)cuda_optimizer_give(g, before);
    return status;
}

/* Roots of dimension k of the items of a batch. */
static gram_status take_roots(const struct cuda_optimizer_job *job,
                              const struct cuda_optimizer_kind *kind, int k,
                              struct optimizer_roots *r)
{
    struct cuda_optimizer_batch batch;
    struct gram_matrix_power_op op;
    char *memory = job->scratch + job->at.arrays;
    int64_t pairs;

    TRY(cuda_shampoo_batch(job->g, job->o, kind, k, &batch));
    cuda_optimizer_dimension(kind->block, k, &r->a);
    pairs = cuda_optimizer_pairs(r->a.n);
    op = gram_optimizer_power(job->o, kind->block, r->a.n, kind->work, r->items);
    op.a.data = r->a.matrix = memory;
    op.out.data = memory + batch.out;
    op.info.data = memory + batch.info;
    r->info = (const int *)(const void *)op.info.data;
    TRY(cuda_optimizer_launch(job, kind->work, &optimizer_unpack_items, r->items * pairs, r));
    r->kept = NULL;
    if (job->o->options.skip > 0) {
        r->kept = (int *)(void *)(memory + batch.kept);
        TRY(cuda_shampoo_fit(job, kind, r, memory + batch.power));
    }
    TRY(take_power(job->g, &op, memory + batch.power, batch.power_bytes));
    r->a.matrix = op.out.data;
    return cuda_optimizer_launch(job, kind->work, &optimizer_store_roots, r->items * pairs, r);
}

static bool is_due(const struct cuda_optimizer_job *job, const struct gram_optimizer_block *b)
{
    return job->op->gradients[b->parameter] &&
           gram_optimizer_due(job->o, b, job->o->steps[b->parameter] + 1);
}

bool cuda_shampoo_is_due(const struct cuda_optimizer_job *job,
                         const struct cuda_optimizer_kind *kind)
{
    for (int64_t i = 0; i < kind->count; i++)
        if (is_due(job, &job->o->block[job->c->order[kind->first + i]]))
            return true;
    return false;
}

/* What a batch has room for, of every dimension. */
static int64_t least_batch(const struct cuda_optimizer_kind *kind)
{
    int64_t most = 1;

    for (int k = 0; k < kind->block->order; k++)
        most = gram_most(most, kind->block->size[k]);
    most = BATCH_BYTES / (most * most * (int64_t)gram_dtype_size(kind->work)) + 1;
    return gram_least(most, OPTIMIZER_ITEMS);
}

gram_status cuda_shampoo_refresh(const struct cuda_optimizer_job *job,
                                 const struct cuda_optimizer_kind *kind)
{
    struct optimizer_roots r = {.a = cuda_optimizer_wave(job, kind, 0, kind->count)};
    const int64_t *order = job->c->order + kind->first, room = least_batch(kind);

    for (int64_t next = 0; next < kind->count;) {
        for (r.items = 0; next < kind->count && r.items < room; next++)
            if (is_due(job, &job->o->block[order[next]]))
                r.item[r.items++] = (int)next;
        for (int k = 0; r.items > 0 && k < kind->block->order; k++)
            TRY(take_roots(job, kind, k, &r));
        if (r.items > 0)
            TRY(cuda_optimizer_launch(job, kind->work, &optimizer_count_failures,
                                      gram_ceil_div(r.items, OPTIMIZER_THREADS), &r));
    }
    return GRAM_OK;
}
