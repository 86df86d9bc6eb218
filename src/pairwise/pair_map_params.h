/*
 * pair_map_params.h - the numbers of each function of gram_kernel, on the host or on the device
 *
 * With s = S^o, S the inner sum, and D = o p S^(o-1), the factor of sgn(d) |d|^(p-1) in ds / dx_k:
 *                value              weight / D                 times dL
 *   laplace ..   e^-t, t = K S^e    -K e / o S^(e-o) e^-t      c t / L e^-t       c = 1, 2, q
 *   matern 3/2   (1 + t) e^-t       -K t e^-t                  t^2 / L e^-t
 *   matern 5/2   (1 + t + t^2/3) .. -K (t + t^2) / 3 e^-t      (t^2 + t^3) / (3 L) e^-t
 *   rational     (1 + t)^-a         -a K (1 + t)^(-a-1)        2 a t / L (1 + t)^(-a-1)
 *   polynomial   t^d                d gamma t^(d-1)            0
 *   sigmoid      tanh(t)            gamma / cosh(t)^2          0
 *   expression   f(s)               f'(s)
 * With p = infinity D is o S^(o-1), the factor of sgn(x_k - y_k) where |x_k - y_k| is the largest.
 * where t = K s, or gamma s + coef0.  With GRAM_DOT, o = p = 1 and there is no S^(o-1).
 *
 * Compiled by the host for numbers, by NVRTC for hyperparameters that are tensors.  PAIR_FN is what
 * stands before a function: static inline, or __device__.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PAIR_MAP_PARAMS_H
#define GRAM_PAIR_MAP_PARAMS_H
#include "pair_params.h"

struct pair_what {
    int function, output, dot, is_double;
};

/* The p of D. */
PAIR_FN double pair_factor(const struct pair_map *m, const struct pair_what *w)
{
    return w->dot || m->p > 0x1.fffffffffffffp1023 ? 1 : m->p;
}

PAIR_FN void pair_raise_prepare(struct pair_raise *r, double e)
{
    r->e = e;
    r->kind = e == 1 ? PAIR_SAME : e == 0 ? PAIR_UNIT : e == 0.5 ? PAIR_SQRT : PAIR_POW;
}

/* Within the range of the dtype, so that 0 times infinity cannot come of it. */
PAIR_FN double pair_bounded(double value, int is_double)
{
    double most = is_double ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
    double least = is_double ? 0x1p-1022 : 0x1p-126, size = value < 0 ? -value : value;

    if (size == 0)
        return value;
    size = size > most ? most : size < least ? least : size;
    return value < 0 ? -size : size;
}

/* e^-t, t = K S^e, and the c of the table above. */
PAIR_FN void pair_exponential(struct pair_map *m, const struct pair_what *w, double e, double k,
                              double c_over_l)
{
    pair_raise_prepare(&m->base, e);
    m->scale = k;
    m->c[0] = 1;
    if (w->output == PAIR_WEIGHT) {
        m->c[0] = -k * e * pair_factor(m, w);
        m->sloped = m->sloped || e != 1;
        pair_raise_prepare(&m->slope, e - 1);
    } else if (w->output == PAIR_BANDWIDTH_DERIVATIVE) {
        m->c[0] = 0, m->c[1] = c_over_l;
    }
}

PAIR_FN void pair_matern(struct pair_map *m, const struct pair_what *w, double l, double slope)
{
    int five_halves = w->function == PAIR_MATERN52;
    double k = sqrt(five_halves ? 5.0 : 3.0) / l;

    m->scale = k;
    if (w->output == PAIR_VALUE)
        m->c[0] = 1, m->c[1] = 1, m->c[2] = five_halves ? 1.0 / 3 : 0;
    else if (w->output == PAIR_WEIGHT)
        m->c[1] = (five_halves ? -k / 3 : -k) * slope, m->c[2] = five_halves ? m->c[1] : 0;
    else if (five_halves)
        m->c[2] = m->c[3] = 1 / (3 * l);
    else
        m->c[2] = 1 / l;
}

