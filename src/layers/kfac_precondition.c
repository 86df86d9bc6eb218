/*
 * kfac_precondition.c - gram_kfac_precondition: gradients to directions, all layers in one pass
 *
 * The directions of all layers are made first, with the sum that decides how long they may be;
 * then they are stored.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const gram_tensor *entry(const gram_tensor *const *list, int64_t i)
{
    return list ? list[i] : NULL;
}

static gram_status check_one(gram_context *g, const char *list, int64_t index, const gram_tensor *t,
                             const struct gram_batch *shape, enum gram_access access)
{
    char name[48];

    (void)snprintf(name, sizeof name, "%s[%lld]", list, (long long)index);
    if (!t)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL, expected a tensor", name);
    return gram_kfac_check_shape(g, name, t, shape, access);
}

static gram_status check(gram_context *g, const gram_kfac *k, const struct kfac_tensors *t)
{
    for (int64_t i = 0; i < k->count; i++) {
        const struct kfac_layer *l = &k->layer[i];
        struct gram_batch weight = gram_kfac_weight_shape(l),
                          bias = {.ndim = 1, .shape = {l->outputs}};
        const gram_tensor *to_weight = entry((const gram_tensor *const *)t->to_weights, i);
        const gram_tensor *to_bias = entry((const gram_tensor *const *)t->to_biases, i);

        TRY(check_one(g, "weights", i, entry(t->weights, i), &weight, GRAM_READ));
        TRY(check_one(g, "to_weights", i, to_weight, &weight, GRAM_WRITE));
        if (l->layer.bias) {
            TRY(check_one(g, "biases", i, entry(t->biases, i), &bias, GRAM_READ));
            TRY(check_one(g, "to_biases", i, to_bias, &bias, GRAM_WRITE));
        } else if (entry(t->biases, i) || to_bias) {
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "biases[%lld] or to_biases[%lld] is given, but the layer has no bias",
                             (long long)i, (long long)i);
        }
    }
    return GRAM_OK;
}

struct kfac_move gram_kfac_weight_of(const gram_kfac *k, const struct kfac_layer *l,
                                     const gram_tensor *t)
{
    const int64_t width = l->cols - (l->layer.bias != 0);

    if (l->diagonal) /* the table is the transpose of M */
        return (struct kfac_move){t, l->gradient, k->options.state, l->rows, 1, l->cols, 1};
    return (struct kfac_move){t, l->gradient, k->options.state, width, l->cols, 1, 1};
}

struct kfac_move gram_kfac_bias_of(const gram_kfac *k, const struct kfac_layer *l,
                                   const gram_tensor *t)
{
    const gram_dtype dtype = k->options.state;
    void *last = kfac_from(dtype, l->gradient, l->cols - 1);

    return (struct kfac_move){t, last, dtype, 1, l->cols, 0, 1};
}

/* The eigenvectors of a diagonal A are those of I, so that they need no product. */
gram_status gram_kfac_both_sides(gram_context *g, const gram_kfac *k, const struct kfac_layer *l,
                                 const struct kfac_sides *s)
{
    const gram_dtype dtype = k->options.state;
    void *between = l->diagonal ? s->out : s->spare;
    gram_tensor x = gram_matrices(s->m, l->groups, l->rows, l->cols, dtype);
    gram_tensor y = gram_matrices(between, l->groups, l->rows, l->cols, dtype);
    gram_tensor z = gram_matrices(s->out, l->groups, l->rows, l->cols, dtype);
    gram_tensor b = gram_matrices(l->b_inverse, l->groups, l->rows, l->rows, dtype);
    gram_tensor a = gram_matrices(l->a_inverse, l->groups, l->cols, l->cols, dtype);
    gram_matmul_options from_left = GRAM_MATMUL_OPTIONS_INIT, from_right = from_left;

    if (k->owner)
        a.device = b.device = x.device = y.device = z.device = k->owner->options.device;
    from_left.transpose_a = s->transpose_b;
    from_right.transpose_b = s->transpose_a;
    TRY(gram_matmul_batched(g, &b, &x, &from_left, &y));
    if (l->diagonal)
        return GRAM_OK;
    return gram_matmul_batched(g, &y, &a, &from_right, &z);
}

/* Divides the numbers of M in the eigenvectors by s + lambda. */
static void divide(const gram_kfac *k, const struct kfac_layer *l, void *turned)
{
    const gram_dtype dtype = k->options.state;

    for (int64_t i = 0; i < kfac_m_count(l); i++) {
        int64_t row = i / l->cols, col = i % l->cols + row / l->rows * l->cols;
        double s = l->corrected
                       ? kfac_read(dtype, l->corrections, i)
                       : kfac_read(dtype, l->b_values, row) * kfac_read(dtype, l->a_values, col);
        kfac_write(dtype, turned, i, kfac_read(dtype, turned, i) / (s + k->options.lambda));
    }
}

