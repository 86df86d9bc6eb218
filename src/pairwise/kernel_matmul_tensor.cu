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
 * How they are multiplied depends on the columns of v: kernel_matmul_narrow.cuh uses each element
 * for its mirror image too, and kernel_matmul_wide.cuh has tensor cores multiply.  The order of all
 * sums follows from the sizes of the problem alone.
 *
 * As in cdist_mma.cu, with e the rows shifted by one vector and N = |e_x|^2 + |e_y|^2,
 *   s = N - 2 e_x.e_y
 * is wrong by at most (8 + 3 k / 8) eps N: halves and the last additions cost 8 eps N, and tensor
 * cores, which truncate, at most 2 eps of a partial sum, which is at most N / 2, for each of three
 * products of 16 columns, twice.  gram.h allows a distance (k + 8) eps + 1e-6 of itself, and so s
 * (2 k + 32) eps: enough where s >= N / 4.  All other elements, and those where numbers over- or
 * underflow, are summed again from differences, by the thread that has them.
 *
 * With RELAXED fewer are.  For f = e^-t, t = r s^e, and for Matern functions |df / dt| <= |f|, so
 * that f is wrong by |f| r e s^(e - 1) times the error of s.  That is at most A eps |f| where
 *   r N <= A / (8 + 3 k / 8),  e = 1;     r N <= 2 s^(1/2) A / (8 + 3 k / 8),  e = 1/2.
 * A is n - 32, and at most 512.  The error that gram.h allows a product has (n + 8) eps |f v| for
 * each point, of which sums take
 * fewer than 40 eps.  Points that coincide have a computed s below 2^-16 N with k <= 256, and below
 * N / 1024 in any case: these are summed again all the same, so that f(0) is right to the last bit.
 *
 * Rows and columns of a warp mostly have one factor.  Its sums are then compared with one bound,
 * that of the largest N, and no other test is made as long as none is below.
 *
 * Parameters (-D), set by cuda_kernel_matmul_tensor.c:
 *   STORED, FUNCTION, OUTPUT, BASE, SLOPE, HYPERS
 *             as in cdist.cu, whose STEP is PAIR_TWO
 *   COLUMNS   of v that a pass takes at most
 *   WIDE      1: kernel_matmul_wide.cuh multiplies, else kernel_matmul_narrow.cuh
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
#define WARP_ROWS (WIDE ? 16 : 64)
#define STAGES    (WIDE ? WIDE_STAGES : TENSOR_STAGES(COLUMNS))

/* e^-t alone, t a positive multiple of a power of the sum */
#define PLAIN                                                                          \
  (OUTPUT == PAIR_VALUE && FUNCTION >= PAIR_LAPLACE && FUNCTION <= PAIR_EXPONENTIAL_POWER)
/* Sums come times r log2 e, so that f is 2^-sum. */
#define SCALED (PLAIN && BASE == PAIR_SAME)
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

/* Ends of 128 rows, and the rows of v that are theirs: [column][row], or a panel of them. */
struct side {
    __align__(16) struct square_row end[TILE];
#if WIDE
    __align__(16) char v[WIDE_PANEL(COLUMNS)];
#else
    float v[COLUMNS][TILE];
#endif
};

struct memory {
    __align__(128) char stage[STAGES][TENSOR_CHUNK];
#if WIDE
    struct side y[STAGES];
    struct {
        __align__(16) struct square_row end[TILE];
    } x;
#else
    struct side x, y[STAGES];
    float rows[ACROSS][COLUMNS][TILE];
    float mirrors[2][TILE / WARP_ROWS][COLUMNS][TILE]; /* of two tiles in turn */
#endif
#if !SHORT
    float slots[16][THREADS];
#endif
};

static_assert(sizeof(struct memory) ==
                  (WIDE ? WIDE_SHARED(COLUMNS) : TENSOR_SHARED(COLUMNS, !SHORT)),
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
    int points;           /* end - begin */
    const char *x_panel, *y_panel, *v_panel; /* v_panel: with WIDE */
    const struct square_row *x_end, *y_end;
    int kept;                     /* 1: a stage has the same chunk of x in every tile */
    int mirror_begin, mirror_end; /* tiles of the slice whose elements are mirrored */
    float *mirrors;                     /* of the block and the group */
    float rate;                         /* of PLAIN: f is 2^-(rate s^e) */
    float slack;                        /* of RELAXED: (8 + 3 k / 8) / A */
};

