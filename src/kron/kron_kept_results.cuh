/*
 * kron_kept_results.cuh - how sums of kron_matmul_kept.cu go to y
 *
 * Part of kron_matmul_kept.cu, whose parameters and names it uses.  These are a large part of a
 * tile's instructions: whether beta z is added is asked once, and addresses are stepped.
 *
 * SPDX-License-Identifier: MIT
 */

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
