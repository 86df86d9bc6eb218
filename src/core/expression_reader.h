/*
 * expression_reader.h - the text of an expression while it is read: its words, and what is wrong
 *
 * Functions that give a node give -1 after they have written the message of an error.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EXPRESSION_READER_H
#define GRAM_EXPRESSION_READER_H
#include "expression.h"

struct gram_reader {
    gram_context *g;
    const char *text, *at;
    const gram_parameter *parameters;
    int parameter_count, depth;
    struct gram_expression *e;
};

/* Says what stands at the reader's place and what was expected; -1. */
int gram_reader_wrong(const struct gram_reader *r, const char *expected);
/* A node of the text, within its limit. */
int gram_reader_node(const struct gram_reader *r, enum gram_op op, int a, int b, int c);

void gram_reader_skip_blanks(struct gram_reader *r);
/* Passes mark if it comes next. */
bool gram_reader_accept(struct gram_reader *r, const char *mark);
/* The number that begins here. */
int gram_reader_number(struct gram_reader *r);
/* Length of the name that begins at text; 0: none does. */
size_t gram_reader_name(const char *text);
/* The parameter, or s, whose name is the next length bytes, which are passed. */
int gram_reader_value(struct gram_reader *r, size_t length);
/* Refuses names of parameters that cannot be told from others. */
gram_status gram_reader_check_names(gram_context *g, const gram_parameter *parameters, int count);
#endif
