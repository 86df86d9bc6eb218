/*
 * closest.h - the name that somebody may have meant, for messages
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_CLOSEST_H
#define GRAM_CLI_CLOSEST_H

/* Begin with {.wanted = what the user gave}, offer every existing name, then read the best one. */
struct closest {
    const char *wanted;
    const char *best; /* NULL: no name is close enough */
    int slips;        /* between wanted and best */
};

void closest_offer(struct closest *c, const char *name);

enum {
    CLOSEST_HINT = 320 /* bytes of a hint with the longest name and the text around it */
};

/* "; did you mean BEFOREname AFTER?" or "", in hint. */
const char *closest_hint(const struct closest *c, const char *before, const char *after,
                         char hint[CLOSEST_HINT]);
#endif