/* Tiles of the slice that begin before a point. */
static __device__ int tiles_until(const struct share *share, long long point)
{
    return point <= share->begin ? 0 : (int)((point - share->begin + TILE - 1) / TILE);
}

/* Of v. */
static __device__ int columns_of(const struct share *share)
{
    return COLUMNS == 1 ? 1 : share->columns;
}

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
    share->points = share->end > share->begin ? (int)(share->end - share->begin) : 0;
    share->slack = (8 + 0.375f * (float)p->depth) / (float)(p->cols < 544 ? p->cols - 32 : 512);
    share->kept = t->chunks <= STAGES && STAGES % (int)t->chunks == 0;
    share->mirror_begin = tiles_until(share, next);
    share->mirror_end = MIRROR && filled ? tiles_until(share, p->cols / block * block) : 0;
    share->mirrors = (float *)a->mirrors +
                     ((local * blocks + at % blocks) * a->columns + group * COLUMNS) * p->cols;
    share->x_panel = t->side[0].data + local * t->side[0].item_bytes +
                     first / TILE * t->chunks * (PLANES * PLANE_X);
    share->y_panel = t->side[1].data + local * t->side[1].item_bytes +
                     share->begin / TILE * t->chunks * (PLANES * PLANE_Y);
    share->v_panel = t->v_panels + (local * a->groups + group) * t->v_group_bytes +
                     share->begin / TILE * WIDE_PANEL(COLUMNS);
    share->x_end = t->side[0].rows + local * t->side[0].item_rows + first;
    share->y_end = t->side[1].rows + local * t->side[1].item_rows + share->begin;
    return true;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* The chunk of a strip that is asked for next: its number, that within its tile, and that tile;
 * where it goes, and the tile's side; its panel of y, and this thread's row of v. */
struct source {
    int step, chunk, tile, stage, side;
    const char *y;
    const float *v; /* without WIDE */
};

static __device__ int next_of(int stage)
{
    return stage + 1 == STAGES ? 0 : stage + 1;
}

static __device__ struct source first_source(const struct kernel_tensor_params *t,
                                             const struct share *share)
{
    const long long row = share->begin + threadIdx.x % TILE;

    return {0, 0, 0, 0, 0, share->y_panel, share->v + row * t->product.v.row_stride};
}

/* Queues the ends of the tile's rows of y, and their rows of v: zeros behind the last point. */
static __device__ void copy_side(const struct kernel_tensor_params *t, const struct share *share,
                                 struct side *to, struct source *from)
{
    const unsigned thread = threadIdx.x;

    if (thread < TILE / 2)
        ptx_copy_async<16>(to->end + thread * 2, share->y_end + from->tile * TILE + thread * 2, 16);
#if WIDE
    copy_all<WIDE_PANEL(COLUMNS)>(to->v,
                                  share->v_panel + (long long)from->tile * WIDE_PANEL(COLUMNS));
#else
    const struct device_view *v = &t->product.v;
    const unsigned row = thread % TILE;
    const bool there = row < share->points - from->tile * TILE;
    const float *one = there ? from->v : share->v; /* an address that may be read */

#  pragma unroll 1
    for (int c = (int)(thread / TILE); c < columns_of(share); c += THREADS / TILE)
        ptx_copy_async<4>(&to->v[c][row], one + c * v->col_stride, there ? 4 : 0);
    from->v += TILE * v->row_stride;
#endif
}

/* Queues the next chunk of a strip, if there is one. */
static __device__ void copy_next(const struct kernel_tensor_params *t, const struct share *share,
                                 struct memory *memory, struct source *from, int strip, int steps)
{
    const int chunks = (int)t->chunks;

