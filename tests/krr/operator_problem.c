/*
 * operator_problem.c - dense matrices with chosen eigenvalues as operators
 *
 * SPDX-License-Identifier: MIT
 */
#include "operator_problem.h"
#include "check/harness/device_memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 8
};

static double eigenvalue(enum spectrum kind, int64_t i, int64_t n)
{
    double part = n > 1 ? (double)i / (double)(n - 1) : 0;

    switch (kind) {
    case WELL:
        return 1 + 9 * part;
    case ILL:
        return pow(10, -4 * part);
    case CLUSTERED:
        return i % 3 == 0 ? 1 : i % 3 == 1 ? 5 : 100;
    case INDEFINITE:
        return i == n / 2 ? -0.5 : 1 + part;
    case SINGULAR:
        break;
    }
    return i == 0 ? 0 : 1 + part;
}

static void read_block(const struct operator_problem *p, const gram_tensor *t, double *to)
{
    int64_t count = p->n * t->shape[1];
    const void *from = t->data;

    if (t->device.type != GRAM_CPU) {
        if (!device_download(p->raw, t->data, (size_t)count * gram_dtype_size(p->dtype)))
            abort();
        from = p->raw;
    }
    for (int64_t i = 0; i < count; i++)
        to[i] = p->dtype == GRAM_F32 ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

static void write_block(const struct operator_problem *p, const double *from, gram_tensor *t)
{
    int64_t count = p->n * t->shape[1];
    void *to = t->device.type == GRAM_CPU ? t->data : p->raw;

    for (int64_t i = 0; i < count; i++) {
        if (p->dtype == GRAM_F32)
            ((float *)to)[i] = (float)from[i];
        else
            ((double *)to)[i] = from[i];
    }
    if (t->device.type != GRAM_CPU &&
        !device_upload(t->data, p->raw, (size_t)count * gram_dtype_size(p->dtype)))
        abort();
}

static gram_status apply_dense(void *user, const gram_tensor *in, gram_tensor *out)
{
    struct operator_problem *p = user;
    int64_t n = p->n, b = in->shape[1];

    p->calls++;
    p->by_rows = p->by_rows && in->stride[0] == b && in->stride[1] == 1 && b >= 1 && b <= BLOCK &&
                 in->shape[0] == n && out->shape[0] == n && out->shape[1] == b &&
                 in->dtype == p->dtype && out->dtype == p->dtype;
    if (p->calls == p->cancel_at)
        gram_context_cancel(p->cancelled);
    if (p->calls == p->fail_at)
        return GRAM_IO;
    read_block(p, in, p->in);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < b; j++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += p->a[i * n + k] * p->in[k * b + j];
            p->out[i * b + j] = sum;
        }
    if (p->calls == p->nan_at)
        p->out[0] = NAN;
    write_block(p, p->out, out);
    return GRAM_OK;
}

/* H D^-1 H in. */
static gram_status apply_inverse(void *user, const gram_tensor *in, gram_tensor *out)
{
    struct operator_problem *p = user;
    int64_t n = p->n, b = in->shape[1];

    read_block(p, in, p->in);
    for (int64_t j = 0; j < b; j++)
        for (int side = 0; side < 2; side++) {
            double dot = 0;
            for (int64_t i = 0; i < n; i++)
                dot += p->reflector[i] * p->in[i * b + j];
            for (int64_t i = 0; i < n; i++) {
                p->in[i * b + j] -= 2 * dot * p->reflector[i];
                if (side == 0)
                    p->in[i * b + j] /= p->eigenvalues[i];
            }
        }
    write_block(p, p->in, out);
    return GRAM_OK;
}

static gram_status apply_scaled(struct operator_problem *p, const gram_tensor *in, gram_tensor *out,
                                bool jacobi)
{
    int64_t b = in->shape[1];

    read_block(p, in, p->in);
    for (int64_t i = 0; i < p->n * b; i++)
        p->in[i] = jacobi ? p->in[i] / p->a[i / b * (p->n + 1)] : -p->in[i];
    write_block(p, p->in, out);
    return GRAM_OK;
}

