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
 * Units follow each other in x and y by one stride.  There are fewer than 2^31 columns, elements in
 * a unit and elements in 16 row strides.
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

#include "kron_kept_columns.cuh"

/* ---- Factors -------------------------------------------------------------------------------- */

/* Keeps the columns from q0 on of a factor of `rows` by `cols`.  `meanwhile` is done while the
 * first of its numbers are on their way. */
template <typename F, typename WORK>
static __device__ void keep_factor(const struct kron_side &side, const f_element *f, int rows,
                                   int cols, int q0, char *kept, const WORK &meanwhile)
{
    constexpr int ACROSS = F::N / F_LOAD, ALL = F::K * ACROSS;
    constexpr int EACH = (ALL + THREADS - 1) / THREADS, MOST = BQ < 128 ? 8 : 4;
    constexpr int AHEAD = EACH < MOST ? EACH : MOST;
    constexpr int ROUNDS = BQ < 128 ? EACH : 1;     /* unrolled: of 128 columns they would spill */
    const int thread = (int)ptx_thread() % THREADS; /* addresses are not kept in registers */

#pragma unroll(ROUNDS)
    for (int first = 0; first < EACH; first += AHEAD) {
        run<f_element, F_LOAD> v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int e = thread + (first + i) * THREADS;
            const int p = e / (8 * ACROSS) * 8 + e % 8, q = q0 + e / 8 % ACROSS * F_LOAD;
            v[i] = {};
            if (p < rows && q < cols)
                v[i] = *(const run<f_element, F_LOAD> *)(f + p * side.row_stride +
                                                         q * side.col_stride);
        }
        if (first == 0)
            meanwhile();
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int e = thread + (first + i) * THREADS;
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

/* Before the first tile the stream of x begins here: factors do not wait for the launch before. */
static __device__ void keep_factors(const struct kron_params &a, const struct tile &t,
                                    struct kept &k, struct stream &s)
{
    const f_element *f = item_of<const f_element>(a, a.factor[PAIRED], t.item);
    const f_element *e = item_of<const f_element>(a, a.factor[0], t.item);
    const auto begin = [&] {
        if (!k.f)
            begin_stream(a, s);
    };

    if (f == k.f && e == k.e && t.q0 == k.q0)
        return;
    __syncthreads();
    keep_factor<right>(a.factor[PAIRED], f, P, Q, t.q0, k.memory, begin);
    if (PAIRED)
        keep_factor<left>(a.factor[0], e, E_P, E_Q, 0, k.memory + right::BYTES, [] {});
    finish_factor();
    __syncthreads();
    k.f = f, k.e = e, k.q0 = t.q0;
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

#include "kron_kept_results.cuh"

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
        write_lines(a, t, f, columns, sum);
    } else {
        write_single(a, t, f, columns, sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    kron_matmul_kept(const __grid_constant__ struct kron_params a)
{
    extern __shared__ __align__(128) char memory[]; /* factors, sums between, slots */
    struct stream s = stream_of(a, memory + KEPT + WARPS * BETWEEN);
    struct kept k = {memory, 0, 0, 0};
    struct operand x;
    REAL v[STEPS][4];

    ptx_grid_next();
#pragma unroll 1
    for (int number = blockIdx.x; number < s.tiles; number += (int)gridDim.x) {
        const struct tile t = tile_of(a, number);
        struct sums<right> sum;
        keep_factors(a, t, k, s);
        if (number == blockIdx.x)
            take_chunk(s, v);
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
