/*
 * optimizer_loops.h - template: the loops of struct cpu_optimizer_math in f32 or f64
 *
 * Parameters: SOURCE and real; see each_dtype.h.
 *
 * SPDX-License-Identifier: MIT
 */
static double CAT(squares, SOURCE)(int64_t n, const void *array)
{
    const real *x = array;
    double sum[4] = {0}; /* so that additions do not wait for each other */
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (int j = 0; j < 4; j++)
            sum[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < n; i++)
        sum[0] += (double)x[i] * (double)x[i];
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

static void CAT(scale, SOURCE)(int64_t n, double s, void *array)
{
    real *x = array, factor = (real)s;

    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

static void CAT(add, SOURCE)(int64_t n, double s, const void *from, void *array)
{
    const real *y = from;
    real *x = array, factor = (real)s;

    for (int64_t i = 0; i < n; i++)
        x[i] += factor * y[i];
}

static void CAT(filter, SOURCE)(int64_t n, const double b[2], double scale, void *moment,
                                void *gradient)
{
    real *m = moment, *g = gradient;
    real keep = (real)(b[1] * scale), take = (real)((1 - b[1]) * scale);
    real b1 = (real)b[0], rest = (real)(1 - b[0]);

    for (int64_t i = 0; i < n; i++) {
        real f = keep * m[i] + take * g[i];
        m[i] = b1 * m[i] + rest * g[i];
        g[i] = f;
    }
}

static void CAT(second, SOURCE)(int64_t n, double keep, double take, const void *gradient,
                                void *second)
{
    const real *g = gradient;
    real *v = second, k = (real)keep, t = (real)take;

    for (int64_t i = 0; i < n; i++)
        v[i] = k * v[i] + t * g[i] * g[i];
}

static void CAT(adapt, SOURCE)(int64_t n, double scale, double epsilon, const void *filtered,
                               const void *second, void *result)
{
    const real *f = filtered, *v = second;
    real *to = result, s = (real)scale, e = (real)epsilon;

    for (int64_t i = 0; i < n; i++) {
        real root = (real)sqrt((double)(v[i] * s)) + e;
        to[i] = root > 0 ? f[i] / root : 0; /* V = 0: no gradient yet, f is 0 too */
    }
}

static void CAT(momentum, SOURCE)(int64_t n, double momentum, double take, bool nesterov,
                                  void *velocity, void *direction)
{
    real *b = velocity, *p = direction, m = (real)momentum, t = (real)take;

    for (int64_t i = 0; i < n; i++) {
        b[i] = m * b[i] + t * p[i];
        p[i] = nesterov ? p[i] + m * b[i] : b[i];
    }
}

static double CAT(dot, SOURCE)(int64_t n, const void *first, const void *second)
{
    const real *x = first, *y = second;
    double part[4] = {0};
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++)
            part[l] += (double)x[i + l] * (double)y[i + l];
    for (; i < n; i++)
        part[0] += (double)x[i] * (double)y[i];
    return part[0] + part[1] + part[2] + part[3];
}

static void CAT(permute, SOURCE)(const struct cpu_mode *mode, const int32_t *order,
                                 const void *from, void *to)
{
    const real *x = from;
    real *y = to;

    for (int64_t b = 0; b < mode->before; b++)
        for (int64_t j = 0; j < mode->n; j++)
            memcpy(y + (b * mode->n + j) * mode->after, x + (b * mode->n + order[j]) * mode->after,
                   (size_t)mode->after * sizeof *y);
}

static double CAT(off_diagonal, SOURCE)(int64_t n, const void *matrix)
{
    const real *a = matrix;
    double sum = 0;

    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            sum += i == j ? 0 : (double)a[i + j * n] * (double)a[i + j * n];
    return sum;
}

static bool CAT(finite, SOURCE)(int64_t n, const void *from)
{
    const real *x = from;
    real sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] - x[i];
    return sum == 0;
}

static void CAT(widen, SOURCE)(int64_t n, const void *from, double *to)
{
    const real *x = from;

    for (int64_t i = 0; i < n; i++)
        to[i] = (double)x[i];
}

static void CAT(narrow, SOURCE)(int64_t n, const double *from, void *to)
{
    real *x = to;

    for (int64_t i = 0; i < n; i++)
        x[i] = (real)from[i];
}

static const struct cpu_optimizer_math CAT(math, SOURCE) = {
    .squares = CAT(squares, SOURCE),
    .scale = CAT(scale, SOURCE),
    .add = CAT(add, SOURCE),
    .filter = CAT(filter, SOURCE),
    .second = CAT(second, SOURCE),
    .adapt = CAT(adapt, SOURCE),
    .momentum = CAT(momentum, SOURCE),
    .dot = CAT(dot, SOURCE),
    .permute = CAT(permute, SOURCE),
    .off_diagonal = CAT(off_diagonal, SOURCE),
    .finite = CAT(finite, SOURCE),
    .widen = CAT(widen, SOURCE),
    .narrow = CAT(narrow, SOURCE),
};
