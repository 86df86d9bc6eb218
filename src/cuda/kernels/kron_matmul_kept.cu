/*
 * kron_matmul_kept.cu - one Kronecker factor or two neighbours, which a block keeps in shared
 * memory, by the tensor cores of sm_90
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
 * Two factors: y[unit, r, q] = sum_o,p x[unit, o, p] e[o, r] f[p, q].  The 64 columns of four warps
 * are all o of one or more units.  Their sums go to shared memory, where (unit, q) are the columns
 * for e and a line is an o; there these four warps wait for each other.
 *
 * Units follow each other in x and y by one stride; there are fewer than 2^31 columns, and so many
 * elements in a unit and in 16 of a row stride.
 *
 * Parameters (-D), set by cuda_kron_kept.c:
 *   REAL, X_KIND, Y_KIND, F_KIND, WHOLE   see kron_pass.cuh; REAL, X_KIND and F_KIND are float or
 *                double
 *   DOUBLES      1: REAL is double
 *   P, Q, BQ     rows and columns of the factor, and of the latter those that a block keeps: 32, 64
 *                or 128
 *   ALONG        1: neighbours in x are those along p (there is no a), else 16 of a at least
 *   E_P, E_Q, E_BQ   the same of e, 0 without one; else ALONG is 1, E_P divides 64, and Q is a
 *                multiple of 16 and at most E_P
 *   WGS          groups of four warps, in a block
 *   STAGES       chunks that there is room for
 *   F_LOAD       elements of the factors, along q, that are read at once
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_pass.cuh"
#include "ptx_wgmma.cuh"

#define WARPS   (4 * WGS)
#define THREADS (32 * WARPS)
#define OWN     16 /* columns of a warp */
#define BN      (OWN * WARPS)
#define SLOT    2048 /* bytes: a chunk of a warp's columns */
#define PAIRED  (E_P > 0)

static constexpr int PIECE = 16 / (int)sizeof(REAL), BK = 8 * PIECE, STEPS = BK / 8;

/* A factor as it is kept; the lines of a slot with its columns of x are columns, or p. */
template <int ROWS, int COLS, bool LINES_ARE_COLUMNS> struct shape {
    static constexpr int N = COLS, TILES = COLS / 8, CHUNKS = (ROWS + BK - 1) / BK;
    static constexpr int K = CHUNKS * BK, BYTES = K * COLS * 8; /* f32: two parts */
    static constexpr bool BY_COLUMNS = LINES_ARE_COLUMNS;
};
typedef shape<P, BQ, ALONG> right;
typedef shape<PAIRED ? E_P : 32, PAIRED ? E_BQ : 32, false> left;

static constexpr int PIECES = ALONG ? 8 : OWN / PIECE;           /* of a line of x */
static constexpr int BETWEEN = PAIRED ? left::CHUNKS * SLOT : 0; /* bytes of a warp */
static constexpr int KEPT = right::BYTES + (PAIRED ? left::BYTES : 0);

template <typename T, int COUNT> struct alignas(sizeof(T) * COUNT) run {
    T v[COUNT];
};

/* Lines of a slot are turned so that reads meet all banks. */
template <bool BY_COLUMNS> static __device__ int turned(int line)
{
    return BY_COLUMNS ? line % 2 * 4 : DOUBLES ? line / 2 % 4 * 2 : line / 2 % 2 * 2;
}

#if DOUBLES
#  include "kron_kept_f64.cuh"
#else
#  include "kron_kept_tf32.cuh"
#endif

/* ---- Factors -------------------------------------------------------------------------------- */

/* Columns q0 .. of a factor with so many rows and columns. */
template <typename F>
static __device__ void keep_factor(const struct kron_side &side, const f_element *f, int rows,
                                   int cols, int q0, char *kept)
{
    constexpr int ACROSS = F::N / F_LOAD, ALL = F::K * ACROSS;
    constexpr int EACH = (ALL + THREADS - 1) / THREADS, AHEAD = EACH < 4 ? EACH : 4;

    for (int first = threadIdx.x; first < ALL; first += THREADS * AHEAD) {
        run<f_element, F_LOAD> v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int e = first + i * THREADS, p = e / (8 * ACROSS) * 8 + e % 8;
            const int q = q0 + e / 8 % ACROSS * F_LOAD;
            v[i] = {};
            if (p < rows && q < cols)
                v[i] = *(const run<f_element, F_LOAD> *)(f + p * side.row_stride +
                                                         q * side.col_stride);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int e = first + i * THREADS;
#pragma unroll
            for (int j = 0; j < F_LOAD; j++)
                if (e < ALL)
                    keep<F>(kept, e / (8 * ACROSS) * 8 + e % 8, e / 8 % ACROSS * F_LOAD + j,
                            v[i].v[j]);
        }
    }
}

/* What the block keeps: the last factor, then e. */
struct kept {
    char *memory;
    const f_element *f, *e;
    int q0;
};

static __device__ void keep_factors(const struct kron_params &a, long long item, int q0,
                                    struct kept &k)
{
    const f_element *f = item_of<const f_element>(a, a.factor[PAIRED], item);
    const f_element *e = item_of<const f_element>(a, a.factor[0], item);

