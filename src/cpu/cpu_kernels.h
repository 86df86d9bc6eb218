/*
 * cpu_kernels.h - the micro-kernels that each instruction set provides
 *
 * isa_<isa>.c defines one constant table, filled in kernels.h; cpu.c picks one for a context.
 * They are indexed by the dtype of the arithmetic, GRAM_F32 or GRAM_F64: f16 and bf16 are
 * converted to f32 when panels are packed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KERNELS_H
#define GRAM_CPU_KERNELS_H
#include "core/backend.h"
#include "eigh/eigh_kernels.h"
#include "kron/kron_kernels.h"
#include "linalg/solve_kernels.h"
#include "pairwise/cpu_covariance.h"
#include "power.h"

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
    GRAM_STEP_POWER,        /* |d|^p, 0 < p < 4 */
    GRAM_STEP_WIDE_POWER,   /* |d|^p, any p > 0: where gram_power_is_wide(p) */
    GRAM_STEP_DOT,          /* x y */
    /* Terms of metrics, times the weight of the coordinate: see metric_kernels.h. */
    GRAM_STEP_CANBERRA,
    GRAM_STEP_CHI2,
    GRAM_STEP_HAMMING,
    GRAM_STEP_KULLBACK_LEIBLER,
    GRAM_STEP_JENSEN_SHANNON,
    GRAM_STEP_BRAYCURTIS,    /* two sums */
    GRAM_STEP_NAN_EUCLIDEAN, /* two sums */
    GRAM_STEP_HAVERSINE,
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
    const struct gram_power *power; /* of GRAM_STEP_POWER and WIDE_POWER, prepared for p */
    const void *weights;            /* of metrics: one per column */
    void *second;                   /* of metrics with two sums: where the second one goes */
};
typedef void gram_cdist_tile(const struct gram_tile *t);

/* Tiles of packed bits, whose panels hold words of 32 bits: of the bits that differ, and with the
 * second sum that GRAM_FINISH_UNION takes. */
struct gram_bits_tiles {
    gram_cdist_tile *hamming, *jaccard;
};

/* The norms of the points of a piece of a row, for expressions that have them: x has one number, y
 * one for each value. */
struct gram_map_norms {
    const void *x, *y, *sum, *squares; /* of an expression; NULL: it has none */
};

/* What becomes of finished sums, in place: map prepared by gram_map_prepare() for the dtype; norms
 * NULL: the map has no use for them. */
typedef void gram_map_values(int64_t n, void *values, const struct gram_map *map,
                             const struct gram_map_norms *norms);

/* What becomes of a metric's sums s, and t where there are two. */
enum gram_finish {
    GRAM_FINISH_NONE,
    GRAM_FINISH_DIVIDE,       /* s / divisor, at most `most` */
    GRAM_FINISH_ROOT,         /* sqrt(s / divisor) */
    GRAM_FINISH_RATIO,        /* s / t */
    GRAM_FINISH_UNION,        /* 2 s / (s + t), 0 where s = 0 */
    GRAM_FINISH_PRESENT,      /* s divisor / t */
    GRAM_FINISH_PRESENT_ROOT, /* its square root */
    GRAM_FINISH_ANGLE,        /* 2 asin(sqrt(s)) */
};

struct gram_metric_finish {
    enum gram_finish form;
    double divisor, most;
};

/* n sums, whole vectors, in place. */
typedef void gram_metric_finisher(int64_t n, void *values, const void *second,
                                  const struct gram_metric_finish *f);

/*
 * Squared distances by norms and products: direct is the tile of differences that gives the same,
 * x and y are its panels shifted by one vector, norms the |.|^2 of their rows.  Sums from
 * differences where the expansion would lose digits; see cdist_square_tile.h.
 */
struct gram_square_tile {
    struct gram_tile direct;
    const void *x, *y, *x_norms, *y_norms;
};
typedef void gram_cdist_square(const struct gram_square_tile *t);

/* centred[k*width + r] = panel[k*width + r] - centre[k], norms[r] its sum of squares over k; zeros
 * for r from count on. */
struct gram_centre {
    int64_t depth, width, count;
    const void *panel, *centre;
    void *centred, *norms;
};
typedef void gram_cdist_centre(const struct gram_centre *t);

/* Rows and columns of the register tile of each instruction set; see kernels.h. */
struct gram_cdist_kernels {
    int mr, nr;
    gram_cdist_tile *tile[GRAM_STEP_COUNT];
    gram_cdist_square *square;
    gram_cdist_centre *centre;
    gram_metric_finisher *finish;
};

