/*
 * kron_matmul_kept.cu - one Kronecker factor, which a block keeps in shared memory, by the tensor
 * cores of sm_90
 *
 *   y[unit, q, a] = sum_p x[unit, p, a] f[p, q]
 *
 * A column is a unit and an index a after the factor.  A warp has 16 columns and BQ of the q.  Its
 * columns come to its own slots of shared memory by asynchronous copies, in chunks of 128 bytes
 * along p, STAGES - 1 ahead and so into its next tile; nothing but the factor is shared, so that
 * warps wait for each other only where the factor changes.  A is x, from registers, B the factor:
 * fragments are those of ptx.cuh, but which p is the k-th and which column the m-th is chosen so
 * that a thread reads and writes neighbours together.
 *
 * Units follow each other in x and y by one stride, and there are fewer than 2^31 columns.
 *
 * Parameters (-D), set by cuda_kron_kept.c:
 *   REAL, X_KIND, Y_KIND, F_KIND, WHOLE   see kron_pass.cuh; REAL, X_KIND and F_KIND are float or
 *                double
 *   DOUBLES      1: REAL is double
 *   P, BQ         rows of the factor, and of its columns those that a block keeps: 32, 64 or 128
 *   ALONG        1: neighbours in x are those along p (there is no a), else 16 of a at least
 *   WGS       of four warps, in a block
 *   STAGES       chunks that there is room for
 *   CHAIN        chunks that tensor cores add up before CUDA cores do (float)
 *   F_LOAD       elements of the factor, along q, that are read at once
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_pass.cuh"

#define WARPS   (4 * WGS)
#define THREADS (32 * WARPS)
#define OWN     16 /* columns of a warp */
#define BN      (OWN * WARPS)
#define SLOT    2048 /* bytes: a chunk of a warp's columns */
#define TILES   (BQ / 8)

static constexpr int PIECE = 16 / (int)sizeof(REAL), BK = 8 * PIECE, STEPS = BK / 8;
static constexpr int CHUNKS = (P + BK - 1) / BK, K = CHUNKS * BK;
static constexpr int FACTOR_BYTES = K * BQ * 8;        /* f32: two parts */
static constexpr int PIECES = ALONG ? 8 : OWN / PIECE; /* of a line of a slot */

template <typename T, int COUNT> struct alignas(sizeof(T) * COUNT) run {
    T v[COUNT];
};

#if DOUBLES
#  include "kron_kept_f64.cuh"
#else
#  include "kron_kept_tf32.cuh"
#endif

/* ---- The factor ----------------------------------------------------------------------------- */

static __device__ void keep_factor(const struct kron_params &a, const f_element *f, long long q0,
                                   char *kept)
{
    constexpr int ACROSS = BQ / F_LOAD, ALL = K * ACROSS, EACH = (ALL + THREADS - 1) / THREADS;
    constexpr int AHEAD = EACH < 4 ? EACH : 4;

    for (int first = threadIdx.x; first < ALL; first += THREADS * AHEAD) {
        run<f_element, F_LOAD> v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int e = first + i * THREADS, p = e / (8 * ACROSS) * 8 + e % 8;
            const long long q = q0 + e / 8 % ACROSS * F_LOAD;
            v[i] = {};
            if (p < P && q < a.outs)
                v[i] = *(const run<f_element, F_LOAD> *)(f + p * a.factor[0].row_stride +
                                                         q * a.factor[0].col_stride);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int e = first + i * THREADS;
#pragma unroll
            for (int j = 0; j < F_LOAD; j++)
                if (e < ALL)
                    keep(kept, e / (8 * ACROSS) * 8 + e % 8, e / 8 % ACROSS * F_LOAD + j,
                         v[i].v[j]);
        }
    }
}

/* ---- Columns of x --------------------------------------------------------------------------- */

struct tile {
    long long item;
    int q0, first; /* first: this warp's first column */
};

static __device__ struct tile tile_of(const struct kron_params &a, int number)
{
    const int rows = (int)a.unit_tiles, across = (int)a.col_tiles;
    const int line = number / rows, item = line / across;

    return {a.first + item, (line - item * across) * BQ,
            (number - line * rows) * BN + (int)threadIdx.x / 32 * OWN};
}

/* Where a column begins in a matrix with `group` indices in the factor's place. */
static __device__ long long column_offset(const struct kron_params &a, const struct kron_side &side,
                                          int column, long long group)
{
    const int after = (int)a.after, unit = ALONG ? column : column / after;
    const long long step = a.before == 1 ? side.row_stride : group * a.after;

    return unit * step + (ALONG ? 0 : column - unit * after);
}

/* A warp's way through its tiles: what it copies next, and the slots of that and of what it reads
 * next. */
struct stream {
    int number, tiles, columns;
    int there; /* columns of this warp in the tile */
    const REAL *from;
    char *slots;
    int chunk, to, now;
};

/* Lines of a slot, columns or p, are turned so that reads meet all banks. */
static __device__ int turned(int line)
{
    return ALONG ? line % 2 * 4 : DOUBLES ? line / 2 % 4 * 2 : line / 2 % 2 * 2;
}

static __device__ void find_columns(const struct kron_params &a, struct stream &s)
{
    const struct tile t = tile_of(a, s.number);

    s.there = s.columns - t.first;
    s.from = item_of<const REAL>(a, a.x, t.item) + column_offset(a, a.x, t.first, P);
}

