/*
 * machine_hands.h - contexts that work side by side, each in a thread of its own
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_HANDS_H
#define GRAM_MACHINE_HANDS_H
#include "machine.h"

/* Pieces of work first, first + step, ... below end, and who does them. */
struct machine_hands {
    gram_context *const *contexts; /* at least one, distinct, or the caller's alone */
    int64_t count;
    int64_t first, end, step;
    bool dealt; /* hand h has every count'th piece from the h'th on; else whoever is free */
    /* One piece.  `tells`: in the thread of the caller, where progress may be told. */
    gram_status (*work)(void *arg, gram_context *g, int64_t piece, bool tells);
    void *arg;
};

/*
 * Does all pieces and waits.  The first context works in the caller's thread, and where a thread
 * cannot be had its pieces are done there too.  A failure ends the others early; of several, that
 * of the first piece is the call's, with its message.  A cancellation of g reaches all.
 */
gram_status gram_machine_hands_run(gram_context *g, const struct machine_hands *hands);
#endif
