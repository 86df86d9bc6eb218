/*
 * soap_step.c - SOAP: Adam in the eigenbases of Shampoo's factors, for a group of blocks
 *
 * A block G has a factor L_k and a basis Q_k for each of its dimensions; G' is G in the coordinates
 * of all bases:
 *   L_k = shampoo_beta L_k + (1 - shampoo_beta) G_k G_k^T,
 *   G'  = G times Q_k along every dimension k,
 *   M   = beta1 M + (1 - beta1) G',    V = beta2 V + (1 - beta2) G'^2,
 *   P   = M / (sqrt(V) + epsilon) times Q_k^T along every dimension k,
 *   W   = W - learning_rate P sqrt(1 - beta2^(t-1)) / (1 - beta1^(t-1)).
 * In every refresh'th step, and in the first one, the bases become
 *   Q_k = the rows of Q_k L_k, sorted and made orthonormal     (the first: eigenvectors of L_k),
 * M is brought along, and V is sorted as the vectors are.  A step moves along the bases that
 * earlier steps have left; its own gradient enters the factors, and through the refresh at the end
 * of the step the bases.  The first step only makes these.
 * Vyas et al., SOAP: improving and stabilizing Shampoo using Adam, 2024.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_step.h"

/* False if no block of the kind has moved yet. */
static bool has_bases(const struct gram_optimizer_group *u)
{
    const gram_optimizer *o = u->job->o;

    for (int64_t i = 0; i < u->count; i++)
        if (o->steps[o->block[u->kind[i]].parameter] > 0)
            return true;
    return false;
}

static gram_status project(struct gram_optimizer_group *u, bool back)
{
    for (int k = 0; k < u->b->order; k++)
        if (u->b->root[k].dtype)
            TRY(u->job->passes->project(u, k, back));
    return GRAM_OK;
}

gram_status gram_soap_direction(struct gram_optimizer_group *u)
{
    const struct gram_optimizer_passes *q = u->job->passes;
    const double beta = u->job->o->options.shampoo_beta;

    if (!u->own)
        return q->finish(u);
    TRY(q->gather(u));
    TRY(q->accumulate(u, beta, 1 - beta));
    if (!has_bases(u))
        return q->finish(u);
    TRY(project(u, false));
    TRY(q->adapt(u));
    TRY(project(u, true));
    TRY(q->scale_to_mean(u));
    return q->finish(u);
}

/* ---- Bases ----------------------------------------------------------------------------------- */

bool gram_soap_due(const struct gram_optimizer_job *job, const struct gram_optimizer_block *b)
{
    const gram_optimizer *o = job->o;
    const int64_t done = o->steps[b->parameter];

    return done == 0 || (done + (o->options.stagger ? b - o->block : 0)) % o->options.refresh == 0;
}

gram_status gram_soap_iterate(const struct gram_soap_basis_ops *ops, void *of, double skip)
{
    TRY(ops->multiply(of));
    if (skip > 0)
        TRY(ops->rotate(of));
    TRY(ops->check_finite(of));
    if (skip > 0)
        TRY(ops->judge(of));
    TRY(ops->sort(of));
    return ops->orthonormalise(of);
}

gram_status gram_soap_refresh(const struct gram_soap_refresh_ops *ops, void *of, bool first)
{
    TRY(ops->load(of));
    TRY(ops->find_basis(of, first));
    if (!first) { /* there are no moments before the first basis */
        TRY(ops->load_moments(of));
        TRY(ops->leave_basis(of));
        TRY(ops->enter_basis(of));
        TRY(ops->store_moments(of));
    }
    return ops->store(of);
}
