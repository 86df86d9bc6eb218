/*
 * device.c - the device on which a command computes, and the matrices on it
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "number.h"
#include <math.h>
#include <string.h>

const struct option_row device_options[] = {
    TEXT("device", 0, "DEVICE", offsetof(struct common_settings, device), "cpu",
         "the device: cpu; cuda or cuda:N, an NVIDIA GPU; auto, a GPU if one can be used"),
    OPTION_END,
};

enum exit_status device_choose(const char *text, gram_device *out, struct failure *why)
{
    double index = 0;
    const char *end;

    *out = (gram_device){GRAM_CPU, 0};
    if (!text || strcmp(text, "cpu") == 0)
        return CLI_OK;
    if (strcmp(text, "auto") == 0) {
        *out = gram_best_device();
        return CLI_OK;
    }
    end = strncmp(text, "cuda:", 5) == 0 ? number_parse(text + 5, &index) : text + 4;
    if (strncmp(text, "cuda", 4) != 0 || !end || *end || !(index >= 0 && index <= 4095) ||
        index != floor(index))
        return fail(why, CLI_USAGE, "--device is \"%s\", expected auto, cpu, cuda or cuda:N", text);
    *out = (gram_device){GRAM_CUDA, (int32_t)index};
    return CLI_OK;
}

static int64_t element_count(const gram_tensor *t)
{
    int64_t count = 1;

    for (int d = 0; d < t->ndim; d++)
        count *= t->shape[d];
    return count;
}

static enum exit_status allocate(gram_context *g, const gram_tensor *like,
                                 struct device_matrix *out, struct failure *why)
{
    gram_status status;

    *out = (struct device_matrix){.t = *like};
    out->bytes = (size_t)element_count(like) * gram_dtype_size(like->dtype);
    out->t.device = gram_context_device(g);
    status = gram_memory_allocate(g, out->bytes, &out->memory);
    out->t.data = out->memory;
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

enum exit_status device_matrix_allocate(gram_context *g, gram_dtype dtype, int ndim,
                                        const int64_t *shape, struct device_matrix *out,
                                        struct failure *why)
{
    gram_tensor like = {.dtype = dtype, .ndim = ndim};
    int64_t stride = 1;

    for (int d = ndim - 1; d >= 0; d--) {
        like.shape[d] = shape[d];
        like.stride[d] = stride;
        stride *= shape[d] > 1 ? shape[d] : 1;
    }
    return allocate(g, &like, out, why);
}

enum exit_status device_matrix_result(gram_context *g, const struct matrix *m,
                                      struct device_matrix *out, struct failure *why)
{
    *out = (struct device_matrix){.t = m->t};
    return gram_context_device(g).type == GRAM_CPU ? CLI_OK : allocate(g, &m->t, out, why);
}

enum exit_status device_matrix_send(gram_context *g, const struct matrix *m,
                                    struct device_matrix *out, struct failure *why)
{
    gram_status status;

    TRY(device_matrix_result(g, m, out, why));
    if (!out->memory)
        return CLI_OK;
    status = gram_memory_copy(g, out->memory, m->t.data, out->bytes);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

enum exit_status device_matrix_fetch(gram_context *g, const struct device_matrix *from,
                                     struct matrix *to, struct failure *why)
{
    gram_status status = GRAM_OK;

    if (from->memory)
        status = gram_memory_copy(g, to->t.data, from->memory, from->bytes);
    if (status == GRAM_OK)
        status = gram_context_synchronize(g);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

void device_matrix_free(gram_context *g, struct device_matrix *m)
{
    gram_memory_free(g, m->memory, m->bytes);
    m->memory = NULL;
}
