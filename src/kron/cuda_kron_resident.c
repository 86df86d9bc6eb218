/*
 * cuda_kron_resident.c - passes of kron_matmul_resident.cu, whose factors stay in shared memory
 *
 * A block loads a factor once and goes from tile to tile with it.  The pass has one large factor,
 * or the last two factors of the product, whose result between the two then never leaves the block.
 * The kernel is for sm_90 alone.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"

enum {
    MOST_DEPTH = 128,            /* most rows of a factor */
    OWN = 16,                    /* columns that a warp has, as in kron_matmul_resident.cu */
    PIECE_BYTES = 16,            /* of x and y that one instruction moves */
    CHUNK_BYTES = 128,           /* of a column that are multiplied together */
    SLOT_BYTES = 2048,           /* a chunk of a warp's columns */
    LEAST_STAGES = 3,            /* least chunks that a warp has room for */
    MOST_STAGES = 8,             /* and most */
    LEAST_COLUMNS = 32,          /* least columns of a factor that are resident */
    WIDE = 128,                  /* and most */
    MOST_STEP = INT32_MAX / OWN, /* from row to row, where a warp adds up steps in 32 bits */
    GROUP = 4 * OWN,             /* columns of four warps that multiply together */
    SHARED = 227 * 1024,         /* bytes of a block on sm_90 */
};

/* True if all units of a side are one stride apart. */
static bool is_even(const struct cuda_kron_plan *plan, const struct gram_kron_span *span,
                    const struct device_view *side, int64_t group)
{
    return span->before == 1 || plan->rows == 1 ||
           side->row_stride == span->before * group * span->after;
}

