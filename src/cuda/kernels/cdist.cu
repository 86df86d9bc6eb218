/*
 * cdist.cu - pairwise sums and functions of them: gram_cdist and gram_kernel on the device
 *
 * out[i][j] = f(sum_k term(x[i][k], y[j][k])) + r on the diagonal, for every item of a batch.
 * A block computes tiles of BM by BN of out; each of its 256 threads sums TM by TN elements in
 * registers, rows and columns 16 apart.  Panels of BK columns of x and y come to shared memory by
 * asynchronous copies, two deep; there a row is padded by 16 bytes, which spreads the 16-byte reads
 * of eight neighbouring rows over all banks.  Every element is one sequential sum over k, so that
 * out[i][j] of x, y is out[j][i] of y, x.
 *
 * In f32, y's columns change places with their neighbours in a panel (SWAP).  A 16-byte read fills
 * four registers in order, and x - y of two registers that are both even or both odd takes a second
 * cycle on chips since Volta, since they lie in one bank of the register file.
 *
 * Parameters (-D), set by cuda_cdist.c; the values are named in pair_params.h:
 *   REAL            float or double: arithmetic and out
 *   IS_DOUBLE       1 where REAL is double
 *   HALF            0: x and y are REAL; 1: binary16; 2: bfloat16
 *   TM              8, 4 or 2
 *   STEP, WHOLE, FRACTION, MIX
 *   X_LOAD, Y_LOAD  2: rows of aligned groups of 16 bytes; 1: any strides, neighbours along k are
 *                   near; 0: any strides, neighbouring rows are near
 *   FUNCTION, OUTPUT  with PAIR_EXPRESSION, pair_expression.cuh is given beside the other files
 *   BASE, SLOPE     kinds of two powers of the sum, or PAIR_RUN_TIME
 *   HYPERS          1: hyperparameters are read from tensors
 *   LISTED          1: only the tiles of a list, which cdist_mma.cu has written
 *
 * SPDX-License-Identifier: MIT
 */
#define PAIR_FN static __device__
#include "pair_map.h"
#include "ptx.cuh"
#include "square_params.h"

#if TM != 8 && TM != 4 && TM != 2
#  error "cdist.cu: TM must be 8, 4 or 2"
#endif
#if STEP < PAIR_ZERO || STEP > PAIR_ANY
#  error "cdist.cu: STEP must be one of pair_params.h"
#endif

#define THREADS   256
#define BM        (16 * TM)
#define TN        TM /* square tiles have mirror images */
#define BN        (16 * TN)
#define LANES     ((int)(16 / sizeof(REAL))) /* of a 16-byte read */
/* Chips with room for two blocks of wide panels: cuda_cdist_shared knows them too. */
#if __CUDA_ARCH__ == 900 || (__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200)
#  define BK      (8 * LANES)
#else
#  define BK      (4 * LANES)
#endif
#define LD        (BK + LANES)
#define TABLED    (STEP == PAIR_POWER && FRACTION && WHOLE > 0)
/* Columns that a thread reads at once: few where a step is long and takes much of the instruction
 * cache. */
#if STEP == PAIR_POWER && FRACTION
#  define READ    (TABLED && !IS_DOUBLE ? 2 : 1)
#elif STEP == PAIR_HALF || STEP == PAIR_THREE_HALVES
#  define READ    2
#else
#  define READ    LANES
#endif
#define SWAP      (IS_DOUBLE || READ == 1 ? 0 : 1)
#define PANEL     ((BM + BN) * LD) /* of x, and of y behind it */
/* Rows of sums that take the place of the panels at a time. */
#define STAGED(rows) ((rows)*TN * THREADS <= 2 * PANEL)
#define STAGED_ROWS (STAGED(TM) ? TM : STAGED(TM / 2) ? TM / 2 : TM / 4)
#define BLOCKS    (TM * TN * (int)sizeof(REAL) > 256 ? 1 : 2) /* of a multiprocessor at least */
#define LARGEST   (IS_DOUBLE ? (REAL)0x1.fffffffffffffp1023 : (REAL)0x1.fffffep127)
#define TILE_ROWS BM
#define TILE_COLS BN

#include "element.cuh"

struct __align__(READ * sizeof(REAL)) group {
    REAL at[READ];
};

extern __shared__ __align__(16) REAL panels[]; /* two, of PANEL elements */

