/*
 * cdist_pack.cu - the rows of x and y as 16-bit numbers for the tensor cores, see pair_params.h
 *
 * A coordinate e of a row (for squared distances, of the difference to a centre, which changes no
 * distance) becomes hi + lo, binary16 both, after the row was multiplied by a power of two.  That
 * brings its largest coordinate to [2^14, 2^15):
 *     |e - hi - lo| <= 2^-23 |e|       where |e| >= 2^-16 of the row's largest
 *                   <= 2^-39 of the row's largest, elsewhere
 * Numbers of 16 bits that are not centred need no lo (PLANES 1).  For squared distances the powers
 * are twelve binary digits apart, so that rows whose largest coordinates are within [2^-8, 2^4), as
 * in most data, have one in common; a row's largest comes to [2^3, 2^15), and 2^-39 is 2^-28.
 *
 * Parameters (-D): STORED and STEP as in cdist.cu, PLANES, BK, COSINE (1: rows end up with norm 1).
 * A warp packs eight rows; its lane 8 q + r reads columns 8 q .. 8 q + 7 of every 32 of row r.
 *
 * SPDX-License-Identifier: MIT
 */
#define HYPERS 0 /* of no interest here */
#include "ptx.cuh"
#include "pair_params.h"

#if PLANES != 1 && PLANES != 2
#  error "cdist_pack.cu: PLANES must be 1 or 2"
#endif

#define REAL         float
#define THREADS      256
#define CENTRED      (STEP == PAIR_TWO)
#define SMALL        0.25f /* 2^-16 of a row's largest: lo has all its digits from here on */
#define COMMON_SHIFT 11    /* of rows of [2^-8, 2^4), squared distances */
#define SUM_LANES    8     /* of cdist_centre: that add up a column */
#define INFINITE     __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)

#include "stored.cuh"

typedef stored_as<STORED>::type element;
#include "real_power.cuh"

/* The first element of an item of a side. */
static __device__ const element *item_of(const struct square_params *a, int which, long long item)
{
    const struct device_view *side = which ? &a->pair.y : &a->pair.x;
    long long offset = 0;

    item += a->first;
    for (int i = (int)a->pair.batch_ndim - 1; i >= 0; i--) {
        offset += item % a->pair.batch_shape[i] * side->batch_stride[i];
        item /= a->pair.batch_shape[i];
    }
    return (const element *)side->data + offset;
}

/* The mean of some rows of y; 0 where it is no number.  A block does 32 columns of an item. */
extern "C" __global__ void __launch_bounds__(THREADS)
    cdist_centre(const __grid_constant__ struct square_params a)
{
    __shared__ float sums[SUM_LANES][32];
    const long long blocks = (a.pair.depth + 31) / 32;
    const long long item = blockIdx.x / blocks, k = blockIdx.x % blocks * 32 + threadIdx.x % 32;
    const long long rows = a.pair.cols, step = (rows + SQUARE_SAMPLE - 1) / SQUARE_SAMPLE;
    const int lane = (int)threadIdx.x / 32;
    float sum = 0;

    if (k < a.pair.depth) {
        const element *from = item_of(&a, 1, item) + k * a.pair.y.col_stride;
        for (long long row = lane * step; row < rows; row += SUM_LANES * step)
            sum += real_of<STORED>(from[row * a.pair.y.row_stride]);
    }
    sums[lane][threadIdx.x % 32] = sum;
    __syncthreads();
    if (lane > 0 || k >= a.pair.depth)
        return;
    for (int i = 1; i < SUM_LANES; i++)
        sum += sums[i][threadIdx.x];
    sum /= (float)((rows + step - 1) / step);
    a.centre[item * a.pair.depth + k] = sum - sum == 0 ? sum : 0;
}

/* Where a lane reads. */
struct source {
    const element *from; /* its row; NULL: past the last one */
    const float *centre;
    long long col_stride, depth;
};

static __device__ float read(const struct source *s, long long k)
{
    if (!s->from || k >= s->depth)
        return 0;
    return real_of<STORED>(s->from[k * s->col_stride]) - (CENTRED ? s->centre[k] : 0.0f);
}

/* e for x in [2^e, 2^(e+1)), finite and not 0 */
static __device__ int exponent_of(float x)
{
    const bool small = x < power_of_two(-126);

    return (int)((unsigned)__float_as_int(small ? x * power_of_two(24) : x) >> 23) - 127 -
           (small ? 24 : 0);
}

/* The exponent of the scale of a row whose largest coordinate has this one. */
static __device__ int shift_of(int exponent)
{
    if (!CENTRED || COSINE)
        return 14 - exponent;
    const int above = 3 - exponent; /* counted from the largest with COMMON_SHIFT; >= -125 */
    return COMMON_SHIFT + (above + 132) / 12 * 12 - 132;
}

/*
 * What the sums of a row need at the end, from acc, the sum of the products of scaled rows; `shift`
 * is the exponent of the row's scale:
 *   squares  limit |e|^2, factor 2^-shift
 *   cosine   limit 0, factor 1 / |scaled row|
 *   dot      factor -shift; |acc| below the sum of both limits has lost digits to coordinates that
 *            were too small for binary16: lost, times the largest of the other row, 2^15, and 2^23
 * A limit of infinity or NaN: no product of this row counts; NaN: all its sums are NaN.
 */
