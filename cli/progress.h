/*
 * progress.h - a bar on standard error while long work runs
 *
 * Shown only if standard error is a terminal and --progress is auto, and only for work that takes
 * longer than a blink; gone when the work is done.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_PROGRESS_H
#define GRAM_CLI_PROGRESS_H
#include <pthread.h>
#include <stdint.h>

struct progress {
    int enabled; /* there is a thread; it reads what follows under the lock */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int done;
    int64_t start_ns;
    double fraction;
    char stage[80];
};

void progress_begin(struct progress *p, int allowed);

/* fraction of the work done, from 0 to 1, and what is being done; cheap to call often. */
void progress_update(struct progress *p, double fraction, const char *stage);

/* Wipes the bar. */
void progress_end(struct progress *p);

/* Nanoseconds of the monotonic clock. */
int64_t clock_ns(void);
#endif
