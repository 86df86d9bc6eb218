/*
 * median.cu - the middle two of the distances between rows, and the median that they give
 *
 *   median_rows     copies the rows of a sample that the host has drawn
 *   median_count    counts how the distances above the diagonal go on that begin with a prefix
 *   median_pick     finds the next digit of the middle two distances, and in the end the median
 *   median_small    does both for items of a few distances each, in shared memory
 *
 * No distance is negative, so that the bits of distances, taken as whole numbers, are in order: the
 * middle two are found MEDIAN_DIGIT bits at a time, from the highest on.  Counts are whole numbers:
 * the order in which threads add does not matter.
 *
 * Parameters (-D): REAL.  median_rows, whose elements have 2, 4 or 8 bytes, does not use it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "median_params.h"

#define WIDTH (8 * (int)sizeof(REAL)) /* bits of a distance */

/* ---- Samples -------------------------------------------------------------------------------- */

template <class element>
static __device__ void copy_element(const struct median_rows_params &a, long long item,
                                    long long from, long long to)
{
    ((element *)(a.to + item * a.item_bytes))[to] =
        ((const element *)a.x)[batch_offset(a.batch.shape, a.batch.ndim, a.batch_stride, item) +
                               from];
}

extern "C" __global__ void __launch_bounds__(256)
    median_rows(const __grid_constant__ struct median_rows_params a)
{
    const long long step = (long long)gridDim.x * blockDim.x, size = a.count * a.cols;

    for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < a.batch.items * size;
         e += step) {
        const long long item = e / size, at = e - item * size;
        const long long i = at / a.cols, k = at - i * a.cols;
        const long long from = a.row[i] * a.row_stride + k * a.col_stride;
        if (a.element == 2)
            copy_element<unsigned short>(a, item, from, at);
        else if (a.element == 4)
            copy_element<unsigned>(a, item, from, at);
        else
            copy_element<unsigned long long>(a, item, from, at);
    }
}

/* ---- Distances as whole numbers ------------------------------------------------------------- */

static __device__ unsigned long long key_of(float x) { return (unsigned)__float_as_int(x); }
static __device__ unsigned long long key_of(double x)
{
    return (unsigned long long)__double_as_longlong(x);
}

static __device__ void number_of(unsigned long long key, float *x)
{
    *x = __int_as_float((int)(unsigned)key);
}
static __device__ void number_of(unsigned long long key, double *x)
{
    *x = __longlong_as_double((long long)key);
}

/* The median of count distances, or NaN, to the item's place. */
static __device__ void store_median(const struct median_params &a, long long item,
                                  unsigned long long count, const unsigned long long middle[2])
{
    REAL below, above;

    number_of(middle[0], &below);
    number_of(middle[1], &above);
    above = above == below ? above : (REAL)((double)below / 2 + (double)above / 2);
    ((REAL *)a.out)[batch_offset(a.batch.shape, a.batch.ndim, a.batch_stride, item)] =
        count > 0 ? above : (REAL)__int_as_float(0x7fc00000);
}

/* ---- Passes over the distances of all items ------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(256)
    median_count(const __grid_constant__ struct median_params a)
{
    __shared__ unsigned bins[2][MEDIAN_BINS];
    const int thread = (int)threadIdx.x, above = (int)a.shift + MEDIAN_DIGIT;
    const bool all = above == 8 * (int)sizeof(REAL);
    const long long item = blockIdx.x / a.blocks, first = blockIdx.x % a.blocks;
    const REAL *distances = (const REAL *)a.distances + item * a.rows * a.rows;
    struct median_state *s = a.state + item;
    const unsigned long long prefix[2] = {s->prefix[0], s->prefix[1]};

    bins[0][thread] = bins[1][thread] = 0;
    __syncthreads();
    for (long long i = first; i < a.rows; i += a.blocks)
        for (long long j = i + 1 + thread; j < a.rows; j += blockDim.x) {
            const REAL x = distances[i * a.rows + j];
            const unsigned long long key = key_of(x);
            for (int which = 0; x == x && which < 2; which++)
                if (all || key >> above == prefix[which])
                    atomicAdd(&bins[which][key >> a.shift & (MEDIAN_BINS - 1)], 1u);
        }
    __syncthreads();
    for (int which = 0; which < 2; which++)
        if (bins[which][thread] > 0)
            atomicAdd(&s->bins[which][thread], (unsigned long long)bins[which][thread]);
}

/* The digit of the number with the rank, which becomes its rank among those with that digit. */
static __device__ void pick_digit(struct median_state *s, int which)
{
    const unsigned long long *bins = s->bins[which];
    int digit = 0;

    while (digit < MEDIAN_BINS - 1 && s->rank[which] >= bins[digit])
        s->rank[which] -= bins[digit++];
    s->prefix[which] = s->prefix[which] << MEDIAN_DIGIT | (unsigned long long)digit;
}

