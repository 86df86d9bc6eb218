/*
 * closest.h - the name that somebody may have meant, for messages
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_CLOSEST_H
#define GRAM_CLI_CLOSEST_H

/* Begin with {.wanted = what was given}, offer every name there is, then read the best. */
struct closest {
    const char *wanted;
    const char *best; /* NULL: none is near enough to be a slip of the hand */
    int slips;        /* between wanted and best */
};

void closest_offer(struct closest *c, const char *name);

enum {
    CLOSEST_HINT = 320 /* bytes of a hint, and of the longest name in it and what stands around */
};

/* "; did you mean BEFOREname AFTER?" or "", in hint. */
const char *closest_hint(const struct closest *c, const char *before, const char *after,
                         char hint[CLOSEST_HINT]);
#endif
