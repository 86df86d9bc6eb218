/*
 * kron_matmul_resident.cu - one Kronecker factor or two neighbours, which stay in the shared
 * memory of a block (resident), by the tensor cores of sm_90
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
 * Parameters (-D), set by cuda_kron_resident.c:
 *   REAL, X_KIND, Y_KIND, F_KIND, WHOLE   see kron_pass.cuh; REAL, X_KIND and F_KIND are float or
 *                double
 *   DOUBLES      1: REAL is double
 *   P, Q, BQ     rows and columns of the factor, and of the latter those that are resident: 32, 64
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

/* A factor as it lies in shared memory; the lines of a slot with its columns of x are columns, or
 * p. */
template <int ROWS, int COLS, bool LINES_ARE_COLUMNS> struct shape {
    static constexpr int N = COLS, TILES = COLS / 8, CHUNKS = (ROWS + BK - 1) / BK;
    static constexpr int K = CHUNKS * BK, BYTES = K * COLS * 8; /* f32: two parts */
    static constexpr bool BY_COLUMNS = LINES_ARE_COLUMNS;
};
typedef shape<P, BQ, ALONG> right;
typedef shape<PAIRED ? E_P : 32, PAIRED ? E_BQ : 32, false> left;

static constexpr int PIECES = ALONG ? 8 : OWN / PIECE;           /* of a line of x */
static constexpr int BETWEEN = PAIRED ? left::CHUNKS * SLOT : 0; /* bytes of a warp */
static constexpr int RESIDENT = right::BYTES + (PAIRED ? left::BYTES : 0);

template <typename T, int COUNT> struct alignas(sizeof(T) * COUNT) run {
    T v[COUNT];
};

/* Lines of a slot are turned so that reads meet all banks. */
template <bool BY_COLUMNS> static __device__ int turned(int line)
{
    return BY_COLUMNS ? line % 2 * 4 : DOUBLES ? line / 2 % 4 * 2 : line / 2 % 2 * 2;
}

#if DOUBLES

/* ---- Sums in f64, by mma.sync --------------------------------------------------------------- */

/* Column q of the factor lies in K neighbours, p in its own place.  Of every eight p the k-th is
 * 2 (k % 4) + k / 4, so that a thread's fragments are pairs of neighbours, 16 bytes. */
struct operand {
    double v[STEPS][4];
};

template <typename F> static __device__ void place(char *factor, int p, int q, double v)
{
    ((double *)factor)[q * F::K + ((p / 2) ^ (q % 2 * 4)) * 2 + p % 2] = v;
}

static __device__ void finish_factor()
{
}

template <bool BY_COLUMNS>
static __device__ void read_chunk(const char *slot, double (&v)[STEPS][4])
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned from = ptx_shared_address(slot);

#  pragma unroll
    for (int step = 0; step < STEPS; step++)
#  pragma unroll
        for (int side = 0; side < 2; side++) {
            double two[2];
            if (BY_COLUMNS) {
                ptx_read_shared(two,
                                from + (g + side * 8) * 128 + ((step * 4 + t) ^ (g % 2 * 4)) * 16);
                v[step][side] = two[0], v[step][side + 2] = two[1];
            } else {
                ptx_read_shared(two, from + (step * 8 + t * 2 + side) * 128 + (g ^ (t * 2)) * 16);
                v[step][side * 2] = two[0], v[step][side * 2 + 1] = two[1];
            }
        }
}

static __device__ void prepare(struct operand &x, const double (&v)[STEPS][4])
{
#  pragma unroll
    for (int i = 0; i < STEPS * 4; i++)
        x.v[i / 4][i % 4] = v[i / 4][i % 4];
}

template <typename F> struct sums {
    double v[F::TILES][4];
};

template <typename F> static __device__ void clear(struct sums<F> &sum)
{
#  pragma unroll
    for (int i = 0; i < F::TILES * 4; i++)
        sum.v[i / 4][i % 4] = 0;
}

template <typename F>
static __device__ void multiply_chunk(struct sums<F> &sum, const struct operand &x,
                                      const char *factor, int chunk)
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned from = ptx_shared_address(factor) + (unsigned)(g * F::K * 8 + t * 16);

#  pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const unsigned at = from + (unsigned)(((chunk * STEPS + step) ^ g % 2) * 64);
#  pragma unroll
        for (int j = 0; j < F::TILES; j++) {
            double b[2];
            ptx_read_shared(b, at + (unsigned)(j * 8 * F::K * 8));
            ptx_mma_f64_wide(sum.v[j], x.v[step], b);
        }
    }
}

template <typename F> static __device__ void finish_chunk(struct sums<F> &)
{
}
#else

/* ---- Sums in f32, by wgmma; sm_90a alone ---------------------------------------------------- */

