/*
 * foreign.h - files of other formats, by how they begin and by how their names end
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_FOREIGN_H
#define GRAM_CLI_FOREIGN_H
#include "text.h"

/* Refuses text that is known to be something else, and says what turns it into text. */
enum exit_status foreign_refuse(const struct text *text, const char *path, struct failure *why);

/* The format that the end of an output's path promises and that gram does not write, or NULL. */
const char *foreign_ending(const char *path);
#endif
