/*
 * kfac_device.c - gram_kfac on a device, which has its numbers and decides which of them it takes
 *
 * A call queues operations of the library and passes of the backend and waits for nothing.  Only
 * the device knows whether factors are finite, whether a factorisation succeeded and how long
 * directions may be.  The host counts the updates that it has queued, in layer.counts.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac.h"
#include <math.h>

enum {
    SMALL_ORDER = 32 /* up to this order AUTO does eigenproblems in one launch */
};

gram_status gram_kfac_device_run(gram_context *g, const gram_kfac *k, struct gram_kfac_pass pass)
{
    pass.report = k->report;
    pass.state = k->options.state;
    return g->backend->kfac_pass(g, &pass);
}

static int64_t *counts_of(const gram_kfac *k, const struct kfac_layer *l)
{
    return k->layer_counts + (l - k->layer) * KFAC_COUNTS;
}

static gram_tensor there(const gram_kfac *k, gram_tensor t)
{
    t.device = k->owner->options.device;
    return t;
}

/* ---- Averages ------------------------------------------------------------------------------- */

/* Queues a check, which sets report->bad if one of count numbers is not finite. */
static gram_status look(gram_context *g, const gram_kfac *k, const void *numbers, int64_t count,
                        gram_dtype dtype)
{
    return gram_kfac_device_run(
        g, k,
        (struct gram_kfac_pass){
            .what = KFAC_LOOK, .from = numbers, .dtype = dtype, .count = count});
}

/* An update of an average `to` by the numbers `new`; slot is the layer's count of such updates. */
struct average {
    const void *new;
    gram_dtype dtype;
    void *to;
    int64_t count;
    enum kfac_count slot;
};

static gram_status mix(gram_context *g, const gram_kfac *k, const struct kfac_layer *l,
                       const struct average *a)
{
    return gram_kfac_device_run(g, k,
                                (struct gram_kfac_pass){.what = KFAC_MIX,
                                                        .counts = counts_of(k, l),
                                                        .from = a->new,
                                                        .dtype = a->dtype,
                                                        .to = a->to,
                                                        .count = a->count,
                                                        .slot = (int)a->slot,
                                                        .mode = a->slot == KFAC_CORRECTIONS,
                                                        .number = k->options.decay});
}

/* Takes new factors of a dtype (NULL: none), and with corrects corrections, into the averages: all
 * of them, or none if one is not finite. */
static gram_status take(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                        const void *const new[2], gram_dtype dtype, bool corrects)
{
    const gram_dtype state = k->options.state;
    const void *const own = corrects ? l->gradient : NULL;
    const struct average averages[3] = {
        {new[0], dtype,           l->a, kfac_a_count(l),   KFAC_A_UPDATES},
        {new[1], dtype,           l->b, kfac_b_count(l),   KFAC_B_UPDATES},
        {   own, state, l->corrections, kfac_m_count(l), KFAC_CORRECTIONS},
    };
    int mode = 0;

    for (int i = 0; i < 3; i++)
        if (averages[i].new)
            TRY(look(g, k, averages[i].new, averages[i].count, averages[i].dtype));
    for (int i = 0; i < 3; i++) {
        if (!averages[i].new)
            continue;
        TRY(mix(g, k, l, &averages[i]));
        l->counts[averages[i].slot]++;
        mode |= 1 << i;
    }
    return gram_kfac_device_run(
        g, k, (struct gram_kfac_pass){.what = KFAC_TAKEN, .counts = counts_of(k, l), .mode = mode});
}

gram_status gram_kfac_device_take(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                                  const gram_tensor *a_factor, const gram_tensor *b_factor)
{
    const gram_tensor *const given[2] = {a_factor, b_factor};
    const int64_t count[2] = {kfac_a_count(l), kfac_b_count(l)};
    const void *new[2] = {NULL, NULL};

    for (int i = 0; i < 2; i++) {
        const struct kfac_move move = {given[i], k->work[i], k->options.state, count[i], 0, 1, 1};
        if (!given[i])
            continue;
        TRY(gram_kfac_device_run(g, k,
                                 (struct gram_kfac_pass){.what = KFAC_GATHER, .move = &move}));
        new[i] = k->work[i];
    }
    return take(g, k, l, new, k->options.state, false);
}

gram_status gram_kfac_device_update(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                                    gram_dtype dtype, bool corrects)
{
    const void *const new[2] = {k->work[0], k->work[2]};

    return take(g, k, l, new, dtype, corrects);
}

/* ---- Inverses ------------------------------------------------------------------------------- */

/* Queues a pass that takes a result into the state, unless info says that it has failed. */
static gram_status keep(gram_context *g, const gram_kfac *k, const struct kfac_layer *l,
                        struct gram_kfac_pass pass)
{
    if (pass.what != KFAC_SETTLE)
        pass.what = KFAC_KEEP;
    pass.counts = counts_of(k, l);
    pass.groups = l->groups;
    pass.info[0] = l->diagonal ? NULL : k->info;
    pass.info[1] = k->info + k->most_groups;
    return gram_kfac_device_run(g, k, pass);
}

