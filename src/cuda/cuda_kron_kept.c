/*
 * cuda_kron_kept.c - which factors kron_matmul_kept.cu multiplies by, and with what tiles
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"

enum {
    MOST_DEPTH = 128,  /* rows of a factor */
    OWN = 16,          /* columns of a warp, as in kron_matmul_kept.cu */
    PIECE_BYTES = 16,  /* of x and y that are moved at once */
    CHUNK_BYTES = 128, /* of a column */
    SLOT_BYTES = 2048, /* a chunk of a warp's columns */
    MOST_STAGES = 8,   /* chunks that a warp has room for */
    WIDE = 128,        /* columns of the factor from which on two groups of warps have registers */
    SHARED = 227 * 1024, /* bytes of a block on sm_90 */
};

/* Units follow each other by one stride. */
static bool is_even(const struct cuda_kron_plan *plan, const struct gram_kron_span *span,
                    const struct kron_side *side, int64_t group)
{
    return span->before == 1 || plan->rows == 1 ||
           side->row_stride == span->before * group * span->after;
}

/* Pieces of a side can be moved: y across the factor's index, two neighbours. */
static bool is_aligned(const struct cuda_kron_plan *plan, const struct gram_kron_span *span,
                       const struct gram_view *v, int64_t group)
{
    const struct kron_side side = cuda_kron_side(v);
    int64_t piece = PIECE_BYTES / (int64_t)plan->element;

    return is_even(plan, span, &side, group) &&
           cuda_kron_moved(&side, plan->element, span->after, OWN, group) == piece;
}

/* Whether a pass, whose span is set, is for this kernel. */
static bool is_for_kept(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                        int number, const struct gram_kron_span *span)
{
    const gram_dtype dtype = plan->op->x.dtype;
    int64_t piece = PIECE_BYTES / (int64_t)plan->element;
    double columns = (double)plan->rows * (double)span->before * (double)span->after *
                     (double)plan->op->batch.count * (double)gram_ceil_div(span->out, 32);

    if (device->arch != 90 || (dtype != GRAM_F32 && dtype != GRAM_F64) || span->count != 1 ||
        span->in > MOST_DEPTH || columns > INT32_MAX / 2)
        return false;
    if (span->after == 1 ? span->in % piece || span->out % piece : span->after % OWN)
        return false;
    return (number > 0 || is_aligned(plan, span, &plan->x, span->in)) &&
           (number + 1 < plan->passes || is_aligned(plan, span, &plan->y, span->out));
}

bool cuda_kron_keep(const struct cuda_device *device, const struct cuda_kron_plan *plan, int number,
                    struct cuda_kron_pass *pass)
{
    const struct gram_kron_span *span = &pass->span;
    int64_t columns = plan->rows * span->before * span->after, kept, slots;

    if (!is_for_kept(device, plan, number, span))
        return false;
    pass->kernel = CUDA_KRON_KEPT;
    pass->units = span->out <= 32 ? 32 : span->out <= 64 ? 64 : WIDE;
    pass->warpgroups = plan->element == 4 || pass->units == WIDE ? 2 : 3;
    while (pass->warpgroups > 1 && gram_ceil_div(columns, 4 * OWN * pass->warpgroups) *
                                           plan->op->batch.count *
                                           gram_ceil_div(span->out, pass->units) <
                                       device->processors)
        pass->warpgroups--;
    pass->columns = 4 * OWN * pass->warpgroups;
    pass->threads = 128 * pass->warpgroups;
    kept = gram_round_up(span->in, CHUNK_BYTES / (int64_t)plan->element) * pass->units * 8;
    slots = SLOT_BYTES * 4 * pass->warpgroups;
    pass->stages = (int)gram_least(MOST_STAGES, (SHARED - kept) / slots);
    pass->shared_bytes = (size_t)(kept + pass->stages * slots);
    return true;
}
