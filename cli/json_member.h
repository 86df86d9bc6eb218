/*
 * json_member.h - a member of a JSON object or an element of an array, found in its text
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_JSON_MEMBER_H
#define GRAM_CLI_JSON_MEMBER_H
#include <stddef.h>

/*
 * The value of the member `name` (which needs no escapes) of the object that text is; members of
 * members do not count.  Returns where the value begins and its length, or NULL if there is none.
 * Text that is no JSON is read to its end at most.
 */
const char *json_member(const char *text, const char *name, size_t *length);

/* The element of the array that text is which follows `before`, another one (NULL: the first), and
 * its length; NULL if there is none. */
const char *json_element(const char *text, const char *before, size_t *length);
#endif
