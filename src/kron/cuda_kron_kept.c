/*
 * cuda_kron_kept.c - the factors that kron_matmul_kept.cu multiplies by, and its tiles
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"
#include <stdio.h>

enum {
    MOST_DEPTH = 128,            /* most rows of a factor */
    OWN = 16,                    /* columns that a warp has, as in kron_matmul_kept.cu */
    PIECE_BYTES = 16,            /* of x and y that one instruction moves */
    CHUNK_BYTES = 128,           /* of a column that are multiplied together */
    SLOT_BYTES = 2048,           /* a chunk of a warp's columns */
    LEAST_STAGES = 3,            /* least chunks that a warp has room for */
    MOST_STAGES = 8,             /* and most */
    LEAST_KEPT = 32,             /* least columns of a factor that a block keeps */
    WIDE = 128,                  /* and most */
    MOST_STEP = INT32_MAX / OWN, /* from row to row, where a warp adds up steps in 32 bits */
    GROUP = 4 * OWN,             /* columns of four warps that multiply together */
    SHARED = 227 * 1024,         /* bytes of a block on sm_90 */
};

/* True if all units of a side are one stride apart. */
static bool is_even(const struct cuda_kron_plan *plan, const struct gram_kron_span *span,
                    const struct kron_side *side, int64_t group)
{
    return span->before == 1 || plan->rows == 1 ||
           side->row_stride == span->before * group * span->after;
}

/* True if a side can be moved in pieces of PIECE_BYTES. */
static bool is_aligned(const struct cuda_kron_plan *plan, const struct gram_kron_span *span,
                       const struct gram_view *v, int64_t group)
{
    const struct kron_side side = cuda_kron_side(v);
    int64_t piece = PIECE_BYTES / (int64_t)plan->element;

    if (span->before * span->after == 1 &&
        (side.row_stride < -MOST_STEP || side.row_stride > MOST_STEP))
        return false;
    return is_even(plan, span, &side, group) &&
           cuda_kron_moved(&side, plan->element, span->after, OWN, group) == piece;
}

/* True if the sizes of one factor, and those around it, are ones that this kernel takes. */
static bool is_sized(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                     const struct gram_kron_span *span)
{
    const gram_dtype dtype = plan->op->x.dtype;
    int64_t piece = PIECE_BYTES / (int64_t)plan->element;
    double columns = (double)plan->rows * (double)span->before * (double)span->after *
                     (double)plan->op->batch.count * (double)gram_ceil_div(span->out, 32);

    if (device->arch != 90 || (dtype != GRAM_F32 && dtype != GRAM_F64) || span->count != 1 ||
        span->in > MOST_DEPTH || columns > INT32_MAX / 2 ||
        gram_most(span->in, span->out) > INT32_MAX / span->after)
        return false;
    return span->after == 1 ? span->in % piece == 0 && span->out % piece == 0
                            : span->after % OWN == 0;
}

static bool is_between(int64_t n, int64_t least, int64_t most)
{
    return n >= least && n <= most;
}

/* The kernel wants 64 rows of the first factor, a whole number of warps' columns between the
 * two, and rows of x and y without gaps. */
bool cuda_kron_pairs(const struct cuda_device *device, const struct cuda_kron_plan *plan)
{
    const struct gram_kron_matmul_op *op = plan->op;
    const struct gram_view *f = &op->factor[op->count - 1];
    struct gram_kron_span x, y;

    if (op->count < 2 || plan->extra != 1 || f[-1].rows != GROUP ||
        !is_between(f[-1].cols, 2, GROUP) || !is_between(f->rows, 1, GROUP) ||
        !is_between(f->cols, OWN, f[-1].rows) || f->cols % OWN)
        return false;
    x = y = (struct gram_kron_span){.count = 1, .in = f->rows, .out = f->cols, .after = 1};
    x.before = op->x.cols / f->rows;
    y.before = op->y.cols / f->cols;
    return is_sized(device, plan, &x) && is_sized(device, plan, &y) &&
           is_aligned(plan, &x, &plan->x, f->rows) && is_aligned(plan, &y, &plan->y, f->cols);
}

static int64_t chunks_of(const struct cuda_kron_plan *plan, int64_t rows)
{
    return gram_ceil_div(rows, CHUNK_BYTES / (int64_t)plan->element);
}

