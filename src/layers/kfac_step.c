/*
 * kfac_step.c - a step of K-FAC: averages of factors, their inverses, directions
 *
 * The curvature of a layer is taken as B (x) A.  With a'[n,s] the activations of sample n and
 * position s and a 1 behind them, g[n,s] the gradients, M = [W b] of the gradient, and l = lambda:
 *
 *   update        A <- k A + (1 - k) E[a' a'^T],   B <- k B + (1 - k) E[g g^T]
 *
 *   FACTORED      pi^2 = (tr A / n) / (tr B / m)
 *                 V = (B + sqrt(l) / pi I)^-1 M (A + pi sqrt(l) I)^-1
 *
 *   EXACT         A = Qa diag(da) Qa^T,   B = Qb diag(db) Qb^T,   s = db da^T
 *                 V = Qb ((Qb^T M Qa) / (s + l)) Qa^T
 *
 *   EKFAC         as EXACT, but s is the average of E_n[(Qb^T G_n Qa)^2] over samples' gradients
 *
 *   precondition  out = nu V,   nu = min(1, sqrt(kl_clip / |sum lr^2 <V, M>|))
 *
 * Martens and Grosse, Optimizing neural networks with Kronecker-factored approximate curvature,
 * ICML 2015 (pi: section 6.3).  George et al., Fast approximate natural gradient descent in a
 * Kronecker-factored eigenbasis, NeurIPS 2018.
 *
 * On a device a call queues operations and passes and waits for nothing.  New numbers of a layer
 * are made in the memory to work in first, and a pass takes all of them into the state or none.
 * The CPU's outcomes are there at once, so that it can say more and try more: it names the gradient
 * that is not finite, and inverts by eigenvalues what Cholesky's factorisation refuses.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SMALL_ORDER = 32 /* up to this order AUTO does eigenproblems of a device in one launch */
};

gram_status gram_kfac_run(gram_context *g, const gram_kfac *k, struct gram_kfac_pass pass)
{
    pass.report = k->report;
    pass.state = k->options.state;
    return g->backend->kfac_pass(g, &pass);
}

static gram_tensor on_device(const gram_kfac *k, gram_tensor t)
{
    if (k->owner)
        t.device = k->owner->options.device;
    return t;
}

/* A call of the CPU may have ended halfway, with an error of an operation. */
static gram_status begin_call(gram_context *g, gram_kfac *k)
{
    TRY(gram_kfac_check_context(g, k));
    if (!k->owner)
        k->report->bad = 0, k->report->sum = 0;
    return GRAM_OK;
}

static struct kfac_layer *layer_at(gram_context *g, gram_kfac *k, int64_t index)
{
    if (index >= 0 && index < k->count)
        return &k->layer[index];
    gram_note(g, "index is %lld, expected 0 to %lld", (long long)index, (long long)k->count - 1);
    return NULL;
}

/* Checks that a tensor has this shape and is f32 or f64; its strides are free. */
static gram_status check_shape(gram_context *g, const char *name, const gram_tensor *t,
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
                         "%s does not have the shape of its layer, expected %d dimensions, of "
                         "which the first has size %lld",
                         name, shape->ndim, (long long)shape->shape[0]);
    return gram_view_of(g, &own, name, t, 0, access, &view);
}

static gram_status check_finite(gram_context *g, const gram_kfac *k, const void *numbers,
                                int64_t count, gram_dtype dtype)
{
    return gram_kfac_run(
        g, k,
        (struct gram_kfac_pass){
            .kind = KFAC_CHECK_FINITE, .from = numbers, .dtype = dtype, .count = count});
}

/* ---- Averages ------------------------------------------------------------------------------- */

/* New numbers for an average `to`, and which of the layer's counts counts its updates. */
struct average {
    const void *new;
    gram_dtype dtype;
    void *to;
    int64_t count;
    enum kfac_count updates;
};

static gram_status move_average(gram_context *g, const gram_kfac *k, const struct kfac_layer *l,
                                const struct average *a)
{
    return gram_kfac_run(g, k,
                         (struct gram_kfac_pass){
                             .kind = KFAC_MOVE_AVERAGE,
                             .counts = l->counts,
                             .from = a->new,
                             .dtype = a->dtype,
                             .to = a->to,
                             .count = a->count,
                             .average = {a->updates, k->options.decay}
    });
}

