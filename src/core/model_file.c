/*
 * model_file.c - safetensors files as model_file.h says: checked, read, and written whole
 *
 * A file in memory is believed only after everything it claims was checked: the header's length,
 * its JSON, that no name comes twice, that each array has a known type, a size that its shape gives
 * and its place within the file, that together they fill the data without holes or overlaps (as
 * safetensors demands), and that elements are aligned, so that they can be read where they lie.
 *
 * In a file that is written arrays lie by the size of their elements, largest first, and the header
 * is padded with spaces to a multiple of 8: so every element is aligned, without holes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model_file.h"
#include "json_text.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Checking -------------------------------------------------------------------------------- */

enum {
    LENGTH_BYTES = 8,
    MOST_HEADER_BYTES = 100000000 /* safetensors' own limit */
};

static const struct {
    const char *name;
    int64_t bytes; /* of an element */
} types[] = {
    [GRAM_MODEL_BYTES] = {  "U8", 1},
      [GRAM_F32] = { "F32", 4},
      [GRAM_F64] = { "F64", 8},
    [GRAM_F16] = { "F16", 2},
      [GRAM_BF16] = {"BF16", 2},
      [GRAM_I32] = { "I32", 4},
    [GRAM_I64] = { "I64", 8},
};

gram_status gram_model_bad(gram_context *g, const struct gram_model_file *file, const char *format,
                           ...)
{
    char what[384];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    for (char *c = what; *c; c++) /* names come from the file: no terminal is to obey them */
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return gram_fail(g, GRAM_BAD_DATA, "%s: %s", file->name, what);
}

static gram_status no_memory(gram_context *g, const struct gram_model_file *file)
{
    return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate memory to read %s", file->name);
}

/* Room for one more element of an array that doubles. */
static bool grow(void **array, size_t count, size_t *room, size_t size)
{
    void *more;

    if (count < *room)
        return true;
    more = realloc(*array, (2 * *room + 16) * size);
    if (!more)
        return false;
    *array = more;
    *room = 2 * *room + 16;
    return true;
}

struct parser {
    gram_context *g;
    struct gram_model_file *file;
    struct json_reader json;
};

static gram_status bad_json(const struct parser *p)
{
    const struct json_reader *r = &p->json;

    return gram_model_bad(p->g, p->file, "its header is wrong at byte %lld, expected %s",
                          (long long)(r->at - r->start), r->error);
}

static gram_status parse_metadata(struct parser *p)
{
    struct gram_model_file *f = p->file;
    struct json_reader *r = &p->json;

    if (!gram_json_expect(r, '{'))
        return bad_json(p);
    if (gram_json_accept(r, '}'))
        return GRAM_OK;
    do {
        struct gram_model_text t;
        if (!gram_json_string(r, &t.key) || !gram_json_expect(r, ':') ||
            !gram_json_string(r, &t.value))
            return bad_json(p);
        if (!grow((void **)&f->text, f->texts, &f->text_room, sizeof *f->text))
            return no_memory(p->g, f);
        f->text[f->texts++] = t;
    } while (gram_json_accept(r, ','));
    return gram_json_expect(r, '}') ? GRAM_OK : bad_json(p);
}

static gram_status parse_dtype(struct parser *p, struct gram_model_placed *a)
{
    char *dtype;

    if (!gram_json_string(&p->json, &dtype))
        return bad_json(p);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, dtype) == 0) {
            a->array.type = (int)i;
            return GRAM_OK;
        }
    return gram_model_bad(p->g, p->file,
                          "array \"%s\" has dtype \"%s\", expected U8, F16, BF16, F32, F64, I32 or "
                          "I64",
                          a->array.name, dtype);
}

