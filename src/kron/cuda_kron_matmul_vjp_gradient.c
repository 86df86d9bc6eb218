/*
 * cuda_kron_matmul_vjp_gradient.c - the gradients of joined factors: by tiles of
 * kron_vjp_gradient.cu, each join by itself, or of groups of small square factors by those of
 * kron_vjp_group.cu
 *
 * The gradient of a join is a product of two long matrices, which is cut along their length into
 * pieces; each block adds up the pieces of its slot.  A group takes several factors at once: one
 * launch reads left and right, and gives the gradients of all its factors and the next right.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron_matmul_vjp.h"

static const struct cuda_kernel gradient = {"kron_vjp_gradient.cu", "kron_vjp_gradient"},
                                group = {"kron_vjp_group.cu", "kron_vjp_group"};

enum {
    PIECE = 16,       /* bytes that one instruction copies, where elements are neighbours */
    CHUNKS = 4,       /* the least chunks of a slice */
    RESIDENT = 2,     /* blocks on a processor; there are more where tiles are small */
    SMALL = 32,       /* the most rows and columns of such a small tile */
    WIDEST = 128,     /* the most rows and columns of a tile */
    NARROWER = 64,    /* the most columns of the widest tiles in f64 */
    TILE = 4096,      /* elements of one side of a tile, without the gaps between them */
    RUN = 32,         /* the most indices after the group that a tile has */
    LEAST_RUN = 8,    /* and the least */
    OF_LAST = 4096,   /* most elements of the last group, of which a tile has all */
    OF_OTHERS = 1024, /* most elements of the other groups */
    OTHERS = 2,       /* factors of these, unless that takes more groups */
    WIDE = 32,        /* two factors with this many rows take all registers of a processor */
};

/* ---- One join by itself --------------------------------------------------------------------- */

/* A side of 16, 32, 64 or 128: the one that leaves the fewest elements unused. */
static int extent_of(int64_t n)
{
    int extent = WIDEST;

    while (extent > 16 && gram_round_up(n, extent / 2) < gram_round_up(n, extent))
        extent /= 2;
    return n <= 16 ? 16 : extent;
}

/* True if `load` elements of a side can be copied at once. */
static bool is_aligned(const char *data, int64_t stride, int64_t load, int64_t size)
{
    return (uintptr_t)data % (size_t)(load * size) == 0 && stride % load == 0;
}

void cuda_kron_vjp_choose_tile(gram_dtype dtype, struct cuda_kron_join *j)
{
    int bp = extent_of(j->p), bq = extent_of(j->q);
    bool widest = bp == WIDEST && bq == WIDEST;

    if (widest && dtype == GRAM_F64)
        bq = NARROWER;
    j->mt = (int)gram_least(widest && dtype == GRAM_F32 ? 4 : 2, bp / 16);
    j->nt = (int)gram_least(4, bq / 8);
    j->wp = bp / (16 * j->mt), j->wq = bq / (8 * j->nt);
}

/* The rows of the gradient that a tile has; tile_cols are its columns. */
static int64_t tile_rows(const struct cuda_kron_join *j)
{
    return 16 * (int64_t)j->mt * j->wp;
}

static int64_t tile_cols(const struct cuda_kron_join *j)
{
    return 8 * (int64_t)j->nt * j->wq;
}

/* The columns of left and right that a tile multiplies at a time. */
static int64_t chunk_of(gram_dtype dtype, const struct cuda_kron_join *j)
{
    return KRON_VJP_CHUNK(tile_rows(j) + tile_cols(j), dtype == GRAM_F64);
}

/* The shared memory of a block: chunks of left and right for each stage, padded where
 * neighbours in memory are so along the factor's index. */
static size_t shared_of_tile(gram_dtype dtype, const struct cuda_kron_join *j)
{
    bool is_double = dtype == GRAM_F64;
    int64_t rows = tile_rows(j), cols = tile_cols(j), width = rows + cols;

    if (j->after == 1)
        width += KRON_VJP_PAD(rows, is_double) + KRON_VJP_PAD(cols, is_double);
    return (size_t)(width * chunk_of(dtype, j) * KRON_VJP_STAGES) * gram_dtype_size(dtype);
}

void cuda_kron_vjp_cut_gradient(const struct cuda_device *device,
                                const struct cuda_kron_vjp_plan *plan, struct cuda_kron_join *j)
{
    int64_t columns = plan->rows * j->per_row, chunk, blocks, slices, tiles;

    cuda_kron_vjp_choose_tile(plan->op->x.dtype, j);
    chunk = chunk_of(plan->op->x.dtype, j);
    tiles = gram_ceil_div(j->p, tile_rows(j)) * gram_ceil_div(j->q, tile_cols(j));
    blocks = (int64_t)device->processors * RESIDENT;
    if (gram_most(tile_rows(j), tile_cols(j)) <= SMALL)
        blocks *= 2;
    slices = gram_least(blocks / (tiles * plan->groups), columns / (chunk * CHUNKS));
    j->slice = gram_round_up(gram_ceil_div(columns, gram_most(1, slices)), chunk);
    j->slots = gram_ceil_div(columns, j->slice);
}

