/*
 * eigh_small.cu - symmetric eigenproblems of order 1, 2 and 3, one a thread
 *
 * n = 3: with B = (A - q I) / p, q the mean of the diagonal and p its spread, the roots of
 * x^3 - 3 x - det B solve the problem.  The outer one on the side of the determinant's sign lies in
 * [sqrt 3, 2] and apart from the others, so Newton's iteration from 2 has it in five steps, and the
 * largest cross product of two rows of B - x I is its vector without cancellation.  What is left is
 * a matrix of order 2 in the plane across it, and one rotation: as on the CPU.
 *
 * Parameters (-D), set by cuda_eigh.c:
 *   REAL    float or double
 *   ORDER   1, 2 or 3
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_items.cuh"

#define N ORDER

#if N < 1 || N > 3
#  error "eigh_small.cu: ORDER must be 1, 2 or 3"
#endif

#if N > 1
/* x becomes c x - s y, y becomes s x + c y. */
struct turn {
    REAL c, s;
};

/* The rotation that makes apq zero; none where it is negligible.  app and aqq become the values. */
static __device__ struct turn diagonalise(REAL &app, REAL &aqq, REAL apq)
{
    struct turn r = {1, 0};
    REAL d = aqq - app, twice = 2 * apq;

    if (!(fabs(apq) > EPS / 8))
        return r;
    REAL sum = fabs(d) + sqrt(d * d + twice * twice);
    REAL scale = 1 / sqrt(sum * sum + twice * twice);
    r.c = sum * scale;
    r.s = (d < 0 ? -twice : twice) * scale;
    REAL change = r.s * (r.c * twice - r.s * d);
    app -= change;
    aqq += change;
    return r;
}

#endif

#if N == 3
static __device__ REAL dot(const REAL *x, const REAL *y)
{
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2];
}

static __device__ void cross(const REAL *x, const REAL *y, REAL *out)
{
    out[0] = x[1] * y[2] - x[2] * y[1];
    out[1] = x[2] * y[0] - x[0] * y[2];
    out[2] = x[0] * y[1] - x[1] * y[0];
}

/* The unit vector that B - root I takes to zero. */
static __device__ void null_vector(const REAL (&b)[3][3], REAL root, REAL *out)
{
    REAL m[3][3], best = -1;

    for (int i = 0; i < 9; i++)
        m[i / 3][i % 3] = b[i / 3][i % 3] - (i % 4 == 0 ? root : 0);
    for (int k = 0; k < 3; k++) {
        REAL normal[3];
        cross(m[k], m[(k + 1) % 3], normal);
        REAL length = dot(normal, normal);
        for (int i = 0; i < 3; i++)
            out[i] = length > best ? normal[i] : out[i];
        best = length > best ? length : best;
    }
    REAL scale = 1 / sqrt(best);
    for (int i = 0; i < 3; i++)
        out[i] *= scale;
}

/* Two unit vectors across v and each other. */
static __device__ void plane(const REAL *v, REAL *u, REAL *w)
{
    bool first = fabs(v[0]) > fabs(v[1]);
    REAL big = first ? v[0] : v[1];
    REAL scale = 1 / sqrt(big * big + v[2] * v[2]);

    u[0] = (first ? -v[2] : 0) * scale;
    u[1] = (first ? 0 : v[2]) * scale;
    u[2] = (first ? v[0] : -v[1]) * scale;
    cross(v, u, w);
}

/* x^T B y */
static __device__ REAL form(const REAL (&b)[3][3], const REAL *x, const REAL *y)
{
    REAL by[3];

    for (int i = 0; i < 3; i++)
        by[i] = dot(b[i], y);
    return dot(x, by);
}

