/*
 * arrow_value.c - single values of Arrow's types of fixed size, as numbers and as texts
 *
 * Buffers are little-endian, whatever the machine is, and need not be aligned.
 *
 * SPDX-License-Identifier: MIT
 */
#include "arrow_value.h"
#include "arrow_schema.h"
#include "npy.h"
#include "number.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    LIMBS = 8,          /* of 32 bits, in a decimal of 256 */
    DECIMAL_DIGITS = 80 /* of a number of 256 bits, which has 78 */
};

static uint64_t load(const unsigned char *at, int bits)
{
    uint64_t value = 0;

    for (int i = bits / 8 - 1; i >= 0; i--)
        value = value << 8 | at[i];
    return value;
}

static int64_t load_signed(const unsigned char *at, int bits)
{
    const uint64_t sign = (uint64_t)1 << (bits - 1);

    return (int64_t)((load(at, bits) ^ sign) - sign);
}

static const unsigned char *place(const struct arrow_values *type, const unsigned char *values,
                                  int64_t at)
{
    return values + at * (type->bits / 8);
}

int64_t arrow_integer(const struct arrow_values *type, const unsigned char *values, int64_t at)
{
    const unsigned char *from = place(type, values, at);

    return type->is_signed ? load_signed(from, type->bits) : (int64_t)load(from, type->bits);
}

/* ---- Decimals -------------------------------------------------------------------------------- */

