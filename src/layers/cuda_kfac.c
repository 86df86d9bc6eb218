/*
 * cuda_kfac.c - the passes of gram_kfac over numbers on the device
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kfac.h"
#include "kfac.h"
#include "kfac_params.h"

enum {
    MOST_BLOCKS = 1 << 12 /* beyond these, blocks loop */
};

_Static_assert(sizeof(struct kfac_found) == sizeof(struct kfac_report) &&
                   KFAC_DIMS == GRAM_MAX_DIMS && KFAC_BLOCKS == (int)KFAC_PARTS,
               "kfac_params.h repeats numbers of kfac.h");
_Static_assert(KFAC_AS_THEY_ARE == (int)KFAC_STORE_SAME &&
                   KFAC_SYMMETRIC == (int)KFAC_STORE_SYMMETRIC &&
                   KFAC_NOT_BELOW_0 == (int)KFAC_STORE_VALUES &&
                   KFAC_INVERSE == (int)KFAC_STORE_INVERSE &&
                   KFAC_PRODUCTS == (int)KFAC_STORE_PRODUCTS,
               "kfac_params.h repeats numbers of kfac.h");

static const struct {
    enum cuda_variant_file kernel;
    bool alone; /* one block */
} passes[] = {
    [KFAC_CHECK_FINITE] = {     CUDA_VARIANT_KFAC_LOOK, false},
    [KFAC_MOVE_AVERAGE] = {      CUDA_VARIANT_KFAC_MIX, false},
    [KFAC_COUNT_UPDATE] = {    CUDA_VARIANT_KFAC_TAKEN,  true},
    [KFAC_SPLIT_DAMPING] = {    CUDA_VARIANT_KFAC_SHIFT,  true},
    [KFAC_ADD_DAMPING] = {     CUDA_VARIANT_KFAC_LOAD, false},
    [KFAC_STORE] = {     CUDA_VARIANT_KFAC_KEEP, false},
    [KFAC_COMMIT] = {   CUDA_VARIANT_KFAC_SETTLE,  true},
    [KFAC_GATHER] = {   CUDA_VARIANT_KFAC_GATHER, false},
    [KFAC_SCATTER] = {  CUDA_VARIANT_KFAC_SCATTER, false},
    [KFAC_SCALE] = {    CUDA_VARIANT_KFAC_SCALE, false},
    [KFAC_SQUARES] = {  CUDA_VARIANT_KFAC_SQUARES, false},
    [KFAC_TAKE_DIRECTION] = {CUDA_VARIANT_KFAC_DIRECTION, false},
    [KFAC_ADD_PARTS] = {       CUDA_VARIANT_KFAC_NU,  true},
    [KFAC_CLIP] = {       CUDA_VARIANT_KFAC_NU,  true},
};

/* The members of a pass that only some passes have, as kernels know them. */
static void put_choice(struct kfac_params *p, const struct gram_kfac_pass *pass)
{
    switch (pass->kind) {
    case KFAC_MOVE_AVERAGE:
        p->slot = pass->average.updates;
        p->mode = pass->average.updates == KFAC_CORRECTIONS;
        p->number = pass->average.decay;
        break;
    case KFAC_COUNT_UPDATE:
        p->mode = pass->moved;
        break;
    case KFAC_SPLIT_DAMPING:
        p->mode = pass->damping.diagonal;
        p->number = pass->damping.lambda;
        p->other = pass->damping.least;
        break;
    case KFAC_ADD_DAMPING:
        p->slot = pass->side;
        break;
    case KFAC_STORE:
        p->mode = pass->store;
        break;
    case KFAC_SCALE:
        p->mode = pass->scale.by;
        p->number = pass->scale.lambda;
        break;
    case KFAC_SQUARES:
        p->mode = pass->squares.adds;
        p->number = pass->squares.factor;
        break;
    case KFAC_CLIP:
        p->mode = 1;
        p->number = pass->clip.most;
        p->other = pass->clip.rate;
        break;
    default: /* has none */
        break;
    }
}

static void put_tensor(struct kfac_params *p, const struct kfac_move *m)
{
    const gram_tensor *t = m->tensor;

    p->data = t->data;
    p->is_float = t->dtype == GRAM_F32;
    p->ndim = t->ndim;
    p->count = 1;
    for (int d = 0; d < t->ndim; d++) {
        p->shape[d] = t->shape[d];
        p->stride[d] = t->stride[d];
        p->count *= t->shape[d];
    }
    p->inner = m->inner;
    p->outer_step = m->outer_step;
    p->inner_step = m->inner_step;
    p->to = m->numbers;
    p->x = m->numbers;
}

gram_status cuda_kfac_pass(gram_context *g, const struct gram_kfac_pass *pass)
{
    struct kfac_params p = {
        .found = (struct kfac_found *)(void *)pass->report,
        .counts = (long long *)pass->counts,
        .from = pass->from,
        .is_float = pass->dtype == GRAM_F32,
        .to = pass->to,
        .x = pass->x,
        .y = pass->y,
        .count = pass->count,
        .groups = pass->groups,
        .rows = pass->rows,
        .cols = pass->cols,
        .info = {pass->info[0], pass->info[1]},
    };
    int64_t blocks = 1;
    gram_status status;
    bool entered;

    put_choice(&p, pass);
    if (pass->move)
        put_tensor(&p, pass->move);
    if (!passes[pass->kind].alone)
        blocks = gram_least(gram_ceil_div(p.count, KFAC_THREADS), MOST_BLOCKS);
    if (pass->kind == KFAC_TAKE_DIRECTION)
        blocks = KFAC_PARTS;
    if (pass->kind == KFAC_SQUARES)
        blocks = gram_least(gram_ceil_div(p.count, KFAC_COLUMNS), MOST_BLOCKS);
    if (blocks == 0)
        return GRAM_OK;
    entered = gram_cuda_enter(g->device);
    status =
        gram_cuda_launch_plain(g, passes[pass->kind].kernel, pass->state, blocks, KFAC_THREADS, &p);
    gram_cuda_leave(g->device, entered);
    return status;
}
