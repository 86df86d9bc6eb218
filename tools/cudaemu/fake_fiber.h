/*
 * fake_fiber.h - threads of a block: stacks that take turns on one thread of the host
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_FIBER_H
#define FAKE_FIBER_H
#include <stdbool.h>
#include <stddef.h>
#if !defined(__x86_64__) || defined(FAKE_FIBER_UCONTEXT)
#  define FAKE_FIBER_PORTABLE 1
#  include <ucontext.h>
#endif

struct fiber {
    char *stack; /* NULL: of the host */
    void *sanitizer;
#ifdef FAKE_FIBER_PORTABLE
    ucontext_t context;
#else
    void *top; /* of its stack while another one runs */
#endif
};

/* The bytes of a stack, and below it of pages that cannot be touched. */
enum {
    FIBER_STACK = 256 * 1024,
    FIBER_GUARD = 64 * 1024
};

/* Gives the fiber a stack if it has none; false: no memory. */
bool fiber_create(struct fiber *fiber);
/* The next switch to the fiber calls entry, which must not return. */
void fiber_prepare(struct fiber *fiber, void (*entry)(void));
/* Goes on where `to` was left.  ends: `from` will not be gone on with. */
void fiber_switch(struct fiber *from, struct fiber *to, bool ends);
#endif
