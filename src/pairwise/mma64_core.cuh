/*
 * mma64_core.cuh - the sums of a tile by mma.sync in f64, for cdist_mma.cu
 *
 * Eight warps, two by four, each 64 by 32 of the tile, on rows as they are: chunks of BK columns of
 * x and y come to shared memory by asynchronous copies, and with them the columns of one more row,
 * the first one of y's panel.  It is the centre: a thread takes it from the numbers of one row and
 * adds up their squares, a chunk ahead of the products.  The staged sums take the same memory
 * afterwards.
 *
 * Of infinities and NaN in the centre come norms that are no numbers, and so direct sums.
 *
 * SPDX-License-Identifier: MIT
 */
#define BLOCK_THREADS THREADS
#define BLOCKS_EACH   1
#define CENTRE_ROW    (TILE_ROWS + TILE_COLS)
#define PANEL         ((CENTRE_ROW + 1) * LD)
#define CENTRED       (STEP == PAIR_TWO)
#define SQUARED       (CENTRED || FUNCTION == PAIR_COSINE)

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
    double *panels;
};

static __device__ struct pipeline pipeline_begin(char *stages)
{
    return {(double *)stages};
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

/* By all threads. */
static __device__ void copy_chunk(double *to, const struct pair_params *a, const struct tile *tile,
                                  int chunk)
{
    const long long k = (long long)chunk * BK;
    const int left = a->depth - k < BK ? (int)(a->depth - k) : BK;
    const double *y = tile->from[1] + k * a->y.col_stride;

    load_panel<X_LOAD, TILE_ROWS, 0>(to, &a->x, tile->from[0] + k * a->x.col_stride, tile->rows[0],
                                     left);
    load_panel<Y_LOAD, TILE_COLS, 0>(to + TILE_ROWS * LD, &a->y, y, tile->rows[1], left);
    if (CENTRED)
        load_panel<Y_LOAD == 2 ? 2 : 1, 1, 0>(to + CENTRE_ROW * LD, &a->y, y, 1, left);
}

/* The thread's row of a chunk: less the centre; gives its squares. */
static __device__ double centre_row(double *panel, double squares)
{
    double *row = panel + threadIdx.x * LD;
    const double *centre = panel + CENTRE_ROW * LD;

#pragma unroll
    for (int k = 0; k < BK; k++) {
        const double e = row[k] - (CENTRED ? centre[k] : 0);
        if (CENTRED)
            row[k] = e;
        squares = fma(e, e, squares);
    }
    return squares;
}

#if __CUDA_ARCH__ == 900
#  define MMA_DEPTH 8
static __device__ void multiply_block(double acc[4], const double a[4], const double b[2])
{
    ptx_mma_f64_wide(acc, a, b);
}
#else
#  define MMA_DEPTH 4
static __device__ void multiply_block(double acc[4], const double a[2], const double b[1])
{
    ptx_mma_f64(acc, a[0], b[0]);
    ptx_mma_f64(acc + 2, a[1], b[0]);
}
#endif

/* A chunk of products: fragments as ptx_mma_f64 wants them. */
static __device__ void multiply(double acc[BLOCKS][4], const double *panel)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const double *x = panel + (warp / 4 * 64 + lane / 4) * LD + lane % 4;
    const double *y = panel + (TILE_ROWS + warp % 4 * 32 + lane / 4) * LD + lane % 4;

#pragma unroll
    for (int k = 0; k < BK; k += MMA_DEPTH) {
        double a[4][MMA_DEPTH / 2], b[4][MMA_DEPTH / 4];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int l = 0; l < MMA_DEPTH / 4; l++) {
                a[i][2 * l] = x[i * 16 * LD + k + 4 * l];
                a[i][2 * l + 1] = x[(i * 16 + 8) * LD + k + 4 * l];
                b[i][l] = y[i * 8 * LD + k + 4 * l];
            }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                multiply_block(acc[i * 4 + j], a[i], b[j]);
    }
}

static __device__ void sum_products(const struct square_params *a, struct shared_state *shared,
                                    struct pipeline *pipeline, double acc[BLOCKS][4])
{
    const struct tile *tile = &shared->tile;
    const int chunks = (int)a->chunks;
    double *panels = pipeline->panels, squares = 0;
    int now = 0, next = 1;

    copy_chunk(panels, &a->pair, tile, 0);
    ptx_copy_commit();
    if (chunks > 1)
        copy_chunk(panels + PANEL, &a->pair, tile, 1);
    ptx_copy_commit();
    ptx_copy_wait<1>();
    barrier();
    if (SQUARED)
        squares = centre_row(panels, squares);
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; chunk++) {
        const int last = 3 - now - next;
        ptx_copy_wait<0>();
        barrier(); /* the next chunk is there, this one is centred, the last one no longer read */
        if (chunk + 2 < chunks)
            copy_chunk(panels + last * PANEL, &a->pair, tile, chunk + 2);
        ptx_copy_commit();
        if (SQUARED && chunk + 1 < chunks)
            squares = centre_row(panels + next * PANEL, squares);
        multiply(acc, panels + now * PANEL);
        now = next, next = last;
    }
    if (SQUARED)
        shared->end[threadIdx.x] = {squares, squares == 0 ? 0 : 1 / sqrt(squares)};
    ptx_copy_wait<0>();
    barrier(); /* the chunks are no longer read: their memory takes the sums */
}

static __device__ void multiply_tiles(const struct square_params *a, struct shared_state *shared,
                                      char *stages, REAL *staged);

static __device__ void run_block(const struct square_params *a, struct shared_state *shared,
                                 char *stages)
{
    multiply_tiles(a, shared, stages, (REAL *)stages);
}
