/*
 * cpu_covariance.c - the form and the numbers of each function of gram_kernel
 *
 * With s = S^o and D = o p S^(o-1), the factor of sgn(x_k - y_k) |x_k - y_k|^(p-1) in ds / dx_k:
 *                value              weight / D                 times dL
 *   laplace ..   e^-t, t = K S^e    -K e / o S^(e-o) e^-t      c t / L e^-t       c = 1, 2, q
 *   matern 3/2   (1 + t) e^-t       -K t e^-t                  t^2 / L e^-t
 *   matern 5/2   (1 + t + t^2/3) .. -K (t + t^2) / 3 e^-t      (t^2 + t^3) / (3 L) e^-t
 *   rational     (1 + t)^-a         -a K (1 + t)^(-a-1)        2 a t / L (1 + t)^(-a-1)
 *   polynomial   t^d                d gamma t^(d-1)            0
 *   sigmoid      tanh(t)            gamma / cosh(t)^2          0
 *   expression   f(s)               f'(s)
 * where t = K s, or gamma s + coef0.  With p = infinity D is o S^(o-1), the factor of
 * sgn(x_k - y_k) where |x_k - y_k| is the largest.  With GRAM_DOT, o = p = 1 and there is no
 * S^(o-1).
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_covariance.h"
#include "core/scratch.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const double log2_of_e = 0x1.71547652b82fep+0;

enum {
    MOST_TIMES = 16 /* factors of a product: their roundings cost at most 8 eps */
};

/* Fills in what x^e comes to in dtype. */
static void prepare_raise(struct gram_raise *raise, gram_dtype dtype, double e)
{
    double size = fabs(e), at_zero = e > 0 ? 0 : e < 0 ? (double)INFINITY : 1;

    memset(raise, 0, sizeof *raise);
    raise->e = e;
    raise->integer = e == floor(e);
    raise->odd = fabs(fmod(e, 2)) == 1;
    raise->inverse = e < 0;
    if (e == 1)
        raise->kind = GRAM_RAISE_NONE;
    else if (e == 0)
        raise->kind = GRAM_RAISE_ONE;
    else if (e == 0.5)
        raise->kind = GRAM_RAISE_SQRT;
    else if (size < MOST_TIMES + 1 && 2 * size == floor(2 * size)) {
        raise->kind = GRAM_RAISE_PRODUCT;
        raise->times = (int)size;
        raise->root = size != floor(size);
    } else if (!gram_power_is_wide(e))
        raise->kind = GRAM_RAISE_NARROW;
    else
        raise->kind = GRAM_RAISE_WIDE;
    if (raise->kind == GRAM_RAISE_NARROW || raise->kind == GRAM_RAISE_WIDE)
        gram_power_prepare(&raise->power, dtype, e, at_zero); /* 200 calls of pow: others do not */
}

/* Within the range of dtype, so that 0 times infinity cannot come of it. */
static double bounded(double value, gram_dtype dtype)
{
    double most = dtype == GRAM_F32 ? (double)FLT_MAX : DBL_MAX,
           least = dtype == GRAM_F32 ? (double)FLT_MIN : DBL_MIN;

    if (value == 0)
        return value;
    return copysign(fmin(fmax(fabs(value), least), most), value);
}

/* Laplace, Gaussian and exponential power: e^-t, t = K S^e, and the c of the table above. */
static void exponential(struct gram_map *map, gram_dtype dtype, double e, double k, double c)
{
    double p = map->inner == GRAM_DOT ? 1 : map->p;

    prepare_raise(&map->base, dtype, e);
    map->form = GRAM_MAP_EXP;
    map->scale = k * log2_of_e;
    map->factor = 1;
    if (map->output == GRAM_WEIGHT) {
        map->factor = -k * e * p;
        map->sloped = map->sloped || e != 1;
        prepare_raise(&map->slope, dtype, e - 1);
    } else if (map->output == GRAM_BANDWIDTH_DERIVATIVE) {
        map->form = GRAM_MAP_POLY_EXP;
        map->scale = k;
        map->c[1] = c / map->bandwidth;
    }
}

