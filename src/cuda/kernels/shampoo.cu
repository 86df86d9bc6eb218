/*
 * shampoo.cu - what Shampoo does to the elements of its blocks (formulas: gram.h)
 *
 * shampoo_gather: gradients to scratch, one block after the other.
 * shampoo_permute: the same with dimension k first.
 * shampoo_filter: V and M take the gradient in; the filtered gradient, and the graft's step with
 * the sum of its squares.
 * shampoo_squares: the sum of the squares of what roots made of it.
 * shampoo_finish: the direction, decay, momentum; parameters.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    shampoo_gather(const __grid_constant__ params a)
{
    const struct optimizer_entry &e = a.entry[block_of(a)];
    const struct optimizer_tensors &t = a.tensors[e.parameter];
    const bool rests = a.now[e.parameter].rests != 0;
    REAL *to = (REAL *)a.g + block_of(a) * a.array;

    for (long long i = first_of(a); i < last_of(a); i += THREADS)
        to[i] = rests ? (REAL)0 : gradient_of(a, t, flat_of(a, e, i));
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    shampoo_permute(const __grid_constant__ params a)
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
    shampoo_filter(const __grid_constant__ params a)
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

    for (long long i = first_of(a); i < last_of(a); i += THREADS) {
        REAL f = g[i], v = 0, step;
        if (now.rests)
            continue;
        if (a.second_type) {
            v = v_keep * number_of(a.second_type, a.state + e.second, i) + v_take * f * f;
            put(a.second_type, a.state + e.second, i, v);
        }
        if (a.moment_type) {
            const REAL m = number_of(a.moment_type, a.state + e.moment, i), gradient = f;
            f = f_keep * m + f_take * gradient;
            put(a.moment_type, a.state + e.moment, i, m_keep * m + m_take * gradient);
            g[i] = f;
        }
        step = f;
        if (a.second_type) {
            const REAL root = (REAL)sqrt((double)(v * (REAL)now.graft)) + (REAL)o.graft_epsilon;
            step = root > 0 ? f / root : (REAL)0;
        }
        grafted[i] = step;
        sum += (double)step * (double)step;
    }
    block_sum(sums, (int)threadIdx.x, sum);
    if (threadIdx.x == 0)
        a.grafted_squares[blockIdx.x] = sums[0];
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    shampoo_squares(const __grid_constant__ params a)
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
    shampoo_finish(const __grid_constant__ params a)
{
    __shared__ double sums[2][THREADS];
    const struct optimizer_options &o = a.options;
    const struct optimizer_entry &e = a.entry[block_of(a)];
    const struct optimizer_tensors &t = a.tensors[e.parameter];
    const struct optimizer_now &now = a.now[e.parameter];
    const bool moves = a.own && !now.rests, early = now.t < o.start || !a.from;
    const REAL *from = (const REAL *)(early ? a.grafted : a.from) + block_of(a) * a.array;
    REAL scale = (REAL)a.scale;

    if (moves && !early && !o.graft_none)
        scale = (REAL)(sqrt(tiles_sum(a, a.grafted_squares, sums[0])) /
                       (sqrt(tiles_sum(a, a.squares, sums[1])) + 1e-16));
    for (long long i = first_of(a); i < last_of(a); i += THREADS) {
        const long long flat = flat_of(a, e, i);
        REAL p = 0;
        if (moves) {
            p = scale * from[i];
            if (o.decay_direction != 0)
                p += (REAL)o.decay_direction * element_of(t.weight, flat);
        }
        if (moves && a.velocity_type) {
            const REAL b = (REAL)o.momentum * number_of(a.velocity_type, a.state + e.velocity, i) +
                           (REAL)o.take * p;
            put(a.velocity_type, a.state + e.velocity, i, b);
            p = o.nesterov ? p + (REAL)o.momentum * b : b;
        }
        if (t.direction.data)
            put(t.direction.type, t.direction.data, place_of(t.direction, flat), p);
        if (moves && a.updates) {
            const long long at = place_of(t.weight, flat);
            put(t.weight.type, t.weight.data, at,
                number_of(t.weight.type, t.weight.data, at) - (REAL)o.learning_rate * p);
        }
    }
}