/* A list of at most most whole numbers. */
static gram_status parse_list(struct parser *p, int64_t *out, int most, int *count)
{
    struct json_reader *r = &p->json;

    *count = 0;
    if (!gram_json_expect(r, '['))
        return bad_json(p);
    if (gram_json_accept(r, ']'))
        return GRAM_OK;
    do {
        if (*count == most)
            return gram_model_bad(p->g, p->file, "byte %lld of its header: more than %d numbers",
                                  (long long)(r->at - r->start), most);
        if (!gram_json_whole(r, &out[(*count)++]))
            return bad_json(p);
    } while (gram_json_accept(r, ','));
    return gram_json_expect(r, ']') ? GRAM_OK : bad_json(p);
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...}, each once, in any order. */
static gram_status parse_array(struct parser *p, char *name)
{
    struct gram_model_file *f = p->file;
    struct gram_model_placed a = {.array.name = name};
    int64_t offsets[2] = {0, 0};
    unsigned seen = 0;
    int count = 0;

    if (!gram_json_expect(&p->json, '{'))
        return bad_json(p);
    do {
        char *key;
        unsigned bit;
        if (!gram_json_string(&p->json, &key) || !gram_json_expect(&p->json, ':'))
            return bad_json(p);
        bit = strcmp(key, "dtype") == 0          ? 1
              : strcmp(key, "shape") == 0        ? 2
              : strcmp(key, "data_offsets") == 0 ? 4
                                                 : 0;
        if (!bit || (seen & bit))
            return gram_model_bad(p->g, f, "array \"%s\" has %s \"%s\"", name,
                                  bit ? "twice" : "an unknown", key);
        seen |= bit;
        if (bit == 1)
            TRY(parse_dtype(p, &a));
        else if (bit == 2)
            TRY(parse_list(p, a.array.shape, GRAM_MODEL_DIMS, &a.array.ndim));
        else
            TRY(parse_list(p, offsets, 2, &count));
    } while (gram_json_accept(&p->json, ','));
    if (!gram_json_expect(&p->json, '}'))
        return bad_json(p);
    if (seen != 7 || count != 2)
        return gram_model_bad(p->g, f, "array \"%s\" lacks its dtype, shape or two data_offsets",
                              name);
    a.begin = offsets[0], a.end = offsets[1];
    if (!grow((void **)&f->placed, f->arrays, &f->array_room, sizeof *f->placed))
        return no_memory(p->g, f);
    f->placed[f->arrays++] = a;
    return GRAM_OK;
}

static gram_status parse_header(struct parser *p)
{
    struct json_reader *r = &p->json;
    bool metadata = false;

    if (!gram_json_expect(r, '{'))
        return bad_json(p);
    if (gram_json_accept(r, '}'))
        return gram_json_finish(r) ? GRAM_OK : bad_json(p);
    do {
        char *name;
        if (!gram_json_string(r, &name) || !gram_json_expect(r, ':'))
            return bad_json(p);
        if (strcmp(name, "__metadata__") != 0) {
            TRY(parse_array(p, name));
            continue;
        }
        if (metadata)
            return gram_model_bad(p->g, p->file, "two parts are called \"__metadata__\"");
        metadata = true;
        TRY(parse_metadata(p));
    } while (gram_json_accept(r, ','));
    return gram_json_expect(r, '}') && gram_json_finish(r) ? GRAM_OK : bad_json(p);
}

static int by_place(const void *a, const void *b)
{
    const struct gram_model_placed *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct gram_model_placed *)a)->array.name,
                  ((const struct gram_model_placed *)b)->array.name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct gram_model_text *)a)->key,
                  ((const struct gram_model_text *)b)->key);
}

static gram_status check_size(gram_context *g, const struct gram_model_file *f,
                              const struct gram_model_placed *a)
{
    int64_t bytes = types[a->array.type].bytes, element = bytes;

    for (int i = 0; i < a->array.ndim; i++)
        if (__builtin_mul_overflow(bytes, a->array.shape[i], &bytes))
            return gram_model_bad(g, f, "the size of array \"%s\" overflows", a->array.name);
    if (a->begin > a->end || a->end - a->begin != bytes)
        return gram_model_bad(g, f, "array \"%s\" lies from %lld to %lld, but its shape takes %lld",
                              a->array.name, (long long)a->begin, (long long)a->end,
                              (long long)bytes);
    if (a->begin % element)
        return gram_model_bad(g, f, "array \"%s\" begins at %lld, expected a multiple of %lld",
                              a->array.name, (long long)a->begin, (long long)element);
    return GRAM_OK;
}

