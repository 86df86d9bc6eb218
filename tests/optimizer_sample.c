/*
 * optimizer_sample.c - a small list of parameters with gradients, for the tests of optimizers
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_sample.h"
#include <stdlib.h>
#include <string.h>

static double uniform(struct harness *h)
{
    return 2 * test_uniform(h) - 1;
}

static gram_tensor part(double *from, int i)
{
    switch (i) {
    case 0:
        return gram_matrix(from, 6, 5, GRAM_F64);
    case 1:
        return gram_vector(from + 30, 7, GRAM_F64);
    case 2:
        return (gram_tensor){.data = from + 37, .dtype = GRAM_F64};
    default:
        return gram_matrix(from, 0, 3, GRAM_F64);
    }
}

void sample_open(struct harness *h, struct sample *s)
{
    harness_seed(h, "sample", 0);
    for (int i = 0; i < SAMPLE_NUMBERS; i++)
        s->w[i] = uniform(h);
    for (int i = 0; i < SAMPLE; i++) {
        s->value[i] = part(s->w, i);
        s->grad[i] = part(s->g, i);
        s->dir[i] = part(s->p, i);
        s->values[i] = &s->value[i];
        s->gradients[i] = &s->grad[i];
        s->directions[i] = &s->dir[i];
    }
    sample_next(h, s);
}

void sample_call(struct harness *h, struct call *c)
{
    *c = (struct call){.options = GRAM_OPTIMIZER_OPTIONS_INIT};
    sample_open(h, &c->s);
    c->options.block = 4;
    c->options.epsilon = 1e-6;
}

void sample_send(struct harness *h, gram_context *g, const struct sample *s, void *memory)
{
    CHECK(h,
          gram_memory_copy(g, memory, s->w, sizeof s->w) == GRAM_OK &&
              gram_memory_copy(g, (char *)memory + sizeof s->w, s->g, sizeof s->g) == GRAM_OK &&
              gram_context_synchronize(g) == GRAM_OK,
          "%s", gram_message(g));
}

void sample_next(struct harness *h, struct sample *s)
{
    for (int i = 0; i < SAMPLE_NUMBERS; i++)
        s->g[i] = uniform(h);
}

gram_optimizer *sample_optimizer(struct harness *h, struct sample *s,
                                 const gram_optimizer_options *o)
{
    gram_optimizer *optimizer = NULL;
    gram_status status =
        gram_optimizer_create(h->g, o, (const gram_tensor *const *)s->values, SAMPLE, &optimizer);

    CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    if (status != GRAM_OK)
        exit(1);
    return optimizer;
}

gram_optimizer_report sample_step(struct harness *h, struct sample *s, gram_optimizer *o)
{
    gram_optimizer_report report = {.size = sizeof report};

    CHECK(h, gram_optimizer_step(h->g, o, s->values, s->gradients, &report) == GRAM_OK, "%s",
          gram_message(h->g));
    return report;
}

/* ---- State -------------------------------------------------------------------------------- */

static size_t tensor_bytes(const gram_tensor *t)
{
    return (size_t)test_count(t) * gram_dtype_size(t->dtype);
}

/* Copies all state to, or compares it with, memory; the number of bytes. */
static size_t each_state(struct harness *h, gram_optimizer *o, char *to, const char *with,
                         bool *same)
{
    gram_optimizer_info info = {.size = sizeof info};
    size_t at = 0;

    CHECK(h, gram_optimizer_get(h->g, o, NULL, &info) == GRAM_OK, "%s", gram_message(h->g));
    for (int64_t i = 0; i < info.states; i++) {
        const char *name;
        gram_tensor view;
        size_t bytes;
        CHECK(h, gram_optimizer_state_at(h->g, o, i, &name, &view) == GRAM_OK, "%s",
              gram_message(h->g));
        bytes = tensor_bytes(&view);
        if (to && bytes > 0)
            memcpy(to + at, view.data, bytes);
        if (with && bytes > 0)
            *same = *same && memcmp(with + at, view.data, bytes) == 0;
        at += bytes;
    }
    return at;
}

char *sample_state(struct harness *h, gram_optimizer *o)
{
    char *copy = malloc(each_state(h, o, NULL, NULL, NULL) + 1);

    if (!copy)
        exit(1);
    each_state(h, o, copy, NULL, NULL);
    return copy;
}

bool sample_same_state(struct harness *h, gram_optimizer *o, const char *copy)
{
    bool same = true;

    each_state(h, o, NULL, copy, &same);
    return same;
}
