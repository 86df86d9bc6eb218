/*
 * cpu_covariance.h - what becomes of a finished sum S: a kernel's value, weight or bandwidth
 * derivative
 *
 * All functions of gram_kernel come down to a few forms of t = scale S^e + shift, with one loop
 * each: cpu_covariance.c finds form and numbers, once per item of the batch; covariance_tile.h has
 * the loops.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_COVARIANCE_H
#define GRAM_CPU_COVARIANCE_H
#include "core/expression.h"
#include "cpu/power.h"

enum gram_raise_kind {
    GRAM_RAISE_NONE,    /* x */
    GRAM_RAISE_ONE,     /* 1 */
    GRAM_RAISE_SQRT,    /* x^(1/2) */
    GRAM_RAISE_PRODUCT, /* x^e by multiplication, e a small multiple of 1/2 */
    GRAM_RAISE_NARROW,  /* -1 <= e < 4 */
    GRAM_RAISE_WIDE,
};

/* x^e */
struct gram_raise {
    enum gram_raise_kind kind;
    int times; /* of GRAM_RAISE_PRODUCT: the integer part of |e| */
    bool root, inverse;
    bool integer, odd; /* e is an integer: x < 0 has a power, of the sign of x where e is odd */
    double e;
    struct gram_power power;
};

enum gram_map_form {
    GRAM_MAP_CONSTANT,   /* factor, whatever t */
    GRAM_MAP_SAME,       /* t */
    GRAM_MAP_EXP,        /* factor 2^-t */
    GRAM_MAP_POLY_EXP,   /* (c[0] + c[1] t + c[2] t^2 + c[3] t^3) e^-t */
    GRAM_MAP_POWER,      /* factor t^e, e in raise */
    GRAM_MAP_RATIONAL,   /* (c[0] + c[1] t) (1 + t)^-e, e > 0; with GRAM_RAISE_WIDE: ^e, e < 0 */
    GRAM_MAP_TANH,       /* tanh t */
    GRAM_MAP_SECH2,      /* factor / cosh(t)^2 */
    GRAM_MAP_EXPRESSION, /* factor times the caller's expression of t */
};

/* An operation of a caller's expression on values of s: see gram_expression. */
struct gram_instruction {
    uint8_t op; /* enum gram_op */
    /* Registers from 1 on, 0 is s; i < 0: constant[~i]. */
    int16_t to, arg[3];
    int16_t raise; /* of pow: the exponent is raise[i]; -1: it is arg[1] */
};

/* Vectors of all registers of an expression at a time, on the stack: 16 KiB with AVX-512, half of
 * the first-level cache and little for the stack of a thread. */
enum {
    GRAM_EVALUATION_VECTORS = 256
};

/* What an expression comes to with the parameters of an item. */
struct gram_evaluation {
    int count;
    int step;       /* vectors at a time */
    int16_t result; /* register or constant */
    struct gram_instruction *code;
    double *constant;
    struct gram_raise *raise;
};

struct gram_map {
    struct gram_raise base, raise, slope; /* what it comes to: first, for their alignment */
    /* The caller's: see gram_kernel_options for the formulas.  Not GRAM_COSINE, whose norms are no
     * function of the sum. */
    gram_inner inner;
    gram_function function;
    gram_kernel_output output;
    double p;     /* of the inner sum */
    double outer; /* s = S^outer; 1: none */
    double bandwidth, exponent, alpha, gamma, coef0, degree;
    /* What it comes to. */
    const struct gram_evaluation *evaluation; /* of GRAM_MAP_EXPRESSION */
    enum gram_map_form form;
    double scale, shift, factor, c[4];
    bool sloped; /* the form is multiplied by the power `slope` of S, and 0 where S = 0 */
    /* GRAM_MAP_EXP or GRAM_MAP_POLY_EXP of S or its root, S >= 0, without a slope: t is made no
     * more than scale times most, where e^-t is 0. */
    bool decays;
    double most;
};

/* Fills in what map comes to for arithmetic in dtype (GRAM_F32 or GRAM_F64). */
void gram_map_prepare(struct gram_map *map, gram_dtype dtype);

/* Bytes of the evaluation of e, aligned to 64; and it, in such memory. */
size_t gram_evaluation_bytes(const struct gram_expression *e);
struct gram_evaluation *gram_evaluation_prepare(const struct gram_expression *e,
                                                const double *parameters, gram_dtype dtype,
                                                void *memory);
#endif
