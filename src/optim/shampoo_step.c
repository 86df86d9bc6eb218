/*
 * shampoo_step.c - Shampoo to the front: what it refuses and what state a block has
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.h"

static gram_status check(gram_context *g, const gram_optimizer_options *o)
{
    int numerator, denominator;

    if (o->root == GRAM_POWER_MINIMAX && o->epsilon == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.epsilon is 0, expected more with GRAM_POWER_MINIMAX");
    if (o->exponent == 0 || gram_optimizer_fraction(o->exponent, &numerator, &denominator))
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "options.exponent is %g, expected k / q with whole k and q of 1 to 64, or 0",
                     o->exponent);
}

static gram_status describe(gram_context *g, const gram_optimizer *o,
                            const struct gram_optimizer_parameter *p,
                            struct gram_optimizer_block *b)
{
    const gram_optimizer_options *options = &o->options;
    gram_dtype statistics = gram_optimizer_statistics(p);

    b->numerator = 1;
    b->denominator = 2 * b->order;
    if (options->exponent > 0)
        gram_optimizer_fraction(options->exponent, &b->numerator, &b->denominator);
    if (options->root == GRAM_POWER_NEWTON_SCHULZ &&
        (b->denominator == 1 || b->denominator & (b->denominator - 1)))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "parameters[%lld] has roots of degree %d, GRAM_POWER_NEWTON_SCHULZ takes "
                         "powers of 2 only: set options.root or options.exponent",
                         (long long)b->parameter, b->denominator);
    for (int k = 0; k < b->order; k++) {
        b->factor[k] = gram_optimizer_symmetric(o, statistics, b->size[k]);
        b->root[k] = gram_optimizer_symmetric(o, statistics, b->size[k]);
    }
    if (options->beta1 > 0 || options->beta3 > 0)
        b->moment = gram_optimizer_array(b, p->state);
    if (options->momentum > 0)
        b->velocity = gram_optimizer_array(b, p->state);
    if (options->graft > GRAM_GRAFT_SGD)
        b->second = gram_optimizer_array(b, statistics);
    return GRAM_OK;
}

const struct gram_optimizer_method_front gram_optimizer_shampoo = {
    .name = "shampoo",
    .cut = true,
    .check = check,
    .describe = describe,
};
