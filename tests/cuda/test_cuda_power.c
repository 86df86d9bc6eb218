/*
 * test_cuda_power.c - the error of one term |d|^p on the device, for d of every size
 *
 * Without a device and outside of the emulation: skipped.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNT = 6000
};

struct terms {
    gram_context *g;
    gram_dtype dtype;
    gram_tensor x, y, out; /* columns of numbers, a zero, and their terms */
    double d[COUNT], got[COUNT];
};

static double as_stored(gram_dtype dtype, double x)
{
    return dtype == GRAM_F32 ? (double)(float)x : x;
}

static bool transfer(struct terms *t, const gram_tensor *to, const double *from, int count)
{
    float narrow[COUNT];

    for (int i = 0; i < count; i++)
        narrow[i] = (float)from[i];
    return t->dtype == GRAM_F32 ? device_upload(to->data, narrow, (size_t)count * sizeof *narrow)
                                : device_upload(to->data, from, (size_t)count * sizeof *from);
}

static bool fetch(struct terms *t)
{
    float narrow[COUNT];

    if (t->dtype == GRAM_F64)
        return device_download(t->got, t->out.data, sizeof t->got);
    if (!device_download(narrow, t->out.data, sizeof narrow))
        return false;
    for (int i = 0; i < COUNT; i++)
        t->got[i] = (double)narrow[i];
    return true;
}

static gram_tensor column(gram_dtype dtype, int count)
{
    gram_tensor t =
        gram_matrix(device_allocate((size_t)count * gram_dtype_size(dtype)), count, 1, dtype);

    t.device = (gram_device){GRAM_CUDA, 0};
    return t;
}

static bool open_terms(struct harness *h, struct terms *t, gram_dtype dtype)
{
    const double zero = 0;

    memset(t, 0, sizeof *t);
    t->g = test_cuda_context(h, NULL);
    if (!t->g)
        return false;
    t->dtype = dtype;
    t->x = column(dtype, COUNT), t->y = column(dtype, 1), t->out = column(dtype, COUNT);
    return CHECK(h, t->x.data && t->y.data && t->out.data && transfer(t, &t->y, &zero, 1),
                 "no memory on the device");
}

static void close_terms(struct terms *t)
{
    device_release(t->x.data);
    device_release(t->y.data);
    device_release(t->out.data);
    gram_context_destroy(t->g);
}

static bool compute(struct harness *h, struct terms *t, double p)
{
    const gram_cdist_options options = {.size = sizeof options, .no_root = true};

    return CHECK(h, transfer(t, &t->x, t->d, COUNT), "upload") &&
           CHECK(h,
                 gram_cdist(t->g, &t->x, &t->y, gram_number(p), &options, &t->out) == GRAM_OK &&
                     gram_context_synchronize(t->g) == GRAM_OK,
                 "%s", gram_message(t->g)) &&
           CHECK(h, fetch(t), "download");
}

/* Every exponent that gives a normal number, 8 eps within a million of 1 and 16 beyond. */
static void terms_of(struct harness *h, gram_dtype dtype, double p)
{
    const double eps = dtype == GRAM_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    const double least = dtype == GRAM_F32 ? (double)FLT_MIN : DBL_MIN;
    const double most = dtype == GRAM_F32 ? (double)FLT_MAX : DBL_MAX;
    const double range = log2(most) - 1e-9;
    static struct terms t;

    if (!open_terms(h, &t, dtype))
        return;
    for (int i = 0; i < COUNT; i++) {
        double e = (2 * test_uniform(h) - 1) * (i % 2 ? range : 20) / fmax(p, 1);
        t.d[i] = as_stored(dtype, (test_uniform(h) < 0.5 ? -1 : 1) * exp2(e));
    }
    t.d[0] = 0, t.d[1] = -0.0;
    if (compute(h, &t, p))
        for (int i = 0; i < COUNT; i++) {
            double d = fabs(t.d[i]), bound = d >= 1e-6 && d <= 1e6 ? 8 : 16;
            long double want = powl((long double)d, (long double)p);
            if (want > 0 && (want < (long double)least || want > (long double)most))
                continue;
            if (!CHECK(h, fabsl((long double)t.got[i] - want) <= (long double)(bound * eps) * want,
                       "%g^%g is %.17g, expected %.17Lg, %.1Lf eps", t.d[i], p, t.got[i], want,
                       fabsl((long double)t.got[i] - want) / want / (long double)eps))
                break;
        }
    close_terms(&t);
}

static void every_size_in_f32(struct harness *h)
{
    static const double powers[] = {0.3, 0.5,  0.9, 1.01, 1.1,   1.3, 1.38, 1.5,
                                    1.7, 1.99, 2.5, 2.7,  3.141, 7.7, 15.5, 15.7};

    for (int i = 0; i < LENGTH(powers); i++)
        terms_of(h, GRAM_F32, powers[i]);
}

static void every_size_in_f64(struct harness *h)
{
    static const double powers[] = {1.01, 1.3, 1.5, 1.7, 2.5, 7.7};

    for (int i = 0; i < LENGTH(powers); i++)
        terms_of(h, GRAM_F64, powers[i]);
}

/* Sums that the table alone cannot tell: infinite for one reason or another, or no number. */
static void infinity_and_nan(struct harness *h)
{
    static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64};
    static struct terms t;

    for (int k = 0; k < LENGTH(dtypes); k++) {
        const double most = dtypes[k] == GRAM_F32 ? (double)FLT_MAX : DBL_MAX;
        /* results from the last binade of the dtype on */
        const double last = pow(most, 1 / 1.3);
        const double special[] = {INFINITY,      -INFINITY,  NAN,        most,
                                  0.9999 * last, 0.8 * last, last * 1.01};
        if (!open_terms(h, &t, dtypes[k]))
            return;
        for (int i = 0; i < COUNT; i++)
            t.d[i] = as_stored(dtypes[k], special[i % LENGTH(special)]);
        if (compute(h, &t, 1.3))
            for (int i = 0; i < LENGTH(special); i++) {
                double want = pow(fabs(t.d[i]), 1.3);
                want = want > most ? INFINITY : want;
                CHECK(h,
                      isnan(want) ? isnan(t.got[i])
                                  : t.got[i] == want || fabs(t.got[i] / want - 1) < 2e-6,
                      "%g gives %g, expected %g", t.d[i], t.got[i], want);
            }
        close_terms(&t);
    }
}

static const struct test_function tests[] = {
    {"every_size_in_f32", every_size_in_f32},
    {"every_size_in_f64", every_size_in_f64},
    { "infinity_and_nan",  infinity_and_nan},
};

int main(void)
{
    if (gram_best_device().type != GRAM_CUDA || !device_open(0)) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
