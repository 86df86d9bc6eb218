/*
 * json_text.c - JSON (RFC 8259), read strictly and written into a growing text
 *
 * SPDX-License-Identifier: MIT
 */
#include "json_text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading --------------------------------------------------------------------------------- */

static bool fail(struct json_reader *r, const char *expected)
{
    if (!r->error)
        r->error = expected;
    return false;
}

static void skip_space(struct json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

bool gram_json_accept(struct json_reader *r, char mark)
{
    if (r->error)
        return false;
    skip_space(r);
    if (r->at == r->end || *r->at != mark)
        return false;
    r->at++;
    return true;
}

bool gram_json_expect(struct json_reader *r, char mark)
{
    static const struct {
        char mark;
        const char *expected;
    } names[] = {
        {'{',        "'{'"},
        {'}', "',' or '}'"},
        {'[',        "'['"},
        {']', "',' or ']'"},
        {':',        "':'"},
        {',',        "','"}
    };

    if (gram_json_accept(r, mark))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].mark == mark)
            return fail(r, names[i].expected);
    return fail(r, "another character");
}

bool gram_json_finish(struct json_reader *r)
{
    if (r->error)
        return false;
    skip_space(r);
    return r->at == r->end || fail(r, "the end of the text");
}

size_t gram_json_utf8(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code;
    size_t length;

    if (size == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || length > size)
        return 0;
    code = s[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    return length;
}

/* Four hexadecimal digits; at stands behind "\u". */
static bool hex4(struct json_reader *r, uint32_t *out)
{
    uint32_t code = 0;

    if (r->end - r->at < 4)
        return fail(r, "four hexadecimal digits");
    for (int i = 0; i < 4; i++, r->at++) {
        char c = *r->at;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return fail(r, "four hexadecimal digits");
        code = code << 4 | digit;
    }
    *out = code;
    return true;
}

/* What follows "\u", as UTF-8 to *to: at most 4 bytes for at least 6 of the text. */
static bool unicode_escape(struct json_reader *r, char **to)
{
    uint32_t code, low;
    unsigned char *t = (unsigned char *)*to;

    if (!hex4(r, &code))
        return false;
    if (code >= 0xd800 && code < 0xe000) {
        if (code >= 0xdc00 || r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
            return fail(r, "a pair of surrogates");
        r->at += 2;
        if (!hex4(r, &low))
            return false;
        if (low < 0xdc00 || low >= 0xe000)
            return fail(r, "a pair of surrogates");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code == 0)
        return fail(r, "a string without \\u0000");
    if (code < 0x80) {
        *t++ = (unsigned char)code;
    } else if (code < 0x800) {
        *t++ = (unsigned char)(0xc0 | code >> 6);
        *t++ = (unsigned char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *t++ = (unsigned char)(0xe0 | code >> 12);
        *t++ = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        *t++ = (unsigned char)(0x80 | (code & 0x3f));
    } else {
        *t++ = (unsigned char)(0xf0 | code >> 18);
        *t++ = (unsigned char)(0x80 | (code >> 12 & 0x3f));
        *t++ = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        *t++ = (unsigned char)(0x80 | (code & 0x3f));
    }
    *to = (char *)t;
    return true;
}

static bool escape(struct json_reader *r, char **to)
{
    static const char from[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";

    r->at++; /* the backslash */
    if (r->at == r->end)
        return fail(r, "an escape");
    if (*r->at == 'u') {
        r->at++;
        return unicode_escape(r, to);
    }
    for (size_t i = 0; from[i]; i++)
        if (*r->at == from[i]) {
            *(*to)++ = meaning[i];
            r->at++;
            return true;
        }
    return fail(r, "an escape");
}

bool gram_json_string(struct json_reader *r, char **out)
{
    char *to;

    if (!gram_json_accept(r, '"'))
        return fail(r, "a string");
    *out = to = r->at;
    while (r->at < r->end && *r->at != '"') {
        size_t length;
        if ((unsigned char)*r->at < 0x20)
            return fail(r, "a string without control characters");
        if (*r->at == '\\') {
            if (!escape(r, &to))
                return false;
            continue;
        }
        length = gram_json_utf8(r->at, (size_t)(r->end - r->at));
        if (length == 0)
            return fail(r, "UTF-8");
        while (length--)
            *to++ = *r->at++;
    }
    if (r->at == r->end)
        return fail(r, "the end of the string");
    r->at++;
    *to = 0; /* at the closing quote or before it */
    return true;
}

bool gram_json_whole(struct json_reader *r, int64_t *out)
{
    int64_t value = 0;
    char *first;

    if (r->error)
        return false;
    skip_space(r);
    first = r->at;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *r->at - '0', &value))
            return fail(r, "a number below 2^63");
    if (r->at == first || (*first == '0' && r->at - first > 1))
        return fail(r, "a whole number");
    if (r->at < r->end && (*r->at == '.' || *r->at == 'e' || *r->at == 'E'))
        return fail(r, "a whole number");
    *out = value;
    return true;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void add_bytes(struct gram_json_text *t, const char *bytes, size_t count)
{
    if (!t->failed && t->length + count + 1 > t->capacity) {
        size_t capacity = 2 * (t->length + count + 64);
        char *data = realloc(t->data, capacity);

        t->failed = !data;
        t->data = data ? data : t->data;
        t->capacity = data ? capacity : t->capacity;
    }
    if (t->failed)
        return;
    memcpy(t->data + t->length, bytes, count);
    t->length += count;
    t->data[t->length] = 0;
}

void gram_json_add(struct gram_json_text *t, const char *text)
{
    add_bytes(t, text, strlen(text));
}

void gram_json_add_string(struct gram_json_text *t, const char *text)
{
    gram_json_add(t, "\"");
    for (const char *c = text; *c; c++) {
        char escape[8];

        if (*c == '"' || *c == '\\') {
            escape[0] = '\\', escape[1] = *c;
            add_bytes(t, escape, 2);
        } else if ((unsigned char)*c < 0x20) {
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*c);
            gram_json_add(t, escape);
        } else
            add_bytes(t, c, 1);
    }
    gram_json_add(t, "\"");
}

void gram_json_number(char *text, double value)
{
    size_t length = 0;
    int whole = value == floor(value) && fabs(value) < 1e15; /* 60, not 6e+01 */

    /* 17 digits, two signs, a separator and an exponent of 3 always fit. */
    for (int digits = whole ? 15 : 1; digits <= 17; digits++)
        if (snprintf(text, 32, "%.*g", digits, value) < 32 && strtod(text, NULL) == value)
            break;
    /* The locale's decimal separator, whatever its bytes, becomes one point. */
    for (const char *c = text; *c; c++)
        if (strchr("0123456789+-einfa", *c))
            text[length++] = *c;
        else if (length == 0 || text[length - 1] != '.')
            text[length++] = '.';
    text[length] = 0;
}

void gram_json_add_number(struct gram_json_text *t, double value)
{
    char text[32];

    gram_json_number(text, value);
    gram_json_add(t, isfinite(value) ? text : "null");
}

void gram_json_add_name(struct gram_json_text *t, const char *name)
{
    if (t->length > 0 && t->data[t->length - 1] != '{' && t->data[t->length - 1] != '[')
        gram_json_add(t, ", ");
    gram_json_add_string(t, name);
    gram_json_add(t, ": ");
}

void gram_json_add_pair(struct gram_json_text *t, const char *name, double value)
{
    gram_json_add_name(t, name);
    gram_json_add_number(t, value);
}

void gram_json_add_word(struct gram_json_text *t, const char *name, const char *word)
{
    gram_json_add_name(t, name);
    gram_json_add_string(t, word);
}
