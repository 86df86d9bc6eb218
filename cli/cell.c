/*
 * cell.c - what a text that is not a number looks like to a person: 3,14 or $1,234.56 or a date
 *
 * A number for people is a sign, digits that may be in groups of three, and a decimal mark with
 * further digits; before or behind it stands a unit.  A group separator is a comma, a point, an
 * apostrophe, a blank or a no-break blank, and is the same throughout.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cell.h"
#include "failure.h"
#include "src/machine/date.h"
#include <string.h>

static const char *const units[] = {"$",   "\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5", "US$",
                                    "USD", "EUR",          "GBP",      "JPY",      "CHF",
                                    "CNY", "CAD",          "AUD",      "INR",      "%"};

static const char *const separators[] = {",", ".", "'", " ", "\xc2\xa0", "\xe2\x80\xaf"};

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')
        at++;
    return at;
}

static const char *skip_digits(const char *at)
{
    while (is_digit(*at))
        at++;
    return at;
}

/* Steps over any one of the texts; NULL if none stands here. */
static const char *skip_one(const char *at, const char *const *texts, int count)
{
    const char *end = NULL;

    for (int i = 0; i < count; i++) {
        size_t size = strlen(texts[i]);
        if (strncmp(at, texts[i], size) == 0 && (!end || at + size > end))
            end = at + size;
    }
    return end;
}

/* Whether three digits, and no fourth, stand here. */
static int is_group(const char *at)
{
    return skip_digits(at) == at + 3;
}

/* Steps over the digits of a number; NULL if they are none. */
static const char *skip_number(const char *at, enum cell *kind)
{
    const char *first = at, *digits = skip_digits(at), *behind;
    char separator = '\0';
    int groups = 0;

    for (at = digits; digits > first && digits - first <= 3; at = behind + 3) {
        behind = skip_one(at, separators, LENGTH(separators));
        if (!behind || !is_group(behind) || (groups > 0 && *at != separator))
            break;
        separator = *at;
        groups++;
    }
    *kind = groups > 0 && separator != '.' ? CELL_THOUSANDS : CELL_NUMBER;
    if (groups > 1 && separator == '.')
        *kind = CELL_COMMA; /* 1.234.567 is written where the comma is decimal */
    if (groups == 1 && separator == ',')
        *kind = *first == '0' ? CELL_COMMA : CELL_EITHER;
    if ((*at != '.' && *at != ',') || (groups > 0 && *at == separator))
        return at > first ? at : NULL;
    behind = skip_digits(at + 1);
    if (behind == at + 1 && at == first)
        return NULL;
    *kind = *at == ',' ? CELL_COMMA : groups > 0 ? CELL_THOUSANDS : CELL_NUMBER;
    return behind;
}

static const char *skip_sign(const char *at)
{
    static const char *const signs[] = {"-", "+", "\xe2\x88\x92"};
    const char *end = skip_one(at, signs, LENGTH(signs));

    return skip_blanks(end ? end : at);
}

static enum cell number_of(const char *text)
{
    const char *at = skip_sign(skip_blanks(text)), *unit;
    enum cell kind;
    int has_unit;

    unit = skip_one(at, units, LENGTH(units));
    has_unit = unit != NULL;
    at = skip_number(has_unit ? skip_sign(skip_blanks(unit)) : at, &kind);
    if (!at)
        return CELL_TEXT;
    unit = has_unit ? NULL : skip_one(skip_blanks(at), units, LENGTH(units));
    if (*skip_blanks(unit ? unit : at))
        return CELL_TEXT;
    return has_unit || unit ? CELL_UNIT : kind;
}

int cell_dates(const char *text)
{
    int orders = 0;
    double ignored;

    for (int order = 0; order < GRAM_DATE_ORDERS; order++)
        orders |= gram_date_parse(text, (enum gram_date_order)order, &ignored) << order;
    return orders;
}

enum cell cell_of(const char *text)
{
    return cell_dates(text) ? CELL_DATE : number_of(text);
}
