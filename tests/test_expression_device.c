/*
 * test_expression_device.c - expressions on a CUDA device: gradients, and what only a device
 * refuses
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_memory.h"
#include "harness.h"
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
    gram_kernel_grads there = {NULL, NULL, NULL, NULL}, here = there;
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

static const struct test_function tests[] = {
    {"gradients", gradients},
    {"constants", constants},
};

int main(void)
{
    if (gram_best_device().type != GRAM_CUDA || !device_open(0)) {
        printf("no CUDA device: skipped\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
