/*
 * cuda_kron_matmul_vjp_group.c - the gradients of groups of small square factors: tiles of
 * kron_vjp_group.cu
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron_matmul_vjp.h"
#include <stdio.h>

enum {
    PIECE = 16,       /* bytes that one instruction copies, where elements are neighbours */
    TILE = 4096,      /* elements of one side of a tile, without the gaps between them */
    RUN = 32,         /* the most indices after the group that a tile has */
    LEAST_RUN = 8,    /* and the least */
    OF_LAST = 4096,   /* most elements of the last group, of which a tile has all */
    OF_OTHERS = 1024, /* most elements of the other groups */
    OTHERS = 2,       /* factors of these, unless that takes more groups */
    WIDE = 32,        /* two factors with this many rows take all registers of a processor */
};

static bool is_taken(const struct gram_view *f)
{
    return f->rows == f->cols && (f->rows == 8 || f->rows == 16 || f->rows == 32);
}

static int64_t stride_after(int64_t elements, bool is_double)
{
    return KRON_VJP_GROUP_STRIDE(elements, is_double);
}

static size_t shared_of(gram_dtype dtype, const struct gram_view *factor,
                        const struct cuda_kron_join *j, bool ahead)
{
    const bool is_double = dtype == GRAM_F64;
    int64_t stride = j->ta == 1 ? 1 : stride_after(j->ta, is_double), factors = 0;

    for (int i = j->count - 1; i >= 0; i--) {
        const int64_t n = factor[j->first + i].rows;
        stride = stride_after(n * stride, is_double);
        factors += n * stride_after(n, is_double);
    }
    return (size_t)((j->count + 1 + ahead) * j->tb * stride + factors) * gram_dtype_size(dtype);
}

/* Chooses two blocks on a processor where shared memory and registers suffice, and whether the next
 * tile is copied ahead. */
static bool choose_blocks(const struct cuda_device *device, const struct cuda_kron_vjp_plan *plan,
                          struct cuda_kron_join *j)
{
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    const int64_t room = cuda_kron_shared(device->arch);
    int wide = 0;

    for (int i = 0; i < j->count; i++)
        wide += op->factor[j->first + i].rows == WIDE;
    for (j->blocks = wide > 1 ? 1 : 2; j->blocks > 0; j->blocks--)
        for (int ahead = 1; ahead >= 0; ahead--) {
            const size_t bytes = shared_of(op->x.dtype, op->factor, j, ahead);
            j->ahead = ahead;
            if ((int64_t)bytes * j->blocks <= room)
                return true;
        }
    return false;
}

/* The elements of a tile.  In f64 there are half as many where the group has three factors or only
 * small ones, so that a processor has room for another block. */
static int64_t tile_of(const struct cuda_kron_vjp_plan *plan, int first, int count)
{
    int64_t largest = 0;

    for (int i = first; i < first + count; i++)
        largest = gram_most(largest, plan->op->factor[i].rows);
    return plan->op->x.dtype == GRAM_F64 && (count > 2 || largest == 8) ? TILE / 2 : TILE;
}

/* Makes a group of `count` factors from `first` on, with `after` indices behind it; false: it does
 * not fit. */
static bool make_group(const struct cuda_device *device, const struct cuda_kron_vjp_plan *plan,
                       int first, int count, int64_t after, struct cuda_kron_join *j)
{
    const int64_t tile = tile_of(plan, first, count);

    *j = (struct cuda_kron_join){
        .first = first, .count = count, .p = 1, .wanted = true, .group = true};
    for (int i = first; i < first + count; i++)
        j->p *= plan->op->factor[i].rows;
    j->q = j->p;
    if (j->p > (after == 1 ? OF_LAST : OF_OTHERS))
        return false;
    j->ta = 1;
    for (j->ta = after == 1 ? 1 : RUN; j->ta > LEAST_RUN; j->ta /= 2)
        if (after % j->ta == 0 && j->p * j->ta <= tile)
            break;
    j->tb = (int)gram_most(1, tile / (j->p * j->ta));
    return choose_blocks(device, plan, j);
}

/* Cuts the factors into groups, from the first factor on.  A group has as many factors as fit, but
 * at most `most`, and at most `others` where there is a group behind it; false: a factor does not
 * fit. */
static bool cut(const struct cuda_device *device, struct cuda_kron_vjp_plan *plan, int most,
                int others)
{
    const struct gram_kron_matmul_vjp_op *op = plan->op;

    plan->joins = 0;
    for (int first = 0; first < op->count; plan->joins++) {
        struct cuda_kron_join *j = &plan->join[plan->joins];
        int count = (int)gram_least(most, op->count - first);
        if (first + count < op->count)
            count = (int)gram_least(count, others);
        for (; count > 0; count--) {
            int64_t after = 1;
            for (int i = first + count; i < op->count; i++)
                after *= op->factor[i].rows;
            if (make_group(device, plan, first, count, after, j))
                break;
        }
        if (count == 0)
            return false;
        first += count;
    }
    return true;
}