/* True if a side can be moved in pieces of PIECE_BYTES. */
static bool is_aligned(const struct cuda_kron_plan *plan, const struct gram_kron_span *span,
                       const struct gram_view *v, int64_t group)
{
    const struct device_view side = cuda_device_view(v);
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

/* True if n is from least to most. */
static bool is_between(int64_t n, int64_t least, int64_t most)
{
    return n >= least && n <= most;
}

/* The kernel wants 64 rows of the first factor, a whole number of warps' columns between the
 * two, and rows of x and y without gaps. */
bool cuda_kron_resident_pairs(const struct cuda_device *device, const struct cuda_kron_plan *plan)
{
    const struct gram_kron_matmul_op *op = plan->op;
    const struct gram_view *f = &op->factor[op->count - 1];
    struct gram_kron_span x, y;

    if (op->count < 2 || plan->inside != 1 || f[-1].rows != GROUP ||
        !is_between(f[-1].cols, 2, GROUP) || !is_between(f->rows, 1, GROUP) ||
        !is_between(f->cols, OWN, f[-1].rows) || f->cols % OWN)
        return false;
    x = y = (struct gram_kron_span){.count = 1, .in = f->rows, .out = f->cols, .after = 1};
    x.before = op->x.cols / f->rows;
    y.before = op->y.cols / f->cols;
    return is_sized(device, plan, &x) && is_sized(device, plan, &y) &&
           is_aligned(plan, &x, &plan->x, f->rows) && is_aligned(plan, &y, &plan->y, f->cols);
}

/* How many chunks the rows of a factor are. */
static int64_t count_chunks(const struct cuda_kron_plan *plan, int64_t rows)
{
    return gram_ceil_div(rows, CHUNK_BYTES / (int64_t)plan->element);
}

/* The shared memory of that many columns of a factor: in f32 a number is two of TF32. */
static int64_t resident_bytes(const struct cuda_kron_plan *plan, int64_t rows, int64_t cols)
{
    return count_chunks(plan, rows) * (CHUNK_BYTES / (int64_t)plan->element) * cols * 8;
}

/* How many columns of a factor are resident. */
static int64_t resident_columns(int64_t cols)
{
    return cols <= LEAST_COLUMNS ? LEAST_COLUMNS : cols <= 64 ? 64 : WIDE;
}

/* Gives each block less where columns are so few that processors would be idle. */
static void share_out(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                      int64_t columns, int64_t chunks, struct cuda_kron_pass *pass)
{
    const int64_t items = plan->op->batch.count;
    int64_t tiles;

    while (pass->resident.warpgroups > 1 &&
           gram_ceil_div(columns, GROUP * pass->resident.warpgroups) * items *
                   gram_ceil_div(pass->span.out, pass->units) <
               device->processors)
        pass->resident.warpgroups--;
    pass->columns = GROUP * pass->resident.warpgroups;
    tiles = gram_ceil_div(columns, pass->columns) * items;
    while (!pass->resident.paired && pass->resident.warpgroups == 1 &&
           pass->resident.columns > LEAST_COLUMNS &&
           tiles * gram_ceil_div(pass->span.out, pass->resident.columns) < device->processors)
        pass->resident.columns /= 2;
    pass->units = pass->resident.paired ? pass->span.out : pass->resident.columns;
    pass->resident.stages = MOST_STAGES;
    if (tiles * gram_ceil_div(pass->span.out, pass->units) <= device->processors) /* one tile */
        pass->resident.stages = (int)gram_least(MOST_STAGES, gram_most(LEAST_STAGES, chunks + 1));
}

/* A pair has been checked by cuda_kron_resident_pairs; a single factor is checked here. */
static bool plan_pass(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                      int number, struct cuda_kron_pass *pass)
{
    const struct gram_kron_span *span = &pass->span;
    const struct gram_view *f = &plan->op->factor[span->first + span->count - 1];
    const bool paired = span->count == 2;
    struct cuda_kron_resident_pass *r = &pass->resident;
    int64_t columns = plan->rows * span->before * span->after, bytes, slots;

    if (!paired && !(is_sized(device, plan, span) &&
                     (number > 0 || is_aligned(plan, span, &plan->x, span->in)) &&
                     (number + 1 < plan->passes || is_aligned(plan, span, &plan->y, span->out))))
        return false;
    *r = (struct cuda_kron_resident_pass){.paired = paired, .columns = resident_columns(f->cols)};
    pass->units = paired ? span->out : r->columns;
    columns *= paired ? f[-1].rows : 1;
    r->warpgroups = plan->element == 4 && !paired && r->columns < WIDE ? 3 : 2;
    share_out(device, plan, columns, count_chunks(plan, f->rows), pass);
    pass->threads = 128 * r->warpgroups;
    bytes = resident_bytes(plan, f->rows, r->columns);
    if (paired) {
        int64_t between = f[-1].rows * pass->columns * (int64_t)plan->element;
        bytes += resident_bytes(plan, f[-1].rows, resident_columns(f[-1].cols)) + between;
    }
    slots = SLOT_BYTES * 4 * r->warpgroups;
    r->stages = (int)gram_least(r->stages, (SHARED - bytes) / slots);
    pass->shared_bytes = (size_t)(bytes + r->stages * slots);
    return true;
}

/* ---- The launch ----------------------------------------------------------------------------- */

static void add_options(const struct cuda_kron_plan *plan, int number,
                        const struct kron_params *params, struct cuda_variant *v)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];
    const struct cuda_kron_resident_pass *r = &pass->resident;
    const struct gram_view *f = &plan->op->factor[pass->span.first + pass->span.count - 1];
    const int64_t e_rows = r->paired ? f[-1].rows : 0, e_cols = r->paired ? f[-1].cols : 0;
    int load = cuda_kron_moved(&params->factor[r->paired], plan->element, 1, 1, f->cols);

    if (r->paired)
        load =
            (int)gram_least(load, cuda_kron_moved(&params->factor[0], plan->element, 1, 1, e_cols));
    cuda_option(v, "DOUBLES", plan->element == 8);
    cuda_option(v, "P", f->rows);
    cuda_option(v, "Q", f->cols);
    cuda_option(v, "BQ", r->columns);
    cuda_option(v, "ALONG", pass->span.after == 1);
    cuda_option(v, "E_P", e_rows);
    cuda_option(v, "E_Q", e_cols);
    cuda_option(v, "E_BQ", r->paired ? resident_columns(e_cols) : 0);
    cuda_option(v, "WGS", r->warpgroups);
    cuda_option(v, "STAGES", r->stages);
    cuda_option(v, "F_LOAD", load);
    v->chip_alone = plan->element == 4; /* wgmma */
}

/* Each processor has one block. */
static int64_t count_blocks(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                            const struct cuda_kron_pass *pass, struct kron_params *params)
{
    int64_t units = plan->rows * pass->span.before;

    units *= pass->resident.paired ? plan->op->factor[pass->span.first].rows : 1;
    params->unit_tiles = gram_ceil_div(units * pass->span.after, pass->columns);
    params->col_tiles = gram_ceil_div(pass->span.out, pass->units);
    return cuda_kron_count_tiles(params, device->processors);
}

const struct cuda_kron_solver cuda_kron_resident = {
    .kernel = {"kron_matmul_resident.cu", "kron_matmul_resident"},
    .early = true,
    .plan = plan_pass,
    .add_options = add_options,
    .count_blocks = count_blocks,
};
