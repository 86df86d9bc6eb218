/*
 * pair_panel.cuh - columns of some rows of x or y, on their way to shared memory
 *
 * Part of cdist.cu and cdist_mma.cu, whose parameters it uses: THREADS copy; a panel's row has BK
 * columns and is LD elements long; LANES elements are 16 bytes.
 *
 * SPDX-License-Identifier: MIT
 */

/* WIDTH elements, or as many zeros. */
template <int WIDTH> static __device__ void copy(REAL *to, const element *from, bool there)
{
#if HALF
    *to = there ? value_of(*from) : 0;
#else
    ptx_copy_async<WIDTH * (int)sizeof(REAL)>(to, from, there ? WIDTH * (int)sizeof(REAL) : 0);
#endif
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
static __device__ void load_panel(REAL *to, const struct pair_side *side, const element *from,
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
#pragma unroll
    for (int c = 0; c < my::COPIES; c++, from += step)
        copy<my::WIDTH>(to + c * (my::ROW_STEP * LD + my::AT_STEP), from,
                        c * my::ROW_STEP < rows && c * my::AT_STEP < left);
}
