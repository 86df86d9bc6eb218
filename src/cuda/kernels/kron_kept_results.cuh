/*
 * kron_kept_results.cuh - how sums of kron_matmul_kept.cu go to y
 *
 * Part of kron_matmul_kept.cu, whose parameters and names it uses.
 *
 * SPDX-License-Identifier: MIT
 */
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
