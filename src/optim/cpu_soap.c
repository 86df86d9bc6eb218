/*
 * cpu_soap.c - SOAP on the CPU: Adam in the eigenbases of Shampoo's factors
 *
 * gram.h has the formula.  A step moves along the bases that earlier steps have left.  Its own
 * gradient enters the factors, and through the refresh at the end of the step the bases.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_soap.h"
#include <math.h>
#include <string.h>

void *cpu_soap_open(const gram_optimizer *o, const struct gram_optimizer_slot *slot,
                    gram_dtype work, void *memory)
{
    if (slot->dtype == work && !slot->packed)
        return gram_optimizer_data(o, slot);
    cpu_optimizer_load(o, slot, work, true, memory);
    return memory;
}

void cpu_soap_close(const gram_optimizer *o, const struct gram_optimizer_slot *slot,
                    gram_dtype work, const void *data)
{
    if (data != gram_optimizer_data(o, slot))
        cpu_optimizer_store(o, slot, work, data);
}

/* The memory of a unit: room for the moments, and for a matrix of the largest side. */
struct soap_room {
    char *moment, *second, *matrix;
    size_t bytes;
};

static struct soap_room lay_out(const struct gram_optimizer_block *b, gram_dtype work, char *memory)
{
    size_t size = gram_dtype_size(work), array = gram_round64((size_t)b->count * size);
    struct soap_room room = {.moment = memory};
    int64_t n = 0;

    for (int k = 0; k < b->order; k++)
        n = gram_most(n, b->factor[k].n);
    room.second = memory + (b->moment.dtype == work ? 0 : array);
    room.matrix = room.second + (b->second.dtype == work ? 0 : array);
    room.bytes = (size_t)(room.matrix - memory) + gram_round64((size_t)(n * n) * size);
    return room;
}

static size_t unit_bytes(const gram_optimizer *o, const struct gram_optimizer_block *b)
{
    static char none[1];

    return lay_out(b, o->parameter[b->parameter].work, none).bytes;
}

/* Brings x into the coordinates of the bases, or back.  The result is in *x, and each product
 * exchanges *x and *spare. */
static void project(const struct cpu_optimizer_unit *u, bool back, void **x, void **spare,
                    void *matrix)
{
    for (int k = 0; k < u->b->order; k++) {
        struct cpu_mode mode = cpu_mode_of(u->b->size, u->b->order, k);
        void *kept = *x;
        if (!u->b->root[k].dtype)
            continue;
        cpu_mode_product(u->work, &mode, *x, cpu_soap_open(u->o, &u->b->root[k], u->work, matrix),
                         back, *spare);
        *x = *spare;
        *spare = kept;
    }
}

static void accumulate(const struct cpu_optimizer_unit *u, void *matrix)
{
    double beta = u->o->options.shampoo_beta;

    cpu_optimizer_accumulate(u, beta, 1 - beta, matrix);
}

/* The number that the direction is multiplied by.  The first step moved nothing and does not
 * count. */
static double direction_scale(const struct cpu_optimizer_unit *u, const void *x)
{
    const gram_optimizer_options *o = &u->o->options;
    double steps = (double)(u->t - 1), scale = 1;

    if (o->bias_correction)
        scale = sqrt(1 - pow(o->beta2, steps)) / (1 - pow(o->beta1, steps));
    if (o->normalize)
        scale /= 1e-30 + sqrt(u->math->squares(u->b->count, x) / (double)u->b->count);
    if (o->decay == GRAM_DECAY_DECOUPLED) /* the decay applies to the parameter after the step */
        scale *= 1 - o->learning_rate * o->weight_decay;
    return scale;
}

static void direction(struct cpu_optimizer_unit *u)
{
    const gram_optimizer_options *o = &u->o->options;
    const struct gram_optimizer_block *b = u->b;
    struct soap_room room = lay_out(b, u->work, u->own);
    void *x = u->g, *spare = u->spare[0], *m, *v;

    accumulate(u, room.matrix);
    if (u->t == 1) {
        memset(u->g, 0, (size_t)b->count * gram_dtype_size(u->work));
        u->still = true;
        return;
    }
    project(u, false, &x, &spare, room.matrix);
    m = cpu_soap_open(u->o, &b->moment, u->work, room.moment);
    v = cpu_soap_open(u->o, &b->second, u->work, room.second);
    u->math->second(b->count, o->beta2, 1 - o->beta2, x, v);
    u->math->filter(b->count, (double[]){o->beta1, o->beta1}, 1, m, x);
    u->math->adapt(b->count, 1, o->epsilon, x, v, x);
    cpu_soap_close(u->o, &b->moment, u->work, m);
    cpu_soap_close(u->o, &b->second, u->work, v);
    project(u, true, &x, &spare, room.matrix);
    u->math->scale(b->count, direction_scale(u, x), x);
    if (x != u->g)
        memcpy(u->g, x, (size_t)b->count * gram_dtype_size(u->work));
}

const struct cpu_optimizer_method cpu_soap = {
    .unit_bytes = unit_bytes,
    .refresh_bytes = cpu_soap_refresh_bytes,
    .refresh = cpu_soap_refresh,
    .direction = direction,
    .refresh_last = true,
};
