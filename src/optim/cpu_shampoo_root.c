/*
 * cpu_shampoo_root.c - the roots of Shampoo's factors: those that are due, equal ones in batches
 *
 * The factors that are due are sorted by order and exponent; a run of equal ones is loaded, divided
 * by its correction, and given to gram_matrix_power's driver as one batch, a chunk at a time.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/threads.h"
#include "cpu_shampoo.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BYTES = 64 << 20 /* of a batch: at least as many items as threads, whatever they take */
};

static const struct gram_optimizer_parameter *parameter_of(const gram_optimizer *o, int64_t block)
{
    return &o->parameter[o->block[block].parameter];
}

/* ---- Scratch ------------------------------------------------------------------------------ */

static int64_t factors(const gram_optimizer *o)
{
    int64_t count = 0;

    for (int64_t i = 0; i < o->blocks; i++)
        count += gram_optimizer_owns(o, &o->block[i]) ? o->block[i].order : 0;
    return count;
}

/* Items of order n that are done at a time. */
static int64_t capacity(const gram_context *g, int64_t all, int64_t n, gram_dtype work)
{
    int64_t bytes = 2 * n * n * (int64_t)gram_dtype_size(work);

    return gram_least(all, gram_most(g->threads, CHUNK_BYTES / gram_most(bytes, 1)));
}

static gram_status lay_out(gram_context *g, const gram_optimizer *o, int64_t block, int k,
                           int64_t all, struct cpu_shampoo_batch *batch)
{
    const struct gram_optimizer_block *b = &o->block[block];
    gram_dtype work = parameter_of(o, block)->work;
    int64_t n = b->size[k];
    struct gram_matrix_power_op op;
    size_t fits, matrix;

    if (!gram_blas_fits(n, b->count / n, n) || n > INT64_C(1) << 24)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "parameters[%lld] has a block of %lld by %lld, more than BLAS can count",
                         (long long)b->parameter, (long long)n, (long long)(b->count / n));
    matrix = (size_t)(n * n) * gram_dtype_size(work);
    batch->count = capacity(g, all, n, work);
    batch->out = gram_round64((size_t)batch->count * matrix);
    batch->info = 2 * batch->out;
    batch->power = batch->info + gram_round64((size_t)batch->count * sizeof(int32_t));
    op = gram_optimizer_power(o, b, n, work, batch->count);
    TRY(g->backend->matrix_power_workspace(g, &op, &batch->power_bytes));
    batch->bytes = batch->power + batch->power_bytes;
    fits = o->options.skip > 0 ? 4 * (size_t)g->threads * gram_round64(matrix) : 0;
    batch->bytes = gram_most_bytes(batch->bytes, fits);
    return GRAM_OK;
}

gram_status cpu_shampoo_refresh_bytes(gram_context *g, const gram_optimizer *o, size_t *bytes)
{
    int64_t all = factors(o);
    size_t most = 0;

    for (int64_t i = 0; i < o->blocks; i++)
        for (int k = 0; gram_optimizer_owns(o, &o->block[i]) && k < o->block[i].order; k++) {
            struct cpu_shampoo_batch batch;
            TRY(lay_out(g, o, i, k, all, &batch));
            most = gram_most_bytes(most, batch.bytes);
        }
    *bytes = gram_round64((size_t)all * sizeof(struct cpu_shampoo_item)) + most;
    return GRAM_OK;
}

/* ---- Roots that still fit ------------------------------------------------------------------ */

static void look(void *arg, int64_t index, int thread)
{
    const struct cpu_shampoo_run *run = arg;
    struct cpu_shampoo_item *item = &run->items[index];
    const gram_optimizer *o = run->s->o;

    if (o->steps[o->block[item->block].parameter] + 1 > o->options.start &&
        cpu_shampoo_fits(run, item, run->memory + (size_t)thread * 4 * run->matrix))
        item->outcome = CPU_SHAMPOO_FITS;
}

/* ---- Roots -------------------------------------------------------------------------------- */

static void load(void *arg, int64_t index, int thread)
{
    const struct cpu_shampoo_run *run = arg;

    (void)thread;
    cpu_shampoo_load_factor(run, &run->items[index],
                            run->memory + (size_t)index * (size_t)(run->n * run->n) *
                                              gram_dtype_size(run->work));
}

static void keep(void *arg, int64_t index, int thread)
{
    const struct cpu_shampoo_run *run = arg;
    struct cpu_shampoo_item *item = &run->items[index];
    const int32_t *info = (const int32_t *)(void *)(run->memory + run->batch->info);
    const gram_optimizer *o = run->s->o;

    (void)thread;
    item->outcome = info[index];
    if (item->outcome == GRAM_POWER_DONE)
        cpu_optimizer_store(o, &o->block[item->block].root[item->k], run->work,
                            run->memory + run->batch->out +
                                (size_t)index * (size_t)(run->n * run->n) *
                                    gram_dtype_size(run->work));
}

static void take_chunk(struct cpu_shampoo_run *run, int64_t count)
{
    gram_context *g = run->s->g;
    const struct gram_optimizer_block *b = &run->s->o->block[run->items->block];
    struct gram_matrix_power_op op = gram_optimizer_power(run->s->o, b, run->n, run->work, count);
    double elements = (double)count * (double)run->n * (double)run->n;
    struct cpu_optimizer_lent lent;

    op.a.data = run->memory;
    op.out.data = run->memory + run->batch->out;
    op.info.data = run->memory + run->batch->info;
    gram_for(g, elements, count, load, run);
    lent = cpu_optimizer_lend(g, run->memory + run->batch->power, run->batch->power_bytes);
    for (int64_t i = 0; i < count; i++)
        ((int32_t *)(void *)op.info.data)[i] = GRAM_POWER_NOT_CONVERGED;
    /* Its sizes were checked and its scratch is here: what fails, fails item by item. */
    (void)g->backend->matrix_power(g, &op);
    cpu_optimizer_take_back(g, lent);
    gram_for(g, elements, count, keep, run);
}

