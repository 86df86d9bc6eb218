/*
 * solve_gmres.cu - GMRES for columns whose plain refinement ended too early, all side by side
 *
 * Preconditioned by the f32 factor, flexible (Saad, A flexible inner-outer preconditioned GMRES
 * algorithm, 1993; Carson and Higham 2017), one cycle; a block a column.  It ends when the residual
 * has shrunk by 1e6: more would be lost in the rounding of x.
 *
 * Parameters (-D): REAL.  It is not used: all of this is double.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_extra.cuh"

#define MOST SOLVE_GMRES

static __device__ double dot(const double *u, const double *v, long long n)
{
    double mine = 0;

    for (long long i = threadIdx.x; i < n; i += THREADS)
        mine += u[i] * v[i];
    return block_total(mine);
}

/* The column has all that it gets from this cycle. */
static __device__ void stop(const params &a, long long item, struct solve_column *c)
{
    if (threadIdx.x == 0) {
        c->running = 0;
        atomicSub(&a.go[item], 1);
    }
}

/* The next v scaled to where f32 has its range, for the factor. */
static __device__ void precondition(const double *v, long long n, float *d, struct solve_column *c)
{
    const double size = size_of(v, n);

    for (long long i = threadIdx.x; i < n; i += THREADS)
        d[i] = size > 0 ? (float)(v[i] / size) : 0.f;
    if (threadIdx.x == 0)
        c->scale = size;
}

static __device__ void begin(const params &a, long long item, struct solve_column *c,
                             const double *r, double *v, float *d)
{
    const double beta = sqrt(dot(r, r, a.n));

    if (threadIdx.x == 0) {
        c->k = 0;
        c->beta = c->g[0] = beta;
        c->running = 1;
    }
    if (!(beta > 0 && beta < INF_OF)) {
        stop(a, item, c);
        return;
    }
    for (long long i = threadIdx.x; i < a.n; i += THREADS)
        v[i] = r[i] / beta;
    __syncthreads();
    precondition(v, a.n, d, c);
}

/* One thread: the new column of the least squares is turned as those before it. */
static __device__ void rotate(struct solve_column *c, int k)
{
    double *h = c->r[k], length;

    for (int i = 0; i < k; i++) {
        const double upper = c->c[i] * h[i] + c->s[i] * h[i + 1];
        h[i + 1] = c->c[i] * h[i + 1] - c->s[i] * h[i];
        h[i] = upper;
    }
    length = sqrt(h[k] * h[k] + h[k + 1] * h[k + 1]); /* near 1: of A times its inverse */
    c->c[k] = length > 0 ? h[k] / length : 1;
    c->s[k] = length > 0 ? h[k + 1] / length : 0;
    h[k] = length;
    c->g[k + 1] = -c->s[k] * c->g[k];
    c->g[k] *= c->c[k];
}

static __device__ void step(const params &a, long long item, struct solve_column *c, double *v,
                            float *d)
{
    const int k = c->k;
    const long long n = a.n;
    double *next = v + (k + 1) * n;

    for (int i = 0; i <= k; i++) {
        const double h = dot(next, v + i * n, n);
        for (long long j = threadIdx.x; j < n; j += THREADS)
            next[j] -= h * v[i * n + j];
        if (threadIdx.x == 0)
            c->r[k][i] = h;
        __syncthreads();
    }
    const double length = sqrt(dot(next, next, n));
    if (!(length < INF_OF)) {
        stop(a, item, c);
        return;
    }
    if (threadIdx.x == 0) {
        c->r[k][k + 1] = length;
        rotate(c, k);
        c->k = k + 1;
    }
    for (long long j = threadIdx.x; length > 0 && j < n; j += THREADS)
        next[j] /= length;
    __syncthreads();
    if (!(length > 0) || k + 1 == MOST || k + 1 >= n || fabs(c->g[k + 1]) <= 1e-6 * c->beta) {
        stop(a, item, c);
        return;
    }
    precondition(next, n, d, c);
}

/* The triangular system, and x. */
static __device__ void end(const params &a, struct solve_column *c, const double *z, double *x)
{
    __shared__ double y[MOST];
    const int k = c->k;

    for (int j = k - 1; threadIdx.x == 0 && j >= 0; j--) {
        y[j] = c->g[j];
        for (int i = j + 1; i < k; i++)
            y[j] -= c->r[i][j] * y[i];
        y[j] = c->r[j][j] != 0 ? y[j] / c->r[j][j] : 0;
    }
    __syncthreads();
    for (long long i = threadIdx.x; i < a.n; i += THREADS)
        for (int j = 0; j < k; j++)
            x[i] += y[j] * z[j * a.n + i];
}

extern "C" __global__ void __launch_bounds__(THREADS) solve_gmres(const __grid_constant__ params a)
{
    const long long item = blockIdx.x / a.width, at = blockIdx.x * a.n;
    struct solve_column *c = &a.column[blockIdx.x];
    double *v = a.basis + at * (2 * MOST + 1), *z = v + a.n * (MOST + 1);
    float *d = a.correction + at;

    if (a.what == SOLVE_GMRES_END) {
        if (a.go[item] && c->mode == SOLVE_KRYLOV)
            end(a, c, z, (double *)a.solution + at);
        return;
    }
    if (!a.go[item] || c->mode != SOLVE_KRYLOV)
        return;
    if (a.what == SOLVE_GMRES_BEGIN) {
        begin(a, item, c, (const double *)a.residual + at, v, d);
        return;
    }
    if (!c->running)
        return;
    if (a.what == SOLVE_GMRES_SPREAD) {
        const double scale = ldexp(c->scale, -a.state[item].exponent);
        for (long long i = threadIdx.x; i < a.n; i += THREADS)
            z[c->k * a.n + i] = (double)d[i] * scale;
        return;
    }
    step(a, item, c, v, d);
}
