/*
 * optimizer_file.c - the state of an optimizer to a safetensors file and back
 *
 * Texts: "format" (gram.optimizer.1), "version", "method", "rank" (as "0 of 1").  Arrays: "shapes"
 * (of each parameter the number of dimensions, then the sizes), and the state by its names; arrays
 * of more dimensions than a model file knows have the first ones joined.  A file is believed only
 * after everything in it was checked, then all of it is copied.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/model_file.h"
#include "optimizer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FORMAT "gram.optimizer.1"

enum {
    RANK_BYTES = 48
};

static const int64_t most_steps = INT64_C(1) << 53; /* of a file: none comes near the overflow */

static void describe_rank(const gram_optimizer *o, char text[RANK_BYTES])
{
    (void)snprintf(text, RANK_BYTES, "%lld of %lld", (long long)o->options.rank,
                   (long long)o->options.ranks);
}

/* A number as a vector of one; the first of more dimensions than there may be joined. */
static int file_shape(const gram_tensor *t, int64_t shape[GRAM_MODEL_DIMS])
{
    int joined = t->ndim > GRAM_MODEL_DIMS ? t->ndim - GRAM_MODEL_DIMS : 0;

    for (int i = 0; i < GRAM_MODEL_DIMS; i++)
        shape[i] = 1;
    for (int i = 0; i < t->ndim; i++)
        shape[i < joined ? 0 : i - joined] *= t->shape[i];
    return t->ndim == 0 ? 1 : t->ndim - joined;
}

/* ---- The state where the host can read it ---------------------------------------------------- */

/* The state itself; of a GPU memory of as many bytes, with read a copy. */
static gram_status open_image(gram_context *g, const gram_optimizer *o, bool read, char **image)
{
    gram_status status = GRAM_OK;

    *image = o->owner ? gram_alloc(g, o->state_bytes) : o->state;
    if (!*image)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", o->state_bytes);
    if (!o->owner)
        return GRAM_OK;
    memset(*image, 0, o->state_bytes);
    if (read)
        status = g->backend->memory_copy(g, *image, o->state, o->state_bytes);
    if (read && status == GRAM_OK)
        status = g->backend->synchronize(g);
    if (status != GRAM_OK)
        gram_free(g, *image, o->state_bytes);
    return status;
}

static void close_image(gram_context *g, const gram_optimizer *o, char *image)
{
    if (o->owner)
        gram_free(g, image, o->state_bytes);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static int64_t count_shapes(const gram_optimizer *o)
{
    int64_t count = o->parameters;

    for (int64_t i = 0; i < o->parameters; i++)
        count += o->parameter[i].ndim;
    return count;
}

/* Number index of the array "shapes", counted on from one parameter to the next. */
struct shape_reader {
    int64_t parameter;
    int dimension; /* -1: their number */
};

static int64_t next_shape(const gram_optimizer *o, struct shape_reader *r)
{
    const struct gram_optimizer_parameter *p = &o->parameter[r->parameter];
    int64_t value = r->dimension < 0 ? p->ndim : p->shape[r->dimension];

    if (++r->dimension == p->ndim) {
        r->parameter++;
        r->dimension = -1;
    }
    return value;
}

static gram_status put_shapes(gram_context *g, const gram_optimizer *o, struct gram_model_writer *w)
{
    struct shape_reader reader = {0, -1};
    int64_t count = count_shapes(o);
    size_t bytes = (size_t)count * sizeof(int64_t);
    int64_t *shapes = gram_alloc(g, bytes);

    if (!shapes)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t i = 0; i < count; i++)
        shapes[i] = next_shape(o, &reader);
    gram_model_put_copy(w, "shapes", GRAM_I64, count, shapes);
    gram_free(g, shapes, bytes);
    return GRAM_OK;
}

/* image: the state where the host can read it. */
static gram_status save(gram_context *g, const gram_optimizer *o, const char *image,
                        struct gram_model_writer *w, const char *path)
{
    char rank[RANK_BYTES];

    describe_rank(o, rank);
    gram_model_put_text(w, "format", FORMAT);
    gram_model_put_text(w, "version", gram_version());
    gram_model_put_text(w, "method", gram_optimizer_rules_of(o->options.method)->name);
    gram_model_put_text(w, "rank", rank);
    TRY(put_shapes(g, o, w));
    for (int64_t i = 0; i < o->names; i++) {
        const gram_tensor *t = &o->named[i].view;
        int64_t shape[GRAM_MODEL_DIMS];
        int ndim = file_shape(t, shape);
        gram_model_put(w, o->named[i].name, (int)t->dtype, ndim, shape,
                       image + ((const char *)t->data - o->state));
    }
    return gram_model_commit(g, w, path);
}

gram_status gram_optimizer_save(gram_context *g, const gram_optimizer *o, const char *path)
{
    struct gram_model_writer *w;
    char *image = NULL;
    gram_status status;

    TRY(gram_begin(g, __func__));
    TRY(gram_optimizer_check_call(g, o));
    if (!path)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "path is NULL");
    TRY(open_image(g, o, true, &image));
    w = gram_model_writer_create();
    status = save(g, o, image, w, path);
    gram_model_writer_destroy(w);
    close_image(g, o, image);
    return status;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static gram_status need_text(gram_context *g, const struct gram_model_file *file, const char *key,
                             const char *expected)
{
    const char *text = gram_model_text(file, key);

    if (!text || strcmp(text, expected) != 0)
        return gram_model_bad(g, file, "its %s is \"%.60s\", expected \"%s\"", key,
                              text ? text : "", expected);
    return GRAM_OK;
}

