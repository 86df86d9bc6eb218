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
#include "model_file.h"
#include <string.h>

#define FORMAT "gram.kfac.1"

static int64_t count_of(const gram_tensor *t)
{
    int64_t count = 1;

    for (int i = 0; i < t->ndim; i++)
        count *= t->shape[i];
    return count;
}

gram_status gram_kfac_save(gram_context *g, const gram_kfac *kfac, const char *path)
{
    struct gram_model_writer *w;
    gram_status status;

    g->call = __func__;
    if (!path)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "path is NULL");
    w = gram_model_writer_create();
    gram_model_put_text(w, "format", FORMAT);
    gram_model_put_text(w, "version", gram_version());
    for (int64_t i = 0; i < kfac->states; i++) {
        const gram_tensor *t = &kfac->state[i].view;
        gram_model_put(w, kfac->state[i].name, (int)t->dtype, t->ndim, t->shape, t->data);
    }
    status = gram_model_commit(g, w, path);
    gram_model_writer_destroy(w);
    return status;
}

/* Counts that no object could have. */
static bool counts_hold(const int64_t *counts)
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
        if (t->dtype == GRAM_I64 ? !counts_hold(a->data) : !gram_kfac_finite(count_of(t), a->data))
            return gram_model_bad(g, file, "%s makes no sense", a->name);
    }
    return GRAM_OK;
}

gram_status gram_kfac_load(gram_context *g, gram_kfac *kfac, const char *path)
{
    struct gram_model_file *file;
    gram_status status;

    g->call = __func__;
    if (!path)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "path is NULL");
    TRY(gram_model_read(g, path, &file));
    status = check(g, kfac, file);
    for (int64_t i = 0; status == GRAM_OK && i < kfac->states; i++) {
        const gram_tensor *t = &kfac->state[i].view;
        memcpy(t->data, gram_model_find(file, kfac->state[i].name)->data,
               (size_t)count_of(t) * gram_dtype_size(t->dtype));
    }
    gram_model_file_destroy(file);
    return status;
}
