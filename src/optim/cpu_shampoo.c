/*
 * cpu_shampoo.c - Shampoo on the CPU: statistics and directions of a block (formulas: gram.h)
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_shampoo.h"
#include <math.h>
#include <string.h>

double cpu_shampoo_correction(const gram_optimizer *o, double beta, int64_t t)
{
    double taken = (double)gram_optimizer_taken(o, t);

    return o->options.bias_correction && beta < 1 ? -expm1(taken * log(beta)) : 1;
}

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

static void statistics(struct cpu_optimizer_unit *u)
{
    double beta = u->o->options.beta2;

    if (gram_optimizer_takes(u->o, u->t))
        cpu_optimizer_accumulate(u, beta, beta < 1 ? 1 - beta : 1, u->own);
}

/* V takes the gradient in. */
static void update_second(struct cpu_optimizer_unit *u)
{
    const gram_optimizer_options *o = &u->o->options;
    bool sum = o->graft == GRAM_GRAFT_ADAGRAD;

    cpu_optimizer_load(u->o, &u->b->second, u->work, false, u->spare[0]);
    u->math->second(u->b->count, sum ? 1 : o->graft_beta2, sum ? 1 : 1 - o->graft_beta2, u->g,
                    u->spare[0]);
    cpu_optimizer_store(u->o, &u->b->second, u->work, u->spare[0]);
}

/* g becomes the filtered gradient, M takes it in. */
static void filter(struct cpu_optimizer_unit *u)
{
    const gram_optimizer_options *o = &u->o->options;
    double scale = 1;

    if (o->bias_correction)
        scale = 1 / (1 - o->beta3 * pow(o->beta1, (double)(u->t - 1)));
    cpu_optimizer_load(u->o, &u->b->moment, u->work, false, u->spare[0]);
    u->math->filter(u->b->count, (double[]){o->beta1, o->beta3}, scale, u->spare[0], u->g);
    cpu_optimizer_store(u->o, &u->b->moment, u->work, u->spare[0]);
}

/* The graft's step for the filtered gradient to spare[1], or where it is that itself, u->g. */
static const void *graft(struct cpu_optimizer_unit *u)
{
    const gram_optimizer_options *o = &u->o->options;
    double scale = 1;

    if (!u->b->second.dtype)
        return u->g;
    if (o->graft == GRAM_GRAFT_ADAM)
        scale = 1 / -expm1((double)u->t * log(o->graft_beta2));
    cpu_optimizer_load(u->o, &u->b->second, u->work, false, u->spare[0]);
    u->math->adapt(u->b->count, scale, o->graft_epsilon, u->g, u->spare[0], u->spare[1]);
    return u->spare[1];
}

/* g times the roots along every dimension. */
static void precondition(struct cpu_optimizer_unit *u)
{
    void *from = u->g, *to = u->spare[0];

    for (int k = 0; k < u->b->order; k++) {
        void *other = from;
        cpu_optimizer_load(u->o, &u->b->root[k], u->work, true, u->own);
        cpu_optimizer_turn(u->work, u->b->size[k], u->b->count / u->b->size[k], u->own, from, to);
        from = to;
        to = other;
    }
    if (from != u->g)
        memcpy(u->g, from, (size_t)u->b->count * gram_dtype_size(u->work));
}

static void direction(struct cpu_optimizer_unit *u)
{
    const gram_optimizer_options *o = &u->o->options;
    int64_t count = u->b->count;
    const void *grafted;
    double norm;

    if (u->b->second.dtype)
        update_second(u);
    if (u->b->moment.dtype)
        filter(u);
    grafted = graft(u);
    if (u->t < o->start) {
        if (grafted != u->g)
            memcpy(u->g, grafted, (size_t)count * gram_dtype_size(u->work));
        return;
    }
    norm = sqrt(u->math->squares(count, grafted));
    precondition(u);
    if (o->graft != GRAM_GRAFT_NONE)
        u->math->scale(count, norm / (sqrt(u->math->squares(count, u->g)) + 1e-16), u->g);
}

const struct cpu_optimizer_method cpu_shampoo = {
    .unit_bytes = unit_bytes,
    .refresh_bytes = cpu_shampoo_refresh_bytes,
    .statistics = statistics,
    .refresh = cpu_shampoo_refresh,
    .direction = direction,
};
