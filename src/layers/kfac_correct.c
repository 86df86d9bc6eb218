/*
 * kfac_correct.c - corrected eigenvalues of EKFAC: E_n[(Qb^T G_n Qa)^2] over samples
 *
 * The gradient of a sample is G_n = sum_s g_ns a'_ns^T.  "To turn" means to multiply by the
 * eigenvectors, and either G_n is turned or the vectors that it is made of:
 *   Qb^T G_n Qa = sum_s (Qb^T g_ns) (Qa^T a'_ns)^T.
 * With S positions, m outputs and n inputs the multiplications of a sample are
 *   S (m^2 + n^2 + m n)     where positions turn,
 *   S m n + m n (m + n)     where the gradient turns.
 * A linear layer takes the cheaper way.  A convolution, whose a' are patches, always turns G_n.
 * With one position the squares are a product of squares:
 *   sum_n (Qb^T g_n)^2 ((Qa^T a'_n)^2)^T.
 *
 * Samples come in blocks that fit into the memory to work in.  On a device everything is queued.
 *
 * George et al., Fast approximate natural gradient descent in a Kronecker-factored eigenbasis,
 * NeurIPS 2018.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac.h"
#include "layer.h"
#include <string.h>

struct correction {
    gram_context *g;
    gram_kfac *k;
    const struct kfac_layer *l;
    int64_t samples;
    bool begun; /* l->gradient holds the sum of the blocks before */
};

/* Samples [first, first + count) of a tensor. */
static gram_tensor samples_of(const gram_tensor *t, int64_t first, int64_t count)
{
    gram_tensor part = *t;

    part.shape[0] = count;
    if (part.data)
        part.data = (char *)part.data + first * t->stride[0] * (int64_t)gram_dtype_size(t->dtype);
    return part;
}

static gram_tensor dense(const struct correction *c, void *numbers, struct gram_batch shape)
{
    return gram_kfac_dense(c->k, numbers, &shape, c->k->options.state);
}

static gram_status gather(const struct correction *c, const struct kfac_move *move)
{
    return gram_kfac_run(c->g, c->k, (struct gram_kfac_pass){.kind = KFAC_GATHER, .move = move});
}

/* ---- Squares -------------------------------------------------------------------------------- */

/* to = factor times the sum of the squares of `groups` vectors of count numbers each.  With adds
 * this is added to `to`. */
struct squares {
    void *from, *to;
    int64_t groups, count;
    double factor;
    bool adds;
};

static gram_status square(const struct correction *c, const struct squares *s)
{
    return gram_kfac_run(c->g, c->k,
                         (struct gram_kfac_pass){
                             .kind = KFAC_SQUARES,
                             .to = s->to,
                             .x = s->from,
                             .count = s->count,
                             .groups = s->groups,
                             .squares = {s->adds, s->factor}
    });
}

/* Adds the squares of count turned gradients in work 0 to the sum. */
static gram_status add_squares(struct correction *c, int64_t count, double factor)
{
    const struct squares s = {
        c->k->work[0], c->l->gradient, count, kfac_m_count(c->l), factor / (double)c->samples,
        c->begun};

    c->begun = true;
    return square(c, &s);
}

/* ---- Gradients that turn -------------------------------------------------------------------- */

/* Computes the gradients of samples as matrices [W b] to work 0, in the arithmetic of `dtype`. */
static gram_status sample_gradients(const struct correction *c, const gram_tensor *a,
                                    const gram_tensor *d, gram_dtype dtype)
{
    gram_sample_grad_options options = GRAM_SAMPLE_GRAD_OPTIONS_INIT;
    gram_kfac *k = c->k;
    const struct kfac_layer *l = c->l;
    struct gram_batch shape = gram_kfac_weight_shape(l), all = {.ndim = shape.ndim + 1};
    int64_t count = d->shape[0], bias = l->layer.bias != 0, width = l->cols - bias;
    gram_tensor weight, biases = dense(c, k->work[3],
                                       (struct gram_batch){
                                           .ndim = 2, .shape = {count, l->outputs}
    });
    gram_sample_grads out = {.weight = &weight, .bias = bias ? &biases : NULL};
    struct kfac_move to = {&weight, k->work[0], k->options.state, width, l->cols, 1};

    options.scale = k->options.scale;
    all.shape[0] = count;
    memcpy(all.shape + 1, shape.shape, (size_t)shape.ndim * sizeof *shape.shape);
    weight = gram_kfac_dense(k, k->work[1], &all, dtype); /* and work 2, for larger numbers */
    if (!bias && dtype == to.state)
        weight.data = to.numbers;
    biases.dtype = dtype;
    TRY(gram_sample_grad(c->g, &l->layer, a, d, &options, &out));
    if (weight.data != to.numbers)
        TRY(gather(c, &to));
    if (!bias)
        return GRAM_OK;
    to.tensor = &biases, to.inner = 1, to.inner_step = 0;
    to.numbers = kfac_from(to.state, to.numbers, width);
    return gather(c, &to);
}

