/*
 * ptx_wgmma_emulated.h - the instructions of src/cuda/ptx_wgmma.cuh in C++
 *
 * Bulk copies and products are done at once: that somebody waits for them too late shows only in
 * what a barrier counts.  The four warps of a product are each on their own.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_PTX_WGMMA_EMULATED_H
#define FAKE_PTX_WGMMA_EMULATED_H

template <int NUMBER, int COUNT> static inline void ptx_barrier()
{
    fake_device.runtime->barrier(NUMBER, COUNT, 0);
}

/* ---- Barriers in shared memory --------------------------------------------------------------- */

struct fake_mbarrier {
    unsigned short count, left; /* threads: that end a phase, that have not arrived in it */
    int bytes : 31;             /* expected and not there */
    unsigned phase : 1;
};

static inline fake_mbarrier *fake_mbarrier_at(unsigned long long *barrier)
{
    return (fake_mbarrier *)(void *)barrier;
}

static inline void fake_mbarrier_advance(fake_mbarrier *b)
{
    if (b->left > 0 || b->bytes > 0)
        return;
    b->left = b->count;
    b->phase ^= 1;
}

static inline void ptx_mbarrier_init(unsigned long long *barrier, int count)
{
    *fake_mbarrier_at(barrier) = {(unsigned short)count, (unsigned short)count, 0, 0};
}

static inline void ptx_mbarrier_init_fence()
{
}

static inline void ptx_mbarrier_arrive(unsigned long long *barrier)
{
    fake_mbarrier *b = fake_mbarrier_at(barrier);

    if (b->left == 0)
        fake_device.runtime->fail("more threads arrive at a barrier than it counts");
    b->left--;
    fake_mbarrier_advance(b);
}

static inline void ptx_mbarrier_expect(unsigned long long *barrier, int bytes)
{
    fake_mbarrier_at(barrier)->bytes += bytes;
    ptx_mbarrier_arrive(barrier);
}

static inline void ptx_mbarrier_wait(unsigned long long *barrier, unsigned parity)
{
    while (((volatile fake_mbarrier *)fake_mbarrier_at(barrier))->phase == parity)
        fake_device.runtime->yield();
}

static inline void ptx_copy_bulk(void *shared, const void *global, int bytes,
                                 unsigned long long *barrier)
{
    fake_mbarrier *b = fake_mbarrier_at(barrier);

    if (((size_t)shared | (size_t)global | (size_t)bytes) % 16)
        fake_device.runtime->fail("cp.async.bulk: addresses and bytes must be multiples of 16");
    __builtin_memcpy(shared, global, (size_t)bytes);
    b->bytes -= bytes;
    fake_mbarrier_advance(b);
}

static inline void ptx_store_bulk(void *global, const void *shared, int bytes)
{
    if (((size_t)shared | (size_t)global | (size_t)bytes) % 16)
        fake_device.runtime->fail("cp.async.bulk: addresses and bytes must be multiples of 16");
    __builtin_memcpy(global, shared, (size_t)bytes);
}

static inline void ptx_store_bulk_commit()
{
}

static inline void ptx_store_bulk_wait()
{
}

static inline void ptx_bulk_fence()
{
}

/* ---- Products
 * ------------------------------------------------------------------------------------ */

static inline unsigned long long ptx_wgmma_operand(const void *shared, int k_bytes, int row_bytes)
{
    const size_t offset = (size_t)((const char *)shared - fake_dynamic);

    if (offset % 16 || offset >= FAKE_MOST_SHARED)
        fake_device.runtime->fail("wgmma: an operand is not aligned or not in shared memory");
    return offset >> 4 | (unsigned long long)(k_bytes >> 4) << 16 |
           (unsigned long long)(row_bytes >> 4) << 32;
}

static inline unsigned long long ptx_wgmma_shifted(unsigned long long operand, int bytes)
{
    return operand + (unsigned)(bytes >> 4);
}

