/*
 * terminal.h - the terminal behind a stream: its width, and whether it knows colours
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_TERMINAL_H
#define GRAM_CLI_TERMINAL_H
#include <stdbool.h>

/* The number of columns, or 0 if the descriptor is no terminal. */
int terminal_columns(int descriptor);

/* A terminal that obeys escape sequences: TERM is set, and is not "dumb". */
bool terminal_obeys(int descriptor);

/* Such a terminal, whose user has not asked for plain text with NO_COLOR (https://no-color.org). */
bool terminal_colours(int descriptor);
#endif
