/*
 * optimizer_change.h - options of optimizers that differ from the defaults, in the rows of a table
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_OPTIMIZER_CHANGE_H
#define GRAM_OPTIMIZER_CHANGE_H
#include "gram/gram.h"
#include <stddef.h>

enum optimizer_change_type {
    CHANGE_END, /* of a list, as zeros are */
    CHANGE_DOUBLE,
    CHANGE_INT64,
    CHANGE_INT, /* and enumerations */
};

struct optimizer_change {
    enum optimizer_change_type type;
    size_t at;
    double value;
};

/* options.member = value; a list without any is {CHANGE_NONE}. */
/* clang-format off */
#define OPTION(member, value) \
  {_Generic(((gram_optimizer_options *)0)->member, double: CHANGE_DOUBLE, int64_t: CHANGE_INT64, \
            default: CHANGE_INT), \
   offsetof(gram_optimizer_options, member), value}
#define CHANGE_NONE {CHANGE_END, 0, 0}
/* clang-format on */

/* Shampoo as it was published: no graft, roots in every step. */
static inline gram_optimizer_options optimizer_plain(void)
{
    gram_optimizer_options options = GRAM_OPTIMIZER_OPTIONS_INIT;

    options.graft = GRAM_GRAFT_NONE;
    options.refresh = 1;
    return options;
}

/* Up to the first of zeros. */
static inline void optimizer_change(gram_optimizer_options *options,
                                    const struct optimizer_change *list)
{
    for (; list->type != CHANGE_END; list++) {
        char *at = (char *)options + list->at;
        if (list->type == CHANGE_DOUBLE)
            *(double *)at = list->value;
        else if (list->type == CHANGE_INT64)
            *(int64_t *)at = (int64_t)list->value;
        else
            *(int *)at = (int)list->value;
    }
}
#endif
