/*
 * npy_header.c - the Python dict at the start of a .npy file
 *
 * The grammar is that which numpy.save writes, and nothing more:
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *
 * SPDX-License-Identifier: MIT
 */
#include "npy_header.h"
#include <string.h>

struct cursor {
    const char *at, *path;
    struct failure *why;
};

static const struct {
    char code[3];
    enum npy_type type;
} types[] = {
    {"b1", NPY_BOOL},
    {"i1",   NPY_I8},
    {"i2",  NPY_I16},
    {"i4",  NPY_I32},
    {"i8",  NPY_I64},
    {"u1",   NPY_U8},
    {"u2",  NPY_U16},
    {"u4",  NPY_U32},
    {"u8",  NPY_U64},
    {"f2",  NPY_F16},
    {"f4",  NPY_F32},
    {"f8",  NPY_F64},
};

__attribute__((cold)) static enum exit_status bad(const struct cursor *c, const char *expected)
{
    char quoted[TEXT_QUOTED];

    return fail(c->why, CLI_BAD_DATA, "%s: bad .npy header: expected %s, found %s", c->path,
                expected, text_quote(quoted, c->at, c->at + strlen(c->at)));
}

static void skip_blanks(struct cursor *c)
{
    c->at += strspn(c->at, " \t\n");
}

/* Steps over the character, if it is the next one that is not blank. */
static int accept(struct cursor *c, char wanted)
{
    skip_blanks(c);
    if (*c->at != wanted)
        return 0;
    c->at++;
    return 1;
}

/* A string without escapes in single or double quotes; its bytes stay in the header. */
static enum exit_status parse_string(struct cursor *c, const char **text, size_t *size)
{
    const char *close;

    skip_blanks(c);
    if (*c->at != '\'' && *c->at != '"')
        return bad(c, "a string");
    close = strchr(c->at + 1, *c->at);
    if (!close || memchr(c->at + 1, '\\', (size_t)(close - c->at - 1)))
        return bad(c, "a string without escapes that ends");
    *text = c->at + 1;
    *size = (size_t)(close - *text);
    c->at = close + 1;
    return CLI_OK;
}

static enum exit_status parse_descr(struct cursor *c, struct npy *out, int *swapped)
{
    const char *descr;
    char quoted[TEXT_QUOTED];
    size_t size;

    skip_blanks(c);
    if (*c->at == '[')
        return fail(c->why, CLI_BAD_DATA, "%s is a structured array, expected a plain number type",
                    c->path);
    TRY(parse_string(c, &descr, &size));
    for (int i = 0; size == 3 && strchr("<>|=", descr[0]) && i < LENGTH(types); i++)
        if (memcmp(descr + 1, types[i].code, 2) == 0) {
            out->type = types[i].type;
            *swapped = descr[0] == '>';
            return CLI_OK;
        }
    return fail(c->why, CLI_BAD_DATA,
                "%s has elements of type %s, expected float16, float32, float64, an integer or "
                "bool",
                c->path, text_quote(quoted, descr, descr + size));
}

static enum exit_status parse_bool(struct cursor *c, int *value)
{
    skip_blanks(c);
    *value = strncmp(c->at, "True", 4) == 0;
    if (!*value && strncmp(c->at, "False", 5) != 0)
        return bad(c, "True or False");
    c->at += *value ? 4 : 5;
    return CLI_OK;
}

static enum exit_status parse_size(struct cursor *c, int64_t *size)
{
    skip_blanks(c);
    if (*c->at < '0' || *c->at > '9')
        return bad(c, "a size");
    for (*size = 0; *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*size, 10, size) ||
            __builtin_add_overflow(*size, *c->at - '0', size))
            return bad(c, "a size below 2^63");
    return CLI_OK;
}

/* (), (3,), (3, 4) or (3, 4,); the product of the sizes, zeros left out, stays below 2^63. */
static enum exit_status parse_shape(struct cursor *c, struct npy *out)
{
    int64_t product = 1;
    int comma = 1;

    if (!accept(c, '('))
        return bad(c, "a shape such as (3, 4)");
    for (out->ndim = 0; !accept(c, ')'); out->ndim++) {
        if (!comma)
            return bad(c, "a comma");
        if (out->ndim == GRAM_MAX_DIMS)
            return fail(c->why, CLI_BAD_DATA, "%s has more than %d dimensions", c->path,
                        GRAM_MAX_DIMS);
        int64_t *size = &out->shape[out->ndim];
        TRY(parse_size(c, size));
        if (*size && __builtin_mul_overflow(product, *size, &product))
            return fail(c->why, CLI_BAD_DATA, "%s: the number of elements overflows", c->path);
        comma = accept(c, ',');
    }
    if (out->ndim == 1 && !comma)
        return bad(c, "a comma after the only size"); /* (3) is a number in Python */
    out->count = product;
    for (int d = 0; d < out->ndim; d++)
        if (out->shape[d] == 0)
            out->count = 0;
    return CLI_OK;
}

static enum exit_status parse_item(struct cursor *c, struct npy *out, int *swapped, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    const char *key;
    size_t size;
    int k = 0;

    TRY(parse_string(c, &key, &size));
    while (k < 3 && (strlen(keys[k]) != size || memcmp(keys[k], key, size) != 0))
        k++;
    if (k == 3 || *seen & 1U << k) {
        c->at = key - 1;
        return bad(c, "each of descr, fortran_order and shape once");
    }
    *seen |= 1U << k;
    if (!accept(c, ':'))
        return bad(c, "a colon");
    return k == 0   ? parse_descr(c, out, swapped)
           : k == 1 ? parse_bool(c, &out->fortran)
                    : parse_shape(c, out);
}

enum exit_status npy_parse_header(const char *header, const char *path, struct npy *out,
                                  int *swapped, struct failure *why)
{
    struct cursor c = {header, path, why};
    unsigned seen = 0;
    int comma = 1;

    if (!accept(&c, '{'))
        return bad(&c, "{");
    while (!accept(&c, '}')) {
        if (!comma)
            return bad(&c, "a comma");
        TRY(parse_item(&c, out, swapped, &seen));
        comma = accept(&c, ',');
    }
    skip_blanks(&c);
    if (*c.at)
        return bad(&c, "nothing after }");
    if (seen != 7)
        return fail(why, CLI_BAD_DATA,
                    "%s: bad .npy header: descr, fortran_order or shape is missing", path);
    return CLI_OK;
}
