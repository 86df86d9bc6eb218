/*
 * harness_ops.c - the list of all operations that have a table of cases
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness.h"

const struct case_op *const harness_ops[] = {
    NULL,
};