/* A number is the sum of two with 11 bits each, and three of the four products are added: what is
 * left out is 2^-24 of a product.  The low part of an infinite number is NaN, and so is the result.
 * Tensor cores cut sums off where additions round: they add the products of a chunk, small ones
 * first, and CUDA cores these sums, while the other warps multiply.
 *
 * The factor's parts lie in squares of 8 q by 4 p.  Where a line is a column, of every 16 p the
 * k-th of the s-th step is 4 (k % 4) + 2 s + k / 4, and of every 16 q the n-th is such that a
 * thread's sums are four neighbours. */
struct operand {
    unsigned v[STEPS][2][4]; /* high, low parts */
};

/* The nearest number with 11 bits; the last 13 bits of an operand do not count. */
static __device__ unsigned high_of(float v)
{
    return (__float_as_uint(v) + 0x1000) & 0xffffe000u;
}

static __device__ unsigned low_of(float v, unsigned high)
{
    return __float_as_uint(v - __uint_as_float(high));
}

template <typename F> static __device__ void place(char *factor, int p, int q, float v)
{
    const int k = F::BY_COLUMNS ? p / 16 * 16 + p / 2 % 2 * 8 + p % 2 * 4 + p % 16 / 4 : p;
    const int n = F::BY_COLUMNS ? q / 16 * 16 + q / 2 % 2 * 8 + q % 16 / 4 * 2 + q % 2 : q;
    unsigned *to = (unsigned *)factor + k / 4 * (F::N * 4) + n * 4 + k % 4;
    const unsigned high = high_of(v);

    to[0] = high;
    to[F::K * F::N] = low_of(v, high);
}

static __device__ void finish_factor()
{
    ptx_bulk_fence();
}

template <bool BY_COLUMNS> static __device__ void read_chunk(const char *slot, float (&v)[STEPS][4])
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned from = ptx_shared_address(slot);

    if constexpr (BY_COLUMNS) {
#  pragma unroll
        for (int i = 0; i < STEPS; i++) {
            const int side = i % 2;
            float four[4];
            ptx_read_shared(four,
                            from + (g + side * 8) * 128 + ((i / 2 * 4 + t) ^ (g % 2 * 4)) * 16);
#  pragma unroll
            for (int j = 0; j < 4; j++)
                v[i / 2 * 2 + j / 2][j % 2 * 2 + side] = four[j];
        }
    } else {
#  pragma unroll
        for (int i = 0; i < STEPS * 2; i++) {
            float two[2];
            ptx_read_shared(two, from + (i * 4 + t) * 64 + ((g * 8) ^ (t / 2 * 32)));
            v[i / 2][i % 2 * 2] = two[0], v[i / 2][i % 2 * 2 + 1] = two[1];
        }
    }
}

static __device__ void prepare(struct operand &x, const float (&v)[STEPS][4])
{
#  pragma unroll
    for (int i = 0; i < STEPS * 4; i++) {
        const unsigned high = high_of(v[i / 4][i % 4]);
        x.v[i / 4][0][i % 4] = high;
        x.v[i / 4][1][i % 4] = low_of(v[i / 4][i % 4], high);
    }
}

template <typename F> struct sums {
    float v[F::TILES][4], part[F::TILES][4]; /* part: of a chunk */
};

template <typename F> static __device__ void clear(struct sums<F> &sum)
{
#  pragma unroll
    for (int i = 0; i < F::TILES * 4; i++)
        sum.v[i / 4][i % 4] = sum.part[i / 4][i % 4] = 0;
}

template <typename F>
static __device__ void multiply_chunk(struct sums<F> &sum, const struct operand &x,
                                      const char *factor, int chunk)
{
    const unsigned long long high =
        ptx_wgmma_shifted(ptx_wgmma_operand(factor, F::N * 16, 128), chunk * (BK * F::N * 4));
    const unsigned long long low = ptx_wgmma_shifted(high, F::K * F::N * 4);

#  pragma unroll
    for (int i = 0; i < F::TILES * 4; i++)
        ptx_wgmma_place(sum.part[i / 4][i % 4]);
    ptx_wgmma_fence();
#  pragma unroll
    for (int step = 0; step < STEPS; step++) {
        ptx_wgmma_tf32<F::N>(&sum.part[0][0], x.v[step][1],
                             ptx_wgmma_shifted(high, step * (F::N * 32)), step > 0);
        ptx_wgmma_tf32<F::N>(&sum.part[0][0], x.v[step][0],
                             ptx_wgmma_shifted(low, step * (F::N * 32)), 1);
    }
#  pragma unroll
    for (int step = 0; step < STEPS; step++)
        ptx_wgmma_tf32<F::N>(&sum.part[0][0], x.v[step][0],
                             ptx_wgmma_shifted(high, step * (F::N * 32)), 1);
    ptx_wgmma_commit();
}

