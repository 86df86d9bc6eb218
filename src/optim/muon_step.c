/*
 * muon_step.c - Muon to the front: its defaults, what it refuses and what state a block has
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.h"

/* Those of its authors' program; beta1 and beta2 are of the tensors that are no matrices. */
static void defaults(gram_optimizer_options *o)
{
    o->learning_rate = 0.02;
    o->momentum = 0.95;
    o->nesterov = 1;
    o->beta1 = 0.9;
    o->beta2 = 0.95;
    o->epsilon = 1e-8;
    o->graft = GRAM_GRAFT_NONE;
}

static gram_status check(gram_context *g, const gram_optimizer_options *o)
{
    return gram_optimizer_check_averages(g, o, "GRAM_MUON");
}

static gram_status describe(gram_context *g, const gram_optimizer *o,
                            const struct gram_optimizer_parameter *p,
                            struct gram_optimizer_block *b)
{
    (void)g;
    if (b->order == 1 || o->options.momentum > 0)
        b->moment = gram_optimizer_array(b, p->state);
    if (b->order == 1)
        b->second = gram_optimizer_array(b, gram_optimizer_statistics(p));
    return GRAM_OK;
}

const struct gram_optimizer_method_front gram_optimizer_muon = {
    .name = "muon",
    .matrix = true,
    .defaults = defaults,
    .check = check,
    .describe = describe,
};