/* Moves the averages towards new factors of a dtype (NULL: none) and, with corrects, towards new
 * corrections: all of them, or none if one is not finite. */
static gram_status move_averages(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                                 const void *const new[2], gram_dtype dtype, bool corrects)
{
    const gram_dtype state = k->options.state;
    const void *const own = corrects ? l->gradient : NULL;
    const struct average averages[3] = {
        {new[0], dtype,           l->a, kfac_a_count(l),   KFAC_A_UPDATES},
        {new[1], dtype,           l->b, kfac_b_count(l),   KFAC_B_UPDATES},
        {   own, state, l->corrections, kfac_m_count(l), KFAC_CORRECTIONS},
    };
    unsigned moved = 0;

    for (int i = 0; i < 3; i++)
        if (averages[i].new)
            TRY(check_finite(g, k, averages[i].new, averages[i].count, averages[i].dtype));
    for (int i = 0; i < 3; i++) {
        if (!averages[i].new)
            continue;
        TRY(move_average(g, k, l, &averages[i]));
        l->queued[averages[i].updates]++;
        moved |= 1U << averages[i].updates;
    }
    return gram_kfac_run(
        g, k,
        (struct gram_kfac_pass){.kind = KFAC_COUNT_UPDATE, .counts = l->counts, .moved = moved});
}

/* The shape of a layer's A or B. */
static struct gram_batch factor_shape(const struct kfac_layer *l, bool of_a)
{
    struct gram_batch s = {.count = of_a ? kfac_a_count(l) : kfac_b_count(l)};

    if (l->groups > 1)
        s.shape[s.ndim++] = l->groups;
    s.shape[s.ndim++] = of_a ? l->cols : l->rows;
    if (!of_a || !l->diagonal)
        s.shape[s.ndim++] = of_a ? l->cols : l->rows;
    return s;
}

gram_status gram_kfac_feed(gram_context *g, gram_kfac *kfac, int64_t index,
                           const gram_tensor *a_factor, const gram_tensor *b_factor)
{
    static const char *const names[2] = {"a_factor", "b_factor"};
    const gram_tensor *const given[2] = {a_factor, b_factor};
    const void *new[2] = {NULL, NULL};
    struct gram_batch shape[2];
    struct kfac_layer *l;

    TRY(gram_begin(g, __func__));
    TRY(begin_call(g, kfac));
    if (!(l = layer_at(g, kfac, index)))
        return GRAM_INVALID_ARGUMENT;
    for (int i = 0; i < 2; i++) {
        shape[i] = factor_shape(l, i == 0);
        if (given[i])
            TRY(check_shape(g, names[i], given[i], &shape[i], GRAM_READ));
    }
    for (int i = 0; i < 2; i++) {
        const struct kfac_move move = {
            given[i], kfac->work[i], kfac->options.state, shape[i].count, 0, 1};
        if (!given[i])
            continue;
        TRY(gram_kfac_run(g, kfac, (struct gram_kfac_pass){.kind = KFAC_GATHER, .move = &move}));
        new[i] = kfac->work[i];
    }
    return move_averages(g, kfac, l, new, kfac->options.state, false);
}

/* Computes new factors of a dtype: A to work 0 and B to work 2. */
static gram_status make_factors(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                                const gram_tensor *activations, const gram_tensor *gradients,
                                gram_dtype dtype)
{
    gram_kfac_factors_options options = GRAM_KFAC_FACTORS_OPTIONS_INIT;
    struct gram_batch shape_a = factor_shape(l, true), shape_b = factor_shape(l, false);
    gram_tensor a = gram_kfac_dense(k, k->work[0], &shape_a, dtype);
    gram_tensor b = gram_kfac_dense(k, k->work[2], &shape_b, dtype);

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
    TRY(begin_call(g, kfac));
    if (!(l = layer_at(g, kfac, index)))
        return GRAM_INVALID_ARGUMENT;
    TRY(gram_batch_join(g, &any, "gradients", gradients, 1));
    any = (struct gram_batch){.count = 1};
    TRY(gram_batch_join(g, &any, "activations", activations, 1));
    if (activations->shape[0] == 0 || gradients->shape[0] == 0) /* nothing is learned */
        return GRAM_OK;
    dtype = gradients->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    corrects = l->corrected && kfac_known_counts(kfac, l)[KFAC_READY] &&
               activations->shape[0] == gradients->shape[0];
    if (corrects)
        TRY(gram_kfac_correct(g, kfac, l, activations, gradients));
    TRY(make_factors(g, kfac, l, activations, gradients, dtype));
    return move_averages(g, kfac, l, (const void *const[2]){kfac->work[0], kfac->work[2]}, dtype,
                         corrects);
}

