/*
 * kron_matmul_one.cu - one Kronecker factor of any size: a product of matrices where x lies
 *
 *   y[unit, q, a] = sum_p x[unit, p, a] f[p, q]
 *
 * A column is a unit and an index a after the factor.  A block has BQ of the q and BN columns, and
 * goes through p in steps of BK; a thread has every 16th q and every 16th column of them.
 *
 * Parameters (-D), set by cuda_kron_matmul_plan.c:
 *   REAL, X_KIND, Y_KIND, F_KIND, WHOLE   see kron_pass.cuh; WHOLE: REAL is of integers
 *   BQ, BN, BK   of a tile; the first two are multiples of 16
 *   ALONG        1: neighbours in x are those along p, else columns
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_pass.cuh"

#define SIDE    16
#define THREADS (SIDE * SIDE)

struct memory {
    REAL x[BK][BN + 1], f[BK][BQ + 1];
    long long x_offset[BN], y_offset[BN], z_offset[BN];
};

/* A chunk of x from p = first on; what there is not becomes 0. */
static __device__ void read_columns(const struct kron_params &a, struct memory &m,
                                    const x_element *x, long long first, int columns)
{
    const long long step = a.after * a.x.col_stride;

    for (int e = threadIdx.x; e < BK * BN; e += THREADS) {
        const int p = ALONG ? e % BK : e / BN, n = ALONG ? e / BK : e % BN;
        m.x[p][n] = first + p < a.depth && n < columns
                        ? real_of<X_KIND>(x[m.x_offset[n] + (first + p) * step])
                        : (REAL)0;
    }
}

static __device__ void read_factor(const struct kron_params &a, struct memory &m,
                                   const f_element *f, long long first, long long q0)
{
    for (int e = threadIdx.x; e < BK * BQ; e += THREADS) {
        const long long p = first + e / BQ, q = q0 + e % BQ;
        m.f[e / BQ][e % BQ] =
            p < a.depth && q < a.outs
                ? real_of<F_KIND>(f[p * a.factor[0].row_stride + q * a.factor[0].col_stride])
                : (REAL)0;
    }
}

/* The offsets of the columns of a tile; unit changes slower than the index after the factor. */
static __device__ void place_columns(const struct kron_params &a, struct memory &m,
                                     long long column, int columns)
{
    for (int n = threadIdx.x; n < columns; n += THREADS) {
        const long long unit = quotient(column + n, a.after), at = column + n - unit * a.after;
        m.x_offset[n] = unit_offset(a, a.x, unit, a.depth) + at * a.x.col_stride;
        m.y_offset[n] = unit_offset(a, a.y, unit, a.outs) + at * a.y.col_stride;
        m.z_offset[n] = unit_offset(a, a.z, unit, a.outs) + at * a.z.col_stride;
    }
}

static __device__ void write_results(const struct kron_params &a, const struct memory &m,
                                     const struct finish &f, const REAL sum[BQ / SIDE][BN / SIDE],
                                     long long q0, int columns)
{
    const int tq = ALONG ? threadIdx.x % SIDE : threadIdx.x / SIDE;
    const int tn = ALONG ? threadIdx.x / SIDE : threadIdx.x % SIDE;

#pragma unroll
    for (int i = 0; i < BQ / SIDE; i++)
#pragma unroll
        for (int j = 0; j < BN / SIDE; j++) {
            const long long q = q0 + tq + i * SIDE;
            const int n = tn + j * SIDE;
            REAL value = sum[i][j];
            if (q >= a.outs || n >= columns)
                continue;
            if (a.last)
                value *= f.alpha;
            if (f.beta != 0)
                value +=
                    f.beta * real_of<Y_KIND>(f.z[m.z_offset[n] + q * a.after * a.z.col_stride]);
            f.y[m.y_offset[n] + q * a.after * a.y.col_stride] = stored_of<Y_KIND>(value);
        }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    kron_matmul_one(const __grid_constant__ struct kron_params a)
{
    __shared__ struct memory m;
    const long long columns = a.rows * a.before * a.after, tiles = a.unit_tiles * a.col_tiles;
    const int tq = ALONG ? threadIdx.x % SIDE : threadIdx.x / SIDE;
    const int tn = ALONG ? threadIdx.x / SIDE : threadIdx.x % SIDE;

    for (long long number = blockIdx.x; number < tiles * a.items; number += gridDim.x) {
        const long long done = quotient(number, tiles), rest = number - done * tiles;
        const long long across = quotient(rest, a.col_tiles), item = a.first + done;
        const long long q0 = (rest - across * a.col_tiles) * BQ, column = across * BN;
        const int width = columns - column < BN ? (int)(columns - column) : BN;
        const struct finish f = finish_of(a, item);
        const x_element *x = item_of<const x_element>(a, a.x, item);
        const f_element *factor = item_of<const f_element>(a, a.factor[0], item);
        REAL sum[BQ / SIDE][BN / SIDE] = {};
        place_columns(a, m, column, width);
        __syncthreads();
#pragma unroll 1
        for (long long first = 0; first < a.depth; first += BK) {
            read_columns(a, m, x, first, width);
            read_factor(a, m, factor, first, q0);
            __syncthreads();
#pragma unroll 2
            for (int p = 0; p < BK; p++)
#pragma unroll
                for (int i = 0; i < BQ / SIDE; i++)
#pragma unroll
                    for (int j = 0; j < BN / SIDE; j++)
                        sum[i][j] += m.f[p][tq + i * SIDE] * m.x[p][tn + j * SIDE];
            __syncthreads();
        }
        write_results(a, m, f, sum, q0, width);
        __syncthreads();
    }
}
