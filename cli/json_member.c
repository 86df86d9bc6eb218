/*
 * json_member.c - a member of a JSON object or an element of an array, found in its text
 *
 * SPDX-License-Identifier: MIT
 */
#include "json_member.h"
#include <string.h>

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* The end of the string that begins at `at`. */
static const char *skip_string(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        at += *at == '\\' && at[1];
    return at + (*at == '"');
}

/* The end of the value that begins at `at`, where its brackets are closed and a comma or another
 * closing bracket follows. */
static const char *skip_value(const char *at)
{
    int depth = 0;

    for (; *at; at = *at == '"' ? skip_string(at) : at + 1) {
        if (depth == 0 && strchr(",]}", *at))
            return at;
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
    }
    return at;
}

const char *json_member(const char *text, const char *name, size_t *length)
{
    const char *at = skip_blanks(text);

    if (*at != '{')
        return NULL;
    do {
        const char *key = skip_blanks(at + 1), *value;
        if (*key != '"')
            return NULL;
        value = skip_blanks(skip_string(key));
        if (*value != ':')
            return NULL;
        value = skip_blanks(value + 1);
        at = skip_value(value);
        if (strncmp(key + 1, name, strlen(name)) == 0 && key[1 + strlen(name)] == '"') {
            *length = (size_t)(at - value);
            return value;
        }
    } while (*at == ',');
    return NULL;
}

const char *json_element(const char *text, const char *before, size_t *length)
{
    const char *at = before ? skip_value(before) : skip_blanks(text);

    if (*at != (before ? ',' : '['))
        return NULL;
    at = skip_blanks(at + 1);
    if (!*at || *at == ']')
        return NULL;
    *length = (size_t)(skip_value(at) - at);
    return at;
}
