/*
 * kfac_update.c - gram_kfac_update and gram_kfac_feed: averages that NaN does not poison
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac.h"
#include <math.h>
#include <string.h>

bool gram_kfac_finite(int64_t count, const void *numbers, gram_dtype dtype, gram_dtype state)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++) {
        const double number = kfac_read(dtype, numbers, i);
        sum += 0 * (state == GRAM_F32 ? (double)(float)number : number);
    }
    return sum == 0;
}

double gram_kfac_keep(const struct gram_kfac *k, int64_t updates)
{
    return fmin(1 - 1 / (double)(updates + 1), k->options.decay);
}

struct numbers {
    const void *data;
    gram_dtype dtype;
};

static void mix(const gram_kfac *k, int64_t count, double keep, const struct numbers *from,
                void *to)
{
    for (int64_t i = 0; i < count; i++) {
        const double now = kfac_read(from->dtype, from->data, i);
        const double was = keep == 0 ? 0 : keep * kfac_read(k->options.state, to, i);
        kfac_write(k->options.state, to, i, was + (1 - keep) * now);
    }
}

static struct kfac_layer *layer_at(gram_context *g, gram_kfac *k, int64_t index)
{
    if (index >= 0 && index < k->count)
        return &k->layer[index];
    gram_note(g, "index is %lld, expected 0 to %lld", (long long)index, (long long)k->count - 1);
    return NULL;
}

/* ---- Tensors to numbers -------------------------------------------------------------------- */

gram_status gram_kfac_check_shape(gram_context *g, const char *name, const gram_tensor *t,
                                  const struct gram_batch *shape, enum gram_access access)
{
    struct gram_batch own = {.count = 1};
    struct gram_view view;
    bool same;

    TRY(gram_batch_join(g, &own, name, t, 0));
    TRY(gram_check_real(g, name, t));
    same = t->ndim == shape->ndim;
    for (int i = 0; same && i < shape->ndim; i++)
        same = t->shape[i] == shape->shape[i];
    if (!same)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s has not the shape that its layer says: %d dimensions, the first of "
                         "them %lld",
                         name, shape->ndim, (long long)shape->shape[0]);
    return gram_view_of(g, &own, name, t, 0, access, &view);
}

static void move(const struct kfac_move *m, bool store)
{
    const gram_tensor *t = m->tensor;
    int64_t count = 1, index[GRAM_MAX_DIMS] = {0}, offset = 0;

    for (int i = 0; i < t->ndim; i++)
        count *= t->shape[i];
    for (int64_t e = 0; e < count; e++) {
        const int64_t at = e / m->inner * m->outer_step + e % m->inner * m->inner_step;
        if (store)
            kfac_write(t->dtype, t->data, offset, m->factor * kfac_read(m->state, m->numbers, at));
        else
            kfac_write(m->state, m->numbers, at, kfac_read(t->dtype, t->data, offset));
        for (int i = t->ndim - 1; i >= 0; i--) { /* the next index */
            offset += t->stride[i];
            if (++index[i] < t->shape[i])
                break;
            offset -= index[i] * t->stride[i];
            index[i] = 0;
        }
    }
}

void gram_kfac_gather(const struct kfac_move *m)
{
    move(m, false);
}

void gram_kfac_scatter(const struct kfac_move *m)
{
    move(m, true);
}

/* ---- Factors ------------------------------------------------------------------------------- */

struct gram_batch gram_kfac_factor_shape(const struct kfac_layer *l, bool of_a)
{
    struct gram_batch s = {.count = of_a ? kfac_a_count(l) : kfac_b_count(l)};

    if (l->groups > 1)
        s.shape[s.ndim++] = l->groups;
    s.shape[s.ndim++] = of_a ? l->cols : l->rows;
    if (!of_a || !l->diagonal)
        s.shape[s.ndim++] = of_a ? l->cols : l->rows;
    return s;
}

gram_tensor gram_kfac_dense(const gram_kfac *k, void *numbers, const struct gram_batch *shape,
                            gram_dtype dtype)
{
    gram_tensor t = {.data = numbers, .dtype = dtype, .ndim = shape->ndim};
    int64_t step = 1;

    if (k->owner)
        t.device = k->owner->options.device;
    memcpy(t.shape, shape->shape, sizeof t.shape);
    for (int i = t.ndim - 1; i >= 0; step *= t.shape[i--])
        t.stride[i] = step;
    return t;
}