static __device__ void find_ranks(struct median_state *s)
{
    for (int digit = 0; digit < MEDIAN_BINS; digit++)
        s->count += s->bins[0][digit];
    s->rank[0] = s->count > 0 ? (s->count - 1) / 2 : 0;
    s->rank[1] = s->count / 2;
}

/* A block of MEDIAN_BINS threads has an item.  Before the first pass it clears the state; a pass
 * later the distances that are numbers have been counted, and so the ranks are known. */
extern "C" __global__ void __launch_bounds__(MEDIAN_BINS)
    median_pick(const __grid_constant__ struct median_params a)
{
    struct median_state *s = a.state + blockIdx.x;

    if (threadIdx.x == 0 && a.shift == WIDTH)
        s->count = s->rank[0] = s->rank[1] = s->prefix[0] = s->prefix[1] = 0;
    if (threadIdx.x == 0 && a.shift == WIDTH - MEDIAN_DIGIT)
        find_ranks(s);
    __syncthreads();
    if (threadIdx.x < 2 && a.shift < WIDTH)
        pick_digit(s, (int)threadIdx.x);
    __syncthreads();
    s->bins[0][threadIdx.x] = s->bins[1][threadIdx.x] = 0;
    if (threadIdx.x == 0 && a.shift == 0)
        store_median(a, blockIdx.x, s->count, s->prefix);
}

/* ---- Items of a few distances each ---------------------------------------------------------- */

struct middle {
    unsigned long long count, rank[2], prefix[2];
    unsigned bins[2][MEDIAN_BINS]; /* how many go on with each digit, or with it or a lower one */
};

/* Counts those of the distances above the diagonal that begin with a prefix, by the next digit. */
static __device__ void count_digits(struct middle &s, const REAL *distances, int rows, int shift)
{
    const int above = shift + MEDIAN_DIGIT;

    for (int e = (int)threadIdx.x; e < rows * rows; e += MEDIAN_BINS) {
        const REAL x = distances[e];
        const unsigned long long key = key_of(x);
        for (int which = 0; e / rows < e % rows && x == x && which < 2; which++)
            if (above == WIDTH || key >> above == s.prefix[which])
                atomicAdd(&s.bins[which][key >> shift & (MEDIAN_BINS - 1)], 1u);
    }
    __syncthreads();
}

/* The bins become sums over themselves and those before them. */
static __device__ void add_up(struct middle &s)
{
    const int bin = (int)threadIdx.x;

    for (int apart = 1; apart < MEDIAN_BINS; apart *= 2) {
        const unsigned before[2] = {bin < apart ? 0 : s.bins[0][bin - apart],
                                    bin < apart ? 0 : s.bins[1][bin - apart]};
        __syncthreads();
        s.bins[0][bin] += before[0];
        s.bins[1][bin] += before[1];
        __syncthreads();
    }
}

/* The thread whose digit the number with the rank has makes it known. */
static __device__ void pick_digits(struct middle &s)
{
    const unsigned bin = threadIdx.x;
    unsigned long long rank[2] = {s.rank[0], s.rank[1]};

    __syncthreads();
    for (int which = 0; which < 2; which++) {
        const unsigned long long before = bin ? s.bins[which][bin - 1] : 0;
        if (before <= rank[which] && rank[which] < s.bins[which][bin]) {
            s.rank[which] = rank[which] - before;
            s.prefix[which] = s.prefix[which] << MEDIAN_DIGIT | bin;
        }
    }
    __syncthreads();
}

/* A block has an item: median_count and median_pick in turns, with what is known of the item in
 * shared memory. */
extern "C" __global__ void __launch_bounds__(MEDIAN_BINS)
    median_small(const __grid_constant__ struct median_params a)
{
    __shared__ struct middle s;
    const int rows = (int)a.rows;

    for (long long item = blockIdx.x; item < a.batch.items; item += gridDim.x) {
        const REAL *distances = (const REAL *)a.distances + item * rows * rows;
        if (threadIdx.x < 2)
            s.prefix[threadIdx.x] = 0;
        for (int shift = WIDTH - MEDIAN_DIGIT; shift >= 0; shift -= MEDIAN_DIGIT) {
            s.bins[0][threadIdx.x] = s.bins[1][threadIdx.x] = 0;
            __syncthreads();
            count_digits(s, distances, rows, shift);
            add_up(s);
            if (threadIdx.x == 0 && shift == WIDTH - MEDIAN_DIGIT) {
                s.count = s.bins[0][MEDIAN_BINS - 1];
                s.rank[0] = s.count > 0 ? (s.count - 1) / 2 : 0;
                s.rank[1] = s.count / 2;
            }
            __syncthreads();
            pick_digits(s);
        }
        if (threadIdx.x == 0)
            store_median(a, item, s.count, s.prefix);
        __syncthreads(); /* the state is no longer read */
    }
}
