/*
 * solve_refine.cu - solutions of f64 accuracy from a factor in f32, as cpu_solve_refine.c
 *
 * A block has a column of right-hand sides; what the column does next stands in its struct
 * solve_column, and go counts those that still do something.
 *
 * solve_refine: what stands between the solves of plain steps, and all judgements.
 * solve_multiply: residuals, or products.
 *
 * Parameters (-D): REAL.  It is not used: all of this is double.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_extra.cuh"

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
