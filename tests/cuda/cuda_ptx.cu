/*
 * cuda_ptx.cu - what test_cuda_ptx.c runs: every function of ptx.cuh on numbers that are known
 *
 * SPDX-License-Identifier: MIT
 */
#include "ptx.cuh"

/* out[f][i]: the f'th function of x[i]. */
extern "C" __global__ void functions(const float *x, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i >= n)
        return;
    out[i] = ptx_exp2(x[i]);
    out[n + i] = ptx_log2(x[i]);
    out[2 * n + i] = ptx_sqrt(x[i]);
    out[3 * n + i] = ptx_sqrt_of_normal(x[i]);
    out[4 * n + i] = ptx_rsqrt(x[i]);
    out[5 * n + i] = ptx_reciprocal(x[i]);
    out[6 * n + i] = ptx_largest(x[i], 1);
}

/* Every 16-bit number there and back, and f32 numbers to all short formats. */
extern "C" __global__ void conversions(const float *x, unsigned *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < 65536) {
        const float half = ptx_float_of_half((unsigned short)i);
        const float bfloat = ptx_float_of_bfloat((unsigned short)i);
        out[i] = __float_as_uint(half);
        out[65536 + i] = __float_as_uint(bfloat);
        out[2 * 65536 + i] = ptx_half_of_float(half) | (unsigned)ptx_bfloat_of_float(bfloat) << 16;
    }
    if (i < n) {
        unsigned *to = out + 3 * 65536 + 5 * i;
        to[0] = ptx_half_of_float(x[i]);
        to[1] = ptx_bfloat_of_float(x[i]);
        to[2] = ptx_halves_of_floats(x[i], -x[i]);
        to[3] = ptx_bfloats_of_floats(x[i], -x[i]);
        to[4] = ptx_tf32_of_float(x[i]);
    }
}

/* Copies of 4, 8 and 16 bytes of which `bytes` are there; the rest becomes zero. */
template <int SIZE> static __device__ void copy(const char *from, char *to, int bytes)
{
    __shared__ __align__(16) char memory[32 * SIZE];
    char *mine = memory + SIZE * threadIdx.x;

    ptx_copy_async<SIZE>(mine, from + SIZE * threadIdx.x, bytes);
    ptx_copy_commit();
    ptx_copy_wait<0>();
    __syncthreads();
    for (int i = 0; i < SIZE; i++)
        to[SIZE * (31 - threadIdx.x) + i] = memory[SIZE * (31 - threadIdx.x) + i];
}

extern "C" __global__ void copies(const char *from, char *to, int bytes)
{
    copy<4>(from, to, bytes < 4 ? bytes : 4);
    copy<8>(from, to + 128, bytes < 8 ? bytes : 8);
    copy<16>(from, to + 384, bytes);
}

/* out[7 i ..]: registers of x1, x2 and x4 of lane i; then the transposed ones. */
extern "C" __global__ void loads(const unsigned short *matrix, unsigned *out)
{
    __shared__ __align__(16) unsigned short rows[32 * 8];
    const int lane = threadIdx.x;
    unsigned *plain = out + 7 * lane, *turned = out + 7 * (32 + lane);

    for (int i = 0; i < 8; i++)
        rows[8 * lane + i] = matrix[8 * lane + i];
    __syncwarp();
    ptx_ldmatrix_x1(plain, rows + 8 * (lane % 8));
    ptx_ldmatrix_x2(plain + 1, rows + 8 * (lane % 16));
    ptx_ldmatrix_x4(plain + 3, rows + 8 * lane);
    ptx_ldmatrix_x1_trans(turned, rows + 8 * (lane % 8));
    ptx_ldmatrix_x2_trans(turned + 1, rows + 8 * (lane % 16));
    ptx_ldmatrix_x4_trans(turned + 3, rows + 8 * lane);
}

static __device__ void store(float *out, const float c[4], int g, int t)
{
    out[g * 8 + 2 * t] += c[0];
    out[g * 8 + 2 * t + 1] += c[1];
    out[(g + 8) * 8 + 2 * t] += c[2];
    out[(g + 8) * 8 + 2 * t + 1] += c[3];
}

/* a is 16 by 16, b 16 by 8, both row-major; out[0] is the product of the first 8 columns of a and
 * rows of b, out[1] and out[2] are the whole product; exact is 8 by 8, of the first 4. */
extern "C" __global__ void products(const float *a, const float *b, float *out, double *exact)
{
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float sums[4][4] = {}; /* the last one is compared with the second */
    double pair[2] = {};
    const unsigned at[4] = {
        ptx_tf32_of_float(a[g * 16 + t]), ptx_tf32_of_float(a[(g + 8) * 16 + t]),
        ptx_tf32_of_float(a[g * 16 + t + 4]), ptx_tf32_of_float(a[(g + 8) * 16 + t + 4])};
    const unsigned bt[2] = {ptx_tf32_of_float(b[t * 8 + g]), ptx_tf32_of_float(b[(t + 4) * 8 + g])};
    unsigned ah[4], ab[4], bh[2], bb[2];

    for (int i = 0; i < 4; i++) {
        const float *from = a + (g + i % 2 * 8) * 16 + 2 * t + i / 2 * 8;
        ah[i] = ptx_halves_of_floats(from[0], from[1]);
        ab[i] = ptx_bfloats_of_floats(from[0], from[1]);
    }
    for (int i = 0; i < 2; i++) {
        const float *from = b + (2 * t + 8 * i) * 8 + g;
        bh[i] = ptx_halves_of_floats(from[0], from[8]);
        bb[i] = ptx_bfloats_of_floats(from[0], from[8]);
    }
    ptx_mma_tf32(sums[0], at, bt);
    sums[1][0] = 3; /* which is not added to */
    ptx_mma_f16_first(sums[1], ah, bh);
    ptx_mma_f16(sums[3], ah, bh);
    for (int i = 0; i < 4; i++)
        sums[1][i] = sums[1][i] == sums[3][i] ? sums[1][i] : __int_as_float(0x7fc00000);
    ptx_mma_bf16(sums[2], ab, bb);
    ptx_mma_f64(pair, a[g * 16 + t], b[t * 8 + g]);
    for (int i = 0; i < 3; i++)
        store(out + 128 * i, sums[i], g, t);
    exact[g * 8 + 2 * t] = pair[0];
    exact[g * 8 + 2 * t + 1] = pair[1];
}
