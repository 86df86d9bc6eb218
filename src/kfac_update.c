/*
 * kfac_update.c - gram_kfac_update and gram_kfac_feed: averages that NaN does not poison
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac.h"
#include <math.h>
#include <string.h>

bool gram_kfac_finite(int64_t count, const double *values)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += 0 * values[i];
    return sum == 0;
}

double gram_kfac_keep(const struct gram_kfac *k, int64_t updates)
{
    return fmin(1 - 1 / (double)(updates + 1), k->options.decay);
}

static void mix(int64_t count, double keep, const double *from, double *to)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = keep == 0 ? from[i] : keep * to[i] + (1 - keep) * from[i];
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
        double *number = m->numbers + e / m->inner * m->outer_step + e % m->inner * m->inner_step;
        if (t->dtype == GRAM_F32 && store)
            ((float *)t->data)[offset] = (float)(m->factor * *number);
        else if (store)
            ((double *)t->data)[offset] = m->factor * *number;
        else
            *number = t->dtype == GRAM_F32 ? (double)((const float *)t->data)[offset]
                                           : ((const double *)t->data)[offset];
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

gram_tensor gram_kfac_dense(void *numbers, const struct gram_batch *shape)
{
    gram_tensor t = {.data = numbers, .dtype = GRAM_F64, .ndim = shape->ndim};
    int64_t step = 1;

    memcpy(t.shape, shape->shape, sizeof t.shape);
    for (int i = t.ndim - 1; i >= 0; step *= t.shape[i--])
        t.stride[i] = step;
    return t;
}

/* Takes new factors (NULL: none) into the averages, both or neither; false: they are not finite. */
static bool take(gram_kfac *k, struct kfac_layer *l, const double *a, const double *b)
{
    if ((a && !gram_kfac_finite(kfac_a_count(l), a)) ||
        (b && !gram_kfac_finite(kfac_b_count(l), b))) {
        k->skipped++;
        return false;
    }
    if (a)
        mix(kfac_a_count(l), gram_kfac_keep(k, l->counts[KFAC_A_UPDATES]++), a, l->a);
    if (b)
        mix(kfac_b_count(l), gram_kfac_keep(k, l->counts[KFAC_B_UPDATES]++), b, l->b);
    return true;
}

gram_status gram_kfac_feed(gram_context *g, gram_kfac *kfac, int64_t index,
                           const gram_tensor *a_factor, const gram_tensor *b_factor)
{
    struct gram_batch shape[2];
    struct kfac_layer *l;

    g->call = __func__;
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
        if (t)
            gram_kfac_gather(&(struct kfac_move){t, kfac->work[i], shape[i].count, 0, 1, 1});
    }
    (void)take(kfac, l, a_factor ? kfac->work[0] : NULL, b_factor ? kfac->work[1] : NULL);
    return GRAM_OK;
}

/* ---- Corrected eigenvalues ----------------------------------------------------------------- */

/* Rows [first, first + count) of the first dimension. */
static gram_tensor samples_of(const gram_tensor *t, int64_t first, int64_t count)
{
    gram_tensor part = *t;

    part.shape[0] = count;
    if (part.data)
        part.data = (char *)part.data + first * t->stride[0] * (int64_t)gram_dtype_size(t->dtype);
    return part;
}

/* The gradients of samples as matrices [W b] of f64, to work 0; their dtype is that of g. */
static gram_status sample_gradients(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                                    const gram_tensor *a, const gram_tensor *d)
{
    gram_sample_grad_options options = GRAM_SAMPLE_GRAD_OPTIONS_INIT;
    gram_dtype dtype = d->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    struct gram_batch shape = gram_kfac_weight_shape(l), all = {.ndim = shape.ndim + 1};
    int64_t count = d->shape[0], bias = l->layer.bias != 0, width = l->cols - bias;
    gram_tensor weight, biases = gram_matrix(k->work[2], count, l->outputs, dtype);
    gram_sample_grads out = {.weight = &weight, .bias = bias ? &biases : NULL};

    options.scale = k->options.scale;
    all.shape[0] = count;
    memcpy(all.shape + 1, shape.shape, (size_t)shape.ndim * sizeof *shape.shape);
    weight = gram_kfac_dense(k->work[1], &all);
    weight.dtype = dtype;
    TRY(gram_sample_grad(g, &l->layer, a, d, &options, &out));
    gram_kfac_gather(&(struct kfac_move){&weight, k->work[0], width, l->cols, 1, 1});
    if (bias)
        gram_kfac_gather(&(struct kfac_move){&biases, k->work[0] + width, 1, l->cols, 0, 1});
    return GRAM_OK;
}

