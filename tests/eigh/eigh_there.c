/*
 * eigh_there.c - gram_eigh and its like on the context's device, of tensors in CPU memory
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_there.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    TENSORS = 4
};

static size_t bytes_of(const gram_tensor *t)
{
    return (size_t)test_count(t) * gram_dtype_size(t->dtype);
}

static bool send(gram_context *g, const gram_tensor *here, gram_tensor *there)
{
    *there = *here;
    there->device = gram_context_device(g);
    return gram_memory_allocate(g, bytes_of(here), &there->data) == GRAM_OK &&
           gram_memory_copy(g, there->data, here->data, bytes_of(here)) == GRAM_OK;
}

gram_status eigh_there_run(gram_context *g, const struct eigh_there *here, eigh_there_call *call)
{
    const gram_tensor *const from[TENSORS] = {here->what, here->values, here->vectors, here->info};
    gram_tensor there[TENSORS];
    gram_status status;
    bool moved = true;

    if (gram_context_device(g).type == GRAM_CPU)
        return call(g, here);
    for (int i = 0; i < TENSORS; i++)
        moved = (!from[i] || send(g, from[i], &there[i])) && moved;
    if (!moved) {
        fprintf(stderr, "%s\n", gram_message(g));
        abort();
    }
    status = call(g, &(struct eigh_there){
                         .what = from[0] ? &there[0] : NULL,
                         .values = &there[1],
                         .vectors = from[2] ? &there[2] : NULL,
                         .info = from[3] ? &there[3] : NULL,
                         .user = here->user,
                     });
    for (int i = 0; i < TENSORS; i++) {
        if (!from[i])
            continue;
        if (i > 0 &&
            gram_memory_copy(g, from[i]->data, there[i].data, bytes_of(from[i])) != GRAM_OK)
            abort();
        gram_memory_free(g, there[i].data, bytes_of(from[i]));
    }
    if (gram_context_synchronize(g) != GRAM_OK)
        abort();
    return status;
}

static gram_status stored(gram_context *g, const struct eigh_there *there)
{
    return gram_eigh(g, there->what, there->user, there->values, there->vectors, there->info);
}

gram_status eigh_there(gram_context *g, const gram_tensor *a, const gram_eigh_options *options,
                       gram_tensor *values, gram_tensor *vectors, gram_tensor *info)
{
    return eigh_there_run(g, &(struct eigh_there){a, values, vectors, info, (void *)options},
                          stored);
}

bool eigh_is_emulated(void)
{
    return getenv("GRAM_TEST_EMULATED") != NULL;
}
