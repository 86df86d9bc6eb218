/*
 * matrix_power_minimax.cuh - the polynomials of GRAM_POWER_MINIMAX
 *
 * SPDX-License-Identifier: MIT
 */

/*
 * The best w = a + b y for eigenvalues y in [low, high]: y^(1/q) (a + b y) rises from low to
 * y' = -a / (b (1 + q)) and falls to high, so it leaves 1 least where its values at low and high
 * are 1 - e and that at y' is 1 + e.  Leaves e in before, and where eigenvalues lie afterwards.
 */
static __device__ void minimax_next(const struct power_params &a, struct power_state *s)
{
    const double q = (double)a.denominator, p = 1 / q, low = s->low, high = s->high;
    const double t = high - low > 1e-9 * high
                         ? (pow(high, p) - pow(low, p)) / (pow(high, 1 + p) - pow(low, 1 + p))
                         : 1 / ((1 + q) * low);
    const double peak = 1 / (t * (1 + q));
    const double least = pow(low, p) * (1 - t * low), most = pow(peak, p) * (1 - t * peak);
    const double e = (most - least) / (most + least);

    s->step[0] = 2 / (least + most);
    s->step[1] = -s->step[0] * t;
    s->before = e;
    s->low = pow(1 - e, q), s->high = pow(1 + e, q);
}

/* The Lanczos value may fall short of the largest eigenvalue: there are 5 % and 1 % to spare. */
static __device__ void minimax_begin(const struct power_params &a, struct power_state *s)
{
    const double scale = 1.05 * s->largest;
    /* The ridge may be twice what a negative eigenvalue of a factor takes back. */
    const double condition =
        (a.least_ridge > 0 ? 2 : 1) * (a.condition > 0 ? a.condition : s->largest / s->shift);

    s->first = 1 / scale;
    s->last = pow(scale, -1 / (double)a.denominator);
    s->low = 1 / (1.05 * condition), s->high = 1.01;
    minimax_next(a, s);
}
