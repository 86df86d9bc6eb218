/*
 * cuda_optimizer_plan.c - an optimizer's blocks sorted into kinds, and its scratch laid out
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_optimizer.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

static const struct cuda_kernel optimizer_identity = {"optimizer_begin.cu", "optimizer_identity"};

enum {
    ARRAYS = 3,           /* the gradient, and two that products go to in turn or grafts */
    WAVE_BYTES = 1 << 29, /* of arrays and a matrix of each block: enough to fill any device */
    MOST_BLOCKS = 1 << 16
};

void cuda_optimizer_dimension(const struct gram_optimizer_block *b, int k,
                              struct optimizer_params *p)
{
    p->k = k;
    p->n = b->size[k];
    p->before = 1;
    for (int i = 0; i < k; i++)
        p->before *= b->size[i];
    p->after = b->count / p->n / p->before;
}

/* ---- Kinds ----------------------------------------------------------------------------------- */

struct sorted {
    const gram_optimizer *o;
    int64_t block;
};

/* For qsort: the sign of a - b, which itself could overflow. */
static int order_of(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Blocks of one kind compare as 0. */
static int compare_kinds(const gram_optimizer *o, int64_t first, int64_t second)
{
    const struct gram_optimizer_block *a = &o->block[first], *b = &o->block[second];
    const struct gram_optimizer_parameter *p = &o->parameter[a->parameter],
                                          *q = &o->parameter[b->parameter];
    int order = order_of(gram_optimizer_owns(o, a), gram_optimizer_owns(o, b));

    if (!order)
        order = order_of(p->work, q->work);
    if (!order)
        order = order_of(p->state, q->state);
    if (!order)
        order = order_of(a->order, b->order);
    for (int i = 0; i < a->order && !order; i++)
        order = order_of(a->size[i], b->size[i]);
    return order;
}

static int compare(const void *x, const void *y)
{
    const struct sorted *a = x, *b = y;
    int order = compare_kinds(a->o, a->block, b->block);

    return order ? order : order_of(a->block, b->block);
}

static gram_status no_memory(gram_context *g, size_t bytes)
{
    return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
}

/* Sets c->order to all blocks, kind after kind, in a kind by their numbers. */
static gram_status sort(gram_context *g, const gram_optimizer *o, struct cuda_optimizer *c)
{
    size_t bytes = (size_t)o->blocks * sizeof(struct sorted);
    struct sorted *list = gram_alloc(g, bytes + 1);

    if (!list)
        return no_memory(g, bytes);
    for (int64_t i = 0; i < o->blocks; i++)
        list[i] = (struct sorted){o, i};
    if (o->blocks > 0)
        qsort(list, (size_t)o->blocks, sizeof *list, compare);
    for (int64_t i = 0; i < o->blocks; i++)
        c->order[i] = list[i].block;
    gram_free(g, list, bytes + 1);
    return GRAM_OK;
}

/* The kind that begins at place `first` of the order.  A wave is as large as WAVE_BYTES of scratch
 * allow; Muon's matrices are the polynomial and Y, both of the smaller side. */
static struct cuda_optimizer_kind kind_of(const gram_context *g, const gram_optimizer *o,
                                          const struct cuda_optimizer *c, int64_t first)
{
    const struct gram_optimizer_block *b = &o->block[c->order[first]];
    struct cuda_optimizer_kind k = {
        .first = first,
        .count = 1,
        .block = b,
        .work = o->parameter[b->parameter].work,
        .own = gram_optimizer_owns(o, b),
        .array = gram_ceil_div(b->count, 16) * 16,
        .tiles = gram_ceil_div(b->count, OPTIMIZER_TILE),
    };
    int64_t n = 0, bytes;

    for (int i = 0; i < b->order; i++)
        n = gram_most(n, b->factor[i].n);
    k.matrix = n * n;
    if (o->options.method == GRAM_MUON) {
        n = b->order == 2 ? gram_least(b->size[0], b->size[1]) : 0;
        k.matrix = 2 * n * n;
    }
    k.halved = cuda_shampoo_is_halved(g, o, b, k.work);
    bytes = (ARRAYS * k.array + k.matrix) * (int64_t)gram_dtype_size(k.work);
    if (k.halved)
        bytes += CUDA_OPTIMIZER_PARTS * (k.array + k.matrix) * (int64_t)sizeof(uint16_t);
    k.wave = gram_least(WAVE_BYTES / bytes + 1, MOST_BLOCKS);
    while (first + k.count < o->blocks &&
           compare_kinds(o, c->order[first], c->order[first + k.count]) == 0)
        k.count++;
    k.wave = gram_least(k.wave, k.count);
    return k;
}

/* Sizes go to cuBLAS as 32-bit integers. */
static gram_status make_kinds(gram_context *g, const gram_optimizer *o, struct cuda_optimizer *c)
{
    for (int64_t i = 0; i < o->blocks; i++) {
        const struct gram_optimizer_block *b = &o->block[i];
        for (int k = 0; k < b->order; k++)
            if (b->size[k] > INT32_MAX || b->count / b->size[k] > INT32_MAX ||
                b->count > INT64_MAX / 256)
                return gram_fail(g, GRAM_UNSUPPORTED,
                                 "parameters[%lld] has a block of %lld by %lld, which is more "
                                 "than cuBLAS can count",
                                 (long long)b->parameter, (long long)b->size[k],
                                 (long long)(b->count / b->size[k]));
    }
    for (int64_t first = 0; first < o->blocks; first += c->kind[c->kinds++].count)
        c->kind[c->kinds] = kind_of(g, o, c, first);
    return GRAM_OK;
}

/* ---- What the device keeps ------------------------------------------------------------------- */

/* Where a block begins in its parameter, and where its slots lie in the state: this never
 * changes, so that it is sent once, when the optimizer is made. */
static struct optimizer_entry entry_of(const gram_optimizer *o, int64_t number)
{
    const struct gram_optimizer_block *b = &o->block[number];
    const struct gram_optimizer_parameter *p = &o->parameter[b->parameter];
    struct optimizer_entry e = {
        .parameter = b->parameter,
        .number = number,
        .moment = (int64_t)b->moment.offset,
        .velocity = (int64_t)b->velocity.offset,
        .second = (int64_t)b->second.offset,
    };
    int64_t stride = 1;

    for (int k = b->order - 1; k >= 0; k--) {
        e.stride[k] = stride;
        e.start += b->start[k] * stride;
        stride *= p->merged[k];
        e.factor[k] = (int64_t)b->factor[k].offset;
        e.root[k] = (int64_t)b->root[k].offset;
    }
    return e;
}

/* The device's memory, with the entries in it. */
static gram_status send_entries(gram_context *g, const gram_optimizer *o, struct cuda_optimizer *c)
{
    const size_t blocks = (size_t)o->blocks, bytes = blocks * sizeof(struct optimizer_entry) + 1;
    struct optimizer_entry *entries = gram_alloc(g, bytes);
    struct gram_layout layout = {0};
    void *memory;
    gram_status status;

    if (!entries)
        return no_memory(g, bytes);
    for (int64_t i = 0; i < o->blocks; i++)
        entries[i] = entry_of(o, c->order[i]);
    gram_take(&layout, &c->entry, bytes);
    gram_take(&layout, &c->counts, sizeof *c->counts);
    gram_take(&layout, &c->failed, blocks * sizeof *c->failed + 1);
    status = g->backend->memory_allocate(g, gram_layout_bytes(&layout), &memory);
    if (status == GRAM_OK) {
        gram_layout_place(&layout, memory);
        status = g->backend->memory_zero(g, memory, gram_layout_bytes(&layout));
    }
    if (status == GRAM_OK)
        status = g->backend->memory_copy(g, c->entry, entries, blocks * sizeof *entries);
    if (status == GRAM_OK)
        status = g->backend->synchronize(g); /* the copy has been read */
    gram_free(g, entries, bytes);
    return status;
}

/* Roots and bases begin as the identity, by a kernel, since the state is the device's memory. */
static gram_status set_identities(gram_context *g, gram_optimizer *o, struct cuda_optimizer *c)
{
    const struct cuda_optimizer_job job = {
        .step = {.g = g, .o = o},
          .c = c, .params.options.soap = o->options.method == GRAM_SOAP
    };
    bool entered = gram_cuda_enter(g->device);
    gram_status status = GRAM_OK;

    for (int64_t i = 0; i < c->kinds; i++) {
        const struct cuda_optimizer_kind *kind = &c->kind[i];
        struct optimizer_params p = cuda_optimizer_wave(&job, kind, 0, kind->count);
        for (int k = 0; kind->own && k < kind->block->order && status == GRAM_OK; k++) {
            if (!kind->block->root[k].dtype)
                continue;
            cuda_optimizer_dimension(kind->block, k, &p);
            status = cuda_optimizer_launch(
                &job, kind->work, &optimizer_identity,
                gram_least(gram_ceil_div(kind->count * p.n, OPTIMIZER_THREADS), MOST_BLOCKS), &p);
        }
    }
    gram_cuda_leave(g->device, entered);
    return status;
}

static gram_status fill(gram_context *g, gram_optimizer *o, struct cuda_optimizer *c)
{
    size_t blocks = (size_t)o->blocks;

    c->order = gram_alloc(g, blocks * sizeof *c->order + 1);
    c->kind = gram_alloc(g, blocks * sizeof *c->kind + 1);
    c->now = gram_alloc(g, (size_t)o->parameters * sizeof *c->now + 1);
    if (!c->order || !c->kind || !c->now)
        return no_memory(g, blocks * (sizeof *c->order + sizeof *c->kind));
    TRY(sort(g, o, c));
    TRY(make_kinds(g, o, c));
    TRY(send_entries(g, o, c));
    return set_identities(g, o, c);
}

gram_status cuda_optimizer_open(gram_context *g, gram_optimizer *o)
{
    struct cuda_optimizer *c = gram_alloc(g, sizeof *c);

    if (!c)
        return no_memory(g, sizeof *c);
    *c = (struct cuda_optimizer){0};
    o->device = c;
    return fill(g, o, c);
}

void cuda_optimizer_close(gram_optimizer *o)
{
    struct cuda_optimizer *c = o->device;
    gram_context *g = o->owner;
    size_t blocks = (size_t)o->blocks;

    if (!c)
        return;
    if (c->entry)
        g->backend->memory_free(g, c->entry);
    gram_free(g, c->order, blocks * sizeof *c->order + 1);
    gram_free(g, c->kind, blocks * sizeof *c->kind + 1);
    gram_free(g, c->now, (size_t)o->parameters * sizeof *c->now + 1);
    gram_free(g, c, sizeof *c);
    o->device = NULL;
}

/* ---- Scratch --------------------------------------------------------------------------------- */

/* The arrays and matrices of a wave of a kind. */
static void take_wave(const struct cuda_optimizer_job *job, const struct cuda_optimizer_kind *kind,
                      struct gram_layout *l, struct optimizer_params *p)
{
    gram_take(l, &p->g, job->array_bytes);
    gram_take(l, &p->to, job->array_bytes);
    gram_take(l, &p->grafted, job->array_bytes);
    gram_take_many(l, &p->matrix, (size_t)(kind->wave * kind->matrix), gram_dtype_size(kind->work));
    if (kind->halved)
        cuda_shampoo_take_halves(kind, l, p);
}

/* The most that waves of a kind and its roots or bases take. */
static gram_status kind_bytes(const struct cuda_optimizer_job *job,
                              const struct cuda_optimizer_kind *kind, size_t *bytes)
{
    const gram_optimizer *o = job->step.o;
    const bool roots = kind->own && o->options.method == GRAM_SHAMPOO;
    const bool bases = kind->own && o->options.method == GRAM_SOAP;
    struct gram_layout layout = {0};
    struct optimizer_params p;

    take_wave(job, kind, &layout, &p);
    *bytes = gram_layout_bytes(&layout);
    for (int k = 0; (roots || bases) && k < kind->block->order; k++) {
        size_t batch;
        TRY(roots ? cuda_shampoo_bytes(job->step.g, o, kind, k, &batch)
                  : cuda_soap_bytes(job->step.g, kind, k, &batch));
        *bytes = gram_most_bytes(*bytes, batch);
    }
    return GRAM_OK;
}

/* Roots and bases are taken between the passes of waves, and no array outlives a pass: so the two
 * share their memory, whose users the stream keeps apart. */
gram_status cuda_optimizer_open_scratch(struct cuda_optimizer_job *job)
{
    const struct cuda_optimizer *c = job->c;
    const size_t parameters = (size_t)job->step.o->parameters;
    struct optimizer_params *p = &job->params;
    size_t squares = 0, shared = 0;
    struct gram_layout layout = {0};

    for (int64_t i = 0; i < c->kinds; i++) {
        const struct cuda_optimizer_kind *kind = &c->kind[i];
        const size_t array = (size_t)(kind->wave * kind->array) * gram_dtype_size(kind->work);
        int64_t tiles =
            gram_most(kind->tiles, kind->halved ? gram_ceil_div(kind->matrix, OPTIMIZER_TILE) : 0);
        squares = gram_most_bytes(squares, (size_t)(kind->wave * tiles));
        job->array_bytes = gram_most_bytes(job->array_bytes, array);
    }
    for (int64_t i = 0; i < c->kinds; i++) {
        size_t bytes;
        TRY(kind_bytes(job, &c->kind[i], &bytes));
        shared = gram_most_bytes(shared, bytes);
    }
    gram_take_many(&layout, &p->tensors, parameters, sizeof(struct optimizer_tensors));
    gram_take_many(&layout, &p->now, parameters, sizeof(struct optimizer_now));
    gram_take_many(&layout, &p->squares, squares, sizeof(double));
    gram_take_many(&layout, &p->grafted_squares, squares, sizeof(double));
    gram_take(&layout, &job->blas_memory, CUDA_BLAS_BYTES);
    gram_take(&layout, &job->shared, shared);
    return gram_layout_open(job->step.g, &layout);
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* Without scratch, as when identities are set, the addresses in it stay NULL. */
struct optimizer_params cuda_optimizer_wave(const struct cuda_optimizer_job *job,
                                            const struct cuda_optimizer_kind *kind, int64_t first,
                                            int64_t count)
{
    const struct gram_optimizer_block *b = kind->block;
    const struct gram_optimizer_parameter *q = &job->step.o->parameter[b->parameter];
    struct optimizer_params p = job->params;

    p.state = job->step.o->state;
    p.entry = job->c->entry + kind->first + first;
    p.most = gram_optimizer_statistics(q) == GRAM_F64 ? DBL_MAX : (double)FLT_MAX;
    p.blocks = count;
    p.order = b->order;
    for (int i = 0; i < b->order; i++)
        p.size[i] = b->size[i];
    p.count = b->count;
    p.array = kind->array;
    p.tiles = kind->tiles;
    p.own = kind->own;
    p.scale = 1;
    p.matrix_type = gram_optimizer_statistics(q);
    p.packed = job->step.o->options.packed != 0;
    p.moment_type = b->moment.dtype;
    p.velocity_type = b->velocity.dtype;
    p.second_type = b->second.dtype;
    if (job->shared) {
        struct gram_layout layout = {0};
        take_wave(job, kind, &layout, &p);
        gram_layout_place(&layout, job->shared);
    }
    if (job->step.o->options.precision != GRAM_POWER_PRECISION_AUTO)
        p.array_halves = p.matrix_halves = NULL; /* products of f32 are made as such */
    return p;
}
