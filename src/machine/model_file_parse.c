/*
 * model_file_parse.c - a safetensors file in memory, with everything it claims checked
 *
 * Checked before anything is used: the header's length, its JSON, that no name comes twice, that
 * each array has a known type, a size that its shape gives and its place within the file, that
 * together they fill the data without holes or overlaps (as safetensors demands), and that elements
 * are aligned, so that they can be read where they lie.
 *
 * SPDX-License-Identifier: MIT
 */
#include "json_read.h"
#include "model_file.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_BYTES = 8,
    MOST_HEADER_BYTES = 100000000 /* safetensors' own limit */
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

/* ---- The header ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int64_t bytes;
} types[] = {
    [GRAM_MODEL_BYTES] = {  "U8", 1},
      [GRAM_F32] = { "F32", 4},
      [GRAM_F64] = { "F64", 8},
    [GRAM_F16] = { "F16", 2},
      [GRAM_BF16] = {"BF16", 2},
      [GRAM_I32] = { "I32", 4},
    [GRAM_I64] = { "I64", 8},
};

struct parser {
    gram_context *g;
    struct gram_model_file *file;
    struct json_reader json;
};

static gram_status bad_json(const struct parser *p)
{
    const struct json_reader *r = &p->json;

    return gram_model_bad(p->g, p->file, "byte %lld of its header: expected %s",
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

/* ---- Places --------------------------------------------------------------------------------- */

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

gram_status gram_model_check(gram_context *g, struct gram_model_file *f)
{
    struct parser p = {.g = g, .file = f};
    uint64_t header = 0;

    if (f->size < LENGTH_BYTES)
        return gram_model_bad(g, f, "it has %zu bytes: not a model file, or truncated", f->size);
    memcpy(&header, f->bytes, sizeof header);
    if (header > f->size - LENGTH_BYTES || header > MOST_HEADER_BYTES)
        return gram_model_bad(g, f,
                              "its header is said to have %llu bytes, but the file has %zu: not a "
                              "model file, or truncated",
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
