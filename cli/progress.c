/*
 * progress.c - a bar on standard error while long work runs
 *
 *   [###########...................]  37%  0:12  searching, 41 tried
 *
 * A thread draws the bar, because the work may report its progress only every few seconds, and the
 * clock should go on meanwhile.
 *
 * SPDX-License-Identifier: MIT
 */
#include "progress.h"
#include "terminal.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    CELLS = 30,
    MARGIN = CELLS + 20, /* columns that the bar, the percentage and the time take */
};
static const int64_t first_ns = 300000000, interval_ns = 200000000;

int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void draw(const struct progress *p)
{
    double fraction = p->fraction > 0 ? p->fraction < 1 ? p->fraction : 1 : 0;
    int filled = (int)(fraction * CELLS), room = terminal_columns(STDERR_FILENO) - MARGIN;
    int64_t seconds = (clock_ns() - p->start_ns) / 1000000000;
    char bar[CELLS + 1];

    memset(bar, '#', (size_t)filled);
    memset(bar + filled, '.', (size_t)(CELLS - filled));
    bar[CELLS] = '\0';
    fprintf(stderr, "\r[%s] %3d%% %3d:%02d  %.*s\033[K", bar, (int)(fraction * 100),
            (int)(seconds / 60), (int)(seconds % 60), room > 0 ? room : 0, p->stage);
    fflush(stderr);
}

static void add_ns(struct timespec *t, int64_t ns)
{
    ns += t->tv_nsec;
    t->tv_sec += (time_t)(ns / 1000000000);
    t->tv_nsec = (long)(ns % 1000000000);
}

/* Draws now and then until the work is done. */
static void *keep_drawing(void *arg)
{
    struct progress *p = arg;
    struct timespec next;
    int shown = 0;

    clock_gettime(CLOCK_REALTIME, &next); /* what pthread_cond_timedwait goes by */
    add_ns(&next, first_ns);
    pthread_mutex_lock(&p->lock);
    while (!p->done) {
        if (pthread_cond_timedwait(&p->ended, &p->lock, &next) != ETIMEDOUT)
            continue;
        draw(p);
        shown = 1;
        clock_gettime(CLOCK_REALTIME, &next);
        add_ns(&next, interval_ns);
    }
    pthread_mutex_unlock(&p->lock);
    if (shown)
        fputs("\r\033[K", stderr);
    return NULL;
}

void progress_begin(struct progress *p, int allowed)
{
    *p = (struct progress){.start_ns = clock_ns(), .stage = "starting"};
    if (!allowed || !terminal_obeys(STDERR_FILENO))
        return;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->ended, NULL);
    p->enabled = pthread_create(&p->thread, NULL, keep_drawing, p) == 0;
}

void progress_update(struct progress *p, double fraction, const char *stage)
{
    if (!p->enabled)
        return;
    pthread_mutex_lock(&p->lock);
    p->fraction = fraction;
    snprintf(p->stage, sizeof p->stage, "%s", stage);
    pthread_mutex_unlock(&p->lock);
}

void progress_end(struct progress *p)
{
    if (!p->enabled)
        return;
    pthread_mutex_lock(&p->lock);
    p->done = 1;
    pthread_cond_signal(&p->ended);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->ended);
    pthread_mutex_destroy(&p->lock);
    p->enabled = 0;
}
