/*
 * number.c - converts numbers to and from text, independent of the locale
 *
 * Reading: up to 19 digits are gathered into an integer w, so that the number is w 10^e.  If w <=
 * 2^53 and |e| <= 22 both w and 10^|e| are exact in double, and one multiplication or division
 * rounds once: the result is correctly rounded (Clinger, How to read floating point numbers
 * accurately, PLDI 1990).  Up to |e| <= 27, integers of 128 bits give the result in a third of the
 * time of strtod, which reads all other numbers.  The program never calls setlocale(), so strtod
 * and snprintf use the C locale's point.
 *
 * SPDX-License-Identifier: MIT
 */
#include "number.h"
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static const double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

#ifdef __SIZEOF_INT128__
enum {
    LARGEST_POWER = 27 /* 5^27 < 2^63 */
};

/* Bits of a number that is not 0. */
static int bit_length(unsigned __int128 q)
{
    uint64_t high = (uint64_t)(q >> 64);

    return high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((uint64_t)q);
}

/*
 * w 10^e for 0 < w and |e| <= 27, correctly rounded, in integers: w 10^e = (w 5^e) 2^e.  The
 * product is exact; the quotient by 5^-e, of w shifted up to 128 bits, has 65 bits or more, and
 * whether there is a remainder decides ties.
 */
static double scale_exactly(uint64_t w, int e)
{
    unsigned __int128 q = w, five = 1;
    int exponent = e, remainder = 0;

    for (int i = 0; i < (e < 0 ? -e : e); i++)
        five *= 5;
    if (e >= 0) {
        q *= five;
    } else {
        int shift = __builtin_clzll(w);
        unsigned __int128 n = (unsigned __int128)(w << shift) << 64;
        q = n / (uint64_t)five;
        remainder = q * five != n;
        exponent -= shift + 64;
    }
    int drop = bit_length(q) - DBL_MANT_DIG;
    uint64_t mantissa = (uint64_t)q;
    if (drop > 0) {
        unsigned __int128 half = (unsigned __int128)1 << (drop - 1), rest = q & (2 * half - 1);
        mantissa = (uint64_t)(q >> drop);
        mantissa += rest > half || (rest == half && (remainder || mantissa & 1));
        exponent += drop;
    }
    return ldexp((double)mantissa, exponent);
}
#endif

/* The value of a number whose digits are w 10^exponent if there are at most 19. */
static double scale(const char *text, uint64_t w, int64_t count, int64_t exponent)
{
    if (count <= 19 && w <= UINT64_C(1) << 53 && exponent >= -22 && exponent <= 22 &&
        FLT_EVAL_METHOD == 0)
        return exponent < 0 ? (double)w / powers_of_ten[-exponent]
                            : (double)w * powers_of_ten[exponent];
#ifdef __SIZEOF_INT128__
    if (count <= 19 && w > 0 && exponent >= -LARGEST_POWER && exponent <= LARGEST_POWER)
        return scale_exactly(w, (int)exponent);
#endif
    return strtod(text, NULL);
}

static inline int is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* "inf" or "infinity" in any case, after the sign. */
static const char *parse_infinity(const char *at, int negative, double *value)
{
    if (strncasecmp(at, "inf", 3) != 0)
        return NULL;
    *value = negative ? -INFINITY : INFINITY;
    return strncasecmp(at, "infinity", 8) == 0 ? at + 8 : at + 3;
}

/* Reads the exponent "e-12" at *at, clamped to values for which strtod returns 0 or infinity in any
 * case. */
static int64_t parse_exponent(const char **at)
{
    const char *digits = *at + 1;
    int negative = *digits == '-';
    int64_t exponent = 0;

    if (*digits == '-' || *digits == '+')
        digits++;
    if (!is_digit(*digits))
        return 0; /* the e is not part of the number */
    for (; is_digit(*digits); digits++)
        if (exponent < 100000)
            exponent = exponent * 10 + (*digits - '0');
    *at = digits;
    return negative ? -exponent : exponent;
}

const char *number_parse(const char *text, double *value)
{
    const char *at = text, *digits;
    int negative = *at == '-';
    int64_t exponent = 0, count;
    uint64_t w = 0;

    at += *at == '-' || *at == '+';
    digits = at;
    for (; is_digit(*at); at++)
        w = w * 10 + (uint64_t)(*at - '0'); /* may wrap: then count > 19 below */
    count = at - digits;
    if (*at == '.') {
        const char *fraction = ++at;
        for (; is_digit(*at); at++)
            w = w * 10 + (uint64_t)(*at - '0');
        exponent = fraction - at;
        count -= exponent;
    }
    if (count == 0)
        return parse_infinity(digits, negative, value);
    if ((*at | 0x20) == 'e')
        exponent += parse_exponent(&at);
    double magnitude = scale(digits, w, count, exponent);
    *value = negative ? -magnitude : magnitude;
    return at;
}

int number_parse_all(const char *text, double *value)
{
    const char *end = number_parse(text, value);

    return end && !*end;
}

/* Integers below 10^15 need no search: their digits are exact and shorter than %.15g's. */
static int format_integer(char text[NUMBER_TEXT], double value)
{
    if (!(fabs(value) < 1e15) || value != (double)(int64_t)value || (value == 0 && signbit(value)))
        return 0;
    snprintf(text, NUMBER_TEXT, "%lld", (long long)value);
    return 1;
}

void number_format(char text[NUMBER_TEXT], double value)
{
    if (format_integer(text, value))
        return;
    if (isnan(value)) {
        snprintf(text, NUMBER_TEXT, "nan");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        double back;
        snprintf(text, NUMBER_TEXT, "%.*g", digits, value);
        if (digits == 17 || (number_parse(text, &back) && back == value))
            return;
    }
}

void number_format_float(char text[NUMBER_TEXT], float value)
{
    if (format_integer(text, (double)value))
        return;
    if (isnan(value)) {
        snprintf(text, NUMBER_TEXT, "nan");
        return;
    }
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, NUMBER_TEXT, "%.*g", digits, (double)value);
        if (digits == 9 || strtof(text, NULL) == value)
            return;
    }
}
