/*
 * kernel_matmul_tensor.cu - products with a kernel matrix of squared distances, whose inner
 * products come from tensor cores and whose elements never leave the registers
 *
 *     sums[slice][c][i] = sum over the points j of a slice of y of f(|x[i] - y[j]|^2) v[j][c]
 *
 * cdist_pack.cu has written rows of x and y as halves.  A block goes through a slice of y, tile by
 * tile of 128 by 128, once for each of its strips of 128 rows of x.  Chunks of TENSOR_BK columns
 * come to shared memory by asynchronous copies, STAGES - 1 ahead and so into the next tile, and the
 * ends of rows of y and their rows of v come with the first chunk of a tile.  A thread has 64 inner
 * products, as mma_tile.cuh says, which become distances and then elements in the same registers.
 * For each column of v it then adds up the products of its 8 rows, and, with MIRROR, of its 8
 * columns with the rows of v that belong to x.  Lanes that share a row or a column add up theirs by
 * shuffles.  Sums of rows wait in shared memory for the end of the slice.  Those of columns are the
 * mirror images; they go to a place of the block of rows at once, and strips after the first one
 * add to what the same thread has written there.  The order of all sums follows from the sizes of
 * the problem alone.
 *
 * As in cdist_mma.cu, with e the rows shifted by one vector and N = |e_x|^2 + |e_y|^2,
 *   s = N - 2 e_x.e_y
 * is wrong by at most (6 + 3 k / 8) eps N: halves and the last additions cost 6 eps N, and tensor
 * cores, which truncate, at most 2 eps of a partial sum, which is at most N / 2, for each of three
 * products of 16 columns, twice.  gram.h allows a distance (k + 8) eps + 1e-6 of itself, and so s
 * (2 k + 32) eps: enough where s >= N / 4.  All other elements, and those where numbers over- or
 * underflow, are summed again from differences, by the thread that has them.
 *
 * With RELAXED fewer are.  For f = e^-t, t = r s^e, and for Matern functions |df / dt| <= |f|, so
 * that f is wrong by |f| r e s^(e - 1) times the error of s: by (24 + 3 k / 2) eps |f| where
 *   r N <= 4,  e = 1;     r N <= 8 s^(1/2),  e = 1/2.
 * The error that gram.h allows a product has (n + 8) eps |f v| for each point, of which sums take
 * fewer than 40 eps.  Points that coincide have a computed s below N / 1024 all the same, and so
 * f(0) to the last bit.
 *
 * Parameters (-D), set by cuda_kernel_matmul_tensor.c:
 *   STORED, FUNCTION, OUTPUT, BASE, SLOPE, HYPERS
 *             as in cdist.cu, whose STEP is PAIR_TWO
 *   COLUMNS   of v that a pass takes at most
 *   MIRROR    1: y is x
 *   RELAXED   1: f is one of those above, and n >= 2 k + 64
 *
 * SPDX-License-Identifier: MIT
 */
#define PAIR_FN static __device__
#include "kernel_matmul_params.h"
#include "pair_map_params.h"
#include "ptx.cuh"

#define REAL      float
#define IS_DOUBLE 0
#define STEP      PAIR_TWO
#define WHOLE     0
#define FRACTION  0
#define MIX       0
#define QUICK     1 /* pair_terms.cuh: e^-t by the special function */
#define LARGEST   0x1.fffffep127f
#define SMALLEST  0x1p-112f /* N is above 2^-113 then, and no product that counts underflows */

#define THREADS   TENSOR_THREADS
#define TILE      SQUARE_ROWS
#define BLOCKS    (TILE * TILE / THREADS / 4) /* of four elements that a thread has */
#define PLANES    2
#define PLANE_X   (TILE * TENSOR_BK * 2) /* bytes */
#define PLANE_Y   PLANE_X
#define STAGES    TENSOR_STAGES(COLUMNS)
#define ROW_WARPS 2 /* a tile is shared by 2 by 4 warps */
#define COL_WARPS 4

/* e^-t alone, t a positive multiple of a power of the sum */
#define PLAIN                                                                          \
  (OUTPUT == PAIR_VALUE && FUNCTION >= PAIR_LAPLACE && FUNCTION <= PAIR_EXPONENTIAL_POWER)
/* Functions of few instructions; a copy of another one for every element would be long, so that
 * elements pass through shared memory to one. */