    if (from->step < steps) {
        char *to = memory->stage[from->stage];
        if (from->step < STAGES || !share->kept)
            copy_all<PLANES * PLANE_X>(to, share->x_panel + ((long long)strip * chunks +
                                                             from->chunk) *
                                                                (PLANES * PLANE_X));
        copy_all<PLANES * PLANE_Y>(to + PLANES * PLANE_X, from->y);
        from->y += PLANES * PLANE_Y;
        if (from->chunk == 0)
            copy_side(t, share, &memory->y[from->side], from);
        if (++from->chunk == chunks)
            from->chunk = 0, from->tile++, from->side = next_of(from->side);
        from->step++, from->stage = next_of(from->stage);
    }
    ptx_copy_commit();
}

/* The ends of a strip's rows, the factors times -2; their rows of v; sums of 0. */
static __device__ void load_strip(const struct kernel_tensor_params *t, const struct share *share,
                                  struct memory *memory, int strip)
{
    const int row = (int)threadIdx.x % TILE;
#if !WIDE
    const struct device_view *v = &t->product.v;
    const long long rows = t->product.round.rows - share->row - strip * TILE;
    const long long point = t->product.round.first_row + share->row + strip * TILE + row;
#endif

    if (threadIdx.x < TILE) {
        struct square_row end = share->x_end[strip * TILE + row];
        end.factor *= -2;
        memory->x.end[row] = end;
    }
#if !WIDE
    if (MIRROR)
#  pragma unroll 1
        for (int c = (int)threadIdx.x / TILE; c < columns_of(share); c += THREADS / TILE)
            memory->x.v[c][row] =
                row < rows ? share->v[point * v->row_stride + c * v->col_stride] : 0.0f;
    for (int w = 0; w < ACROSS; w++)
#  pragma unroll 1
        for (int c = (int)threadIdx.x / TILE; c < columns_of(share); c += THREADS / TILE)
            memory->rows[w][c][row] = 0;
#endif
}

/* ---- Elements of the kernel matrix ----------------------------------------------------------- */

/* A tile, as the epilogue sees it. */
struct tile {
    const struct kernel_tensor_params *t;
    const struct share *share;
    const struct pair_map *map;
    struct square_row rows; /* what those of the warp have in common */
    float least;            /* s / N of elements that are not summed again */
    int strip, at;          /* at: of the slice */
    int cols;               /* points that it has */
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
static __device__ bool is_good(float s, float limit, float least, float smallest)
{
    return fmaf(-least, limit, s) >= smallest;
}

/* Sums again what is not good of 4 blocks of a thread, from element 0 in this row and column on;
 * sums come times unit. */
static __device__ void correct(const struct tile *tile, const struct square_row *x,
                               const struct square_row *y, int row, int col, float unit,
                               float (*s)[4])
{
    unsigned bits = 0;

#pragma unroll
    for (int j = 0; j < 4; j++) {
        const struct two_rows two = *(const struct two_rows *)(y + col + j * 8);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float limit = x[row + e / 2 * 8].limit + two.at[e % 2].limit;
            bits |= is_good(s[j][e], limit * unit, tile->least, unit * SMALLEST)
                        ? 0
                        : 1u << (j * 4 + e);
        }
    }
#pragma unroll 1
    for (; bits; bits &= bits - 1) {
        const int bit = __ffs((int)bits) - 1;
        const float sum =
            direct_sum(tile, row + bit / 2 % 2 * 8, col + bit / 4 * 8 + bit % 2) * unit;
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[j][e] = j * 4 + e == bit ? sum : s[j][e];
    }
}

/* f of a finished sum, which comes times unit_of. */
static __device__ float value_of(const struct tile *tile, float s)
{
#if SCALED
    return ptx_exp2(-s);
#elif PLAIN
    return ptx_exp2(-tile->share->rate * raised(&tile->map->base, BASE, s));
#else
    return mapped(tile->map, s);
#endif
}