/* ---- Inverses ------------------------------------------------------------------------------- */

/* The least damping of a factor, divided by its trace.  A smaller one is lost in the rounding of
 * the factor, so that Cholesky's factorisation could break down. */
static double least_damping(const gram_kfac *k)
{
    return 4 * (k->options.state == GRAM_F32 ? (double)FLT_EPSILON : DBL_EPSILON);
}

/* Queues a pass that takes a result into the state, or commits the layer, unless a factorisation
 * has failed. */
static gram_status take(gram_context *g, const gram_kfac *k, const struct kfac_layer *l,
                        struct gram_kfac_pass pass)
{
    pass.counts = l->counts;
    pass.groups = l->groups;
    pass.info[0] = l->diagonal ? NULL : k->info;
    pass.info[1] = k->info + k->most_groups;
    return gram_kfac_run(g, k, pass);
}

/* On the CPU: inverts by eigenvalues, those below 0 as 0, the matrices that Cholesky's
 * factorisation has refused. */
static gram_status invert_refused(gram_context *g, gram_kfac *k, const struct kfac_layer *l,
                                  int side)
{
    const gram_dtype dtype = k->options.state;
    const int64_t n = side == 0 ? l->cols : l->rows;
    gram_matrix_power_options power = GRAM_MATRIX_POWER_OPTIONS_INIT;

    power.numerator = -1, power.denominator = 1;
    power.ridge = gram_number(k->report->shift[side]);
    for (int64_t i = 0; i < l->groups; i++) {
        void *from = kfac_from(dtype, side == 0 ? l->a : l->b, i * n * n);
        gram_tensor a = gram_matrix(k->work[2], n, n, dtype);
        gram_tensor x = gram_matrix(kfac_from(dtype, k->work[side], i * n * n), n, n, dtype);
        int32_t *value = k->info + side * k->most_groups + i;
        gram_tensor info = {.data = value, .dtype = GRAM_I32};

        if (*value == 0 && gram_kfac_finite(n * n, x.data, dtype, dtype))
            continue;
        memcpy(a.data, from, (size_t)(n * n) * gram_dtype_size(dtype));
        TRY(gram_matrix_power(g, &a, &power, &x, &info));
    }
    return GRAM_OK;
}

/* Inverts A + shift I (side 0) or B + shift I (side 1) to the work of this number. */
static gram_status invert(gram_context *g, gram_kfac *k, const struct kfac_layer *l, int side)
{
    const int64_t n = side == 0 ? l->cols : l->rows;
    gram_tensor a = on_device(k, gram_matrices(k->work[2], l->groups, n, n, k->options.state));
    gram_tensor x = on_device(k, gram_matrices(k->work[side], l->groups, n, n, k->options.state));
    gram_tensor info =
        on_device(k, gram_vector(k->info + side * k->most_groups, l->groups, GRAM_I32));

    TRY(gram_kfac_run(g, k,
                      (struct gram_kfac_pass){.kind = KFAC_ADD_DAMPING,
                                              .from = k->work[side],
                                              .to = k->work[2],
                                              .x = side == 0 ? l->a : l->b,
                                              .count = l->groups * n * n,
                                              .rows = n,
                                              .side = side}));
    TRY(gram_solve_cholesky(g, &a, &x, NULL, &x, &info));
    if (!k->owner)
        TRY(invert_refused(g, k, l, side));
    return check_finite(g, k, x.data, l->groups * n * n, k->options.state);
}