#define SHORT                                                                         \
  (OUTPUT == PAIR_VALUE && BASE != PAIR_POW && BASE != PAIR_RUN_TIME && FUNCTION <= PAIR_MATERN52)

#include "device_view.cuh"
#include "stored.cuh"

typedef stored_as<STORED>::type element;

#include "pair_terms.cuh"
#if HYPERS
#  include "pair_hypers.cuh"
#endif
#include "mma_tile.cuh"

/* Two neighbours: ends of rows of y, and numbers. */
struct __align__(16) two_rows
{
    struct square_row at[2];
};

struct __align__(8) two_numbers
{
    float at[2];
};

/* ---- Shared memory --------------------------------------------------------------------------- */

/* Ends of 128 rows, and the rows of v that are theirs: [column][row]. */
struct side {
    __align__(16) struct square_row end[TILE];
    float v[COLUMNS][TILE];
};

struct memory {
    __align__(128) char stage[STAGES][TENSOR_CHUNK];
    struct side x, y[STAGES];
    float rows[COL_WARPS][COLUMNS][TILE];
    float mirrors[2][ROW_WARPS][COLUMNS][TILE]; /* of two tiles in turn */
#if !SHORT
    float slots[16][THREADS];
#endif
};

static_assert(sizeof(struct memory) == TENSOR_SHARED(COLUMNS, !SHORT),
              "kernel_matmul_params.h knows the size");

/* ---- What a block computes: the same for all of its threads ---------------------------------- */

struct share {
    int there;           /* 0: all shares are done */
    long long item, row; /* of the batch; of the round, its first one */
    const element *x, *y;
    const float *v;
    float *sums; /* of the slice and the group, from row 0 of the round on */
    int columns;
    long long begin, end; /* points */
    const char *x_panel, *y_panel;
    const struct square_row *x_end, *y_end;
    long long mirror_begin, mirror_end; /* points whose elements are mirrored */
    float *mirrors;                     /* of the block and the group */
    float rate;                         /* of PLAIN: f is 2^(rate s^e) */
};

/* The at'th share of a round, if there is one: blocks that follow each other read the same
 * points. */
static __device__ bool find_share(const struct kernel_tensor_params *t, long long at,
                                  struct share *share)
{
    const struct kernel_matmul_params *a = &t->product;
    const struct pair_params *p = &a->pair;
    const long long block = t->strips * TILE;
    const long long blocks = (a->round.rows + block - 1) / block;
    const long long rest = at / blocks, slice = rest % a->slices, slices = rest / a->slices;
    const long long group = slices % a->groups, local = slices / a->groups;
    const long long first = a->round.first_row + at % blocks * block, next = first + block;
    const bool filled = next <= p->cols;

    share->there = local < a->round.items;
    if (!share->there)
        return false;
    share->item = a->round.first_item + local;
    share->row = at % blocks * block;
    share->x = (const element *)p->x.data +
               batch_offset(p->batch_shape, p->batch_ndim, p->x.batch_stride, share->item) +
               a->round.first_row * p->x.row_stride;
    share->y = (const element *)p->y.data +
               batch_offset(p->batch_shape, p->batch_ndim, p->y.batch_stride, share->item);
    share->v = (const float *)a->v.data +
               batch_offset(p->batch_shape, p->batch_ndim, a->v.batch_stride, share->item) +
               group * COLUMNS * a->v.col_stride;
    share->columns = a->columns - group * COLUMNS < COLUMNS ? (int)(a->columns - group * COLUMNS)
                                                            : COLUMNS;
    share->sums = (float *)a->sums +
                  ((local * a->slices + slice) * a->columns + group * COLUMNS) * a->round.rows;
    share->begin = slice * a->slice_points;
    share->end = share->begin + a->slice_points;
    share->end = share->end < p->cols ? share->end : p->cols;
    if (MIRROR && filled && share->begin < first)
        share->begin = first;
    share->mirror_begin = next;
    share->mirror_end = MIRROR && filled ? p->cols / block * block : 0;
    share->mirrors = (float *)a->mirrors +
                     ((local * blocks + at % blocks) * a->columns + group * COLUMNS) * p->cols;
    share->x_panel = t->side[0].data + local * t->side[0].item_bytes +
                     first / TILE * t->chunks * (PLANES * PLANE_X);
    share->y_panel = t->side[1].data + local * t->side[1].item_bytes +
                     share->begin / TILE * t->chunks * (PLANES * PLANE_Y);
    share->x_end = t->side[0].rows + local * t->side[0].item_rows + first;
    share->y_end = t->side[1].rows + local * t->side[1].item_rows + share->begin;
    return true;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* The chunk of a strip that is asked for next: its number, that within its tile, and that tile. */
struct source {
    int step, chunk, tile;
};

/* Queues the ends of the tile's rows of y, and their rows of v: zeros behind the last point. */
static __device__ void copy_side(const struct kernel_tensor_params *t, const struct share *share,
                                 struct side *to, int tile)
{
    const struct device_view *v = &t->product.v;
    const long long first = share->begin + tile * TILE;
    const int thread = (int)threadIdx.x, row = thread % TILE;
    const bool there = first + row < share->end;
    const float *from = share->v + (there ? first + row : share->begin) * v->row_stride;

