/*
 * soap_run.c - an optimizer of one parameter in the hands of a test
 *
 * SPDX-License-Identifier: MIT
 */
#include "soap_run.h"
#include <string.h>

bool soap_run_begin(struct harness *h, struct soap_run *r, const gram_optimizer_options *options,
                    gram_dtype dtype, int ndim, const int64_t *shape)
{
    const gram_tensor *parameters[] = {&r->parameter};

    *r = (struct soap_run){.h = h, .count = 1, .report = {.size = sizeof r->report}};
    r->parameter = (gram_tensor){.data = r->weights, .dtype = dtype, .ndim = ndim};
    for (int i = ndim - 1; i >= 0; i--) {
        r->parameter.shape[i] = shape[i];
        r->parameter.stride[i] = r->count;
        r->count *= shape[i];
    }
    r->gradient = r->direction = r->parameter;
    r->gradient.data = r->gradients;
    r->direction.data = r->directions;
    for (int64_t i = 0; i < r->count; i++)
        test_put(&r->parameter, i, 2 * test_uniform(h) - 1);
    return CHECK(h, gram_optimizer_create(h->g, options, parameters, 1, &r->optimizer) == GRAM_OK,
                 "%s", gram_message(h->g));
}

void soap_run_end(struct soap_run *r)
{
    gram_optimizer_destroy(r->optimizer);
}

void soap_run_draw(struct soap_run *r)
{
    int64_t rest = r->parameter.ndim > 0 ? r->count / r->parameter.shape[0] : 1;

    for (int64_t i = 0; i < r->count; i++) {
        int64_t scale = 2 + i / rest;
        test_put(&r->gradient, i, (test_uniform(r->h) - 0.5) * (double)scale);
    }
}

gram_status soap_run_step(struct soap_run *r)
{
    const gram_tensor *parameters[] = {&r->parameter}, *gradients[] = {&r->gradient};
    gram_tensor *directions[] = {&r->direction};

    return gram_optimizer_direction(r->h->g, r->optimizer, parameters, gradients, directions,
                                    &r->report);
}

gram_tensor soap_run_state(const struct soap_run *r, const char *name)
{
    gram_optimizer_info info = {.size = sizeof info};
    gram_tensor none = {0};

    if (gram_optimizer_get(r->h->g, r->optimizer, NULL, &info) != GRAM_OK)
        return none;
    for (int64_t i = 0; i < info.states; i++) {
        const char *found;
        gram_tensor view;
        if (gram_optimizer_state_at(r->h->g, r->optimizer, i, &found, &view) == GRAM_OK &&
            strcmp(found, name) == 0)
            return view;
    }
    return none;
}

uint64_t soap_run_hash(const struct soap_run *r)
{
    gram_optimizer_info info = {.size = sizeof info};
    uint64_t hash = 0xCBF29CE484222325u;

    if (gram_optimizer_get(r->h->g, r->optimizer, NULL, &info) != GRAM_OK)
        return 0;
    for (int64_t i = 0; i < info.states; i++) {
        const char *name;
        gram_tensor view;
        size_t bytes;
        if (gram_optimizer_state_at(r->h->g, r->optimizer, i, &name, &view) != GRAM_OK)
            return 0;
        bytes = (size_t)test_count(&view) * gram_dtype_size(view.dtype);
        for (size_t j = 0; j < bytes; j++)
            hash = (hash ^ ((const unsigned char *)view.data)[j]) * 0x100000001B3u;
    }
    return hash;
}
