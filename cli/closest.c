/*
 * closest.c - the name that somebody may have meant, for messages
 *
 * A slip is an extra, a missing or a wrong letter, or two neighbours that are exchanged; their
 * number is the distance of optimal string alignment.  A letter in the wrong case is not a slip, so
 * a name that differs only in case is always found.
 *
 * SPDX-License-Identifier: MIT
 */
#include "closest.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    LONGEST = 64 /* bytes; longer names have no hint */
};

static int smallest(int a, int b)
{
    return a < b ? a : b;
}

static int differ(char a, char b)
{
    return tolower((unsigned char)a) != tolower((unsigned char)b);
}

static int slips_between(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b);
    int d[LONGEST + 1][LONGEST + 1];

    for (int i = 0; i <= n; i++)
        d[i][0] = i;
    for (int j = 0; j <= m; j++)
        d[0][j] = j;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++) {
            d[i][j] = smallest(smallest(d[i - 1][j], d[i][j - 1]) + 1,
                               d[i - 1][j - 1] + differ(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && !differ(a[i - 1], b[j - 2]) && !differ(a[i - 2], b[j - 1]))
                d[i][j] = smallest(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

void closest_offer(struct closest *c, const char *name)
{
    size_t size = strlen(c->wanted);
    /* One slip is allowed per three letters, so a name of one or two letters never becomes another
     * one. */
    int most = (int)(size / 3) + (size == 2), slips;

    if (size > LONGEST || strlen(name) > LONGEST || size == 0)
        return;
    slips = slips_between(c->wanted, name);
    if (slips > most || (c->best && slips >= c->slips))
        return;
    c->best = name;
    c->slips = slips;
}

const char *closest_hint(const struct closest *c, const char *before, const char *after,
                         char hint[CLOSEST_HINT])
{
    hint[0] = '\0';
    if (c->best)
        snprintf(hint, CLOSEST_HINT, "; did you mean %s%s%s?", before, c->best, after);
    return hint;
}
