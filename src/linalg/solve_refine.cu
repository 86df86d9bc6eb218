/*
 * solve_refine.cu - solutions of f64 accuracy from a factor in f32, as cpu_solve_options.c
 *
 * A block has a column of right-hand sides; what the column does next stands in its struct
 * solve_column, and go counts those that still do something.
 *
 * solve_refine: what stands between the solves of plain steps, and all judgements.
 * solve_multiply: residuals, or products.
 * solve_gmres: one cycle for columns whose plain steps ended too early, all side by side.  It is
 * preconditioned by the f32 factor and flexible (Saad, A flexible inner-outer preconditioned GMRES
 * algorithm, 1993; Carson and Higham 2017), and ends when the residual has shrunk by 1e6: more
 * would be lost in the rounding of x.
 *
 * Parameters (-D): REAL.  It is not used: all of this is double.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_options.cuh"

#define ROWS   SOLVE_MULTIPLY_ROWS
#define SLICES (THREADS / ROWS)

static __device__ double accepted(long long n)
{
    return sqrt((double)n) * 0x1p-53;
}

static __device__ void leave(const params &a, long long item, struct solve_column *c, int mode)
{
    c->mode = mode;
    atomicSub(&a.go[item], 1);
}

/* The right-hand side of the next solve: r, scaled to where f32 has its range. */
static __device__ void scale_to(const double *r, long long n, float *d, struct solve_column *c,
                                double size)
{
    for (long long i = threadIdx.x; i < n; i += THREADS)
        d[i] = size > 0 ? (float)(r[i] / size) : 0.f;
    if (threadIdx.x == 0)
        c->scale = size;
}

/* The backward error of a column from its residual, infinite where that is NaN. */
static __device__ double error_of(const params &a, const struct solve_state *s, const double *b,
                                  const double *x, const double *r, double *size)
{
    const double norm = __longlong_as_double((long long)s->norm[1]);

    *size = size_of(r, a.n);
    const double scale = norm * size_of(x, a.n) + size_of(b, a.n);
    if (!(*size < INF_OF))
        return INF_OF;
    return *size > 0 ? *size / scale : 0;
}

struct place {
    long long item;
    struct solve_column *c;
    double *b, *x, *r;
    float *d;
};

static __device__ struct place place_in(const params &a)
{
    const long long at = blockIdx.x * a.n;

    return {blockIdx.x / a.width,      &a.column[blockIdx.x],     (double *)a.block + at,
            (double *)a.solution + at, (double *)a.residual + at, a.correction + at};
}

static __device__ void begin(const params &a, const struct place &p)
{
    const struct solve_state *s = &a.state[p.item];
    const double size = s->open ? 0 : size_of(p.b, a.n); /* an item without a factor has no b */

    for (long long i = threadIdx.x; i < a.n; i += THREADS)
        p.x[i] = 0;
    scale_to(p.b, a.n, p.d, p.c, size);
    if (threadIdx.x == 0) {
        p.c->error = INF_OF;
        p.c->steps = 0;
        p.c->mode = s->open ? SOLVE_HOPELESS : s->low ? SOLVE_STEPPING : SOLVE_WIDE;
    }
}

static __device__ void update(const params &a, const struct place &p)
{
    const double scale = ldexp(p.c->scale, -a.state[p.item].exponent);

    for (long long i = threadIdx.x; i < a.n; i += THREADS)
        p.x[i] += (double)p.d[i] * scale;
}

/* After a plain step: done, one more, or GMRES. */
static __device__ void judge(const params &a, const struct place &p)
{
    struct solve_column *c = p.c;
    double size, before = c->error;
    const double error = error_of(a, &a.state[p.item], p.b, p.x, p.r, &size);
    const bool more = error < INF_OF && error <= before / 4 && c->steps + 1 < SOLVE_PLAIN;

    __syncthreads();
    if (!(error <= accepted(a.n)) && more)
        scale_to(p.r, a.n, p.d, c, size);
    if (!(error < INF_OF)) /* it diverged: GMRES begins anew */
        for (long long i = threadIdx.x; i < a.n; i += THREADS)
            p.x[i] = 0, p.r[i] = p.b[i];
    if (threadIdx.x != 0)
        return;
    c->error = error;
    c->steps++;
    if (error <= accepted(a.n))
        leave(a, p.item, c, SOLVE_REFINED);
    else if (!more)
        leave(a, p.item, c, SOLVE_KRYLOV);
}

/* After a cycle: done, one more, or f64. */
static __device__ void judge_cycle(const params &a, const struct place &p)
{
    struct solve_column *c = p.c;
    double size, before = c->error;
    const double error = error_of(a, &a.state[p.item], p.b, p.x, p.r, &size);

    __syncthreads();
    if (threadIdx.x != 0)
        return;
    c->error = error;
    c->steps++;
    if (error <= accepted(a.n))
        leave(a, p.item, c, SOLVE_REFINED);
    else if (error > before / 2 || error != error || a.last)
        leave(a, p.item, c, SOLVE_WIDE);
}

