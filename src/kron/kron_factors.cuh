/*
 * kron_factors.cuh - factors that a block has in shared memory, and products by them in registers
 *
 * Part of kron_matmul.cu and kron_matmul_tile.cu, after kron_pass.cuh.
 *
 * SPDX-License-Identifier: MIT
 */

/* Reads a factor into `to`, where its rows are `width` elements apart; a factor without data is the
 * number 1.  A thread asks for AHEAD elements at a time. */
template <int THREADS_OF_BLOCK, int AHEAD>
static __device__ void read_factor(const struct device_view &side, const f_element *f, int rows,
                                   int cols, int width, REAL *to)
{
#pragma unroll AHEAD
    for (int e = threadIdx.x; e < rows * width; e += THREADS_OF_BLOCK) {
        const int p = e / width, q = e % width;
        REAL value = q == 0 ? 1 : 0;
        if (side.data && q < cols)
            value = real_of<F_KIND>(f[p * side.row_stride + q * side.col_stride]);
        to[e] = value;
    }
}

/* Q elements of a row, with what is behind them up to 16 bytes; f is a multiple of these. */
template <int Q> static __device__ void read_row(REAL (&row)[Q], const REAL *f)
{
    constexpr int LANES = 16 / (int)sizeof(REAL), ONCE = Q % LANES == 0 ? Q : LANES;
    struct alignas(16) pack {
        REAL v[ONCE];
    };

#pragma unroll
    for (int q = 0; q < Q; q += ONCE) {
        const struct pack some = *(const struct pack *)(f + q);
#pragma unroll
        for (int i = 0; i < ONCE && q + i < Q; i++)
            row[q + i] = some.v[i];
    }
}

/* In place: every block of P elements of x, which are BESIDE from each other, times the factor,
 * whose rows are WIDTH apart.  ONCE blocks share a row of it. */
template <int P, int BESIDE> static __device__ constexpr int element_of(int block, int p)
{
    return block / BESIDE * (P * BESIDE) + p * BESIDE + block % BESIDE;
}

template <int P, int BESIDE, int ONCE, int WIDTH, int ALL>
static __device__ void multiply_blocks(REAL (&x)[ALL], const REAL *f)
{
    constexpr int BLOCKS_OF = ALL / P;

#pragma unroll
    for (int first = 0; first < BLOCKS_OF; first += ONCE) {
        REAL sum[ONCE][P] = {};
#pragma unroll
        for (int p = 0; p < P; p++) {
            REAL row[P];
            read_row(row, f + p * WIDTH);
#pragma unroll
            for (int i = 0; i < ONCE; i++)
#pragma unroll
                for (int q = 0; q < P; q++)
                    if (first + i < BLOCKS_OF)
                        sum[i][q] += x[element_of<P, BESIDE>(first + i, p)] * row[q];
        }
#pragma unroll
        for (int i = 0; i < ONCE; i++)
#pragma unroll
            for (int q = 0; q < P; q++)
                if (first + i < BLOCKS_OF)
                    x[element_of<P, BESIDE>(first + i, q)] = sum[i][q];
    }
}
