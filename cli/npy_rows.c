/*
 * npy_rows.c - rows of a .npy file that is not read whole
 *
 * Pieces are read where they lie, and the system is told of the next one, which it reads while this
 * one is worked on.  A file that becomes shorter meanwhile is an error of reading, as it could not
 * be in a file that is mapped into memory.
 *
 * SPDX-License-Identifier: MIT
 */
#include "npy_rows.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum exit_status npy_rows_open(const char *path, struct npy_rows *out, struct failure *why)
{
    struct stat about;
    char magic[6];
    enum exit_status status;

    *out = (struct npy_rows){.path = path};
    if (strcmp(path, "-") == 0 || stat(path, &about) != 0 || !S_ISREG(about.st_mode))
        return CLI_OK;
    out->stream = fopen(path, "rb");
    if (!out->stream)
        return CLI_OK; /* who reads it whole says why not */
    if (fread(magic, 1, sizeof magic, out->stream) != sizeof magic ||
        memcmp(magic, "\x93NUMPY", sizeof magic) != 0) {
        npy_rows_close(out);
        return CLI_OK;
    }
    rewind(out->stream);
    status = npy_read_header(out->stream, path, &out->file, &out->swapped, why);
    out->begin = (int64_t)ftello(out->stream);
    if (status != CLI_OK)
        npy_rows_close(out);
    return status;
}

/* Reads bytes of the file at a place: 0, errno, or -1 where it ends before. */
static int read_at(const struct npy_rows *r, void *out, size_t bytes, int64_t at)
{
    char *to = out;

    while (bytes > 0) {
        ssize_t got = pread(fileno(r->stream), to, bytes, (off_t)at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : -1;
        to += got;
        at += got;
        bytes -= (size_t)got;
    }
    return 0;
}

static void convert(const struct npy_rows *r, int64_t count, void *out)
{
    struct npy piece = {.type = r->file.type, .data = r->piece};

    for (int64_t i = 0; i < count; i++)
        if (r->rows.dtype == GRAM_F32)
            ((float *)out)[i] = (float)npy_get(&piece, i);
        else
            ((double *)out)[i] = npy_get(&piece, i);
}

static int read_rows(void *user, int64_t first, int64_t count, void *out,
                     char message[GRAM_ROWS_MESSAGE])
{
    struct npy_rows *r = user;
    const size_t row = (size_t)r->rows.columns * npy_type_size(r->file.type);
    const size_t bytes = (size_t)count * row;
    const int64_t at = r->begin + first * (int64_t)row;
    int error;

    if (bytes > r->room) {
        unsigned char *larger = realloc(r->piece, bytes);

        if (!larger) {
            (void)snprintf(message, GRAM_ROWS_MESSAGE, "no memory for %zu bytes of %s", bytes,
                           r->path);
            return 1;
        }
        r->piece = larger;
        r->room = bytes;
    }
    error = read_at(r, r->piece, bytes, at);
    if (error) {
        (void)snprintf(message, GRAM_ROWS_MESSAGE, "%s: %s", r->path,
                       error > 0 ? strerror(error) : "it became shorter");
        return 1;
    }
#ifdef POSIX_FADV_WILLNEED
    (void)posix_fadvise(fileno(r->stream), (off_t)(at + (int64_t)bytes), (off_t)bytes,
                        POSIX_FADV_WILLNEED);
#endif
    convert(r, count * r->rows.columns, out);
    return 0;
}

enum exit_status npy_rows_begin(struct npy_rows *r, gram_dtype dtype, struct failure *why)
{
    struct stat about;
    int64_t bytes;

    if (r->file.ndim != 2)
        return fail(why, CLI_BAD_DATA, "%s has %d dimension%s, expected a matrix", r->path,
                    r->file.ndim, r->file.ndim == 1 ? "" : "s");
    if (r->file.fortran && r->file.shape[0] > 1 && r->file.shape[1] > 1)
        return fail(why, CLI_BAD_DATA,
                    "%s is in Fortran order, which cannot be read by rows: it needs more --memory, "
                    "or to be saved in C order",
                    r->path);
    if (r->swapped != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__))
        return fail(why, CLI_BAD_DATA,
                    "%s is in the byte order of another machine, which is read whole alone: it "
                    "needs more --memory, or to be saved in this one's",
                    r->path);
    if (__builtin_mul_overflow(r->file.count, (int64_t)npy_type_size(r->file.type), &bytes))
        return fail(why, CLI_BAD_DATA, "%s: the number of elements overflows", r->path);
    if (fstat(fileno(r->stream), &about) != 0)
        return fail(why, CLI_IO, "cannot read %s: %s", r->path, strerror(errno));
    if (about.st_size - r->begin != bytes)
        return fail(why, CLI_BAD_DATA, "%s has %lld bytes after the header, expected %lld", r->path,
                    (long long)(about.st_size - r->begin), (long long)bytes);
    r->rows = (gram_rows)GRAM_ROWS_INIT;
    r->rows.rows = r->file.shape[0];
    r->rows.columns = r->file.shape[1];
    r->rows.dtype = dtype;
    r->rows.read = read_rows;
    r->rows.user = r;
    return CLI_OK;
}

enum exit_status npy_rows_read(struct npy_rows *r, const int64_t *row, int64_t count, void *out,
                               struct failure *why)
{
    const size_t bytes = (size_t)r->rows.columns * gram_dtype_size(r->rows.dtype);
    char message[GRAM_ROWS_MESSAGE] = "";

    for (int64_t i = 0; i < count; i++)
        if (read_rows(r, row[i], 1, (char *)out + (size_t)i * bytes, message))
            return fail(why, CLI_IO, "cannot read %s", message);
    return CLI_OK;
}

void npy_rows_close(struct npy_rows *r)
{
    if (r->stream)
        (void)fclose(r->stream);
    free(r->piece);
    *r = (struct npy_rows){.path = NULL};
}
