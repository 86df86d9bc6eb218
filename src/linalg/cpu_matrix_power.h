/*
 * cpu_matrix_power.h - what the methods of gram_matrix_power share on the CPU
 *
 * Matrices in scratch are n by n, column-major without gaps.  A work is one item on one thread: the
 * caller's matrix is A = 2^exponent A', and everything happens to A'.  The exponent is a multiple
 * of the denominator q, so that the result's factor is a power of two, and the largest magnitude of
 * A' lies in [2^-q, 2^q): nothing overflows that the result does not.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_MATRIX_POWER_H
#define GRAM_CPU_MATRIX_POWER_H
#include "cpu/cpu.h"

/* Small loops over a matrix, one table a dtype: matrix_power_tile.h. */
struct matrix_power_kernels {
    /* Both triangles from their mean. */
    void (*average)(int64_t n, void *a);
    /* to = shift I + factor from, which may be to. */
    void (*combine)(int64_t n, double shift, double factor, const void *from, void *to);
    /* The largest |a - shift I - factor b|, NaN if there is one; b may be NULL where factor is 0.
     * And the square root of the sum of the squares of a - I. */
    double (*distance)(int64_t n, const void *a, double shift, double factor, const void *b);
    double (*from_identity)(int64_t n, const void *a);
    /* The triangle of an f32 or f64 matrix of the caller's, times 2^-exponent, to the lower one;
     * and a matrix back, times factor. */
    void (*load)(const struct gram_view *v, const char *from, gram_uplo uplo, int exponent,
                 void *to);
    void (*store)(const struct gram_view *v, char *to, double factor, const void *from);
    /* Lanczos' vectors: v is set to numbers that look random; returned is w . v. */
    void (*start)(int64_t n, void *v);
    double (*dot)(int64_t n, const void *v, const void *w);
    /* w = (w - alpha v - beta u) * factor */
    void (*orthogonalise)(int64_t n, const double alpha_beta_factor[3], const void *v,
                          const void *u, void *w);
    void (*round_f32)(int64_t n, void *a); /* every element to f32 and back */
};

extern const struct matrix_power_kernels cpu_matrix_power_f32, cpu_matrix_power_f64;

struct power_plan {
    const struct gram_matrix_power_op *op;
    const struct matrix_power_kernels *kernels; /* of work */
    gram_power_method method;                   /* never AUTO */
    gram_dtype work;                            /* what is computed in */
    bool estimate;                              /* of the error */
    int workers;                                /* items at a time, each with one thread */
    size_t bytes;                               /* of scratch, a worker */
    char *scratch;
    atomic_llong next;   /* item that nobody has taken */
    atomic_llong failed; /* item * 8 + outcome, the smallest; LLONG_MAX: none */
};

struct power_work {
    const struct power_plan *plan;
    int64_t n;
    const char *a; /* the item of the caller's */
    int exponent;
    double ridge; /* the caller's number */
    char *memory; /* plan->bytes */
    void *x;      /* the result of a method, but for the factor 2^(exponent k / q) */
    double shift; /* the ridge of A', set by a method */
    /* Four matrices that the estimate may use when the method is done. */
    void *spare[4];
};

/* What an item is computed in. */
gram_dtype cpu_matrix_power_work(const struct gram_matrix_power_op *op);

/* Loads A'; and A' + shift I. */
void cpu_matrix_power_load(const struct power_work *w, void *to);

/* c = a b, all different from c.  Symmetric: only the lower triangle is computed, then mirrored:
 * for commuting symmetric a and b. */
void cpu_matrix_power_product(const struct power_work *w, const void *a, const void *b, void *c);
void cpu_matrix_power_symmetric(const struct power_work *w, const void *a, const void *b, void *c);

/* The methods: they set x, shift and spare. */
gram_power_outcome cpu_matrix_power_eigh(struct power_work *w);
gram_power_outcome cpu_matrix_power_iterate(struct power_work *w);
/* Bytes of a worker's scratch; SIZE_MAX: more than can be counted. */
size_t cpu_matrix_power_eigh_bytes(int64_t n, bool estimate);
size_t cpu_matrix_power_iterate_bytes(int64_t n, gram_dtype dtype);

/* The largest and the smallest eigenvalue of a symmetric matrix, by Lanczos, which overstates
 * neither; vectors has 3 n elements. */
struct power_ends {
    double largest, smallest;
};
struct power_ends cpu_matrix_power_ends(const struct power_work *w, const void *a, void *vectors);

/* The ridge of A', of these eigenvalues. */
double cpu_matrix_power_ridge(const struct power_work *w, double smallest, double largest);

/* The error estimate of w->x as gram.h has it. */
double cpu_matrix_power_error(const struct power_work *w);
#endif
