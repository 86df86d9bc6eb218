/*
 * test_expression_device.c - expressions on a CUDA device: gradients, and what only a device
 * refuses
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    M = 37,
    K = 5
};

/* x and y, M by K, the result or the cotangent, and two gradients. */
struct problem {
    gram_context *g;
    gram_tensor x, y, out, to_x, to_y;
    float x_host[M * K], y_host[M * K], out_host[M * M];
};

static gram_tensor on_device(int64_t rows, int64_t cols)
{
    gram_tensor t =
        gram_matrix(device_allocate((size_t)(rows * cols) * sizeof(float)), rows, cols, GRAM_F32);

    t.device = (gram_device){GRAM_CUDA, 0};
    return t;
}

static bool problem_open(struct harness *h, struct problem *q)
{
    q->g = test_cuda_context(h, NULL);
    q->x = on_device(M, K), q->y = on_device(M, K), q->out = on_device(M, M);
    q->to_x = on_device(M, K), q->to_y = on_device(M, K);
    for (int i = 0; i < M * K; i++)
        q->x_host[i] = (float)test_uniform(h), q->y_host[i] = (float)test_uniform(h);
    for (int i = 0; i < M * M; i++)
        q->out_host[i] = (float)test_uniform(h);
    return CHECK(h,
                 q->g && q->x.data && q->y.data && q->out.data && q->to_x.data && q->to_y.data &&
                     device_upload(q->x.data, q->x_host, sizeof q->x_host) &&
                     device_upload(q->y.data, q->y_host, sizeof q->y_host) &&
                     device_upload(q->out.data, q->out_host, sizeof q->out_host),
                 "%s", gram_message(NULL));
}

static void problem_close(struct problem *q)
{
    gram_context_destroy(q->g);
    device_release(q->x.data);
    device_release(q->y.data);
    device_release(q->out.data);
    device_release(q->to_x.data);
    device_release(q->to_y.data);
}

static gram_kernel_options expression_of(const char *text, const gram_parameter *parameters,
                                         int count)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    o.outer_power = gram_number(0.5);
    o.function = GRAM_EXPRESSION;
    o.expression = text;
    o.parameters = parameters, o.parameter_count = count;
    return o;
}

/* The gradients of a kernel that is written out are those of the CPU's built-in one. */
static void gradients(struct harness *h)
{
    const gram_parameter l = {"L", gram_number(0.8)};
    gram_kernel_options written = expression_of("(1 + s / L) * exp(-s / L)", &l, 1);
    gram_kernel_options built_in = GRAM_KERNEL_OPTIONS_INIT;
    float want[2][M * K], got[M * K];
    struct problem q;
    gram_kernel_grads there = {.x = NULL}, here = there;
    gram_tensor x = gram_matrix(q.x_host, M, K, GRAM_F32),
                y = gram_matrix(q.y_host, M, K, GRAM_F32),
                grad = gram_matrix(q.out_host, M, M, GRAM_F32),
                to_x = gram_matrix(want[0], M, K, GRAM_F32),
                to_y = gram_matrix(want[1], M, K, GRAM_F32);

    if (!problem_open(h, &q)) {
        problem_close(&q);
        return;
    }
    built_in.outer_power = gram_number(0.5);
    built_in.function = GRAM_MATERN32;
    built_in.bandwidth = gram_number(0.8 * sqrt(3));
    here.x = &to_x, here.y = &to_y;
    there.x = &q.to_x, there.y = &q.to_y;
    CHECK(h, gram_kernel_vjp(h->g, &x, &y, &built_in, &grad, &here) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h,
          gram_kernel_vjp(q.g, &q.x, &q.y, &written, &q.out, &there) == GRAM_OK &&
              gram_context_synchronize(q.g) == GRAM_OK,
          "%s", gram_message(q.g));
    for (int i = 0; i < 2; i++) {
        CHECK(h, device_download(got, i ? q.to_y.data : q.to_x.data, sizeof got), "download");
        for (int k = 0; k < M * K; k++)
            CHECK(h, fabsf(got[k] - want[i][k]) < 1e-4F, "[%d] is %g, expected %g", k,
                  (double)got[k], (double)want[i][k]);
    }
    problem_close(&q);
}

