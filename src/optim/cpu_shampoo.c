/*
 * cpu_shampoo.c - the roots of Shampoo's factors: those that are due, equal ones in batches
 *
 * The factors that are due are sorted by order and exponent.  Of a run of equal ones those whose
 * roots still fit are left out; the others are loaded, divided by their correction, and given to
 * gram_matrix_power's driver as one batch, a chunk at a time.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/random.h"
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu_optimizer.h"
#include "linalg/matrix_power.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FITS = -1,             /* an outcome: nothing was done, the root at hand still fits */
    LARGEST_STEPS = 32,    /* power iterations for the largest eigenvalue, which the ridge needs */
    CHUNK_BYTES = 64 << 20 /* of a batch: at least as many items as threads, whatever they take */
};

/* A factor that is due. */
struct item {
    int64_t block, n;
    int k;
    int outcome; /* gram_power_outcome; or FITS */
};

/* A batch: its matrices and their roots, what became of them, and the scratch of the driver. */
struct batch {
    int64_t count;
    char *in, *out, *power;
    int32_t *info;
    size_t power_bytes;
};

/* A run of items of one order and one exponent, and what a thread does with them. */
struct run {
    const struct cpu_optimizer_step *s;
    struct item *items;
    int64_t n;
    gram_dtype work;
    char *memory; /* behind all items: a share for each thread, or a batch */
    size_t share_bytes;
    const struct batch *batch;
};

static const struct gram_optimizer_parameter *parameter_of(const gram_optimizer *o, int64_t block)
{
    return &o->parameter[o->block[block].parameter];
}

/* ---- Scratch --------------------------------------------------------------------------------- */

/* A matrix of its largest side. */
static void take(const gram_optimizer *o, const struct gram_optimizer_block *b,
                 struct gram_layout *l, struct cpu_optimizer_unit *u)
{
    const gram_dtype work = o->parameter[b->parameter].work;
    size_t n = 0;

    for (int k = 0; k < b->order; k++)
        n = gram_most_bytes(n, (size_t)b->size[k]);
    gram_take_many(l, &u->matrix, n, n * gram_dtype_size(work));
}

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

/* What a thread has that finds out whether a root still fits. */
static void take_product(int64_t n, gram_dtype work, struct gram_layout *l,
                         struct gram_shampoo_product *p)
{
    const size_t square = (size_t)(n * n), size = gram_dtype_size(work);

    gram_take_many(l, &p->shifted, square, size);
    gram_take_many(l, &p->root, square, size);
    gram_take_many(l, &p->y, square, size);
    gram_take_many(l, &p->z, square, size);
}

static gram_status take_batch(gram_context *g, const gram_optimizer *o, const struct item *item,
                              int64_t all, struct batch *batch, struct gram_layout *l)
{
    const struct gram_optimizer_block *b = &o->block[item->block];
    gram_dtype work = parameter_of(o, item->block)->work;
    int64_t n = item->n;
    struct gram_matrix_power_op op;
    size_t square = (size_t)n * (size_t)n, size = gram_dtype_size(work);

    if (!gram_blas_fits(n, b->count / n, n) || n > INT64_C(1) << 24)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "parameters[%lld] has a block of %lld by %lld, which is more than BLAS "
                         "can count",
                         (long long)b->parameter, (long long)n, (long long)(b->count / n));
    batch->count = capacity(g, all, n, work);
    op = gram_optimizer_power(o, b, n, work, batch->count);
    TRY(gram_measure(g, &batch->power_bytes, g->backend->matrix_power(g, &op)));
    gram_take_many(l, &batch->in, (size_t)batch->count * square, size);
    gram_take_many(l, &batch->out, (size_t)batch->count * square, size);
    gram_take_many(l, &batch->info, (size_t)batch->count, sizeof(int32_t));
    gram_take(l, &batch->power, batch->power_bytes);
    return GRAM_OK;
}

