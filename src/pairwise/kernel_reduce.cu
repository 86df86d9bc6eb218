/*
 * kernel_reduce.cu - extremes and soft sums of the rows of a kernel matrix, from panels of it
 *
 *   kernel_reduce_take    goes through a panel: a block has a row, and adds to what is known of it
 *
 * Each thread goes through every REDUCE_THREADS'th column, and a tree joins what the threads have.
 * So sums are made in an order that depends on sizes alone.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "kernel_reduce_params.h"

#define THREADS REDUCE_THREADS
#include "block_sum.cuh"

/* What the threads of a block have, for trees. */
struct tree {
    double *value;
    long long *index;
};

static __device__ double infinite(void) { return (double)__int_as_float(0x7f800000); }
static __device__ double not_a_number(void) { return (double)__int_as_float(0x7fc00000); }

/* ---- Extremes ------------------------------------------------------------------------------- */

/* Whether a value at an index takes the place of another one; an index of -1 is of none. */
static __device__ bool replaces(bool least, double value, long long index, double old,
                                long long old_index)
{
    if (index < 0 || old_index < 0)
        return index >= 0;
    if (value != value || old != old)
        return value != value && (old == old || index < old_index);
    if (value == old)
        return index < old_index;
    return least ? value < old : value > old;
}

static __device__ void take_extreme(const struct kernel_reduce_params &a, const struct tree &t,
                                    const REAL *row, struct kernel_reduce_state *state)
{
    const int thread = (int)threadIdx.x;
    const bool least = a.what == REDUCE_MIN;
    double best = 0;
    long long at = -1;

    for (long long c = thread; c < a.panel.cols; c += REDUCE_THREADS)
        if (replaces(least, (double)row[c], c, best, at))
            best = (double)row[c], at = c;
    t.value[thread] = best, t.index[thread] = at;
    for (int half = REDUCE_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half && replaces(least, t.value[thread + half], t.index[thread + half],
                                      t.value[thread], t.index[thread]))
            t.value[thread] = t.value[thread + half], t.index[thread] = t.index[thread + half];
    }
    if (thread == 0 && t.index[0] >= 0 &&
        replaces(least, t.value[0], a.panel.j + t.index[0], state->value, state->index))
        state->value = t.value[0], state->index = a.panel.j + t.index[0];
}

/* ---- Soft sums ------------------------------------------------------------------------------ */

/* The sum of what the threads have, the same in all of them. */
static __device__ double add_up(const struct tree &t, double mine)
{
    __syncthreads(); /* what the tree held is no longer read */
    block_sum(t.value, (int)threadIdx.x, mine);
    __syncthreads();
    return t.value[0];
}

static __device__ double larger(double a, double b)
{
    return a != a || b != b ? not_a_number() : a > b ? a : b;
}

/* The values of a row become exponents: scale times them, plus the log-weights of the panel.  Each
 * thread goes through the columns that it reads later. */
static __device__ void add_log_weights(const struct kernel_reduce_params &a, REAL *row,
                                       long long item)
{
    const REAL *logs =
        (const REAL *)a.log_weights.data +
        batch_offset(a.panel.shape, a.panel.ndim, a.log_weights.batch_stride,
                     a.panel.first + item) +
        a.panel.j * a.log_weights.col_stride;

    for (long long c = threadIdx.x; c < a.panel.cols; c += REDUCE_THREADS)
        row[c] = (REAL)(a.scale * (double)row[c] + (double)logs[c * a.log_weights.col_stride]);
}

/* scale times a value, rounded: as a part of a fused multiply-add it would differ from the largest
 * exponent, which is such a product, by what rounding left out, and that may be large. */
static __device__ double exponent(double scale, REAL value)
{
    return __dmul_rn(scale, (double)value);
}

/* The largest exponent of a row; NaN where one is NaN or +infinity. */
static __device__ double find_largest(const struct kernel_reduce_params &a, const struct tree &t,
                                      const REAL *row, double scale)
{
    const int thread = (int)threadIdx.x;
    double mine = -infinite();

    for (long long c = thread; c < a.panel.cols; c += REDUCE_THREADS)
        mine = larger(mine, exponent(scale, row[c]));
    __syncthreads();
    t.value[thread] = mine;
    for (int half = REDUCE_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half)
            t.value[thread] = larger(t.value[thread], t.value[thread + half]);
    }
    __syncthreads();
    mine = t.value[0];
    return mine < infinite() ? mine : not_a_number();
}

