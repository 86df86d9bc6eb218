/*
 * eigh_jacobi.cu - symmetric eigenproblems of order n <= 32, several a warp
 *
 * Two-sided Jacobi: N >= n lanes share a matrix, lane j holds row j of A and row j of the vectors V
 * in registers.  A step rotates disjoint pairs of neighbouring places, (0,1), (2,3), ... and (1,2),
 * (3,4), ... in turn, and exchanges the two rows and columns of each: after N steps, a sweep,
 * everybody has met everybody else once (odd-even transposition).  So all registers have fixed
 * numbers, rotations of columns stay within a lane, and those of rows are one shuffle an element
 * with the neighbour.
 *
 * The diagonal is kept apart, one element a lane; what stands in its place in A is any number, for
 * it meets nothing but elements that are set to zero.  An element of at most 1/8 eps of the
 * largest is not rotated; the sweeps end when no lane had one.  Rows beyond n are zero, with a
 * diagonal beyond all values: they are never rotated, and are sorted to the end.
 *
 * Parameters (-D), set by cuda_eigh.c:
 *   REAL    float or double
 *   ORDER   8, 16 or 32
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_items.cuh"

#define N ORDER

#if N != 8 && N != 16 && N != 32
#  error "eigh_jacobi.cu: ORDER must be 8, 16 or 32"
#endif
#define MATRICES (EIGH_LANES / N) /* of a warp, which is a block */
#define LD       (N + 1)
#define WARP     0xFFFFFFFFu
/* Registers do not do for V too: its rows stay in shared memory. */
#define VECTORS_SHARED (sizeof(REAL) == 8 && N == 32)
#define BEYOND         ((REAL)64) /* |w| <= 32 of matrices whose elements are below 1 */

struct matrix {
    REAL s[N * LD]; /* on its way in, and vectors by rows on their way out */
    REAL w[N];
};

struct turn {
    REAL c, s;
};

/* What a lane holds: its row of A and of V, its diagonal element. */
struct row {
    REAL a[N], v[N], d;
};

/* x becomes c x - s y, y becomes s x + c y and makes apq zero; app and aqq change by *change. */
static __device__ struct turn turn_of(REAL app, REAL aqq, REAL apq, bool active, REAL *change)
{
    struct turn r = {1, 0};

    *change = 0;
    if (active) {
        REAL d = aqq - app, twice = 2 * apq;
        REAL sum = fabs(d) + sqrt(d * d + twice * twice);
        REAL scale = 1 / sqrt(sum * sum + twice * twice);
        r.c = sum * scale;
        r.s = (d < 0 ? -twice : twice) * scale;
        *change = r.s * (r.c * twice - r.s * d);
    }
    return r;
}

/* A step: pairs (ODD, ODD + 1), (ODD + 2, ...); gives whether this lane's was rotated. */
template <int ODD>
static __device__ bool step(struct row &m, REAL *v, struct turn *turns, int lane, REAL limit)
{
    constexpr int PAIRS = N / 2 - ODD;
    int mine = (lane - ODD) >> 1; /* pair */
    bool first = ((lane - ODD) & 1) == 0, idle = ODD && (lane == 0 || lane == N - 1);
    int partner = idle ? lane : first ? lane + 1 : lane - 1;
    REAL apq = 0, change, other_d = __shfl_sync(WARP, m.d, partner, N);

#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        REAL x = first ? m.a[2 * i + ODD + 1] : m.a[2 * i + ODD];
        apq = mine == i && !idle ? x : apq;
    }
    apq = __shfl_sync(WARP, apq, idle || first ? lane : lane - 1, N); /* both the same bits */
    bool active = fabs(apq) > limit;
    struct turn r = turn_of(first ? m.d : other_d, first ? other_d : m.d, apq, active, &change);
    if (!idle) /* and they change places */
        m.d = first ? other_d + change : other_d - change;
    if (!idle && first)
        turns[mine] = r;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < PAIRS; i++) { /* columns */
        const int p = 2 * i + ODD, q = p + 1;
        const struct turn t = turns[i];
        REAL x = m.a[p], y = m.a[q];
        m.a[p] = t.s * x + t.c * y;
        m.a[q] = t.c * x - t.s * y;
        REAL &vp = VECTORS_SHARED ? v[p] : m.v[p], &vq = VECTORS_SHARED ? v[q] : m.v[q];
        x = vp, y = vq;
        vp = t.s * x + t.c * y;
        vq = t.c * x - t.s * y;
    }
    __syncwarp(); /* turns has been read */
    REAL own = idle ? 1 : first ? r.s : -r.s, from = idle ? 0 : r.c;
#pragma unroll
    for (int i = 0; i < N; i++) /* rows */
        m.a[i] = own * m.a[i] + from * __shfl_sync(WARP, m.a[i], partner, N);
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        bool is_mine = mine == i && !idle;
        m.a[2 * i + ODD] = is_mine ? 0 : m.a[2 * i + ODD];
        m.a[2 * i + ODD + 1] = is_mine ? 0 : m.a[2 * i + ODD + 1];
    }
    return active;
}