static int64_t kept_bytes(const struct cuda_kron_plan *plan, int64_t rows, int64_t cols)
{
    return chunks_of(plan, rows) * (CHUNK_BYTES / (int64_t)plan->element) * cols * 8;
}

/* How many columns of a factor a block keeps. */
static int64_t kept_columns(int64_t cols)
{
    return cols <= LEAST_KEPT ? LEAST_KEPT : cols <= 64 ? 64 : WIDE;
}

/* Gives each block less where columns are so few that processors would be idle. */
static void share_out(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                      int64_t columns, int64_t chunks, struct cuda_kron_pass *pass)
{
    const int64_t items = plan->op->batch.count;
    int64_t tiles;

    while (pass->warpgroups > 1 && gram_ceil_div(columns, GROUP * pass->warpgroups) * items *
                                           gram_ceil_div(pass->span.out, pass->units) <
                                       device->processors)
        pass->warpgroups--;
    pass->columns = GROUP * pass->warpgroups;
    tiles = gram_ceil_div(columns, pass->columns) * items;
    while (!pass->paired && pass->warpgroups == 1 && pass->kept > LEAST_KEPT &&
           tiles * gram_ceil_div(pass->span.out, pass->kept) < device->processors)
        pass->kept /= 2;
    pass->units = pass->paired ? pass->span.out : pass->kept;
    pass->stages = MOST_STAGES;
    if (tiles * gram_ceil_div(pass->span.out, pass->units) <= device->processors) /* one tile */
        pass->stages = (int)gram_least(MOST_STAGES, gram_most(LEAST_STAGES, chunks + 1));
}

bool cuda_kron_keep(const struct cuda_device *device, const struct cuda_kron_plan *plan, int number,
                    struct cuda_kron_pass *pass)
{
    const struct gram_kron_span *span = &pass->span;
    const struct gram_view *f = &plan->op->factor[span->first + span->count - 1];
    int64_t columns = plan->rows * span->before * span->after, kept, slots;

    if (span->count == 1 &&
        !(is_sized(device, plan, span) &&
          (number > 0 || is_aligned(plan, span, &plan->x, span->in)) &&
          (number + 1 < plan->passes || is_aligned(plan, span, &plan->y, span->out))))
        return false;
    pass->kernel = CUDA_KRON_KEPT;
    pass->paired = span->count == 2;
    pass->kept = kept_columns(f->cols);
    pass->units = pass->paired ? span->out : pass->kept;
    columns *= pass->paired ? f[-1].rows : 1;
    pass->warpgroups = plan->element == 4 && !pass->paired && pass->kept < WIDE ? 3 : 2;
    share_out(device, plan, columns, chunks_of(plan, f->rows), pass);
    pass->threads = 128 * pass->warpgroups;
    kept = kept_bytes(plan, f->rows, pass->kept);
    if (pass->paired) {
        int64_t between = f[-1].rows * pass->columns * (int64_t)plan->element;
        kept += kept_bytes(plan, f[-1].rows, kept_columns(f[-1].cols)) + between;
    }
    slots = SLOT_BYTES * 4 * pass->warpgroups;
    pass->stages = (int)gram_least(pass->stages, (SHARED - kept) / slots);
    pass->shared_bytes = (size_t)(kept + pass->stages * slots);
    return true;
}

void cuda_kron_kept_defines(const struct cuda_kron_plan *plan, int number,
                            const struct kron_params *params, char *to, size_t room)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];
    const struct gram_view *f = &plan->op->factor[pass->span.first + pass->span.count - 1];
    int64_t e_rows = pass->paired ? f[-1].rows : 0, e_cols = pass->paired ? f[-1].cols : 0;
    int load = cuda_kron_moved(&params->factor[pass->paired], plan->element, 1, 1, f->cols);

    if (pass->paired)
        load =
            (int)gram_least(load, cuda_kron_moved(&params->factor[0], plan->element, 1, 1, e_cols));
    snprintf(to, room,
             " -DDOUBLES=%d -DP=%lld -DQ=%lld -DBQ=%lld -DALONG=%d -DE_P=%lld -DE_Q=%lld"
             " -DE_BQ=%lld -DWGS=%d -DSTAGES=%d -DF_LOAD=%d",
             plan->element == 8, (long long)f->rows, (long long)f->cols, (long long)pass->kept,
             pass->span.after == 1, (long long)e_rows, (long long)e_cols,
             (long long)(pass->paired ? kept_columns(e_cols) : 0), pass->warpgroups, pass->stages,
             load);
}