static __device__ void judge_last(const params &a, const struct place &p)
{
    double size;
    const double error = error_of(a, &a.state[p.item], p.b, p.x, p.r, &size);

    __syncthreads();
    if (threadIdx.x == 0) {
        p.c->error = error;
        p.c->mode = SOLVE_SOLVED;
    }
}

/* One block an item here. */
static __device__ void sum_up(const params &a)
{
    struct solve_state *s = &a.state[blockIdx.x];

    for (long long j = 0; threadIdx.x == 0 && j < a.width; j++) {
        const struct solve_column *c = &a.column[blockIdx.x * a.width + j];
        s->backward = fmax(s->backward, c->error);
        if (c->mode == SOLVE_SOLVED || s->steps < 0)
            s->steps = -1;
        else
            s->steps = max(s->steps, c->steps);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) solve_refine(const __grid_constant__ params a)
{
    if (a.what == SOLVE_REFINE_SUM) {
        sum_up(a);
        return;
    }
    const struct place p = place_in(a);

    if (a.what == SOLVE_REFINE_BEGIN) {
        begin(a, p);
        return;
    }
    if (!a.go[p.item] || p.c->mode != a.mode)
        return;
    switch (a.what) {
    case SOLVE_REFINE_UPDATE:
        update(a, p);
        break;
    case SOLVE_REFINE_JUDGE:
        judge(a, p);
        break;
    case SOLVE_REFINE_CYCLE:
        judge_cycle(a, p);
        break;
    case SOLVE_REFINE_COPY:
        for (long long i = threadIdx.x; i < a.n; i += THREADS)
            p.r[i] = p.b[i];
        break;
    case SOLVE_REFINE_TAKE:
        for (long long i = threadIdx.x; i < a.n; i += THREADS)
            p.x[i] = p.r[i];
        break;
    default:
        judge_last(a, p);
    }
}

/* What a column's x holds is of use. */
static __device__ bool is_wanted(const struct solve_multiply_params &a, long long item, int c)
{
    const struct solve_column *column = a.column + item * a.columns + c;

    return c < a.columns && (!a.column || (column->mode == SOLVE_KRYLOV && column->running));
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    solve_multiply(const __grid_constant__ struct solve_multiply_params a)
{
    const long long bands = (a.n + ROWS - 1) / ROWS, item = blockIdx.x / bands;
    const long long row = blockIdx.x % bands * ROWS + (int)threadIdx.x % ROWS;
    const int slice = (int)threadIdx.x / ROWS;
    const double *m = a.matrix + item * a.n * a.n + row;
    __shared__ double x[THREADS][SOLVE_WIDTH];
    __shared__ double part[SLICES][ROWS];
    double sum[SOLVE_WIDTH] = {};
    unsigned wanted = 0;

    if (!a.go[item])
        return;
#pragma unroll 1
    for (int c = 0; c < SOLVE_WIDTH; c++)
        wanted |= (unsigned)is_wanted(a, item, c) << c;
    for (long long begin = 0; begin < a.n; begin += THREADS) {
        __syncthreads();
#pragma unroll 8
        for (int c = 0; c < SOLVE_WIDTH; c++)
            x[threadIdx.x][c] = begin + threadIdx.x < a.n && wanted >> c & 1
                                    ? a.x[(item * a.columns + c) * a.x_apart + begin + threadIdx.x]
                                    : 0;
        __syncthreads();
#pragma unroll 8
        for (int k = slice; k < THREADS; k += SLICES) {
            const double v = row < a.n && begin + k < a.n ? m[(begin + k) * a.n] : 0;
#pragma unroll
            for (int c = 0; c < SOLVE_WIDTH; c++)
                sum[c] += v * x[k][c];
        }
    }
#pragma unroll
    for (int c = 0; c < SOLVE_WIDTH; c++) {
        part[slice][threadIdx.x % ROWS] = sum[c];
        __syncthreads();
        if (slice == 0 && row < a.n && c < a.columns) {
            double all = 0;
            for (int k = 0; k < SLICES; k++)
                all += part[k][threadIdx.x];
            if (a.b)
                all = a.b[(item * a.columns + c) * a.n + row] - all;
            a.y[(item * a.columns + c) * a.y_apart + row] = all;
        }
        __syncthreads();
    }
}

/* ---- GMRES ----------------------------------------------------------------------------------- */

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

static __device__ void begin_cycle(const params &a, long long item, struct solve_column *c,
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
static __device__ void end_cycle(const params &a, struct solve_column *c, const double *z,
                                 double *x)
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
            end_cycle(a, c, z, (double *)a.solution + at);
        return;
    }
    if (!a.go[item] || c->mode != SOLVE_KRYLOV)
        return;
    if (a.what == SOLVE_GMRES_BEGIN) {
        begin_cycle(a, item, c, (const double *)a.residual + at, v, d);
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