static __device__ float unit_of(const struct tile *tile)
{
    return SCALED ? tile->share->rate : 1;
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

/* The largest limit of some rows, and their factor, 0 where they have several. */
template <int COUNT> static __device__ struct square_row common_of(const struct square_row *end)
{
    const unsigned lane = ptx_thread() % 32;
    const float factor = end->factor;
    unsigned most = 0;
    bool same = true;

#pragma unroll
    for (int i = 0; i < COUNT; i += 32) {
        const struct square_row row = end[lane % COUNT + i];
        const unsigned limit = __float_as_uint(row.limit); /* NaN is the largest one */
        most = limit > most ? limit : most;
        same &= row.factor == factor;
    }
    same = __all_sync(~0u, same);
    return {__uint_as_float(__reduce_max_sync(~0u, most)), same ? factor : 0};
}

#if RELAXED
/* The least s / N as RELAXED says above; most: the largest N. */
static __device__ float least_share(const struct tile *tile, float most)
{
    const struct pair_map *map = tile->map;
    const float least = tile->t->product.pair.depth <= 256 ? 0x1p-16f : 0x1p-10f;
    const int kind = BASE == PAIR_RUN_TIME ? (int)map->base.kind : BASE;
    const float rate = (float)map->scale, slack = tile->share->slack;
    float share = 0.25f;

    if (kind == PAIR_SAME && rate * most * slack <= 1)
        share = 0;
    if (kind == PAIR_SQRT)
        share = (rate * slack / 2) * (rate * slack / 2) * most;
    return share >= 0.25f || share != share ? 0.25f : share < least ? least : share;
}
#endif

/* What holds for all elements of a warp whose rows have one factor, and its columns too. */
struct alike {
    bool there;
    float factor; /* of the inner products */
    int least;    /* the bits of a sum: none below it is good */
};

/* Rows and columns of the tile that a warp has; sets tile->least.  An element then needs no test of
 * its own N: one of the largest N will do, where few sums are near it. */
static __device__ struct alike find_alike(struct tile *tile, const struct square_row *y)
{
    struct alike alike = {false, 0, 0};

    tile->least = 0.25f;
#if RELAXED
    const struct square_row cols = common_of<WARP_COLS>(y + ptx_thread() / 32 % ACROSS * WARP_COLS);
    const float unit = unit_of(tile), most = tile->rows.limit + cols.limit;

    tile->least = least_share(tile, most);
    const float bound = unit * tile->least * most;
    alike.factor = unit * tile->rows.factor * cols.factor;
    alike.least = __float_as_int(bound > unit * SMALLEST ? bound : unit * SMALLEST);
    alike.there = alike.factor != 0 && tile->least <= 0.0625f && unit * most < 0x1p100f;
#endif
    return alike;
}

/* The sums of a thread from its inner products, times unit.  False if one may not be good. */
static __device__ bool sum_alike(const struct tile *tile, const struct alike *alike,
                                 const struct square_row *x, const struct square_row *y,
                                 float (&s)[BLOCKS][4])
{
    const float unit = unit_of(tile);
    const unsigned thread = ptx_thread();
    int least = 0x7fffffff; /* positive numbers have the order of their bits, others are less */
    float cols[2 * COL_BLOCKS];

    x += row_of(0, thread), y += col_of(0, thread);
#pragma unroll
    for (int j = 0; j < 2 * COL_BLOCKS; j++)
        cols[j] = unit * y[j / 2 * 8 + j % 2].limit;
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; i++) {
        const float rows[2] = {unit * x[i * 16].limit, unit * x[i * 16 + 8].limit};
#pragma unroll
        for (int e = 0; e < 4 * COL_BLOCKS; e++) {
            float *one = &s[i * COL_BLOCKS + e / 4][e % 4];
            *one = fmaf(*one, alike->factor, rows[e % 4 / 2] + cols[e / 4 * 2 + e % 2]);
            least = min(least, __float_as_int(*one));
        }
    }
    return least >= alike->least;
}

/* Of 4 blocks, for any rows and columns, times unit, and whether all are good. */
static __device__ bool sum_any(const struct tile *tile, const struct square_row *x,
                               const struct square_row *y, int row, int col, float unit,
                               float (*s)[4])
{
    const struct square_row ends[2] = {x[row], x[row + 8]};
    bool good = true;

#pragma unroll
    for (int j = 0; j < 4; j++) {
        const struct two_rows two = *(const struct two_rows *)(y + col + j * 8);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const struct square_row one = ends[e / 2], other = two.at[e % 2];
            const float limit = one.limit + other.limit;
            s[j][e] = fmaf(s[j][e] * one.factor, other.factor, limit);
            good &= is_good(s[j][e], limit, tile->least, SMALLEST);
            s[j][e] *= unit;
        }
    }
    return good;
}