/* The arrays in their order fill the data, which then become theirs. */
static gram_status place_arrays(gram_context *g, struct gram_model_file *f, size_t header)
{
    char *data = f->bytes + LENGTH_BYTES + header;
    int64_t room = (int64_t)(f->size - LENGTH_BYTES - header), at = 0;

    if (f->arrays > 0)
        qsort(f->placed, f->arrays, sizeof *f->placed, by_place);
    for (size_t i = 0; i < f->arrays; i++) {
        struct gram_model_placed *a = &f->placed[i];
        TRY(check_size(g, f, a));
        if (a->begin != at)
            return gram_model_bad(
                g, f,
                "array \"%s\" begins at %lld, expected %lld, where the one before "
                "ends",
                a->array.name, (long long)a->begin, (long long)at);
        if (a->end > room)
            return gram_model_bad(
                g, f,
                "array \"%s\" ends at %lld, but the file has %lld bytes of data: it "
                "is truncated or damaged",
                a->array.name, (long long)a->end, (long long)room);
        a->array.data = data + a->begin;
        at = a->end;
    }
    if (at != room)
        return gram_model_bad(g, f, "%lld bytes of data belong to no array",
                              (long long)(room - at));
    return GRAM_OK;
}

static gram_status sort_names(gram_context *g, struct gram_model_file *f)
{
    if (f->arrays > 0)
        qsort(f->placed, f->arrays, sizeof *f->placed, by_name);
    for (size_t i = 1; i < f->arrays; i++)
        if (by_name(&f->placed[i - 1], &f->placed[i]) == 0)
            return gram_model_bad(g, f, "two arrays are called \"%s\"", f->placed[i].array.name);
    if (f->texts > 0)
        qsort(f->text, f->texts, sizeof *f->text, by_key);
    for (size_t i = 1; i < f->texts; i++)
        if (by_key(&f->text[i - 1], &f->text[i]) == 0)
            return gram_model_bad(g, f, "two texts are called \"%s\"", f->text[i].key);
    return GRAM_OK;
}

static gram_status check_file(gram_context *g, struct gram_model_file *f)
{
    struct parser p = {.g = g, .file = f};
    uint64_t header = 0;

    if (f->size < LENGTH_BYTES)
        return gram_model_bad(g, f, "it has %zu bytes: it is not a model file, or truncated",
                              f->size);
    memcpy(&header, f->bytes, sizeof header);
    if (header > f->size - LENGTH_BYTES || header > MOST_HEADER_BYTES)
        return gram_model_bad(g, f,
                              "its header has %llu bytes and the file has %zu: it is not a model "
                              "file, or truncated",
                              (unsigned long long)header, f->size);
    if (header % 8)
        return gram_model_bad(g, f, "its header has %llu bytes, expected a multiple of 8",
                              (unsigned long long)header);
    p.json.start = p.json.at = f->bytes + LENGTH_BYTES;
    p.json.end = p.json.start + header;
    TRY(parse_header(&p));
    TRY(place_arrays(g, f, header));
    return sort_names(g, f);
}

/* ---- Reading --------------------------------------------------------------------------------- */

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

static gram_status no_bytes(gram_context *g, const char *name, size_t bytes)
{
    return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes to read %s", bytes, name);
}

/* Checks what was read; the file goes to *out or is freed. */
static gram_status check_read(gram_context *g, struct gram_model_file *f,
                              struct gram_model_file **out)
{
    gram_status status = check_file(g, f);

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
        return no_bytes(g, name, size);
    if (size > 0)
        memcpy(f->bytes, bytes, size);
    return check_read(g, f, out);
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
        return no_bytes(g, path, (size_t)about.st_size);
    error = read_all(descriptor, f->bytes, f->size);
    if (error == 0)
        return check_read(g, f, out);
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
    const struct gram_model_array *a = gram_model_find(file, name);

    *out = a;
    if (!a)
        return gram_model_bad(g, file, "it has no array \"%s\"", name);
    if (a->type != type)
        return gram_model_bad(g, file, "array \"%s\" has dtype %s, expected %s", name,
                              types[a->type].name, types[type].name);
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
        return no_bytes(g, file->name, (size_t)bytes);
    copy = (char *)(*out + strings + 1);
    memcpy(copy, from, (size_t)bytes);
    for (int64_t i = 0; i < strings; i++, copy += strlen(copy) + 1)
        (*out)[i] = copy;
    (*out)[strings] = NULL;
    if (found)
        *found = strings;
    return GRAM_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#  error "model files are little-endian, and libgram supports only little-endian machines"
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

static size_t type_size(int type)
{
    return (size_t)types[type].bytes;
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
        gram_json_add(t, types[a->type].name);
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
