/*
 * optimizer_step.c - a step, once for every device: the order of its passes, and the three methods
 *
 * optimizer_step.h has the passes, which the device does.  Each method below begins with its
 * formulas and their source.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_step.h"

/* ---- What is due ----------------------------------------------------------------------------- */

bool gram_optimizer_due_now(const struct gram_optimizer_job *job,
                            const struct gram_optimizer_block *b)
{
    return gram_optimizer_due(job->o, b, job->o->steps[b->parameter] + 1);
}

bool gram_optimizer_takes_now(const struct gram_optimizer_job *job, int64_t parameter)
{
    const gram_optimizer *o = job->o;
    const struct gram_optimizer_parameter *p = &o->parameter[parameter];
    bool due = false;

    if (!job->capturing || o->options.statistics == 1)
        return gram_optimizer_takes(o, o->steps[parameter] + 1);
    for (int64_t i = 0; i < p->blocks && !due; i++)
        due = gram_optimizer_due_now(job, &o->block[p->first_block + i]);
    return due;
}

/* True if f is of a block of the group's kind whose parameter has a gradient. */
static bool any_of_kind(const struct gram_optimizer_group *u,
                        bool (*f)(const struct gram_optimizer_job *job,
                                  const struct gram_optimizer_block *b))
{
    for (int64_t i = 0; i < u->count; i++) {
        const struct gram_optimizer_block *b = &u->job->o->block[u->kind[i]];
        if (u->job->op->gradients[b->parameter] && f(u->job, b))
            return true;
    }
    return false;
}

/* ---- Shampoo: statistics and directions of a group of blocks --------------------------------- */

/*
 * A block G of k dimensions has a factor and its root for each of them:
 *   L_k = beta2 L_k + (1 - beta2) G_k G_k^T,       G_k being G with dimension k as rows,
 *   X_k = (L_k / (1 - beta2^n) + r I)^(-e)         in every refresh'th step,
 *   F   = (beta3 M + (1 - beta3) G) / (1 - beta3 beta1^(t-1)),    M = beta1 M + (1 - beta1) G,
 *   P   = F times X_k along every dimension k,
 *   W   = W - learning_rate P |graft(F)| / |P|.
 * Gupta, Koren and Singer, Shampoo: preconditioned stochastic tensor optimization, ICML 2018;
 * grafts: Agarwal et al., Disentangling adaptive gradient methods from learning rates, 2020.
 */

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
static gram_status shampoo_statistics(struct gram_optimizer_group *u)
{
    if (!any_of_kind(u, gram_optimizer_due_now) || !any_of_kind(u, takes))
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

static gram_status shampoo_direction(struct gram_optimizer_group *u)
{
    const struct gram_optimizer_passes *q = u->job->passes;

    if (!u->own)
        return q->finish(u);
    TRY(q->gather(u));
    if (!any_of_kind(u, gram_optimizer_due_now) && any_of_kind(u, takes))
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

/* ---- SOAP: Adam in the eigenbases of Shampoo's factors --------------------------------------- */

/*
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
 */

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

static gram_status soap_direction(struct gram_optimizer_group *u)
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

/* ---- Muon: the direction of a matrix is its momentum made orthogonal ------------------------- */

/*
 *   B = momentum B + (1 - dampening) G,    X = B, or with nesterov G + momentum B,
 *   X = X / max(|X|, epsilon),
 *   X = a X + (b Y + c Y Y) X,  Y = X X^T,    options.steps times,
 *   W = W - learning_rate sqrt(max(1, rows / cols)) X.
 * Tensors that are no matrices take Adam's step.  Jordan et al., Muon: an optimizer for hidden
 * layers in neural networks, 2024.
 */

/* The slope at 0 is as large as it can be while singular values stay within about 0.7 to 1.2. */
static const double muon_a = 3.4445, muon_b = -4.7750, muon_c = 2.0315;

gram_status gram_muon_orthogonalise(const struct gram_muon_ops *ops, void *x, int steps)
{
    TRY(ops->normalise(x));
    for (int i = 1; i <= steps; i++) {
        TRY(ops->polynomial(x, muon_a, muon_b, muon_c));
        TRY(ops->apply(x, i == steps));
    }
    return GRAM_OK;
}

static gram_status muon_direction(struct gram_optimizer_group *u)
{
    const struct gram_optimizer_passes *q = u->job->passes;
    const int64_t *size = u->b->size;

    if (!u->own)
        return q->finish(u);
    TRY(q->gather(u));
    if (u->b->order != 2) {
        TRY(q->adapt(u));
        return q->finish(u);
    }
    TRY(q->add_momentum(u));
    TRY(q->orthogonalise(u));
    TRY(q->scale(u, sqrt(fmax(1, (double)size[0] / (double)size[1]))));
    return q->finish(u);
}

/* ---- A step ---------------------------------------------------------------------------------- */

static const struct {
    gram_optimizer_pass *statistics, *direction;
} methods[] = {
    [GRAM_SHAMPOO] = {shampoo_statistics, shampoo_direction},
    [GRAM_SOAP] = {              NULL,    soap_direction},
    [GRAM_MUON] = {              NULL,    muon_direction},
};

gram_status gram_optimizer_run(struct gram_optimizer_job *job)
{
    const struct gram_optimizer_passes *q = job->passes;
    const gram_optimizer_method method = job->o->options.method;

    TRY(q->find_resting(job));
    if (methods[method].statistics)
        TRY(q->for_groups(job, methods[method].statistics, false));
    if (method == GRAM_SHAMPOO)
        TRY(q->refresh_roots(job));
    TRY(q->for_groups(job, methods[method].direction, true));
    if (method == GRAM_SOAP)
        TRY(q->refresh_bases(job));
    return q->count_step(job);
}