/* Of the items of one order: those that still fit are left out before the batches. */
static gram_status kind_bytes(gram_context *g, const gram_optimizer *o, const struct item *item,
                              int64_t all, size_t *bytes)
{
    struct gram_layout layout = {0}, share = {0}, shares = {0};
    struct gram_shampoo_product product;
    struct batch batch;
    char *memory;

    TRY(take_batch(g, o, item, all, &batch, &layout));
    take_product(item->n, parameter_of(o, item->block)->work, &share, &product);
    gram_take_many(&shares, &memory, o->options.skip > 0 ? (size_t)g->threads : 0,
                   gram_layout_bytes(&share));
    *bytes = gram_most_bytes(layout.bytes, shares.bytes);
    return GRAM_OK;
}

/* All items, and what their kinds use in turn. */
static void take_refresh(int64_t all, size_t bytes, struct gram_layout *l, struct item **items,
                         char **memory)
{
    gram_take_many(l, items, (size_t)all, sizeof **items);
    gram_take(l, memory, bytes);
}

static gram_status refresh_bytes(gram_context *g, const gram_optimizer *o, size_t *bytes)
{
    const int64_t all = factors(o);
    struct gram_layout layout = {0};
    struct item *items;
    char *memory;
    size_t most = 0;

    for (int64_t i = 0; i < o->blocks; i++)
        for (int k = 0; gram_optimizer_owns(o, &o->block[i]) && k < o->block[i].order; k++) {
            const struct item item = {.block = i, .n = o->block[i].size[k], .k = k};
            size_t kind;
            TRY(kind_bytes(g, o, &item, all, &kind));
            most = gram_most_bytes(most, kind);
        }
    take_refresh(all, most, &layout, &items, &memory);
    *bytes = gram_layout_bytes(&layout);
    return GRAM_OK;
}

/* ---- Roots that still fit -------------------------------------------------------------------- */

/* 1 - beta^n after n gradients where factors are corrected for having begun at 0; else, and for
 * sums, 1. */
static double correction(const gram_optimizer *o, double beta, int64_t t)
{
    double taken = (double)gram_optimizer_taken(o, t);

    return o->options.bias_correction && beta < 1 ? -expm1(taken * log(beta)) : 1;
}

/* Loads the corrected factor, with both triangles. */
static void load_factor(const struct run *run, const struct item *item, void *to)
{
    const gram_optimizer *o = run->s->job->o;
    const struct gram_optimizer_block *b = &o->block[item->block];
    double by = correction(o, o->options.beta2, o->steps[b->parameter] + 1);

    cpu_optimizer_load(o, &b->factor[item->k], run->work, true, to);
    cpu_optimizer_math(run->work)->scale(run->n * run->n, 1 / by, to);
}

static gram_status multiply(const void *of, const void *a, const void *b, void *to)
{
    const struct run *run = of;
    int64_t n = run->n;

    gram_blas_gemm(run->work, (int64_t[]){n, n, n}, 1, (struct gram_blas_matrix){a, n, false},
                   (struct gram_blas_matrix){b, n, false}, 0, to, n);
    return GRAM_OK;
}

static void shift(const struct run *run, double by, void *matrix)
{
    for (int64_t i = 0; i < run->n; i++)
        if (run->work == GRAM_F64)
            ((double *)matrix)[i * run->n + i] += by;
        else
            ((float *)matrix)[i * run->n + i] += (float)by;
}

static void set_random(const struct run *run, void *vector)
{
    uint64_t state = 1;

    for (int64_t i = 0; i < run->n; i++)
        if (run->work == GRAM_F64)
            ((double *)vector)[i] = gram_random_unit(&state);
        else
            ((float *)vector)[i] = (float)gram_random_unit(&state);
}

/* About the largest eigenvalue, from below; x and y have room for a vector. */
static double largest(const struct run *run, const void *a, void *x, void *y)
{
    const struct cpu_optimizer_math *math = cpu_optimizer_math(run->work);
    int64_t n = run->n;
    double norm = 0;

    set_random(run, x);
    for (int i = 0; i < LARGEST_STEPS; i++) {
        double old = sqrt(math->squares(n, x));
        void *other = x;
        if (!(old > 0) || old == INFINITY)
            return 0;
        math->scale(n, 1 / old, x);
        gram_blas_gemm(run->work, (int64_t[]){n, 1, n}, 1, (struct gram_blas_matrix){a, n, false},
                       (struct gram_blas_matrix){x, n, false}, 0, y, n);
        norm = sqrt(math->squares(n, y));
        x = y;
        y = other;
    }
    return norm;
}

