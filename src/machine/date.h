/*
 * date.h - texts that are dates, as days since 1970-01-01 (UTC where the text has a zone)
 *
 *   2024-03-01   2024/3/1   2024.03.01                       year, month, day
 *   1.3.2024     01/03/2024   1-3-24                         day, month, year
 *   3/1/2024     03-01-24                                    month, day, year
 * A time of day may follow after a blank or T: 12:30, 12:30:15, 12:30:15.250, and after it a zone:
 * Z, +01, +0100 or +01:00.  Years of two digits are 1969 to 2068, as in POSIX.  The calendar is the
 * Gregorian one, also before 1582.  Blanks around the text do not count.
 *
 * The functions are inline because the library encodes dates and the command line remarks on them.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_DATE_H
#define GRAM_DATE_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum gram_date_order {
    GRAM_DATE_YMD,
    GRAM_DATE_DMY,
    GRAM_DATE_MDY,
    GRAM_DATE_ORDERS
};

/* Reads least to most digits; returns how many, 0 if there are fewer or more. */
static inline int gram_date_digits(const char *at, int least, int most, int *value)
{
    int count = 0;

    *value = 0;
    while (at[count] >= '0' && at[count] <= '9' && count <= most)
        *value = 10 * *value + (at[count++] - '0');
    return count < least || count > most ? 0 : count;
}

/* Days from 1970-01-01 to the first of March of a year that begins there, and on: the leap day is
 * the last of such a year. */
static inline int64_t gram_date_days(int year, int month, int day)
{
    const int64_t y = year - (month <= 2), m = (month + 9) % 12;

    /* Years 0 to 9999: floor is truncation, but for the year -1 of January of the year 0. */
    return 365 * y + (y + 400) / 4 - 100 - ((y + 400) / 100 - 4) + ((y + 400) / 400 - 1) +
           (153 * m + 2) / 5 + day - 1 - 719468;
}

static inline bool gram_date_exists(int year, int month, int day)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] + (month == 2 && leap);
}

/* Steps over hours, minutes and seconds, which are added to *days; NULL if they are none. */
static inline const char *gram_date_time(const char *at, double *days)
{
    int hour, minute, second = 0, digits = gram_date_digits(at, 1, 2, &hour);
    double fraction = 0, unit = 1;

    if (digits == 0 || at[digits] != ':' || gram_date_digits(at + digits + 1, 2, 2, &minute) == 0)
        return NULL;
    at += digits + 3;
    if (*at == ':') {
        if (gram_date_digits(at + 1, 2, 2, &second) == 0)
            return NULL;
        at += 3;
        if (*at == '.' || *at == ',')
            for (at++; *at >= '0' && *at <= '9'; at++)
                fraction += (unit /= 10) * (*at - '0');
    }
    if (hour > 24 || minute > 59 || second > 60)
        return NULL;
    *days += (hour * 3600 + minute * 60 + second + fraction) / 86400;
    return at;
}

/* Steps over a zone, if there is one; NULL if it is malformed. */
static inline const char *gram_date_zone(const char *at, double *days)
{
    const int sign = *at == '-' ? 1 : -1; /* local time east of Greenwich is ahead of UTC */
    int hour, minute = 0;

    if (*at == 'Z' || *at == 'z')
        return at + 1;
    if (*at != '+' && *at != '-')
        return at;
    if (gram_date_digits(at + 1, 4, 4, &hour)) {
        minute = hour % 100, hour /= 100;
        at += 5;
    } else if (gram_date_digits(at + 1, 2, 2, &hour)) {
        at += 3;
        if (*at == ':') {
            if (!gram_date_digits(at + 1, 2, 2, &minute))
                return NULL;
            at += 3;
        }
    } else {
        return NULL;
    }
    *days += sign * (hour * 60 + minute) / 1440.0;
    return at;
}

static inline const char *gram_date_skip(const char *at)
{
    while (*at == ' ' || *at == '\t')
        at++;
    return at;
}

/* Whether the text is a date in this order, and which. */
static inline bool gram_date_parse(const char *text, enum gram_date_order order, double *days)
{
    const bool first = order == GRAM_DATE_YMD;
    const char *at = gram_date_skip(text);
    int part[3], year, month, day, digits[3];
    char mark = '\0';

    for (int i = 0; i < 3; i++) {
        const bool is_year = i == (first ? 0 : 2);
        digits[i] = gram_date_digits(at, is_year ? 2 : 1, is_year ? 4 : 2, &part[i]);
        if (digits[i] == 0 || (is_year && (digits[i] == 3 || (first && digits[i] != 4))))
            return false;
        at += digits[i];
        if (i == 0)
            mark = *at;
        if (i < 2 && (*at != mark || !mark || !strchr("-/.", mark)))
            return false;
        at += i < 2;
    }
    if (order == GRAM_DATE_MDY && mark == '.')
        return false;
    year = part[first ? 0 : 2];
    if (!first && digits[2] == 2)
        year += year < 69 ? 2000 : 1900;
    month = part[order == GRAM_DATE_MDY ? 0 : 1];
    day = part[first ? 2 : order == GRAM_DATE_MDY ? 1 : 0];
    if (!gram_date_exists(year, month, day))
        return false;
    *days = (double)gram_date_days(year, month, day);
    if (*at == 'T' || (*at == ' ' && *gram_date_skip(at))) {
        at = gram_date_time(*at == 'T' ? at + 1 : gram_date_skip(at), days);
        at = at ? gram_date_zone(gram_date_skip(at), days) : NULL;
    }
    return at && !*gram_date_skip(at);
}
#endif
