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
#include "layer_side.cuh"

#define THREADS SAMPLE_THREADS

#include "block_sum.cuh"

typedef struct sample_params params;

/* The row that goes in, or SAMPLE_NONE, SAMPLE_BAD. */
static __device__ int row_at(const params &a, long long k)
{
    if (k >= (long long)a.l.samples * a.l.positions)
        return SAMPLE_NONE;
    const long long sample = k / a.l.positions;
    const long long row = table_row(a.l.a, sample, (int)(k - sample * a.l.positions));

    if (row < 0 || row >= a.l.in)
        return SAMPLE_BAD;
    return row == a.l.padding_row ? SAMPLE_NONE : (int)row;
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
        if (mine < a.span && start + mine < (long long)a.l.samples * a.l.positions) {
            a.head[start + mine] = row < 0 || first ? row : SAMPLE_NONE;
            a.next[start + mine] = next;
        }
    }
}

/* The sum over the positions that are linked to position k of those from start on. */
static __device__ double sum_of(const params &a, long long start, int k, int o,
                                const double *factors)
{
    const long long feature = axes_at(a.l.g.feature, o);
    double sum = 0;

    for (; k >= 0; k = a.next[start + k]) {
        const long long sample = (start + k) / a.l.positions;
        const int s = (int)(start + k - sample * a.l.positions);
        const double factor = factors ? factors[sample] : 1;
        if (factor != 0)
            sum += factor * (double)side_value(a.l.g, sample * a.l.g.sample_stride + feature +
                                                          axes_at(a.l.g.position, s));
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) sample_table(const __grid_constant__ params a)
{
    __shared__ double squares[THREADS];

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / a.parts), part = (int)(block % a.parts);
        const long long start = (long long)sample * a.l.positions;
        double square = 0;

        for (int s = part; s < a.l.positions; s += a.parts) {
            const int row = a.head[start + s];
            if (row == SAMPLE_BAD)
                square = __longlong_as_double(0x7FF8000000000000ll);
            for (int o = (int)threadIdx.x; o < a.l.out && row >= 0; o += THREADS) {
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

        for (int o = (int)threadIdx.x; o < a.l.out && row >= 0; o += THREADS)
            put(a.weight, 0, row, o, true, sum_of(a, start, (int)block, o, a.factors));
    }
}
