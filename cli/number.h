/*
 * number.h - numbers to and from text, whatever the locale
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_NUMBER_H
#define GRAM_CLI_NUMBER_H

enum {
    NUMBER_TEXT = 32 /* bytes that hold any number as text, NUL included */
};

/*
 * Reads the longest decimal number ("-12", "3.5e-7", ".5", "inf") that starts at text, correctly
 * rounded, and returns where it ends, or NULL if none starts here.  text must end in a byte that
 * is no part of a number, a NUL at the latest.  NaN and hexadecimal are no numbers here.
 */
const char *number_parse(const char *text, double *value);

/* Whether all of a text is such a number. */
int number_parse_all(const char *text, double *value);

/*
 * Writes a text that reads back as exactly value: 15 digits (6 of a float), or the few more
 * that it takes; "nan", "inf", "-inf" for the rest.
 */
void number_format(char text[NUMBER_TEXT], double value);
void number_format_float(char text[NUMBER_TEXT], float value);
#endif
