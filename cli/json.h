/*
 * json.h - writes JSON, one value after the other
 *
 * Within an object every value has a key; within an array and at the top key is NULL.  Numbers
 * read back as exactly the same double; NaN and infinity, which JSON lacks, are null.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_JSON_H
#define GRAM_CLI_JSON_H
#include "output.h"

enum {
    JSON_MAX_DEPTH = 16
};

struct json {
    struct output *out;
    int depth;
    int flat; /* depth from which on everything stays on one line; 0: none */
    struct {
        char close; /* '}' or ']' */
        int count;  /* of values so far */
    } level[JSON_MAX_DEPTH];
};

static inline struct json json_to(struct output *out)
{
    struct json j = {.out = out};
    return j;
}

void json_object(struct json *j, const char *key);
void json_array(struct json *j, const char *key);
/* The same on one line. */
void json_flat_object(struct json *j, const char *key);
void json_flat_array(struct json *j, const char *key);
/* Closes the innermost object or array; the last one ends the line. */
void json_end(struct json *j);

void json_number(struct json *j, const char *key, double value);
void json_float(struct json *j, const char *key, float value);
void json_integer(struct json *j, const char *key, int64_t value);
void json_bool(struct json *j, const char *key, int value);
/* NULL is null.  Bytes that are not UTF-8 become U+FFFD. */
void json_string(struct json *j, const char *key, const char *value);
/* A value that is JSON already. */
void json_raw(struct json *j, const char *key, const char *text, size_t size);
#endif
