/*
 * kron_op.c - which Kronecker factors are used transposed: --op NTN
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_op.h"
#include <string.h>

enum exit_status kron_op_parse(const char *op, int count, uint32_t *transposed, struct failure *why)
{
    size_t length = op ? strlen(op) : 0;

    *transposed = 0;
    if (!op)
        return CLI_OK;
    if (strspn(op, "NTnt") != length || (length != 1 && length != (size_t)count))
        return fail(why, CLI_USAGE, "--op is \"%s\", expected N or T, or %d letters of N and T", op,
                    count);
    for (int i = 0; i < count; i++)
        if (strchr("Tt", op[length == 1 ? 0 : i]))
            *transposed |= (uint32_t)1 << i;
    return CLI_OK;
}
