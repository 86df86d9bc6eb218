/*
 * model_file_write.c - collects arrays and texts, and writes them as one safetensors file
 *
 * Arrays lie in the file by the size of their elements, largest first, and the header is padded
 * with spaces to a multiple of 8: so every element is aligned, without holes, which safetensors
 * forbids.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/whole_file.h"
#include "json_read.h"
#include "json_text.h"
#include "model_file.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#  error "model files are little-endian, and so must be the machine"
#endif

struct entry {
    struct gram_model_array array;
    char *name;
    void *owned; /* the data, where they were copied */
};

struct gram_model_writer {
    struct gram_json_text metadata; /* "key": "text", ... */
    struct entry *entry;
    size_t count, capacity;
    bool failed; /* out of memory */
};

struct gram_model_writer *gram_model_writer_create(void)
{
    return calloc(1, sizeof(struct gram_model_writer));
}

void gram_model_writer_destroy(struct gram_model_writer *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++) {
        free(w->entry[i].name);
        free(w->entry[i].owned);
    }
    free(w->entry);
    free(w->metadata.data);
    free(w);
}

/* ---- Collecting ----------------------------------------------------------------------------- */

static size_t type_size(int type)
{
    return type == GRAM_MODEL_BYTES ? 1 : gram_dtype_size((gram_dtype)type);
}

static size_t array_bytes(const struct gram_model_array *a)
{
    size_t bytes = type_size(a->type);

    for (int i = 0; i < a->ndim; i++)
        bytes *= (size_t)a->shape[i];
    return bytes;
}

static struct entry *add_entry(struct gram_model_writer *w, const char *name)
{
    struct entry *e;

    if (!w || w->failed)
        return NULL;
    if (w->count == w->capacity) {
        size_t capacity = 2 * w->capacity + 16;
        e = realloc(w->entry, capacity * sizeof *e);
        w->failed = !e;
        if (!e)
            return NULL;
        w->entry = e;
        w->capacity = capacity;
    }
    e = &w->entry[w->count];
    *e = (struct entry){.name = strdup(name)};
    w->failed = !e->name;
    if (!e->name)
        return NULL;
    w->count++;
    e->array.name = e->name;
    return e;
}

void gram_model_put(struct gram_model_writer *w, const char *name, int type, int ndim,
                    const int64_t *shape, const void *data)
{
    struct entry *e = add_entry(w, name);

    if (!e)
        return;
    e->array.type = type;
    e->array.ndim = ndim;
    e->array.data = data;
    for (int i = 0; i < ndim; i++)
        e->array.shape[i] = shape[i];
}

/* A vector whose data the entry owns: room for them, NULL if there is none. */
static void *put_owned(struct gram_model_writer *w, const char *name, int type, int64_t count)
{
    struct entry *e = add_entry(w, name);

    if (!e)
        return NULL;
    e->array.type = type;
    e->array.ndim = 1;
    e->array.shape[0] = count;
    e->owned = malloc(array_bytes(&e->array) + 1);
    e->array.data = e->owned;
    w->failed = !e->owned;
    return e->owned;
}

void gram_model_put_copy(struct gram_model_writer *w, const char *name, int type, int64_t count,
                         const void *data)
{
    void *copy = put_owned(w, name, type, count);

    if (copy && count > 0)
        memcpy(copy, data, (size_t)count * type_size(type));
}

void gram_model_put_strings(struct gram_model_writer *w, const char *name, int64_t count,
                            char *const *strings)
{
    size_t bytes = 0;
    char *to;

    for (int64_t i = 0; i < count; i++)
        bytes += strlen(strings[i]) + 1;
    to = put_owned(w, name, GRAM_MODEL_BYTES, (int64_t)bytes);
    for (int64_t i = 0; to && i < count; i++)
        to = stpcpy(to, strings[i]) + 1;
}

