/*
 * comma_locale.c - see comma_locale.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "comma_locale.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool set(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (setlocale(LC_ALL, names[i]) && localeconv()->decimal_point[0] == ',')
            return true;
    return false;
}

/* Compiles one into a folder of its own, which is gone again when it is loaded. */
static bool make_and_set(void)
{
    char folder[] = "/tmp/gram-locale-XXXXXX", command[200];
    bool done;

    if (!mkdtemp(folder))
        return false;
    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>/dev/null", folder);
    done = system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 && set();
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0 && done;
}

bool comma_locale(void)
{
    if (set() || make_and_set())
        return true;
    printf("SKIPPED: no locale with decimal commas here, and localedef cannot make one\n");
    return false;
}