/* Values and vectors (v[j] is the j'th) of a, in any order. */
static __device__ void solve(const REAL (&a)[3][3], REAL (&v)[3][3], REAL (&w)[3])
{
    REAL b[3][3], q = (a[0][0] + a[1][1] + a[2][2]) * (REAL)(1.0 / 3), p = 0, normal[3], root = 2;

    for (int i = 0; i < 9; i++) {
        b[i / 3][i % 3] = a[i / 3][i % 3] - (i % 4 == 0 ? q : 0);
        p += b[i / 3][i % 3] * b[i / 3][i % 3];
    }
    p = sqrt(p * (REAL)(1.0 / 6));
    REAL scale = 1 / (p > 0 ? p : 1);
    for (int i = 0; i < 9; i++)
        b[i / 3][i % 3] *= scale;
    cross(b[1], b[2], normal);
    REAL half = dot(b[0], normal) * (REAL)0.5; /* of the determinant, made positive */
    for (int i = 0; i < 9; i++)
        b[i / 3][i % 3] = half < 0 ? -b[i / 3][i % 3] : b[i / 3][i % 3];
    REAL spread = half < 0 ? -p : p;
    half = fabs(half) > 1 ? 1 : fabs(half);
    for (int step = 0; step < 5; step++) /* 2e-23 off at the most distant root, sqrt 3 */
        root -= ((root * root - 3) * root - half * 2) / ((root * root - 1) * 3);
    null_vector(b, root, v[0]);
    plane(v[0], v[1], v[2]);
    REAL app = form(b, v[1], v[1]), aqq = form(b, v[2], v[2]), apq = form(b, v[1], v[2]);
    struct turn r = diagonalise(app, aqq, apq);
    for (int i = 0; i < 3; i++) {
        REAL x = v[1][i], y = v[2][i];
        v[1][i] = r.c * x - r.s * y;
        v[2][i] = r.s * x + r.c * y;
    }
    w[0] = q + spread * form(b, v[0], v[0]);
    w[1] = q + spread * app;
    w[2] = q + spread * aqq;
}
#elif N == 2
static __device__ void solve(const REAL (&a)[2][2], REAL (&v)[2][2], REAL (&w)[2])
{
    w[0] = a[0][0];
    w[1] = a[1][1];
    struct turn r = diagonalise(w[0], w[1], a[1][0]);
    v[0][0] = r.c, v[0][1] = -r.s;
    v[1][0] = r.s, v[1][1] = r.c;
}
#else
static __device__ void solve(const REAL (&a)[1][1], REAL (&v)[1][1], REAL (&w)[1])
{
    w[0] = a[0][0];
    v[0][0] = 1;
}
#endif

/* The triangle of an item, mirrored; gives its largest magnitude. */
static __device__ REAL load(const struct eigh_call &c, long long item, REAL (&a)[N][N])
{
    const REAL *from = item_of(c, c.a, item);
    REAL largest = 0;

    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) {
            a[i][j] = a[j][i] = from[i * c.a.row_stride + j * c.a.col_stride];
            largest = larger(largest, a[i][j]);
        }
    return largest;
}

/* Exchanges pairs that do not ascend. */
static __device__ void order(REAL (&v)[N][N], REAL (&w)[N])
{
    for (int k = 0; k < N * (N - 1) / 2; k++) {
        int i = k == 1; /* 0 1, 1 2, 0 1 */
        bool swap = N > 1 && w[i] > w[(i + 1) % N];
        for (int e = 0; e <= N; e++) {
            REAL &x = e < N ? v[i][e % N] : w[i];
            REAL &y = e < N ? v[(i + 1) % N][e % N] : w[(i + 1) % N];
            REAL kept = x;
            x = swap ? y : x;
            y = swap ? kept : y;
        }
    }
}

static __device__ void store(const struct eigh_call &c, long long item, bool sound,
                             const REAL (&v)[N][N], const REAL (&w)[N])
{
    long long below = 0, within = 0;

    for (int j = 0; j < N; j++) {
        below += (double)w[j] <= c.lower;
        within += (double)w[j] <= c.upper;
    }
    struct eigh_choice pick = choose(c, below, within);
    if (!sound)
        pick.stored = pick.found = 0;
    tell(c, item, sound ? EIGH_INFO_DONE : EIGH_INFO_NOT_FINITE, pick.found);
    REAL *values = item_of(c, c.values, item), *vectors = item_of(c, c.vectors, item);
    for (int j = 0; j < N; j++) { /* j: a pair; at: its place */
        long long at = j - pick.first;
        if (at >= 0 && at < pick.stored) {
            values[at * c.values.col_stride] = w[j];
            for (int i = 0; c.vectors.data && i < N; i++)
                vectors[i * c.vectors.row_stride + at * c.vectors.col_stride] = v[j][i];
        }
    }
    for (long long at = pick.stored; at < c.count; at++) {
        values[at * c.values.col_stride] = NAN_OF;
        for (int i = 0; c.vectors.data && i < N; i++)
            vectors[i * c.vectors.row_stride + at * c.vectors.col_stride] = NAN_OF;
    }
}

extern "C" __global__ void __launch_bounds__(EIGH_THREADS)
    eigh_small(const __grid_constant__ struct eigh_call c)
{
    for (long long item = blockIdx.x * (long long)EIGH_THREADS + threadIdx.x; item < c.items;
         item += (long long)gridDim.x * EIGH_THREADS) {
        REAL a[N][N], v[N][N], w[N];
        REAL largest = load(c, item, a);
        int e = exponent_of(largest);
        for (int i = 0; i < N * N; i++)
            a[i / N][i % N] = ldexp(a[i / N][i % N], -e);
        solve(a, v, w);
        for (int j = 0; j < N; j++)
            w[j] = ldexp(w[j], e);
        order(v, w);
        store(c, item, is_finite(largest), v, w);
    }
}