static gram_status refresh_factored(gram_context *g, gram_kfac *k, struct kfac_layer *l)
{
    TRY(gram_kfac_run(g, k,
                      (struct gram_kfac_pass){
                          .kind = KFAC_SPLIT_DAMPING,
                          .x = l->a,
                          .y = l->b,
                          .groups = l->groups,
                          .rows = l->rows,
                          .cols = l->cols,
                          .damping = {l->diagonal, k->options.lambda, least_damping(k)}
    }));
    if (!l->diagonal)
        TRY(invert(g, k, l, 0));
    TRY(invert(g, k, l, 1));
    if (l->diagonal)
        TRY(take(g, k, l,
                 (struct gram_kfac_pass){.kind = KFAC_STORE,
                                         .to = l->a_values,
                                         .x = l->a,
                                         .count = l->cols,
                                         .rows = 1,
                                         .store = KFAC_STORE_INVERSE}));
    else
        TRY(take(g, k, l,
                 (struct gram_kfac_pass){.kind = KFAC_STORE,
                                         .to = l->a_inverse,
                                         .x = k->work[0],
                                         .count = kfac_a_count(l),
                                         .rows = l->cols,
                                         .store = KFAC_STORE_SYMMETRIC}));
    return take(g, k, l,
                (struct gram_kfac_pass){.kind = KFAC_STORE,
                                        .to = l->b_inverse,
                                        .x = k->work[1],
                                        .count = kfac_b_count(l),
                                        .rows = l->rows,
                                        .store = KFAC_STORE_SYMMETRIC});
}

/* Eigenvectors of A (side 0) or B go to the work of this number, eigenvalues to the one two
 * behind. */
static gram_status decompose(gram_context *g, gram_kfac *k, const struct kfac_layer *l, int side)
{
    const int64_t n = side == 0 ? l->cols : l->rows;
    void *from = side == 0 ? l->a : l->b;
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    gram_tensor a = on_device(k, gram_matrices(from, l->groups, n, n, k->options.state));
    gram_tensor v = on_device(k, gram_matrices(k->work[side], l->groups, n, n, k->options.state));
    gram_tensor w = on_device(k, gram_matrix(k->work[side + 2], l->groups, n, k->options.state));
    gram_tensor info =
        on_device(k, gram_vector(k->info + side * k->most_groups, l->groups, GRAM_I32));

    if (k->owner && n > SMALL_ORDER) /* this driver does not wait for the device */
        options.driver = GRAM_EIGH_DRIVER_BATCHED;
    return gram_eigh(g, &a, &options, &w, &v, &info);
}

static gram_status refresh_exact(gram_context *g, gram_kfac *k, struct kfac_layer *l)
{
    if (!l->diagonal)
        TRY(decompose(g, k, l, 0));
    TRY(decompose(g, k, l, 1));
    if (!l->diagonal)
        TRY(take(g, k, l,
                 (struct gram_kfac_pass){.kind = KFAC_STORE,
                                         .to = l->a_inverse,
                                         .x = k->work[0],
                                         .count = kfac_a_count(l),
                                         .rows = l->cols}));
    TRY(take(g, k, l,
             (struct gram_kfac_pass){.kind = KFAC_STORE,
                                     .to = l->b_inverse,
                                     .x = k->work[1],
                                     .count = kfac_b_count(l),
                                     .rows = l->rows}));
    TRY(take(g, k, l,
             (struct gram_kfac_pass){.kind = KFAC_STORE,
                                     .to = l->a_values,
                                     .x = l->diagonal ? l->a : k->work[2],
                                     .count = l->groups * l->cols,
                                     .rows = 1,
                                     .store = KFAC_STORE_VALUES}));
    TRY(take(g, k, l,
             (struct gram_kfac_pass){.kind = KFAC_STORE,
                                     .to = l->b_values,
                                     .x = k->work[3],
                                     .count = l->groups * l->rows,
                                     .rows = 1,
                                     .store = KFAC_STORE_VALUES}));
    if (!l->corrected)
        return GRAM_OK;
    return take(g, k, l,
                (struct gram_kfac_pass){.kind = KFAC_STORE,
                                        .to = l->corrections,
                                        .x = l->a_values,
                                        .y = l->b_values,
                                        .count = kfac_m_count(l),
                                        .rows = l->rows,
                                        .cols = l->cols,
                                        .store = KFAC_STORE_PRODUCTS});
}

