/*
 * kron_kept_f64.cuh - the sums of kron_matmul_kept.cu in f64, by mma.sync
 *
 * Column q of the factor lies in K neighbours, p in its own place.  Of every eight p the k-th is
 * 2 (k % 4) + k / 4, so that a thread's fragments are pairs of neighbours, 16 bytes.
 *
 * SPDX-License-Identifier: MIT
 */

struct operand {
    double v[STEPS][4];
};

template <typename F> static __device__ void keep(char *kept, int p, int q, double v)
{
    ((double *)kept)[q * F::K + ((p / 2) ^ (q % 2 * 4)) * 2 + p % 2] = v;
}

static __device__ void finish_factor()
{
}

template <bool BY_COLUMNS>
static __device__ void read_chunk(const char *slot, double (&v)[STEPS][4])
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned from = ptx_shared_address(slot);

#pragma unroll
    for (int step = 0; step < STEPS; step++)
#pragma unroll
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
#pragma unroll
    for (int i = 0; i < STEPS * 4; i++)
        x.v[i / 4][i % 4] = v[i / 4][i % 4];
}

template <typename F> struct sums {
    double v[F::TILES][4];
};

template <typename F> static __device__ void clear(struct sums<F> &sum)
{
#pragma unroll
    for (int i = 0; i < F::TILES * 4; i++)
        sum.v[i / 4][i % 4] = 0;
}

template <typename F>
static __device__ void multiply_chunk(struct sums<F> &sum, const struct operand &x,
                                      const char *kept, int chunk)
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned from = ptx_shared_address(kept) + (unsigned)(g * F::K * 8 + t * 16);

#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const unsigned at = from + (unsigned)(((chunk * STEPS + step) ^ g % 2) * 64);
#pragma unroll
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
