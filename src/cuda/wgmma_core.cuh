/*
 * wgmma_core.cuh - the sums of a tile by wgmma, for cdist_mma.cu; sm_90a alone
 *
 * Two groups of four warps, each 64 rows of the tile, read operands from shared memory; one
 * thread of a third group brings chunks there by bulk copies, up to STAGES ahead and so into the
 * next tile.
 * Barriers in shared memory say of each stage when it is full (the copy has counted its bytes) and
 * when it is empty (the eight warps have read it); parity is that of the round over the stages.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ptx_wgmma.cuh"

#define BLOCK_THREADS (THREADS + 128)
#define BLOCKS_EACH   1
#define STAGED_BYTES  (TILE_ROWS * STAGED_LD * 4)

static __device__ void barrier()
{
    ptx_barrier<1, THREADS>();
}

/* Waits until what store_rows has queued has left. */
static __device__ void leave_staged()
{
    ptx_store_bulk_wait();
}

/* Queues the staged rows of a tile for out. */
static __device__ void store_rows(const struct pair_params *a, const struct tile *tile,
                                  const REAL *staged)
{
    const int row = (int)threadIdx.x;

    ptx_bulk_fence();
    barrier();
    if (row < tile->rows[0])
        ptx_store_bulk(tile->out + (tile->i + row) * a->out.row_stride + tile->j,
                       staged + row * STAGED_LD, tile->rows[1] * (int)sizeof(REAL));
    ptx_store_bulk_commit();
}

struct pipeline {
    char *stages;
    unsigned long long *full, *empty;
    int stage;
    unsigned parity;
};

/* In dynamic shared memory: stages, staged sums, barriers. */
static __device__ struct pipeline pipeline_begin(char *stages)
{
    unsigned long long *barriers = (unsigned long long *)(stages + STAGES * STAGE + STAGED_BYTES);

    return {stages, barriers, barriers + STAGES, 0, 0};
}

static __device__ void advance(struct pipeline *p)
{
    if (++p->stage == STAGES)
        p->stage = 0, p->parity ^= 1;
}

/* Block b of a warp is 16 rows by 8 columns; element 0 of its sums is in this row and column. */
static __device__ int row_of(int)
{
    return (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4;
}

static __device__ int col_of(int b)
{
    return b * 8 + (int)threadIdx.x % 4 * 2;
}

static __device__ void multiply_chunk(float part[BLOCKS][4], const char *stage, bool accumulate)
{
    const unsigned long long x =
        ptx_wgmma_operand(stage + (int)threadIdx.x / 128 * 64 * 16, TILE_ROWS * 16, 128);
    const unsigned long long y = ptx_wgmma_operand(stage + PLANES * PLANE_X, TILE_COLS * 16, 128);

    ptx_wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK / 8; k += 2)
#pragma unroll
        for (int product = 0; product < 2 * PLANES - 1; product++) /* hi hi, hi lo, lo hi */
            ptx_wgmma_f16<TILE_COLS>(
                &part[0][0], ptx_wgmma_shifted(x, product / 2 * PLANE_X + k * TILE_ROWS * 16),
                ptx_wgmma_shifted(y, product % 2 * PLANE_Y + k * TILE_COLS * 16),
                accumulate || k + product > 0);
    ptx_wgmma_commit();
}

static __device__ void sum_products(const struct square_params *a, const struct shared_state *,
                                    struct pipeline *p, float acc[BLOCKS][4])
{
    const int chunks = (int)a->chunks;
    float part[BLOCKS][4];

#pragma unroll 1
    for (int chunk = 0; chunk < chunks; chunk++) {
        ptx_mbarrier_wait(p->full + p->stage, p->parity);
        multiply_chunk(part, p->stages + p->stage * STAGE, chunk % PROMOTED != 0);
        ptx_wgmma_wait<0>(); /* meanwhile the other four warps multiply */
        if (threadIdx.x % 32 == 0)
            ptx_mbarrier_arrive(p->empty + p->stage);
        advance(p);
        if ((chunk + 1) % PROMOTED != 0 && chunk + 1 < chunks)
            continue;
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                acc[b][i] += part[b][i];
    }
}

/* Brings the chunks of all tiles of this block: one thread. */
static __device__ void load_tiles(const struct square_params *a, struct pipeline *p)
{
    const struct pair_params *pair = &a->pair;
    const long long item_tiles = pair->tile_rows * pair->tile_cols,
                    tiles = pair->items * item_tiles;

    for (long long at = blockIdx.x; at < tiles; at += gridDim.x) {
        const long long item = at / item_tiles;
        long long row, col;
        place(pair, at - item * item_tiles, &row, &col);
        if (pair->symmetric && row > col)
            continue;
        const char *x =
            a->side[0].data + item * a->side[0].item_bytes + row * a->chunks * (PLANES * PLANE_X);
        const char *y =
            a->side[1].data + item * a->side[1].item_bytes + col * a->chunks * (PLANES * PLANE_Y);
        for (long long chunk = 0; chunk < a->chunks; chunk++, advance(p)) {
            char *to = p->stages + p->stage * STAGE;
            unsigned long long *full = p->full + p->stage;
            ptx_mbarrier_wait(p->empty + p->stage, p->parity ^ 1);
            ptx_mbarrier_expect(full, STAGE);
            ptx_copy_bulk(to, x + chunk * (PLANES * PLANE_X), PLANES * PLANE_X, full);
            ptx_copy_bulk(to + PLANES * PLANE_X, y + chunk * (PLANES * PLANE_Y), PLANES * PLANE_Y,
                          full);
        }
    }
}

static __device__ void multiply_tiles(const struct square_params *a, struct shared_state *shared,
                                      char *stages, float *staged);

static __device__ void run_block(const struct square_params *a, struct shared_state *shared,
                                 char *stages)
{
    struct pipeline p = pipeline_begin(stages);

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            ptx_mbarrier_init(p.full + s, 1);
            ptx_mbarrier_init(p.empty + s, THREADS / 32);
        }
        ptx_mbarrier_init_fence();
    }
    __syncthreads();
    /* Of 64 K registers a thread has 168, which a sum and its part do not fit into. */
    if (threadIdx.x < THREADS) {
        ptx_more_registers<216>();
        multiply_tiles(a, shared, stages, (float *)(stages + STAGES * STAGE));
    } else {
        ptx_fewer_registers<72>();
        if (threadIdx.x == THREADS)
            load_tiles(a, &p);
    }
}
