/*
 * test_cell.c - what texts look like to a person: numbers in many forms, dates, and what is neither
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "cli/cell.h"

/* clang-format off */
static const struct {
    const char *text;
    enum cell kind;
} cases[] = {
    {"3.14", CELL_NUMBER}, {"-3", CELL_NUMBER}, {" .5 ", CELL_NUMBER}, {"7.", CELL_NUMBER},
    {"1.234", CELL_NUMBER}, {"2024", CELL_NUMBER}, {"\xe2\x88\x92" "4.5", CELL_NUMBER}, /* minus */
    {"3,14", CELL_COMMA}, {"-0,5", CELL_COMMA}, {"1.234,5", CELL_COMMA}, {"1 234,50", CELL_COMMA},
    {"1.234.567", CELL_COMMA}, {"0,123", CELL_COMMA}, {"1234,567", CELL_COMMA},
    {"1,234", CELL_EITHER}, {"-12,345", CELL_EITHER},
    {"1,234.5", CELL_THOUSANDS}, {"1,234,567", CELL_THOUSANDS}, {"1'234", CELL_THOUSANDS},
    {"1 234 567", CELL_THOUSANDS}, {"1\xc2\xa0" "234", CELL_THOUSANDS},
    {"1\xe2\x80\xaf" "234.5", CELL_THOUSANDS},
    {"$1,234.56", CELL_UNIT}, {"-$5", CELL_UNIT}, {"$ -5", CELL_UNIT}, {"3,14 \xe2\x82\xac", CELL_UNIT},
    {"\xc2\xa3" "7", CELL_UNIT}, {"EUR 7", CELL_UNIT}, {"7 USD", CELL_UNIT}, {"12 %", CELL_UNIT},
    {"12.5%", CELL_UNIT},
    {"2024-03-01", CELL_DATE}, {"2024/3/1", CELL_DATE}, {"1.3.2024", CELL_DATE},
    {"01.03.24", CELL_DATE}, {"12/31/2024", CELL_DATE}, {"2024-03-01T12:30:00Z", CELL_DATE},
    {"2024-03-01 12:30:00.5+01:00", CELL_DATE},
    {"", CELL_TEXT}, {" ", CELL_TEXT}, {"-", CELL_TEXT}, {".", CELL_TEXT}, {",", CELL_TEXT},
    {"$", CELL_TEXT}, {"oops", CELL_TEXT}, {"3x", CELL_TEXT}, {"1,2,3", CELL_TEXT},
    {"1,23,456", CELL_TEXT}, {"1,234'567", CELL_TEXT}, {"$5$", CELL_TEXT}, {"1.2.3", CELL_TEXT},
    {"12345,678,901", CELL_TEXT}, {"2024-13-01", CELL_TEXT}, {"2024-03-32", CELL_TEXT},
    {"2024-03", CELL_TEXT}, {"1.2.345", CELL_TEXT}, {"555-1234", CELL_TEXT},
    {"2024-03-01T", CELL_TEXT}, {"2024-03/01", CELL_TEXT}, {"192.168.1.1", CELL_TEXT},
};
/* clang-format on */

int main(void)
{
    struct harness h = {.isa = "none", .random = 1};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const enum cell kind = cell_of(cases[i].text);
        CHECK(&h, kind == cases[i].kind, "\"%s\" is %d, expected %d", cases[i].text, (int)kind,
              (int)cases[i].kind);
    }
    printf("test_cell: %d checks, %d failures\n", h.checks, h.failures);
    return h.failures != 0;
}
