/*
 * foreign.h - files of other formats, by how they begin and by how their names end
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_FOREIGN_H
#define GRAM_CLI_FOREIGN_H
#include "text.h"

/* Refuses input that is known to be of another format, and says how to convert it to text. */
enum exit_status foreign_refuse(const struct text *text, const char *path, struct failure *why);

/* The format that the ending of an output's path names and that gram does not write, or NULL. */
const char *foreign_ending(const char *path);
#endif