/* Inverts A + shift I (side 0) or B + shift I (side 1) to the work of this number. */
static gram_status invert(gram_context *g, gram_kfac *k, const struct kfac_layer *l, int side)
{
    const int64_t n = side == 0 ? l->cols : l->rows;
    gram_tensor a = there(k, gram_matrices(k->work[2], l->groups, n, n, k->options.state));
    gram_tensor x = there(k, gram_matrices(k->work[side], l->groups, n, n, k->options.state));
    gram_tensor info = there(k, gram_vector(k->info + side * k->most_groups, l->groups, GRAM_I32));

    TRY(gram_kfac_device_run(g, k,
                             (struct gram_kfac_pass){.what = KFAC_LOAD,
                                                     .from = k->work[side],
                                                     .to = k->work[2],
                                                     .x = side == 0 ? l->a : l->b,
                                                     .count = l->groups * n * n,
                                                     .rows = n,
                                                     .slot = side}));
    TRY(gram_solve_cholesky(g, &a, &x, NULL, &x, &info));
    return look(g, k, x.data, l->groups * n * n, k->options.state);
}

static gram_status refresh_factored(gram_context *g, gram_kfac *k, struct kfac_layer *l)
{
    TRY(gram_kfac_device_run(g, k,
                             (struct gram_kfac_pass){.what = KFAC_SHIFT,
                                                     .x = l->a,
                                                     .y = l->b,
                                                     .groups = l->groups,
                                                     .rows = l->rows,
                                                     .cols = l->cols,
                                                     .mode = l->diagonal,
                                                     .number = k->options.lambda,
                                                     .other = gram_kfac_least(k)}));
    if (!l->diagonal)
        TRY(invert(g, k, l, 0));
    TRY(invert(g, k, l, 1));
    if (l->diagonal)
        TRY(keep(g, k, l,
                 (struct gram_kfac_pass){.to = l->a_values,
                                         .x = l->a,
                                         .count = l->cols,
                                         .rows = 1,
                                         .mode = KFAC_TAKE_INVERSE}));
    else
        TRY(keep(g, k, l,
                 (struct gram_kfac_pass){.to = l->a_inverse,
                                         .x = k->work[0],
                                         .count = kfac_a_count(l),
                                         .rows = l->cols,
                                         .mode = KFAC_TAKE_SYMMETRIC}));
    return keep(g, k, l,
                (struct gram_kfac_pass){.to = l->b_inverse,
                                        .x = k->work[1],
                                        .count = kfac_b_count(l),
                                        .rows = l->rows,
                                        .mode = KFAC_TAKE_SYMMETRIC});
}

/* Eigenvectors of A (side 0) or B go to the work of this number, eigenvalues to the one two
 * behind. */
static gram_status decompose(gram_context *g, gram_kfac *k, const struct kfac_layer *l, int side)
{
    const int64_t n = side == 0 ? l->cols : l->rows;
    void *from = side == 0 ? l->a : l->b;
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    gram_tensor a = there(k, gram_matrices(from, l->groups, n, n, k->options.state));
    gram_tensor v = there(k, gram_matrices(k->work[side], l->groups, n, n, k->options.state));
    gram_tensor w = there(k, gram_matrix(k->work[side + 2], l->groups, n, k->options.state));
    gram_tensor info = there(k, gram_vector(k->info + side * k->most_groups, l->groups, GRAM_I32));

    if (n > SMALL_ORDER) /* this driver does not wait for the device */
        options.driver = GRAM_EIGH_DRIVER_BATCHED;
    return gram_eigh(g, &a, &options, &w, &v, &info);
}

static gram_status refresh_exact(gram_context *g, gram_kfac *k, struct kfac_layer *l)
{
    if (!l->diagonal)
        TRY(decompose(g, k, l, 0));
    TRY(decompose(g, k, l, 1));
    if (!l->diagonal)
        TRY(keep(
            g, k, l,
            (struct gram_kfac_pass){
                .to = l->a_inverse, .x = k->work[0], .count = kfac_a_count(l), .rows = l->cols}));
    TRY(keep(g, k, l,
             (struct gram_kfac_pass){
                 .to = l->b_inverse, .x = k->work[1], .count = kfac_b_count(l), .rows = l->rows}));
    TRY(keep(g, k, l,
             (struct gram_kfac_pass){.to = l->a_values,
                                     .x = l->diagonal ? l->a : k->work[2],
                                     .count = l->groups * l->cols,
                                     .rows = 1,
                                     .mode = KFAC_TAKE_VALUES}));
    TRY(keep(g, k, l,
             (struct gram_kfac_pass){.to = l->b_values,
                                     .x = k->work[3],
                                     .count = l->groups * l->rows,
                                     .rows = 1,
                                     .mode = KFAC_TAKE_VALUES}));
    if (!l->corrected)
        return GRAM_OK;
    return keep(g, k, l,
                (struct gram_kfac_pass){.to = l->corrections,
                                        .x = l->a_values,
                                        .y = l->b_values,
                                        .count = kfac_m_count(l),
                                        .rows = l->rows,
                                        .cols = l->cols,
                                        .mode = KFAC_TAKE_PRODUCTS});
}