static double least_ridge(const struct run *run, const struct gram_optimizer_block *b)
{
    struct gram_matrix_power_op op = gram_optimizer_power(run->s->job->o, b, run->n, run->work, 1);

    return gram_power_least_ridge(&op, gram_matrix_power_cpu_dtype(&op));
}

/* True if |X^(q/2) B^k X^(q/2) - I|_F <= skip sqrt(n), X being the root at hand for -k / q and B
 * the factor with its ridge; memory is a share of take_product. */
// NOLINTNEXTLINE(readability-non-const-parameter): the products are written there
static bool still_fits(const struct run *run, const struct item *item, char *memory)
{
    const gram_optimizer *o = run->s->job->o;
    const struct gram_optimizer_block *b = &o->block[item->block];
    struct gram_layout share = {0};
    struct gram_shampoo_product p;
    double most;

    take_product(run->n, run->work, &share, &p);
    gram_layout_place(&share, memory);
    load_factor(run, item, p.shifted);
    most = largest(run, p.shifted, p.y, p.z);
    shift(run, gram_optimizer_ridge(&o->options, least_ridge(run, b), most), p.shifted);
    cpu_optimizer_load(o, &b->root[item->k], run->work, true, p.root);
    (void)gram_shampoo_multiply(multiply, run, b, &p);
    shift(run, -1, p.y);
    return sqrt(cpu_optimizer_math(run->work)->squares(run->n * run->n, p.y)) <=
           o->options.skip * sqrt((double)run->n);
}

static void leave_if_fits(void *arg, int64_t index, int thread)
{
    const struct run *run = arg;
    struct item *item = &run->items[index];
    const gram_optimizer *o = run->s->job->o;

    if (o->steps[o->block[item->block].parameter] + 1 > o->options.start &&
        still_fits(run, item, run->memory + (size_t)thread * run->share_bytes))
        item->outcome = FITS;
}

/* ---- Roots ----------------------------------------------------------------------------------- */

static void load_one(void *arg, int64_t index, int thread)
{
    const struct run *run = arg;

    (void)thread;
    load_factor(run, &run->items[index],
                run->batch->in +
                    (size_t)index * (size_t)(run->n * run->n) * gram_dtype_size(run->work));
}

static void store_one(void *arg, int64_t index, int thread)
{
    const struct run *run = arg;
    struct item *item = &run->items[index];
    const gram_optimizer *o = run->s->job->o;

    (void)thread;
    item->outcome = run->batch->info[index];
    if (item->outcome == GRAM_POWER_DONE)
        cpu_optimizer_store(o, &o->block[item->block].root[item->k], run->work,
                            run->batch->out + (size_t)index * (size_t)(run->n * run->n) *
                                                  gram_dtype_size(run->work));
}

static void take_chunk(struct run *run, int64_t count)
{
    gram_context *g = run->s->job->g;
    const struct gram_optimizer_block *b = &run->s->job->o->block[run->items->block];
    struct gram_matrix_power_op op =
        gram_optimizer_power(run->s->job->o, b, run->n, run->work, count);
    double elements = (double)count * (double)run->n * (double)run->n;
    struct gram_scratch_before before;

    op.a.data = run->batch->in;
    op.out.data = run->batch->out;
    op.info.data = (char *)run->batch->info;
    gram_for(g, elements, count, load_one, run);
    gram_scratch_lend(g, run->batch->power, run->batch->power_bytes, &before);
    for (int64_t i = 0; i < count; i++)
        run->batch->info[i] = GRAM_POWER_NOT_CONVERGED;
    /* Its sizes were checked and its scratch is here: what fails, fails item by item. */
    (void)g->backend->matrix_power(g, &op);
    gram_scratch_return(g, &before);
    gram_for(g, elements, count, store_one, run);
}

static int by_outcome(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    return (x->outcome == FITS) - (y->outcome == FITS);
}

/* Moves what still fits behind the rest, whose number it gives. */
static int64_t leave_out_fitting(struct run *run, int64_t count)
{
    gram_blas_for(run->s->job->g, count, leave_if_fits, run);
    qsort(run->items, (size_t)count, sizeof *run->items, by_outcome);
    while (count > 0 && run->items[count - 1].outcome == FITS)
        count--;
    return count;
}