template <int COUNT> static inline void ptx_more_registers()
{
}
template <int COUNT> static inline void ptx_fewer_registers()
{
}
static inline void ptx_wgmma_place(float &)
{
}
static inline void ptx_wgmma_fence()
{
}
static inline void ptx_wgmma_commit()
{
}
template <int GROUPS> static inline void ptx_wgmma_wait()
{
}

/* Row `row` of an operand, 16 numbers. */
static inline void fake_wgmma_row(unsigned long long operand, int row, float to[16])
{
    const char *from = fake_dynamic + ((operand & 0x3fff) << 4) +
                       (size_t)(row / 8) * ((operand >> 32 & 0x3fff) << 4) + (size_t)(row % 8) * 16;

    for (int k = 0; k < 16; k++) {
        unsigned short bits;
        __builtin_memcpy(&bits,
                         from + (size_t)(k / 8) * ((operand >> 16 & 0x3fff) << 4) + k % 8 * 2, 2);
        to[k] = ptx_float_of_half(bits);
    }
}

struct fake_wgmma {
    float *c;
    unsigned long long a, b;
    int accumulate, warp;
};

template <int N> static void fake_multiply_wgmma(unsigned, void *const *arguments)
{
    const fake_wgmma *first = (const fake_wgmma *)arguments[0];
    float a[16][16], b[16];

    for (int i = 0; i < 16; i++)
        fake_wgmma_row(first->a, first->warp * 16 + i, a[i]);
    for (int j = 0; j < N; j++) {
        fake_wgmma_row(first->b, j, b);
        for (int i = 0; i < 16; i++) {
            const fake_wgmma *lane = (const fake_wgmma *)arguments[i % 8 * 4 + j % 8 / 2];
            float *c = lane->c + j / 8 * 4 + i / 8 * 2 + j % 2, sum = lane->accumulate ? *c : 0;
            for (int k = 0; k < 16; k++)
                sum += a[i][k] * b[k];
            *c = sum;
        }
    }
}

template <int N>
static inline void ptx_wgmma_f16(float *c, unsigned long long a, unsigned long long b,
                                 int accumulate)
{
    fake_wgmma mine = {c, a, b, accumulate, (int)threadIdx.x / 32 % 4};

    fake_device.runtime->meet(0xffffffff, &mine, fake_multiply_wgmma<N>);
}

/* ---- The same of tf32, a from registers ------------------------------------------------------ */

struct fake_wgmma_tf32 {
    float *c;
    const unsigned *a;
    unsigned long long b;
    int accumulate;
};

static inline unsigned fake_wgmma_word(unsigned long long operand, int row, int k)
{
    unsigned bits;

    __builtin_memcpy(&bits,
                     fake_dynamic + ((operand & 0x3fff) << 4) +
                         (size_t)(row / 8) * ((operand >> 32 & 0x3fff) << 4) +
                         (size_t)(k / 4) * ((operand >> 16 & 0x3fff) << 4) + row % 8 * 16 +
                         k % 4 * 4,
                     4);
    return bits & 0xffffe000u;
}

template <int N> static void fake_multiply_wgmma_tf32(unsigned, void *const *arguments)
{
    for (int j = 0; j < N; j++)
        for (int i = 0; i < 16; i++) {
            const fake_wgmma_tf32 *lane = (const fake_wgmma_tf32 *)arguments[i % 8 * 4 + j % 8 / 2];
            float *c = lane->c + j / 8 * 4 + i / 8 * 2 + j % 2, sum = lane->accumulate ? *c : 0;
            for (int k = 0; k < 8; k++) {
                const unsigned *a = ((const fake_wgmma_tf32 *)arguments[i % 8 * 4 + k % 4])->a;
                sum += __uint_as_float(a[i / 8 + k / 4 * 2] & 0xffffe000u) *
                       __uint_as_float(fake_wgmma_word(lane->b, j, k));
            }
            *c = sum;
        }
}

template <int N>
static inline void ptx_wgmma_tf32(float *c, const unsigned a[4], unsigned long long b,
                                  int accumulate)
{
    fake_wgmma_tf32 mine = {c, a, b, accumulate};

    fake_device.runtime->meet(0xffffffff, &mine, fake_multiply_wgmma_tf32<N>);
}
#endif
