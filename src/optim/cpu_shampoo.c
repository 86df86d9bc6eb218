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

/* Where the parts of a batch lie in the scratch behind the items. */
struct batch {
    int64_t count;
    size_t out, info, power, power_bytes, bytes;
};

/* A run of items of one order and one exponent, and what a thread does with them. */
struct run {
    const struct cpu_optimizer_step *s;
    struct item *items;
    int64_t n;
    gram_dtype work;
    char *memory; /* behind all items */
    size_t matrix;
    const struct batch *batch;
};

static const struct gram_optimizer_parameter *parameter_of(const gram_optimizer *o, int64_t block)
{
    return &o->parameter[o->block[block].parameter];
}

/* ---- Scratch --------------------------------------------------------------------------------- */

/* A matrix of its largest side. */
static size_t unit_bytes(const gram_optimizer *o, const struct gram_optimizer_block *b)
{
    int64_t n = 0;
    size_t count;

    for (int k = 0; k < b->order; k++)
        n = gram_most(n, b->size[k]);
    if (__builtin_mul_overflow((size_t)n, (size_t)n, &count) || count > SIZE_MAX / 128)
        return SIZE_MAX;
    return count * gram_dtype_size(o->parameter[b->parameter].work);
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

static gram_status lay_out(gram_context *g, const gram_optimizer *o, int64_t block, int k,
                           int64_t all, struct batch *batch)
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
    TRY(gram_measure(g, &batch->power_bytes, g->backend->matrix_power(g, &op)));
    batch->bytes = batch->power + batch->power_bytes;
    fits = o->options.skip > 0 ? 4 * (size_t)g->threads * gram_round64(matrix) : 0;
    batch->bytes = gram_most_bytes(batch->bytes, fits);
    return GRAM_OK;
}

static gram_status refresh_bytes(gram_context *g, const gram_optimizer *o, size_t *bytes)
{
    int64_t all = factors(o);
    size_t most = 0;

    for (int64_t i = 0; i < o->blocks; i++)
        for (int k = 0; gram_optimizer_owns(o, &o->block[i]) && k < o->block[i].order; k++) {
            struct batch batch;
            TRY(lay_out(g, o, i, k, all, &batch));
            most = gram_most_bytes(most, batch.bytes);
        }
    *bytes = gram_round64((size_t)all * sizeof(struct item)) + most;
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
 * the factor with its ridge; memory has room for four matrices. */
// NOLINTNEXTLINE(readability-non-const-parameter): the products are written there
static bool still_fits(const struct run *run, const struct item *item, char *memory)
{
    const gram_optimizer *o = run->s->job->o;
    const struct gram_optimizer_block *b = &o->block[item->block];
    struct gram_shampoo_product p = {memory, memory + run->matrix, memory + 2 * run->matrix,
                                     memory + 3 * run->matrix};
    double most;

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
        still_fits(run, item, run->memory + (size_t)thread * 4 * run->matrix))
        item->outcome = FITS;
}

/* ---- Roots ----------------------------------------------------------------------------------- */

static void load_one(void *arg, int64_t index, int thread)
{
    const struct run *run = arg;

    (void)thread;
    load_factor(run, &run->items[index],
                run->memory +
                    (size_t)index * (size_t)(run->n * run->n) * gram_dtype_size(run->work));
}

static void store_one(void *arg, int64_t index, int thread)
{
    const struct run *run = arg;
    struct item *item = &run->items[index];
    const int32_t *info = (const int32_t *)(void *)(run->memory + run->batch->info);
    const gram_optimizer *o = run->s->job->o;

    (void)thread;
    item->outcome = info[index];
    if (item->outcome == GRAM_POWER_DONE)
        cpu_optimizer_store(o, &o->block[item->block].root[item->k], run->work,
                            run->memory + run->batch->out +
                                (size_t)index * (size_t)(run->n * run->n) *
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

    op.a.data = run->memory;
    op.out.data = run->memory + run->batch->out;
    op.info.data = run->memory + run->batch->info;
    gram_for(g, elements, count, load_one, run);
    gram_scratch_lend(g, run->memory + run->batch->power, run->batch->power_bytes, &before);
    for (int64_t i = 0; i < count; i++)
        ((int32_t *)(void *)op.info.data)[i] = GRAM_POWER_NOT_CONVERGED;
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
    struct batch batch;

    /* It went well when the scratch was counted. */
    if (lay_out(s->job->g, s->job->o, run.items->block, run.items->k, all, &batch) != GRAM_OK)
        return;
    run.batch = &batch;
    run.matrix = gram_round64((size_t)(run.n * run.n) * gram_dtype_size(run.work));
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
    struct item *items = (struct item *)(void *)s->scratch;
    int64_t all = factors(s->job->o), count = find_due(s, items), taken = 0;

    while (taken < count) {
        struct item *first = items + taken;
        int64_t equal = gather_kind(s->job->o, first, count - taken);
        struct run run = {
            .s = s,
            .items = first,
            .n = first->n,
            .work = parameter_of(s->job->o, first->block)->work,
            .memory = s->scratch + gram_round64((size_t)all * sizeof(struct item)),
        };
        take_run(&run, equal, all);
        taken += equal;
    }
    report(s, items, count);
}

const struct cpu_optimizer_method cpu_shampoo = {
    .unit_bytes = unit_bytes,
    .refresh_bytes = refresh_bytes,
};
