/*
 * sample_affine.cu - gradients of biases, and of weights behind normalisations; in doubles
 *
 *   weight[d] = sum_s g[s][d] (a[s][d] - mean) / sqrt(variance + epsilon),  bias[d] = sum_s g[s][d]
 *
 * sample_moments: mean and 1 / sqrt(variance + epsilon) of a position, or of a group of features.
 * sample_affine: of each sample: to where they are wanted, and the sums of their squares.
 * sample_affine_sums: of all samples, each times its factor, in parts of their positions.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "sample_side.cuh"

/* Where element e of what shares its moments lies: those of position q, or of group q. */
static __device__ long long shared_at(const params &a, int q, long long e)
{
    if (a.affine == 1)
        return axes_at(a.a.feature, (int)e) + axes_at(a.a.position, q);
    const int f = q * (a.in / a.groups) + (int)(e / a.positions);
    return axes_at(a.a.feature, f) + axes_at(a.a.position, (int)(e % a.positions));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sample_moments(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const int each = a.affine == 1 ? a.positions : a.groups;
    const long long count = a.affine == 1 ? a.in : (long long)(a.in / a.groups) * a.positions;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / each), q = (int)(block % each);
        const long long start = sample * a.a.sample_stride;
        double mean = 0, variance = 0;

        for (long long e = threadIdx.x; e < count; e += THREADS)
            mean += (double)side_value(a.a, start + shared_at(a, q, e));
        block_sum(sums, (int)threadIdx.x, mean);
        __syncthreads();
        mean = sums[0] / (double)count;
        __syncthreads();
        for (long long e = threadIdx.x; e < count; e += THREADS) {
            const double v = (double)side_value(a.a, start + shared_at(a, q, e)) - mean;
            variance += v * v;
        }
        block_sum(sums, (int)threadIdx.x, variance);
        if (threadIdx.x == 0) {
            a.moments[2 * block] = mean;
            a.moments[2 * block + 1] = 1 / sqrt(sums[0] / (double)count + a.epsilon);
        }
        __syncthreads();
    }
}

/* The normalised input. */
static __device__ double normalised(const params &a, long long sample, int s, int f)
{
    const long long q =
        a.affine == 1 ? sample * a.positions + s : sample * a.groups + f / (a.in / a.groups);
    const long long at =
        sample * a.a.sample_stride + axes_at(a.a.feature, f) + axes_at(a.a.position, s);

    return ((double)side_value(a.a, at) - a.moments[2 * q]) * a.moments[2 * q + 1];
}

struct affine_memory {
    double weight[THREADS], bias[THREADS];
};

/* How threads share a block: features, and lanes of their positions. */
static __device__ int features_of(const params &a)
{
    return a.planes ? THREADS / 32 : 32;
}

/* Sums of features from first on over `count` positions from `begin` on, to memory[feature]. */
static __device__ void sum_positions(const params &a, struct affine_memory *memory, int first,
                                     long long begin, int count, const double *factors)
{
    const int wide = features_of(a), lanes = THREADS / wide, t = (int)threadIdx.x;
    const int mine = a.planes ? t / lanes : t % wide, lane = a.planes ? t % lanes : t / wide;
    const int f = first + mine;
    const int before = count > 0 ? (int)(begin / a.positions) : 0;
    const unsigned rest = (unsigned)(begin - before * (long long)a.positions);
    double weight = 0, bias = 0;

    for (int k = lane; k < count && f < a.out; k += lanes) {
        const unsigned more = (rest + (unsigned)k) / (unsigned)a.positions;
        const long long sample = before + (int)more;
        const int s = (int)(rest + (unsigned)k - more * (unsigned)a.positions);
        const double factor = factors ? factors[sample] : 1;
        if (factor == 0)
            continue;
        const double d =
            factor * (double)side_value(a.g, sample * a.g.sample_stride + axes_at(a.g.feature, f) +
                                                 axes_at(a.g.position, s));
        bias += d;
        if (a.affine)
            weight += d * normalised(a, sample, s, f);
    }
    memory->weight[lane * wide + mine] = weight;
    memory->bias[lane * wide + mine] = bias;
    __syncthreads();
    if (t < wide)
        for (int i = 1; i < lanes; i++) {
            memory->weight[t] += memory->weight[i * wide + t];
            memory->bias[t] += memory->bias[i * wide + t];
        }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sample_affine(const __grid_constant__ params a)
{
    __shared__ struct affine_memory memory;
    __shared__ double squares[THREADS];
    const int wide = features_of(a), tiles = (a.out + wide - 1) / wide, t = (int)threadIdx.x;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / tiles), tile = (int)(block % tiles), f = tile * wide + t;
        double square = 0;

        sum_positions(a, &memory, tile * wide, (long long)sample * a.positions, a.positions,
                      nullptr);
        if (t < wide && f < a.out) {
            const double weight = a.scale * memory.weight[t], bias = a.scale * memory.bias[t];
            square = weight * weight + (a.biased ? bias * bias : 0);
            if (a.affine && a.weight.data)
                put(a.weight, sample, f, 0, false, weight);
            if (a.bias.data)
                put(a.bias, sample, f, 0, false, bias);
        }
        block_sum(squares, t, square);
        if (t == 0 && a.squares)
            a.squares[(long long)sample * a.square_count + a.square_first + tile] = squares[0];
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sample_affine_sums(const __grid_constant__ params a)
{
    __shared__ struct affine_memory memory;
    const int wide = features_of(a), tiles = (a.out + wide - 1) / wide, t = (int)threadIdx.x;
    const long long all = (long long)a.samples * a.positions;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const long long part = block / tiles, begin = part * a.length;
        const int first = (int)(block % tiles) * wide;

        sum_positions(a, &memory, first, begin, (int)max(0LL, min(a.length, all - begin)),
                      a.factors);
        if (t < wide && first + t < a.out) {
            const long long at = part * a.out + first + t;
            if (a.affine && a.weight.data)
                a.partial[0][at] = memory.weight[t];
            if (a.bias.data)
                a.partial[1][at] = memory.bias[t];
        }
        __syncthreads();
    }
}
