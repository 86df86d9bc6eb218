/*
 * shampoo_step.c - Shampoo: statistics and directions of a group of blocks
 *
 * A block G of k dimensions has a factor and its root for each of them:
 *   L_k = beta2 L_k + (1 - beta2) G_k G_k^T,       G_k being G with dimension k as rows,
 *   X_k = (L_k / (1 - beta2^n) + r I)^(-e)         in every refresh'th step,
 *   F   = (beta3 M + (1 - beta3) G) / (1 - beta3 beta1^(t-1)),    M = beta1 M + (1 - beta1) G,
 *   P   = F times X_k along every dimension k,
 *   W   = W - learning_rate P |graft(F)| / |P|.
 * Gupta, Koren and Singer, Shampoo: preconditioned stochastic tensor optimization, ICML 2018;
 * grafts: Agarwal et al., Disentangling adaptive gradient methods from learning rates, 2020.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_step.h"

static bool takes(const struct gram_optimizer_job *job, const struct gram_optimizer_block *b)
{
    return gram_optimizer_takes_now(job, b->parameter);
}

static gram_status accumulate(struct gram_optimizer_group *u)
{
    const double beta = u->job->o->options.beta2;

    return u->job->passes->accumulate(u, beta, beta < 1 ? 1 - beta : 1);
}

/* Where no roots are due the pass of the directions does it, and gathers the gradient once. */
gram_status gram_shampoo_statistics(struct gram_optimizer_group *u)
{
    if (!gram_optimizer_any(u, gram_optimizer_due_now) || !gram_optimizer_any(u, takes))
        return GRAM_OK;
    TRY(u->job->passes->gather(u));
    return accumulate(u);
}

/* False if no block of the kind can have a root yet. */
static bool has_roots(const struct gram_optimizer_group *u)
{
    const gram_optimizer *o = u->job->o;

    for (int64_t i = 0; i < u->count; i++)
        if (o->steps[o->block[u->kind[i]].parameter] + 1 >= o->options.start)
            return true;
    return false;
}

gram_status gram_shampoo_direction(struct gram_optimizer_group *u)
{
    const struct gram_optimizer_passes *q = u->job->passes;

    if (!u->own)
        return q->finish(u);
    TRY(q->gather(u));
    if (!gram_optimizer_any(u, gram_optimizer_due_now) && gram_optimizer_any(u, takes))
        TRY(accumulate(u));
    TRY(q->filter(u));
    if (!has_roots(u))
        return q->finish(u);
    for (int k = 0; k < u->b->order; k++)
        TRY(q->multiply_root(u, k));
    if (u->job->o->options.graft != GRAM_GRAFT_NONE)
        TRY(q->scale_to_graft(u));
    return q->finish(u);
}

/* The product in z becomes y, and is given; the next one goes to the other. */
static const void *exchange(struct gram_shampoo_product *p)
{
    void *other = p->y;

    p->y = p->z;
    p->z = other;
    return p->y;
}

gram_status gram_shampoo_multiply(gram_shampoo_product_of *multiply, const void *user,
                                  const struct gram_optimizer_block *b,
                                  struct gram_shampoo_product *p)
{
    const void *at = p->shifted;

    for (int i = 1; i < b->numerator; i++) {
        TRY(multiply(user, p->shifted, at, p->z));
        at = exchange(p);
    }
    for (int i = 0; i < b->denominator; i++) {
        TRY(multiply(user, i % 2 ? at : p->root, i % 2 ? p->root : at, p->z));
        at = exchange(p);
    }
    return GRAM_OK;
}
