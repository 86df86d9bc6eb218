/*
 * sample_table.cu - gradients of rows of an embedding
 *
 * sample_link: of positions with one row, which is the first and which comes next; those of `span`
 * positions, of one sample or of several one after the other.
 * sample_table: of each sample: the sum of each row's positions, in order, and of their squares.
 * sample_table_sums: of linked samples, each times its factor, added to the sums.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "sample_side.cuh"

/* The row that goes in, or SAMPLE_NONE, SAMPLE_BAD. */
static __device__ int row_at(const params &a, long long k)
{
    if (k >= (long long)a.samples * a.positions)
        return SAMPLE_NONE;
    const long long sample = k / a.positions;
    const long long at =
        sample * a.a.sample_stride + axes_at(a.a.position, (int)(k - sample * a.positions));
    const long long row =
        a.a.type == SAMPLE_I32 ? ((const int *)a.a.data)[at] : ((const long long *)a.a.data)[at];

    if (row < 0 || row >= a.in)
        return SAMPLE_BAD;
    return row == a.padding_row ? SAMPLE_NONE : (int)row;
}

extern "C" __global__ void __launch_bounds__(THREADS) sample_link(const __grid_constant__ params a)
{
    __shared__ int rows[THREADS];
    const int tiles = (a.span + THREADS - 1) / THREADS, t = (int)threadIdx.x;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const long long start = block / tiles * a.span;
        const int mine = (int)(block % tiles) * THREADS + t;
        const int row = mine < a.span ? row_at(a, start + mine) : SAMPLE_NONE;
        int next = -1;
        bool first = true;

        for (int from = 0; from < a.span; from += THREADS) {
            __syncthreads();
            rows[t] = from + t < a.span ? row_at(a, start + from + t) : SAMPLE_NONE;
            __syncthreads();
            for (int i = 0; i < THREADS && row >= 0; i++)
                if (rows[i] == row) {
                    first = first && from + i >= mine;
                    if (from + i > mine && next < 0)
                        next = from + i;
                }
        }
        if (mine < a.span && start + mine < (long long)a.samples * a.positions) {
            a.head[start + mine] = row < 0 || first ? row : SAMPLE_NONE;
            a.next[start + mine] = next;
        }
    }
}

/* The sum over the positions that are linked to position k of those from start on. */
static __device__ double sum_of(const params &a, long long start, int k, int o,
                                const double *factors)
{
    const long long feature = axes_at(a.g.feature, o);
    double sum = 0;

    for (; k >= 0; k = a.next[start + k]) {
        const long long sample = (start + k) / a.positions;
        const int s = (int)(start + k - sample * a.positions);
        const double factor = factors ? factors[sample] : 1;
        if (factor != 0)
            sum += factor * (double)side_value(a.g, sample * a.g.sample_stride + feature +
                                                        axes_at(a.g.position, s));
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) sample_table(const __grid_constant__ params a)
{
    __shared__ double squares[THREADS];

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / a.parts), part = (int)(block % a.parts);
        const long long start = (long long)sample * a.positions;
        double square = 0;

        for (int s = part; s < a.positions; s += a.parts) {
            const int row = a.head[start + s];
            if (row == SAMPLE_BAD)
                square = __longlong_as_double(0x7FF8000000000000ll);
            for (int o = (int)threadIdx.x; o < a.out && row >= 0; o += THREADS) {
                const double v = a.scale * sum_of(a, start, s, o, nullptr);
                square += v * v;
                if (a.weight.data)
                    put(a.weight, sample, row, o, false, v);
            }
        }
        block_sum(squares, (int)threadIdx.x, square);
        if (threadIdx.x == 0 && a.squares)
            a.squares[(long long)sample * a.square_count + part] = squares[0];
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sample_table_sums(const __grid_constant__ params a)
{
    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const long long start = (long long)a.first * a.span;
        const int row = a.head[start + block];

        for (int o = (int)threadIdx.x; o < a.out && row >= 0; o += THREADS)
            put(a.weight, 0, row, o, true, sum_of(a, start, (int)block, o, a.factors));
    }
}