/* Values, weights and derivatives of the Matern functions are polynomials times e^-t. */
static void matern(struct gram_map *map, double k, bool five_halves, double slope)
{
    double *c = map->c;

    map->form = GRAM_MAP_POLY_EXP;
    map->scale = k;
    if (map->output == GRAM_VALUE)
        c[0] = 1, c[1] = 1, c[2] = five_halves ? 1.0 / 3 : 0;
    else if (map->output == GRAM_WEIGHT)
        c[1] = (five_halves ? -k / 3 : -k) * slope, c[2] = five_halves ? c[1] : 0;
    else if (five_halves)
        c[2] = c[3] = 1 / (3 * map->bandwidth);
    else
        c[2] = 1 / map->bandwidth;
}

static void rational(struct gram_map *map, gram_dtype dtype, double slope)
{
    double k = 1 / (2 * map->alpha * map->bandwidth * map->bandwidth);
    double e = map->output == GRAM_VALUE ? map->alpha : map->alpha + 1;

    map->form = GRAM_MAP_RATIONAL;
    map->scale = k;
    if (map->output == GRAM_VALUE)
        map->c[0] = 1;
    else if (map->output == GRAM_WEIGHT)
        map->c[0] = -map->alpha * k * slope;
    else
        map->c[1] = 2 * map->alpha / map->bandwidth;
    prepare_raise(&map->raise, dtype, e);
    if (map->raise.kind == GRAM_RAISE_WIDE)
        prepare_raise(&map->raise, dtype, -e);
}

static void polynomial(struct gram_map *map, gram_dtype dtype, double slope)
{
    double degree = map->degree;

    map->scale = map->gamma, map->shift = map->coef0;
    map->form = GRAM_MAP_POWER;
    map->factor = 1;
    if (map->output == GRAM_WEIGHT) {
        map->factor = degree-- * map->gamma * slope;
        map->sloped = map->sloped || (degree < 0 && map->coef0 == 0); /* no derivative at 0 */
    }
    if (map->output == GRAM_BANDWIDTH_DERIVATIVE || map->factor == 0) {
        map->form = GRAM_MAP_CONSTANT;
        map->factor = 0;
    }
    prepare_raise(&map->raise, dtype, degree);
}

static void sigmoid(struct gram_map *map, double slope)
{
    map->scale = map->gamma, map->shift = map->coef0;
    map->form = GRAM_MAP_TANH;
    if (map->output == GRAM_WEIGHT) {
        map->form = GRAM_MAP_SECH2;
        map->factor = map->gamma * slope;
    } else if (map->output == GRAM_BANDWIDTH_DERIVATIVE)
        map->form = GRAM_MAP_CONSTANT;
}

static void identity(struct gram_map *map, double slope)
{
    map->form = GRAM_MAP_SAME;
    map->scale = 1;
    if (map->output != GRAM_VALUE) {
        map->form = GRAM_MAP_CONSTANT;
        map->factor = map->output == GRAM_WEIGHT ? slope : 0;
    }
}

/* Whether one pass does it all, for which 2^-250 and 2^-2040 are 0. */
static void prepare_decay(struct gram_map *map, gram_dtype dtype)
{
    const double octaves = dtype == GRAM_F32 ? 250 : 2040,
                 largest = dtype == GRAM_F32 ? (double)FLT_MAX : DBL_MAX;

    map->most = (map->form == GRAM_MAP_EXP ? octaves : octaves / log2_of_e) / map->scale;
    map->decays = (map->form == GRAM_MAP_EXP || map->form == GRAM_MAP_POLY_EXP) &&
                  map->inner == GRAM_DIFFERENCE && map->most <= largest && !map->sloped &&
                  (map->base.kind == GRAM_RAISE_NONE || map->base.kind == GRAM_RAISE_SQRT);
}