/* Turns the gradients G of count samples in work 0 into Qb^T G Qa. */
static gram_status turn(const struct correction *c, int64_t count)
{
    const struct kfac_layer *l = c->l;
    const struct gram_batch shape = {
        .ndim = 4, .shape = {count, l->groups, l->rows, l->cols}
    };
    gram_tensor x = dense(c, c->k->work[0], shape), y = dense(c, c->k->work[1], shape);
    gram_tensor qa = dense(c, l->a_inverse,
                           (struct gram_batch){
                               .ndim = 3, .shape = {l->groups, l->cols, l->cols}
    });
    gram_tensor qb = dense(c, l->b_inverse,
                           (struct gram_batch){
                               .ndim = 3, .shape = {l->groups, l->rows, l->rows}
    });
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;

    options.transpose_a = 1;
    TRY(gram_matmul_batched(c->g, &qb, &x, &options, &y));
    return gram_matmul_batched(c->g, &y, &qa, NULL, &x);
}

static gram_status by_gradients(struct correction *c, const gram_tensor *a, const gram_tensor *d)
{
    const gram_dtype dtype = d->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    const int64_t block = gram_most(c->k->work_count / gram_most(kfac_m_count(c->l), 1), 1);

    for (int64_t first = 0; first < c->samples; first += block) {
        int64_t count = gram_least(block, c->samples - first);
        gram_tensor a_part = samples_of(a, first, count), d_part = samples_of(d, first, count);
        TRY(sample_gradients(c, &a_part, &d_part, dtype));
        TRY(turn(c, count));
        TRY(add_squares(c, count, 1));
    }
    return GRAM_OK;
}

/* ---- Positions that turn -------------------------------------------------------------------- */

/* One side of a linear layer, activations or gradients: `rows` positions of `width` features, which
 * are turned to `to`. */
struct side {
    const gram_tensor *t;
    int64_t rows, width, order;
    void *vectors, *to;
};

/* to = x Q with the first width rows of Q; where there is a bias, whose feature is 1, the last row
 * of Q is added. */
static gram_status turn_side(const struct correction *c, const struct side *s)
{
    const gram_dtype dtype = c->k->options.state;
    const struct kfac_move move = {s->t, c->k->work[0], dtype, s->rows * s->width, 0, 1};
    gram_tensor x = dense(c, c->k->work[0],
                          (struct gram_batch){
                              .ndim = 2, .shape = {s->rows, s->width}
    });
    gram_tensor q = dense(c, s->vectors,
                          (struct gram_batch){
                              .ndim = 2, .shape = {s->width, s->order}
    });
    gram_tensor y = dense(c, s->to,
                          (struct gram_batch){
                              .ndim = 2, .shape = {s->rows, s->order}
    });
    gram_tensor last = y;
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;

    last.data = kfac_from(dtype, s->vectors, s->width * s->order);
    last.stride[0] = 0;
    if (s->order > s->width) {
        options.beta = gram_number(1);
        options.c = &last;
    }
    TRY(gather(c, &move));
    return gram_matmul_batched(c->g, &x, &q, &options, &y);
}

/* For one position: squares the turned sides in works 1 and 2, and adds their product to the
 * sum. */