/* Takes new factors (NULL: none) into the averages, both or neither; false: one is not finite. */
static bool take(gram_kfac *k, struct kfac_layer *l, const void *const new[2], gram_dtype dtype)
{
    const int64_t count[2] = {kfac_a_count(l), kfac_b_count(l)};
    int64_t *const updates[2] = {&l->counts[KFAC_A_UPDATES], &l->counts[KFAC_B_UPDATES]};
    void *const average[2] = {l->a, l->b};

    for (int i = 0; i < 2; i++)
        if (new[i] && !gram_kfac_finite(count[i], new[i], dtype, k->options.state)) {
            k->skipped++;
            return false;
        }
    for (int i = 0; i < 2; i++)
        if (new[i])
            mix(k, count[i], gram_kfac_keep(k, (*updates[i])++), &(struct numbers){new[i], dtype},
                average[i]);
    return true;
}

gram_status gram_kfac_feed(gram_context *g, gram_kfac *kfac, int64_t index,
                           const gram_tensor *a_factor, const gram_tensor *b_factor)
{
    const void *new[2] = {NULL, NULL};
    struct gram_batch shape[2];
    struct kfac_layer *l;

    TRY(gram_begin(g, __func__));
    TRY(gram_kfac_check_context(g, kfac));
    if (!(l = layer_at(g, kfac, index)))
        return GRAM_INVALID_ARGUMENT;
    for (int i = 0; i < 2; i++)
        shape[i] = gram_kfac_factor_shape(l, i == 0);
    if (a_factor)
        TRY(gram_kfac_check_shape(g, "a_factor", a_factor, &shape[0], GRAM_READ));
    if (b_factor)
        TRY(gram_kfac_check_shape(g, "b_factor", b_factor, &shape[1], GRAM_READ));
    if (kfac->owner)
        return gram_kfac_device_take(g, kfac, l, a_factor, b_factor);
    for (int i = 0; i < 2; i++) {
        const gram_tensor *t = i == 0 ? a_factor : b_factor;
        const struct kfac_move move = {t, kfac->work[i], kfac->options.state, shape[i].count, 0, 1,
                                       1};
        if (!t)
            continue;
        gram_kfac_gather(&move);
        new[i] = kfac->work[i];
    }
    (void)take(kfac, l, new, kfac->options.state);
    return GRAM_OK;
}

/* ---- Updates ------------------------------------------------------------------------------- */

gram_status gram_kfac_new_factors(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                                  const gram_tensor *activations, const gram_tensor *gradients,
                                  gram_dtype dtype)
{
    gram_kfac_factors_options options = GRAM_KFAC_FACTORS_OPTIONS_INIT;
    struct gram_batch shape_a = gram_kfac_factor_shape(l, true),
                      shape_b = gram_kfac_factor_shape(l, false);
    gram_tensor a = gram_kfac_dense(k, k->work[0], &shape_a, dtype),
                b = gram_kfac_dense(k, k->work[2], &shape_b, dtype);

    options.setting = k->options.setting;
    options.scale = k->options.scale;
    return gram_kfac_factors(g, &l->layer, activations, gradients, &options, &a, &b);
}

gram_status gram_kfac_update(gram_context *g, gram_kfac *kfac, int64_t index,
                             const gram_tensor *activations, const gram_tensor *gradients)
{
    struct gram_batch any = {.count = 1};
    struct kfac_layer *l;
    gram_dtype dtype;
    bool corrects;

    TRY(gram_begin(g, __func__));
    TRY(gram_kfac_check_context(g, kfac));
    if (!(l = layer_at(g, kfac, index)))
        return GRAM_INVALID_ARGUMENT;
    TRY(gram_batch_join(g, &any, "gradients", gradients, 1));
    any = (struct gram_batch){.count = 1};
    TRY(gram_batch_join(g, &any, "activations", activations, 1));
    if (activations->shape[0] == 0 || gradients->shape[0] == 0) /* nothing is learned */
        return GRAM_OK;
    dtype = gradients->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    corrects =
        l->corrected && l->counts[KFAC_READY] && activations->shape[0] == gradients->shape[0];
    if (corrects)
        TRY(gram_kfac_correct(g, kfac, l, activations, gradients));
    TRY(gram_kfac_new_factors(g, kfac, l, activations, gradients, dtype));
    if (kfac->owner)
        return gram_kfac_device_update(g, kfac, l, dtype, corrects);
    if (corrects &&
        !gram_kfac_finite(kfac_m_count(l), l->gradient, kfac->options.state, kfac->options.state)) {
        kfac->skipped++;
        return GRAM_OK;
    }
    if (take(kfac, l, (const void *const[2]){kfac->work[0], kfac->work[2]}, dtype) && corrects)
        mix(kfac, kfac_m_count(l), gram_kfac_keep(kfac, l->counts[KFAC_CORRECTIONS]++),
            &(struct numbers){l->gradient, kfac->options.state}, l->corrections);
    return GRAM_OK;
}
