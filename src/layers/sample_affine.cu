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
#include "layer_side.cuh"

#define THREADS SAMPLE_THREADS

#include "block_sum.cuh"

typedef struct sample_params params;

/* Where element e of what shares its moments lies: those of position q, or of group q. */
static __device__ long long shared_at(const params &a, int q, long long e)
{
    if (a.affine == 1)
        return axes_at(a.l.a.feature, (int)e) + axes_at(a.l.a.position, q);
    const int f = q * (a.l.in / a.l.groups) + (int)(e / a.l.positions);
    return axes_at(a.l.a.feature, f) + axes_at(a.l.a.position, (int)(e % a.l.positions));
}

/* The sum of what the lanes of a warp have, to all of them. */
static __device__ double warp_sum(double mine)
{
    for (int lane = 16; lane > 0; lane /= 2)
        mine += __shfl_xor_sync(0xffffffffu, mine, lane);
    return mine;
}

/* Of the threads that have moments together, to all of them: a warp a position, a block a group. */
static __device__ double shared_sum(const params &a, double *sums, double mine)
{
    if (a.affine == 1)
        return warp_sum(mine);
    __syncthreads();
    block_sum(sums, (int)threadIdx.x, mine);
    __syncthreads();
    return sums[0];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sample_moments(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const bool warps = a.affine == 1;
    const int each = warps ? a.l.positions : a.l.groups, lanes = warps ? 32 : THREADS;
    const int lane = (int)threadIdx.x % lanes;
    const long long count = warps ? a.l.in : (long long)(a.l.in / a.l.groups) * a.l.positions;
    const long long all = (long long)a.l.samples * each;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const long long at = block * (THREADS / lanes) + (int)threadIdx.x / lanes;
        const int sample = (int)(at / each), q = (int)(at % each);
        const long long start = sample * a.l.a.sample_stride;
        double mean = 0, variance = 0;

        if (at >= all)
            continue;
#pragma unroll 4
        for (long long e = lane; e < count; e += lanes)
            mean += (double)side_value(a.l.a, start + shared_at(a, q, e));
        mean = shared_sum(a, sums, mean) / (double)count;
#pragma unroll 4
        for (long long e = lane; e < count; e += lanes) {
            const double v = (double)side_value(a.l.a, start + shared_at(a, q, e)) - mean;
            variance += v * v;
        }
        variance = shared_sum(a, sums, variance);
        if (lane == 0) {
            a.moments[2 * at] = mean;
            a.moments[2 * at + 1] = 1 / sqrt(variance / (double)count + a.epsilon);
        }
    }
}

/* The normalised input. */
static __device__ double normalised(const params &a, long long sample, int s, int f)
{
    const long long q = a.affine == 1 ? sample * a.l.positions + s
                                      : sample * a.l.groups + f / (a.l.in / a.l.groups);
    const long long at =
        sample * a.l.a.sample_stride + axes_at(a.l.a.feature, f) + axes_at(a.l.a.position, s);

    return ((double)side_value(a.l.a, at) - a.moments[2 * q]) * a.moments[2 * q + 1];
}

struct affine_memory {
    double weight[THREADS], bias[THREADS];
};

/* How threads share a block: features, and lanes of their positions. */
static __device__ int features_of(const params &a)
{
    return a.l.planes ? THREADS / 32 : 32;
}

static __device__ int feature_of(const params &a)
{
    const int t = (int)threadIdx.x;

    return a.l.planes ? t / 32 : t % 32;
}

static __device__ int lane_of(const params &a)
{
    const int t = (int)threadIdx.x;

    return a.l.planes ? t % 32 : t / 32;
}

/* What the lanes of each feature have, to memory[feature]. */
static __device__ void add_lanes(const params &a, struct affine_memory *memory, double weight,
                                 double bias)
{
    const int wide = features_of(a), lanes = THREADS / wide, t = (int)threadIdx.x;
    const int at = lane_of(a) * wide + feature_of(a);

    memory->weight[at] = weight;
    memory->bias[at] = bias;
    __syncthreads();
    if (t < wide)
        for (int i = 1; i < lanes; i++) {
            memory->weight[t] += memory->weight[i * wide + t];
            memory->bias[t] += memory->bias[i * wide + t];
        }
    __syncthreads();
}

/* Elements of REAL whose positions lie evenly: loads that wait for nothing. */
static __device__ bool is_plain(const struct layer_side &side)
{
    return side.dtype == DEVICE_REAL && side.position.ndim <= 1;
}

