/*
 * krr_hash.c - what a checkpoint knows a solve and its own contents by
 *
 * A hash of 64 bits for each thing that gram_krr_solve was given: points, y, weights, kernel and
 * centres, wherever they lie, as the context computes with them; and one for each text and array of
 * a file, whose sum is its checksum.  They find what is another one or damaged, not what somebody
 * has forged.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_solve.h"
#include <string.h>

enum {
    CHUNK = 1 << 20 /* bytes that pass through the host at a time */
};

static const uint64_t seed = UINT64_C(0x67b1a5c9e03d2f47);

/* Different words give different hashes, whatever came before. */
static uint64_t add_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 32);
}

uint64_t gram_krr_hash(uint64_t hash, const void *data, size_t bytes)
{
    const char *from = data;
    uint64_t word;

    hash = add_word(hash, bytes);
    for (; bytes >= sizeof word; bytes -= sizeof word, from += sizeof word) {
        memcpy(&word, from, sizeof word);
        hash = add_word(hash, word);
    }
    word = 0;
    if (bytes > 0)
        memcpy(&word, from, bytes);
    return add_word(hash, word);
}

uint64_t gram_krr_hash_begin(const struct krr_problem *p)
{
    return add_word(add_word(add_word(seed, (uint64_t)p->dtype), (uint64_t)p->n),
                    (uint64_t)p->width);
}

static uint64_t add_text(uint64_t hash, const char *text)
{
    return gram_krr_hash(hash, text ? text : "", text ? strlen(text) + 1 : 0);
}

static uint64_t add_number(uint64_t hash, double number)
{
    return gram_krr_hash(hash, &number, sizeof number);
}

/* Rows of some bytes, where the context computes. */
static gram_status add_rows(gram_context *g, uint64_t *hash, const void *data, int64_t rows,
                            size_t bytes)
{
    const int64_t step = bytes > 0 ? gram_most((int64_t)(CHUNK / bytes), 1) : 1;
    const size_t room = (size_t)step * (bytes ? bytes : 1);
    char *here = gram_alloc(g, room);
    gram_status status = GRAM_OK;

    if (!here)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", room);
    for (int64_t i = 0; i < rows && status == GRAM_OK; i += step) {
        const int64_t count = gram_least(step, rows - i);

        status =
            gram_krr_fetch(g, here, (const char *)data + (size_t)i * bytes, (size_t)count * bytes);
        for (int64_t k = 0; k < count && status == GRAM_OK; k++)
            *hash = gram_krr_hash(*hash, here + (size_t)k * bytes, bytes);
    }
    gram_free(g, here, room);
    return status;
}

static gram_status add_tensor(gram_context *g, uint64_t *hash, const char *name,
                              const gram_tensor *t)
{
    struct krr_array packed = {0};
    struct gram_view v;
    gram_status status;
    size_t bytes;

    *hash = add_word(*hash, t ? (uint64_t)t->dtype : 0);
    if (!t)
        return GRAM_OK;
    TRY(gram_krr_view(g, name, t, GRAM_READ, &v));
    bytes = (size_t)(v.rows * v.cols) * gram_dtype_size(v.dtype);
    TRY(gram_krr_allocate(g, bytes, &packed));
    status = gram_krr_pack(g, &v, true, packed.data);
    if (status == GRAM_OK)
        status = add_rows(g, hash, packed.data, 1, bytes);
    gram_krr_free(g, &packed);
    return status;
}

gram_status gram_krr_scalar(gram_context *g, const gram_scalar *s, double *out)
{
    const gram_tensor *t = s->tensor;
    char bytes[16] = {0};
    size_t size;

    *out = s->value;
    if (!t || !t->data)
        return GRAM_OK;
    size = gram_dtype_size(t->dtype);
    if (t->device.type == GRAM_CPU)
        memcpy(bytes, t->data, size);
    else
        TRY(gram_krr_fetch(g, bytes, t->data, size));
    memcpy(out, bytes, sizeof *out);
    if (t->dtype == GRAM_F32)
        *out = krr_element(GRAM_F32, bytes, 0);
    return GRAM_OK;
}

static gram_status add_scalar(gram_context *g, uint64_t *hash, const gram_scalar *s)
{
    const gram_tensor *t = s->tensor;
    double value;

    for (int i = 0; t && t->data && i < t->ndim; i++)
        if (t->shape[i] == 0)
            return GRAM_OK;
    TRY(gram_krr_scalar(g, s, &value));
    *hash = add_number(*hash, value);
    return GRAM_OK;
}

static gram_status hash_kernel(gram_context *g, const gram_kernel_options *k, uint64_t *hash)
{
    const gram_scalar *const numbers[] = {&k->p,     &k->outer_power, &k->bandwidth, &k->exponent,
                                          &k->alpha, &k->gamma,       &k->coef0,     &k->degree};

    *hash = add_word(add_word(add_word(seed, (uint64_t)k->inner), (uint64_t)k->function),
                     (uint64_t)k->root);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        TRY(add_scalar(g, hash, numbers[i]));
    *hash = add_text(*hash, k->function == GRAM_EXPRESSION ? k->expression : NULL);
    for (int64_t i = 0; k->function == GRAM_EXPRESSION && i < k->parameter_count; i++) {
        *hash = add_text(*hash, k->parameters[i].name);
        TRY(add_scalar(g, hash, &k->parameters[i].value));
    }
    TRY(add_tensor(g, hash, "kernel.lengths", k->lengths));
    if (!k->metric)
        return GRAM_OK;
    *hash = add_word(*hash, (uint64_t)k->metric->kind);
    TRY(add_scalar(g, hash, &k->metric->p));
    return add_tensor(g, hash, "kernel.metric->weights", k->metric->weights);
}

gram_status gram_krr_identify(gram_context *g, struct krr_problem *p)
{
    struct krr_checkpoint *c = &p->keep;
    const size_t size = gram_dtype_size(p->dtype);

    if (!p->rows.read) { /* else the scan has made it */
        c->x = gram_krr_hash_begin(p);
        TRY(add_rows(g, &c->x, p->x.data, p->n, (size_t)p->width * size));
    }
    c->y = gram_krr_hash(add_word(seed, (uint64_t)p->columns), p->y,
                         (size_t)(p->n * p->columns) * sizeof *p->y);
    c->weights = gram_krr_hash(seed, p->ridge, (size_t)p->n * sizeof *p->ridge);
    c->centres = add_word(seed, (uint64_t)p->unknowns);
    if (p->options.method == GRAM_KRR_CENTRES)
        TRY(add_rows(g, &c->centres, p->centres.data, p->unknowns, (size_t)p->width * size));
    TRY(hash_kernel(g, &p->kernel, &c->kernel));
    g->call = p->call;
    return GRAM_OK;
}

uint64_t gram_krr_hash_of_text(const char *key, const char *text)
{
    return add_text(add_text(seed, key), text);
}

uint64_t gram_krr_hash_of_array(const struct gram_model_array *a)
{
    uint64_t hash =
        add_word(add_word(add_text(seed, a->name), (uint64_t)a->type), (uint64_t)a->ndim);
    size_t bytes = a->type == GRAM_MODEL_BYTES ? 1 : gram_dtype_size((gram_dtype)a->type);

    for (int i = 0; i < a->ndim; i++) {
        hash = add_word(hash, (uint64_t)a->shape[i]);
        bytes *= (size_t)a->shape[i];
    }
    return gram_krr_hash(hash, a->data, bytes);
}
