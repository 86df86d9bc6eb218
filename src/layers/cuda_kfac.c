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
_Static_assert(KFAC_AS_THEY_ARE == (int)KFAC_TAKE && KFAC_SYMMETRIC == (int)KFAC_TAKE_SYMMETRIC &&
                   KFAC_NOT_BELOW_0 == (int)KFAC_TAKE_VALUES &&
                   KFAC_INVERSE == (int)KFAC_TAKE_INVERSE &&
                   KFAC_PRODUCTS == (int)KFAC_TAKE_PRODUCTS,
               "kfac_params.h repeats numbers of kfac.h");

static const struct {
    enum cuda_variant_file kernel;
    bool alone; /* one block */
} passes[] = {
    [KFAC_LOOK] = {     CUDA_VARIANT_KFAC_LOOK, false},
    [KFAC_MIX] = {      CUDA_VARIANT_KFAC_MIX, false},
    [KFAC_TAKEN] = {    CUDA_VARIANT_KFAC_TAKEN,  true},
    [KFAC_SHIFT] = {    CUDA_VARIANT_KFAC_SHIFT,  true},
    [KFAC_LOAD] = {     CUDA_VARIANT_KFAC_LOAD, false},
    [KFAC_KEEP] = {     CUDA_VARIANT_KFAC_KEEP, false},
    [KFAC_SETTLE] = {   CUDA_VARIANT_KFAC_SETTLE,  true},
    [KFAC_GATHER] = {   CUDA_VARIANT_KFAC_GATHER, false},
    [KFAC_SCATTER] = {  CUDA_VARIANT_KFAC_SCATTER, false},
    [KFAC_SCALE] = {    CUDA_VARIANT_KFAC_SCALE, false},
    [KFAC_SQUARES] = {  CUDA_VARIANT_KFAC_SQUARES, false},
    [KFAC_DIRECTION] = {CUDA_VARIANT_KFAC_DIRECTION, false},
    [KFAC_NU] = {       CUDA_VARIANT_KFAC_NU,  true},
};

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
        .found = pass->report,
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
        .slot = pass->slot,
        .mode = pass->mode,
        .number = pass->number,
        .other = pass->other,
        .info = {pass->info[0], pass->info[1]},
    };
    int64_t blocks = 1;
    gram_status status;
    bool entered;

    if (pass->move)
        put_tensor(&p, pass->move);
    if (!passes[pass->what].alone)
        blocks = gram_least(gram_ceil_div(p.count, KFAC_THREADS), MOST_BLOCKS);
    if (pass->what == KFAC_DIRECTION)
        blocks = KFAC_PARTS;
    if (pass->what == KFAC_SQUARES)
        blocks = gram_least(gram_ceil_div(p.count, KFAC_COLUMNS), MOST_BLOCKS);
    if (blocks == 0)
        return GRAM_OK;
    entered = gram_cuda_enter(g->device);
    status =
        gram_cuda_launch_plain(g, passes[pass->what].kernel, pass->state, blocks, KFAC_THREADS, &p);
    gram_cuda_leave(g->device, entered);
    return status;
}
