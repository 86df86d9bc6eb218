/*
 * kron_vjp_gradient.cu - the gradient of a Kronecker factor by tensor cores
 *
 *   out[p, q] = sum over columns (unit, a) of left[unit, p, a] right[unit, q, a]
 *
 * A block of eight warps has BP by BQ of them and a slice of the columns, which it goes through in
 * chunks of BK: these come to shared memory by asynchronous copies, STAGES - 1 ahead.  Warps share
 * the p, the q and, WK of them, the columns of a chunk; each has MT times 16 by NT times 8 sums,
 * and those of the same p and q are added up at the end.  A is left, B is right transposed, the
 * fragments of ptx.cuh with columns 2t and 2t + 1 in the place of k = t and t + 4, so that a thread
 * reads neighbours where columns are neighbours.
 *
 * Parameters (-D), set by cuda_kron_matmul_vjp_gradient.c:
 *   REAL      float or double
 *   DOUBLES   1: REAL is double
 *   MT, NT    tiles of 16 p and of 8 q of a warp
 *   WP, WQ    warps along p and along q; their product divides eight
 *   ALONG     1: there is no a, and neighbours are those along p and q; 0: along a
 *   LOAD      elements that are copied at once; neither sizes nor `after` cut them
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_mma.cuh"
#include "kron_vjp_params.h"

#define THREADS KRON_VJP_THREADS
#define WK      (8 / (WP * WQ))
#define BP      (16 * MT * WP)
#define BQ      (8 * NT * WQ)
#define BK      KRON_VJP_CHUNK(BP + BQ, DOUBLES)
#define STAGES  KRON_VJP_STAGES

/* Rows in shared memory, so that a warp's fragments come from all banks: of p or q, or of columns,
 * whose groups change places; short ones of p or q have some left out behind them. */
static constexpr int P_ROW = ALONG ? BP + KRON_VJP_PAD(BP, DOUBLES) : BK;
static constexpr int Q_ROW = ALONG ? BQ + KRON_VJP_PAD(BQ, DOUBLES) : BK;

template <int ROW> static __device__ int place_of(int p, int k)
{
    if constexpr (!ALONG)
        return p * ROW + (k ^ (p & (DOUBLES ? 1 : 3)) * 8);
    else if constexpr (ROW % 16 != 0)
        return k * ROW + p;
    else
        return k * ROW + (p ^ (k / 2 & 3) * (DOUBLES ? 4 : 8));
}

struct stage {
    alignas(16) REAL left[ALONG ? BK * P_ROW : BP * BK];
    alignas(16) REAL right[ALONG ? BK * Q_ROW : BQ * BK];
};

/* A side of the product: its matrix, and which of its rows the block has. */
struct side {
    const REAL *from;
    long long all, first;
};

/* Brings columns first .. first + count - 1, and zeros for others, to BK by WIDTH elements; those
 * of rows that are not there stay as they are. */
template <int WIDTH, int ROW>
static __device__ void copy(REAL *to, const struct side &s, long long first, long long count,
                            long long after)
{
    constexpr int BYTES = LOAD * (int)sizeof(REAL);

    if constexpr (ALONG) {
#pragma unroll 2
        for (int i = 0; i < BK * WIDTH; i += THREADS * LOAD) {
            const int e = i + (int)threadIdx.x * LOAD, k = e / WIDTH, p = e % WIDTH;
            const bool there = k < count;
            if ((BK * WIDTH % (THREADS * LOAD) == 0 || e < BK * WIDTH) && s.first + p < s.all)
                ptx_copy_async<BYTES>(to + place_of<ROW>(p, k),
                                      there ? s.from + (first + k) * s.all + s.first + p : s.from,
                                      there ? BYTES : 0);
        }
    } else {
        constexpr int PIECES = BK / LOAD, LINES = THREADS / PIECES;
        const int k = (int)threadIdx.x % PIECES * LOAD, line = (int)threadIdx.x / PIECES;
        const long long column = first + k;
        const long long unit = (column | after) >> 32 == 0
                                   ? (long long)((unsigned)column / (unsigned)after)
                                   : column / after;
        const REAL *from = s.from + (unit * s.all + s.first) * after + (column - unit * after);
#pragma unroll 2
        for (int i = 0; i < WIDTH; i += LINES) {
            const int p = i + line;
            const bool there = k < count;
            if ((WIDTH % LINES == 0 || p < WIDTH) && s.first + p < s.all)
                ptx_copy_async<BYTES>(to + place_of<ROW>(p, k), there ? from + p * after : s.from,
                                      there ? BYTES : 0);
        }
    }
}

/* Elements of columns k and k + 1 of a row of a stage. */
template <int ROW>
static __device__ void read_two(const REAL *from, int row, int k, fragment &one, fragment &other)
{
    if constexpr (ALONG) {
        one = fragment_of(from[place_of<ROW>(row, k)]);
        other = fragment_of(from[place_of<ROW>(row, k + 1)]);
    } else {
        REAL two[2];
        ptx_read_shared(two, ptx_shared_address(from + place_of<ROW>(row, k)));
        one = fragment_of(two[0]), other = fragment_of(two[1]);
    }
}

/* Eight columns: this warp's sums. */
static __device__ void multiply_step(const struct stage &s, int k, int p0, int q0,
                                     REAL (&sum)[MT][NT][4])
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, at = k + lane % 4 * 2;
    fragment b[NT][2][2];

