/*
 * optimizer_block.cu - what a step of any method does to the elements of its blocks
 *
 * optimizer_gather: gradients to scratch, one block after the other.
 * optimizer_permute: the same with dimension k first.
 * optimizer_filter: V and M take the gradient in; the filtered gradient, and the graft's step with
 * the sum of its squares:
 *   V = v_keep V + v_take G^2,   F = f_keep M + f_take G,   M = beta1 M + (1 - beta1) G,
 *   grafted = F / (sqrt(V graft) + graft_epsilon).
 * optimizer_squares: the sum of the squares of what matrices made of it.
 * optimizer_finish: the direction, decay, momentum; here the learning rate is applied:
 *   W = W - learning_rate P.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    optimizer_gather(const __grid_constant__ params a)
{
    const struct optimizer_entry &e = a.entry[block_of(a)];
    const struct optimizer_tensors &t = a.tensors[e.parameter];
    const bool rests = a.now[e.parameter].rests != 0;
    REAL *to = (REAL *)a.g + block_of(a) * a.array;

    for (long long i = first_run_of(a); i < last_of(a); i += EACH * THREADS) {
        REAL v[EACH] = {0};
        if (!rests)
            gradients_of(a, e, t, i, v);
#pragma unroll
        for (int u = 0; u < EACH; u++)
            if (i + u < last_of(a))
                to[i + u] = v[u];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    optimizer_permute(const __grid_constant__ params a)
{
    const REAL *from = (const REAL *)a.from + block_of(a) * a.array;
    REAL *to = (REAL *)a.to + block_of(a) * a.array;

    for (long long i = first_of(a); i < last_of(a); i += THREADS) {
        const long long inner = i % a.after, outer = i / a.after;
        const long long middle = outer % a.n, first = outer / a.n;
        to[(middle * a.before + first) * a.after + inner] = from[i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    optimizer_filter(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const struct optimizer_options &o = a.options;
    const struct optimizer_entry &e = a.entry[block_of(a)];
    const struct optimizer_now &now = a.now[e.parameter];
    const REAL v_keep = (REAL)(o.graft_sum ? 1 : o.graft_beta2);
    const REAL v_take = (REAL)(o.graft_sum ? 1 : 1 - o.graft_beta2);
    const REAL f_keep = (REAL)(o.beta3 * now.filter), f_take = (REAL)((1 - o.beta3) * now.filter);
    const REAL m_keep = (REAL)o.beta1, m_take = (REAL)(1 - o.beta1);
    REAL *g = (REAL *)a.g + block_of(a) * a.array;
    REAL *grafted = (REAL *)a.grafted + block_of(a) * a.array;
    double sum = 0;

    for (long long i = first_of(a); !now.rests && !now.still && i < last_of(a);
         i += EACH * THREADS) {
        REAL f[EACH], v[EACH], m[EACH];
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            const long long at = i + u * THREADS;
            const bool in = at < last_of(a);
            f[u] = in ? g[at] : (REAL)0;
            v[u] = in && a.second_type ? load_real(a.second_type, a.state + e.second, at) : (REAL)0;
            m[u] = in && a.moment_type ? load_real(a.moment_type, a.state + e.moment, at) : (REAL)0;
        }
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            const long long at = i + u * THREADS;
            const REAL gradient = f[u];
            REAL step;
            if (at >= last_of(a))
                continue;
            if (a.moment_type) {
                f[u] = f_keep * m[u] + f_take * gradient;
                store_real(a.moment_type, a.state + e.moment, at,
                           m_keep * m[u] + m_take * gradient);
                g[at] = f[u];
            }
            step = f[u];
            if (a.second_type) {
                v[u] = v_keep * v[u] + v_take * gradient * gradient;
                store_real(a.second_type, a.state + e.second, at, v[u]);
                const REAL root =
                    (REAL)sqrt((double)(v[u] * (REAL)now.graft)) + (REAL)o.graft_epsilon;
                step = root > 0 ? f[u] / root : (REAL)0;
            }
            grafted[at] = step;
            sum += (double)step * (double)step;
        }
    }
    block_sum(sums, (int)threadIdx.x, sum);
    if (threadIdx.x == 0)
        a.grafted_squares[blockIdx.x] = sums[0];
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    optimizer_squares(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const REAL *x = (const REAL *)a.from + block_of(a) * a.array;
    double sum = 0;

    for (long long i = first_of(a); i < last_of(a); i += THREADS)
        sum += (double)x[i] * (double)x[i];
    block_sum(sums, (int)threadIdx.x, sum);
    if (threadIdx.x == 0)
        a.squares[blockIdx.x] = sums[0];
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    optimizer_finish(const __grid_constant__ params a)
{
    __shared__ double sums[2][THREADS];
    const struct optimizer_options &o = a.options;
    const struct optimizer_entry &e = a.entry[block_of(a)];
    const struct optimizer_tensors &t = a.tensors[e.parameter];
    const struct optimizer_now &now = a.now[e.parameter];
    const bool weighs = a.updates || o.decay_direction != 0;
    const bool moves = a.own && !now.rests && !now.still, early = now.t < o.start || !a.from;
    const REAL *from = (const REAL *)(early ? a.grafted : a.from) + block_of(a) * a.array;
    const double *units = a.units && !early ? a.units + 2 * block_of(a) : nullptr;
    const double unit = units ? units[0] * units[1] : 1;
    double by = a.scale * now.scale;

    if (moves && !early && !o.graft_none)
        by = sqrt(tiles_sum(a, a.grafted_squares, sums[0])) /
             (unit * sqrt(tiles_sum(a, a.squares, sums[1])) + 1e-16);
    by *= unit;
    if (moves && !early && o.normalize)
        by /= 1e-30 + sqrt(tiles_sum(a, a.squares, sums[0]) / (double)a.count);
    const REAL scale = (REAL)by;
    for (long long i = first_run_of(a); i < last_of(a); i += EACH * THREADS) {
        REAL p[EACH], w[EACH], b[EACH];
        long long flat[EACH];
        flats_of(a, e, i, flat);
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            const long long at = i + u;
            const bool in = moves && at < last_of(a);
            p[u] = in ? from[at] : (REAL)0;
            w[u] = in && weighs ? element_of(t.weight, flat[u]) : (REAL)0;
            b[u] = in && a.velocity_type ? load_real(a.velocity_type, a.state + e.velocity, at)
                                         : (REAL)0;
        }
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            const long long at = i + u;
            if (at >= last_of(a))
                continue;
            p[u] *= scale;
            if (o.decay_direction != 0)
                p[u] += (REAL)o.decay_direction * w[u];
            if (moves && a.velocity_type) {
                b[u] = (REAL)o.momentum * b[u] + (REAL)o.take * p[u];
                store_real(a.velocity_type, a.state + e.velocity, at, b[u]);
                p[u] = o.nesterov ? p[u] + (REAL)o.momentum * b[u] : b[u];
            }
            if (t.direction.data)
                store_real(t.direction.dtype, t.direction.data, place_of(t.direction, flat[u]),
                           p[u]);
            if (moves && a.updates)
                store_real(t.weight.dtype, t.weight.data, place_of(t.weight, flat[u]),
                           w[u] - (REAL)o.learning_rate * p[u]);
        }
    }
}
