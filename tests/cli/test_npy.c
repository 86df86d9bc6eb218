/*
 * test_npy.c - .npy arrays: every element type, both orders, and files that lie
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "cli/npy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum exit_status read_bytes(const void *bytes, size_t size, struct npy *out,
                                   struct failure *why)
{
    FILE *file = fmemopen((void *)(uintptr_t)bytes, size, "rb");
    enum exit_status status;

    *why = (struct failure){""};
    if (!file)
        exit(2);
    status = npy_read_stream(file, "a.npy", out, why);
    fclose(file);
    return status;
}

/* A version 1 file with this header and these elements. */
static size_t file_with(char *out, const char *header, const void *elements, size_t bytes)
{
    size_t length = strlen(header);

    memcpy(out, "\x93NUMPY\x01\0", 8);
    out[8] = (char)(length & 255);
    out[9] = (char)(length >> 8);
    memcpy(out + 10, header, length);
    memcpy(out + 10 + length, elements, bytes);
    return 10 + length + bytes;
}

#define HEADER(descr, order, shape) \
  "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }\n"

/* clang-format off */
static const struct {
    const char *header, *bytes;
    size_t size;
    enum npy_type type;
    double first, last;
} types[] = {
    {HEADER("|b1", "False", "(2,)"), "\0\2", 2, NPY_BOOL, 0, 1},
    {HEADER("|i1", "False", "(2,)"), "\x80\x7f", 2, NPY_I8, -128, 127},
    {HEADER("<i2", "False", "(2,)"), "\0\x80\xff\x7f", 4, NPY_I16, -32768, 32767},
    {HEADER(">i2", "False", "(2,)"), "\x80\0\x7f\xff", 4, NPY_I16, -32768, 32767},
    {HEADER("<i4", "False", "(2,)"), "\1\0\0\0\0\0\0\x80", 8, NPY_I32, 1, -2147483648.0},
    {HEADER("<i8", "False", "(1,)"), "\0\0\0\0\0\0\0\x80", 8, NPY_I64, -0x1p63, -0x1p63},
    {HEADER("|u1", "False", "(2,)"), "\0\xff", 2, NPY_U8, 0, 255},
    {HEADER("<u2", "False", "(1,)"), "\xff\xff", 2, NPY_U16, 65535, 65535},
    {HEADER(">u4", "False", "(1,)"), "\0\0\1\0", 4, NPY_U32, 256, 256},
    {HEADER("<u8", "False", "(1,)"), "\0\0\0\0\0\0\0\x80", 8, NPY_U64, 0x1p63, 0x1p63},
    {HEADER("<f2", "False", "(2,)"), "\0\x3c\1\x80", 4, NPY_F16, 1, -0x1p-24},
    {HEADER("<f2", "False", "(2,)"), "\xff\x7b\0\xfc", 4, NPY_F16, 65504, -INFINITY},
    {HEADER("<f4", "False", "(2,)"), "\0\0\x80\x3f\0\0\0\xc0", 8, NPY_F32, 1, -2},
    {HEADER(">f4", "False", "(1,)"), "\x3f\x80\0\0", 4, NPY_F32, 1, 1},
    {HEADER("<f8", "False", "(1,)"), "\0\0\0\0\0\0\xf8\x3f", 8, NPY_F64, 1.5, 1.5},
    {HEADER(">f8", "True", "(1,)"), "\x3f\xf8\0\0\0\0\0\0", 8, NPY_F64, 1.5, 1.5},
};
/* clang-format on */

static void test_types(struct harness *h)
{
    for (int i = 0; i < LENGTH(types); i++) {
        char bytes[256];
        size_t size = file_with(bytes, types[i].header, types[i].bytes, types[i].size);
        struct npy a;
        struct failure why;
        h->where = types[i].header;
        if (!CHECK(h, read_bytes(bytes, size, &a, &why) == CLI_OK, "%s", why.text))
            continue;
        CHECK(h, a.type == types[i].type && a.ndim == 1, "type %d", (int)a.type);
        CHECK(h, npy_get(&a, 0) == types[i].first, "first is %g", npy_get(&a, 0));
        CHECK(h, npy_get(&a, a.count - 1) == types[i].last, "last is %g", npy_get(&a, a.count - 1));
        free(a.data);
    }
}

