/*
 * reference_cdist.c - distances, their gradients, and sums and the median of these, as formulas say
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>
#include <stdlib.h>

/* ---- Distances ------------------------------------------------------------------------------- */

double reference_cdist(const gram_tensor *x, const gram_tensor *y, gram_scalar p, int no_root,
                       const struct reference_batch *batch, const int64_t item_ij[3])
{
    const gram_tensor *z = y ? y : x;
    double power = reference_scalar(p, batch, item_ij[0]), sum = 0;

    for (int64_t k = 0; k < x->shape[x->ndim - 1]; k++) {
        double a = reference_element(x, batch, item_ij[0], 2, (int64_t[]){item_ij[1], k});
        double b = reference_element(z, batch, item_ij[0], 2, (int64_t[]){item_ij[2], k});
        double d = fabs(a - b);
        if (power == 0)
            sum += isnan(a) || isnan(b) ? NAN : a != b;
        else if (isinf(power))
            sum = d > sum || isnan(d) ? d : sum;
        else
            sum += pow(d, power);
    }
    return no_root || power == 0 || isinf(power) ? sum : pow(sum, 1 / power);
}

/* ---- Gradients of kernel expansions ---------------------------------------------------------- */

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

/* ---- The average gradient outer product ------------------------------------------------------ */

double reference_agop(const struct reference_grad *in, int64_t points,
                      const struct reference_batch *batch, const int64_t item_nl[3])
{
    int64_t outputs = in->c->shape[in->c->ndim - 2], count = in->a->shape[in->a->ndim - 1];
    int64_t item = item_nl[0], n = item_nl[1], l = item_nl[2];
    double sum = 0;

    for (int64_t o = 0; o < outputs; o++)
        for (int64_t m = 0; m < count; m++)
            sum += reference_cdist_grad(in, batch, (int64_t[]){item, o, n, m}) *
                   reference_cdist_grad(in, batch, (int64_t[]){item, o, l, m});
    return count ? sum / (double)(points ? points : count) : 0;
}

/* ---- The median of some numbers, by sorting -------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double reference_median(int64_t n, double *values)
{
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++)
        if (!isnan(values[i]))
            values[count++] = values[i];
    if (count == 0)
        return NAN;
    qsort(values, (size_t)count, sizeof *values, ascending);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}