/* Adds the rows of v that belong to the panel, with the weights that the row holds now. */
static __device__ void weigh(const struct kernel_reduce_params &a, const struct tree &t,
                             const REAL *row, long long item, double by, double *sums)
{
    const REAL *v =
        (const REAL *)a.v.data +
        batch_offset(a.panel.shape, a.panel.ndim, a.v.batch_stride, a.panel.first + item) +
        a.panel.j * a.v.row_stride;

    for (long long c = 0; c < a.columns; c++) {
        double mine = 0, all;
        for (long long at = threadIdx.x; at < a.panel.cols; at += REDUCE_THREADS)
            mine += (double)row[at] * (double)v[at * a.v.row_stride + c * a.v.col_stride];
        all = add_up(t, mine);
        if (threadIdx.x == 0)
            sums[c] = by * sums[c] + all;
    }
}

static __device__ void take_soft(const struct kernel_reduce_params &a, const struct tree &t,
                                 REAL *row, long long item, struct kernel_reduce_state *state,
                                 double *sums)
{
    const double scale = a.log_weights.data ? 1 : a.scale;
    const double before = state->value, found = find_largest(a, t, row, scale);
    const double largest = larger(before, found);
    const double by = before == largest ? 1 : state->sum == 0 ? 0 : exp(before - largest);
    double mine = 0, sum;

    if (largest == -infinite()) /* all weights are 0 */
        return;
    for (long long c = threadIdx.x; c < a.panel.cols; c += REDUCE_THREADS) {
        const REAL weight = exp((REAL)(exponent(scale, row[c]) - largest));
        row[c] = weight;
        mine += (double)weight;
    }
    sum = add_up(t, mine);
    if (a.columns > 0)
        weigh(a, t, row, item, by, sums);
    __syncthreads();
    if (threadIdx.x == 0)
        state->value = largest, state->sum = by * state->sum + sum;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static __device__ void store(const struct kernel_reduce_params &a, long long item, long long i,
                             const struct kernel_reduce_state &state, const double *sums)
{
    const long long all = a.panel.first + item;
    REAL *out =
        (REAL *)a.out.data + batch_offset(a.panel.shape, a.panel.ndim, a.out.batch_stride, all);
    double value = state.value;

    if (a.indices.data && threadIdx.x == 0) {
        long long *indices = (long long *)a.indices.data;
        indices += batch_offset(a.panel.shape, a.panel.ndim, a.indices.batch_stride, all);
        indices[i * a.indices.col_stride] = state.index;
    }
    if (threadIdx.x == 0 && (a.logarithms || a.what == REDUCE_LOGSUMEXP)) {
        value = state.sum == 0 ? -infinite() : value + log(state.sum);
        if (a.logarithms)
            a.logarithms[all * a.item_rows + i] = value;
    }
    if (!a.out.data)
        return;
    if (a.what == REDUCE_SOFTMAX) {
        for (long long c = threadIdx.x; c < a.columns; c += REDUCE_THREADS)
            out[i * a.out.row_stride + c * a.out.col_stride] = (REAL)(sums[c] / state.sum);
    } else if (threadIdx.x == 0) {
        out[i * a.out.col_stride] = (REAL)value;
    }
}

extern "C" __global__ void __launch_bounds__(REDUCE_THREADS)
    kernel_reduce_take(const __grid_constant__ struct kernel_reduce_params a)
{
    __shared__ double values[REDUCE_THREADS];
    __shared__ long long indices[REDUCE_THREADS];
    const struct tree t = {values, indices};

    for (long long at = blockIdx.x; at < a.panel.items * a.panel.rows; at += gridDim.x) {
        const long long item = at / a.panel.rows, i = a.panel.i + at - item * a.panel.rows;
        struct kernel_reduce_state *state = a.state + at;
        double *sums = a.sums + at * a.columns;
        REAL *row = (REAL *)a.panel.values + at * a.panel.cols;
        if (a.panel.begin) {
            if (threadIdx.x == 0) {
                state->value = a.what == REDUCE_MIN ? infinite() : -infinite();
                state->sum = 0, state->index = -1;
            }
            for (long long c = threadIdx.x; c < a.columns; c += REDUCE_THREADS)
                sums[c] = 0;
            __syncthreads();
        }
        if (a.log_weights.data)
            add_log_weights(a, row, item);
        if (a.what == REDUCE_LOGSUMEXP || a.what == REDUCE_SOFTMAX)
            take_soft(a, t, row, item, state, sums);
        else
            take_extreme(a, t, row, state);
        __syncthreads();
        if (a.panel.end)
            store(a, item, i, *state, sums);
        __syncthreads();
    }
}
