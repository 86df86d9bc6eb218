/*
 * muon.cu - what Muon does to the elements of its matrices (formulas: gram.h)
 *
 * muon_momentum: the momentum takes the gradient in; what is to be made orthogonal, and the sum of
 * its squares.
 * muon_normalize: the same divided by its norm, to the type of products.
 * muon_polynomial: matrix = keep product + take I, for matrices of order n; a block has a row.
 * muon_widen: the result of products back to REAL.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    muon_momentum(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const struct optimizer_options &o = a.options;
    const struct optimizer_entry &e = a.entry[block_of(a)];
    const bool moves = !a.now[e.parameter].rests;
    REAL *g = (REAL *)a.g + block_of(a) * a.array;
    double sum = 0;

    for (long long i = first_of(a); i < last_of(a); i += THREADS) {
        REAL p = g[i];
        if (a.moment_type && moves) {
            const REAL b = (REAL)o.momentum * load_real(a.moment_type, a.state + e.moment, i) +
                           (REAL)o.take * p;
            store_real(a.moment_type, a.state + e.moment, i, b);
            p = o.nesterov ? p + (REAL)o.momentum * b : b;
            g[i] = p;
        }
        sum += (double)p * (double)p;
    }
    block_sum(sums, (int)threadIdx.x, sum);
    if (threadIdx.x == 0)
        a.squares[blockIdx.x] = sums[0];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    muon_normalize(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const double norm = sqrt(tiles_sum(a, a.squares, sums));
    const double by = norm > a.options.epsilon ? norm : a.options.epsilon;
    const REAL scale = (REAL)(by > 0 ? 1 / by : 1);
    const REAL *g = (const REAL *)a.g + block_of(a) * a.array;

    for (long long i = first_of(a); i < last_of(a); i += THREADS)
        store_real(a.product_type, a.to, block_of(a) * a.array + i, g[i] * scale);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    muon_polynomial(const __grid_constant__ params a)
{
    const REAL keep = (REAL)a.keep, take = (REAL)a.take;

    for (long long row = blockIdx.x; row < a.blocks * a.n; row += gridDim.x) {
        const long long first = row * a.n, diagonal = row % a.n;
        for (long long i = threadIdx.x; i < a.n; i += THREADS) {
            const REAL y = load_real(a.product_type, a.from, first + i);
            store_real(a.product_type, a.matrix, first + i,
                       keep * y + (i == diagonal ? take : (REAL)0));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) muon_widen(const __grid_constant__ params a)
{
    REAL *g = (REAL *)a.g + block_of(a) * a.array;

    for (long long i = first_of(a); i < last_of(a); i += THREADS)
        g[i] = load_real(a.product_type, a.from, block_of(a) * a.array + i);
}