/* Adds the squares of Qb^T G Qa of count samples in work 0 to sum. */
static gram_status add_squares(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                               int64_t count, double *sum)
{
    int64_t n = l->groups, m = kfac_m_count(l);
    struct gram_batch shape = {
        .ndim = 4, .shape = {count, n, l->rows, l->cols}
    };
    struct gram_batch of_a = {
        .ndim = 3, .shape = {n, l->cols, l->cols}
    };
    struct gram_batch of_b = {
        .ndim = 3, .shape = {n, l->rows, l->rows}
    };
    gram_tensor x = gram_kfac_dense(k->work[0], &shape), y = gram_kfac_dense(k->work[1], &shape);
    gram_tensor qa = gram_kfac_dense(l->a_inverse, &of_a),
                qb = gram_kfac_dense(l->b_inverse, &of_b);
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;

    options.transpose_a = 1;
    TRY(gram_matmul_batched(g, &qb, &x, &options, &y));
    TRY(gram_matmul_batched(g, &y, &qa, NULL, &x));
    for (int64_t s = 0; s < count; s++)
        for (int64_t i = 0; i < m; i++)
            sum[i] += k->work[0][s * m + i] * k->work[0][s * m + i];
    return GRAM_OK;
}

/* s of this update to work 3. */
static gram_status correct(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                           const gram_tensor *a, const gram_tensor *d)
{
    int64_t m = kfac_m_count(l), samples = d->shape[0];
    int64_t block = gram_most(k->work_count / gram_most(m, 1), 1);

    memset(k->work[3], 0, (size_t)m * sizeof(double));
    for (int64_t first = 0; first < samples; first += block) {
        int64_t count = gram_least(block, samples - first);
        gram_tensor a_part = samples_of(a, first, count), d_part = samples_of(d, first, count);
        TRY(sample_gradients(g, k, l, &a_part, &d_part));
        TRY(add_squares(g, k, l, count, k->work[3]));
    }
    for (int64_t i = 0; i < m; i++)
        k->work[3][i] /= (double)samples;
    return GRAM_OK;
}

/* ---- Updates ------------------------------------------------------------------------------- */

static gram_status new_factors(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                               const gram_tensor *activations, const gram_tensor *gradients)
{
    gram_kfac_factors_options options = GRAM_KFAC_FACTORS_OPTIONS_INIT;
    struct gram_batch shape_a = gram_kfac_factor_shape(l, true),
                      shape_b = gram_kfac_factor_shape(l, false);
    gram_tensor a = gram_kfac_dense(k->work[0], &shape_a),
                b = gram_kfac_dense(k->work[1], &shape_b);
    gram_dtype dtype = gradients->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    options.setting = k->options.setting;
    options.scale = k->options.scale;
    a.dtype = b.dtype = dtype;
    TRY(gram_kfac_factors(g, &l->layer, activations, gradients, &options, &a, &b));
    if (dtype == GRAM_F64)
        return GRAM_OK;
    a.data = memcpy(k->work[2], a.data, (size_t)shape_a.count * sizeof(float));
    b.data = memcpy(k->work[3], b.data, (size_t)shape_b.count * sizeof(float));
    gram_kfac_gather(&(struct kfac_move){&a, k->work[0], shape_a.count, 0, 1, 1});
    gram_kfac_gather(&(struct kfac_move){&b, k->work[1], shape_b.count, 0, 1, 1});
    return GRAM_OK;
}

gram_status gram_kfac_update(gram_context *g, gram_kfac *kfac, int64_t index,
                             const gram_tensor *activations, const gram_tensor *gradients)
{
    struct gram_batch any = {.count = 1};
    struct kfac_layer *l;
    bool corrects;

    g->call = __func__;
    TRY(gram_kfac_check_context(g, kfac));
    if (!(l = layer_at(g, kfac, index)))
        return GRAM_INVALID_ARGUMENT;
    TRY(gram_batch_join(g, &any, "gradients", gradients, 1));
    any = (struct gram_batch){.count = 1};
    TRY(gram_batch_join(g, &any, "activations", activations, 1));
    if (activations->shape[0] == 0 || gradients->shape[0] == 0) /* nothing is learned */
        return GRAM_OK;
    if (kfac->owner)
        return gram_kfac_device_update(g, kfac, l, activations, gradients);
    corrects = l->corrected && l->counts[KFAC_READY];
    if (corrects && activations->shape[0] == gradients->shape[0]) {
        TRY(correct(g, kfac, l, activations, gradients));
        if (gram_kfac_finite(kfac_m_count(l), kfac->work[3])) {
            memcpy(l->gradient, kfac->work[3], (size_t)kfac_m_count(l) * sizeof(double));
        } else {
            kfac->skipped++;
            return GRAM_OK;
        }
    }
    TRY(new_factors(g, kfac, l, activations, gradients));
    if (take(kfac, l, kfac->work[0], kfac->work[1]) && corrects)
        mix(kfac_m_count(l), gram_kfac_keep(kfac, l->counts[KFAC_CORRECTIONS]++), l->gradient,
            l->corrections);
    return GRAM_OK;
}
