/*
 * mma_core.cuh - the sums of a tile by mma.sync, for cdist_mma.cu
 *
 * Eight warps, two by four, each 64 by 32 of the tile.  Chunks come to shared memory by
 * asynchronous copies of all threads, STAGES - 1 ahead; the staged sums take the same memory
 * afterwards.
 *
 * SPDX-License-Identifier: MIT
 */
#include "mma_tile.cuh"

#define BLOCK_THREADS THREADS
#define BLOCKS_EACH   2

static __device__ void barrier()
{
    __syncthreads();
}

static __device__ void leave_staged()
{
}

static __device__ void store_rows(const struct pair_params *, const struct tile *, const REAL *)
{
}

struct pipeline {
    char *stages;
};

static __device__ struct pipeline pipeline_begin(char *stages)
{
    return {stages};
}

/* A chunk of both sides, by all threads; moves on to the next one. */
static __device__ void copy_chunk(char *to, const char **x, const char **y)
{
    copy_all<PLANES * PLANE_X>(to, *x);
    copy_all<PLANES * PLANE_Y>(to + PLANES * PLANE_X, *y);
    *x += PLANES * PLANE_X, *y += PLANES * PLANE_Y;
}

static __device__ void sum_products(const struct square_params *a,
                                    const struct shared_state *shared,
                                    struct pipeline *pipeline, float acc[BLOCKS][4])
{
    const struct tile *tile = &shared->tile;
    const long long item = tile->item - a->first;
    const int chunks = (int)a->chunks;
    const char *x = a->side[0].data + item * a->side[0].item_bytes +
                    tile->i / TILE_ROWS * a->chunks * (PLANES * PLANE_X);
    const char *y = a->side[1].data + item * a->side[1].item_bytes +
                    tile->j / TILE_COLS * a->chunks * (PLANES * PLANE_Y);
    int now = 0;

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < chunks)
            copy_chunk(pipeline->stages + s * STAGE, &x, &y);
        ptx_copy_commit();
    }
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; chunk++) {
        ptx_copy_wait<STAGES - 2>();
        barrier(); /* this chunk is there, and the last one is no longer read */
        if (chunk + STAGES - 1 < chunks)
            copy_chunk(pipeline->stages + (now == 0 ? STAGES - 1 : now - 1) * STAGE, &x, &y);
        ptx_copy_commit();
        const char *from = pipeline->stages + now * STAGE;
#pragma unroll 1
        for (int k = 0; k < BK; k += 16)
            multiply(acc, from, from + PLANES * PLANE_X, k / 8);
        now = now == STAGES - 1 ? 0 : now + 1;
    }
    ptx_copy_wait<0>();
    barrier(); /* the chunks are no longer read: their memory takes the sums */
}

static __device__ void multiply_tiles(const struct square_params *a, struct shared_state *shared,
                                      char *stages, float *staged);

static __device__ void run_block(const struct square_params *a, struct shared_state *shared,
                                 char *stages)
{
    multiply_tiles(a, shared, stages, (float *)stages);
}
