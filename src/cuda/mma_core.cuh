/*
 * mma_core.cuh - the sums of a tile by mma.sync, for cdist_mma.cu
 *
 * Eight warps, two by four, each 64 by 32 of the tile.  Chunks come to shared memory by
 * asynchronous copies of all threads, STAGES - 1 ahead; the staged sums take the same memory
 * afterwards.
 *
 * SPDX-License-Identifier: MIT
 */
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

/* Block b of a warp is 16 rows by 8 columns; element 0 of its sums is in this row and column. */
static __device__ int row_of(int b)
{
    return (int)threadIdx.x / 128 * 64 + b / 4 * 16 + (int)threadIdx.x % 32 / 4;
}

static __device__ int col_of(int b)
{
    return (int)threadIdx.x / 32 % 4 * 32 + b % 4 * 8 + (int)threadIdx.x % 4 * 2;
}

/* Contiguous bytes to shared memory by all threads. */
template <int BYTES> static __device__ void copy_all(char *to, const char *from)
{
#pragma unroll
    for (int at = 0; at < BYTES; at += THREADS * 16)
        ptx_copy_async<16>(to + at + threadIdx.x * 16, from + at + threadIdx.x * 16, 16);
}

/* Four matrices of 8 by 8: rows 16 of a plane of 128 rows from its group of columns on. */
static __device__ void load_fragment(unsigned r[4], const char *plane, int row, int group)
{
    ptx_ldmatrix_x4(r, plane + (group * 128 + row) * 16);
}

/* 16 columns of a chunk. */
static __device__ void multiply(float acc[BLOCKS][4], const char *x, const char *y, int group)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int row = warp / 4 * 64 + lane % 16, col = warp % 4 * 32 + lane / 16 * 8 + lane % 8;
    unsigned a[4][4], b[PLANES][2][4];

#pragma unroll
    for (int plane = 0; plane < PLANES; plane++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            load_fragment(b[plane][j], y + plane * PLANE_Y, col + j * 16, group + lane / 8 % 2);
#pragma unroll
    for (int plane = 0; plane < PLANES; plane++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            load_fragment(a[i], x + plane * PLANE_X, row + i * 16, group + lane / 16);
#pragma unroll
        for (int other = 0; other < PLANES - plane; other++) /* not lo lo */
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    ptx_mma_f16(acc[i * 4 + j], a[i], b[other][j / 2] + j % 2 * 2);
    }
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
