/*
 * gzip.c - unpacks gzip files with the zlib of the system
 *
 * zlib is opened when the first such file is read, so that gram neither needs it where it is built
 * nor where no file is packed.  Its interface (zlib.h, since version 1.2.0) is repeated here; the
 * version and the size of the structure, which inflateInit2_ is given, are checked by zlib itself.
 * The file ends in a checksum and the length of the text, so that zlib has given all of its output
 * before the input is used up.
 *
 * SPDX-License-Identifier: MIT
 */
#include "gzip.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* z_stream of zlib.h */
struct zlib_stream {
    const unsigned char *next_in;
    unsigned avail_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *(*zalloc)(void *, unsigned, unsigned);
    void (*zfree)(void *, void *);
    void *opaque;
    int data_type;
    unsigned long adler, reserved;
};

/* Constants of zlib.h */
enum {
    Z_OK = 0,
    Z_STREAM_END = 1,
    Z_MEM_ERROR = -4,
    Z_BUF_ERROR = -5,
    GZIP_WINDOW = 15 + 16 /* the largest window, and the header and trailer of gzip */
};

struct zlib {
    void *library;
    int (*init)(struct zlib_stream *, int window, const char *version, int stream_size);
    int (*inflate)(struct zlib_stream *, int flush);
    int (*reset)(struct zlib_stream *);
    int (*end)(struct zlib_stream *);
};

enum {
    PIECE = 1 << 16,         /* bytes of the file that are read at a time */
    MOST_ROOM = 1 << 30,     /* bytes that zlib is offered at a time, which an unsigned holds */
    FIRST_CAPACITY = 1 << 18 /* bytes of text to begin with */
};

struct unpacking {
    struct zlib zlib;
    struct zlib_stream stream;
    FILE *file;
    const char *path;
    char *data;
    size_t capacity, used;
    unsigned char piece[PIECE];
};

int gzip_begins(const char *bytes, size_t size)
{
    return size >= 2 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

static enum exit_status zlib_open(struct zlib *z, const char *path, struct failure *why)
{
    const char *advice = strcmp(path, "-") == 0 ? "FILE" : path;

    z->library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    if (z->library) {
        *(void **)&z->init = dlsym(z->library, "inflateInit2_");
        *(void **)&z->inflate = dlsym(z->library, "inflate");
        *(void **)&z->reset = dlsym(z->library, "inflateReset");
        *(void **)&z->end = dlsym(z->library, "inflateEnd");
    }
    if (z->library && z->init && z->inflate && z->reset && z->end)
        return CLI_OK;
    return fail(why, CLI_UNSUPPORTED,
                "%s: this is gzip, and zlib (libz.so.1) is not on this machine; unpack it, as in: "
                "zcat '%.200s' | gram COMMAND -",
                text_name(path), advice);
}

static enum exit_status broken(const struct unpacking *u, const char *what, struct failure *why)
{
    return fail(why, CLI_BAD_DATA, "%s: the gzip file is broken after %zu bytes of text: %s",
                text_name(u->path), u->used, what);
}

static enum exit_status out_of_memory(const struct unpacking *u, struct failure *why)
{
    return fail(why, CLI_NO_MEMORY, "out of memory for the contents of %s", text_name(u->path));
}

/* Room for more text, and for the NUL behind it. */
static enum exit_status make_room(struct unpacking *u, struct failure *why)
{
    char *larger;

    if (u->used + 1 < u->capacity)
        return CLI_OK;
    larger = u->capacity > SIZE_MAX / 2 ? NULL : realloc(u->data, u->capacity * 2);
    if (!larger)
        return out_of_memory(u, why);
    u->data = larger;
    u->capacity *= 2;
    return CLI_OK;
}

/* Reads the next piece of the file; none is left if avail_in stays 0. */
static enum exit_status next_piece(struct unpacking *u, struct failure *why)
{
    const size_t got = fread(u->piece, 1, PIECE, u->file);

    if (ferror(u->file))
        return fail(why, CLI_IO, "cannot read %s: %s", text_name(u->path), strerror(errno));
    u->stream.next_in = u->piece;
    u->stream.avail_in = (unsigned)got;
    return CLI_OK;
}

/* Unpacks into the room that there is; *ended: a member of the file is complete. */
static enum exit_status unpack(struct unpacking *u, int *ended, struct failure *why)
{
    struct zlib_stream *s = &u->stream;
    size_t room;
    int result;

    TRY(make_room(u, why));
    room = u->capacity - 1 - u->used;
    room = room < MOST_ROOM ? room : MOST_ROOM;
    s->next_out = (unsigned char *)u->data + u->used;
    s->avail_out = (unsigned)room;
    result = u->zlib.inflate(s, 0);
    u->used += room - s->avail_out;
    *ended = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR)
        return out_of_memory(u, why);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        return broken(u, s->msg ? s->msg : "its bytes are not of this format", why);
    return CLI_OK;
}

/* Steps over zeros between members and behind the last one. */
static void skip_zeros(struct zlib_stream *s)
{
    while (s->avail_in > 0 && *s->next_in == 0)
        s->next_in++, s->avail_in--;
}

static enum exit_status unpack_all(struct unpacking *u, struct failure *why)
{
    int between = 0; /* no member has begun since one ended */

    for (;;) {
        if (u->stream.avail_in == 0)
            TRY(next_piece(u, why));
        if (between)
            skip_zeros(&u->stream);
        if (u->stream.avail_in == 0 && (between || feof(u->file))) {
            if (!between)
                return broken(u, "it ends too early", why);
            if (feof(u->file))
                return CLI_OK;
            continue;
        }
        if (between && u->zlib.reset(&u->stream) != Z_OK)
            return broken(u, "zlib cannot go on", why);
        TRY(unpack(u, &between, why));
    }
}

static enum exit_status read_stream(struct unpacking *u, struct failure *why)
{
    enum exit_status status;

    TRY(zlib_open(&u->zlib, u->path, why));
    u->capacity = FIRST_CAPACITY;
    u->data = malloc(u->capacity);
    if (!u->data || u->zlib.init(&u->stream, GZIP_WINDOW, "1.2.11", (int)sizeof u->stream) != Z_OK)
        return out_of_memory(u, why);
    status = unpack_all(u, why);
    u->zlib.end(&u->stream);
    return status;
}

enum exit_status gzip_read_stream(FILE *file, const char *path, const char *begin, size_t size,
                                  struct text *out, struct failure *why)
{
    struct unpacking *u = calloc(1, sizeof *u);
    enum exit_status status;

    *out = (struct text){NULL, 0};
    if (!u)
        return fail(why, CLI_NO_MEMORY, "out of memory for the contents of %s", text_name(path));
    u->file = file;
    u->path = path;
    memcpy(u->piece, begin, size);
    u->stream.next_in = u->piece;
    u->stream.avail_in = (unsigned)size;
    status = read_stream(u, why);
    if (status == CLI_OK) {
        u->data[u->used] = '\0';
        *out = (struct text){u->data, u->used};
    } else {
        free(u->data);
    }
    if (u->zlib.library)
        dlclose(u->zlib.library);
    free(u);
    return status;
}