/* Headers that are right though numpy does not write them so. */
static void test_headers(struct harness *h)
{
    /* clang-format off */
    static const struct {
        const char *header;
        int ndim;
        int64_t shape[3];
    } rows[] = {
        {HEADER("<f8", "False", "()"), 0, {0}},
        {HEADER("<f8", "False", "(1, 1,)"), 2, {1, 1}},
        {"{ 'shape' : ( 1 , 1 , 1 ) , 'descr':'<f8','fortran_order':True}", 3, {1, 1, 1}},
        {"{\"descr\": \"<f8\", \"fortran_order\": False, \"shape\": (1,)}\n\n", 1, {1}},
    };
    /* clang-format on */

    for (int i = 0; i < LENGTH(rows); i++) {
        char bytes[256];
        size_t size = file_with(bytes, rows[i].header, "\0\0\0\0\0\0\xf8\x3f", 8);
        struct npy a;
        struct failure why;
        h->where = rows[i].header;
        if (!CHECK(h, read_bytes(bytes, size, &a, &why) == CLI_OK, "%s", why.text))
            continue;
        CHECK(h, a.ndim == rows[i].ndim && npy_get(&a, 0) == 1.5, "%d dimensions", a.ndim);
        for (int d = 0; d < a.ndim; d++)
            CHECK(h, a.shape[d] == rows[i].shape[d], "size %d", d);
        free(a.data);
    }
}

/* clang-format off */
static const struct {
    const char *header, *message;
} bad[] = {
    {HEADER("|O","False", "(1,)"),
     "a.npy has elements of type \"|O\", expected float16, float32, float64, an integer or bool"},
    {HEADER("<c8", "False", "(1,)"),
     "a.npy has elements of type \"<c8\", expected float16, float32, float64, an integer or bool"},
    {"{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (1,), }",
     "a.npy is a structured array, expected a plain number type"},
    {HEADER("<f8", "False", "(2,)"), "a.npy: the file ends inside the elements"},
    {HEADER("<f8", "False", "(0, 3)"), "a.npy has more bytes than the 0 of its elements"},
    {HEADER("<f8", "False", "(1000000000000,)"), "a.npy: the file ends inside the elements"},
    {HEADER("<f8", "False", "(4611686018427387904, 4)"),
     "a.npy: the number of elements overflows"},
    {HEADER("<f8", "False", "(4611686018427387904,)"),
     "a.npy: the number of elements overflows"},
    {HEADER("<f8", "False", "(99999999999999999999,)"),
     "a.npy: bad .npy header: expected a size below 2^63, found \"99,), }?\""},
    {HEADER("<f8", "False", "(-1,)"),
     "a.npy: bad .npy header: expected a size, found \"-1,), }?\""},
    {HEADER("<f8", "False", "(1)"),
     "a.npy: bad .npy header: expected a comma after the only size, found \", }?\""},
    {HEADER("<f8", "False", "(1,1,1,1,1,1,1,1,1)"), "a.npy has more than 8 dimensions"},
    {HEADER("<f8", "0", "(1,)"),
     "a.npy: bad .npy header: expected True or False, found \"0, 'shape': (1,), }?\""},
    {"{'descr': '<f8', 'shape': (1,), }",
     "a.npy: bad .npy header: descr, fortran_order or shape is missing"},
    {"{'descr': '<f8', 'descr': '<f8'}",
     "a.npy: bad .npy header: expected each of descr, fortran_order and shape once, found "
     "\"'descr': '<f8'}\""},
    {"{'more': 1}",
     "a.npy: bad .npy header: expected each of descr, fortran_order and shape once, found "
     "\"'more': 1}\""},
    {"{'descr': '<f8' 'fortran_order': False}",
     "a.npy: bad .npy header: expected a comma, found \"'fortran_order': False}\""},
    {"", "a.npy: bad .npy header: expected {, found \"????????\""},
};
/* clang-format on */

