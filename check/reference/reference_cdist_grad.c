/*
 * reference_cdist_grad.c - gradients of kernel expansions as the formula says
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

double reference_signed_power(double t, double exponent)
{
    if (t == 0)
        return 0;                                              /* a tie, whatever the exponent */
    return isnan(t) ? t : copysign(pow(fabs(t), exponent), t); /* pow(NAN, 0) is 1 */
}

/* The same of p = infinity: the sign where a difference, rounded to the dtype, is the largest. */
static double signed_largest(const struct reference_grad *in, const struct reference_batch *batch,
                             const int64_t item_nkm[4])
{
    double most = 0, mine = 0;

    for (int64_t n = 0; n < in->b->shape[in->b->ndim - 2]; n++) {
        double d = reference_element(in->d, batch, item_nkm[0], 2, (int64_t[]){n, item_nkm[3]});
        double b = reference_element(in->b, batch, item_nkm[0], 2, (int64_t[]){n, item_nkm[2]});
        double t = in->a->dtype == GRAM_F32 ? (double)(float)(d - b) : d - b;

        most = fabs(t) > most || isnan(t) ? fabs(t) : most;
        mine = n == item_nkm[1] ? t : mine;
    }
    if (isnan(most))
        return most;
    return mine != 0 && fabs(mine) == most ? copysign(1, mine) : 0;
}

double reference_cdist_grad(const struct reference_grad *in, const struct reference_batch *batch,
                            const int64_t item_onm[4])
{
    int64_t item = item_onm[0], o = item_onm[1], n = item_onm[2], m = item_onm[3];
    double d = reference_element(in->d, batch, item, 2, (int64_t[]){n, m});
    double p = reference_scalar(in->p, batch, item), sum = 0;

    for (int64_t k = 0; k < in->a->shape[in->a->ndim - 2]; k++) {
        double a = reference_element(in->a, batch, item, 2, (int64_t[]){k, m});
        double b = reference_element(in->b, batch, item, 2, (int64_t[]){n, k});
        double c = reference_element(in->c, batch, item, 2, (int64_t[]){o, k});
        sum += c * a *
               (isinf(p) ? signed_largest(in, batch, (int64_t[]){item, n, k, m})
                         : reference_signed_power(d - b, p - 1));
    }
    return sum;
}
