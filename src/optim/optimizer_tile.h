/*
 * optimizer_tile.h - template: the loops of struct cpu_optimizer_math in f32 or f64
 *
 * Parameters, undefined at the end: SUFFIX (f32, f64), real (float, double).
 *
 * SPDX-License-Identifier: MIT
 */
#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)
#define NAME(name)   PASTE(name, SUFFIX)

static double NAME(squares)(int64_t n, const void *array)
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

static void NAME(scale)(int64_t n, double s, void *array)
{
    real *x = array, factor = (real)s;

    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

static void NAME(add)(int64_t n, double s, const void *from, void *array)
{
    const real *y = from;
    real *x = array, factor = (real)s;

    for (int64_t i = 0; i < n; i++)
        x[i] += factor * y[i];
}

static void NAME(filter)(int64_t n, const double b[2], double scale, void *moment, void *gradient)
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

static void NAME(second)(int64_t n, double keep, double take, const void *gradient, void *second)
{
    const real *g = gradient;
    real *v = second, k = (real)keep, t = (real)take;

    for (int64_t i = 0; i < n; i++)
        v[i] = k * v[i] + t * g[i] * g[i];
}

static void NAME(adapt)(int64_t n, double scale, double epsilon, const void *filtered,
                        const void *second, void *result)
{
    const real *f = filtered, *v = second;
    real *to = result, s = (real)scale, e = (real)epsilon;

    for (int64_t i = 0; i < n; i++) {
        real root = (real)sqrt((double)(v[i] * s)) + e;
        to[i] = root > 0 ? f[i] / root : 0; /* V = 0: no gradient yet, f is 0 too */
    }
}

static void NAME(momentum)(int64_t n, double momentum, double take, bool nesterov, void *velocity,
                           void *direction)
{
    real *b = velocity, *p = direction, m = (real)momentum, t = (real)take;

    for (int64_t i = 0; i < n; i++) {
        b[i] = m * b[i] + t * p[i];
        p[i] = nesterov ? p[i] + m * b[i] : b[i];
    }
}

static const struct cpu_optimizer_math NAME(math) = {
    .squares = NAME(squares),
    .scale = NAME(scale),
    .add = NAME(add),
    .filter = NAME(filter),
    .second = NAME(second),
    .adapt = NAME(adapt),
    .momentum = NAME(momentum),
};

#undef PASTE_
#undef PASTE
#undef NAME
#undef SUFFIX
#undef real