static gram_status apply_jacobi(void *user, const gram_tensor *in, gram_tensor *out)
{
    return apply_scaled(user, in, out, true);
}

static gram_status apply_negative(void *user, const gram_tensor *in, gram_tensor *out)
{
    return apply_scaled(user, in, out, false);
}

void operator_problem_eigenvector(const struct operator_problem *p, int64_t which, double *out)
{
    for (int64_t i = 0; i < p->n; i++)
        out[i] = (i == which) - 2 * p->reflector[i] * p->reflector[which];
}

static void fill_matrix(struct operator_problem *p, enum spectrum kind)
{
    int64_t n = p->n;
    double norm = 0, *u = p->reflector;

    for (int64_t i = 0; i < n; i++) {
        p->eigenvalues[i] = eigenvalue(kind, i, n);
        u[i] = 1 + sin(1.7 * (double)(i * i + 1));
        norm += u[i] * u[i];
    }
    for (int64_t i = 0; i < n; i++)
        u[i] /= sqrt(norm);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum +=
                    ((i == k) - 2 * u[i] * u[k]) * p->eigenvalues[k] * ((j == k) - 2 * u[j] * u[k]);
            p->a[i * n + j] = p->dtype == GRAM_F32 ? (double)(float)sum : sum;
        }
}

struct operator_problem *operator_problem_create(int64_t n, gram_dtype dtype, enum spectrum kind)
{
    struct operator_problem *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->n = n, p->dtype = dtype, p->by_rows = true;
    p->a = calloc((size_t)(n * n + 1), sizeof(double));
    p->eigenvalues = calloc((size_t)(n + 1), sizeof(double));
    p->reflector = calloc((size_t)(n + 1), sizeof(double));
    p->in = calloc((size_t)(n + 1) * BLOCK, sizeof(double));
    p->out = calloc((size_t)(n + 1) * BLOCK, sizeof(double));
    p->raw = calloc((size_t)(n + 1) * BLOCK, sizeof(double));
    if (!p->a || !p->eigenvalues || !p->reflector || !p->in || !p->out || !p->raw) {
        operator_problem_destroy(p);
        return NULL;
    }
    fill_matrix(p, kind);
    p->apply = (gram_operator){n, dtype, apply_dense, p};
    p->jacobi = (gram_operator){n, dtype, apply_jacobi, p};
    p->inverse = (gram_operator){n, dtype, apply_inverse, p};
    p->negative = (gram_operator){n, dtype, apply_negative, p};
    return p;
}

void operator_problem_destroy(struct operator_problem *p)
{
    if (!p)
        return;
    free(p->a);
    free(p->eigenvalues);
    free(p->reflector);
    free(p->in);
    free(p->out);
    free(p->raw);
    free(p);
}

void operator_problem_multiply(const struct operator_problem *p, const double *x, double *out)
{
    for (int64_t i = 0; i < p->n; i++) {
        out[i] = 0;
        for (int64_t k = 0; k < p->n; k++)
            out[i] += p->a[i * p->n + k] * x[k];
    }
}

double operator_problem_logdet(const struct operator_problem *p)
{
    int64_t n = p->n;
    double logdet = 0, *l = malloc((size_t)(n * n + 1) * sizeof *l);

    if (!l)
        abort();
    memcpy(l, p->a, (size_t)(n * n) * sizeof *l);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j; i < n; i++) {
            for (int64_t k = 0; k < j; k++)
                l[i * n + j] -= l[i * n + k] * l[j * n + k];
            l[i * n + j] /= i == j ? 1 : l[j * n + j];
            if (i == j)
                l[j * n + j] = sqrt(l[j * n + j]);
        }
        logdet += 2 * log(l[j * n + j]);
    }
    free(l);
    return logdet;
}
