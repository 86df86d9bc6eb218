/*
 * optimizer_methods.c - Shampoo, SOAP and Muon to the front: defaults, refusals, slots of state
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.h"

enum {
    MOST_PART = 64 /* of an exponent k / q: gram_matrix_power's */
};

/* Refuses sums in place of averages, grafts, and statistics of some steps: what SOAP and Muon have
 * not. */
static gram_status check_averages(gram_context *g, const gram_optimizer_options *o,
                                  const char *method)
{
    if (o->beta2 == 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.beta2 is 1, expected less than 1 with %s", method);
    if (o->graft != GRAM_GRAFT_NONE)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.graft is %d, expected GRAM_GRAFT_NONE with %s", (int)o->graft,
                         method);
    if (o->statistics != 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.statistics is %lld, expected 1 with %s",
                         (long long)o->statistics, method);
    return GRAM_OK;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* A slot for any matrix of order n, never packed.  A count of -1 does not fit and is refused when
 * the state is laid out. */
static struct gram_optimizer_slot square(gram_dtype dtype, int64_t n)
{
    struct gram_optimizer_slot s = {.dtype = dtype, .n = n};

    if (__builtin_mul_overflow(n, n, &s.count))
        s.count = -1;
    return s;
}

/* For a symmetric one. */
static struct gram_optimizer_slot symmetric(const gram_optimizer *o, gram_dtype dtype, int64_t n)
{
    struct gram_optimizer_slot s = square(dtype, n);

    s.packed = o->options.packed != 0;
    if (s.packed && s.count > 0)
        s.count = (s.count - n) / 2 + n;
    return s;
}

/* For an array as the block. */
static struct gram_optimizer_slot array(const struct gram_optimizer_block *b, gram_dtype dtype)
{
    return (struct gram_optimizer_slot){.dtype = dtype, .count = b->count};
}

/* ---- Shampoo --------------------------------------------------------------------------------- */

/* Writes e as k / q with both at most 64; false: it is none. */
static bool as_fraction(double e, int *numerator, int *denominator)
{
    for (int q = 1; q <= MOST_PART; q++) {
        double k = round(e * q);
        if (k >= 1 && k <= MOST_PART && fabs(e * q - k) <= 1e-9 * k) {
            *numerator = (int)k;
            *denominator = q;
            return true;
        }
    }
    return false;
}

static gram_status shampoo_check(gram_context *g, const gram_optimizer_options *o)
{
    int numerator, denominator;

    if (o->root == GRAM_POWER_MINIMAX && o->epsilon == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.epsilon is 0, expected more than 0 with GRAM_POWER_MINIMAX");
    if (o->exponent == 0 || as_fraction(o->exponent, &numerator, &denominator))
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "options.exponent is %g, expected k / q with whole k and q of 1 to 64, or 0",
                     o->exponent);
}

static gram_status shampoo_describe(gram_context *g, const gram_optimizer *o,
                                    const struct gram_optimizer_parameter *p,
                                    struct gram_optimizer_block *b)
{
    const gram_optimizer_options *options = &o->options;
    gram_dtype statistics = gram_optimizer_statistics(p);

    b->numerator = 1;
    b->denominator = 2 * b->order;
    if (options->exponent > 0)
        as_fraction(options->exponent, &b->numerator, &b->denominator);
    if (options->root == GRAM_POWER_NEWTON_SCHULZ &&
        (b->denominator == 1 || b->denominator & (b->denominator - 1)))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "parameters[%lld] has roots of degree %d, but GRAM_POWER_NEWTON_SCHULZ "
                         "takes only powers of 2: set options.root or options.exponent",
                         (long long)b->parameter, b->denominator);
    for (int k = 0; k < b->order; k++) {
        b->factor[k] = symmetric(o, statistics, b->size[k]);
        b->root[k] = symmetric(o, statistics, b->size[k]);
    }
    if (options->beta1 > 0 || options->beta3 > 0)
        b->moment = array(b, p->state);
    if (options->momentum > 0)
        b->velocity = array(b, p->state);
    if (options->graft > GRAM_GRAFT_SGD)
        b->second = array(b, statistics);
    return GRAM_OK;
}

/* ---- SOAP ------------------------------------------------------------------------------------ */

/* Those of its authors' program. */
static void soap_defaults(gram_optimizer_options *o)
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

static gram_status soap_check(gram_context *g, const gram_optimizer_options *o)
{
    if (o->shampoo_beta == 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.shampoo_beta is 1, expected less than 1 with GRAM_SOAP");
    return check_averages(g, o, "GRAM_SOAP");
}

/* Vectors have a basis where they are asked to, sides above options.block never. */
static bool has_basis(const gram_optimizer *o, const struct gram_optimizer_block *b, int k)
{
    return b->size[k] <= o->options.block && (b->order > 1 || o->options.one_dimensional);
}

static gram_status soap_describe(gram_context *g, const gram_optimizer *o,
                                 const struct gram_optimizer_parameter *p,
                                 struct gram_optimizer_block *b)
{
    gram_dtype statistics = gram_optimizer_statistics(p);

    (void)g;
    for (int k = 0; k < b->order; k++)
        if (has_basis(o, b, k)) {
            b->factor[k] = symmetric(o, statistics, b->size[k]);
            b->root[k] = square(statistics, b->size[k]);
        }
    b->moment = array(b, p->state);
    b->second = array(b, statistics);
    if (o->options.momentum > 0)
        b->velocity = array(b, p->state);
    return GRAM_OK;
}

/* ---- Muon ------------------------------------------------------------------------------------ */

/* Those of its authors' program; beta1 and beta2 are of the tensors that are no matrices. */
static void muon_defaults(gram_optimizer_options *o)
{
    o->learning_rate = 0.02;
    o->momentum = 0.95;
    o->nesterov = 1;
    o->beta1 = 0.9;
    o->beta2 = 0.95;
    o->epsilon = 1e-8;
    o->graft = GRAM_GRAFT_NONE;
}

static gram_status muon_check(gram_context *g, const gram_optimizer_options *o)
{
    return check_averages(g, o, "GRAM_MUON");
}

static gram_status muon_describe(gram_context *g, const gram_optimizer *o,
                                 const struct gram_optimizer_parameter *p,
                                 struct gram_optimizer_block *b)
{
    (void)g;
    if (b->order == 1 || o->options.momentum > 0)
        b->moment = array(b, p->state);
    if (b->order == 1)
        b->second = array(b, gram_optimizer_statistics(p));
    return GRAM_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

const struct gram_optimizer_rules *gram_optimizer_rules_of(gram_optimizer_method method)
{
    static const struct gram_optimizer_rules rules[] = {
        [GRAM_SHAMPOO] = {.name = "shampoo",
                          .cut = true,
                          .check = shampoo_check,
                          .describe = shampoo_describe                   },
        [GRAM_SOAP] = { .name = "soap",
                          .defaults = soap_defaults,
                          .check = soap_check,
                          .describe = soap_describe                    },
        [GRAM_MUON] = { .name = "muon",
                          .matrix = true,
                          .defaults = muon_defaults,
                          .check = muon_check,.describe = muon_describe},
    };

    if (method < GRAM_SHAMPOO || method >= (int)(sizeof rules / sizeof *rules))
        return NULL;
    return &rules[method];
}