static void test_bad(struct harness *h)
{
    for (int i = 0; i < LENGTH(bad); i++) {
        char bytes[256];
        size_t size = file_with(bytes, bad[i].header, "\1\1\1\1\1\1\1\1", 8);
        struct npy a;
        struct failure why;
        h->where = bad[i].header;
        if (bad[i].header[0] == '\0')
            bytes[8] = 8; /* the header is what else would be elements */
        CHECK(h, read_bytes(bytes, size, &a, &why) == CLI_BAD_DATA, "not refused");
        CHECK(h, strcmp(why.text, bad[i].message) == 0, "said %s", why.text);
        CHECK(h, a.data == NULL, "memory is left");
    }
}

/* Every prefix of a good file is refused. */
static void test_truncated(struct harness *h)
{
    char bytes[256];
    size_t size = file_with(bytes, HEADER("<f8", "False", "(1,)"), "\0\0\0\0\0\0\xf8\x3f", 8);

    h->where = "prefixes";
    for (size_t cut = 1; cut < size; cut++) {
        struct npy a;
        struct failure why;
        CHECK(h, read_bytes(bytes, cut, &a, &why) == CLI_BAD_DATA, "%zu bytes were read", cut);
        CHECK(h, strstr(why.text, "the file ends inside the ") != NULL, "said %s", why.text);
    }
    bytes[6] = 4;
    struct npy a;
    struct failure why;
    CHECK(h, read_bytes(bytes, size, &a, &why) == CLI_BAD_DATA, "version 4 was read");
    CHECK(h, strcmp(why.text, "a.npy has .npy version 4.0, expected 1.0, 2.0 or 3.0") == 0,
          "said %s", why.text);
    bytes[0] = 'x';
    CHECK(h, read_bytes(bytes, size, &a, &why) == CLI_BAD_DATA, "other bytes were read");
    CHECK(h, strstr(why.text, "not a .npy file") != NULL, "said %s", why.text);
}

/* What npy_write_header writes is read back, aligned to 64 bytes, for any shape. */
static void test_written(struct harness *h)
{
    static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64, GRAM_I32, GRAM_I64};
    static const enum npy_type wanted[] = {NPY_F32, NPY_F64, NPY_I32, NPY_I64};
    const int64_t shape[GRAM_MAX_DIMS] = {0, 1, 1234567890123, 2, 3, 4, 5, 6};

    h->where = "what was written";
    for (int i = 0; i < LENGTH(dtypes); i++)
        for (int ndim = 0; ndim <= GRAM_MAX_DIMS; ndim++) {
            char bytes[1024] = "";
            struct output out = {.stream = fmemopen(bytes, sizeof bytes, "wb"), .slot = -1};
            struct npy a;
            struct failure why;
            npy_write_header(&out, dtypes[i], ndim, shape);
            long size = ftell(out.stream);
            fclose(out.stream);
            CHECK(h, size % 64 == 0, "%ld bytes", size);
            if (ndim == 0)
                size += (long)npy_type_size(wanted[i]);
            if (!CHECK(h, read_bytes(bytes, (size_t)size, &a, &why) == CLI_OK, "%s", why.text))
                continue;
            CHECK(h, a.type == wanted[i] && a.ndim == ndim && !a.fortran, "type %d", (int)a.type);
            CHECK(h, memcmp(a.shape, shape, (size_t)ndim * sizeof *shape) == 0, "shape");
            free(a.data);
        }
}

int main(void)
{
    struct harness h = {.isa = "none", .random = 1};

    test_types(&h);
    test_headers(&h);
    test_bad(&h);
    test_truncated(&h);
    test_written(&h);
    printf("test_npy: %d checks, %d failures\n", h.checks, h.failures);
    return h.failures != 0;
}