void cuda_kron_vjp_gradient_variant(gram_dtype dtype, const struct cuda_kron_join *j, int load,
                                    struct cuda_variant *v)
{
    cuda_variant(v, &gradient,
                 CUDA_OPTIONS({"REAL", cuda_type(dtype)}, {"DOUBLES", dtype == GRAM_F64},
                              {"MT", j->mt}, {"NT", j->nt}, {"WP", j->wp}, {"WQ", j->wq},
                              {"ALONG", j->after == 1}, {"LOAD", load}));
}

gram_status cuda_kron_vjp_add_gradient(gram_context *g, const struct cuda_kron_chain *c, int i)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct cuda_kron_join *j = &plan->join[i];
    const int64_t size = cuda_kron_vjp_size(plan), run = j->after;
    struct kron_vjp_gradient_params p = {.left = c->left[i],
                                         .right = c->right,
                                         .out = c->memory + j->sums_at,
                                         .left_stride = c->left_stride[i],
                                         .right_stride = c->right_stride,
                                         .groups = plan->groups,
                                         .columns = c->count * j->per_row,
                                         .after = j->after,
                                         .p = j->p,
                                         .q = j->q,
                                         .slice = j->slice,
                                         .slots = j->slots,
                                         .accumulate = c->first > 0};
    int64_t tiles = gram_ceil_div(j->p, tile_rows(j)) * gram_ceil_div(j->q, tile_cols(j));
    int load = (int)(PIECE / size);
    const struct cuda_grid grid = {.blocks = tiles * p.slots * p.groups,
                                   .threads = KRON_VJP_THREADS,
                                   .shared = shared_of_tile(plan->op->x.dtype, j)};
    struct cuda_variant v;

    if (!is_aligned(p.left, p.left_stride, load, size) ||
        !is_aligned(p.right, p.right_stride, load, size) ||
        (run == 1 ? j->p % load || j->q % load : run % load != 0))
        load = 1;
    cuda_kron_vjp_gradient_variant(plan->op->x.dtype, j, load, &v);
    return cuda_launch(g, &v, &grid, (void *[]){&p});
}

/* ---- Groups --------------------------------------------------------------------------------- */

/* True if a factor can be in a group. */
static bool is_groupable(const struct gram_view *f)
{
    return f->rows == f->cols && (f->rows == 8 || f->rows == 16 || f->rows == 32);
}

/* The distance of indices that have this many elements behind them, with a gap. */
static int64_t stride_after(int64_t elements, bool is_double)
{
    return KRON_VJP_GROUP_STRIDE(elements, is_double);
}

/* The shared memory of a block: a tile of left for each factor, one of right (two, if the next one
 * is copied ahead), and the factors. */
static size_t shared_of_group(gram_dtype dtype, const struct gram_view *factor,
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
            const size_t bytes = shared_of_group(op->x.dtype, op->factor, j, ahead);
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
        if (!op->want_factor[i] || !is_groupable(&op->factor[i]) || elements > 0x1p40)
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

/* The tiles of some rows. */
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

/* Names the kernel of a group, which copies `load` elements at once. */
static void group_variant(gram_dtype dtype, const struct gram_view *factor,
                          const struct cuda_kron_join *j, int load, struct cuda_variant *v)
{
    cuda_variant(v, &group,
                 CUDA_OPTIONS({"REAL", cuda_type(dtype)}, {"DOUBLES", dtype == GRAM_F64}));
    for (int i = 0; i < j->count; i++)
        cuda_option(v, "N_OF", factor[j->first + i].rows);
    cuda_option(v, "TB", j->tb);
    cuda_option(v, "TA", j->ta);
    cuda_option(v, "LOAD", load);
    cuda_option(v, "AHEAD", j->ahead);
    cuda_option(v, "BLOCKS", j->blocks);
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
    const struct cuda_grid grid = {.blocks = j->slots,
                                   .threads = KRON_VJP_THREADS,
                                   .shared = shared_of_group(op->x.dtype, op->factor, j, j->ahead)};
    struct cuda_variant v;
    bool aligned;

    cuda_kron_vjp_aim(c, i);
    p.out = (char *)c->next;
    if (last && plan->to_x_direct)
        p.alpha = op->alpha.value;
    for (int f = 0; f < j->count; f++) {
        p.factor[f] = cuda_device_view(&op->factor[j->first + f]);
        p.sums[f] = c->memory + cuda_kron_vjp_sums_at(plan, j, f);
    }
    aligned = ((uintptr_t)p.left | (uintptr_t)p.right | (uintptr_t)p.out) % PIECE == 0;
    group_variant(op->x.dtype, op->factor, j, aligned ? (int)(PIECE / cuda_kron_vjp_size(plan)) : 1,
                  &v);
    TRY(cuda_launch(g, &v, &grid, (void *[]){&p}));
    c->right = c->next, c->right_stride = c->next_stride;
    return GRAM_OK;
}
