/*
 * muon_step.c - Muon: the direction of a matrix is its momentum made orthogonal
 *
 *   B = momentum B + (1 - dampening) G,    X = B, or with nesterov G + momentum B,
 *   X = X / max(|X|, epsilon),
 *   X = a X + (b Y + c Y Y) X,  Y = X X^T,    options.steps times,
 *   W = W - learning_rate sqrt(max(1, rows / cols)) X.
 * Tensors that are no matrices take Adam's step.  Jordan et al., Muon: an optimizer for hidden
 * layers in neural networks, 2024.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_step.h"

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

gram_status gram_muon_direction(struct gram_optimizer_group *u)
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