/* The power of a gradient: sgn(t) |t|^exponent with t = d - b and exponent = p - 1. */
enum gram_grad_power {
    GRAM_GRAD_SIGN,   /* p = 1 */
    GRAM_GRAD_SQRT,   /* p = 3/2 */
    GRAM_GRAD_SQUARE, /* p = 3 */
    GRAM_GRAD_CUBE,   /* p = 4 */
    GRAM_GRAD_LINEAR, /* p = 2 */
    GRAM_GRAD_ANY,    /* 0 < p < 5 */
    GRAM_GRAD_WIDE,   /* p > 0: where gram_power_is_wide(p - 1) */
    GRAM_GRAD_COUNT,
};

/*
 * a holds depth groups of width points; b depth groups of b_stride numbers, of which the kernel
 * uses `features` or one; c depth groups of the kernel's outputs; d rows of width points, one a
 * feature that is used; out rows of width points.  a, d and out are 64-byte aligned.
 */
struct gram_grad_tile {
    int64_t depth, b_stride;
    const void *a, *b, *c, *d;
    const struct gram_power *power; /* of GRAM_GRAD_ANY and WIDE: p - 1, with at_zero 0 */
};
typedef void gram_grad_power_kernel(const struct gram_grad_tile *t, void *out);

/* out[o*width + m] = sum over k < depth of c[k*outputs + o] weights[k*width + m]. */
typedef void gram_grad_sum_kernel(int64_t depth, const void *c, const void *weights, void *out);

enum {
    GRAM_GRAD_SUMS = 6,
    GRAM_GRAD_MAX_OUTPUTS = 2 * GRAM_GRAD_SUMS,
};

struct gram_grad_kernels {
    int features, width;
    gram_grad_power_kernel *one[GRAM_GRAD_COUNT];     /* c in a; a row of out a feature */
    gram_grad_power_kernel *weights[GRAM_GRAD_COUNT]; /* of a feature; a row of out a centre */
    /* A row of out an output; [i] is for 2 i + 2 of them.  few, of one feature: NULL where a
     * buffer of weights is as fast. */
    gram_grad_power_kernel *few[GRAM_GRAD_COUNT][GRAM_GRAD_SUMS];
    gram_grad_sum_kernel *sum[GRAM_GRAD_SUMS];
};

/* out[i*width + w] = k[i*ldk + w] times the sum over c < depth of left[i*depth + c]
 * right[c*width + w], for i < rows and w < width, that of gram_grad_kernels; all but left are
 * aligned to 64 bytes, and ldk is whole vectors. */
struct gram_cotangent_tile {
    int64_t rows, depth, ldk;
    const void *k, *left, *right;
    void *out;
};
typedef void gram_cotangent_kernel(const struct gram_cotangent_tile *t);

/* A matrix times a few vectors, which lie side by side in strips of GEMM_SKINNY_BYTES: 16 vectors
 * of f32, or 8 of f64.  A row of v, and of out, is one strip or two.  BLAS would spend more on
 * packing the matrix than on a product with so few vectors; here its rows pass by as they lie. */
enum {
    GEMM_SKINNY_BYTES = 64
};

/* out += a v, or transposed out += a^T v.  a is rows by cols, row-major, and its rows are lda
 * elements apart; v and out are aligned to 64 bytes and do not overlap. */
struct gemm_skinny_op {
    gram_dtype dtype;
    int64_t rows, cols, lda;
    int strips; /* 1 or 2 */
    bool transposed;
    const void *a, *v;
    void *out;
};

/* Does the work of an op in the calling thread. */
typedef void gemm_skinny_kernel(const struct gemm_skinny_op *op);

/*
 * A piece of a matrix, or its transpose, times some columns of v, added to sums.  k has `rows` rows
 * (and behind them as many that can be read as fill a tile of gram_cdist_kernels), ldk elements
 * apart, each of as many vectors.  Everything is aligned to 64 bytes but the v of columns.
 *   rows:     v[c*ldv + j] is row j of v, vector j of row i is multiplied by it; sums are vectors,
 *             column c of row i at i*columns + c
 *   columns:  v[i*ldv + c] is row i of v; sums[c*ld_sums + j] are numbers
 */
struct gram_product_tile {
    int64_t rows, vectors;
    const void *k, *v;
    void *sums;
    int64_t ldk, ldv, ld_sums;
};
typedef void gram_product_kernel(const struct gram_product_tile *t);

/* to[i] += the sum of the numbers of vector i of n. */
typedef void gram_product_lanes(int64_t n, const void *sums, double *to);

enum {
    GRAM_PRODUCT_WIDTHS = 4
};

/* Of [i] the columns are 2^i: up to `most`. */
struct gram_product_kernels {
    int vector_bytes, most;
    gram_product_kernel *rows[GRAM_PRODUCT_WIDTHS], *columns[GRAM_PRODUCT_WIDTHS];
    gram_product_lanes *lanes;
};