    if (f == k.f && e == k.e && q0 == k.q0)
        return;
    __syncthreads();
    keep_factor<right>(a.factor[PAIRED], f, P, Q, q0, k.memory);
    if (PAIRED)
        keep_factor<left>(a.factor[0], e, E_P, E_Q, 0, k.memory + right::BYTES);
    finish_factor();
    __syncthreads();
    k.f = f, k.e = e, k.q0 = q0;
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

/* From a unit to the next one in a matrix with `group` indices in the place of the factors. */
static __device__ long long unit_step(const struct kron_params &a, const struct kron_side &side,
                                      int group)
{
    return a.before == 1 && !PAIRED ? side.row_stride : group * a.after;
}

/* A warp's way through its tiles: what it copies next, and the slots of that and of what it reads
 * next. */
struct stream {
    int number, tiles, columns;
    int there; /* columns from this warp's first one on */
    const REAL *from;
    char *slots;
    int chunk, to, now;
};

static __device__ void find_columns(const struct kron_params &a, struct stream &s)
{
    const struct tile t = tile_of(a, s.number);
    const int after = (int)a.after, unit = ALONG ? t.first : t.first / after;

    s.there = s.columns - t.first;
    s.from = item_of<const REAL>(a, a.x, t.item) + unit * unit_step(a, a.x, P) +
             (ALONG ? 0 : t.first - unit * after);
}

/* Copies the next chunk, of which there may be none. */
static __device__ void copy_next(const struct kron_params &a, struct stream &s)
{
    const int lane = (int)threadIdx.x % 32, piece = lane % PIECES;
    const int step = (int)(ALONG ? unit_step(a, a.x, P) : a.after);

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
                                   (piece ^ turned<ALONG>(line)) * 16,
                               there ? from : (const REAL *)a.x.data, there ? 16 : 0);
        }
        if (++s.chunk == right::CHUNKS)
            s.chunk = 0, s.number += (int)gridDim.x;
    }
    ptx_copy_commit();
    s.to = s.to + 1 == STAGES ? 0 : s.to + 1;
}

static __device__ struct stream stream_begin(const struct kron_params &a, char *slots)
{
    struct stream s = {};

    s.number = (int)blockIdx.x;
    s.tiles = (int)(a.unit_tiles * a.col_tiles * a.items);
    s.columns = (int)(a.rows * a.before * a.after) * (PAIRED ? E_P : 1);
    s.slots = slots + threadIdx.x / 32 * (STAGES * SLOT);
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; i++)
        copy_next(a, s);
    return s;
}

/* The next chunk as fragments; its p are in the order that the factor's are kept in. */
static __device__ void take_chunk(struct stream &s, REAL (&v)[STEPS][4])
{
    ptx_copy_wait<STAGES - 2>();
    __syncwarp(); /* the chunk is there, and the last one is no longer read */
    read_chunk<ALONG>(s.slots + s.now * SLOT, v);
    s.now = s.now + 1 == STAGES ? 0 : s.now + 1;
}

/* ---- The second factor ---------------------------------------------------------------------- */

/* Waits for this warp's group of four. */
static __device__ void meet_group()
{
    const int group = (int)threadIdx.x / 128;

    if (group == 0)
        ptx_barrier<1, 128>();
    else if (group == 1)
        ptx_barrier<2, 128>();
    else
        ptx_barrier<3, 128>();
}

/* Sums of this warp's columns (unit, o) to where (unit, q) are columns: pieces of neighbours along
 * q. */
static __device__ void put_between(const struct sums<right> &sum, char *between)
{
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 % 4 * OWN + lane / 4;

#pragma unroll
    for (int side = 0; side < 2; side++) {
        const int unit = (row + side * 8) / left::K, o = (row + side * 8) % left::K;
#pragma unroll
        for (int i = 0; i < BQ / (4 * PIECE); i++) {
            const int q = (i * 4 + lane % 4) * PIECE, column = unit * Q + q;
            run<REAL, PIECE> v;
#pragma unroll
            for (int j = 0; j < PIECE; j++)
                v.v[j] = sum.v[i * (PIECE / 2) + j / 2][side * 2 + j % 2];
            if (q < Q)
                *(run<REAL, PIECE> *)(between + column / OWN * BETWEEN + o / BK * SLOT +
                                      o % BK * (OWN * sizeof(REAL)) +
                                      (column % OWN / PIECE ^ turned<false>(o)) * 16) = v;
        }
    }
}

