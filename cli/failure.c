/*
 * failure.c - records why a command fails
 *
 * SPDX-License-Identifier: MIT
 */
#include "failure.h"
#include <stdarg.h>
#include <stdio.h>

void failure_write(struct failure *why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
}

enum exit_status fail_gram(struct failure *why, gram_status status, const gram_context *g)
{
    static const enum exit_status of_status[] = {
        [GRAM_INVALID_ARGUMENT] = CLI_BAD_DATA,
        [GRAM_UNSUPPORTED] = CLI_UNSUPPORTED,
        [GRAM_OUT_OF_MEMORY] = CLI_NO_MEMORY,
        [GRAM_CANCELLED] = CLI_INTERRUPTED,
        [GRAM_IO] = CLI_IO,
        [GRAM_BAD_DATA] = CLI_BAD_DATA,
        [GRAM_NUMERICAL] = CLI_FAILURE,
    };
    const char *message = gram_message(g);

    if (status == GRAM_CANCELLED)
        return fail(why, CLI_INTERRUPTED, "interrupted; nothing was written");
    return fail(why, (int)status < LENGTH(of_status) ? of_status[status] : CLI_FAILURE, "%s",
                message[0] ? message : gram_status_name(status));
}