template <bool PLAIN>
static __device__ double value_at(const struct layer_side &side, long long start, int s)
{
    if (PLAIN)
        return (double)((const REAL *)side.data)[start + s * side.position.stride[0]];
    return (double)side_value(side, start + axes_at(side.position, s));
}

/* Of one sample and feature the sums of a lane: of g, and of g times the normalised input. */
template <bool PLAIN, bool AFFINE>
static __device__ void sum_lane(const params &a, long long sample, int f, double *weight,
                                double *bias)
{
    const int lanes = THREADS / features_of(a);
    const long long g_at = sample * a.l.g.sample_stride + axes_at(a.l.g.feature, f);
    long long a_at = 0, moments = 0;

    if (AFFINE) {
        a_at = sample * a.l.a.sample_stride + axes_at(a.l.a.feature, f);
        moments = a.affine == 1 ? sample * a.l.positions
                                : sample * a.l.groups + f / (a.l.in / a.l.groups);
    }
#pragma unroll 8
    for (int s = lane_of(a); s < a.l.positions; s += lanes) {
        const double d = value_at<PLAIN>(a.l.g, g_at, s);
        *bias += d;
        if (AFFINE) {
            const double *m = a.moments + 2 * (moments + (a.affine == 1 ? s : 0));
            *weight += d * ((value_at<PLAIN>(a.l.a, a_at, s) - m[0]) * m[1]);
        }
    }
}

/* Sums of features from first on over the positions of one sample, to memory[feature]. */
static __device__ void sum_sample(const params &a, struct affine_memory *memory, int first,
                                  long long sample)
{
    const int f = first + feature_of(a);
    double weight = 0, bias = 0;

    if (f < a.l.out && !a.affine && is_plain(a.l.g))
        sum_lane<true, false>(a, sample, f, &weight, &bias);
    else if (f < a.l.out && !a.affine)
        sum_lane<false, false>(a, sample, f, &weight, &bias);
    else if (f < a.l.out && is_plain(a.l.g) && is_plain(a.l.a))
        sum_lane<true, true>(a, sample, f, &weight, &bias);
    else if (f < a.l.out)
        sum_lane<false, true>(a, sample, f, &weight, &bias);
    add_lanes(a, memory, weight, bias);
}

/* The same over `count` positions from `begin` on, each sample times its factor. */
static __device__ void sum_positions(const params &a, struct affine_memory *memory, int first,
                                     long long begin, int count)
{
    const int lanes = THREADS / features_of(a), f = first + feature_of(a);
    const int before = count > 0 ? (int)(begin / a.l.positions) : 0;
    const unsigned rest = (unsigned)(begin - before * (long long)a.l.positions);
    double weight = 0, bias = 0;

    for (int k = lane_of(a); k < count && f < a.l.out; k += lanes) {
        const unsigned more = (rest + (unsigned)k) / (unsigned)a.l.positions;
        const long long sample = before + (int)more;
        const int s = (int)(rest + (unsigned)k - more * (unsigned)a.l.positions);
        const double factor = a.factors[sample];
        if (factor == 0)
            continue;
        const double d = factor * (double)side_value(a.l.g, sample * a.l.g.sample_stride +
                                                                axes_at(a.l.g.feature, f) +
                                                                axes_at(a.l.g.position, s));
        bias += d;
        if (a.affine)
            weight += d * normalised(a, sample, s, f);
    }
    add_lanes(a, memory, weight, bias);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sample_affine(const __grid_constant__ params a)
{
    __shared__ struct affine_memory memory;
    __shared__ double squares[THREADS];
    const int wide = features_of(a), tiles = (a.l.out + wide - 1) / wide, t = (int)threadIdx.x;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / tiles), tile = (int)(block % tiles), f = tile * wide + t;
        double square = 0;

        sum_sample(a, &memory, tile * wide, sample);
        if (t < wide && f < a.l.out) {
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
    const int wide = features_of(a), tiles = (a.l.out + wide - 1) / wide, t = (int)threadIdx.x;
    const long long all = (long long)a.l.samples * a.l.positions;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const long long part = block / tiles, begin = part * a.length;
        const int first = (int)(block % tiles) * wide;

        sum_positions(a, &memory, first, begin, (int)max(0LL, min(a.length, all - begin)));
        if (t < wide && first + t < a.l.out) {
            const long long at = part * a.l.out + first + t;
            if (a.affine && a.weight.data)
                a.partial[0][at] = memory.weight[t];
            if (a.bias.data)
                a.partial[1][at] = memory.bias[t];
        }
        __syncthreads();
    }
}
