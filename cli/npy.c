/*
 * npy.c - arrays in NumPy's .npy format, versions 1 to 3
 *
 * Memory for the elements grows with the bytes that were read, so a header that states more
 * elements than the file has costs nothing.
 *
 * SPDX-License-Identifier: MIT
 */
#include "npy.h"
#include "npy_header.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    HEADER_LIMIT = 1 << 16, /* bytes; numpy.load refuses above 10,000 */
    FIRST_BYTES = 1 << 20,
};

static const struct {
    const char *name;
    unsigned char size;
} types[] = {
    [NPY_BOOL] = {   "bool", 1},
      [NPY_I8] = {   "int8", 1},
      [NPY_I16] = {  "int16", 2},
    [NPY_I32] = {  "int32", 4},
      [NPY_I64] = {  "int64", 8},
      [NPY_U8] = {  "uint8", 1},
    [NPY_U16] = { "uint16", 2},
      [NPY_U32] = { "uint32", 4},
      [NPY_U64] = { "uint64", 8},
    [NPY_F16] = {"float16", 2},
      [NPY_F32] = {"float32", 4},
      [NPY_F64] = {"float64", 8},
};

size_t npy_type_size(enum npy_type type)
{
    return types[type].size;
}

const char *npy_type_name(enum npy_type type)
{
    return types[type].name;
}

/* Reads exactly size bytes; otherwise the error says which part is cut off. */
static enum exit_status read_exactly(FILE *file, const char *path, void *to, size_t size,
                                     const char *what, struct failure *why)
{
    size_t got = fread(to, 1, size, file);

    if (got == size)
        return CLI_OK;
    if (ferror(file))
        return fail(why, CLI_IO, "cannot read %s: %s", path, strerror(errno));
    return fail(why, CLI_BAD_DATA, "%s: the file ends inside the %s", path, what);
}

enum exit_status npy_read_header(FILE *file, const char *path, struct npy *out, int *swapped,
                                 struct failure *why)
{
    unsigned char start[12] = {0};
    size_t length;
    char *header;
    enum exit_status status;

    TRY(read_exactly(file, path, start, 10, "first 10 bytes", why));
    if (memcmp(start, "\x93NUMPY", 6) != 0)
        return fail(why, CLI_BAD_DATA, "%s is not a .npy file (it does not begin with \\x93NUMPY)",
                    path);
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return fail(why, CLI_BAD_DATA, "%s has .npy version %d.%d, expected 1.0, 2.0 or 3.0", path,
                    start[6], start[7]);
    if (start[6] > 1)
        TRY(read_exactly(file, path, start + 10, 2, "header", why));
    length = start[8] | (size_t)start[9] << 8 | (size_t)start[10] << 16 | (size_t)start[11] << 24;
    if (length > HEADER_LIMIT)
        return fail(why, CLI_BAD_DATA, "%s has a .npy header of %zu bytes, expected at most %d",
                    path, length, HEADER_LIMIT);
    header = malloc(length + 1);
    if (!header)
        return fail_memory(why, "the header of a .npy file");
    status = read_exactly(file, path, header, length, "header", why);
    header[length] = '\0';
    if (status == CLI_OK && strlen(header) != length)
        status = fail(why, CLI_BAD_DATA, "%s: bad .npy header: it contains a NUL byte", path);
    if (status == CLI_OK)
        status = npy_parse_header(header, path, out, swapped, why);
    free(header);
    return status;
}

/* If the length of the file is known, it must be that which follows from the header. */
static enum exit_status check_length(FILE *file, const char *path, int64_t bytes,
                                     struct failure *why)
{
    struct stat about;
    off_t here = ftello(file);

    if (here < 0 || fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode))
        return CLI_OK;
    if (about.st_size - here != bytes)
        return fail(why, CLI_BAD_DATA, "%s has %lld bytes after the header, expected %lld", path,
                    (long long)(about.st_size - here), (long long)bytes);
    return CLI_OK;
}

static enum exit_status read_elements(FILE *file, const char *path, size_t bytes, struct npy *out,
                                      struct failure *why)
{
    size_t capacity = bytes < FIRST_BYTES ? bytes : FIRST_BYTES, used = 0;

