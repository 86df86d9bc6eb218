/*
 * model_file_read.c - reads a model file, and finds arrays and texts in it by name
 *
 * SPDX-License-Identifier: MIT
 */
#include "model_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file with room for size bytes, or NULL. */
static struct gram_model_file *new_file(const char *name, size_t size)
{
    struct gram_model_file *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;
    f->name = strdup(name);
    f->bytes = malloc(size + 1);
    f->size = size;
    if (f->name && f->bytes)
        return f;
    gram_model_file_destroy(f);
    return NULL;
}

static gram_status no_memory(gram_context *g, const char *name, size_t bytes)
{
    return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes to read %s", bytes, name);
}

/* Checks what was read; the file goes to *out or is freed. */
static gram_status check(gram_context *g, struct gram_model_file *f, struct gram_model_file **out)
{
    gram_status status = gram_model_check(g, f);

    if (status == GRAM_OK)
        *out = f;
    else
        gram_model_file_destroy(f);
    return status;
}

gram_status gram_model_parse(gram_context *g, const char *name, const void *bytes, size_t size,
                             struct gram_model_file **out)
{
    struct gram_model_file *f = new_file(name, size);

    *out = NULL;
    if (!f)
        return no_memory(g, name, size);
    if (size > 0)
        memcpy(f->bytes, bytes, size);
    return check(g, f, out);
}

/* errno, 0 at the end, -1 if the file ended before size bytes. */
static int read_all(int descriptor, char *to, size_t size)
{
    while (size > 0) {
        ssize_t got = read(descriptor, to, size < (size_t)1 << 30 ? size : (size_t)1 << 30);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : -1;
        to += got;
        size -= (size_t)got;
    }
    return 0;
}

static gram_status read_file(gram_context *g, const char *path, int descriptor,
                             struct gram_model_file **out)
{
    struct gram_model_file *f;
    struct stat about;
    int error;

    if (fstat(descriptor, &about) != 0)
        return gram_fail(g, GRAM_IO, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return gram_fail(g, GRAM_IO, "cannot read %s: it is not a regular file", path);
    f = new_file(path, (size_t)about.st_size);
    if (!f)
        return no_memory(g, path, (size_t)about.st_size);
    error = read_all(descriptor, f->bytes, f->size);
    if (error == 0)
        return check(g, f, out);
    gram_model_file_destroy(f);
    return gram_fail(g, GRAM_IO, "cannot read %s: %s", path,
                     error > 0 ? strerror(error) : "it became shorter while it was read");
}

gram_status gram_model_read(gram_context *g, const char *path, struct gram_model_file **out)
{
    /* O_NONBLOCK: a pipe without a writer would wait here, to be refused by read_file() */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    gram_status status;

    *out = NULL;
    if (descriptor < 0)
        return gram_fail(g, GRAM_IO, "cannot read %s: %s", path, strerror(errno));
    status = read_file(g, path, descriptor, out);
    (void)close(descriptor);
    return status;
}

void gram_model_file_destroy(struct gram_model_file *file)
{
    if (!file)
        return;
    free(file->name);
    free(file->bytes);
    free(file->text);
    free(file->placed);
    free(file);
}

/* ---- Finding -------------------------------------------------------------------------------- */

static int placed_by_name(const void *name, const void *placed)
{
    return strcmp(name, ((const struct gram_model_placed *)placed)->array.name);
}

static int text_by_key(const void *key, const void *text)
{
    return strcmp(key, ((const struct gram_model_text *)text)->key);
}

const struct gram_model_array *gram_model_find(const struct gram_model_file *file, const char *name)
{
    const struct gram_model_placed *found = NULL;

    if (file->arrays > 0)
        found = bsearch(name, file->placed, file->arrays, sizeof *found, placed_by_name);
    return found ? &found->array : NULL;
}

const char *gram_model_text(const struct gram_model_file *file, const char *key)
{
    const struct gram_model_text *found = NULL;

    if (file->texts > 0)
        found = bsearch(key, file->text, file->texts, sizeof *found, text_by_key);
    return found ? found->value : NULL;
}

gram_status gram_model_need(gram_context *g, const struct gram_model_file *file, const char *name,
                            int type, int ndim, const int64_t *shape,
                            const struct gram_model_array **out)
{
    static const char *const names[] = {"U8", "F32", "F64", "F16", "BF16", "I32", "I64"};
    const struct gram_model_array *a = gram_model_find(file, name);

    *out = a;
    if (!a)
        return gram_model_bad(g, file, "it has no array \"%s\"", name);
    if (a->type != type)
        return gram_model_bad(g, file, "array \"%s\" has dtype %s, expected %s", name,
                              names[a->type], names[type]);
    if (a->ndim != ndim)
        return gram_model_bad(g, file, "array \"%s\" has %d dimensions, expected %d", name, a->ndim,
                              ndim);
    for (int i = 0; i < ndim; i++)
        if (shape[i] >= 0 && a->shape[i] != shape[i])
            return gram_model_bad(g, file,
                                  "array \"%s\" has size %lld in dimension %d, expected "
                                  "%lld",
                                  name, (long long)a->shape[i], i, (long long)shape[i]);
    return GRAM_OK;
}

gram_status gram_model_need_vector(gram_context *g, const struct gram_model_file *file,
                                   const char *name, int type, int64_t count, const void **data,
                                   int64_t *found)
{
    const struct gram_model_array *a;

    TRY(gram_model_need(g, file, name, type, 1, &count, &a));
    *data = a->data;
    if (found)
        *found = a->shape[0];
    return GRAM_OK;
}

gram_status gram_model_need_strings(gram_context *g, const struct gram_model_file *file,
                                    const char *name, int64_t count, int64_t *found, char ***out)
{
    const void *data;
    int64_t bytes, strings = 0;
    const char *from;
    char *copy;

    TRY(gram_model_need_vector(g, file, name, GRAM_MODEL_BYTES, -1, &data, &bytes));
    from = data;
    for (int64_t i = 0; i < bytes; i++)
        strings += from[i] == 0;
    if (bytes > 0 && from[bytes - 1] != 0)
        return gram_model_bad(g, file, "array \"%s\" does not end with a zero byte", name);
    if (count >= 0 && strings != count)
        return gram_model_bad(g, file, "array \"%s\" holds %lld texts, expected %lld", name,
                              (long long)strings, (long long)count);
    *out = malloc(((size_t)strings + 1) * sizeof **out + (size_t)bytes);
    if (!*out)
        return no_memory(g, file->name, (size_t)bytes);
    copy = (char *)(*out + strings + 1);
    memcpy(copy, from, (size_t)bytes);
    for (int64_t i = 0; i < strings; i++, copy += strlen(copy) + 1)
        (*out)[i] = copy;
    (*out)[strings] = NULL;
    if (found)
        *found = strings;
    return GRAM_OK;
}
