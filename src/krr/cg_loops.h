/*
 * cg_loops.h - template: one column's part of a step of conjugate gradients
 *
 * Parameters: SOURCE and real; see each_dtype.h.
 *
 * Sums are in double.  The steps are those of enum krr_step; product holds A v, with the ridge.
 *
 * SPDX-License-Identifier: MIT
 */

/* The sum of a * b: four sums, so that the additions overlap and errors stay small. */
static double CAT(dot, SOURCE)(int64_t n, const real *a, const real *b)
{
    double s[4] = {0};
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++)
            s[l] += (double)a[i + l] * (double)b[i + l];
    for (; i < n; i++)
        s[0] += (double)a[i] * (double)b[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* y += alpha x. */
static void CAT(add, SOURCE)(int64_t n, double alpha, const real *x, real *y)
{
    real factor = (real)alpha;

    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* y = x + beta y. */
static void CAT(add_scaled, SOURCE)(int64_t n, double beta, const real *x, real *y)
{
    real factor = (real)beta;

    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] + factor * y[i];
}

static void CAT(step, SOURCE)(const struct krr_cg_step *op, int64_t place)
{
    int64_t n = op->n, at = place * n, column = op->which[place];
    const real *b = (const real *)op->b + column * n, *product = (const real *)op->product + at;
    real *x = (real *)op->x + column * n, *r = (real *)op->r + at;
    real *z = (real *)op->z + at, *d = (real *)op->d + at;
    size_t bytes = (size_t)n * sizeof *x;
    double s;

    switch (op->step) {
    case KRR_START:
        memset(x, 0, bytes);
        memcpy(r, b, bytes);
        op->norm_b[column] = op->norm_r[column] = sqrt(CAT(dot, SOURCE)(n, b, b));
        break;
    case KRR_RESIDUAL:
        memcpy(r, product, bytes);
        CAT(add_scaled, SOURCE)(n, -1, b, r);
        op->norm_r[column] = sqrt(CAT(dot, SOURCE)(n, r, r));
        break;
    case KRR_RESTART:
        memset(d, 0, bytes);
        op->rz[column] = 0;
        break;
    case KRR_DESCEND:
        op->curvature[column] = s = CAT(dot, SOURCE)(n, d, product);
        s = s > 0 ? op->rz[column] / s : 0; /* 0: this column is solved */
        CAT(add, SOURCE)(n, s, d, x);
        CAT(add, SOURCE)(n, -s, product, r);
        op->norm_r[column] = sqrt(CAT(dot, SOURCE)(n, r, r));
        break;
    case KRR_TURN:
        s = CAT(dot, SOURCE)(n, r, z);
        CAT(add_scaled, SOURCE)(n, op->rz[column] > 0 ? s / op->rz[column] : 0, z, d);
        op->rz[column] = s;
        break;
    }
}