/* Lane's row of the item's matrix, scaled; gives the largest magnitude of the whole. */
static __device__ REAL load(const struct eigh_call &c, long long item, int lane, struct matrix &s,
                            struct row &m)
{
    const REAL *from = item_of(c, c.a, item);
    bool by_rows = llabs(c.a.col_stride) <= llabs(c.a.row_stride);
    REAL largest = 0;

#pragma unroll 1
    for (int k = 0; k < c.n; k++) { /* neighbouring lanes read neighbouring elements */
        int i = by_rows ? k : lane, j = by_rows ? lane : k;
        if (i < c.n && j <= i)
            s.s[i * LD + j] = s.s[j * LD + i] = from[i * c.a.row_stride + j * c.a.col_stride];
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < N; j++) {
        m.a[j] = lane < c.n && j < c.n ? s.s[lane * LD + j] : 0;
        largest = larger(largest, m.a[j]);
        m.v[j] = j == lane;
    }
    __syncwarp(); /* the matrix has been read */
#pragma unroll
    for (int j = 0; VECTORS_SHARED && j < N; j++)
        s.s[lane * LD + j] = j == lane;
    for (int bits = N / 2; bits > 0; bits /= 2)
        largest = larger(largest, __shfl_xor_sync(WARP, largest, bits, N));
    return largest;
}

/* The diagonal to its place, the elements to [0, 1); all zero where they are not finite. */
static __device__ void prepare(struct row &m, int lane, long long n, REAL largest)
{
    int e = exponent_of(largest);

    m.d = 0;
#pragma unroll
    for (int j = 0; j < N; j++) {
        m.a[j] = is_finite(largest) ? ldexp(m.a[j], -e) : 0;
        m.d = j == lane ? m.a[j] : m.d;
        m.a[j] = j == lane ? 0 : m.a[j];
    }
    if (lane >= n)
        m.d = BEYOND;
}

/* Brings values and vectors to shared memory, ascending. */
static __device__ void order(struct row &m, int lane, int e, struct matrix &s)
{
    int place = 0;

    for (int j = 0; j < N; j++) {
        REAL d = __shfl_sync(WARP, m.d, j, N);
        place += d < m.d || (d == m.d && j < lane);
    }
#pragma unroll
    for (int j = 0; VECTORS_SHARED && j < N; j++)
        m.v[j] = s.s[lane * LD + j];
    s.w[place] = m.d == BEYOND ? m.d : ldexp(m.d, e);
#pragma unroll
    for (int j = 0; j < N; j++)
        s.s[lane * LD + __shfl_sync(WARP, place, j, N)] = m.v[j];
    __syncwarp();
}

static __device__ void store(const struct eigh_call &c, long long item, int info, int lane,
                             const struct matrix &s)
{
    long long below = 0, within = 0;
    bool by_rows = llabs(c.vectors.col_stride) <= llabs(c.vectors.row_stride);

    for (int j = 0; j < c.n; j++) {
        below += (double)s.w[j] <= c.lower;
        within += (double)s.w[j] <= c.upper;
    }
    struct eigh_choice pick = choose(c, below, within);
    if (info != EIGH_INFO_DONE)
        pick.stored = pick.found = 0;
    if (lane == 0)
        tell(c, item, info, pick.found);
    if (lane < c.count)
        item_of(c, c.values, item)[lane * c.values.col_stride] =
            lane < pick.stored ? s.w[pick.first + lane] : NAN_OF;
    if (!c.vectors.data)
        return;
    REAL *to = item_of(c, c.vectors, item);
#pragma unroll 1
    for (int k = 0; k < N; k++) {
        int i = by_rows ? k : lane, j = by_rows ? lane : k;
        if (i < c.n && j < c.count)
            to[i * c.vectors.row_stride + j * c.vectors.col_stride] =
                j < pick.stored ? s.s[i * LD + pick.first + j] : NAN_OF;
    }
}

extern "C" __global__ void __launch_bounds__(EIGH_LANES, 8)
    eigh_jacobi(const __grid_constant__ struct eigh_call c)
{
    __shared__ struct matrix shared[MATRICES];
    __shared__ struct turn turns[MATRICES][N / 2];
    int lane = threadIdx.x % N, group = threadIdx.x / N;

    for (long long at = blockIdx.x; at * MATRICES < c.items; at += gridDim.x) {
        long long item = at * MATRICES + group;
        bool exists = item < c.items; /* else the last once more, not stored */
        struct row m;
        bool moved = true;
        REAL *v = shared[group].s + lane * LD;

        REAL largest = load(c, exists ? item : c.items - 1, lane, shared[group], m);
        prepare(m, lane, c.n, largest);
        REAL limit = ldexp(largest, -exponent_of(largest)) * (EPS / 8);
        if (!is_finite(largest))
            limit = 1;
        for (int sweep = 0; sweep < EIGH_SWEEPS && __any_sync(WARP, moved); sweep++) {
            moved = false;
#pragma unroll 1
            for (int i = 0; i < N / 2; i++) {
                moved |= step<0>(m, v, turns[group], lane, limit);
                moved |= step<1>(m, v, turns[group], lane, limit);
            }
        }
        unsigned group_bits = (unsigned)((1ull << N) - 1) << (group * N);
        int info =
            __ballot_sync(WARP, moved) & group_bits ? EIGH_INFO_NOT_CONVERGED : EIGH_INFO_DONE;
        if (!is_finite(largest))
            info = EIGH_INFO_NOT_FINITE;
        order(m, lane, exponent_of(largest), shared[group]);
        if (exists)
            store(c, item, info, lane, shared[group]);
        __syncwarp(); /* shared memory has been read */
    }
}
