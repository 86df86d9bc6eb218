/*
 * test_number.c - numbers to and from text: the C library is the oracle
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "cli/number.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double from_bits(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static int same(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* What is read of every text, and how much of it. */
static const struct {
    const char *text;
    int used; /* 0: no number starts here */
} texts[] = {
    {                                       "0",  1},
    {                                      "-0",  2},
    {                       "12345678901234567", 17},
    {                                     "1.5",  3},
    {                                     "-.5",  3},
    {                                      "5.",  2},
    {                                     "1e5",  3},
    {                                  "1e+05,",  5},
    {                                   "1E-5x",  4},
    {                                      "1e",  1},
    {                                     "1e+",  1},
    {                                    "1.e3",  4},
    {                                     "inf",  3},
    {                               "-Infinity",  9},
    {                                   "+INFx",  4},
    {                                   "1e308",  5},
    {                                   "1e309",  5},
    {                                  "-1e400",  6},
    {                                "4.9e-324",  8},
    {                                  "2e-324",  6},
    {                                  "1e-400",  6},
    {                                    "0x1F",  1},
    {                                   "1_000",  1},
    {                        "9007199254740993", 16},
    {                                    "1e22",  4},
    {                                    "1e23",  4},
    {                                  "8.5e22",  6},
    {                                     "0.1",  3},
    {                  "1e99999999999999999999", 22},
    {                                        "",  0},
    {                                       "-",  0},
    {                                       ".",  0},
    {                                      "-.",  0},
    {                                      "e5",  0},
    {                                     "nan",  0},
    {                                      " 1",  0},
    {                                     "--1",  0},
    {                                      "in",  0},
    {                     "9223372036854775808", 19},
    {                    "18446744073709551617", 20},
    {"0.00000000000000000000000000000000000001", 40},
    { "100000000000000000000000000000000000000", 39},
};

static void test_texts(struct harness *h)
{
    for (int i = 0; i < LENGTH(texts); i++) {
        double value = 7;
        const char *end = number_parse(texts[i].text, &value);
        h->where = texts[i].text;
        if (texts[i].used == 0) {
            CHECK(h, end == NULL, "read as %g", value);
            continue;
        }
        CHECK(h, end == texts[i].text + texts[i].used, "used %d bytes, expected %d",
              end ? (int)(end - texts[i].text) : 0, texts[i].used);
        char prefix[64];
        snprintf(prefix, sizeof prefix, "%.*s", texts[i].used, texts[i].text);
        CHECK(h, same(value, strtod(prefix, NULL)), "%.17g, expected %.17g", value,
              strtod(prefix, NULL));
    }
}

/* Any bits, written in full and by us, come back; and ours is never longer than 17 digits. */
static void test_round_trip(struct harness *h)
{
    static const char *const formats[] = {"%.17g", "%.3f", "%.9e", "%.25e", "%.0f"};

    h->where = "random doubles";
    for (int i = 0; i < 300000; i++) {
        uint64_t bits =
            (uint64_t)(test_uniform(h) * 0x1p32) << 32 | (uint64_t)(test_uniform(h) * 0x1p32);
        double value =
            i % 3 == 0 ? from_bits(bits) : (test_uniform(h) - 0.5) * pow(10, i % 40 - 20);
        char text[512], ours[NUMBER_TEXT];
        double back;
        if (!isfinite(value))
            continue;
        snprintf(text, sizeof text, formats[i % 5], value);
        CHECK(h, number_parse(text, &back) == text + strlen(text) && same(back, strtod(text, NULL)),
              "%s read as %.17g", text, back);
        number_format(ours, value);
        CHECK(h, number_parse(ours, &back) == ours + strlen(ours) && same(back, value),
              "%.17g written as %s", value, ours);
        CHECK(h, strlen(ours) <= strlen("-1.2345678901234567e-308"), "%s is long", ours);
    }
}

static void test_floats(struct harness *h)
{
    h->where = "random floats";
    for (int i = 0; i < 300000; i++) {
        uint32_t bits = (uint32_t)(test_uniform(h) * 0x1p32);
        float value, back;
        char text[NUMBER_TEXT];
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        number_format_float(text, value);
        back = strtof(text, NULL);
        CHECK(h, memcmp(&back, &value, sizeof value) == 0, "%.9g written as %s", (double)value,
              text);
    }
}

static void test_formats(struct harness *h)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {              0,                     "0"},
        {           -0.0,                    "-0"},
        {            0.1,                   "0.1"},
        {           1e15,                 "1e+15"},
        {            -42,                   "-42"},
        {          1e300,                "1e+300"},
        {       INFINITY,                   "inf"},
        {      -INFINITY,                  "-inf"},
        {            NAN,                   "nan"},
        {        1.0 / 3,    "0.3333333333333333"},
        {         5e-324, "4.94065645841247e-324"},
        {999999999999999,       "999999999999999"}
    };

    h->where = "known texts";
    for (int i = 0; i < LENGTH(rows); i++) {
        char text[NUMBER_TEXT];
        number_format(text, rows[i].value);
        double back = 0;
        int right = strcmp(text, rows[i].text) == 0 ||
                    (number_parse(text, &back) && same(back, rows[i].value) &&
                     strlen(text) <= strlen(rows[i].text));
        CHECK(h, right, "%s, expected %s", text, rows[i].text);
    }
    char text[NUMBER_TEXT];
    number_format_float(text, 0.1f);
    CHECK(h, strcmp(text, "0.1") == 0, "0.1f written as %s", text);
}

int main(void)
{
    struct harness h = {.isa = "none", .random = 1};

    test_texts(&h);
    test_round_trip(&h);
    test_floats(&h);
    test_formats(&h);
    printf("test_number: %d checks, %d failures\n", h.checks, h.failures);
    return h.failures != 0;
}
