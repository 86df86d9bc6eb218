/*
 * json.c - writes JSON, one value after the other
 *
 * SPDX-License-Identifier: MIT
 */
#include "json.h"
#include "number.h"
#include "text.h"
#include <math.h>
#include <string.h>

static void new_line(struct json *j)
{
    output_text(j->out, "\n");
    for (int i = 0; i < j->depth; i++)
        output_text(j->out, "  ");
}

static void write_string(struct json *j, const char *text)
{
    const char *end = text + strlen(text);
    const char *bad = text_find_invalid_utf8(text, end);

    output_text(j->out, "\"");
    for (; text < end; text++) {
        unsigned char c = (unsigned char)*text;
        if (text == bad) {
            output_text(j->out, "\\ufffd");
            bad = text_find_invalid_utf8(text + 1, end);
        } else if (c == '"' || c == '\\') {
            output_format(j->out, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            output_format(j->out, "\\u%04x", c);
        } else if (c == 0xc2 && (unsigned char)text[1] < 0xa0) { /* U+0080 to U+009F */
            output_format(j->out, "\\u%04x", (unsigned char)*++text);
        } else {
            output_write(j->out, text, 1);
        }
    }
    output_text(j->out, "\"");
}

/* What stands between the value before and this one. */
static void begin_value(struct json *j, const char *key)
{
    if (j->depth > 0) {
        int flat = j->flat && j->depth >= j->flat;
        if (j->level[j->depth].count++ > 0)
            output_text(j->out, flat ? ", " : ",");
        if (!flat)
            new_line(j);
    }
    if (key) {
        write_string(j, key);
        output_text(j->out, ": ");
    }
}

static void open_level(struct json *j, const char *key, char open, char close, int flat)
{
    begin_value(j, key);
    output_write(j->out, &open, 1);
    j->depth++;
    j->level[j->depth].close = close;
    j->level[j->depth].count = 0;
    if (flat && !j->flat)
        j->flat = j->depth;
}

void json_object(struct json *j, const char *key)
{
    open_level(j, key, '{', '}', 0);
}

void json_array(struct json *j, const char *key)
{
    open_level(j, key, '[', ']', 0);
}

void json_flat_object(struct json *j, const char *key)
{
    open_level(j, key, '{', '}', 1);
}

void json_flat_array(struct json *j, const char *key)
{
    open_level(j, key, '[', ']', 1);
}

void json_end(struct json *j)
{
    int flat = j->flat && j->depth >= j->flat, empty = j->level[j->depth].count == 0;
    char close = j->level[j->depth].close;

    if (j->flat == j->depth)
        j->flat = 0;
    j->depth--;
    if (!flat && !empty)
        new_line(j);
    output_write(j->out, &close, 1);
    if (j->depth == 0)
        output_text(j->out, "\n");
}

void json_number(struct json *j, const char *key, double value)
{
    char text[NUMBER_TEXT];

    begin_value(j, key);
    number_format(text, value);
    output_text(j->out, isfinite(value) ? text : "null");
}

void json_float(struct json *j, const char *key, float value)
{
    char text[NUMBER_TEXT];

    begin_value(j, key);
    number_format_float(text, value);
    output_text(j->out, isfinite(value) ? text : "null");
}

void json_raw(struct json *j, const char *key, const char *text, size_t size)
{
    begin_value(j, key);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] == 0xc2 && i + 1 < size && (unsigned char)text[i + 1] < 0xa0)
            output_format(j->out, "\\u%04x", (unsigned char)text[++i]); /* as write_string does */
        else
            output_write(j->out, text + i, 1);
}

void json_integer(struct json *j, const char *key, int64_t value)
{
    begin_value(j, key);
    output_format(j->out, "%lld", (long long)value);
}

void json_bool(struct json *j, const char *key, int value)
{
    begin_value(j, key);
    output_text(j->out, value ? "true" : "false");
}

void json_string(struct json *j, const char *key, const char *value)
{
    begin_value(j, key);
    if (value)
        write_string(j, value);
    else
        output_text(j->out, "null");
}