    if (thread < TILE / 2)
        ptx_copy_async<16>(to->end + thread * 2, share->y_end + tile * TILE + thread * 2, 16);
    for (int c = thread / TILE; c < share->columns; c += THREADS / TILE)
        ptx_copy_async<4>(&to->v[c][row], from + c * v->col_stride, there ? 4 : 0);
}

/* Queues the next chunk of a strip, if there is one. */
static __device__ void copy_next(const struct kernel_tensor_params *t, const struct share *share,
                                 struct memory *memory, struct source *from, int strip, int steps)
{
    if (from->step < steps) {
        char *to = memory->stage[from->step % STAGES];
        copy_all<PLANES * PLANE_X>(to, share->x_panel + (strip * t->chunks + from->chunk) *
                                                            (PLANES * PLANE_X));
        copy_all<PLANES * PLANE_Y>(to + PLANES * PLANE_X,
                                   share->y_panel + (long long)from->step * (PLANES * PLANE_Y));
        if (from->chunk == 0)
            copy_side(t, share, &memory->y[from->tile % STAGES], from->tile);
        if (++from->chunk == (int)t->chunks)
            from->chunk = 0, from->tile++;
        from->step++;
    }
    ptx_copy_commit();
}

/* The ends of a strip's rows, the factors times -2; their rows of v; sums of 0. */
static __device__ void load_strip(const struct kernel_tensor_params *t, const struct share *share,
                                  struct memory *memory, int strip)
{
    const struct device_view *v = &t->product.v;
    const long long rows = t->product.round.rows - share->row - strip * TILE;
    const int row = (int)threadIdx.x % TILE;
    const long long point = t->product.round.first_row + share->row + strip * TILE + row;

    if (threadIdx.x < TILE) {
        struct square_row end = share->x_end[strip * TILE + row];
        end.factor *= -2;
        memory->x.end[row] = end;
    }
    if (MIRROR)
        for (int c = (int)threadIdx.x / TILE; c < share->columns; c += THREADS / TILE)
            memory->x.v[c][row] =
                row < rows ? share->v[point * v->row_stride + c * v->col_stride] : 0.0f;
    for (int w = 0; w < COL_WARPS; w++)
        for (int c = (int)threadIdx.x / TILE; c < share->columns; c += THREADS / TILE)
            memory->rows[w][c][row] = 0;
}

/* ---- Elements of the kernel matrix ----------------------------------------------------------- */

/* A tile, as the epilogue sees it. */
struct tile {
    const struct kernel_tensor_params *t;
    const struct share *share;
    const struct pair_map *map;
    float least;   /* s / N of elements that are not summed again */
    int strip, at; /* at: of the slice */
    int cols;      /* points that it has */
};

/* The sum of the differences' squares, rows counted from those of the tile on. */
static __device__ float direct_sum(const struct tile *tile, int row, int col)
{
    const struct pair_params *p = &tile->t->product.pair;
    const struct share *share = tile->share;
    const long long i = share->row + tile->strip * TILE + row;
    const element *x = share->x + i * p->x.row_stride;
    const element *y = share->y + (share->begin + tile->at * TILE + col) * p->y.row_stride;
    float sum = 0;

    if (i >= tile->t->product.round.rows || col >= tile->cols)
        return 0;
#pragma unroll 2
    for (int k = (int)p->depth; k > 0; k--, x += p->x.col_stride, y += p->y.col_stride) {
        const float d = real_of<STORED>(*x) - real_of<STORED>(*y);
        sum += d * d;
    }
    return sum;
}

/* Whether a sum s of N = limit is exact enough: NaN and infinity are not. */
static __device__ bool is_good(float s, float limit, float least)
{
    return fmaf(-least, limit, s) >= SMALLEST;
}

/* Sums again what is not good of 4 blocks of a thread, from element 0 in this row and column on. */
static __device__ void correct(const struct tile *tile, const struct side *x, const struct side *y,
                               int row, int col, float (*s)[4])
{
    unsigned bits = 0;

#pragma unroll
    for (int j = 0; j < 4; j++) {
        const struct two_rows two = *(const struct two_rows *)(y->end + col + j * 8);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float limit = x->end[row + e / 2 * 8].limit + two.at[e % 2].limit;
            bits |= is_good(s[j][e], limit, tile->least) ? 0 : 1u << (j * 4 + e);
        }
    }
#pragma unroll 1
    for (; bits; bits &= bits - 1) {
        const int bit = __ffs((int)bits) - 1;
        const float sum = direct_sum(tile, row + bit / 2 % 2 * 8, col + bit / 4 * 8 + bit % 2);
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[j][e] = j * 4 + e == bit ? sum : s[j][e];
    }
}