void gram_map_prepare(struct gram_map *map, gram_dtype dtype)
{
    double o = map->outer, l = map->bandwidth, slope;

    if (isinf(map->p))
        map->p = 1;
    slope = map->inner == GRAM_DOT ? 1 : o * map->p;
    map->scale = map->shift = map->factor = 0;
    memset(map->c, 0, sizeof map->c);
    map->sloped = map->output == GRAM_WEIGHT && map->inner != GRAM_DOT;
    prepare_raise(&map->base, dtype, o);
    prepare_raise(&map->slope, dtype, o - 1);
    prepare_raise(&map->raise, dtype, 1);
    switch (map->function) {
    case GRAM_LAPLACE:
        exponential(map, dtype, o, 1 / l, 1);
        break;
    case GRAM_GAUSSIAN:
        exponential(map, dtype, o, 1 / (2 * l * l), 2);
        break;
    case GRAM_EXPONENTIAL_POWER:
        exponential(map, dtype, o * map->exponent, pow(l, -map->exponent), map->exponent);
        break;
    case GRAM_MATERN32:
        matern(map, sqrt(3) / l, false, slope);
        break;
    case GRAM_MATERN52:
        matern(map, sqrt(5) / l, true, slope);
        break;
    case GRAM_RATIONAL_QUADRATIC:
        rational(map, dtype, slope);
        break;
    case GRAM_POLYNOMIAL:
        polynomial(map, dtype, slope);
        break;
    case GRAM_SIGMOID:
        sigmoid(map, slope);
        break;
    case GRAM_EXPRESSION:
        map->form = GRAM_MAP_EXPRESSION;
        map->scale = 1;
        map->factor = map->output == GRAM_WEIGHT ? slope : 1;
        break;
    case GRAM_IDENTITY:
    case GRAM_COSINE:
        identity(map, slope);
        break;
    }
    map->scale = bounded(map->scale, dtype);
    map->factor = bounded(map->factor, dtype);
    for (int i = 0; i < 4; i++)
        map->c[i] = bounded(map->c[i], dtype);
    prepare_decay(map, dtype);
}

/* ---- A caller's expression with the parameters of an item ------------------------------------ */

/* An evaluation and its arrays, in one piece of memory. */
static void take_evaluation(const struct gram_expression *e, struct gram_evaluation **out,
                            struct gram_evaluation *arrays, struct gram_layout *layout)
{
    gram_take(layout, out, sizeof **out);
    gram_take(layout, &arrays->raise, (size_t)e->powers * sizeof *arrays->raise);
    gram_take(layout, &arrays->constant, (size_t)e->count * sizeof *arrays->constant);
    gram_take(layout, &arrays->code, (size_t)e->count * sizeof *arrays->code);
}

size_t gram_evaluation_bytes(const struct gram_expression *e)
{
    struct gram_layout layout = {0};
    struct gram_evaluation arrays, *out;

    take_evaluation(e, &out, &arrays, &layout);
    return gram_layout_bytes(&layout);
}

static int16_t place(const struct gram_expression *e, int node)
{
    if (e->node[node].uniform)
        return (int16_t)~node;
    return e->node[node].op == GRAM_OP_S ? 0 : (int16_t)(e->node[node].at + 1);
}

struct gram_evaluation *gram_evaluation_prepare(const struct gram_expression *e,
                                                const double *parameters, gram_dtype dtype,
                                                void *memory)
{
    struct gram_evaluation arrays = {0}, *out;
    struct gram_layout layout = {0};
    int16_t powers = 0;

    take_evaluation(e, &out, &arrays, &layout);
    gram_layout_place(&layout, memory);
    *out = arrays;
    out->step = GRAM_EVALUATION_VECTORS / (e->registers > 0 ? e->registers : 1);
    out->result = place(e, e->count - 1);
    gram_expression_uniform(e, parameters, out->constant);
    for (int i = 0; i < e->count; i++) {
        const struct gram_node *node = &e->node[i];
        struct gram_instruction *to = &out->code[out->count];

        if (node->uniform || node->op == GRAM_OP_S)
            continue;
        *to = (struct gram_instruction){.op = node->op, .to = place(e, i), .raise = -1};
        for (int k = 0; k < gram_op_arity((enum gram_op)node->op); k++)
            to->arg[k] = place(e, node->arg[k]);
        if (node->op == GRAM_OP_POW && to->arg[1] < 0) {
            to->raise = powers++;
            prepare_raise(&out->raise[to->raise], dtype, out->constant[node->arg[1]]);
        }
        out->count++;
    }
    return out;
}
