/*
 * kron_kept_tf32.cuh - the sums of kron_matmul_kept.cu in f32, by wgmma; sm_90a alone
 *
 * A number is the sum of two with 11 bits each, and three of the four products are added: what is
 * left out is 2^-24 of a product.  The low part of an infinite number is NaN, and so is the result.
 * Tensor cores cut sums off where additions round: they add the products of a chunk, small ones
 * first, and CUDA cores these sums, while the other warps multiply.
 *
 * The factor's parts lie in squares of 8 q by 4 p.  Where a line is a column, of every 16 p the
 * k-th of the s-th step is 4 (k % 4) + 2 s + k / 4, and of every 16 q the n-th is such that a
 * thread's sums are four neighbours.
 *
 * SPDX-License-Identifier: MIT
 */
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

template <typename F> static __device__ void keep(char *kept, int p, int q, float v)
{
    const int k = F::BY_COLUMNS ? p / 16 * 16 + p / 2 % 2 * 8 + p % 2 * 4 + p % 16 / 4 : p;
    const int n = F::BY_COLUMNS ? q / 16 * 16 + q / 2 % 2 * 8 + q % 16 / 4 * 2 + q % 2 : q;
    unsigned *to = (unsigned *)kept + k / 4 * (F::N * 4) + n * 4 + k % 4;
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
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            const int side = i % 2;
            float four[4];
            ptx_read_shared(four,
                            from + (g + side * 8) * 128 + ((i / 2 * 4 + t) ^ (g % 2 * 4)) * 16);
#pragma unroll
            for (int j = 0; j < 4; j++)
                v[i / 2 * 2 + j / 2][j % 2 * 2 + side] = four[j];
        }
    } else {
#pragma unroll
        for (int i = 0; i < STEPS * 2; i++) {
            float two[2];
            ptx_read_shared(two, from + (i * 4 + t) * 64 + ((g * 8) ^ (t / 2 * 32)));
            v[i / 2][i % 2 * 2] = two[0], v[i / 2][i % 2 * 2 + 1] = two[1];
        }
    }
}

static __device__ void prepare(struct operand &x, const float (&v)[STEPS][4])
{
#pragma unroll
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
#pragma unroll
    for (int i = 0; i < F::TILES * 4; i++)
        sum.v[i / 4][i % 4] = sum.part[i / 4][i % 4] = 0;
}

template <typename F>
static __device__ void multiply_chunk(struct sums<F> &sum, const struct operand &x,
                                      const char *kept, int chunk)
{
    const unsigned long long high =
        ptx_wgmma_shifted(ptx_wgmma_operand(kept, F::N * 16, 128), chunk * (BK * F::N * 4));
    const unsigned long long low = ptx_wgmma_shifted(high, F::K * F::N * 4);

#pragma unroll
    for (int i = 0; i < F::TILES * 4; i++)
        ptx_wgmma_place(sum.part[i / 4][i % 4]);
    ptx_wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        ptx_wgmma_tf32<F::N>(&sum.part[0][0], x.v[step][1],
                             ptx_wgmma_shifted(high, step * (F::N * 32)), step > 0);
        ptx_wgmma_tf32<F::N>(&sum.part[0][0], x.v[step][0],
                             ptx_wgmma_shifted(low, step * (F::N * 32)), 1);
    }
#pragma unroll
    for (int step = 0; step < STEPS; step++)
        ptx_wgmma_tf32<F::N>(&sum.part[0][0], x.v[step][0],
                             ptx_wgmma_shifted(high, step * (F::N * 32)), 1);
    ptx_wgmma_commit();
}

template <typename F> static __device__ void finish_chunk(struct sums<F> &sum)
{
    ptx_wgmma_wait<0>(); /* meanwhile the other warps multiply */
#pragma unroll
    for (int i = 0; i < F::TILES * 4; i++)
        sum.v[i / 4][i % 4] += sum.part[i / 4][i % 4];
}