/* All items of a run. */
static void take_run(const struct run *whole, int64_t count, int64_t all)
{
    const struct cpu_optimizer_step *s = whole->s;
    struct run run = *whole;
    struct gram_layout layout = {0}, share = {0};
    struct gram_shampoo_product product;
    struct batch batch;

    /* It went well when the scratch was counted. */
    if (take_batch(s->job->g, s->job->o, run.items, all, &batch, &layout) != GRAM_OK)
        return;
    gram_layout_place(&layout, run.memory);
    run.batch = &batch;
    take_product(run.n, run.work, &share, &product);
    run.share_bytes = gram_layout_bytes(&share);
    if (s->job->o->options.skip > 0)
        count = leave_out_fitting(&run, count);
    for (int64_t left = count; left > 0; left -= batch.count) {
        take_chunk(&run, gram_least(batch.count, left));
        run.items += batch.count;
    }
}

/* ---- What is due ----------------------------------------------------------------------------- */

static int64_t find_due(const struct cpu_optimizer_step *s, struct item *items)
{
    const gram_optimizer *o = s->job->o;
    int64_t count = 0;

    for (int64_t i = 0; i < o->blocks; i++) {
        const struct gram_optimizer_block *b = &o->block[i];
        if (!gram_optimizer_owns(o, b) || s->rests[b->parameter] ||
            !gram_optimizer_due_now(s->job, b))
            continue;
        for (int k = 0; k < b->order; k++)
            items[count++] = (struct item){
                .block = i, .n = b->size[k], .k = k, .outcome = GRAM_POWER_NOT_CONVERGED};
    }
    return count;
}

static int by_block(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    return (x->block > y->block) - (x->block < y->block);
}

/* Items that can be one batch, together: by order, dtype and exponent. */
struct kind {
    int64_t n;
    gram_dtype work;
    int numerator, denominator;
};

static struct kind kind_of(const gram_optimizer *o, const struct item *item)
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
static int64_t gather_kind(const gram_optimizer *o, struct item *items, int64_t count)
{
    struct kind first = kind_of(o, items);
    int64_t found = 0;

    for (int64_t i = 0; i < count; i++)
        if (same_kind(kind_of(o, &items[i]), first)) {
            struct item other = items[found];
            items[found++] = items[i];
            items[i] = other;
        }
    return found;
}

static void report(const struct cpu_optimizer_step *s, struct item *items, int64_t count)
{
    gram_optimizer_report *to = s->job->op->report;
    gram_optimizer *o = s->job->o;

    qsort(items, (size_t)count, sizeof *items, by_block);
    for (int64_t i = 0; i < count; i++) {
        int64_t block = items[i].block, failed = 0;
        for (; i < count && items[i].block == block; i++) {
            to->kept += items[i].outcome == FITS;
            to->refreshed += items[i].outcome == GRAM_POWER_DONE;
            failed += items[i].outcome > GRAM_POWER_DONE;
        }
        i--;
        if (failed && to->first_failed < 0)
            to->first_failed = o->block[block].parameter;
        to->failed += failed;
        o->failures[block] = failed ? o->failures[block] + 1 : 0;
    }
}

void cpu_shampoo_refresh(const struct cpu_optimizer_step *s)
{
    const int64_t all = factors(s->job->o);
    int64_t count, taken = 0;
    struct gram_layout layout = {0};
    struct item *items;
    char *memory;

    take_refresh(all, 0, &layout, &items, &memory);
    gram_layout_place(&layout, s->scratch);
    count = find_due(s, items);
    while (taken < count) {
        struct item *first = items + taken;
        int64_t equal = gather_kind(s->job->o, first, count - taken);
        struct run run = {
            .s = s,
            .items = first,
            .n = first->n,
            .work = parameter_of(s->job->o, first->block)->work,
            .memory = memory,
        };
        take_run(&run, equal, all);
        taken += equal;
    }
    report(s, items, count);
}

const struct cpu_optimizer_method cpu_shampoo = {
    .take = take,
    .refresh_bytes = refresh_bytes,
};