static __device__ struct square_row scale_of(double squares, int shift, float lost)
{
    const bool finite = squares <= 0x1.fffffffffffffp1023;
    struct square_row row = {squares != squares ? NOT_A_NUMBER : INFINITE, 0};

    if (COSINE && finite) {
        const double scale = (double)power_of_two(shift / 2) * power_of_two(shift - shift / 2);
        row.limit = 0, row.factor = squares > 0 ? 1 / sqrtf((float)(squares * scale * scale)) : 0;
    } else if (COSINE)
        row.limit = row.factor = NOT_A_NUMBER;
    else if (CENTRED) {
        row.limit = (float)squares;
        row.limit =
            row.limit == 0 && squares > 0 ? 0x1p-149f : row.limit; /* 0: the centre itself */
        row.factor = shift > 126 ? 0 : power_of_two(-shift);
    } else {
        if (finite)
            row.limit = lost * 0x1p38f;
        row.factor = (float)-shift;
    }
    return row;
}

static __device__ float over_row(float value, bool largest)
{
    for (int lane = 8; lane <= 16; lane *= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, lane);
        value = !largest ? value + other : other > value ? other : value;
    }
    return value;
}

static __device__ double sum_over_row(double value)
{
    for (int lane = 8; lane <= 16; lane *= 2)
        value += __shfl_xor_sync(0xffffffffu, value, lane);
    return value;
}

struct __align__(16) eight
{
    unsigned short at[8];
};

/* Eight columns of a row, from k on, to their places; gives what is lost of them. */
static __device__ float pack_group(const struct source *s, long long k, int shift, char *to,
                                   long long plane_bytes)
{
    const float first = power_of_two(shift / 2), second = power_of_two(shift - shift / 2);
    struct eight hi, lo;
    float lost = 0;

#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float value = read(s, k + i) * first * second;
        hi.at[i] = ptx_half_of_float(value);
        float rest = value - ptx_float_of_half(hi.at[i]);
        if (PLANES == 2) {
            lo.at[i] = ptx_half_of_float(rest);
            rest -= ptx_float_of_half(lo.at[i]);
        }
        if (PLANES == 1 || fabsf(value) < SMALL)
            lost += fabsf(rest);
    }
    *(struct eight *)to = hi;
    if (PLANES == 2)
        *(struct eight *)(to + plane_bytes) = lo;
    return lost;
}

/* The eight rows of group `group` of a side of an item. */
static __device__ void pack_rows(const struct square_params *a, int which, long long item,
                                 long long group)
{
    const struct device_view *side = which ? &a->pair.y : &a->pair.x;
    const struct square_panels *panels = &a->side[which];
    const int lane = (int)threadIdx.x % 32, q = lane / 8;
    const long long row = group * 8 + lane % 8, panel = row / SQUARE_ROWS;
    const long long plane_bytes = SQUARE_ROWS * BK * 2, padded = a->chunks * BK;
    struct source s = {nullptr, a->centre + item * a->pair.depth, side->col_stride, a->pair.depth};
    double squares = 0;
    float largest = 0, lost = 0;

    if (row < (which ? a->pair.cols : a->pair.rows))
        s.from = item_of(a, which, item) + row * side->row_stride;
    for (long long k = 8 * q; k < s.depth; k += 32)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float value = read(&s, k + i), size = fabsf(value);
            squares += (double)value * (double)value;
            largest = size > largest ? size : largest;
        }
    squares = sum_over_row(squares);
    largest = over_row(largest, true);
    if (!(squares <= 0x1.fffffffffffffp1023))
        s.from = nullptr, largest = 0;
    const int shift = largest > 0 ? shift_of(exponent_of(largest)) : CENTRED ? COMMON_SHIFT : 0;
    char *to = panels->data + item * panels->item_bytes +
               panel * SQUARE_ROWS * padded * 2 * PLANES + (row - panel * SQUARE_ROWS) * 16;
    for (long long k = 8 * q; k < padded; k += 32)
        lost += pack_group(&s, k, shift,
                           to + k / BK * plane_bytes * PLANES + k % BK / 8 * SQUARE_ROWS * 16,
                           plane_bytes);
    lost = over_row(lost, false);
    if (q == 0)
        panels->rows[item * panels->item_rows + row] = scale_of(squares, shift, lost);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    cdist_pack(const __grid_constant__ struct square_params a)
{
    const long long x_groups = a.side[0].item_rows / 8,
                    groups = x_groups + (a.sides > 1 ? a.side[1].item_rows / 8 : 0);
    const long long total = groups * a.pair.items, step = (long long)gridDim.x * (THREADS / 32);

    if (blockIdx.x == 0 && threadIdx.x == 0)
        a.list->count = 0;
    for (long long at = blockIdx.x * (THREADS / 32LL) + threadIdx.x / 32; at < total; at += step) {
        const long long item = at / groups, group = at - item * groups;
        const int which = group >= x_groups;
        pack_rows(&a, which, item, group - (which ? x_groups : 0));
    }
}
