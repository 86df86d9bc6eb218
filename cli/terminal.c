/*
 * terminal.c - the terminal of a stream: its width, and whether it shows colours
 *
 * SPDX-License-Identifier: MIT
 */
#include "terminal.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    USUAL_COLUMNS = 80 /* of a terminal that does not tell its width */
};

int terminal_columns(int descriptor)
{
    struct winsize size;

    if (!isatty(descriptor))
        return 0;
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                        : USUAL_COLUMNS;
}

bool terminal_obeys(int descriptor)
{
    const char *term = getenv("TERM");

    return isatty(descriptor) && term && term[0] && strcmp(term, "dumb") != 0;
}

bool terminal_colours(int descriptor)
{
    const char *refused = getenv("NO_COLOR");

    return terminal_obeys(descriptor) && !(refused && refused[0]);
}