/* The digits of a whole number of `bits` bits, the first ones first; returns how many. */
static int decimal_digits(const unsigned char *from, int bits, bool *negative,
                          char out[DECIMAL_DIGITS])
{
    uint32_t limb[LIMBS] = {0};
    const int count = bits / 32;
    char reversed[DECIMAL_DIGITS];
    int digits = 0, top = count;
    uint64_t carry = 1;

    for (int i = 0; i < count; i++)
        limb[i] = (uint32_t)load(from + (size_t)4 * (size_t)i, 32);
    *negative = limb[count - 1] >> 31;
    for (int i = 0; i < count && *negative; i++) {
        carry += (uint32_t)~limb[i];
        limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    while (top > 0) {
        uint64_t rest = 0;
        for (int i = top - 1; i >= 0; i--) {
            rest = rest << 32 | limb[i];
            limb[i] = (uint32_t)(rest / 10);
            rest %= 10;
        }
        reversed[digits++] = (char)('0' + rest);
        while (top > 0 && limb[top - 1] == 0)
            top--;
    }
    for (int i = 0; i < digits; i++)
        out[i] = reversed[digits - 1 - i];
    return digits;
}

static int decimal_text(const struct arrow_values *type, const unsigned char *from,
                        char out[ARROW_TEXT])
{
    char digits[DECIMAL_DIGITS] = "0";
    bool negative;
    const int count = decimal_digits(from, type->bits, &negative, digits);
    const int behind = type->scale > 0 ? type->scale : 0, before = count - behind;
    char *to = out;

    if (negative)
        *to++ = '-';
    if (before <= 0)
        *to++ = '0';
    for (int i = 0; i < before; i++)
        *to++ = digits[i];
    for (int i = 0; i < -type->scale && digits[0] != '0'; i++)
        *to++ = '0';
    if (behind > 0)
        *to++ = '.';
    for (int i = before; i < count; i++)
        *to++ = i < 0 ? '0' : digits[i];
    *to = '\0';
    return (int)(to - out);
}

static double decimal_number(const struct arrow_values *type, const unsigned char *from)
{
    char text[ARROW_TEXT];
    double value = 0;

    (void)decimal_text(type, from, text);
    (void)number_parse_all(text, &value);
    return value;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static double float_number(const unsigned char *from, int bits)
{
    const uint64_t wide = load(from, bits);
    const uint32_t narrow = (uint32_t)wide;
    double f64;
    float f32;

    memcpy(&f64, &wide, sizeof f64);
    memcpy(&f32, &narrow, sizeof f32);
    return bits == 64 ? f64 : bits == 32 ? (double)f32 : npy_half((uint16_t)wide);
}

double arrow_number(const struct arrow_values *type, const unsigned char *values, int64_t at)
{
    switch (type->type) {
    case ARROW_BOOL:
        return arrow_bit(values, at);
    case ARROW_FLOAT:
        return float_number(place(type, values, at), type->bits);
    case ARROW_DECIMAL:
        return decimal_number(type, place(type, values, at));
    case ARROW_INT:
        if (!type->is_signed)
            return (double)load(place(type, values, at), type->bits);
        return (double)load_signed(place(type, values, at), type->bits);
    default: /* a duration */
        return (double)load_signed(place(type, values, at), type->bits);
    }
}

/* A number of 1e16 or more with an exponent, and with the fewest digits that read back as it. */
static void exponent_text(double value, bool narrow, char out[ARROW_TEXT])
{
    const int most = narrow ? 8 : 16;
    char *mark, *end;

    for (int digits = narrow ? 5 : 14; digits <= most; digits++) {
        double back = 0;
        snprintf(out, ARROW_TEXT, "%.*e", digits, value);
        if (number_parse_all(out, &back) && (narrow ? (float)back == (float)value : back == value))
            break;
    }
    mark = end = strchr(out, 'e');
    while (end[-1] == '0')
        end--;
    end -= end[-1] == '.';
    memmove(end, mark, strlen(mark) + 1);
}

/* The fewest digits that read back as the number, with .0 behind a whole one, and with an exponent
 * below 1e-4 and from 1e16 on. */
static int float_text(const unsigned char *from, int bits, char out[ARROW_TEXT])
{
    const double value = float_number(from, bits);

    if (isfinite(value) && fabs(value) >= 1e16) {
        exponent_text(value, bits < 64, out);
        return (int)strlen(out);
    }
    if (bits == 64)
        number_format(out, value);
    else
        number_format_float(out, (float)value);
    if (fabs(value) >= 1 && isfinite(value) && strchr(out, 'e'))
        snprintf(out, ARROW_TEXT, "%.1f", value);
    else if (isfinite(value) && !strpbrk(out, ".e"))
        memcpy(out + strlen(out), ".0", 3);
    return (int)strlen(out);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static const int64_t per_second[] = {[ARROW_SECOND] = 1,
                                     [ARROW_MILLISECOND] = 1000,
                                     [ARROW_MICROSECOND] = 1000000,
                                     [ARROW_NANOSECOND] = 1000000000};

enum {
    SECONDS = 86400,     /* of a day */
    TO_MARCH = 719468,   /* days from 0000-03-01 to 1970-01-01 */
    DAYS_OF_ERA = 146097 /* 400 years, after which the calendar repeats */
};

static int64_t divide_down(int64_t a, int64_t by, int64_t *rest)
{
    *rest = a % by;
    if (*rest >= 0)
        return a / by;
    *rest += by;
    return a / by - 1;
}

/* The Gregorian calendar, also before 1582; years begin in March, so that leap days end them. */
static int date_text(int64_t days, char out[ARROW_TEXT])
{
    int64_t day, year, month;
    const int64_t era = divide_down(days + TO_MARCH, DAYS_OF_ERA, &day);
    const int64_t of_era = (day - day / 1460 + day / 36524 - day / 146096) / 365;

    if (days > INT32_MAX || days < INT32_MIN)
        return 0;
    day -= 365 * of_era + of_era / 4 - of_era / 100;
    month = (5 * day + 2) / 153;
    day -= (153 * month + 2) / 5 - 1;
    month += month < 10 ? 3 : -9;
    year = era * 400 + of_era + (month <= 2);
    return snprintf(out, ARROW_TEXT, "%04" PRId64 "-%02" PRId64 "-%02" PRId64 "%s",
                    year > 0 ? year : 1 - year, month, day, year > 0 ? "" : " (BC)");
}

/* A time of a day, with as many digits behind the seconds as it takes. */
static int clock_text(int64_t count, enum arrow_unit unit, char out[64])
{
    const int64_t seconds = count / per_second[unit];
    int64_t fraction = count % per_second[unit];
    int digits = 3 * (int)unit, size;

    size = snprintf(out, 64, "%02" PRId64 ":%02" PRId64 ":%02" PRId64, seconds / 3600,
                    seconds / 60 % 60, seconds % 60);
    if (fraction == 0)
        return size;
    for (; fraction % 10 == 0; digits--)
        fraction /= 10;
    return size + snprintf(out + size, 64 - (size_t)size, ".%0*" PRId64, digits, fraction);
}

/* A time since 1970 in UTC, or a date that is counted in parts of a day. */
static int moment_text(const struct arrow_values *type, int64_t count, char out[ARROW_TEXT])
{
    const int64_t day = SECONDS * per_second[type->unit];
    int64_t rest;
    int size = date_text(divide_down(count, day, &rest), out);

    if (size == 0 || type->type == ARROW_DATE)
        return size;
    out[size++] = ' ';
    return size + clock_text(rest, type->unit, out + size);
}

static int time_text(const struct arrow_values *type, int64_t count, char out[ARROW_TEXT])
{
    const int64_t day = SECONDS * per_second[type->unit];

    return count >= 0 && count <= day ? clock_text(count, type->unit, out) : 0;
}

int arrow_text(const struct arrow_values *type, const unsigned char *values, int64_t at,
               char out[ARROW_TEXT])
{
    const unsigned char *from = place(type, values, at);

    switch (type->type) {
    case ARROW_BOOL:
        return snprintf(out, ARROW_TEXT, "%s", arrow_bit(values, at) ? "true" : "false");
    case ARROW_FLOAT:
        return float_text(from, type->bits, out);
    case ARROW_DECIMAL:
        return decimal_text(type, from, out);
    case ARROW_DATE:
        if (type->unit == ARROW_DAY)
            return date_text(load_signed(from, type->bits), out);
        return moment_text(type, load_signed(from, type->bits), out);
    case ARROW_TIMESTAMP:
        return moment_text(type, load_signed(from, type->bits), out);
    case ARROW_TIME:
        return time_text(type, load_signed(from, type->bits), out);
    case ARROW_INT:
        if (!type->is_signed)
            return snprintf(out, ARROW_TEXT, "%" PRIu64, load(from, type->bits));
        return snprintf(out, ARROW_TEXT, "%" PRId64, load_signed(from, type->bits));
    default: /* a duration */
        return snprintf(out, ARROW_TEXT, "%" PRId64, load_signed(from, type->bits));
    }
}