static int by_outcome(const void *a, const void *b)
{
    const struct cpu_shampoo_item *x = a, *y = b;

    return (x->outcome == CPU_SHAMPOO_FITS) - (y->outcome == CPU_SHAMPOO_FITS);
}

/* Moves what still fits behind the rest, whose number it gives. */
static int64_t leave_out_fitting(struct cpu_shampoo_run *run, int64_t count)
{
    gram_blas_for(run->s->g, count, look, run);
    qsort(run->items, (size_t)count, sizeof *run->items, by_outcome);
    while (count > 0 && run->items[count - 1].outcome == CPU_SHAMPOO_FITS)
        count--;
    return count;
}

/* All items of a run. */
static void take_run(const struct cpu_shampoo_run *whole, int64_t count, int64_t all)
{
    const struct cpu_optimizer_step *s = whole->s;
    struct cpu_shampoo_run run = *whole;
    struct cpu_shampoo_batch batch;

    /* It went well when the scratch was counted. */
    if (lay_out(s->g, s->o, run.items->block, run.items->k, all, &batch) != GRAM_OK)
        return;
    run.batch = &batch;
    run.matrix = gram_round64((size_t)(run.n * run.n) * gram_dtype_size(run.work));
    if (s->o->options.skip > 0)
        count = leave_out_fitting(&run, count);
    for (int64_t left = count; left > 0; left -= batch.count) {
        take_chunk(&run, gram_least(batch.count, left));
        run.items += batch.count;
    }
}

/* ---- What is due -------------------------------------------------------------------------- */

static int64_t find_due(const struct cpu_optimizer_step *s, struct cpu_shampoo_item *items)
{
    const gram_optimizer *o = s->o;
    int64_t count = 0;

    for (int64_t i = 0; i < o->blocks; i++) {
        const struct gram_optimizer_block *b = &o->block[i];
        if (!gram_optimizer_owns(o, b) || s->rests[b->parameter] ||
            !gram_optimizer_due(o, b, o->steps[b->parameter] + 1))
            continue;
        for (int k = 0; k < b->order; k++)
            items[count++] = (struct cpu_shampoo_item){
                .block = i, .n = b->size[k], .k = k, .outcome = GRAM_POWER_NOT_CONVERGED};
    }
    return count;
}

static int by_block(const void *a, const void *b)
{
    const struct cpu_shampoo_item *x = a, *y = b;

    return (x->block > y->block) - (x->block < y->block);
}

/* Items that can be one batch, together: by order, dtype and exponent. */
struct kind {
    int64_t n;
    gram_dtype work;
    int numerator, denominator;
};

static struct kind kind_of(const gram_optimizer *o, const struct cpu_shampoo_item *item)
{
    const struct gram_optimizer_block *b = &o->block[item->block];

    return (struct kind){item->n, parameter_of(o, item->block)->work, b->numerator, b->denominator};
}

static bool same_kind(struct kind a, struct kind b)
{
    return a.n == b.n && a.work == b.work && a.numerator == b.numerator &&
           a.denominator == b.denominator;
}

/* Brings the items that are of the kind of the first one to the front, in order. */
static int64_t gather_kind(const gram_optimizer *o, struct cpu_shampoo_item *items, int64_t count)
{
    struct kind first = kind_of(o, items);
    int64_t found = 0;

    for (int64_t i = 0; i < count; i++)
        if (same_kind(kind_of(o, &items[i]), first)) {
            struct cpu_shampoo_item other = items[found];
            items[found++] = items[i];
            items[i] = other;
        }
    return found;
}

static void tell(const struct cpu_optimizer_step *s, struct cpu_shampoo_item *items, int64_t count)
{
    gram_optimizer_report *report = s->op->report;
    gram_optimizer *o = s->o;

    qsort(items, (size_t)count, sizeof *items, by_block);
    for (int64_t i = 0; i < count; i++) {
        int64_t block = items[i].block, failed = 0;
        for (; i < count && items[i].block == block; i++) {
            report->kept += items[i].outcome == CPU_SHAMPOO_FITS;
            report->refreshed += items[i].outcome == GRAM_POWER_DONE;
            failed += items[i].outcome > GRAM_POWER_DONE;
        }
        i--;
        if (failed && report->first_failed < 0)
            report->first_failed = o->block[block].parameter;
        report->failed += failed;
        o->failures[block] = failed ? o->failures[block] + 1 : 0;
    }
}

void cpu_shampoo_refresh(const struct cpu_optimizer_step *s)
{
    struct cpu_shampoo_item *items = (struct cpu_shampoo_item *)(void *)s->scratch;
    int64_t all = factors(s->o), count = find_due(s, items), taken = 0;

    while (taken < count) {
        struct cpu_shampoo_item *first = items + taken;
        int64_t equal = gather_kind(s->o, first, count - taken);
        struct cpu_shampoo_run run = {
            .s = s,
            .items = first,
            .n = first->n,
            .work = parameter_of(s->o, first->block)->work,
            .memory = s->scratch + gram_round64((size_t)all * sizeof(struct cpu_shampoo_item)),
        };
        take_run(&run, equal, all);
        taken += equal;
    }
    tell(s, items, count);
}