static gram_status multiply_squares(struct correction *c, int64_t count, double factor)
{
    const struct kfac_layer *l = c->l;
    gram_tensor x = dense(c, c->k->work[1],
                          (struct gram_batch){
                              .ndim = 2, .shape = {count, l->cols}
    });
    gram_tensor y = dense(c, c->k->work[2],
                          (struct gram_batch){
                              .ndim = 2, .shape = {count, l->rows}
    });
    gram_tensor sum = dense(c, l->gradient,
                            (struct gram_batch){
                                .ndim = 2, .shape = {l->rows, l->cols}
    });
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;

    TRY(square(c, &(struct squares){x.data, x.data, 1, count * l->cols, 1, false}));
    TRY(square(c, &(struct squares){y.data, y.data, 1, count * l->rows, 1, false}));
    options.transpose_a = 1;
    options.alpha = gram_number(factor / (double)c->samples);
    if (c->begun) {
        options.beta = gram_number(1);
        options.c = &sum;
    }
    c->begun = true;
    return gram_matmul_batched(c->g, &y, &x, &options, &sum);
}

/* For several positions: the product of a sample's turned sides is its turned gradient. */
static gram_status multiply_positions(struct correction *c, int64_t count, int64_t positions,
                                      double factor)
{
    const struct kfac_layer *l = c->l;
    gram_tensor x = dense(c, c->k->work[1],
                          (struct gram_batch){
                              .ndim = 3, .shape = {count, positions, l->cols}
    });
    gram_tensor y = dense(c, c->k->work[2],
                          (struct gram_batch){
                              .ndim = 3, .shape = {count, positions, l->rows}
    });
    gram_tensor turned = dense(c, c->k->work[0],
                               (struct gram_batch){
                                   .ndim = 3, .shape = {count, l->rows, l->cols}
    });
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;

    options.transpose_a = 1;
    TRY(gram_matmul_batched(c->g, &y, &x, &options, &turned));
    return add_squares(c, count, factor);
}

static gram_status by_positions(struct correction *c, const gram_tensor *a, const gram_tensor *d,
                                int64_t positions, int64_t block)
{
    const struct kfac_layer *l = c->l;
    const double factor = c->k->options.scale * c->k->options.scale;

    for (int64_t first = 0; first < c->samples; first += block) {
        int64_t count = gram_least(block, c->samples - first), rows = count * positions;
        gram_tensor a_part = samples_of(a, first, count), d_part = samples_of(d, first, count);
        const struct side sides[2] = {
            {&a_part, rows, l->inputs, l->cols, l->a_inverse, c->k->work[1]},
            {&d_part, rows,   l->rows, l->rows, l->b_inverse, c->k->work[2]},
        };
        for (int i = 0; i < 2; i++)
            TRY(turn_side(c, &sides[i]));
        TRY(positions == 1 ? multiply_squares(c, count, factor)
                           : multiply_positions(c, count, positions, factor));
    }
    return GRAM_OK;
}

static bool is_real(const gram_tensor *t)
{
    return t->dtype == GRAM_F32 || t->dtype == GRAM_F64;
}

/* How many samples a block has whose positions turn; 0: it is cheaper to turn gradients. */
static int64_t block_of(const struct correction *c, int64_t positions)
{
    const double s = (double)positions, m = (double)c->l->rows, n = (double)c->l->cols;
    const double most = s * (m > n ? m : n), all = s > 1 && m * n > most ? m * n : most;

    if (s < 1 || s * (m * m + n * n) > m * n * (m + n) || all > (double)c->k->work_count)
        return 0;
    return (int64_t)((double)c->k->work_count / all);
}

gram_status gram_kfac_correct(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                              const gram_tensor *activations, const gram_tensor *gradients)
{
    struct correction c = {.g = g, .k = k, .l = l, .samples = gradients->shape[0]};
    struct gram_layer_op op;
    int64_t block = 0;

    TRY(gram_layer_describe(g, &l->layer, activations, gradients, true, &op));
    if (op.kind == GRAM_LAYER_LINEAR && op.in == l->inputs && op.out == l->outputs &&
        is_real(activations) && is_real(gradients))
        block = block_of(&c, op.positions);
    if (block > 0)
        return by_positions(&c, activations, gradients, op.positions, block);
    return by_gradients(&c, activations, gradients);
}
