/*
 * interrupt.h - what Ctrl-C and other ends from outside do
 *
 * The first Ctrl-C asks a call that can be cancelled to stop, and ends the program at once if none
 * runs; the second ends it at once in any case.  Ending removes the temporary files.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_INTERRUPT_H
#define GRAM_CLI_INTERRUPT_H
#include <gram/gram.h>

void interrupt_install(void);

/*
 * Between these two the library runs a call of g that gram_context_cancel() stops.  The end turns
 * the status of the call into GRAM_CANCELLED if it was asked to stop, perhaps too late for the call
 * to notice.
 */
void interrupt_cancels(gram_context *g);
gram_status interrupt_ends(gram_status status);
/* The exit status of a program that was interrupted: 128 and the number of the signal. */
int interrupt_status(void);

/*
 * While held a signal waits for interrupt_release(): so that no temporary file is created and not
 * yet known, and the library's own temporary files are removed by the library.
 */
void interrupt_hold(void);
void interrupt_release(void);

/* A temporary file to be removed at the end.  -1 if the path is too long or there are too many. */
int interrupt_add(const char *path);
void interrupt_remove(int slot);
#endif
