/*
 * cdist.cu - pairwise sums and functions of them: gram_cdist and gram_kernel on the device
 *
 * out[i][j] = f(sum_k term(x[i][k], y[j][k])) + r on the diagonal, for every item of a batch.
 * A block computes tiles of BM by BN of out; each of its 256 threads sums TM by TN elements in
 * registers, rows and columns 16 apart.  Panels of BK columns of x and y come to shared memory by
 * asynchronous copies, STAGES deep; there a row is padded by 16 bytes, which spreads the 16-byte
 * reads of eight neighbouring rows over all banks.  With PACKED, cdist_panels.cu has written
 * the panels as they are read; then they come by two instructions of one thread, and warps wait for
 * each other only where they use the same memory again: barriers there say when a panel is full and
 * when it is empty.  Every element is one sequential sum over k, so that out[i][j] of x, y is
 * out[j][i] of y, x.
 *
 * In f32, y's columns change places with their neighbours in a panel (SWAP).  A 16-byte read fills
 * four registers in order, and x - y of two registers that are both even or both odd takes a second
 * cycle on chips since Volta, since they lie in one bank of the register file.
 *
 * Parameters (-D), set by cuda_cdist.c; the values are named in pair_params.h:
 *   REAL            float or double: arithmetic and out
 *   IS_DOUBLE       1 where REAL is double
 *   STORED          how x and y are: DEVICE_REAL, DEVICE_F16, DEVICE_BF16
 *   TM              8, 4 or 2
 *   STEP, WHOLE, FRACTION, MIX
 *   X_LOAD, Y_LOAD  2: rows of aligned groups of 16 bytes; 1: any strides, neighbours along k are
 *                   near; 0: any strides, neighbouring rows are near
 *   FUNCTION, OUTPUT  with PAIR_EXPRESSION, pair_expression.cuh is given beside the other files
 *   BASE, SLOPE     kinds of two powers of the sum, or PAIR_RUN_TIME
 *   NORMS           1, or not given: the expression has |x| or |y|
 *   SUMS            1, or not given: it has the sum of |x_k - y_k| or that of (x_k - y_k)^2
 *   HYPERS          1: hyperparameters are read from tensors
 *   PACKED          1: x and y are panels of cdist_panels.cu
 *   LISTED          1: only the tiles of a list, which cdist_mma.cu has written
 *   METRIC          1, or not given: the sums are those of a metric, or out is condensed, and then
 *   FINISH          what becomes of the sums before the function
 *   WEIGHTED        1: the terms of a metric have weights
 *   CONDENSED       1: out is a vector of the distances with i < j
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef METRIC
#  define METRIC    0
#  define FINISH    0
#  define WEIGHTED  0
#  define CONDENSED 0
#endif
#define PAIR_FN static __device__
#include "pair_map_params.h"
#include "ptx.cuh"
#if PACKED
#  include "ptx_wgmma.cuh"
#endif

#if TM != 8 && TM != 4 && TM != 2
#  error "cdist.cu: TM must be 8, 4 or 2"
#endif
#if STEP < PAIR_ZERO || STEP > PAIR_HAVERSINE
#  error "cdist.cu: STEP must be one of pair_params.h"
#endif

#define THREADS   256
#define BM        (16 * TM)
#define TN        TM /* square tiles have mirror images */
#define BN        (16 * TN)
#define LANES     ((int)(16 / sizeof(REAL))) /* of a 16-byte read */
/* Chips with room for two blocks of wide panels: cuda_cdist_shared knows them too. */
#define WIDE      (__CUDA_ARCH__ == 900 || (__CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200))
#define BK        ((WIDE ? 8 : 4) * LANES)
#define STAGES    (PACKED ? 3 : 2)
#define LD        (BK + LANES)
#define TABLED    (STEP == PAIR_POWER && FRACTION && WHOLE > 0)
/* Columns that a thread reads at once: few where a step is long and takes much of the instruction
 * cache. */