/* f of a finished sum. */
static __device__ float value_of(const struct tile *tile, float s)
{
#if PLAIN
    return ptx_exp2(tile->share->rate * raised(&tile->map->base, BASE, s));
#else
    return mapped(tile->map, s);
#endif
}

static __device__ void map_block(const struct tile *tile, struct memory *memory, float (*s)[4])
{
#if SHORT
#  pragma unroll
    for (int e = 0; e < 16; e++)
        s[e / 4][e % 4] = value_of(tile, s[e / 4][e % 4]);
#else
#  pragma unroll
    for (int e = 0; e < 16; e++)
        memory->slots[e][threadIdx.x] = s[e / 4][e % 4];
#  pragma unroll 1
    for (int e = 0; e < 16; e++)
        memory->slots[e][threadIdx.x] = value_of(tile, memory->slots[e][threadIdx.x]);
#  pragma unroll
    for (int e = 0; e < 16; e++)
        s[e / 4][e % 4] = memory->slots[e][threadIdx.x];
#endif
}

/* From the inner products of a thread to its elements, which are 0 behind the last point. */
static __device__ void find_elements(const struct tile *tile, struct memory *memory,
                                     const struct side *y, float (&acc)[BLOCKS][4])
{
    const struct side *x = &memory->x;
    const unsigned thread = ptx_thread();
    const int col = col_of(0, thread);

#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = row_of(i * 4, thread);
        const struct square_row ends[2] = {x->end[row], x->end[row + 8]};
        float (*s)[4] = acc + i * 4;
        bool good = true;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const struct two_rows two = *(const struct two_rows *)(y->end + col + j * 8);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const struct square_row one = ends[e / 2], other = two.at[e % 2];
                const float limit = one.limit + other.limit;
                s[j][e] = fmaf(s[j][e] * one.factor, other.factor, limit);
                good &= is_good(s[j][e], limit, tile->least);
            }
        }
        if (!good)
            correct(tile, x, y, row, col, s);
        map_block(tile, memory, s);
        if (tile->cols < TILE)
#pragma unroll
            for (int e = 0; e < 16; e++)
                if (col + e / 4 * 8 + e % 2 >= tile->cols)
                    s[e / 4][e % 4] = 0;
    }
}

#if RELAXED
/* The larger of all limits of a warp's rows, added to that of its columns. */
static __device__ float most_norms(const struct side *x, const struct side *y)
{
    const int lane = (int)threadIdx.x % 32, row = row_of(0) / 64 * 64 + lane;
    const float one = x->end[row].limit, two = x->end[row + 32].limit;
    const unsigned rows = __reduce_max_sync(~0u, __float_as_uint(one > two ? one : two));
    const unsigned cols =
        __reduce_max_sync(~0u, __float_as_uint(y->end[col_of(0) / 32 * 32 + lane].limit));

    return __uint_as_float(rows) + __uint_as_float(cols);
}

