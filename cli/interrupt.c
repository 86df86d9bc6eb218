/*
 * interrupt.c - handles Ctrl-C and other signals that end the program
 *
 * A signal handler can see only static variables, so the program has static variables only here.
 * The handler calls only unlink, write, _exit and gram_context_cancel, which are safe in it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "interrupt.h"
#include "failure.h"
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_TEMPORARY = 4
};

static char temporary[MAX_TEMPORARY][PATH_MAX];
static volatile sig_atomic_t in_use[MAX_TEMPORARY];
static gram_context *volatile cancellable;
static volatile sig_atomic_t interrupted, held, waiting;

static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

static void say(const char *text)
{
    /* Nothing can be done if this fails; the variable silences the compiler. */
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void end(int number)
{
    for (int i = 0; i < MAX_TEMPORARY; i++)
        if (in_use[i])
            unlink(temporary[i]);
    if (number == SIGINT)
        say("\ngram: interrupted\n");
    _exit(128 + number);
}

/* May run in any thread. */
static void on_signal(int number)
{
    gram_context *g = cancellable;

    if (held) {
        waiting = number;
        return;
    }
    if (!g || number == SIGPIPE || interrupted)
        end(number);
    interrupted = number;
    gram_context_cancel(g);
    if (number == SIGINT)
        say("\ngram: stopping; Ctrl-C again ends at once\n");
}

void interrupt_install(void)
{
    struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN}, before;

    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    for (int i = 0; i < LENGTH(handled); i++) {
        sigaddset(&action.sa_mask, handled[i]);
        /* What the caller ignores stays ignored: nohup, and `command &` in a shell script. */
        if (sigaction(handled[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(handled[i], &action, NULL);
    }
    sigaction(SIGXFSZ, &ignore, NULL); /* a file size limit is then an error of write() */
}

void interrupt_cancels(gram_context *g)
{
    cancellable = g;
}

gram_status interrupt_ends(gram_status status)
{
    cancellable = NULL;
    return interrupted ? GRAM_CANCELLED : status;
}

int interrupt_status(void)
{
    return 128 + (interrupted ? interrupted : SIGINT);
}

void interrupt_hold(void)
{
    held = 1;
}

void interrupt_release(void)
{
    held = 0;
    if (waiting)
        end(waiting);
}

int interrupt_add(const char *path)
{
    for (int i = 0; i < MAX_TEMPORARY; i++)
        if (!in_use[i] && strlen(path) < sizeof temporary[i]) {
            memcpy(temporary[i], path, strlen(path) + 1);
            in_use[i] = 1;
            return i;
        }
    return -1;
}

void interrupt_remove(int slot)
{
    if (slot >= 0)
        in_use[slot] = 0;
}