gram_status gram_kfac_device_refresh(gram_context *g, gram_kfac *k)
{
    for (int64_t i = 0; i < k->count; i++) {
        struct kfac_layer *l = &k->layer[i];

        if (l->counts[KFAC_A_UPDATES] == 0 || l->counts[KFAC_B_UPDATES] == 0)
            continue;
        TRY(k->options.damping == GRAM_KFAC_EXACT ? refresh_exact(g, k, l)
                                                  : refresh_factored(g, k, l));
        TRY(keep(g, k, l, (struct gram_kfac_pass){.what = KFAC_SETTLE}));
        l->counts[KFAC_READY] = 1;
        l->counts[KFAC_CORRECTIONS] = 0;
    }
    return GRAM_OK;
}

/* ---- Directions ----------------------------------------------------------------------------- */

/* Computes V from the layer's M, to work 2. */
static gram_status direction_of(gram_context *g, gram_kfac *k, const struct kfac_layer *l)
{
    const bool exact = k->options.damping == GRAM_KFAC_EXACT;
    struct kfac_sides sides = {.m = l->gradient,
                               .spare = k->work[1],
                               .out = exact ? k->work[0] : k->work[2],
                               .transpose_b = exact};

    TRY(gram_kfac_both_sides(g, k, l, &sides));
    if (exact || l->diagonal)
        TRY(gram_kfac_device_run(
            g, k,
            (struct gram_kfac_pass){.what = KFAC_SCALE,
                                    .to = sides.out,
                                    .x = l->corrected ? l->corrections : l->a_values,
                                    .y = l->b_values,
                                    .count = kfac_m_count(l),
                                    .rows = l->rows,
                                    .cols = l->cols,
                                    .mode = l->corrected ? 2 : exact,
                                    .number = k->options.lambda}));
    if (!exact)
        return GRAM_OK;
    sides = (struct kfac_sides){
        .m = k->work[0], .spare = k->work[1], .out = k->work[2], .transpose_a = true};
    return gram_kfac_both_sides(g, k, l, &sides);
}

/* Puts the directions of all layers in the place of the gradients, and adds up <V, M>. */
static gram_status all_directions(gram_context *g, gram_kfac *k)
{
    for (int64_t i = 0; i < k->count; i++) {
        struct kfac_layer *l = &k->layer[i];

        if (l->counts[KFAC_READY])
            TRY(direction_of(g, k, l));
        TRY(gram_kfac_device_run(g, k,
                                 (struct gram_kfac_pass){.what = KFAC_DIRECTION,
                                                         .counts = counts_of(k, l),
                                                         .to = l->gradient,
                                                         .x = k->work[2],
                                                         .count = kfac_m_count(l)}));
        TRY(gram_kfac_device_run(g, k,
                                 (struct gram_kfac_pass){.what = KFAC_NU, .count = KFAC_PARTS}));
    }
    return GRAM_OK;
}

static gram_status move_all(gram_context *g, gram_kfac *k, enum kfac_pass_kind what,
                            const struct kfac_tensors *t)
{
    const bool store = what == KFAC_SCATTER;

    for (int64_t i = 0; i < k->count; i++) {
        const struct kfac_layer *l = &k->layer[i];
        struct kfac_move move = gram_kfac_weight_of(k, l, store ? t->to_weights[i] : t->weights[i]);

        TRY(gram_kfac_device_run(g, k, (struct gram_kfac_pass){.what = what, .move = &move}));
        if (!l->layer.bias)
            continue;
        move = gram_kfac_bias_of(k, l, store ? t->to_biases[i] : t->biases[i]);
        TRY(gram_kfac_device_run(g, k, (struct gram_kfac_pass){.what = what, .move = &move}));
    }
    return GRAM_OK;
}

gram_status gram_kfac_device_precondition(gram_context *g, gram_kfac *k, double learning_rate,
                                          const struct kfac_tensors *t)
{
    TRY(move_all(g, k, KFAC_GATHER, t));
    TRY(gram_kfac_device_run(g, k,
                             (struct gram_kfac_pass){.what = KFAC_LOOK,
                                                     .from = k->gradients,
                                                     .dtype = k->options.state,
                                                     .count = k->parameters}));
    TRY(all_directions(g, k));
    TRY(gram_kfac_device_run(
        g, k,
        (struct gram_kfac_pass){
            .what = KFAC_NU, .mode = 1, .number = k->options.kl_clip, .other = learning_rate}));
    return move_all(g, k, KFAC_SCATTER, t);
}

/* ---- The report ----------------------------------------------------------------------------- */

gram_status gram_kfac_device_report(gram_context *g, const gram_kfac *k, struct kfac_report *out)
{
    TRY(g->backend->memory_copy(g, out, k->report, sizeof *out));
    return g->backend->synchronize(g);
}
