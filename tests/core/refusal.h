/*
 * refusal.h - tables of calls that must be refused, and of what is said
 *
 * A test's struct call holds the arguments of a good call; spoil makes them bad.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_REFUSAL_H
#define GRAM_REFUSAL_H
#include "check/harness/harness.h"

struct call;

struct refusal {
    void (*spoil)(struct call *c);
    gram_status status;
    const char *says; /* somewhere in the message */
};

/* Checks what the spoilt call returned and said. */
void refusal_check(struct harness *h, const struct refusal *refusal, gram_status status);
#endif