/* The least s / N as RELAXED says above; most: the largest N. */
static __device__ float least_share(const struct pair_map *map, float most)
{
    const int kind = BASE == PAIR_RUN_TIME ? (int)map->base.kind : BASE;
    const float rate = (float)map->scale;
    float share = 0.25f;

    if (kind == PAIR_SAME && rate * most <= 4)
        share = 0;
    if (kind == PAIR_SQRT)
        share = rate * rate * most / 64;
    return share >= 0.25f || share != share ? 0.25f : share < 0x1p-10f ? 0x1p-10f : share;
}
#endif

/* ---- Products -------------------------------------------------------------------------------- */

/* Of 2 COUNT numbers a lane keeps those of its half, with what the lane `apart` adds to them. */
template <int COUNT> static __device__ void halve(float *s, int apart)
{
    const bool high = threadIdx.x & (unsigned)apart;

#pragma unroll
    for (int n = 0; n < COUNT; n++) {
        const float sent = high ? s[n] : s[n + COUNT], kept = high ? s[n + COUNT] : s[n];
        s[n] = kept + __shfl_xor_sync(~0u, sent, apart);
    }
}

/* Adds the products with a column of v to the sums of rows: a lane keeps rows row_of(t * 4) and
 * 8 behind it, t = lane % 4. */
static __device__ void add_rows(const float (&k)[BLOCKS][4], const float *v, float *rows)
{
    const unsigned thread = ptx_thread();
    const int col = col_of(0, thread), row = row_of((int)thread % 4 * 4, thread);
    float sum[8] = {};

#pragma unroll
    for (int j = 0; j < 4; j++) {
        const struct two_numbers two = *(const struct two_numbers *)(v + col + j * 8);
#pragma unroll
        for (int n = 0; n < 8; n++)
            sum[n] = fmaf(k[n / 2 * 4 + j][n % 2 * 2 + 1], two.at[1],
                          fmaf(k[n / 2 * 4 + j][n % 2 * 2], two.at[0], sum[n]));
    }
    halve<4>(sum, 2);
    halve<2>(sum, 1);
    rows[row] += sum[0];
    rows[row + 8] += sum[1];
}

#if MIRROR
/* The products with the rows of v that belong to x, summed over the rows of a warp: a lane has
 * column col_of(g / 2) + g % 2, g = lane / 4. */
static __device__ void add_mirrors(const float (&k)[BLOCKS][4], const float *w, float *mirrors)
{
    const unsigned thread = ptx_thread();
    const int g = (int)thread % 32 / 4, col = col_of(g / 2, thread) + g % 2;
    float sum[8] = {};

#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = row_of(i * 4, thread);
        const float one = w[row], two = w[row + 8];
#pragma unroll
        for (int n = 0; n < 8; n++)
            sum[n] = fmaf(k[i * 4 + n / 2][n % 2 + 2], two,
                          fmaf(k[i * 4 + n / 2][n % 2], one, sum[n]));
    }
    halve<4>(sum, 16);
    halve<2>(sum, 8);
    halve<1>(sum, 4);
    mirrors[col] = sum[0];
}

/* The sums of a tile's mirror images go to their place, by the same threads for every strip. */
static __device__ void store_mirrors(const struct tile *tile, const struct memory *memory, int at)
{
    const struct share *share = tile->share;
    const long long points = tile->t->product.pair.cols;
    const int col = (int)threadIdx.x % TILE;
    const bool valid = !HYPERS || tile->map->valid;

    for (int c = (int)threadIdx.x / TILE; c < share->columns; c += THREADS / TILE) {
        float *to = share->mirrors + c * points + share->begin + at * TILE + col;
        const float sum = memory->mirrors[at % 2][0][c][col] + memory->mirrors[at % 2][1][c][col];
        *to = !valid ? __int_as_float(0x7fc00000) : tile->strip == 0 ? sum : *to + sum;
    }
}
#endif

/* Whether the elements of the slice's tile serve mirror images: all of its points do, or none. */
static __device__ bool is_mirrored(const struct share *share, int at)
{
    const long long first = share->begin + at * TILE;

    return MIRROR && first >= share->mirror_begin && first < share->mirror_end;
}

