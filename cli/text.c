/*
 * text.c - reads a whole input into memory, and quotes pieces of it in messages
 *
 * SPDX-License-Identifier: MIT
 */
#include "text.h"
#include "gzip.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *text_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

enum exit_status text_open(const char *path, FILE **out, struct failure *why)
{
    struct stat about;

    if (strcmp(path, "-") == 0) {
        *out = stdin;
        setvbuf(*out, NULL, _IONBF, 0);
        return CLI_OK;
    }
    *out = fopen(path, "rb");
    if (!*out)
        return fail(why, CLI_NO_INPUT, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fileno(*out), &about) == 0 && S_ISDIR(about.st_mode)) {
        fclose(*out);
        *out = NULL;
        return fail(why, CLI_NO_INPUT, "cannot read %s: it is a directory", path);
    }
    setvbuf(*out, NULL, _IONBF, 0);
    return CLI_OK;
}

void text_close(FILE *file)
{
    if (file && file != stdin)
        fclose(file);
}

/* Bytes to begin with: the size of a regular file and one more, so that one read sees its end. */
static size_t first_capacity(FILE *file)
{
    struct stat about;

    if (fstat(fileno(file), &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0 &&
        (uint64_t)about.st_size < SIZE_MAX / 2)
        return (size_t)about.st_size + 2;
    return 1 << 16;
}

enum exit_status text_read_stream(FILE *file, const char *path, struct text *out,
                                  struct failure *why)
{
    char begin[2];
    const size_t begun = fread(begin, 1, sizeof begin, file);
    size_t capacity = first_capacity(file), used = begun;
    char *data;

    if (gzip_begins(begin, begun))
        return gzip_read_stream(file, path, begin, begun, out, why);
    data = malloc(capacity);
    if (data)
        memcpy(data, begin, begun);

    while (data) {
        size_t got = fread(data + used, 1, capacity - 1 - used, file);
        used += got;
        if (ferror(file)) {
            free(data);
            return fail(why, CLI_IO, "cannot read %s: %s", text_name(path), strerror(errno));
        }
        if (used < capacity - 1) {
            data[used] = '\0';
            *out = (struct text){data, used};
            return CLI_OK;
        }
        char *larger = capacity > SIZE_MAX / 2 ? NULL : realloc(data, capacity * 2);
        if (!larger)
            free(data);
        data = larger;
        capacity *= 2;
    }
    return fail(why, CLI_NO_MEMORY, "out of memory for the contents of %s", text_name(path));
}

enum exit_status text_read(const char *path, struct text *out, struct failure *why)
{
    FILE *file;
    enum exit_status status;

    *out = (struct text){NULL, 0};
    TRY(text_open(path, &file, why));
    status = text_read_stream(file, path, out, why);
    text_close(file);
    return status;
}

const char *text_quote(char out[TEXT_QUOTED], const char *begin, const char *end)
{
    size_t size = (size_t)(end - begin), shown = size < 40 ? size : 40, used = 0;

    while (shown < size && shown > 30 && ((unsigned char)begin[shown] & 0xc0) == 0x80)
        shown--; /* do not cut a UTF-8 character */
    out[used++] = '"';
    for (size_t i = 0; i < shown; i++)
        out[used++] = begin[i] ? begin[i] : '?';
    out[used] = '\0';
    text_mask(out);
    memcpy(out + used, shown < size ? "...\"" : "\"", shown < size ? 5 : 2);
    return out;
}

int text_characters(const char *text)
{
    int count = 0;

    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

size_t text_bytes(const char *text, int characters)
{
    size_t size = 0;

    for (; text[size]; size++) {
        characters -= ((unsigned char)text[size] & 0xc0) != 0x80;
        if (characters < 0)
            break;
    }
    return size;
}

/* Bytes of the valid UTF-8 character at s, 0 if there is none (Unicode 15, table 3-7). */
static int utf8_length(const unsigned char *s, const unsigned char *end)
{
    int length = s[0] < 0x80                   ? 1
                 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                               : 0;

    if (length == 0 || end - s < length)
        return 0;
    for (int i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || /* long form, surrogate */
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))   /* long form, too large */
        return 0;
    return length;
}

const char *text_find_invalid_utf8(const char *begin, const char *end)
{
    const unsigned char *at = (const unsigned char *)begin, *stop = (const unsigned char *)end;

    while (at < stop) {
        int length = *at < 0x80 ? 1 : utf8_length(at, stop);
        if (length == 0)
            return (const char *)at;
        at += length;
    }
    return NULL;
}

void text_mask(char *text)
{
    unsigned char *at = (unsigned char *)text;
    const unsigned char *stop = at + strlen(text);
    int length;

    for (; at < stop; at += length) {
        length = at[0] < 0x80 ? 1 : utf8_length(at, stop);
        if (at[0] < 0x20 || at[0] == 0x7f || length == 0 || (at[0] == 0xc2 && at[1] < 0xa0)) {
            length = length ? length : 1;
            memset(at, '?', (size_t)length);
        }
    }
}
