/*
 * arrow_value.h - single values of Arrow's types of fixed size, as numbers and as texts
 *
 * Texts are those that DuckDB writes of the same values, so that a table is the same whether it
 * comes from an Arrow file or from a Parquet file: true, 2026-01-31, 2026-01-31 12:30:00.25, 1.50.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_ARROW_VALUE_H
#define GRAM_CLI_ARROW_VALUE_H
#include "arrow_ipc.h"

enum {
    ARROW_TEXT = 256 /* bytes that hold any value as text, NUL included */
};

/* Value `at` as a number; of a type whose bits are not 0, but no time or date. */
double arrow_number(const struct arrow_values *type, const unsigned char *values, int64_t at);

/* As text, of which the length is returned; 0: it is no time of any day, or of any year. */
int arrow_text(const struct arrow_values *type, const unsigned char *values, int64_t at,
               char out[ARROW_TEXT]);

/* A whole number of so many bits, which is an index or an offset. */
int64_t arrow_integer(const struct arrow_values *type, const unsigned char *values, int64_t at);

/* Whether bit `at` is set. */
static inline bool arrow_bit(const unsigned char *bits, int64_t at)
{
    return bits[at / 8] >> (at % 8) & 1;
}
#endif
