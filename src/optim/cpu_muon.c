/*
 * cpu_muon.c - Muon on the CPU: the direction of a matrix is its orthogonalised momentum
 *
 * gram.h has the formula, of matrices and of the tensors that are none.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_muon.h"
#include "core/blas.h"
#include "cpu_muon_bf16.h"
#include "cpu_soap.h"
#include <limits.h>
#include <math.h>
#include <string.h>

static struct muon_matrix matrix_of(const gram_optimizer *o, const struct gram_optimizer_block *b,
                                    gram_dtype work)
{
    return (struct muon_matrix){.dtype = work,
                                .rows = b->size[0],
                                .cols = b->size[1],
                                .steps = o->options.steps,
                                .least = o->options.epsilon};
}

/* Where a moment that is not of the dtype of the arithmetic is loaded. */
static size_t loaded_bytes(const struct gram_optimizer_slot *slot, gram_dtype work)
{
    bool loaded = slot->dtype && slot->dtype != work;

    return loaded ? gram_round64((size_t)slot->count * gram_dtype_size(work)) : 0;
}

/* Whether a matrix may be multiplied in bf16, on a processor that does. */
static bool is_rough(const gram_optimizer *o, gram_dtype work)
{
    return work == GRAM_F32 && o->options.precision == GRAM_POWER_PRECISION_AUTO;
}

static size_t unit_bytes(const gram_optimizer *o, const struct gram_optimizer_block *b)
{
    gram_dtype work = o->parameter[b->parameter].work;
    struct muon_matrix m = matrix_of(o, b, work);
    size_t moments = loaded_bytes(&b->moment, work) + loaded_bytes(&b->second, work);

    if (b->order != 2)
        return moments;
    if (is_rough(o, work))
        moments = gram_most_bytes(moments, cpu_muon_bf16_bytes(&m));
    return gram_most_bytes(moments, cpu_muon_bytes(&m));
}

static void orthogonal_direction(struct cpu_optimizer_unit *u)
{
    const gram_optimizer_options *o = &u->o->options;
    const struct gram_optimizer_block *b = u->b;
    struct muon_matrix matrix = matrix_of(u->o, b, u->work);
    void *x;

    if (b->moment.dtype) {
        void *m = cpu_soap_open(u->o, &b->moment, u->work, u->own);
        u->math->momentum(b->count, o->momentum, 1 - o->dampening, o->nesterov != 0, m, u->g);
        cpu_soap_close(u->o, &b->moment, u->work, m);
    }
    x = u->g;
    if (is_rough(u->o, u->work) && cpu_muon_bf16_runs(u->context))
        cpu_muon_bf16(u->context, u->alone, &matrix, x, u->own);
    else
        x = cpu_muon_orthogonalise(&matrix, u->g, u->spare[0], u->own);
    u->math->scale(b->count, sqrt(fmax(1, (double)matrix.rows / (double)matrix.cols)), x);
    if (x != u->g)
        memcpy(u->g, x, (size_t)b->count * gram_dtype_size(u->work));
}

static void adam_direction(struct cpu_optimizer_unit *u)
{
    const gram_optimizer_options *o = &u->o->options;
    const struct gram_optimizer_block *b = u->b;
    void *m = cpu_soap_open(u->o, &b->moment, u->work, u->own);
    void *v = cpu_soap_open(u->o, &b->second, u->work, u->own + loaded_bytes(&b->moment, u->work));
    double t = (double)u->t, first = 1, second = 1;

    if (o->bias_correction) {
        first = 1 - pow(o->beta1, t);
        second = 1 - pow(o->beta2, t);
    }
    u->math->second(b->count, o->beta2, 1 - o->beta2, u->g, v);
    u->math->filter(b->count, (double[]){o->beta1, o->beta1}, 1, m, u->g);
    u->math->adapt(b->count, 1 / second, o->epsilon, u->g, v, u->g);
    u->math->scale(b->count, 1 / first, u->g);
    cpu_soap_close(u->o, &b->moment, u->work, m);
    cpu_soap_close(u->o, &b->second, u->work, v);
}

static void direction(struct cpu_optimizer_unit *u)
{
    if (u->b->order == 2)
        orthogonal_direction(u);
    else
        adam_direction(u);
}

static gram_status check_sides(gram_context *g, const gram_optimizer *o, size_t *bytes)
{
    *bytes = 0;
    for (int64_t i = 0; i < o->blocks; i++)
        if (o->block[i].order == 2 && !gram_blas_fits(o->block[i].size[0], o->block[i].size[1], 0))
            return gram_fail(g, GRAM_UNSUPPORTED,
                             "parameters[%lld] is a matrix of %lld by %lld, BLAS takes sides of at "
                             "most %d",
                             (long long)o->block[i].parameter, (long long)o->block[i].size[0],
                             (long long)o->block[i].size[1], INT_MAX);
    return GRAM_OK;
}

const struct cpu_optimizer_method cpu_muon = {
    .unit_bytes = unit_bytes,
    .refresh_bytes = check_sides,
    .direction = direction,
};
