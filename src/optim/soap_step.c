/*
 * soap_step.c - SOAP to the front: its defaults, what it refuses and what state a block has
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.h"

/* Those of its authors' program. */
static void defaults(gram_optimizer_options *o)
{
    o->learning_rate = 3e-3;
    o->beta1 = 0.95;
    o->beta2 = 0.95;
    o->epsilon = 1e-8;
    o->weight_decay = 0.01;
    o->graft = GRAM_GRAFT_NONE;
    o->block = 10000;
    o->merge = 0;
}

static gram_status check(gram_context *g, const gram_optimizer_options *o)
{
    if (o->shampoo_beta == 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.shampoo_beta is 1, expected less with GRAM_SOAP");
    return gram_optimizer_check_averages(g, o, "GRAM_SOAP");
}

/* Vectors have a basis where they are asked to, sides above options.block never. */
static bool has_basis(const gram_optimizer *o, const struct gram_optimizer_block *b, int k)
{
    return b->size[k] <= o->options.block && (b->order > 1 || o->options.one_dimensional);
}

static gram_status describe(gram_context *g, const gram_optimizer *o,
                            const struct gram_optimizer_parameter *p,
                            struct gram_optimizer_block *b)
{
    gram_dtype statistics = gram_optimizer_statistics(p);

    (void)g;
    for (int k = 0; k < b->order; k++)
        if (has_basis(o, b, k)) {
            b->factor[k] = gram_optimizer_symmetric(o, statistics, b->size[k]);
            b->root[k] = gram_optimizer_square(statistics, b->size[k]);
        }
    b->moment = gram_optimizer_array(b, p->state);
    b->second = gram_optimizer_array(b, statistics);
    if (o->options.momentum > 0)
        b->velocity = gram_optimizer_array(b, p->state);
    return GRAM_OK;
}

const struct gram_optimizer_method_front gram_optimizer_soap = {
    .name = "soap",
    .defaults = defaults,
    .check = check,
    .describe = describe,
};
