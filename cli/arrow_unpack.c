/*
 * arrow_unpack.c - unpacks buffers of Arrow files with the libraries of LZ4 and Zstandard
 *
 * They are opened when the first such buffer is read, so that gram needs neither where it is built
 * nor where no file is compressed.  The parts of their interfaces (lz4frame.h, since version 1.8.0,
 * and zstd.h, since version 1.0) that are used here are repeated.  A buffer is one frame of LZ4, or
 * frames of Zstandard.
 *
 * SPDX-License-Identifier: MIT
 */
#include "arrow_unpack.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#ifdef __APPLE__
#  define LIBRARY_OF_LZ4  "liblz4.1.dylib"
#  define LIBRARY_OF_ZSTD "libzstd.1.dylib"
#else
#  define LIBRARY_OF_LZ4  "liblz4.so.1"
#  define LIBRARY_OF_ZSTD "libzstd.so.1"
#endif

enum {
    LZ4F_VERSION = 100 /* of lz4frame.h: what a context is made for */
};

/* Functions of lz4frame.h and zstd.h */
typedef size_t lz4_create(void **context, unsigned version);
typedef size_t lz4_free(void *context);
typedef size_t lz4_unpack(void *context, void *to, size_t *to_size, const void *from,
                          size_t *from_size, const void *options);
typedef void lz4_reset(void *context);
typedef size_t zstd_unpack(void *to, size_t to_size, const void *from, size_t from_size);
typedef unsigned is_error(size_t code);

static enum exit_status open_library(void **library, const char *file, const char *name,
                                     const struct arrow_input *in, struct failure *why)
{
    if (!*library)
        *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (*library)
        return CLI_OK;
    return fail(why, CLI_UNSUPPORTED,
                "%s: %s has compressed this Arrow file, and its library (%s) is not on this "
                "machine; install it, or write the file without compression, as in pandas: "
                "to_feather(..., compression=\"uncompressed\")",
                text_name(in->path), name, file);
}

static enum exit_status lacks(const char *file, const struct arrow_input *in, struct failure *why)
{
    return fail(why, CLI_UNSUPPORTED, "%s: the library %s lacks functions of its interface",
                text_name(in->path), file);
}

/* Whether a frame of LZ4 gives exactly the bytes of `to`. */
static bool unpack_frame(lz4_unpack *function, is_error *failed, void *context,
                         const struct arrow_piece *p, unsigned char *to)
{
    size_t to_used = 0, from_used = 0, wanted = 1;

    while (wanted != 0) {
        size_t to_size = (size_t)p->size - to_used, from_size = (size_t)p->packed - from_used;
        wanted = function(context, to + to_used, &to_size, p->at + from_used, &from_size, NULL);
        if (failed(wanted) || (to_size == 0 && from_size == 0))
            return false;
        to_used += to_size;
        from_used += from_size;
    }
    return to_used == p->size && from_used == p->packed;
}

static enum exit_status unpack_lz4(struct arrow_unpacker *u, const struct arrow_input *in,
                                   const struct arrow_piece *p, void *to, struct failure *why)
{
    lz4_create *create;
    lz4_unpack *function;
    lz4_reset *reset;
    is_error *failed;

    TRY(open_library(&u->lz4, LIBRARY_OF_LZ4, "LZ4", in, why));
    *(void **)&create = dlsym(u->lz4, "LZ4F_createDecompressionContext");
    *(void **)&function = dlsym(u->lz4, "LZ4F_decompress");
    *(void **)&reset = dlsym(u->lz4, "LZ4F_resetDecompressionContext");
    *(void **)&failed = dlsym(u->lz4, "LZ4F_isError");
    if (!create || !function || !reset || !failed)
        return lacks(LIBRARY_OF_LZ4, in, why);
    if (!u->context && failed(create(&u->context, LZ4F_VERSION))) {
        u->context = NULL;
        return fail_memory(why, "LZ4");
    }
    reset(u->context);
    return unpack_frame(function, failed, u->context, p, to)
               ? CLI_OK
               : arrow_broken(in, why, "a buffer cannot be unpacked by LZ4");
}

static enum exit_status unpack_zstd(struct arrow_unpacker *u, const struct arrow_input *in,
                                    const struct arrow_piece *p, void *to, struct failure *why)
{
    zstd_unpack *function;

    TRY(open_library(&u->zstd, LIBRARY_OF_ZSTD, "Zstandard", in, why));
    *(void **)&function = dlsym(u->zstd, "ZSTD_decompress");
    if (!function)
        return lacks(LIBRARY_OF_ZSTD, in, why);
    return function(to, (size_t)p->size, p->at, (size_t)p->packed) == p->size
               ? CLI_OK
               : arrow_broken(in, why, "a buffer cannot be unpacked by Zstandard");
}

void arrow_unpacker_close(struct arrow_unpacker *u)
{
    lz4_free *function = NULL;

    if (u->context)
        *(void **)&function = dlsym(u->lz4, "LZ4F_freeDecompressionContext");
    if (function)
        (void)function(u->context);
    if (u->lz4)
        dlclose(u->lz4);
    if (u->zstd)
        dlclose(u->zstd);
    *u = (struct arrow_unpacker){.lz4 = NULL};
}

enum exit_status arrow_unpack(struct arrow_unpacker *u, const struct arrow_input *in,
                              struct arrow_piece *p, struct failure *why)
{
    enum exit_status status;

    if (p->codec == ARROW_PLAIN)
        return CLI_OK;
    p->memory = p->size > SIZE_MAX - 1 ? NULL : malloc((size_t)p->size + 1);
    if (!p->memory)
        return fail_memory(why, "a buffer of the table");
    status = p->codec == ARROW_LZ4 ? unpack_lz4(u, in, p, p->memory, why)
                                   : unpack_zstd(u, in, p, p->memory, why);
    p->at = p->memory;
    p->packed = p->size;
    p->codec = ARROW_PLAIN;
    return status;
}