/* Texts that mirror and that do not, of a distance and of a product, and of more distances. */
static const struct {
    const char *text;
    gram_inner inner;
} of_norms[] = {
    {           "exp(-s) * norm_x * norm_y", GRAM_DIFFERENCE},
    {          "norm_x * s - dot / norm_y ", GRAM_DIFFERENCE},
    {"sqrt(norm_x) + exp(dot) * norm_y / L",        GRAM_DOT},
    {             "norm_y * norm_y + 0 * s",        GRAM_DOT},
    {             "exp(-d1 / L) * exp(-d2)", GRAM_DIFFERENCE},
    {          "d1 * sqrt(1 + d2 * d2) / L",        GRAM_DOT},
    {    "exp(-d1 / L) * d2 + norm_x * dot",        GRAM_DOT},
};

/* Values, weights, gradients, products and maxima are those of the CPU. */
static void norms(struct harness *h)
{
    const gram_parameter l = {"L", gram_number(0.8)};
    float want[M * M] = {0}, got[M * M] = {0}; /* a failed call leaves them */
    struct problem q;
    gram_kernel_grads there = {.x = NULL}, here = there;
    gram_tensor x = gram_matrix(q.x_host, M, K, GRAM_F32),
                y = gram_matrix(q.y_host, M, K, GRAM_F32),
                grad = gram_matrix(q.out_host, M, M, GRAM_F32),
                out = gram_matrix(want, M, M, GRAM_F32), to_x = gram_matrix(want, M, K, GRAM_F32),
                to_y = gram_matrix(want + (ptrdiff_t)M * K, M, K, GRAM_F32);

    if (!problem_open(h, &q)) {
        problem_close(&q);
        return;
    }
    here.x = &to_x, here.y = &to_y;
    there.x = &q.to_x, there.y = &q.to_y;
    for (int i = 0; i < LENGTH(of_norms); i++) {
        gram_kernel_options o = expression_of(of_norms[i].text, &l, 1);
        o.inner = of_norms[i].inner;
        CHECK(h,
              gram_kernel_vjp(h->g, &x, &y, &o, &grad, &here) == GRAM_OK &&
                  gram_kernel_vjp(q.g, &q.x, &q.y, &o, &q.out, &there) == GRAM_OK &&
                  gram_context_synchronize(q.g) == GRAM_OK &&
                  device_download(got, q.to_x.data, M * K * sizeof *got) &&
                  device_download(got + (ptrdiff_t)M * K, q.to_y.data, M * K * sizeof *got),
              "%s", gram_message(q.g));
        for (int k = 0; k < 2 * M * K; k++)
            CHECK(h, fabsf(got[k] - want[k]) <= 1e-4F * (1 + fabsf(want[k])),
                  "%s: gradient %d is %g, expected %g", o.expression, k, (double)got[k],
                  (double)want[k]);
        for (int output = GRAM_VALUE; output <= GRAM_NORM_Y_WEIGHT; output++) {
            gram_tensor *const second = output == GRAM_PARAMETER_DERIVATIVE ? NULL : &q.y;
            if (output == GRAM_BANDWIDTH_DERIVATIVE)
                continue;
            o.output = (gram_kernel_output)output;
            CHECK(h,
                  gram_kernel(h->g, &x, second ? &y : NULL, &o, &out) == GRAM_OK &&
                      gram_kernel(q.g, &q.x, second, &o, &q.out) == GRAM_OK &&
                      gram_context_synchronize(q.g) == GRAM_OK &&
                      device_download(got, q.out.data, sizeof got),
                  "%s", gram_message(q.g));
            for (int k = 0; k < M * M; k++)
                CHECK(h, fabsf(got[k] - want[k]) <= 1e-4F * (1 + fabsf(want[k])),
                      "%s, output %d: [%d] is %g, expected %g", o.expression, output, k,
                      (double)got[k], (double)want[k]);
        }
        CHECK(h, device_upload(q.out.data, q.out_host, sizeof q.out_host), "upload");
    }
    problem_close(&q);
}