static gram_status check_shapes(gram_context *g, const gram_optimizer *o,
                                const struct gram_model_file *file)
{
    struct shape_reader reader = {0, -1};
    const void *data;
    int64_t count = count_shapes(o);

    TRY(gram_model_need_vector(g, file, "shapes", GRAM_I64, count, &data, NULL));
    for (int64_t i = 0; i < count; i++) {
        struct shape_reader at = reader;
        int64_t got = ((const int64_t *)data)[i], expected = next_shape(o, &reader);
        if (got != expected)
            return gram_model_bad(
                g, file, "parameter %lld has %lld %s, expected %lld", (long long)at.parameter,
                (long long)got, at.dimension < 0 ? "dimensions" : "as a size", (long long)expected);
    }
    return GRAM_OK;
}

static double number_at(const struct gram_model_array *a, int64_t i)
{
    uint32_t bits;
    float value;

    switch (a->type) {
    case GRAM_F64:
        return ((const double *)a->data)[i];
    case GRAM_F32:
        return (double)((const float *)a->data)[i];
    case GRAM_BF16:
        bits = (uint32_t)((const uint16_t *)a->data)[i] << 16;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    default:
        return (double)((const int64_t *)a->data)[i];
    }
}

/* Finite, and not negative where it counts or sums squares. */
static gram_status check_numbers(gram_context *g, const struct gram_model_file *file,
                                 const struct gram_model_array *a)
{
    const char *last = strrchr(a->name, '.');
    bool positive = a->type == GRAM_I64 || (last && strcmp(last, ".second") == 0);
    int64_t count = 1;

    for (int i = 0; i < a->ndim; i++)
        count *= a->shape[i];
    for (int64_t i = 0; i < count; i++) {
        double value = number_at(a, i);
        if (!isfinite(value) || (positive && value < 0))
            return gram_model_bad(g, file, "array \"%s\" holds %g, which is not valid", a->name,
                                  value);
    }
    return GRAM_OK;
}

static gram_status need(gram_context *g, const gram_optimizer *o,
                        const struct gram_model_file *file, int64_t index,
                        const struct gram_model_array **out)
{
    const struct gram_optimizer_named *named = &o->named[index];
    int64_t shape[GRAM_MODEL_DIMS];
    int ndim = file_shape(&named->view, shape);

    return gram_model_need(g, file, named->name, (int)named->view.dtype, ndim, shape, out);
}

static gram_status check_steps(gram_context *g, const gram_optimizer *o,
                               const struct gram_model_file *file)
{
    const void *step, *steps;

    TRY(gram_model_need_vector(g, file, "step", GRAM_I64, 1, &step, NULL));
    TRY(gram_model_need_vector(g, file, "steps", GRAM_I64, o->parameters, &steps, NULL));
    if (*(const int64_t *)step > most_steps)
        return gram_model_bad(g, file, "it has done %lld steps, which is more than possible",
                              (long long)*(const int64_t *)step);
    for (int64_t i = 0; i < o->parameters; i++)
        if (((const int64_t *)steps)[i] > *(const int64_t *)step)
            return gram_model_bad(g, file, "parameter %lld has done more steps than the optimizer",
                                  (long long)i);
    return GRAM_OK;
}

/* Makes it the state, and frees it where it is a copy. */
static gram_status put_image(gram_context *g, gram_optimizer *o, char *image)
{
    gram_status status = GRAM_OK;

    if (o->owner) {
        status = g->backend->memory_copy(g, o->state, image, o->state_bytes);
        if (status == GRAM_OK)
            status = g->backend->synchronize(g);
        o->stale = true;
    }
    close_image(g, o, image);
    return status;
}

gram_status gram_optimizer_take_file(gram_context *g, gram_optimizer *o,
                                     const struct gram_model_file *file)
{
    char rank[RANK_BYTES], *image = NULL;
    const struct gram_model_array *a;

    describe_rank(o, rank);
    TRY(need_text(g, file, "format", FORMAT));
    TRY(need_text(g, file, "method", gram_optimizer_rules_of(o->options.method)->name));
    TRY(need_text(g, file, "rank", rank));
    TRY(check_shapes(g, o, file));
    for (int64_t i = 0; i < o->names; i++) {
        TRY(need(g, o, file, i, &a));
        TRY(check_numbers(g, file, a));
    }
    TRY(check_steps(g, o, file));
    if (file->arrays != (size_t)o->names + 1)
        return gram_model_bad(g, file, "it has %zu arrays, expected %lld", file->arrays,
                              (long long)o->names + 1);
    TRY(open_image(g, o, false, &image));
    for (int64_t i = 0; i < o->names; i++) {
        const gram_tensor *t = &o->named[i].view;
        size_t bytes = gram_dtype_size(t->dtype);
        TRY(need(g, o, file, i, &a)); /* as before: cannot fail */
        for (int j = 0; j < t->ndim; j++)
            bytes *= (size_t)t->shape[j];
        if (bytes > 0)
            memcpy(image + ((char *)t->data - o->state), a->data, bytes);
    }
    return put_image(g, o, image);
}

gram_status gram_optimizer_load(gram_context *g, gram_optimizer *o, const char *path)
{
    struct gram_model_file *file;
    gram_status status;

    TRY(gram_begin(g, __func__));
    TRY(gram_optimizer_check_call(g, o));
    if (!path)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "path is NULL");
    TRY(gram_model_read(g, path, &file));
    status = gram_optimizer_take_file(g, o, file);
    gram_model_file_destroy(file);
    return status;
}
