/*
 * kfac_file.c - the state of gram_kfac to a file and back
 *
 * Texts: "format" (gram.kfac.1), "version".  Arrays: the parts that gram_kfac_state_at names.  A
 * file is believed only after everything in it was checked: the names, dtypes and shapes are those
 * of the object, its numbers are finite and its counts make sense.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac.h"
#include "machine/model_file.h"
#include <string.h>

#define FORMAT "gram.kfac.1"

static int64_t count_of(const gram_tensor *t)
{
    int64_t count = 1;

    for (int i = 0; i < t->ndim; i++)
        count *= t->shape[i];
    return count;
}

/* *image becomes the object's memory, or a copy of it where that is on a device. */
static gram_status open_image(gram_context *g, const gram_kfac *k, char **image)
{
    gram_status status;

    *image = (char *)k->gradients;
    if (!k->owner)
        return GRAM_OK;
    *image = gram_alloc(g, k->bytes);
    if (!*image)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", k->bytes);
    status = g->backend->memory_copy(g, *image, k->gradients, k->bytes);
    if (status == GRAM_OK)
        status = g->backend->synchronize(g);
    if (status != GRAM_OK)
        gram_free(g, *image, k->bytes);
    return status;
}

static void close_image(gram_context *g, const gram_kfac *k, char *image)
{
    if (k->owner)
        gram_free(g, image, k->bytes);
}

/* Where a part of the state lies in the image. */
static void *part_of(const gram_kfac *k, char *image, const gram_tensor *t)
{
    return k->owner ? image + ((char *)t->data - (char *)k->gradients) : t->data;
}

gram_status gram_kfac_save(gram_context *g, const gram_kfac *kfac, const char *path)
{
    struct gram_model_writer *w;
    gram_status status;
    char *image;

    TRY(gram_begin(g, __func__));
    if (!path)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "path is NULL");
    TRY(gram_kfac_check_context(g, kfac));
    TRY(open_image(g, kfac, &image));
    w = gram_model_writer_create();
    gram_model_put_text(w, "format", FORMAT);
    gram_model_put_text(w, "version", gram_version());
    for (int64_t i = 0; i < kfac->states; i++) {
        const gram_tensor *t = &kfac->state[i].view;
        gram_model_put(w, kfac->state[i].name, (int)t->dtype, t->ndim, t->shape,
                       part_of(kfac, image, t));
    }
    status = gram_model_commit(g, w, path);
    gram_model_writer_destroy(w);
    close_image(g, kfac, image);
    return status;
}

bool gram_kfac_counts_hold(const int64_t *counts)
{
    bool ready = counts[KFAC_READY] == 1;

    for (int i = 0; i < KFAC_COUNTS; i++)
        if (counts[i] < 0 || counts[i] > (int64_t)1 << 62)
            return false;
    return counts[KFAC_READY] <= 1 &&
           (!ready || (counts[KFAC_A_UPDATES] > 0 && counts[KFAC_B_UPDATES] > 0));
}

static gram_status check(gram_context *g, const gram_kfac *k, const struct gram_model_file *file)
{
    const char *format = gram_model_text(file, "format");

    if (!format || strcmp(format, FORMAT) != 0)
        return gram_model_bad(g, file, "it is no state of gram_kfac");
    for (int64_t i = 0; i < k->states; i++) {
        const gram_tensor *t = &k->state[i].view;
        const struct gram_model_array *a;
        TRY(gram_model_need(g, file, k->state[i].name, (int)t->dtype, t->ndim, t->shape, &a));
        if (t->dtype == GRAM_I64 ? !gram_kfac_counts_hold(a->data)
                                 : !gram_kfac_finite(count_of(t), a->data, t->dtype, t->dtype))
            return gram_model_bad(g, file, "%s makes no sense", a->name);
    }
    return GRAM_OK;
}

static void take(gram_kfac *k, const struct gram_model_file *file, char *image)
{
    for (int64_t i = 0; i < k->states; i++) {
        const gram_tensor *t = &k->state[i].view;
        memcpy(part_of(k, image, t), gram_model_find(file, k->state[i].name)->data,
               (size_t)count_of(t) * gram_dtype_size(t->dtype));
    }
    for (int64_t i = 0; k->owner && i < k->count; i++)
        memcpy(k->layer[i].counts,
               image + ((char *)(k->layer_counts + i * KFAC_COUNTS) - (char *)k->gradients),
               sizeof k->layer[i].counts);
}

gram_status gram_kfac_load(gram_context *g, gram_kfac *kfac, const char *path)
{
    struct gram_model_file *file;
    gram_status status;
    char *image;

    TRY(gram_begin(g, __func__));
    if (!path)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "path is NULL");
    TRY(gram_kfac_check_context(g, kfac));
    TRY(gram_model_read(g, path, &file));
    status = check(g, kfac, file);
    if (status == GRAM_OK)
        status = open_image(g, kfac, &image);
    if (status == GRAM_OK) {
        take(kfac, file, image);
        if (kfac->owner)
            status = g->backend->memory_copy(g, kfac->gradients, image, kfac->bytes);
        if (kfac->owner && status == GRAM_OK)
            status = g->backend->synchronize(g);
        close_image(g, kfac, image);
    }
    gram_model_file_destroy(file);
    return status;
}
