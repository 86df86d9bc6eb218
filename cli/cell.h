/*
 * cell.h - what a text that is not a number looks like to a person: 3,14 or $1,234.56 or a date
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_CELL_H
#define GRAM_CLI_CELL_H

enum cell {
    CELL_TEXT,      /* none of the below */
    CELL_NUMBER,    /* 3.14 */
    CELL_POINT,     /* 3.14 where the comma is decimal; cell_of calls it a number */
    CELL_COMMA,     /* 3,14 and 1.234,5: the comma can only be a decimal one */
    CELL_THOUSANDS, /* 1,234.5 and 1'234: the point is decimal, or there is none */
    CELL_EITHER,    /* 1,234: thousands, or a decimal comma */
    CELL_UNIT,      /* a number with the sign of a currency, its three letters, or % */
    CELL_DATE,      /* 2024-03-01, 2024-03-01T12:30, 1.3.2024, 3/1/24 */
    CELL_KINDS
};

/* Blanks around the text do not count. */
enum cell cell_of(const char *text);
#endif
