/*
 * test_cuda_ptx.c - the instructions of ptx.cuh against what it says of them
 *
 * On a device this tests the PTX, in the emulation what stands for it: both must pass.  Without
 * either: skipped.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_file.h"
#include <float.h>
#include <math.h>

enum {
    N = 4096,
    FUNCTIONS = 7,
    HALVES = 65536
};

/* Memory of the device with a copy of the host's. */
static void *put(struct harness *h, const void *from, size_t bytes)
{
    void *memory = device_allocate(bytes);

    CHECK(h, memory && device_upload(memory, from, bytes), "no memory");
    return memory;
}

static void take(struct harness *h, void *to, void *from, size_t bytes)
{
    CHECK(h, device_download(to, from, bytes), "the kernel failed");
    device_release(from);
}

static float float_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of_float(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- Functions ------------------------------------------------------------------------------ */

static bool agrees(double got, double want, double bound)
{
    return isnan(want) ? isnan(got) != 0 : got == want || fabs(got - want) <= bound;
}

static double flushed(double x)
{
    return fabs(x) < (double)FLT_MIN ? copysign(0, x) : x;
}

/* The f'th function of x with the bound of ptx.cuh. */
static double function(int f, double x, double *bound)
{
    const double ulp = 0x1p-23, y = flushed(x);
    double value;

    switch (f) {
    case 0:
        value = flushed(exp2(y));
        *bound = 2 * ulp * value + (double)FLT_MIN;
        break;
    case 1:
        value = log2(y);
        *bound = 0x1p-22 + 2 * ulp * fabs(value);
        break;
    case 2:
        value = sqrt(x);
        *bound = 2 * ulp * value;
        break;
    case 3:
        value = sqrt(y);
        *bound = 2 * ulp * value;
        break;
    case 4:
        value = 1 / sqrt(y);
        *bound = 2 * ulp * value;
        break;
    case 5:
        value = flushed(1 / y);
        *bound = ulp * fabs(value) + (double)FLT_MIN;
        break;
    default:
        value = x > 1 || isnan(x) ? x : 1;
        *bound = 0;
    }
    return value > (double)FLT_MAX ? (double)INFINITY : value;
}

static void functions(struct harness *h)
{
    static const float special[] = {0,         -0.0F,   1,         -1,         INFINITY,
                                    -INFINITY, NAN,     0x1p-140F, 0x1p-126F,  FLT_MAX,
                                    127.9F,    -126.5F, -140,      0.99999994F};
    static float x[N], out[FUNCTIONS][N];
    int n = N;
    struct kernel_file f;
    void *from, *to;

    if (!kernel_file_open(h, "cuda_ptx.cu", &f))
        return;
    for (int i = 0; i < N; i++)
        x[i] = i < LENGTH(special) ? special[i]
                                   : (float)ldexp(test_uniform(h) + 0.5, i % 3 ? i % 200 - 100 : 0);
    from = put(h, x, sizeof x);
    to = put(h, out, sizeof out);
    CHECK(h, kernel_start(&f, "functions", N / 256, 256, 0, (void *[]){&from, &to, &n}) == 0,
          "not started");
    take(h, out, to, sizeof out);
    device_release(from);
    for (int k = 0; k < FUNCTIONS; k++)
        for (int i = 0; i < N; i++) {
            double bound, want = function(k, (double)x[i], &bound);
            CHECK(h, agrees((double)out[k][i], want, bound), "function %d of %g is %.9g, not %.9g",
                  k, (double)x[i], (double)out[k][i], want);
        }
}

/* ---- Short formats -------------------------------------------------------------------------- */

static float half_value(unsigned bits)
{
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    const double sign = bits & 0x8000 ? -1 : 1;

    if (exponent == 31)
        return fraction ? NAN : (float)(sign * (double)INFINITY);
    return (float)(sign *
                   (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24)));
}

/* Whether bits, of a format whose next numbers are its neighbours, are the nearest to x; of two
 * equally near ones the even (ties_even) or the larger. */
