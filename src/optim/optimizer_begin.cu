/*
 * optimizer_begin.cu - what a step begins and ends with: which parameters rest, their steps
 *
 * optimizer_list: the tensors of some parameters to the table of all.
 * optimizer_identity: roots before the first step.
 * optimizer_begin: the numbers of a parameter's step; a thread has one.
 * optimizer_check_finite: the sum of the squares of each tile of the gradients.
 * optimizer_mark_not_finite: parameters whose sums do not fit rest.
 * optimizer_end: steps are counted.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_list(const __grid_constant__ struct optimizer_list a)
{
    if (threadIdx.x < a.count)
        a.to[a.first + threadIdx.x] = a.item[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_identity(const __grid_constant__ params a)
{
    for (long long e = blockIdx.x * (long long)THREADS + threadIdx.x; e < a.blocks * a.n;
         e += (long long)gridDim.x * THREADS) {
        const long long i = e % a.n;
        const long long at = a.options.soap ? i * a.n + i : upper_of(a, i, i);
        store_real(a.matrix_type, a.state + a.entry[e / a.n].root[a.k], at, (REAL)1);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_begin(const __grid_constant__ params a)
{
    const long long p = blockIdx.x * (long long)THREADS + threadIdx.x;
    const struct optimizer_options &o = a.options;

    if (p == 0) {
        a.counts->skipped = a.counts->refreshed = a.counts->kept = a.counts->failed = 0;
        a.counts->first_failed = -1;
    }
    if (p >= a.parameters)
        return;
    struct optimizer_now *now = &a.now[p];
    const double t = (double)(a.steps[p] + 1);
    now->t = a.steps[p] + 1;
    now->rests = a.tensors[p].gradient.data ? 0 : OPTIMIZER_NO_GRADIENT;
    const double taken = (double)(now->t / o.statistics + (o.statistics > 1));
    now->correction = o.bias_correction && o.beta2 < 1 ? -expm1(taken * log(o.beta2)) : 1;
    now->still = o.soap && now->t == 1;
    now->scale = 1;
    if (o.soap && o.bias_correction && !now->still) /* t - 1 steps have moved */
        now->scale = sqrt(1 - pow(o.graft_beta2, t - 1)) / (1 - pow(o.beta1, t - 1));
    if (o.soap)
        now->scale *= o.soap_keep;
    now->filter = o.bias_correction && !o.soap ? 1 / (1 - o.beta3 * pow(o.beta1, t - 1)) : 1;
    now->graft = o.graft_corrected ? 1 / -expm1(t * log(o.graft_beta2)) : 1;
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    optimizer_check_finite(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const struct optimizer_entry &e = a.entry[block_of(a)];
    const struct optimizer_tensors &t = a.tensors[e.parameter];
    double sum = 0;

    for (long long i = first_run_of(a); t.gradient.data && i < last_of(a); i += EACH * THREADS) {
        REAL v[EACH];
        gradients_of(a, e, t, i, v);
#pragma unroll
        for (int u = 0; u < EACH; u++)
            sum += (double)v[u] * (double)v[u];
    }
    block_sum(sums, (int)threadIdx.x, sum);
    if (threadIdx.x == 0)
        a.squares[blockIdx.x] = sums[0];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_mark_not_finite(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const long long block = blockIdx.x;
    double mine = 0;

    for (long long i = threadIdx.x; i < a.tiles; i += THREADS)
        mine += a.squares[block * a.tiles + i];
    block_sum(sums, (int)threadIdx.x, mine);
    if (threadIdx.x == 0 && !(sums[0] <= a.most))
        atomicOr(&a.now[a.entry[block].parameter].rests, OPTIMIZER_NOT_FINITE);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_end(const __grid_constant__ params a)
{
    const long long p = blockIdx.x * (long long)THREADS + threadIdx.x;

    if (p == 0)
        *a.step += 1;
    if (p >= a.parameters)
        return;
    if (a.now[p].rests == 0)
        a.steps[p]++;
    if (a.now[p].rests & OPTIMIZER_NOT_FINITE)
        atomicAdd((unsigned long long *)&a.counts->skipped, 1ull);
}