/* From the inner products of a tile to the sums. */
static __device__ void finish_tile(struct tile *tile, struct memory *memory,
                                   float (&acc)[BLOCKS][4])
{
    const struct share *share = tile->share;
    const struct side *y = &memory->y[tile->at % STAGES];
    const long long left = share->end - share->begin - tile->at * TILE;
    const int warp = (int)ptx_thread() / 32;
    const bool mirrored = is_mirrored(share, tile->at);

    tile->cols = left < TILE ? (int)left : TILE;
#if RELAXED
    tile->least = least_share(tile->map, most_norms(&memory->x, y));
#else
    tile->least = 0.25f;
#endif
    find_elements(tile, memory, y, acc);
#pragma unroll 1
    for (int c = 0; c < share->columns; c++) {
        add_rows(acc, y->v[c], memory->rows[warp % COL_WARPS][c]);
#if MIRROR
        if (mirrored)
            add_mirrors(acc, memory->x.v[c], memory->mirrors[tile->at % 2][warp / COL_WARPS][c]);
#endif
    }
}

/* The warps' sums of a strip's rows go to their place. */
static __device__ void store_rows(const struct tile *tile, const struct memory *memory)
{
    const struct share *share = tile->share;
    const long long rows = tile->t->product.round.rows;
    const int row = (int)threadIdx.x % TILE;
    const long long at = share->row + tile->strip * TILE + row;
    const bool valid = !HYPERS || tile->map->valid;

    for (int c = (int)threadIdx.x / TILE; c < share->columns; c += THREADS / TILE) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < COL_WARPS; w++)
            sum += memory->rows[w][c][row];
        if (at < rows)
            share->sums[c * rows + at] = valid ? sum : __int_as_float(0x7fc00000);
    }
}

static __device__ void multiply_strip(struct tile *tile, struct memory *memory)
{
    const struct kernel_tensor_params *t = tile->t;
    const struct share *share = tile->share;
    const int chunks = (int)t->chunks;
    const int tiles = (int)((share->end - share->begin + TILE - 1) / TILE), steps = tiles * chunks;
    struct source from = {0, 0, 0};
    float acc[BLOCKS][4] = {};
    int chunk = 0;

    __syncthreads(); /* the last strip is stored */
    load_strip(t, share, memory, tile->strip);
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        copy_next(t, share, memory, &from, tile->strip, steps);
    tile->at = 0;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
        ptx_copy_wait<STAGES - 2>();
        __syncthreads(); /* this chunk is there, and the last one is no longer read */
        copy_next(t, share, memory, &from, tile->strip, steps);
#if MIRROR
        if (chunk == 0 && tile->at > 0 && is_mirrored(share, tile->at - 1))
            store_mirrors(tile, memory, tile->at - 1);
#endif
        const char *stage = memory->stage[s % STAGES];
        multiply(acc, stage, stage + PLANES * PLANE_X, 0);
        if (++chunk < chunks)
            continue;
        finish_tile(tile, memory, acc);
#pragma unroll
        for (int e = 0; e < BLOCKS * 4; e++)
            acc[e / 4][e % 4] = 0;
        chunk = 0, tile->at++;
    }
    ptx_copy_wait<0>();
    __syncthreads(); /* all sums are there */
#if MIRROR
    if (is_mirrored(share, tiles - 1))
        store_mirrors(tile, memory, tiles - 1);
#endif
    store_rows(tile, memory);
}

/* -r log2 e, for f = e^-t, t = r s^e. */
static __device__ float rate_of(const struct pair_map *map)
{
    const double steep = map->scale * 1.4426950408889634;

    return -(float)(steep < (double)LARGEST ? steep : (double)LARGEST);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    kernel_matmul_tensor(const __grid_constant__ struct kernel_tensor_params a)
{
    extern __shared__ __align__(128) char bytes[];
    __shared__ struct share share;
#if HYPERS
    __shared__ struct pair_map map;
#else
    const struct pair_map &map = a.product.pair.map;
#endif

    for (int round = 0;; round++) {
        __syncthreads(); /* the last share is done */
        if (threadIdx.x == 0 &&
            find_share(&a, (long long)round * gridDim.x + blockIdx.x, &share)) {
#if HYPERS
            prepare(&a.product.pair, share.item, &map);
#endif
            share.rate = rate_of(&map);
        }
        __syncthreads();
        if (!share.there)
            break;
        if (share.begin >= share.end)
            continue;
        struct tile tile = {&a, &share, &map, 0};
        for (; tile.strip < a.strips && share.row + tile.strip * TILE < a.product.round.rows;
             tile.strip++)
            multiply_strip(&tile, (struct memory *)bytes);
    }
}
