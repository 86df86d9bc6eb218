/*
 * cpu_soap_refresh.c - SOAP's bases, and the moments in their coordinates
 *
 * The first moment is brought from the old basis to the new one.  The second moment has one number
 * for each coordinate: it is sorted as the vectors are, and otherwise stays as it is.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu_soap.h"
#include <limits.h>
#include <string.h>

enum {
    EIGH_ORDER = 32000 /* up to this order syevd's workspace fits LAPACK's 32-bit integers */
};

/* The scratch of a block. */
struct refresh_room {
    char *factor, *q, *next, *moment, *second, *spare, *order, *basis;
    size_t bytes;
};

static int64_t largest_side(const struct gram_optimizer_block *b)
{
    int64_t n = 0;

    for (int k = 0; k < b->order; k++)
        n = gram_most(n, b->factor[k].n);
    return n;
}

static struct refresh_room lay_out(const struct gram_optimizer_block *b, gram_dtype work,
                                   char *memory)
{
    size_t size = gram_dtype_size(work), array = gram_round64((size_t)b->count * size);
    int64_t n = largest_side(b);
    size_t matrix = gram_round64((size_t)(n * n) * size);
    struct refresh_room room;

    room.factor = memory;
    room.q = room.factor + matrix;
    room.next = room.q + matrix;
    room.moment = room.next + matrix;
    room.second = room.moment + array;
    room.spare = room.second + array;
    room.order = room.spare + array;
    room.basis = room.order + gram_round64((size_t)n * sizeof(int32_t));
    room.bytes = (size_t)(room.basis - memory) + cpu_soap_basis_bytes(n);
    return room;
}

static gram_status check_sides(gram_context *g, const struct gram_optimizer_block *b)
{
    for (int k = 0; k < b->order; k++) {
        struct cpu_mode mode = cpu_mode_of(b->size, b->order, k);
        if (b->factor[k].n > EIGH_ORDER)
            return gram_fail(g, GRAM_UNSUPPORTED,
                             "parameters[%lld] has a side of %lld, a basis takes at most %d: "
                             "options.block leaves longer sides without one",
                             (long long)b->parameter, (long long)b->factor[k].n, EIGH_ORDER);
        if (b->factor[k].dtype && !gram_blas_fits(mode.before, mode.n, mode.after))
            return gram_fail(g, GRAM_UNSUPPORTED,
                             "parameters[%lld] has %lld elements, of which BLAS counts at most %d",
                             (long long)b->parameter, (long long)b->count, INT_MAX);
    }
    return GRAM_OK;
}

gram_status cpu_soap_refresh_bytes(gram_context *g, const gram_optimizer *o, size_t *bytes)
{
    static char none[1];

    *bytes = 0;
    for (int64_t i = 0; i < o->blocks; i++) {
        const struct gram_optimizer_block *b = &o->block[i];
        if (!gram_optimizer_owns(o, b) || largest_side(b) == 0)
            continue;
        TRY(check_sides(g, b));
        *bytes = gram_most_bytes(*bytes, lay_out(b, o->parameter[b->parameter].work, none).bytes);
    }
    return GRAM_OK;
}

/* A block whose bases are refreshed. */
struct turn {
    gram_optimizer *o;
    const struct gram_optimizer_block *b;
    gram_dtype work;
    struct refresh_room room;
};

/* Changes the moments along dimension k: the first goes from basis q to the next one, the second
 * into the new order. */
static void turn_moments(const struct turn *t, int k, const void *q)
{
    const struct gram_optimizer_block *b = t->b;
    struct cpu_mode mode = cpu_mode_of(b->size, b->order, k);
    void *m = cpu_soap_open(t->o, &b->moment, t->work, t->room.moment);
    void *v = cpu_soap_open(t->o, &b->second, t->work, t->room.second);
    size_t bytes = (size_t)b->count * gram_dtype_size(t->work);

    cpu_mode_product(t->work, &mode, m, q, true, t->room.spare);
    cpu_mode_product(t->work, &mode, t->room.spare, t->room.next, false, m);
    memcpy(t->room.spare, v, bytes);
    cpu_optimizer_math(t->work)->permute(&mode, (const int32_t *)(const void *)t->room.order,
                                         t->room.spare, v);
    cpu_soap_close(t->o, &b->moment, t->work, m);
    cpu_soap_close(t->o, &b->second, t->work, v);
}

static enum soap_outcome turn_basis(const struct turn *t, int k, bool first)
{
    const struct gram_optimizer_slot *slot = &t->b->factor[k];
    void *q = cpu_soap_open(t->o, &t->b->root[k], t->work, t->room.q);
    struct soap_factor from = {t->room.factor, q, t->o->options.skip};
    enum soap_outcome outcome;

    cpu_optimizer_load(t->o, slot, t->work, true, t->room.factor);
    if (first)
        outcome =
            cpu_soap_basis_first(t->work, slot->n, t->room.factor, t->room.next, t->room.basis)
                ? SOAP_REFRESHED
                : SOAP_FAILED;
    else
        outcome = cpu_soap_basis_next(t->work, slot->n, &from, t->room.next,
                                      (int32_t *)(void *)t->room.order, t->room.basis);
    if (outcome != SOAP_REFRESHED)
        return outcome;
    if (!first)
        turn_moments(t, k, q);
    cpu_optimizer_store(t->o, &t->b->root[k], t->work, t->room.next);
    return outcome;
}

static void turn_block(const struct cpu_optimizer_step *s, int64_t index, bool first)
{
    const struct gram_optimizer_block *b = &s->o->block[index];
    gram_dtype work = s->o->parameter[b->parameter].work;
    struct turn t = {s->o, b, work, lay_out(b, work, s->scratch)};
    int64_t count[3] = {0};

    for (int k = 0; k < b->order; k++)
        if (b->factor[k].dtype)
            count[turn_basis(&t, k, first)]++;
    s->op->report->refreshed += count[SOAP_REFRESHED];
    s->op->report->kept += count[SOAP_KEPT];
    s->op->report->failed += count[SOAP_FAILED];
    if (count[SOAP_FAILED] && s->op->report->first_failed < 0)
        s->op->report->first_failed = b->parameter;
    s->o->failures[index] = count[SOAP_FAILED] ? s->o->failures[index] + 1 : 0;
}

void cpu_soap_refresh(const struct cpu_optimizer_step *s)
{
    const gram_optimizer_options *options = &s->o->options;

    gram_blas_threads(s->g);
    for (int64_t i = 0; i < s->o->blocks; i++) {
        const struct gram_optimizer_block *b = &s->o->block[i];
        int64_t done = s->o->steps[b->parameter], turn = done + (options->stagger ? i : 0);
        if (!gram_optimizer_owns(s->o, b) || s->rests[b->parameter] || largest_side(b) == 0)
            continue;
        if (done == 0 || turn % options->refresh == 0)
            turn_block(s, i, done == 0);
    }
}