/* Computes V from the layer's M, to work 2. */
static gram_status direction_of(gram_context *g, gram_kfac *k, struct kfac_layer *l)
{
    const gram_dtype dtype = k->options.state;
    void *turned = k->work[0], *spare = k->work[1], *out = k->work[2];

    if (!l->counts[KFAC_READY]) {
        memcpy(out, l->gradient, (size_t)kfac_m_count(l) * gram_dtype_size(dtype));
        return GRAM_OK;
    }
    if (k->options.damping == GRAM_KFAC_FACTORED) {
        TRY(gram_kfac_both_sides(g, k, l,
                                 &(struct kfac_sides){l->gradient, spare, out, false, false}));
        for (int64_t i = 0; l->diagonal && i < kfac_m_count(l); i++)
            kfac_write(dtype, out, i,
                       kfac_read(dtype, out, i) * kfac_read(dtype, l->a_values, i % l->cols));
        return GRAM_OK;
    }
    TRY(gram_kfac_both_sides(g, k, l,
                             &(struct kfac_sides){l->gradient, spare, turned, true, false}));
    divide(k, l, turned);
    return gram_kfac_both_sides(g, k, l, &(struct kfac_sides){turned, spare, out, false, true});
}

/* Puts the directions of all layers in the place of the gradients, and adds up <V, M>. */
static gram_status all_directions(gram_context *g, gram_kfac *k, double *sum)
{
    const gram_dtype dtype = k->options.state;

    *sum = 0;
    for (int64_t i = 0; i < k->count; i++) {
        struct kfac_layer *l = &k->layer[i];

        TRY(direction_of(g, k, l));
        for (int64_t e = 0; e < kfac_m_count(l); e++) {
            const double v = kfac_read(dtype, k->work[2], e);
            *sum += v * kfac_read(dtype, l->gradient, e);
            kfac_write(dtype, l->gradient, e, v);
        }
    }
    return GRAM_OK;
}

static gram_status load_gradients(gram_context *g, gram_kfac *k, const struct kfac_tensors *t)
{
    for (int64_t i = 0; i < k->count; i++) {
        struct kfac_layer *l = &k->layer[i];
        struct kfac_move weight = gram_kfac_weight_of(k, l, t->weights[i]);

        gram_kfac_gather(&weight);
        if (l->layer.bias) {
            struct kfac_move bias = gram_kfac_bias_of(k, l, t->biases[i]);
            gram_kfac_gather(&bias);
        }
        if (!gram_kfac_finite(kfac_m_count(l), l->gradient, k->options.state, k->options.state))
            return gram_fail(g, GRAM_NUMERICAL,
                             "weights[%lld] or its bias has a gradient that is not finite",
                             (long long)i);
    }
    return GRAM_OK;
}

static void store_directions(const gram_kfac *k, const struct kfac_tensors *t, double nu)
{
    for (int64_t i = 0; i < k->count; i++) {
        const struct kfac_layer *l = &k->layer[i];
        struct kfac_move weight = gram_kfac_weight_of(k, l, t->to_weights[i]);

        weight.factor = nu;
        gram_kfac_scatter(&weight);
        if (l->layer.bias) {
            struct kfac_move bias = gram_kfac_bias_of(k, l, t->to_biases[i]);
            bias.factor = nu;
            gram_kfac_scatter(&bias);
        }
    }
}

/* NOLINTNEXTLINE(readability-function-size): gradients and directions */
gram_status gram_kfac_precondition(gram_context *g, gram_kfac *kfac, double learning_rate,
                                   const gram_tensor *const *weights,
                                   const gram_tensor *const *biases, gram_tensor *const *to_weights,
                                   gram_tensor *const *to_biases)
{
    const struct kfac_tensors t = {weights, biases, to_weights, to_biases};
    double sum, nu = 1;

    TRY(gram_begin(g, __func__));
    if (!isfinite(learning_rate))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "learning_rate is %g, expected a finite number",
                         learning_rate);
    TRY(gram_kfac_check_context(g, kfac));
    TRY(check(g, kfac, &t));
    if (kfac->owner)
        return gram_kfac_device_precondition(g, kfac, learning_rate, &t);
    TRY(load_gradients(g, kfac, &t));
    TRY(all_directions(g, kfac, &sum));
    sum = fabs(sum * learning_rate * learning_rate);
    if (kfac->options.kl_clip > 0 && sum > kfac->options.kl_clip)
        nu = sqrt(kfac->options.kl_clip / sum);
    store_directions(kfac, &t, nu);
    kfac->nu = nu;
    return GRAM_OK;
}