static bool is_nearest(unsigned bits, double x, float (*value)(unsigned), bool ties_even)
{
    const double last = (double)value(bits - 1), before = (double)value(bits - 2);
    const double here = fabs((isinf(value(bits)) ? 2 * last - before : (double)value(bits)) - x);
    const unsigned size = bits & 0x7fff;

    if (isinf(value(bits)) && fabs(x) >= fabs(2 * last - before))
        return true; /* as if the numbers went on */

    for (int step = -1; step <= 1; step += 2) {
        unsigned other = bits + (unsigned)step;
        double there;
        if ((size == 0 && step < 0) || (isinf(value(bits)) && step > 0))
            continue;
        there = fabs((double)value(other) - x);
        if (isinf(value(other))) /* stands where the next number would */
            there = fabs(2 * (double)value(bits) - (double)value(bits - 1) - x);
        if (there < here || (there == here && (ties_even ? bits % 2 : step > 0)))
            return false;
    }
    return true;
}

static float bfloat_value(unsigned bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

/* A tf32 number's bits without the last 13, as those of the other formats. */
static float tf32_value(unsigned bits)
{
    return float_of_bits((uint32_t)bits << 13);
}

static void check_halves(struct harness *h, const uint32_t *out)
{
    for (unsigned i = 0; i < HALVES; i++) {
        float half = float_of_bits(out[i]), bfloat = float_of_bits(out[HALVES + i]);
        unsigned back = out[2 * HALVES + i];
        bool nan = isnan(half_value(i)) != 0, bnan = isnan(bfloat_value(i)) != 0;
        CHECK(h, nan ? isnan(half) : half == half_value(i), "half %04x is %g", i, (double)half);
        CHECK(h, bnan ? isnan(bfloat) : bfloat == bfloat_value(i), "bfloat %04x is %g", i,
              (double)bfloat);
        CHECK(h, nan ? isnan(half_value(back & 0xffff)) : (back & 0xffff) == i,
              "half %04x comes back as %04x", i, back & 0xffff);
        CHECK(h, bnan ? isnan(bfloat_value(back >> 16)) : back >> 16 == i,
              "bfloat %04x comes back as %04x", i, back >> 16);
    }
}

static void conversions(struct harness *h)
{
    static float x[N];
    static uint32_t out[3 * HALVES + 5 * N];
    int n = N;
    struct kernel_file f;
    void *from, *to;

    if (!kernel_file_open(h, "cuda_ptx.cu", &f))
        return;
    for (int i = 0; i < N; i++) { /* ties too: few digits */
        x[i] = (float)ldexp(floor(test_uniform(h) * 8192), i % 36 - 30);
        x[i] = i % 2 ? x[i] : -(float)ldexp(test_uniform(h), i % 16);
    }
    from = put(h, x, sizeof x);
    to = put(h, out, sizeof out);
    CHECK(h, kernel_start(&f, "conversions", HALVES / 256, 256, 0, (void *[]){&from, &to, &n}) == 0,
          "not started");
    take(h, out, to, sizeof out);
    device_release(from);
    check_halves(h, out);
    for (int i = 0; i < N; i++) {
        const uint32_t *got = out + 3 * HALVES + 5 * i;
        double value = (double)x[i];
        CHECK(h, is_nearest(got[0], value, half_value, true), "half of %a is %04x", value, got[0]);
        CHECK(h, is_nearest(got[1], value, bfloat_value, true), "bfloat of %a is %04x", value,
              got[1]);
        CHECK(h, got[2] == (got[0] | (got[0] ^ 0x8000) << 16), "halves of %a: %08x", value, got[2]);
        CHECK(h, got[3] == (got[1] | (got[1] ^ 0x8000) << 16), "bfloats of %a: %08x", value,
              got[3]);
        CHECK(h, is_nearest(got[4] >> 13, fabs(value), tf32_value, false) || value < 0,
              "tf32 of %a is %08x", value, got[4]);
        CHECK(h, fabs((double)float_of_bits(got[4] & 0xffffe000) - value) <= fabs(value) * 0x1p-11,
              "tf32 of %a is %08x", value, got[4]);
    }
    CHECK(h, bits_of_float(1) == 0x3f800000, "f32 is not what it was");
}

/* ---- Copies and matrices -------------------------------------------------------------------- */

static void copies(struct harness *h)
{
    static char from[512], to[896];
    struct kernel_file f;

    if (!kernel_file_open(h, "cuda_ptx.cu", &f))
        return;
    for (int i = 0; i < LENGTH(from); i++)
        from[i] = (char)(i * 7 + 1);
    for (int bytes = 0; bytes <= 16; bytes += 4) {
        void *source = put(h, from, sizeof from), *target = put(h, to, sizeof to);
        CHECK(h, kernel_start(&f, "copies", 1, 32, 0, (void *[]){&source, &target, &bytes}) == 0,
              "not started");
        take(h, to, target, sizeof to);
        device_release(source);
        for (int size = 4, at = 0; size <= 16; at += 32 * size, size *= 2)
            for (int i = 0; i < 32 * size; i++)
                CHECK(h, to[at + i] == (i % size < bytes ? from[i] : 0),
                      "%d of %d bytes: byte %d is %d", bytes, size, i, to[at + i]);
    }
}

static void loads(struct harness *h)
{
    static const int first[] = {0, 1, 1, 3,
                                3, 3, 3}; /* register of a lane where its matrices begin */
    static uint16_t matrix[32 * 8];
    static uint32_t out[64 * 7];
    struct kernel_file f;
    void *from, *to;

    if (!kernel_file_open(h, "cuda_ptx.cu", &f))
        return;
    for (int i = 0; i < LENGTH(matrix); i++)
        matrix[i] = (uint16_t)(1000 + i);
    from = put(h, matrix, sizeof matrix);
    to = put(h, out, sizeof out);
    CHECK(h, kernel_start(&f, "loads", 1, 32, 0, (void *[]){&from, &to}) == 0, "not started");
    take(h, out, to, sizeof out);
    device_release(from);
    for (int i = 0; i < LENGTH(out); i++) {
        const int lane = i / 7 % 32, g = lane / 4, t = lane % 4 * 2, m = i % 7 - first[i % 7];
        const uint16_t *rows = matrix + m * 64;
        uint32_t want = i / 7 < 32 ? rows[g * 8 + t] | (uint32_t)rows[g * 8 + t + 1] << 16
                                   : rows[t * 8 + g] | (uint32_t)rows[(t + 1) * 8 + g] << 16;
        CHECK(h, out[i] == want, "lane %d, register %d: %08x, expected %08x", lane, i % 7, out[i],
              want);
    }
}

static void products(struct harness *h)
{
    static const int depth[] = {8, 16, 16, 4};
    float a[16 * 16], b[16 * 8], out[3 * 128] = {0};
    double exact[64] = {0};
    struct kernel_file f;
    void *at[4];

    if (!kernel_file_open(h, "cuda_ptx.cu", &f))
        return;
    for (int i = 0; i < LENGTH(a); i++)
        a[i] = (float)floor(test_uniform(h) * 17 - 8);
    for (int i = 0; i < LENGTH(b); i++)
        b[i] = (float)floor(test_uniform(h) * 17 - 8);
    at[0] = put(h, a, sizeof a), at[1] = put(h, b, sizeof b);
    at[2] = put(h, out, sizeof out), at[3] = put(h, exact, sizeof exact);
    CHECK(h,
          kernel_start(&f, "products", 1, 32, 0, (void *[]){&at[0], &at[1], &at[2], &at[3]}) == 0,
          "not started");
    take(h, out, at[2], sizeof out);
    take(h, exact, at[3], sizeof exact);
    device_release(at[0]);
    device_release(at[1]);
    for (int kind = 0; kind < 4; kind++)
        for (int i = 0; i < (kind < 3 ? 16 : 8); i++)
            for (int j = 0; j < 8; j++) {
                double want = 0,
                       got = kind < 3 ? (double)out[128 * kind + i * 8 + j] : exact[i * 8 + j];
                for (int k = 0; k < depth[kind]; k++)
                    want += (double)a[i * 16 + k] * (double)b[k * 8 + j];
                CHECK(h, got == want, "kind %d, [%d, %d] is %g, expected %g", kind, i, j, got,
                      want);
            }
}

static const struct test_function tests[] = {
    {  "functions",   functions},
    {"conversions", conversions},
    {     "copies",      copies},
    {      "loads",       loads},
    {   "products",    products},
};

int main(void)
{
    if (gram_best_device().type != GRAM_CUDA) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
