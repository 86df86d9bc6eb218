/*
 * grad_bound.c - what gradients should be, and how far off they may be
 *
 * The bounds are those of gram.h: (K / 128 + 160) eps times the sum of the absolute values of the
 * terms, and for p = 2 (K + 8) eps with |d - s| + |b - s| in place of |d - b|, s the mean of b; in
 * f32 K 2^-37 of the largest a, c and |b - s| are added.
 *
 * SPDX-License-Identifier: MIT
 */
#include "grad_problem.h"
#include <math.h>

static double at(const gram_tensor *t, const struct reference_batch *batch, int64_t item, int64_t i,
                 int64_t j)
{
    return reference_element(t, batch, item, 2, (int64_t[]){i, j});
}

struct grad_answer grad_answer(const struct reference_grad *in, const struct reference_batch *batch,
                               const int64_t item_onm[4])
{
    int64_t item = item_onm[0], o = item_onm[1], n = item_onm[2], m = item_onm[3];
    int64_t count = in->a->shape[in->a->ndim - 2];
    double p = reference_scalar(in->p, batch, item), eps = test_eps(in->a->dtype), sum = 0,
           mean = 0;
    double largest[3] = {0}, rest = 0; /* of a, c and |b - s| */
    double d = at(in->d, batch, item, n, m);

    for (int64_t k = 0; k < count; k++)
        mean += at(in->b, batch, item, n, k) / (double)count;
    for (int64_t k = 0; k < count; k++) {
        double b = at(in->b, batch, item, n, k);
        double c = at(in->c, batch, item, o, k), a = at(in->a, batch, item, k, m), ca = c * a;
        double size = p == 2     ? fabs(d - mean) + fabs(b - mean)
                      : isinf(p) ? 1
                                 : fabs(reference_signed_power(d - b, p - 1));
        sum += fabs(ca) * size;
        largest[0] = fmax(largest[0], fabs(a));
        largest[1] = fmax(largest[1], fabs(c));
        largest[2] = fmax(largest[2], fabs(b - mean));
    }
    if (p == 2 && in->a->dtype == GRAM_F32)
        rest = (double)count * 0x1p-37 * largest[0] * largest[1] * largest[2];
    return (struct grad_answer){
        .want = reference_cdist_grad(in, batch, item_onm),
        .bound =
            (p == 2 ? (double)count + 8 : (double)count / 128 + 160) * eps * sum + rest + 1e-300,
    };
}

struct grad_answer agop_answer(const struct reference_grad *in, const struct reference_batch *batch,
                               int64_t points, const int64_t item_nl[3])
{
    int64_t outputs = in->c->shape[in->c->ndim - 2], count = in->a->shape[in->a->ndim - 1];
    double eps = test_eps(in->a->dtype), size = 0, spread = 0;
    double divisor = (double)(points ? points : count ? count : 1);

    for (int64_t o = 0; o < outputs; o++)
        for (int64_t m = 0; m < count; m++) {
            struct grad_answer n =
                grad_answer(in, batch, (int64_t[]){item_nl[0], o, item_nl[1], m});
            struct grad_answer l =
                grad_answer(in, batch, (int64_t[]){item_nl[0], o, item_nl[2], m});
            size += fabs(n.want * l.want);
            spread += n.bound * fabs(l.want) + l.bound * fabs(n.want) + n.bound * l.bound;
        }
    return (struct grad_answer){
        .want = reference_agop(in, points, batch, item_nl),
        .bound = (spread + (double)(outputs * count + 8) * eps * size) / divisor + 1e-300,
    };
}