#if STEP == PAIR_POWER && FRACTION
#  define READ    (TABLED && !IS_DOUBLE ? 2 : 1)
#elif STEP > PAIR_ANY
#  define READ    1
#elif STEP == PAIR_HALF || STEP == PAIR_THREE_HALVES
#  define READ    2
#else
#  define READ    LANES
#endif
#define SWAP      (IS_DOUBLE || READ == 1 ? 0 : 1)
#define PANEL     ((BM + BN) * (PACKED ? BK : LD)) /* of x, and of y behind it */
/* Rows of sums that take the place of the panels at a time. */
#define STAGED(rows) ((rows)*TN * THREADS <= STAGES * PANEL)
#define STAGED_ROWS (SUMS ? 1 : STAGED(TM) ? TM : STAGED(TM / 2) ? TM / 2 : TM / 4)
#define BLOCKS    (SUMS || TM * TN * (int)sizeof(REAL) > 256 ? 1 : 2) /* a processor at least */
#define LARGEST   (IS_DOUBLE ? (REAL)0x1.fffffffffffffp1023 : (REAL)0x1.fffffep127)
#define TILE_ROWS BM
#define TILE_COLS BN

#define HAS_NORMS (FUNCTION == PAIR_COSINE || NORMS)
#ifndef SUMS
#  define SUMS 0
#endif

#include "stored.cuh"

typedef stored_as<STORED>::type element;

struct __align__(READ * sizeof(REAL)) group {
    REAL at[READ];
};

extern __shared__ __align__(16) REAL panels[]; /* STAGES, of PANEL elements */

#include "pair_terms.cuh"
#include "pair_tile.cuh"
#if METRIC
#  include "metric_terms.cuh"
#endif

/* ---- Panels --------------------------------------------------------------------------------- */

/* What the warps tell each other, and how many panels this block has used. */
struct pipeline {
    unsigned long long *full, *empty;
    unsigned count;
};

/* Queues the copies of the panel'th columns of x and y to the place of the count'th panel. */
static __device__ void load_panels(const struct pipeline *pipeline, unsigned count,
                                   const struct pair_params *a, const struct tile *tile, int panel)
{
    REAL *to = panels + count % STAGES * PANEL;
    const long long k = (long long)panel * BK;
#if PACKED
    unsigned long long *full = pipeline->full + count % STAGES;

    if (threadIdx.x > 0)
        return;
    ptx_mbarrier_wait(pipeline->empty + count % STAGES, count / STAGES % 2 ^ 1);
    ptx_mbarrier_expect(full, PANEL * (int)sizeof(REAL));
    ptx_copy_bulk(to, tile->from[0] + k * BM, BM * BK * (int)sizeof(REAL), full);
    ptx_copy_bulk(to + BM * BK, tile->from[1] + k * BN, BN * BK * (int)sizeof(REAL), full);
#else
    const int left = a->depth - k < BK ? (int)(a->depth - k) : BK;

    load_panel<X_LOAD, BM, 0>(to, &a->x, tile->from[0] + k * a->x.col_stride, tile->rows[0], left);
    load_panel<Y_LOAD, BN, SWAP>(to + BM * LD, &a->y, tile->from[1] + k * a->y.col_stride,
                                 tile->rows[1], left);
#endif
}

/* Waits for the panel and queues the next one, if there is one. */
static __device__ void enter_panel(const struct pipeline *pipeline, const struct pair_params *a,
                                   const struct tile *tile, int panel, bool last)
{
#if PACKED
    const unsigned count = pipeline->count;

    if (!last)
        load_panels(pipeline, count + 1, a, tile, panel + 1);
    __syncwarp();
    ptx_mbarrier_wait(pipeline->full + count % STAGES, count / STAGES % 2);
#else
    ptx_copy_wait<0>();
    __syncthreads(); /* this panel is there, and the other one is no longer read */
    if (!last)
        load_panels(pipeline, (unsigned)panel + 1, a, tile, panel + 1);
    ptx_copy_commit();
#endif
}

