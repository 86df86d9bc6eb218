/*
 * kron_kept_columns.cuh - columns of x, and how a warp of kron_matmul_kept.cu streams its own
 *
 * Part of kron_matmul_kept.cu, whose parameters and names it uses.
 *
 * SPDX-License-Identifier: MIT
 */
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

/* The next chunk as fragments; its p are in the order that the factor's are kept in. */
static __device__ void take_chunk(struct stream &s, REAL (&v)[STEPS][4])
{
    ptx_copy_wait<STAGES - 2>();
    __syncwarp(); /* the chunk is there, and the last one is no longer read */
    read_chunk<ALONG>(s.slots + s.now * SLOT, v);
    s.now = s.now + 1 == STAGES ? 0 : s.now + 1;
}
