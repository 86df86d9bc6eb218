/*
 * npy.h - arrays in NumPy's .npy format, versions 1 to 3
 *
 * A file is 6 bytes of magic, 2 of version, the header's length (2 bytes, 4 from version 2 on,
 * little-endian), the header (a Python dict with exactly the keys descr, fortran_order and shape)
 * and the raw elements.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_NPY_H
#define GRAM_CLI_NPY_H
#include "output.h"
#include "text.h"

/* The element types that are read; anything else is refused by its name. */
enum npy_type {
    NPY_BOOL,
    NPY_I8,
    NPY_I16,
    NPY_I32,
    NPY_I64,
    NPY_U8,
    NPY_U16,
    NPY_U32,
    NPY_U64,
    NPY_F16,
    NPY_F32,
    NPY_F64,
};

struct npy {
    enum npy_type type;
    int fortran; /* the first index is the fastest */
    int ndim;
    int64_t shape[GRAM_MAX_DIMS];
    int64_t count;       /* product of the shape */
    unsigned char *data; /* count elements in the machine's byte order; free() when done */
};

/*
 * Reads a file, or standard input for "-", and checks that it holds exactly what its header says.
 * Big-endian elements are converted.
 */
enum exit_status npy_read(const char *path, struct npy *out, struct failure *why);

/* The same from an open file, which is left open; path is for messages. */
enum exit_status npy_read_stream(FILE *file, const char *path, struct npy *out,
                                 struct failure *why);

/* The header alone, up to the first element; swapped: the elements are big-endian. */
enum exit_status npy_read_header(FILE *file, const char *path, struct npy *out, int *swapped,
                                 struct failure *why);

/* Bytes of one element, and its name as in messages ("float32"). */
size_t npy_type_size(enum npy_type type);
const char *npy_type_name(enum npy_type type);

/* Element i, in the order of the file, as a double. */
double npy_get(const struct npy *a, int64_t i);

/* The value of an IEEE binary16. */
double npy_half(uint16_t h);

/* Writes the header (version 1) of a row-major little-endian array of f32, f64, i32 or i64. */
void npy_write_header(struct output *out, gram_dtype dtype, int ndim, const int64_t *shape);
#endif