/* The thread does not read the panel any more. */
static __device__ void leave_panel(struct pipeline *pipeline)
{
#if PACKED
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        ptx_mbarrier_arrive(pipeline->empty + pipeline->count % STAGES);
    pipeline->count++;
#endif
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

#if PACKED
#  define GROUP (8 / (int)sizeof(REAL)) /* columns of a row that are neighbours in a panel */

struct __align__(16) two_rows
{
    REAL at[LANES];
};

/* x_at, y_at: where the thread's first rows begin in shared memory. */
static __device__ void sum_panel(REAL acc[TM][TN], unsigned x_at, unsigned y_at,
                                 const struct pair_map *map, REAL fraction,
                                 const struct pair_power *power)
{
#pragma unroll 2
    for (int k = 0; k < BK; k += GROUP, x_at += BM * 8, y_at += BN * 8) {
        struct two_rows x[TM / 2], y[TN / 2];
#pragma unroll
        for (int i = 0; i < TM / 2; i++)
            ptx_read_shared(x[i].at, x_at + 256 * i);
#pragma unroll
        for (int j = 0; j < TN / 2; j++)
            ptx_read_shared(y[j].at, y_at + 256 * j);
#pragma unroll
        for (int j = 0; j < TN; j++)
#pragma unroll
            for (int l = 0; l < GROUP; l++)
#pragma unroll
                for (int i = 0; i < TM; i++)
                    acc[i][j] = step(acc[i][j], x[i / 2].at[i % 2 * GROUP + l],
                                     y[j / 2].at[j % 2 * GROUP + (l ^ SWAP)], map, fraction, power);
    }
}
#else
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
#endif

#if SUMS
/* The sums that an expression has beside s, of the columns of a panel. */
static __device__ void sum_beside(REAL sum[TM][TN], REAL squares[TM][TN], unsigned x_at,
                                  unsigned y_at)
{
#  pragma unroll 1
    for (int k = 0; k < BK; k += READ, x_at += sizeof(struct group), y_at += sizeof(struct group)) {
        struct group x[TM];
#  pragma unroll
        for (int i = 0; i < TM; i++)
            ptx_read_shared(x[i].at, x_at + 16 * i * LD * (unsigned)sizeof(REAL));
#  pragma unroll
        for (int j = 0; j < TN; j++) {
            struct group y;
            ptx_read_shared(y.at, y_at + 16 * j * LD * (unsigned)sizeof(REAL));
#  pragma unroll
            for (int l = 0; l < READ; l++)
#  pragma unroll
                for (int i = 0; i < TM; i++) {
                    const REAL d = x[i].at[l] - y.at[l ^ SWAP];
                    sum[i][j] += magnitude(d);
                    squares[i][j] += d * d;
                }
        }
    }
}
#endif

/* Adds up the squares of one row of a panel, for GRAM_COSINE and for expressions of norms. */
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
        const REAL d = magnitude(real_of<STORED>(*x) - real_of<STORED>(*y));
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
                             const REAL *staged, const REAL *beside, const struct pair_map *map,
                             const double *norms, int row, int col, bool image)
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
#if CONDENSED
            const long long m = a->rows, r_at = tile->i + row, c_at = tile->j + col + 16 * j;
            if (r_at >= c_at)
                continue;
            out = tile->out +
                  (r_at * (m - 1) - r_at * (r_at - 1) / 2 + c_at - r_at - 1) * col_stride;
#endif
#if TABLED
            if (is_doubtful(s, a->depth, map->p))
                s = exact_sum(a, tile, row, col + 16 * j, map->p);