PAIR_FN void pair_rational(struct pair_map *m, const struct pair_what *w, const double *hyper,
                           double slope)
{
    double a = hyper[PAIR_ALPHA], l = hyper[PAIR_BANDWIDTH], k = 1 / (2 * a * l * l);

    m->scale = k;
    if (w->output == PAIR_VALUE)
        m->c[0] = 1;
    else if (w->output == PAIR_WEIGHT)
        m->c[0] = -a * k * slope;
    else
        m->c[1] = 2 * a / l;
    pair_raise_prepare(&m->raise, w->output == PAIR_VALUE ? -a : -a - 1);
}

PAIR_FN void pair_affine(struct pair_map *m, const struct pair_what *w, const double *hyper,
                         double slope)
{
    double degree = hyper[PAIR_DEGREE], gamma = hyper[PAIR_GAMMA];

    m->scale = gamma, m->shift = hyper[PAIR_COEF0];
    m->factor = 1;
    if (w->output == PAIR_WEIGHT)
        m->factor = (w->function == PAIR_POLYNOMIAL ? degree-- : 1) * gamma * slope;
    else if (w->output == PAIR_BANDWIDTH_DERIVATIVE)
        m->factor = 0;
    pair_raise_prepare(&m->raise, degree);
}

PAIR_FN void pair_functions(struct pair_map *m, const struct pair_what *w, const double *hyper,
                            double o)
{
    double l = hyper[PAIR_BANDWIDTH], q = hyper[PAIR_EXPONENT],
           slope = w->dot ? 1 : o * pair_factor(m, w);

    switch (w->function) {
    case PAIR_LAPLACE:
        pair_exponential(m, w, o, 1 / l, 1 / l);
        break;
    case PAIR_GAUSSIAN:
        pair_exponential(m, w, o, 1 / (2 * l * l), 2 / l);
        break;
    case PAIR_EXPONENTIAL_POWER:
        pair_exponential(m, w, o * q, pow(l, -q), q / l);
        break;
    case PAIR_MATERN32:
    case PAIR_MATERN52:
        pair_matern(m, w, l, slope);
        break;
    case PAIR_RATIONAL_QUADRATIC:
        pair_rational(m, w, hyper, slope);
        break;
    case PAIR_POLYNOMIAL:
    case PAIR_SIGMOID:
        pair_affine(m, w, hyper, slope);
        break;
    case PAIR_EXPRESSION:
        m->factor = w->output == PAIR_WEIGHT ? slope : 1;
        break;
    default:
        m->factor = w->output == PAIR_WEIGHT ? slope : 0;
        break;
    }
}

/* hyper: the numbers of an item. */
PAIR_FN void pair_map_prepare(struct pair_map *m, const struct pair_what *w, const double *hyper)
{
    double p = hyper[PAIR_P], o = hyper[PAIR_OUTER];

    if (w->dot)
        o = 1;
    else if (o != o)
        o = p > 0 && p <= 0x1.fffffffffffffp1023 ? 1 / p : 1;
    m->p = p, m->fraction = p - floor(p);
    m->scale = 1, m->shift = m->factor = 0;
    m->c[0] = m->c[1] = m->c[2] = m->c[3] = 0;
    m->regularization = w->output == PAIR_VALUE ? hyper[PAIR_REGULARIZATION] : 0;
    m->sloped = w->output == PAIR_WEIGHT && !w->dot;
    m->valid = 1;
    pair_raise_prepare(&m->base, o);
    pair_raise_prepare(&m->slope, o - 1);
    pair_raise_prepare(&m->raise, 1);
    pair_functions(m, w, hyper, o);
    m->scale = pair_bounded(m->scale, w->is_double);
    m->factor = pair_bounded(m->factor, w->is_double);
    for (int i = 0; i < 4; i++)
        m->c[i] = pair_bounded(m->c[i], w->is_double);
}
#endif
