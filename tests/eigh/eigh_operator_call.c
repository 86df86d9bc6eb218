/*
 * eigh_operator_call.c - a call of gram_eigh_operator or gram_eigh_kernel, on the harness's device
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_operator_call.h"
#include "check/harness/device_memory.h"
#include "eigh_there.h"
#include <math.h>
#include <stdlib.h>

double operator_entry(int64_t i)
{
    return i < 3 ? 10 - (double)i : sin((double)i);
}

static void multiply(const struct diagonal *a, int64_t b, const double *in, double *out)
{
    for (int64_t i = 0; i < N * b; i++)
        out[i] = operator_entry(i / b) * in[i];
    if (a->calls == a->nan_at)
        out[N / 2] = NAN;
}

static gram_status apply(void *user, const gram_tensor *in, gram_tensor *out)
{
    struct diagonal *a = user;
    int64_t b = in->shape[1];

    a->calls++;
    a->by_rows = a->by_rows && in->stride[0] == b && in->stride[1] == 1 && b <= 8 &&
                 out->shape[0] == N && out->shape[1] == b && in->dtype == GRAM_F64;
    if (a->calls == a->cancel_at)
        gram_context_cancel(a->cancelled);
    if (a->calls == a->fail_at)
        return GRAM_IO;
    if (in->device.type == GRAM_CPU) {
        multiply(a, b, in->data, out->data);
        return GRAM_OK;
    }
    if (!device_download(a->x, in->data, (size_t)(N * b) * sizeof *a->x))
        return GRAM_DEVICE_FAILED;
    multiply(a, b, a->x, a->y);
    return device_upload(out->data, a->y, (size_t)(N * b) * sizeof *a->y) ? GRAM_OK
                                                                          : GRAM_DEVICE_FAILED;
}

struct operator_call *operator_call_open(struct harness *h)
{
    struct operator_call *c = calloc(1, sizeof *c);

    if (!c)
        abort();
    c->diagonal = (struct diagonal){.cancelled = h->g, .by_rows = true};
    c->a = (gram_operator){N, GRAM_F64, apply, &c->diagonal};
    c->values = gram_vector(c->w, K, GRAM_F64);
    c->vectors = gram_matrix(c->v, N, K, GRAM_F64);
    c->info = gram_vector(&c->outcome, 1, GRAM_I32);
    c->info.ndim = 0;
    c->with_info = &c->info;
    c->options = (gram_eigh_options)GRAM_EIGH_OPTIONS_INIT;
    c->options.select = GRAM_EIGH_LARGEST;
    c->options.count = K;
    c->options.report = &c->report;
    c->report.size = sizeof c->report;
    c->points = gram_matrix(c->x, N, D, GRAM_F64);
    for (int i = 0; i < N * D; i++)
        c->x[i] = sin(0.37 * i * i);
    c->kernel = gram_lpq_laplace(1, 1, 1);
    return c;
}

static gram_status by_products(gram_context *g, const struct eigh_there *there)
{
    const struct operator_call *c = there->user;

    return gram_eigh_operator(g, &c->a, &c->options, there->values, there->vectors, there->info);
}

gram_status operator_call_run(struct harness *h, struct operator_call *c)
{
    return eigh_there_run(
        h->g, &(struct eigh_there){NULL, &c->values, &c->vectors, c->with_info, c}, by_products);
}

static gram_status of_kernel(gram_context *g, const struct eigh_there *there)
{
    const struct operator_call *c = there->user;

    return gram_eigh_kernel(g, there->what, &c->kernel, &c->options, there->values, there->vectors,
                            there->info);
}

gram_status operator_call_kernel(struct harness *h, struct operator_call *c)
{
    return eigh_there_run(
        h->g, &(struct eigh_there){&c->points, &c->values, &c->vectors, c->with_info, c},
        of_kernel);
}