/* A product and a reduction go by panels. */
static void products_and_maxima_of_norms(struct harness *h)
{
    const gram_parameter l = {"L", gram_number(0.8)};
    float want[M * K] = {0}, got[M * K] = {0};
    struct problem q;
    gram_tensor x = gram_matrix(q.x_host, M, K, GRAM_F32),
                y = gram_matrix(q.y_host, M, K, GRAM_F32), out = gram_matrix(want, M, K, GRAM_F32);

    if (!problem_open(h, &q)) {
        problem_close(&q);
        return;
    }
    for (int i = 0; i < 2 * LENGTH(of_norms); i++) {
        gram_kernel_options o = expression_of(of_norms[i / 2].text, &l, 1);
        gram_tensor vector = gram_vector(want, M, GRAM_F32), there = q.to_x;
        const bool same = i % 2;
        o.inner = of_norms[i / 2].inner;
        CHECK(h,
              gram_kernel_matmul(h->g, &x, same ? NULL : &y, &o, &y, NULL, &out) == GRAM_OK &&
                  gram_kernel_matmul(q.g, &q.x, same ? NULL : &q.y, &o, &q.y, NULL, &q.to_x) ==
                      GRAM_OK &&
                  gram_context_synchronize(q.g) == GRAM_OK &&
                  device_download(got, q.to_x.data, sizeof got),
              "%s", gram_message(q.g));
        for (int k = 0; k < M * K; k++)
            CHECK(h, fabsf(got[k] - want[k]) <= 1e-4F * (1 + fabsf(want[k])),
                  "%s: product %d is %g, expected %g", o.expression, k, (double)got[k],
                  (double)want[k]);
        there.ndim = 1, there.shape[0] = M, there.stride[0] = 1;
        CHECK(h,
              gram_kernel_reduce(h->g, &x, &y, &o, GRAM_REDUCE_MAX, NULL, NULL, &vector, NULL) ==
                      GRAM_OK &&
                  gram_kernel_reduce(q.g, &q.x, &q.y, &o, GRAM_REDUCE_MAX, NULL, NULL, &there,
                                     NULL) == GRAM_OK &&
                  gram_context_synchronize(q.g) == GRAM_OK &&
                  device_download(got, there.data, M * sizeof *got),
              "%s", gram_message(q.g));
        for (int k = 0; k < M; k++)
            CHECK(h, fabsf(got[k] - want[k]) <= 1e-5F * (1 + fabsf(want[k])),
                  "%s: maximum %d is %g, expected %g", o.expression, k, (double)got[k],
                  (double)want[k]);
    }
    problem_close(&q);
}

/* As many values of parameters alone as a kernel takes, and one more. */
static void constants(struct harness *h)
{
    const gram_parameter a = {"a", gram_number(1)};
    gram_kernel_options o = expression_of(NULL, &a, 1);
    struct problem q;
    char text[512] = "s";
    size_t used = 1;

    if (!problem_open(h, &q)) {
        problem_close(&q);
        return;
    }
    o.expression = text;
    for (int i = 1; i <= 17; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "+s*sin(a+%d)", i);
        if (i == 16)
            CHECK(h,
                  gram_kernel(q.g, &q.x, &q.y, &o, &q.out) == GRAM_OK &&
                      gram_context_synchronize(q.g) == GRAM_OK,
                  "%s", gram_message(q.g));
    }
    CHECK(h,
          gram_kernel(q.g, &q.x, &q.y, &o, &q.out) == GRAM_UNSUPPORTED &&
              strstr(gram_message(q.g),
                     "options.expression needs more than 16 values that depend "
                     "on parameters alone"),
          "%s", gram_message(q.g));
    problem_close(&q);
}

/* ---- Two expressions of one number ---------------------------------------------------------- */

/* gram_cuda_expression_number, of s * A + B without the bits of B: its steps can be undone, so that
 * for every A there is a B with a given number. */
static const uint64_t prime = 0x100000001B3u;

static uint64_t mixed(uint64_t value, uint64_t word)
{
    return ((value ^ word) * prime) ^ (value >> 29);
}