/* Copies the next chunk, of which there may be none. */
static __device__ void copy_next(const struct kron_params &a, struct stream &s)
{
    const int lane = (int)threadIdx.x % 32, piece = lane % PIECES;
    const long long step = !ALONG ? a.after : a.before == 1 ? a.x.row_stride : P;

    if (s.number < s.tiles) {
        if (s.chunk == 0)
            find_columns(a, s);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int line = i * (32 / PIECES) + lane / PIECES;
            const int p = s.chunk * BK + (ALONG ? piece * PIECE : line);
            const bool there = p < P && (ALONG ? line : 0) < s.there;
            const REAL *from = s.from + (ALONG ? line * step + p : p * step + piece * PIECE);
            ptx_copy_async<16>(s.slots + s.to * SLOT + line * (PIECES * 16) +
                                   (piece ^ turned(line)) * 16,
                               there ? from : (const REAL *)a.x.data, there ? 16 : 0);
        }
        if (++s.chunk == CHUNKS)
            s.chunk = 0, s.number += (int)gridDim.x;
    }
    ptx_copy_commit();
    s.to = s.to + 1 == STAGES ? 0 : s.to + 1;
}

static __device__ struct stream stream_begin(const struct kron_params &a, char *memory)
{
    struct stream s = {};

    s.number = (int)blockIdx.x;
    s.tiles = (int)(a.unit_tiles * a.col_tiles * a.items);
    s.columns = (int)(a.rows * a.before * a.after);
    s.slots = memory + FACTOR_BYTES + threadIdx.x / 32 * (STAGES * SLOT);
    for (int i = 0; i < STAGES - 1; i++)
        copy_next(a, s);
    return s;
}

/* The next chunk as fragments; its p are in the order that the factor's are kept in. */
static __device__ void take_chunk(struct stream &s, REAL (&v)[STEPS][4])
{
    ptx_copy_wait<STAGES - 2>();
    __syncwarp(); /* the chunk is there, and the last one is no longer read */
    read_chunk(s.slots + s.now * SLOT, v);
    s.now = s.now + 1 == STAGES ? 0 : s.now + 1;
}

/* ---- Results -------------------------------------------------------------------------------- */

template <int COUNT>
static __device__ void write_run(const struct kron_params &a, const struct finish &f, long long y,
                                 long long z, REAL (&v)[COUNT])
{
    run<y_element, COUNT> out;

#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (a.last)
            v[i] *= f.alpha;
        if (f.beta != 0)
            v[i] += f.beta * real_of<Y_KIND>(f.z[z + i * a.z.col_stride]);
        out.v[i] = stored_of<Y_KIND>(v[i]);
    }
    *(run<y_element, COUNT> *)(f.y + y) = out;
}

static __device__ long long z_offset(const struct kron_params &a, const struct finish &f,
                                     int column)
{
    const long long unit = quotient(column, a.after);

    if (f.beta == 0)
        return 0;
    return unit_offset(a, a.z, unit, a.outs) + (column - unit * a.after) * a.z.col_stride;
}

/* Neighbours along q, of two columns of this thread. */
static __device__ void write_along(const struct kron_params &a, const struct tile &t,
                                   const struct finish &f, int columns, const REAL (&sum)[TILES][4])
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4;

#pragma unroll
    for (int side = 0; side < 2; side++) {
        const int column = t.first + g + side * 8;
        if (column >= columns)
            continue;
        const long long y = column_offset(a, a.y, column, a.outs), z = z_offset(a, f, column);
#pragma unroll
        for (int i = 0; i < BQ / (4 * PIECE); i++) {
            const int q = t.q0 + (i * 4 + lane % 4) * PIECE;
            REAL v[PIECE];
#pragma unroll
            for (int j = 0; j < PIECE; j++)
                v[j] = sum[i * (PIECE / 2) + j / 2][side * 2 + j % 2];
            if (q < a.outs)
                write_run(a, f, y + q, z + q * a.z.col_stride, v);
        }
    }
}

/* Pairs of neighbouring columns. */
static __device__ void write_across(const struct kron_params &a, const struct tile &t,
                                    const struct finish &f, int columns,
                                    const REAL (&sum)[TILES][4])
{
    const int lane = (int)threadIdx.x % 32, column = t.first + lane / 4 * 2;

    if (t.first >= columns)
        return;
    const long long y = column_offset(a, a.y, column, a.outs), z = z_offset(a, f, column);
#pragma unroll
    for (int i = 0; i < TILES * 2; i++) {
        const int q = t.q0 + i / 2 * 8 + lane % 4 * 2 + i % 2;
        REAL v[2] = {sum[i / 2][i % 2], sum[i / 2][2 + i % 2]};
        if (q < a.outs)
            write_run(a, f, y + q * a.after, z + q * a.after * a.z.col_stride, v);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    kron_matmul_kept(const __grid_constant__ struct kron_params a)
{
    extern __shared__ __align__(128) char memory[]; /* the factor, slots */
    struct stream s = stream_begin(a, memory);
    const f_element *kept = 0;
    int kept_q0 = -1;
    struct operand x;
    REAL v[STEPS][4];

    take_chunk(s, v);
    copy_next(a, s);
#pragma unroll 1
    for (int number = blockIdx.x; number < s.tiles; number += (int)gridDim.x) {
        const struct tile t = tile_of(a, number);
        const f_element *f = item_of<const f_element>(a, a.factor[0], t.item);
        struct sums sum;
        if (f != kept || t.q0 != kept_q0) {
            __syncthreads();
            keep_factor(a, f, t.q0, memory);
            finish_factor();
            __syncthreads();
            kept = f, kept_q0 = t.q0;
        }
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            prepare(x, v);
            multiply_chunk(sum, x, memory, chunk);
            take_chunk(s, v); /* the next tile's first after the last one */
            finish_chunk(sum, chunk);
            copy_next(a, s);
        }
        if (ALONG)
            write_along(a, t, finish_of(a, t.item), s.columns, sum.v);
        else
            write_across(a, t, finish_of(a, t.item), s.columns, sum.v);
    }
    ptx_copy_wait<0>();
}