#pragma unroll
    for (int j = 0; j < NT; j++) {
        read_two<Q_ROW>(s.right, q0 + j * 8 + g, at, b[j][0][0], b[j][0][1]);
        split(b[j]);
    }
#pragma unroll
    for (int i = 0; i < MT; i++) {
        fragment a[2][4];
        read_two<P_ROW>(s.left, p0 + i * 16 + g, at, a[0][0], a[0][2]);
        read_two<P_ROW>(s.left, p0 + i * 16 + 8 + g, at, a[0][1], a[0][3]);
        split(a);
        multiply<2, 2>(sum[i], a, b);
    }
}

/* What a block does: a slice of the columns for a tile of the results. */
struct piece {
    struct side left, right;
    long long first, end;
    REAL *out;
};

static __device__ struct piece piece_of(const struct kron_vjp_gradient_params &a, long long number)
{
    const long long across = (a.q + BQ - 1) / BQ, down = (a.p + BP - 1) / BP;
    const long long tile = number % (down * across), place = number / (down * across);
    const long long group = place / a.slots, slot = place - group * a.slots;
    struct piece w;

    w.left = {(const REAL *)a.left + group * a.left_stride, a.p, tile / across * BP};
    w.right = {(const REAL *)a.right + group * a.right_stride, a.q, tile % across * BQ};
    w.first = slot * a.slice;
    w.end = min(w.first + a.slice, a.columns); /* before first: nothing is left */
    w.out = (REAL *)a.out + place * a.p * a.q;
    return w;
}

static __device__ void bring(const struct kron_vjp_gradient_params &a, const struct piece &w,
                             struct stage &s, long long first)
{
    if (first < w.end) {
        copy<BP, P_ROW>(s.left, w.left, first, w.end - first, a.after);
        copy<BQ, Q_ROW>(s.right, w.right, first, w.end - first, a.after);
    }
    ptx_copy_commit();
}

/* Zeros for the rows that are not there. */
static __device__ void clear(const struct kron_vjp_gradient_params &a, const struct piece &w,
                             struct stage *stages)
{
    constexpr int SIZE = STAGES * (int)(sizeof(struct stage) / sizeof(REAL));

    if (w.left.first + BP <= a.p && w.right.first + BQ <= a.q)
        return;
    for (int e = (int)threadIdx.x; e < SIZE; e += THREADS)
        ((REAL *)stages)[e] = 0;
    __syncthreads();
}

/* Adds up what the warps of the same p and q have, in shared memory. */
static __device__ void gather(REAL *tile, int share, int p0, int q0, const REAL (&sum)[MT][NT][4])
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;

    for (int turn = 0; turn < WK; turn++) {
        __syncthreads();
        if (turn != share)
            continue;
#pragma unroll
        for (int i = 0; i < MT * NT * 4; i++) {
            const int p = p0 + i / (NT * 4) * 16 + i % 4 / 2 * 8 + g;
            const int q = q0 + i / 4 % NT * 8 + t * 2 + i % 2;
            const REAL v = sum[i / (NT * 4)][i / 4 % NT][i % 4];
            tile[p * BQ + q] = turn == 0 ? v : tile[p * BQ + q] + v;
        }
    }
    __syncthreads();
}

static __device__ void store(const struct kron_vjp_gradient_params &a, const struct piece &w,
                             const REAL *tile)
{
    for (int e = (int)threadIdx.x; e < BP * BQ; e += THREADS) {
        const long long p = w.left.first + e / BQ, q = w.right.first + e % BQ;
        if (p < a.p && q < a.q)
            w.out[p * a.q + q] = (a.accumulate ? w.out[p * a.q + q] : (REAL)0) + tile[e];
    }
    __syncthreads(); /* the stages are free again */
}

extern "C" __global__ void __launch_bounds__(THREADS, DOUBLES || MT == 4 ? 1 : 2)
    kron_vjp_gradient(const __grid_constant__ struct kron_vjp_gradient_params a)
{
    extern __shared__ __align__(16) char memory[]; /* stages, then the tile of results */
    struct stage *stages = (struct stage *)memory;
    const int warp = (int)threadIdx.x / 32, share = warp / (WP * WQ);
    const int p0 = warp / WQ % WP * (16 * MT), q0 = warp % WQ * (8 * NT);
    const long long pieces = ((a.q + BQ - 1) / BQ) * ((a.p + BP - 1) / BP) * a.slots * a.groups;

    for (long long number = blockIdx.x; number < pieces; number += gridDim.x) {
        const struct piece w = piece_of(a, number);
        REAL sum[MT][NT][4] = {};
        int now = 0, next = STAGES - 1;
        clear(a, w, stages);
#pragma unroll 1
        for (int s = 0; s < STAGES - 1; s++)
            bring(a, w, stages[s], w.first + s * BK);
#pragma unroll 1
        for (long long first = w.first; first < w.end; first += BK) {
            ptx_copy_wait<STAGES - 2>();
            __syncthreads(); /* this chunk is there, and the last one is no longer read */
            bring(a, w, stages[next], first + (STAGES - 1) * BK);
#pragma unroll 1
            for (int k = 0; k < BK; k += 8 * WK)
                multiply_step(stages[now], k + share * 8, p0, q0, sum);
            now = now + 1 == STAGES ? 0 : now + 1, next = next + 1 == STAGES ? 0 : next + 1;
        }
        ptx_copy_wait<0>();
        gather((REAL *)memory, share, p0, q0, sum);
        store(a, w, (const REAL *)memory);
    }
}