static uint64_t bits_of(double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static uint64_t number_before_b(double a)
{
    enum {
        S = 0,
        NUMBER = 1,
        MULTIPLY = 5
    };
    uint64_t value = 0xCBF29CE484222325u;

    value = mixed(mixed(value, (uint64_t)S << 48), 0);
    value = mixed(mixed(value, (uint64_t)NUMBER << 48), bits_of(a));
    value = mixed(mixed(value, (uint64_t)MULTIPLY << 48 | (uint64_t)1 << 16), 0);
    return mixed(value, (uint64_t)NUMBER << 48);
}

/* The B with which s * a + B has the number of s * 2 + 1. */
static double twin_of(double a)
{
    const uint64_t first = number_before_b(2), second = number_before_b(a);
    const uint64_t wanted = mixed(first, bits_of(1)) ^ (second >> 29);
    uint64_t inverse = prime, bits;
    double b;

    for (int i = 0; i < 6; i++)
        inverse *= 2 - prime * inverse;
    bits = second ^ (wanted * inverse);
    memcpy(&b, &bits, sizeof b);
    return b;
}

/* A caller who chooses the text can choose its number: the kernel of another text is not taken. */
static void one_number_is_not_one_kernel(struct harness *h)
{
    double a = 3, b = twin_of(a);
    char text[2][96];
    struct problem q;

    while (!(b > 1e-30 && b < 1e30) && a < 1e5)
        b = twin_of(++a);
    snprintf(text[0], sizeof *text, "s * 2 + 1");
    snprintf(text[1], sizeof *text, "s * %.17g + %.17g", a, b);
    if (!problem_open(h, &q) || !CHECK(h, a < 1e5, "no other expression has the number"))
        return;
    for (int i = 0; i < 2; i++) {
        const gram_kernel_options o = expression_of(text[i], NULL, 0);
        float got[M * M], s = 0;
        CHECK(h,
              gram_kernel(q.g, &q.x, &q.y, &o, &q.out) == GRAM_OK &&
                  gram_context_synchronize(q.g) == GRAM_OK &&
                  device_download(got, q.out.data, sizeof got),
              "%s", gram_message(q.g));
        for (int k = 0; k < K; k++)
            s += (q.x_host[k] - q.y_host[k]) * (q.x_host[k] - q.y_host[k]);
        s = sqrtf(s) * (float)(i ? a : 2) + (float)(i ? b : 1);
        CHECK(h, fabsf(got[0] - s) <= 1e-5F * fabsf(s), "%s: %g, expected %g", text[i], got[0], s);
    }
    problem_close(&q);
}

/* Functions whose derivatives are of other functions. */
static void inverse_functions(struct harness *h)
{
    static const struct {
        const char *text;
        double (*f)(double);
    } rows[] = {
        {"asin(s / 100)", asin},
        {"acos(s / 100)", acos},
        {"atan(s / 100)", atan},
        { "erf(s / 100)",  erf},
    };
    struct problem q;

    if (!problem_open(h, &q))
        return;
    for (int i = 0; i < LENGTH(rows); i++) {
        const gram_kernel_options o = expression_of(rows[i].text, NULL, 0);
        float got[M * M];
        double s = 0;
        CHECK(h,
              gram_kernel(q.g, &q.x, &q.y, &o, &q.out) == GRAM_OK &&
                  gram_context_synchronize(q.g) == GRAM_OK &&
                  device_download(got, q.out.data, sizeof got),
              "%s", gram_message(q.g));
        for (int k = 0; k < K; k++)
            s += pow((double)q.x_host[k] - (double)q.y_host[k], 2);
        s = rows[i].f(sqrt(s) / 100);
        CHECK(h, fabs((double)got[0] - s) <= 1e-5 * fabs(s), "%s: %g, expected %g", rows[i].text,
              (double)got[0], s);
    }
    problem_close(&q);
}

static const struct test_function tests[] = {
    {           "inverse_functions",            inverse_functions},
    {                   "gradients",                    gradients},
    {                       "norms",                        norms},
    {"products_and_maxima_of_norms", products_and_maxima_of_norms},
    {                   "constants",                    constants},
    {"one_number_is_not_one_kernel", one_number_is_not_one_kernel},
};

int main(void)
{
    if (gram_best_device().type != GRAM_CUDA || !device_open(0)) {
        printf("no CUDA device: skipped\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