#include "pair_step.cuh"
#include "pair_function.cuh"
#include "pair_tile.cuh"

/* ---- Panels --------------------------------------------------------------------------------- */

#include "pair_panel.cuh"

/* The panel'th columns of x and y. */
static __device__ void load_panels(REAL *to, const struct pair_params *a, const struct tile *tile,
                                   int panel)
{
    const long long k = (long long)panel * BK;
    const int left = a->depth - k < BK ? (int)(a->depth - k) : BK;

    load_panel<X_LOAD, BM, 0>(to, &a->x, tile->from[0] + k * a->x.col_stride, tile->rows[0], left);
    load_panel<Y_LOAD, BN, SWAP>(to + BM * LD, &a->y, tile->from[1] + k * a->y.col_stride,
                                 tile->rows[1], left);
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

/* x_at, y_at: where the thread's first rows begin in shared memory. */
static __device__ void sum_panel(REAL acc[TM][TN], unsigned x_at, unsigned y_at,
                                 const struct pair_map *map, REAL fraction,
                                 const struct pair_power *power)
{
    struct group x[TM];

#pragma unroll 1
    for (int k = 0; k < BK; k += READ, x_at += sizeof *x, y_at += sizeof *x) {
#pragma unroll
        for (int i = 0; i < TM; i++)
            ptx_read_shared(x[i].at, x_at + 16 * i * LD * (unsigned)sizeof(REAL));
#pragma unroll
        for (int j = 0; j < TN; j++) {
            struct group y;
            ptx_read_shared(y.at, y_at + 16 * j * LD * (unsigned)sizeof(REAL));
#pragma unroll
            for (int l = 0; l < READ; l++)
#pragma unroll
                for (int i = 0; i < TM; i++)
                    if (MIXED(i + j, l))
                        acc[i][j] =
                            special_power(acc[i][j], x[i].at[l] - y.at[l ^ SWAP], fraction);
                    else
                        acc[i][j] =
                            step(acc[i][j], x[i].at[l], y.at[l ^ SWAP], map, fraction, power);
        }
    }
}

/* Adds up the squares of one row of a panel, for GRAM_COSINE. */
static __device__ double add_squares(double sum, const REAL *row, int swap)
{
    for (int k = 0; k < BK; k++)
        sum += (double)row[k ^ swap] * (double)row[k ^ swap];
    return sum;
}

#if TABLED
/* The sum where the fast one is not to be trusted. */
static __device__ REAL exact_sum(const struct pair_params *a, const struct tile *tile, int row,
                                  int col, double p)
{
    const element *x = tile->from[0] + row * a->x.row_stride;
    const element *y = tile->from[1] + col * a->y.row_stride;
    REAL sum = 0;

    for (long long k = 0; k < a->depth; k++, x += a->x.col_stride, y += a->y.col_stride) {
        const REAL d = magnitude(value_of(*x) - value_of(*y));
        if (d != d)
            return d;
        sum += power(d, p);
    }
    return sum;
}
#endif

/* Maps and stores what a thread has staged: STAGED_ROWS rows of its elements, of which the first is
 * row `row` of the tile; once more for the mirror image.  A copy of the function for every element
 * would be long to compile: only a row of plain sums is unrolled. */
static __device__ void store(const struct pair_params *a, const struct tile *tile,
                             const REAL *staged, const struct pair_map *map, const double *norms,
                             int row, int col, bool image)
{
    const long long row_stride = image ? a->out.col_stride : a->out.row_stride;
    const long long col_stride = image ? a->out.row_stride : a->out.col_stride;
    const bool valid = !HYPERS || map->valid;
    const long long diagonal = tile->i - tile->j - col - a->diagonal;
    const REAL r = (REAL)map->regularization;
    const int rows = tile->rows[0], cols = tile->rows[1] - col;
    constexpr int copies = FUNCTION == PAIR_IDENTITY && BASE == PAIR_SAME ? TN : 1;

#pragma unroll 1
    for (int i = 0; i < STAGED_ROWS && row < rows; i++, row += 16, staged += TN * THREADS) {
        REAL *out = tile->out + (tile->i + row) * row_stride + (tile->j + col) * col_stride;
        const long long at = diagonal + row;
#pragma unroll copies
        for (int j = 0; j < TN; j++, out += 16 * col_stride) {
            REAL s = staged[j * THREADS];
            if (16 * j >= cols)
                break;
#if TABLED
            if (is_doubtful(s, a->depth, map->p))
                s = exact_sum(a, tile, row, col + 16 * j, map->p);
#endif
            if (FUNCTION == PAIR_COSINE)
                s = (REAL)((double)s * norms[row] * norms[BM + col + 16 * j]);
            s = mapped(map, s);
            if (OUTPUT == PAIR_VALUE && 16 * j == at)
                s += r;
            *out = valid ? s : (REAL)__int_as_float(0x7fc00000);
        }
    }
}

/* A warp has 4 rows and 8 columns: reads of 8 rows of y at once, stores of 32 bytes. */
static __device__ unsigned row_of(unsigned thread)
{
    return thread / 64 * 4 + thread % 32 / 8;
}

static __device__ unsigned col_of(unsigned thread)
{
    return thread / 32 % 2 * 8 + thread % 8;
}

static __device__ void compute(const struct pair_params *a, const struct tile *tile,
                               const struct pair_map *map, double *norms)
{
    const REAL fraction = (REAL)(MIX == 2 ? (map->fraction - 1) / 2 : map->fraction);
    REAL acc[TM][TN] = {};
    double squares = 0;
    const int count = (int)((a->depth + BK - 1) / BK);

    if (count > 0)
        load_panels(panels, a, tile, 0);
    ptx_copy_commit();
#pragma unroll 1
    for (int panel = 0; panel < count; panel++) {
        const unsigned now = panel % 2 * PANEL, thread = ptx_thread();
        ptx_copy_wait<0>();
        __syncthreads(); /* this panel is there, and the other one is no longer read */
        if (panel + 1 < count)
            load_panels(panels + PANEL - now, a, tile, panel + 1);
        ptx_copy_commit();
        if (FUNCTION == PAIR_COSINE && threadIdx.x < BM + BN)
            squares = add_squares(squares, panels + now + threadIdx.x * LD,
                                  threadIdx.x < BM ? 0 : SWAP);
        sum_panel(acc, ptx_shared_address(panels + now + row_of(thread) * LD),
                  ptx_shared_address(panels + now + (BM + col_of(thread)) * LD), map, fraction,
                  &a->power);
    }
    if (FUNCTION == PAIR_COSINE && threadIdx.x < BM + BN)
        norms[threadIdx.x] = squares == 0 ? 0 : 1 / sqrt(squares);
    __syncthreads(); /* the panels are no longer read: their memory takes the sums */
#pragma unroll
    for (int first = 0; first < TM; first += STAGED_ROWS) {
        REAL *staged = panels + threadIdx.x;
#pragma unroll
        for (int e = 0; e < STAGED_ROWS * TN; e++)
            staged[e * THREADS] = acc[first + e / TN][e % TN];
#pragma unroll 1
        for (int image = 0; image <= tile->mirrored; image++)
            store(a, tile, staged, map, norms, (int)row_of(threadIdx.x) + 16 * first,
                  (int)col_of(threadIdx.x), image != 0);
    }
}

/* Fills in the at'th tile that this launch is for; *more is false behind the last one. */
static __device__ bool next_tile(const struct pair_params *a, const struct square_list *list,
                                 long long at, struct tile *tile, bool *more)
{
#if LISTED
    *more = at < (long long)list->count;
    if (*more)
        fill_tile(a, list->tile[at].item, list->tile[at].row, list->tile[at].col, tile);
    return *more;
#else
    *more = at < a->items * a->tile_rows * a->tile_cols;
    return *more && find_tile(a, 0, at, tile);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    cdist(const __grid_constant__ struct pair_params a, const struct square_list *list)
{
    __shared__ double norms[FUNCTION == PAIR_COSINE ? BM + BN : 1];
    __shared__ struct tile tile;
    __shared__ bool wanted, more;
#if HYPERS
    __shared__ struct pair_map map;
#else
    const struct pair_map &map = a.map;
#endif

#if TABLED
    fill_powers(&a.power);
#endif
    for (int round = 0;; round++) {
        __syncthreads(); /* the last tile is stored */
        if (threadIdx.x == 0) {
            wanted = next_tile(&a, list, blockIdx.x + (long long)round * gridDim.x, &tile, &more);
#if HYPERS
            if (wanted)
                prepare(&a, tile.item, &map);
#endif
        }
        __syncthreads();
        if (wanted)
            compute(&a, &tile, &map, norms);
        else if (!more)
            break;
    }
}