void gram_model_put_text(struct gram_model_writer *w, const char *key, const char *text)
{
    size_t left = strlen(text);
    char *clean, *to;

    if (!w || w->failed)
        return;
    clean = to = malloc(3 * left + 1);
    w->failed = !clean;
    if (!clean)
        return;
    while (left > 0) {
        size_t length = gram_json_utf8(text, left), taken = length ? length : 1;
        memcpy(to, length ? text : "\xef\xbf\xbd", length ? length : 3);
        to += length ? length : 3;
        text += taken;
        left -= taken;
    }
    *to = 0;
    gram_json_add(&w->metadata, w->metadata.length ? ", " : "");
    gram_json_add_string(&w->metadata, key);
    gram_json_add(&w->metadata, ": ");
    gram_json_add_string(&w->metadata, clean);
    w->failed = w->metadata.failed;
    free(clean);
}

void gram_model_put_failed(struct gram_model_writer *w)
{
    if (w)
        w->failed = true;
}

/* ---- The header ----------------------------------------------------------------------------- */

static const char *type_name(int type)
{
    static const char *const names[] = {"U8", "F32", "F64", "F16", "BF16", "I32", "I64"};

    return names[type];
}

/* Larger elements first, then by name: the same arrays give the same bytes. */
static int by_element_size(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    size_t x_size = type_size(x->array.type), y_size = type_size(y->array.type);

    if (x_size != y_size)
        return x_size < y_size ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void add_whole(struct gram_json_text *t, uint64_t value)
{
    char digits[24];

    (void)snprintf(digits, sizeof digits, "%" PRIu64, value);
    gram_json_add(t, digits);
}

/* The header of the sorted entries, padded. */
static void build_header(const struct gram_model_writer *w, struct gram_json_text *t)
{
    uint64_t at = 0;

    gram_json_add(t, "{\"__metadata__\": {");
    gram_json_add(t, w->metadata.data ? w->metadata.data : "");
    gram_json_add(t, "}");
    for (size_t i = 0; i < w->count; i++) {
        const struct gram_model_array *a = &w->entry[i].array;
        uint64_t end = at + array_bytes(a);
        gram_json_add(t, ",\n");
        gram_json_add_string(t, a->name);
        gram_json_add(t, ": {\"dtype\": \"");
        gram_json_add(t, type_name(a->type));
        gram_json_add(t, "\", \"shape\": [");
        for (int j = 0; j < a->ndim; j++) {
            gram_json_add(t, j ? ", " : "");
            add_whole(t, (uint64_t)a->shape[j]);
        }
        gram_json_add(t, "], \"data_offsets\": [");
        add_whole(t, at);
        gram_json_add(t, ", ");
        add_whole(t, end);
        gram_json_add(t, "]}");
        at = end;
    }
    gram_json_add(t, "}");
    while (!t->failed && t->length % 8)
        gram_json_add(t, " ");
}

/* ---- The file ------------------------------------------------------------------------------- */

static int write_all(int descriptor, const void *data, size_t bytes)
{
    const char *from = data;

    while (bytes > 0) {
        size_t piece = bytes < (size_t)1 << 30 ? bytes : (size_t)1 << 30;
        ssize_t written = write(descriptor, from, piece);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return errno;
        from += written;
        bytes -= (size_t)written;
    }
    return 0;
}

static int write_file(const struct gram_model_writer *w, const struct gram_json_text *header,
                      int descriptor)
{
    uint64_t length = header->length;
    int error = write_all(descriptor, &length, sizeof length);

    if (!error)
        error = write_all(descriptor, header->data, header->length);
    for (size_t i = 0; !error && i < w->count; i++)
        error = write_all(descriptor, w->entry[i].array.data, array_bytes(&w->entry[i].array));
    return error;
}

gram_status gram_model_commit(gram_context *g, struct gram_model_writer *w, const char *path)
{
    struct gram_whole_file file = {.descriptor = -1};
    struct gram_json_text header = {0};
    gram_status status;

    if (w && !w->failed) {
        if (w->count > 0)
            qsort(w->entry, w->count, sizeof *w->entry, by_element_size);
        build_header(w, &header);
    }
    if (w && !w->failed && !header.failed)
        status = gram_whole_file_open(g, path, &file);
    else
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate memory to write %s", path);
    if (file.descriptor >= 0)
        status = gram_whole_file_close(g, path, &file, write_file(w, &header, file.descriptor));
    free(header.data);
    return status;
}
