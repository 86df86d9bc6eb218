/*
 * npy_rows.h - rows of a .npy file that is not read whole
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_NPY_ROWS_H
#define GRAM_CLI_NPY_ROWS_H
#include "npy.h"

/* A file that is open; npy_rows_close when done. */
struct npy_rows {
    gram_rows rows; /* in f32 or f64; their user is this, which stays in place */
    struct npy file;
    int swapped; /* the elements are big-endian */
    const char *path;
    FILE *stream;  /* NULL: it is not open */
    int64_t begin; /* of the elements, in bytes */
    unsigned char *piece;
    size_t room;
};

/* Opens a regular file in the .npy format: its shape and type are then in out->file.  Anything else
 * leaves out->stream NULL, and is no failure. */
enum exit_status npy_rows_open(const char *path, struct npy_rows *out, struct failure *why);
/* Makes it a source of rows of a dtype; refuses what is no matrix by rows in the machine's byte
 * order. */
enum exit_status npy_rows_begin(struct npy_rows *r, gram_dtype dtype, struct failure *why);
/* The rows of these numbers to out, in the dtype. */
enum exit_status npy_rows_read(struct npy_rows *r, const int64_t *row, int64_t count, void *out,
                               struct failure *why);
void npy_rows_close(struct npy_rows *r);
#endif