/* Chooses the fewest groups that are possible, with even shares of the factors and the largest
 * group last. */
bool cuda_kron_vjp_choose_groups(const struct cuda_device *device, struct cuda_kron_vjp_plan *plan)
{
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    double elements = 1;
    int joins;

    if (plan->groups > 1 || !op->want_x)
        return false;
    for (int i = 0; i < op->count; i++) {
        elements *= (double)op->factor[i].rows;
        if (!op->want_factor[i] || !is_taken(&op->factor[i]) || elements > 0x1p40)
            return false;
    }
    if (!cut(device, plan, KRON_VJP_GROUP_MOST, KRON_VJP_GROUP_MOST))
        return false;
    joins = plan->joins;
    for (int most = 1; most <= KRON_VJP_GROUP_MOST; most++)
        for (int others = (int)gram_least(most, OTHERS); others <= most; others++)
            if (cut(device, plan, most, others) && plan->joins == joins)
                return true;
    return false;
}

static int64_t tiles_of(const struct cuda_kron_join *j, int64_t rows)
{
    return gram_ceil_div(rows * j->before, j->tb) * (j->after / j->ta);
}

void cuda_kron_vjp_cut_group(const struct cuda_device *device,
                             const struct cuda_kron_vjp_plan *plan, struct cuda_kron_join *j)
{
    j->slots = gram_least((int64_t)device->processors * j->blocks, tiles_of(j, plan->rows));
}

size_t cuda_kron_vjp_sums_at(const struct cuda_kron_vjp_plan *plan, const struct cuda_kron_join *j,
                             int factor)
{
    int64_t elements = 0;

    for (int i = 0; i < factor; i++)
        elements += plan->op->factor[j->first + i].rows * plan->op->factor[j->first + i].rows;
    return j->sums_at + (size_t)(elements * j->slots * cuda_kron_vjp_size(plan));
}

struct jit_request cuda_kron_vjp_group_request(gram_dtype dtype, const struct gram_view *factor,
                                               const struct cuda_kron_join *j, int load,
                                               char defines[CUDA_KRON_VJP_DEFINES])
{
    const bool is_double = dtype == GRAM_F64;
    char sizes[16] = "";
    int fields[8 + KRON_VJP_GROUP_MOST][2] = {
        {is_double,  1},
        { load > 1,  1},
        {    j->ta,  6},
        {    j->tb, 13},
        { j->ahead,  1},
        {j->blocks,  2},
        { j->count,  2}
    };

    for (int i = 0, at = 0; i < j->count; i++) {
        const int n = (int)factor[j->first + i].rows;
        at += snprintf(sizes + at, sizeof sizes - (size_t)at, i ? ",%d" : "%d", n);
        fields[7 + i][0] = n, fields[7 + i][1] = 6;
    }
    snprintf(defines, CUDA_KRON_VJP_DEFINES,
             "-DREAL=%s -DDOUBLES=%d -DN_OF=%s -DTB=%d -DTA=%d -DLOAD=%d -DAHEAD=%d -DBLOCKS=%d",
             is_double ? "double" : "float", is_double, sizes, j->tb, j->ta, load, j->ahead,
             j->blocks);
    return (struct jit_request){.file = "kron_vjp_group.cu",
                                .kernel = "kron_vjp_group",
                                .defines = defines,
                                .variant =
                                    gram_cuda_variant(CUDA_VARIANT_KRON_VJP_GROUP,
                                                      gram_cuda_pack(fields, 7 + (size_t)j->count)),
                                .shared_bytes = shared_of(dtype, factor, j, j->ahead)};
}

gram_status cuda_kron_vjp_run_group(gram_context *g, struct cuda_kron_chain *c, int i)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    const struct cuda_kron_join *j = &plan->join[i];
    const bool last = i + 1 == plan->joins;
    struct kron_vjp_group_params p = {.left = c->left[i],
                                      .right = c->right,
                                      .alpha = 1,
                                      .units = c->count * j->before,
                                      .after = j->after,
                                      .accumulate = c->first > 0};
    char defines[CUDA_KRON_VJP_DEFINES];
    struct jit_request request;
    bool aligned;

    cuda_kron_vjp_aim(c, i);
    p.out = (char *)c->next;
    if (last && plan->to_x_direct)
        p.alpha = op->alpha.value;
    for (int f = 0; f < j->count; f++) {
        p.factor[f] = cuda_kron_side(&op->factor[j->first + f]);
        p.sums[f] = c->memory + cuda_kron_vjp_sums_at(plan, j, f);
    }
    aligned = ((uintptr_t)p.left | (uintptr_t)p.right | (uintptr_t)p.out) % PIECE == 0;
    request = cuda_kron_vjp_group_request(
        op->x.dtype, op->factor, j, aligned ? (int)(PIECE / cuda_kron_vjp_size(plan)) : 1, defines);
    TRY(gram_cuda_launch(g, &request, j->slots, KRON_VJP_THREADS, &p));
    c->right = c->next, c->right_stride = c->next_stride;
    return GRAM_OK;
}