#endif
            if (FUNCTION == PAIR_COSINE)
                s = (REAL)((double)s * norms[row] * norms[BM + col + 16 * j]);
            struct beside b = {};
            if (NORMS)
                b.x = (REAL)norms[row], b.y = (REAL)norms[BM + col + 16 * j];
            if (SUMS)
                b.sum = beside[j * THREADS], b.squares = beside[(TN + j) * THREADS];
            s = mapped(map, s, b);
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
                               const struct pair_map *map, struct pipeline *pipeline,
                               double *norms)
{
    const REAL fraction = (REAL)(MIX == 2 ? (map->fraction - 1) / 2 : map->fraction);
    REAL acc[TM][TN] = {};
#if STEP > PAIR_ANY
    REAL second[TM][TN] = {};
    const REAL *weights = (const REAL *)a->metric.weights + tile->item * a->metric.weight_stride;
#endif
#if SUMS
    __shared__ REAL of_sums[2 * TN * THREADS];
    REAL sum_of[TM][TN] = {}, squares_of[TM][TN] = {};
    REAL *beside = of_sums + threadIdx.x;
#else
    REAL *beside = nullptr;
#endif
    double squares = 0;
    const int count = (int)((a->depth + BK - 1) / BK);

    if (count > 0)
        load_panels(pipeline, pipeline->count, a, tile, 0);
    ptx_copy_commit();
#pragma unroll 1
    for (int panel = 0; panel < count; panel++) {
        const unsigned at = PACKED ? pipeline->count : (unsigned)panel;
        const unsigned now = at % STAGES * PANEL, thread = ptx_thread();
        enter_panel(pipeline, a, tile, panel, panel + 1 == count);
        if (HAS_NORMS && threadIdx.x < BM + BN)
            squares = add_squares(squares, panels + now + threadIdx.x * LD,
                                  threadIdx.x < BM ? 0 : SWAP);
#if STEP > PAIR_ANY
        const long long first = (long long)panel * BK;
        sum_terms(acc, second, ptx_shared_address(panels + now + row_of(thread) * LD),
                  ptx_shared_address(panels + now + BM * LD + col_of(thread) * LD),
                  WEIGHTED ? weights + first : weights, first,
                  a->depth - first < BK ? (int)(a->depth - first) : BK);
#else
        sum_panel(acc,
                  ptx_shared_address(panels + now + row_of(thread) * (PACKED ? LANES : LD)),
                  ptx_shared_address(panels + now + BM * (PACKED ? BK : LD) +
                                     col_of(thread) * (PACKED ? LANES : LD)),
                  map, fraction, &a->power);
#endif
#if SUMS
        sum_beside(sum_of, squares_of, ptx_shared_address(panels + now + row_of(thread) * LD),
                   ptx_shared_address(panels + now + BM * LD + col_of(thread) * LD));
#endif
        leave_panel(pipeline);
    }
    if (HAS_NORMS && threadIdx.x < BM + BN)
        norms[threadIdx.x] = NORMS ? sqrt(squares) : squares == 0 ? 0 : 1 / sqrt(squares);
    __syncthreads(); /* the panels are no longer read: their memory takes the sums */
#if FINISH
    {
        const REAL divisor = a->metric.divisor == 0 && WEIGHTED
                                 ? ((const REAL *)a->metric.weights)[(tile->item + 1) *
                                                                         a->metric.weight_stride -
                                                                     1]
                                 : (REAL)a->metric.divisor;
#  pragma unroll
        for (int e = 0; e < TM * TN; e++) {
#  if STEP > PAIR_ANY
            const REAL t = second[e / TN][e % TN];
#  else
            const REAL t = 0;
#  endif
            acc[e / TN][e % TN] =
                finished(acc[e / TN][e % TN], t, divisor, (REAL)a->metric.most);
        }
    }
#endif
#pragma unroll
    for (int first = 0; first < TM; first += STAGED_ROWS) {
        REAL *staged = panels + threadIdx.x;
#pragma unroll
        for (int e = 0; e < STAGED_ROWS * TN; e++)
            staged[e * THREADS] = acc[first + e / TN][e % TN];
#if SUMS
#  pragma unroll
        for (int j = 0; j < TN; j++) {
            beside[j * THREADS] = sum_of[first][j];
            beside[(TN + j) * THREADS] = squares_of[first][j];
        }
#endif
#pragma unroll 1
        for (int image = 0; image <= (CONDENSED ? 0 : tile->mirrored); image++)
            store(a, tile, staged, beside, map, norms, (int)row_of(threadIdx.x) + 16 * first,
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
    __shared__ double norms[HAS_NORMS ? BM + BN : 1];
    __shared__ struct tile tile;
    __shared__ bool wanted, more;
    __shared__ unsigned long long barriers[2 * STAGES];
    struct pipeline pipeline = {barriers, barriers + STAGES, 0};
#if HYPERS
    __shared__ struct pair_map map;
#else
    const struct pair_map &map = a.map;
#endif

#if TABLED
    fill_powers(&a.power);
#endif
#if PACKED
    if (threadIdx.x == 0)
        for (int s = 0; s < STAGES; s++) {
            ptx_mbarrier_init(pipeline.full + s, 1);
            ptx_mbarrier_init(pipeline.empty + s, THREADS / 32);
        }
#endif
    for (int round = 0;; round++) {
#if PACKED
        ptx_mbarrier_init_fence(); /* bulk copies come after what was staged, too */
#endif
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
            compute(&a, &tile, &map, &pipeline, norms);
        else if (!more)
            break;
    }
}