/* Columns of v in whole groups of those that a kernel takes. */
static inline int64_t gram_product_padded(const struct gram_product_kernels *kernels,
                                          int64_t columns)
{
    int64_t whole = columns / kernels->most * kernels->most, rest = 1;

    if (whole == columns)
        return whole;
    while (rest < columns - whole)
        rest *= 2;
    return whole + rest;
}

/* The next of `left` padded columns that one kernel takes: 2^[the result]. */
static inline int gram_product_width(const struct gram_product_kernels *kernels, int64_t left)
{
    const int64_t taken = left < kernels->most ? left : kernels->most;

    return taken >= 8 ? 3 : taken >= 4 ? 2 : taken >= 2 ? 1 : 0;
}

/*
 * Exponentials of a piece of a kernel matrix, of `rows` rows and `cols` columns:
 *   weights[r*ldw + j] = exp(-(scale (largest[r] - values[r*ld + j]))), or, where logs is given,
 *                        exp(-(largest[r] - logs[j] - scale values[r*ld + j]))
 * and zeros behind the last column up to a whole vector.  sums has a vector for each row, to which
 * the row's vectors of weights are added.  All rows begin at multiples of 64 bytes.
 */
struct gram_reduce_tile {
    int64_t rows, cols, ld, ldw;
    const void *values, *logs;
    const double *largest; /* numbers of the dtype */
    double scale;
    void *weights, *sums;
};

struct gram_reduce_kernels {
    /* The largest of n > 0 numbers scale values[j] + logs[j]; logs may be NULL.  NaN if one is. */
    double (*largest)(int64_t n, const void *values, double scale, const void *logs);
    /* The first place of a number, or of a NaN, among n; n if it is not there. */
    int64_t (*find)(int64_t n, const void *values, double value);
    void (*weights)(const struct gram_reduce_tile *t);
};

/* A strided copy that leaves the cache alone: count runs of bytes each, strides in bytes. */
typedef void gram_stream_rows(void *to, int64_t to_stride, const void *from, int64_t from_stride,
                              int64_t count, int64_t bytes);

/* The numbers among values[0..n) that are at most limit: their places, in ascending order, in
 * columns, and they themselves in found, both with room for n + GRAM_NEAREST_ROOM.  Gives how many;
 * NaN is none.  values are 64-byte aligned, and limit is a number of the dtype. */
enum {
    GRAM_NEAREST_ROOM = 16 /* whole vectors are written */
};
typedef int64_t gram_nearest_scan(int64_t n, const void *values, double limit, int32_t *columns,
                                  void *found);

struct gram_cpu_kernels {
    const char *isa;
    struct gram_cdist_kernels cdist[GRAM_F64 + 1];
    struct gram_bits_tiles bits[2];     /* the second: of processors with VPOPCNTDQ; or NULL */
    gram_map_values *map[GRAM_F64 + 1]; /* values 64-byte aligned; n any number */
    gram_nearest_scan *nearest_scan[GRAM_F64 + 1];
    const struct gram_product_kernels *product[GRAM_F64 + 1];
    const struct gram_reduce_kernels *reduce[GRAM_F64 + 1];
    const struct gram_grad_kernels *cdist_grad[GRAM_F64 + 1];
    gram_cotangent_kernel *cotangent[GRAM_F64 + 1];
    gram_stream_rows *stream_rows;
    const struct gram_solve_kernels *solve[GRAM_F64 + 1];
    gram_kron_solve_kernel *kron_solve[GRAM_F64 + 1];
    const struct gram_eigh_kernels *eigh[GRAM_F64 + 1];
    const struct gram_kron_kernels *kron[GRAM_I64 + 1]; /* none of halves */
    gemm_skinny_kernel *gemm_skinny[GRAM_F64 + 1];
    gram_symmetric_kernel *symmetric_block[GRAM_F64 + 1];
    struct gram_kron_vjp_kernels kron_vjp[GRAM_F64 + 1];
};

extern const struct gram_cpu_kernels gram_cpu_kernels_base, gram_cpu_kernels_avx2,
    gram_cpu_kernels_avx512;

/* The i-th table this machine can run, best first, or NULL.  g->isa is such an i. */
const struct gram_cpu_kernels *gram_cpu_kernels_at(int i);

/* The table that a context uses.  Asking the processor again would take microseconds under a
 * hypervisor. */
static inline const struct gram_cpu_kernels *gram_cpu_kernels_of(const gram_context *g)
{
    return g->kernels ? g->kernels : gram_cpu_kernels_at(g->isa);
}
#endif
