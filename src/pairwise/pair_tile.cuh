/*
 * pair_tile.cuh - the tiles of out, where they begin, and how panels of x and y come to shared
 * memory
 *
 * Part of cdist.cu and cdist_mma.cu, whose parameters it uses, TILE_ROWS and TILE_COLS among them.
 * Panels are only there where LD is defined: then THREADS copy; a panel's row has BK columns and is
 * LD elements long; LANES elements are 16 bytes.
 *
 * SPDX-License-Identifier: MIT
 */
#define GROUP_TILES 16 /* rows of tiles that are done together: their rows of y stay in L2 */

#if HYPERS
#  include "device_view.cuh"
#  include "pair_hypers.cuh"
#endif

/* A tile of out and where its panels begin: the same for the whole block, in shared memory, so that
 * it takes no registers while the sums do. */
struct tile {
    long long item, i, j; /* its first row and column of out */
    int rows[2];          /* of x and of y that it has */
    int mirrored;
    const element *from[2]; /* the first rows of x and of y */
    REAL *out;              /* of the item */
};

/* The tile'th tile: rows of tiles in groups, within a group column by column. */
static __device__ void place(const struct pair_params *a, long long tile, long long *row,
                             long long *col)
{
    const long long group = tile / (GROUP_TILES * a->tile_cols), first = group * GROUP_TILES;
    const long long left = a->tile_rows - first, rows = left < GROUP_TILES ? left : GROUP_TILES;
    const long long in_group = tile - group * GROUP_TILES * a->tile_cols;

    *row = first + in_group % rows;
    *col = in_group / rows;
}

/* Where an item of x, of y and of out begins. */
static __device__ void offsets_of(const struct pair_params *a, long long item, long long *offset)
{
    for (int i = (int)a->batch_ndim - 1; i >= 0; i--) {
        long long rest = item / a->batch_shape[i], index = item - rest * a->batch_shape[i];
        offset[0] += index * a->x.batch_stride[i];
        offset[1] += index * a->y.batch_stride[i];
        offset[2] += index * a->out.batch_stride[i];
        item = rest;
    }
}

/* The tile at row and col of an item. */
static __device__ void fill_tile(const struct pair_params *a, long long item, long long row,
                                 long long col, struct tile *tile)
{
    long long offset[3] = {};

    tile->item = item;
    tile->i = row * TILE_ROWS, tile->j = col * TILE_COLS;
    tile->mirrored = a->symmetric && row < col;
    tile->rows[0] = a->rows - tile->i < TILE_ROWS ? (int)(a->rows - tile->i) : TILE_ROWS;
    tile->rows[1] = a->cols - tile->j < TILE_COLS ? (int)(a->cols - tile->j) : TILE_COLS;
    offsets_of(a, item, offset);
    tile->from[0] = (const element *)a->x.data + offset[0] + tile->i * a->x.row_stride;
    tile->from[1] = (const element *)a->y.data + offset[1] + tile->j * a->y.row_stride;
    tile->out = (REAL *)a->out.data + offset[2];
}

/* Fills in the at'th tile of all items from the first one on; false if its mirror image is computed
 * instead. */
static __device__ bool find_tile(const struct pair_params *a, long long first, long long at,
                                 struct tile *tile)
{
    const long long item_tiles = a->tile_rows * a->tile_cols, item = at / item_tiles;
    long long row, col;

    place(a, at - item * item_tiles, &row, &col);
    fill_tile(a, first + item, row, col, tile);
    return !(a->symmetric && row > col);
}

#ifdef LD
/* ---- Panels: columns of some rows of x or y ------------------------------------------------- */

/* WIDTH elements, or as many zeros. */
template <int WIDTH> static __device__ void copy(REAL *to, const element *from, bool there)
{
#  if STORED
    *to = there ? real_of<STORED>(*from) : 0;
#  else
    ptx_copy_async<WIDTH * (int)sizeof(REAL)>(to, from, there ? WIDTH * (int)sizeof(REAL) : 0);
#  endif
}

/* A thread copies elements of a panel from row(), at() on, COPIES times, each ROW_STEP rows and
 * AT_STEP columns further. */
template <int LOAD, int ROWS> struct share {
    enum {
        WIDTH = LOAD == 2 ? LANES : 1,
        COPIES = (ROWS * BK / WIDTH + THREADS - 1) / THREADS,
        ROW_STEP = LOAD == 0 ? 0 : THREADS / (BK / WIDTH),
        AT_STEP = LOAD == 0 ? THREADS / ROWS : 0
    };
    static __device__ unsigned row(unsigned thread)
    {
        return LOAD == 0 ? thread % ROWS : thread / (BK / WIDTH);
    }
    static __device__ unsigned at(unsigned thread)
    {
        return LOAD == 0 ? thread / ROWS : thread % (BK / WIDTH) * WIDTH;
    }
};

/* Queues the copies of a panel: zeros beyond its first `rows` rows and `left` columns.  from: where
 * it begins. */
template <int LOAD, int ROWS, int SWAPPED>
static __device__ void load_panel(REAL *to, const struct device_view *side, const element *from,
                                  int rows, int left)
{
    typedef struct share<LOAD, ROWS> my;
    const unsigned thread = ptx_thread(), row = my::row(thread), at = my::at(thread);
    const long long step = my::ROW_STEP * side->row_stride + my::AT_STEP * side->col_stride;

    to += row * LD + (at ^ SWAPPED);
    from += row * side->row_stride + at * side->col_stride;
    rows -= (int)row, left -= (int)at;
    if (my::ROW_STEP > ROWS && row >= ROWS) /* more threads than copies */
        return;
#  pragma unroll
    for (int c = 0; c < my::COPIES; c++, from += step)
        copy<my::WIDTH>(to + c * (my::ROW_STEP * LD + my::AT_STEP), from,
                        c * my::ROW_STEP < rows && c * my::AT_STEP < left);
}
#endif