template <typename F> static __device__ void finish_chunk(struct sums<F> &sum)
{
    ptx_wgmma_wait<0>(); /* meanwhile the other warps multiply */
#  pragma unroll
    for (int i = 0; i < F::TILES * 4; i++)
        sum.v[i / 4][i % 4] += sum.part[i / 4][i % 4];
}
#endif

/* ---- Columns of x, and how a warp streams its own ------------------------------------------- */

struct tile {
    long long item;
    int q0, first; /* first: this warp's first column */
};

static __device__ struct tile tile_of(const struct kron_params &a, int number)
{
    const int rows = (int)a.unit_tiles, across = (int)a.col_tiles;
    const int line = number < rows ? 0 : number / rows, item = line < across ? 0 : line / across;

    return {a.first + item, (line - item * across) * BQ,
            (number - line * rows) * BN + (int)threadIdx.x / 32 * OWN};
}

/* From a unit to the next one in a matrix with `group` indices in the place of the factors. */
static __device__ long long unit_step(const struct kron_params &a, const struct device_view &side,
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

static __device__ struct stream stream_of(const struct kron_params &a, char *slots)
{
    struct stream s = {};

    s.number = (int)blockIdx.x;
    s.tiles = (int)(a.unit_tiles * a.col_tiles * a.items);
    s.columns = (int)(a.rows * a.before * a.after) * (PAIRED ? E_P : 1);
    s.slots = slots + threadIdx.x / 32 * (STAGES * SLOT);
    return s;
}

/* Fills all slots, when x is there. */
static __device__ void begin_stream(const struct kron_params &a, struct stream &s)
{
    ptx_grid_wait();
#pragma unroll 1
    for (int i = 0; i < STAGES; i++)
        copy_next(a, s);
}

/* The next chunk as fragments; its p are in the order that the factor's lie in. */
static __device__ void take_chunk(struct stream &s, REAL (&v)[STEPS][4])
{
    ptx_copy_wait<STAGES - 2>();
    __syncwarp(); /* the chunk is there, and the last one is no longer read */
    read_chunk<ALONG>(s.slots + s.now * SLOT, v);
    s.now = s.now + 1 == STAGES ? 0 : s.now + 1;
}

/* ---- Factors -------------------------------------------------------------------------------- */

/* Loads the columns from q0 on of a factor of `rows` by `cols`.  `meanwhile` is done while the
 * first of its numbers are on their way. */
template <typename F, typename WORK>
static __device__ void load_factor(const struct device_view &side, const f_element *f, int rows,
                                   int cols, int q0, char *factor, const WORK &meanwhile)
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
                    place<F>(factor, e / (8 * ACROSS) * 8 + e % 8, e / 8 % ACROSS * F_LOAD + j,
                             v[i].v[j]);
        }
    }
}

/* The factors in the shared memory of the block: the last factor, then e. */
struct resident {
    char *memory;
    const f_element *f, *e;
    int q0;
};

/* Before the first tile the stream of x begins here: factors do not wait for the launch before. */
static __device__ void load_factors(const struct kron_params &a, const struct tile &t,
                                    struct resident &k, struct stream &s)
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
    load_factor<right>(a.factor[PAIRED], f, P, Q, t.q0, k.memory, begin);
    if (PAIRED)
        load_factor<left>(a.factor[0], e, E_P, E_Q, 0, k.memory + right::BYTES, [] {});
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
                                        const char *factor)
{
    struct operand x;
    REAL v[STEPS][4];

    clear(sum);
    read_chunk<false>(between, v);
#pragma unroll 1
    for (int chunk = 0; chunk < left::CHUNKS; chunk++) {
        prepare(x, v);
        multiply_chunk(sum, x, factor, chunk);
        if (chunk + 1 < left::CHUNKS)
            read_chunk<false>(between + (chunk + 1) * SLOT, v);
        finish_chunk(sum);
    }
}

/* ---- Results -------------------------------------------------------------------------------- */

/* The ways from sums to y are a large part of a tile's instructions: whether beta z is added is
 * asked once, and addresses are stepped. */
/* Where results go, and come from: a warp's lane steps both. */
struct results {
    REAL alpha, beta;
    y_element *y;
    const y_element *z;
    long long z_step; /* from a neighbour in y to the next one */
};

/* Where a unit's results begin in z, if it counts. */
static __device__ struct results results_of(const struct kron_params &a, const struct finish &f,
                                            int unit, int group, long long inside)
{
    struct results r = {f.alpha, f.beta, f.y + unit * unit_step(a, a.y, group) + inside, f.z,
                        a.z.col_stride};

    if (f.beta != 0)
        r.z += unit_offset(a, a.z, unit, group) + inside * r.z_step;
    return r;
}

static __device__ void step(struct results &r, long long elements, bool adds)
{
    r.y += elements;
    if (adds)
        r.z += elements * r.z_step;
}

