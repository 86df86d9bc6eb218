/*
 * progress.c - a bar on standard error while long work runs
 *
 *   [###########...................]  37%  0:12  searching: laplace, L = 4.2
 *
 * SPDX-License-Identifier: MIT
 */
#include "progress.h"
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    CELLS = 30,
    MARGIN = CELLS + 20, /* columns that the bar, the percentage and the time take */
};
static const int64_t first_ns = 300000000, interval_ns = 100000000;

int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void progress_begin(struct progress *p, int allowed)
{
    *p = (struct progress){.enabled = allowed && isatty(STDERR_FILENO), .start_ns = clock_ns()};
}

static int terminal_width(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void progress_update(struct progress *p, double fraction, const char *stage)
{
    int64_t now = clock_ns();
    int filled, room;
    char bar[CELLS + 1];

    if (!p->enabled || now - p->start_ns < first_ns || now - p->drawn_ns < interval_ns)
        return;
    fraction = fraction > 0 ? fraction < 1 ? fraction : 1 : 0;
    filled = (int)(fraction * CELLS);
    room = terminal_width() - MARGIN;
    memset(bar, '#', (size_t)filled);
    memset(bar + filled, '.', (size_t)(CELLS - filled));
    bar[CELLS] = '\0';
    int64_t seconds = (now - p->start_ns) / 1000000000;
    fprintf(stderr, "\r[%s] %3d%% %3d:%02d  %.*s\033[K", bar, (int)(fraction * 100),
            (int)(seconds / 60), (int)(seconds % 60), room > 0 ? room : 0, stage);
    fflush(stderr);
    p->drawn_ns = now;
    p->shown = 1;
}

void progress_end(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = 0;
}
