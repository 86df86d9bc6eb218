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
    CELL_DATE,      /* what src/machine/date.h reads, in any order of day, month and year */
    CELL_KINDS
};

/* Blanks around the text do not count. */
enum cell cell_of(const char *text);

/* The orders in which the text is a date: 1 << an enum gram_date_order, added up. */
int cell_dates(const char *text);
#endif
