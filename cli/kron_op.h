/*
 * kron_op.h - which Kronecker factors are used transposed: --op NTN
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_KRON_OP_H
#define GRAM_CLI_KRON_OP_H
#include "failure.h"

/* A bit for each of count factors; one letter stands for all of them, NULL for none. */
enum exit_status kron_op_parse(const char *op, int count, uint32_t *transposed,
                               struct failure *why);
#endif
