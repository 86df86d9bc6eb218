/*
 * cuda_kfac.c - the passes of gram_kfac over numbers on the device: see enum kfac_pass_kind
 *
 * Each pass is one launch of kfac.cu.  Nothing waits, so that a step can be captured in a graph.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/cuda_ops.h"
#include "kfac.h"
#include "kfac_params.h"

static const struct cuda_kernel kfac_check_finite = {"kfac.cu", "kfac_check_finite"};
static const struct cuda_kernel kfac_move_average = {"kfac.cu", "kfac_move_average"};
static const struct cuda_kernel kfac_count_update = {"kfac.cu", "kfac_count_update"};
static const struct cuda_kernel kfac_split_damping = {"kfac.cu", "kfac_split_damping"};
static const struct cuda_kernel kfac_add_damping = {"kfac.cu", "kfac_add_damping"};
static const struct cuda_kernel kfac_store = {"kfac.cu", "kfac_store"};
static const struct cuda_kernel kfac_commit = {"kfac.cu", "kfac_commit"};
static const struct cuda_kernel kfac_gather = {"kfac.cu", "kfac_gather"};
static const struct cuda_kernel kfac_scatter = {"kfac.cu", "kfac_scatter"};
static const struct cuda_kernel kfac_scale = {"kfac.cu", "kfac_scale"};
static const struct cuda_kernel kfac_squares = {"kfac.cu", "kfac_squares"};
static const struct cuda_kernel kfac_take_direction = {"kfac.cu", "kfac_take_direction"};
static const struct cuda_kernel kfac_clip = {"kfac.cu", "kfac_clip"};

enum {
    MOST_BLOCKS = 1 << 12 /* beyond these, blocks loop */
};

_Static_assert(sizeof(struct kfac_found) == sizeof(struct kfac_report) &&
                   DEVICE_DIMS == GRAM_MAX_DIMS && KFAC_BLOCKS == (int)KFAC_PARTS,
               "kfac_params.h repeats numbers of kfac.h");
_Static_assert(KFAC_COLUMNS_TIMES == (int)KFAC_SCALE_COLUMNS &&
                   KFAC_FACTORS == (int)KFAC_SCALE_FACTORS && KFAC_VALUES == (int)KFAC_SCALE_VALUES,
               "kfac_params.h repeats numbers of kfac.h");
_Static_assert(KFAC_SAME == (int)KFAC_STORE_SAME && KFAC_SYMMETRIC == (int)KFAC_STORE_SYMMETRIC &&
                   KFAC_NOT_BELOW_0 == (int)KFAC_STORE_VALUES &&
                   KFAC_INVERSE == (int)KFAC_STORE_INVERSE &&
                   KFAC_PRODUCTS == (int)KFAC_STORE_PRODUCTS,
               "kfac_params.h repeats numbers of kfac.h");

static const struct {
    const struct cuda_kernel *kernel;
    bool alone; /* one block does it */
} passes[] = {
    [KFAC_CHECK_FINITE] = {  &kfac_check_finite, false},
    [KFAC_MOVE_AVERAGE] = {  &kfac_move_average, false},
    [KFAC_COUNT_UPDATE] = {  &kfac_count_update,  true},
    [KFAC_SPLIT_DAMPING] = { &kfac_split_damping,  true},
    [KFAC_ADD_DAMPING] = {   &kfac_add_damping, false},
    [KFAC_STORE] = {         &kfac_store, false},
    [KFAC_COMMIT] = {        &kfac_commit,  true},
    [KFAC_GATHER] = {        &kfac_gather, false},
    [KFAC_SCATTER] = {       &kfac_scatter, false},
    [KFAC_SCALE] = {         &kfac_scale, false},
    [KFAC_SQUARES] = {       &kfac_squares, false},
    [KFAC_TAKE_DIRECTION] = {&kfac_take_direction, false},
    [KFAC_ADD_PARTS] = {          &kfac_clip,  true},
    [KFAC_CLIP] = {          &kfac_clip,  true},
};

/* The members of a pass that only some passes have, as kernels know them. */
static void put_choice(struct kfac_params *p, const struct gram_kfac_pass *pass)
{
    switch (pass->kind) {
    case KFAC_MOVE_AVERAGE:
        p->updates = pass->average.updates;
        p->only_ready = pass->average.updates == KFAC_CORRECTIONS;
        p->decay = pass->average.decay;
        break;
    case KFAC_COUNT_UPDATE:
        p->moved = pass->moved;
        break;
    case KFAC_SPLIT_DAMPING:
        p->diagonal = pass->damping.diagonal;
        p->lambda = pass->damping.lambda;
        p->least = pass->damping.least;
        break;
    case KFAC_ADD_DAMPING:
        p->side = pass->side;
        break;
    case KFAC_STORE:
        p->store = pass->store;
        break;
    case KFAC_SCALE:
        p->scale = pass->scale.by;
        p->lambda = pass->scale.lambda;
        break;
    case KFAC_SQUARES:
        p->adds = pass->squares.adds;
        p->factor = pass->squares.factor;
        break;
    case KFAC_CLIP:
        p->clips = 1;
        p->most = pass->clip.most;
        p->rate = pass->clip.rate;
        break;
    default: /* has none */
        break;
    }
}

/* A copy between a tensor and numbers: one thread an element of the tensor. */
static void put_tensor(struct kfac_params *p, const struct kfac_move *m)
{
    const gram_tensor *t = m->tensor;

    p->data = t->data;
    p->dtype = t->dtype;
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
        .dtype = pass->dtype,
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
    if (!passes[pass->kind].alone) /* one thread a number */
        blocks = gram_least(gram_ceil_div(p.count, KFAC_THREADS), MOST_BLOCKS);
    if (pass->kind == KFAC_TAKE_DIRECTION) /* each block writes a part of <V, M> */
        blocks = KFAC_PARTS;
    if (pass->kind == KFAC_SQUARES) /* a block has fewer numbers than threads */
        blocks = gram_least(gram_ceil_div(p.count, KFAC_COLUMNS), MOST_BLOCKS);
    if (blocks == 0)
        return GRAM_OK;
    entered = gram_cuda_enter(g->device);
    status = cuda_launch_plain(g, passes[pass->kind].kernel, pass->state, blocks, KFAC_THREADS, &p);
    gram_cuda_leave(g->device, entered);
    return status;
}