/* From the inner products of a thread to its elements; without WIDE, whose panels of v have zeros
 * there, they are 0 behind the last point. */
static __device__ void find_elements(struct tile *tile, struct memory *memory,
                                     const struct square_row *y, float (&acc)[BLOCKS][4])
{
    const struct square_row *x = memory->x.end;
    const unsigned thread = ptx_thread();
    const struct alike alike = find_alike(tile, y);
    const float unit = unit_of(tile);

    if (!alike.there || !sum_alike(tile, &alike, x, y, acc))
#pragma unroll
        for (int b = 0; b < BLOCKS; b += 4) {
            const int row = row_of(b, thread), col = col_of(b, thread);
            if (alike.there || !sum_any(tile, x, y, row, col, unit, acc + b))
                correct(tile, x, y, row, col, unit, acc + b);
        }
#pragma unroll
    for (int b = 0; b < BLOCKS; b += 4)
        map_block(tile, memory, acc + b);
    if (!WIDE && tile->cols < TILE)
#pragma unroll
        for (int e = 0; e < BLOCKS * 4; e++)
            if (col_of(e / 4, thread) + e % 2 >= tile->cols)
                acc[e / 4][e % 4] = 0;
}

#if WIDE
#  include "kernel_matmul_wide.cuh"
#else
#  include "kernel_matmul_narrow.cuh"
#endif

/* ---- Strips -------------------------------------------------------------------------------- */

static __device__ void multiply_strip(struct tile *tile, struct memory *memory)
{
    const struct kernel_tensor_params *t = tile->t;
    const struct share *share = tile->share;
    const int chunks = (int)t->chunks;
    const int tiles = (share->points + TILE - 1) / TILE, steps = tiles * chunks;
    struct source from = first_source(t, share);
    float acc[BLOCKS][4];
    struct sums sums = {};
    int stage = 0, side = 0;

    __syncthreads(); /* the last strip is stored */
    load_strip(t, share, memory, tile->strip);
#pragma unroll 1
    for (int s = 0; s < STAGES - 1; s++)
        copy_next(t, share, memory, &from, tile->strip, steps);
    __syncthreads(); /* the ends of rows are there */
    tile->rows = common_of<WARP_ROWS>(memory->x.end + ptx_thread() / 32 / ACROSS * WARP_ROWS);
    tile->at = 0;
#pragma unroll 1
    for (; tile->at < tiles; tile->at++, side = next_of(side)) {
#pragma unroll 1
        for (int chunk = 0; chunk < chunks; chunk++, stage = next_of(stage)) {
            ptx_copy_wait<STAGES - 2>();
            __syncthreads(); /* this chunk is there, and the last one is no longer read */
            copy_next(t, share, memory, &from, tile->strip, steps);
#if MIRROR
            if (chunk == 0 && tile->at > 0 && is_mirrored(share, tile->at - 1))
                store_mirrors(tile, memory, tile->at - 1);
#endif
            const char *x = memory->stage[stage], *y = x + PLANES * PLANE_X;
            if (chunk == 0)
                multiply<true>(acc, x, y, 0);
            else
                multiply(acc, x, y, 0);
        }
        const int left = share->points - tile->at * TILE;
        tile->cols = left < TILE ? left : TILE;
        finish_tile(tile, memory, &memory->y[side], acc, &sums);
    }
    ptx_copy_wait<0>();
    __syncthreads(); /* all sums are there */
#if MIRROR
    if (is_mirrored(share, tiles - 1))
        store_mirrors(tile, memory, tiles - 1);
#endif
    store_rows(tile, memory, &sums);
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
            share.rate = binary_rate(&map);
        }
        __syncthreads();
        if (!share.there)
            break;
        if (share.begin >= share.end)
            continue;
        struct tile tile = {&a, &share, &map};
        for (; tile.strip < a.strips && share.row + tile.strip * TILE < a.product.round.rows;
             tile.strip++)
            multiply_strip(&tile, (struct memory *)bytes);
    }
}