    TRY(check_length(file, path, (int64_t)bytes, why));
    for (;;) {
        unsigned char *larger = realloc(out->data, capacity + !capacity);
        if (!larger)
            return fail_memory(why, "the elements of a .npy file");
        out->data = larger;
        TRY(read_exactly(file, path, out->data + used, capacity - used, "elements", why));
        used = capacity;
        if (used == bytes)
            break;
        capacity = bytes - used < used ? bytes : used * 2;
    }
    if (fgetc(file) != EOF)
        return fail(why, CLI_BAD_DATA, "%s has more bytes than the %zu of its elements", path,
                    bytes);
    return CLI_OK;
}

static void swap_bytes(unsigned char *data, int64_t count, size_t size)
{
    for (int64_t i = 0; i < count; i++, data += size)
        for (size_t a = 0, b = size - 1; a < b; a++, b--) {
            unsigned char kept = data[a];
            data[a] = data[b];
            data[b] = kept;
        }
}

enum exit_status npy_read_stream(FILE *file, const char *path, struct npy *out, struct failure *why)
{
    int swapped = 0;
    int64_t bytes;
    enum exit_status status;

    *out = (struct npy){.ndim = 0};
    TRY(npy_read_header(file, path, out, &swapped, why));
    if (__builtin_mul_overflow(out->count, (int64_t)npy_type_size(out->type), &bytes) ||
        (uint64_t)bytes > SIZE_MAX)
        return fail(why, CLI_BAD_DATA, "%s: the number of elements overflows", path);
    status = read_elements(file, path, (size_t)bytes, out, why);
    if (status != CLI_OK) {
        free(out->data);
        out->data = NULL;
        return status;
    }
    if (swapped != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__))
        swap_bytes(out->data, out->count, npy_type_size(out->type));
    return CLI_OK;
}

enum exit_status npy_read(const char *path, struct npy *out, struct failure *why)
{
    FILE *file;
    enum exit_status status;

    *out = (struct npy){.ndim = 0};
    TRY(text_open(path, &file, why));
    status = npy_read_stream(file, text_name(path), out, why);
    text_close(file);
    return status;
}

/* IEEE binary16: 1 bit of sign, 5 of exponent, 10 of fraction. */
double npy_half(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double fraction = h & 1023, magnitude;

    if (exponent == 31)
        magnitude = fraction != 0 ? __builtin_nan("") : __builtin_inf();
    else if (exponent == 0)
        magnitude = fraction * 0x1p-24;
    else
        magnitude = (1024 + fraction) * __builtin_ldexp(1.0, exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

#define ELEMENT(type)                                                  \
  do {                                                                 \
    type value;                                                        \
    memcpy(&value, a->data + i * (int64_t)sizeof value, sizeof value); \
    return (double)value;                                              \
  } while (0)

double npy_get(const struct npy *a, int64_t i)
{
    switch (a->type) {
    case NPY_BOOL:
        return a->data[i] != 0;
    case NPY_I8:
        ELEMENT(int8_t);
    case NPY_I16:
        ELEMENT(int16_t);
    case NPY_I32:
        ELEMENT(int32_t);
    case NPY_I64:
        ELEMENT(int64_t);
    case NPY_U8:
        ELEMENT(uint8_t);
    case NPY_U16:
        ELEMENT(uint16_t);
    case NPY_U32:
        ELEMENT(uint32_t);
    case NPY_U64:
        ELEMENT(uint64_t);
    case NPY_F32:
        ELEMENT(float);
    case NPY_F64:
        ELEMENT(double);
    case NPY_F16: {
        uint16_t bits;
        memcpy(&bits, a->data + i * 2, 2);
        return npy_half(bits);
    }
    }
    return 0;
}
#undef ELEMENT

void npy_write_header(struct output *out, gram_dtype dtype, int ndim, const int64_t *shape)
{
    const char *descr = dtype == GRAM_F32   ? "<f4"
                        : dtype == GRAM_F64 ? "<f8"
                        : dtype == GRAM_I32 ? "<i4"
                                            : "<i8";
    char header[512];
    unsigned char start[10] = "\x93NUMPY\x01";
    int used = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                        descr);

    for (int d = 0; d < ndim; d++)
        used += snprintf(header + used, sizeof header - (size_t)used, "%lld,%s",
                         (long long)shape[d], d + 1 < ndim ? " " : "");
    used += snprintf(header + used, sizeof header - (size_t)used, "), }");
    while ((10 + used + 1) % 64 != 0)
        header[used++] = ' ';
    header[used++] = '\n';
    start[8] = (unsigned char)(used & 255);
    start[9] = (unsigned char)(used >> 8);
    output_write(out, start, sizeof start);
    output_write(out, header, (size_t)used);
}
