/*
 * cpu_kernels.h - the micro-kernels that each instruction set provides
 *
 * isa_<isa>.c defines one constant table, filled in kernels.h; cpuid.c picks one for a context.
 * Kernels are indexed by the dtype of the arithmetic, GRAM_F32 or GRAM_F64: f16 and bf16 are
 * converted to f32 when panels are packed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KERNELS_H
#define GRAM_CPU_KERNELS_H
#include "../view.h"

/* What is summed over the coordinates, with d = x - y. */
enum gram_step {
    GRAM_STEP_ZERO,         /* 1 if x and y differ */
    GRAM_STEP_HALF,         /* |d|^(1/2) */
    GRAM_STEP_ONE,          /* |d| */
    GRAM_STEP_THREE_HALVES, /* |d|^(3/2) */
    GRAM_STEP_TWO,          /* d^2 */
    GRAM_STEP_THREE,        /* |d|^3 */
    GRAM_STEP_FOUR,         /* d^4 */
    GRAM_STEP_INFINITY,     /* |d|, and the largest is kept instead of the sum */
    GRAM_STEP_POWER,        /* |d|^p, any p > 0 */
    GRAM_STEP_DOT,          /* x y */
    GRAM_STEP_COUNT,
};

/*
 * One register tile: c[i*ldc + j] = (accumulate: c[i*ldc + j] +) the sum over k < depth of
 * step(x[k*mr + i], y[k*nr + j]), for i < mr and j < nr.  x, y and c are 64-byte aligned, panels
 * padded with zeros to whole tiles; ldc is in elements, a multiple of 64 bytes.
 */
struct gram_tile {
    int64_t depth;
    const void *x, *y;
    void *c;
    int64_t ldc;
    bool accumulate;
    double p; /* of GRAM_STEP_POWER */
};
typedef void gram_cdist_tile(const struct gram_tile *t);

/*
 * What becomes of a finished sum, element by element: the value of a kernel, or its weight or
 * bandwidth derivative; see gram_kernel_options for the formulas.  Not GRAM_COSINE, whose norms
 * are no function of the sum, and not the regularization.
 */
struct gram_map {
    gram_inner inner;
    gram_function function;
    gram_kernel_output output;
    double p;     /* of the inner sum */
    double outer; /* s = sum^outer; 1: none */
    double bandwidth, exponent, alpha, gamma, coef0, degree;
};
typedef void gram_map_values(int64_t n, void *values, const struct gram_map *map);

/* Rows and columns of the register tile of each instruction set; see kernels.h. */
struct gram_cdist_kernels {
    int mr, nr;
    gram_cdist_tile *tile[GRAM_STEP_COUNT];
};

/* A strided copy that leaves the cache alone: count runs of bytes each, strides in bytes. */
typedef void gram_stream_rows(void *to, int64_t to_stride, const void *from, int64_t from_stride,
                              int64_t count, int64_t bytes);

struct gram_cpu_kernels {
    const char *isa;
    struct gram_cdist_kernels cdist[GRAM_F64 + 1];
    gram_map_values *map[GRAM_F64 + 1]; /* values 64-byte aligned; n any number */
    gram_stream_rows *stream_rows;
};

extern const struct gram_cpu_kernels gram_cpu_kernels_base, gram_cpu_kernels_avx2,
    gram_cpu_kernels_avx512;

/* The i-th table this machine can run, best first, or NULL.  g->isa is such an i. */
const struct gram_cpu_kernels *gram_cpu_kernels_at(int i);

/* The table that a context uses. */
static inline const struct gram_cpu_kernels *gram_cpu_kernels_of(const gram_context *g)
{
    return gram_cpu_kernels_at(g->isa);
}
#endif