template <bool ADDS, int COUNT>
static __device__ void write_run(const struct results &r, REAL (&v)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        v[i] *= r.alpha;
        if (ADDS)
            v[i] += r.beta * r.z[i * r.z_step];
    }
    ptx_write_global(r.y, v);
}

/* Neighbours along q, from q0 on, of a column of this thread: one of two. */
template <bool ADDS>
static __device__ void write_along(struct results r, int q0, int side,
                                   const struct sums<right> &sum)
{
#pragma unroll
    for (int i = 0; i < BQ / (4 * PIECE); i++) {
        const int q = i * 4 * PIECE;
        REAL v[PIECE];
#pragma unroll
        for (int j = 0; j < PIECE; j++)
            v[j] = sum.v[i * (PIECE / 2) + j / 2][side * 2 + j % 2];
        if (Q % BQ == 0 || q0 + q < Q)
            write_run<ADDS>(r, v);
        step(r, 4 * PIECE, ADDS);
    }
}

static __device__ void write_lines(const struct kron_params &a, const struct tile &t,
                                   const struct finish &f, int columns,
                                   const struct sums<right> &sum)
{
    const int lane = (int)threadIdx.x % 32, q0 = t.q0 + lane % 4 * PIECE;

#pragma unroll
    for (int side = 0; side < 2; side++) {
        const int column = t.first + lane / 4 + side * 8;
        if (column >= columns)
            continue;
        const struct results r = results_of(a, f, column, Q, q0);
        if (f.beta != 0)
            write_along<true>(r, q0, side, sum);
        else
            write_along<false>(r, q0, side, sum);
    }
}

/* Two neighbours with `after` of them between indices of the factor, which are from r0 on of R. */
template <bool ADDS, int R, typename F>
static __device__ void write_across(struct results to, int after, int r0, const struct sums<F> &sum)
{
#pragma unroll
    for (int i = 0; i < F::TILES * 2; i++) {
        REAL v[2] = {sum.v[i / 2][i % 2], sum.v[i / 2][2 + i % 2]};
        if (R % F::N == 0 || r0 + i / 2 * 8 + i % 2 < R)
            write_run<ADDS>(to, v);
        step(to, (i % 2 == 0 ? 1 : 7) * (long long)after, ADDS);
    }
}

template <int R, typename F>
static __device__ void write_columns(const struct kron_params &a, const struct finish &f, int unit,
                                     int inside, int group, int after, int r0,
                                     const struct sums<F> &sum)
{
    const int first = r0 + (int)threadIdx.x % 4 * 2;
    const struct results r = results_of(a, f, unit, group, inside + (long long)first * after);

    if (f.beta != 0)
        write_across<true, R>(r, after, first, sum);
    else
        write_across<false, R>(r, after, first, sum);
}

static __device__ void write_single(const struct kron_params &a, const struct tile &t,
                                    const struct finish &f, int columns,
                                    const struct sums<right> &sum)
{
    const int column = t.first + (int)threadIdx.x % 32 / 4 * 2, after = (int)a.after;
    const int unit = column / after;

    if (column < columns)
        write_columns<Q>(a, f, unit, column - unit * after, Q, after, t.q0, sum);
}

/* Of the group's columns (unit, q). */
static __device__ void write_pair(const struct kron_params &a, const struct tile &t,
                                  const struct finish &f, int columns, const struct sums<left> &sum)
{
    const int column = (int)threadIdx.x / 32 % 4 * OWN + (int)threadIdx.x % 32 / 4 * 2;
    const int first = t.first - (int)threadIdx.x / 32 % 4 * OWN;
    const int more = column / Q, unit = first / left::K + more;

    if (more < 64 / left::K && unit * left::K < columns)
        write_columns<E_Q>(a, f, unit, column - more * Q, E_Q * Q, Q, 0, sum);
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

static __device__ void finish_tile(const struct kron_params &a, const struct tile &t, int columns,
                                   const struct sums<right> &sum, const struct resident &k,
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
    kron_matmul_resident(const __grid_constant__ struct kron_params a)
{
    extern __shared__ __align__(128) char memory[]; /* factors, sums between, slots */
    struct stream s = stream_of(a, memory + RESIDENT + WARPS * BETWEEN);
    struct resident k = {memory, 0, 0, 0};
    struct operand x;
    REAL v[STEPS][4];

    ptx_grid_next();
#pragma unroll 1
    for (int number = blockIdx.x; number < s.tiles; number += (int)gridDim.x) {
        const struct tile t = tile_of(a, number);
        struct sums<right> sum;
        load_factors(a, t, k, s);
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
        finish_tile(a, t, s.columns, sum, k, memory + RESIDENT + threadIdx.x / 128 * (4 * BETWEEN));
    }
    ptx_copy_wait<0>();
}
