/*
 * cuda_kron_matmul_vjp_gradient.c - the gradients of joined factors: tiles of kron_vjp_gradient.cu
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron_matmul_vjp.h"
#include <stdio.h>

enum {
    PIECE = 16,    /* bytes that one instruction copies, where elements are neighbours */
    CHUNKS = 4,    /* the least chunks of a slice */
    RESIDENT = 2,  /* blocks on a processor; there are more where tiles are small */
    SMALL = 32,    /* the most rows and columns of such a small tile */
    WIDEST = 128,  /* the most rows and columns of a tile */
    NARROWER = 64, /* the most columns of the widest tiles in f64 */
};

/* A side of 16, 32, 64 or 128: the one that leaves the fewest elements unused. */
static int extent_of(int64_t n)
{
    int extent = WIDEST;

    while (extent > 16 && gram_round_up(n, extent / 2) < gram_round_up(n, extent))
        extent /= 2;
    return n <= 16 ? 16 : extent;
}

/* How many elements of a side one instruction can copy. */
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

static int64_t tile_rows(const struct cuda_kron_join *j)
{
    return 16 * (int64_t)j->mt * j->wp;
}

static int64_t tile_cols(const struct cuda_kron_join *j)
{
    return 8 * (int64_t)j->nt * j->wq;
}

static int64_t chunk_of(gram_dtype dtype, const struct cuda_kron_join *j)
{
    return KRON_VJP_CHUNK(tile_rows(j) + tile_cols(j), dtype == GRAM_F64);
}

static size_t shared_of(gram_dtype dtype, const struct cuda_kron_join *j)
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

struct jit_request cuda_kron_vjp_gradient_request(gram_dtype dtype, const struct cuda_kron_join *j,
                                                  int load, char defines[CUDA_KRON_VJP_DEFINES])
{
    bool is_double = dtype == GRAM_F64, along = j->after == 1;
    const int fields[][2] = {
        {is_double, 1},
        {    along, 1},
        {     load, 3},
        {    j->mt, 3},
        {    j->nt, 3},
        {    j->wp, 4},
        {    j->wq, 4}
    };

    snprintf(defines, CUDA_KRON_VJP_DEFINES,
             "-DREAL=%s -DDOUBLES=%d -DMT=%d -DNT=%d -DWP=%d -DWQ=%d -DALONG=%d -DLOAD=%d",
             is_double ? "double" : "float", is_double, j->mt, j->nt, j->wp, j->wq, along, load);
    return (struct jit_request){
        .file = "kron_vjp_gradient.cu",
        .kernel = "kron_vjp_gradient",
        .defines = defines,
        .variant = gram_cuda_variant(CUDA_VARIANT_KRON_VJP_GRADIENT,
                                     gram_cuda_pack(fields, sizeof fields / sizeof *fields)),
        .shared_bytes = shared_of(dtype, j)};
}

gram_status cuda_kron_vjp_add_gradient(gram_context *g, const struct cuda_kron_chain *c, int i)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct cuda_kron_join *j = &plan->join[i];
    const int64_t size = cuda_kron_vjp_size(plan), run = j->after;
    char defines[CUDA_KRON_VJP_DEFINES];
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
    struct jit_request request;

    if (!is_aligned(p.left, p.left_stride, load, size) ||
        !is_aligned(p.right, p.right_stride, load, size) ||
        (run == 1 ? j->p % load || j->q % load : run % load != 0))
        load = 1;
    request = cuda_kron_vjp_gradient_request(plan->op->x.dtype, j, load, defines);
    return gram_cuda_launch(g, &request, tiles * p.slots * p.groups, KRON_VJP_THREADS, &p);
}