static __device__ void multiply_between(struct sums<left> &sum, const char *between,
                                        const char *kept)
{
    struct operand x;
    REAL v[STEPS][4];

    clear(sum);
    read_chunk<false>(between, v);
#pragma unroll 1
    for (int chunk = 0; chunk < left::CHUNKS; chunk++) {
        prepare(x, v);
        multiply_chunk(sum, x, kept, chunk);
        if (chunk + 1 < left::CHUNKS)
            read_chunk<false>(between + (chunk + 1) * SLOT, v);
        finish_chunk(sum);
    }
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

/* Where a unit's results begin in z, if it counts. */
static __device__ long long z_offset(const struct kron_params &a, const struct finish &f, int unit,
                                     int group)
{
    return f.beta == 0 ? 0 : unit_offset(a, a.z, unit, group);
}

/* Neighbours along q, of two columns of this thread. */
static __device__ void write_along(const struct kron_params &a, const struct tile &t,
                                   const struct finish &f, int columns,
                                   const struct sums<right> &sum)
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4;

#pragma unroll
    for (int side = 0; side < 2; side++) {
        const int column = t.first + g + side * 8;
        if (column >= columns)
            continue;
        const long long y = column * unit_step(a, a.y, Q), z = z_offset(a, f, column, Q);
#pragma unroll
        for (int i = 0; i < BQ / (4 * PIECE); i++) {
            const int q = t.q0 + (i * 4 + lane % 4) * PIECE;
            REAL v[PIECE];
#pragma unroll
            for (int j = 0; j < PIECE; j++)
                v[j] = sum.v[i * (PIECE / 2) + j / 2][side * 2 + j % 2];
            if (q < Q)
                write_run(a, f, y + q, z + q * a.z.col_stride, v);
        }
    }
}

/* Two neighbours with `after` of them between indices of the factor, which are from r0 on of r. */
template <typename F>
static __device__ void write_across(const struct kron_params &a, const struct finish &f, int unit,
                                    int inside, int group, int after, int r0, int r,
                                    const struct sums<F> &sum)
{
    const int lane = (int)threadIdx.x % 32;
    const long long y = unit * unit_step(a, a.y, group) + inside;
    const long long z = z_offset(a, f, unit, group) + inside * a.z.col_stride;

#pragma unroll
    for (int i = 0; i < F::TILES * 2; i++) {
        const int at = r0 + i / 2 * 8 + lane % 4 * 2 + i % 2;
        REAL v[2] = {sum.v[i / 2][i % 2], sum.v[i / 2][2 + i % 2]};
        if (at < r)
            write_run(a, f, y + at * after, z + (long long)at * after * a.z.col_stride, v);
    }
}

static __device__ void write_columns(const struct kron_params &a, const struct tile &t,
                                     const struct finish &f, int columns,
                                     const struct sums<right> &sum)
{
    const int column = t.first + (int)threadIdx.x % 32 / 4 * 2, after = (int)a.after;
    const int unit = column / after;

    if (column < columns)
        write_across(a, f, unit, column - unit * after, Q, after, t.q0, Q, sum);
}

/* Of the group's columns (unit, q). */
static __device__ void write_pair(const struct kron_params &a, const struct tile &t,
                                  const struct finish &f, int columns, const struct sums<left> &sum)
{
    const int column = (int)threadIdx.x / 32 % 4 * OWN + (int)threadIdx.x % 32 / 4 * 2;
    const int first = t.first - (int)threadIdx.x / 32 % 4 * OWN;
    const int more = column / Q, unit = first / left::K + more;

    if (more < 64 / left::K && unit * left::K < columns)
        write_across(a, f, unit, column - more * Q, E_Q * Q, Q, 0, E_Q, sum);
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

static __device__ void finish_tile(const struct kron_params &a, const struct tile &t, int columns,
                                   const struct sums<right> &sum, const struct kept &k,
                                   char *between)
{
    const struct finish f = finish_of(a, t.item);

    if constexpr (PAIRED) {
        struct sums<left> both;
        put_between(sum, between);
        meet_group();
        multiply_between(both, between + threadIdx.x / 32 % 4 * BETWEEN, k.memory + right::BYTES);
        meet_group(); /* what is between is no longer read */
        write_pair(a, t, f, columns, both);
    } else if constexpr (ALONG) {
        write_along(a, t, f, columns, sum);
    } else {
        write_columns(a, t, f, columns, sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    kron_matmul_kept(const __grid_constant__ struct kron_params a)
{
    extern __shared__ __align__(128) char memory[]; /* factors, sums between, slots */
    struct stream s = stream_begin(a, memory + KEPT + WARPS * BETWEEN);
    struct kept k = {memory, 0, 0, 0};
    struct operand x;
    REAL v[STEPS][4];

    take_chunk(s, v);
    copy_next(a, s);
#pragma unroll 1
    for (int number = blockIdx.x; number < s.tiles; number += (int)gridDim.x) {
        const struct tile t = tile_of(a, number);
        struct sums<right> sum;
        keep_factors(a, t.item, t.q0, k);
        clear(sum);
#pragma unroll 1
        for (int chunk = 0; chunk < right::CHUNKS; chunk++) {
            prepare(x, v);
            multiply_chunk(sum, x, memory, chunk);
            take_chunk(s, v); /* the next tile's first after the last one */
            finish_chunk(sum);
            copy_next(a, s);
        }
        finish_tile(a, t, s.columns, sum, k, memory + KEPT + threadIdx.x / 128 * (4 * BETWEEN));
    }
    ptx_copy_wait<0>();
}