gram_status gram_kfac_refresh(gram_context *g, gram_kfac *kfac)
{
    TRY(gram_begin(g, __func__));
    TRY(begin_call(g, kfac));
    for (int64_t i = 0; i < kfac->count; i++) {
        struct kfac_layer *l = &kfac->layer[i];
        const int64_t *counts = kfac_known_counts(kfac, l);

        g->call = __func__;
        if (counts[KFAC_A_UPDATES] == 0 || counts[KFAC_B_UPDATES] == 0)
            continue;
        TRY(kfac->options.damping == GRAM_KFAC_EXACT ? refresh_exact(g, kfac, l)
                                                     : refresh_factored(g, kfac, l));
        TRY(take(g, kfac, l, (struct gram_kfac_pass){.kind = KFAC_COMMIT}));
        l->queued[KFAC_READY] = 1;
        l->queued[KFAC_CORRECTIONS] = 0;
    }
    return GRAM_OK;
}

/* ---- Directions ----------------------------------------------------------------------------- */

/* The arguments of gram_kfac_precondition. */
struct tensors {
    const gram_tensor *const *weights, *const *biases;
    gram_tensor *const *to_weights, *const *to_biases;
};

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
    return check_shape(g, name, t, shape, access);
}

static gram_status check_tensors(gram_context *g, const gram_kfac *k, const struct tensors *t)
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

/* The copies between a weight and M, and between a bias and M's last column. */
static struct kfac_move move_weight(const gram_kfac *k, const struct kfac_layer *l,
                                    const gram_tensor *t)
{
    const int64_t width = l->cols - (l->layer.bias != 0);

    if (l->diagonal) /* the table is the transpose of M */
        return (struct kfac_move){t, l->gradient, k->options.state, l->rows, 1, l->cols};
    return (struct kfac_move){t, l->gradient, k->options.state, width, l->cols, 1};
}

static struct kfac_move move_bias(const gram_kfac *k, const struct kfac_layer *l,
                                  const gram_tensor *t)
{
    const gram_dtype dtype = k->options.state;

    return (struct kfac_move){t, kfac_from(dtype, l->gradient, l->cols - 1), dtype, 1, l->cols, 0};
}

/* Gathers the gradients of all layers, or scatters their directions. */
static gram_status move_all(gram_context *g, gram_kfac *k, enum kfac_pass_kind kind,
                            const struct tensors *t)
{
    const bool scatters = kind == KFAC_SCATTER;

    for (int64_t i = 0; i < k->count; i++) {
        const struct kfac_layer *l = &k->layer[i];
        struct kfac_move move = move_weight(k, l, scatters ? t->to_weights[i] : t->weights[i]);

        TRY(gram_kfac_run(g, k, (struct gram_kfac_pass){.kind = kind, .move = &move}));
        if (!l->layer.bias)
            continue;
        move = move_bias(k, l, scatters ? t->to_biases[i] : t->biases[i]);
        TRY(gram_kfac_run(g, k, (struct gram_kfac_pass){.kind = kind, .move = &move}));
    }
    return GRAM_OK;
}

/* On the CPU: names the layer whose gradient is not finite.  A device leaves the step out. */
static gram_status check_gradients(gram_context *g, const gram_kfac *k)
{
    const gram_dtype dtype = k->options.state;

    TRY(check_finite(g, k, k->gradients, k->parameters, dtype));
    if (k->owner || !k->report->bad)
        return GRAM_OK;
    k->report->bad = 0;
    for (int64_t i = 0; i < k->count; i++)
        if (!gram_kfac_finite(kfac_m_count(&k->layer[i]), k->layer[i].gradient, dtype, dtype))
            return gram_fail(g, GRAM_NUMERICAL,
                             "weights[%lld] or its bias has a gradient that is not finite",
                             (long long)i);
    return GRAM_OK;
}

/* out = op(b_inverse) m op(a_inverse).  A diagonal A has no a_inverse: its eigenvectors are those
 * of I, so that they need no product.  Otherwise work 1 is used. */
struct product {
    void *m, *out;
    bool transpose_b, transpose_a;
};

static gram_status multiply_sides(gram_context *g, const gram_kfac *k, const struct kfac_layer *l,
                                  const struct product *p)
{
    const gram_dtype dtype = k->options.state;
    void *between = l->diagonal ? p->out : k->work[1];
    gram_tensor x = on_device(k, gram_matrices(p->m, l->groups, l->rows, l->cols, dtype));
    gram_tensor y = on_device(k, gram_matrices(between, l->groups, l->rows, l->cols, dtype));
    gram_tensor z = on_device(k, gram_matrices(p->out, l->groups, l->rows, l->cols, dtype));
    gram_tensor b = on_device(k, gram_matrices(l->b_inverse, l->groups, l->rows, l->rows, dtype));
    gram_tensor a = on_device(k, gram_matrices(l->a_inverse, l->groups, l->cols, l->cols, dtype));
    gram_matmul_options from_left = GRAM_MATMUL_OPTIONS_INIT, from_right = from_left;

    from_left.transpose_a = p->transpose_b;
    from_right.transpose_b = p->transpose_a;
    TRY(gram_matmul_batched(g, &b, &x, &from_left, &y));
    if (l->diagonal)
        return GRAM_OK;
    return gram_matmul_batched(g, &y, &a, &from_right, &z);
}

/* Computes V from the layer's M, to work 2. */
static gram_status make_direction(gram_context *g, gram_kfac *k, const struct kfac_layer *l)
{
    const bool exact = k->options.damping == GRAM_KFAC_EXACT;
    const struct product first = {l->gradient, exact ? k->work[0] : k->work[2], exact, false};
    const struct product second = {k->work[0], k->work[2], false, true};

    TRY(multiply_sides(g, k, l, &first));
    if (exact || l->diagonal)
        TRY(gram_kfac_run(g, k,
                          (struct gram_kfac_pass){
                              .kind = KFAC_SCALE,
                              .to = first.out,
                              .x = l->corrected ? l->corrections : l->a_values,
                              .y = l->b_values,
                              .count = kfac_m_count(l),
                              .rows = l->rows,
                              .cols = l->cols,
                              .scale = {l->corrected ? KFAC_SCALE_VALUES
: exact      ? KFAC_SCALE_FACTORS
: KFAC_SCALE_COLUMNS,
                                        k->options.lambda}
        }));
    return exact ? multiply_sides(g, k, l, &second) : GRAM_OK;
}

/* Puts the directions of all layers in the place of the gradients, and adds up <V, M>. */
static gram_status make_directions(gram_context *g, gram_kfac *k)
{
    for (int64_t i = 0; i < k->count; i++) {
        struct kfac_layer *l = &k->layer[i];

        if (kfac_known_counts(k, l)[KFAC_READY])
            TRY(make_direction(g, k, l));
        TRY(gram_kfac_run(g, k,
                          (struct gram_kfac_pass){.kind = KFAC_TAKE_DIRECTION,
                                                  .counts = l->counts,
                                                  .to = l->gradient,
                                                  .x = k->work[2],
                                                  .count = kfac_m_count(l)}));
        TRY(gram_kfac_run(g, k,
                          (struct gram_kfac_pass){.kind = KFAC_ADD_PARTS, .count = KFAC_PARTS}));
    }
    return GRAM_OK;
}

/* NOLINTNEXTLINE(readability-function-size): gradients and directions */
gram_status gram_kfac_precondition(gram_context *g, gram_kfac *kfac, double learning_rate,
                                   const gram_tensor *const *weights,
                                   const gram_tensor *const *biases, gram_tensor *const *to_weights,
                                   gram_tensor *const *to_biases)
{
    const struct tensors t = {weights, biases, to_weights, to_biases};

    TRY(gram_begin(g, __func__));
    if (!isfinite(learning_rate))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "learning_rate is %g, expected a finite number",
                         learning_rate);
    TRY(begin_call(g, kfac));
    TRY(check_tensors(g, kfac, &t));
    TRY(move_all(g, kfac, KFAC_GATHER, &t));
    TRY(check_gradients(g, kfac));
    TRY(make_directions(g, kfac));
    TRY(gram_kfac_run(g, kfac,
                      (struct gram_kfac_pass){
                          .kind = KFAC_CLIP, .clip = {kfac->options.kl_clip, learning_rate}
    }));
    return move_all(g, kfac, KFAC_SCATTER, &t);
}
