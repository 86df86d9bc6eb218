/*
 * machine_hands.c - contexts that work side by side, each in a thread of its own
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_hands.h"
#include "core/blas.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct team;

/* A context, and the thread in which it works. */
struct hand {
    struct team *team;
    gram_context *g;
    int64_t next; /* where pieces are dealt */
    pthread_t thread;
    bool started;
};

struct team {
    const struct machine_hands *all;
    gram_context *g; /* of the call */
    int64_t next;    /* where they are not */
    int64_t working; /* threads beside the caller's that have not ended */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    /* The failure of the first piece that failed; failed: its number, or INT64_MAX. */
    int64_t failed;
    gram_status status;
    const gram_context *from;
    char message[sizeof((gram_context *)0)->message];
};

/* The next piece of a hand; -1: none, or there is a failure. */
static int64_t next_piece(struct hand *hand)
{
    struct team *team = hand->team;
    const struct machine_hands *all = team->all;
    int64_t *next = all->dealt ? &hand->next : &team->next, piece = -1;

    pthread_mutex_lock(&team->lock);
    if (team->failed == INT64_MAX && *next < all->end) {
        piece = *next;
        *next += all->dealt ? all->step * all->count : all->step;
    }
    pthread_mutex_unlock(&team->lock);
    return piece;
}

static void note_failure(struct team *team, const gram_context *g, int64_t piece,
                         gram_status status)
{
    pthread_mutex_lock(&team->lock);
    if (piece < team->failed) {
        team->failed = piece;
        team->status = status;
        team->from = g;
        memcpy(team->message, g->message, sizeof g->message);
    }
    pthread_mutex_unlock(&team->lock);
}

static void work(struct hand *hand, gram_context *g, bool tells)
{
    const struct machine_hands *all = hand->team->all;
    int64_t piece;

    while ((piece = next_piece(hand)) >= 0) {
        const gram_status status = all->work(all->arg, g, piece, tells);

        if (status != GRAM_OK)
            note_failure(hand->team, g, piece, status);
    }
}

static void *run_hand(void *arg)
{
    struct hand *hand = arg;
    struct team *team = hand->team;

    work(hand, hand->g, false);
    pthread_mutex_lock(&team->lock);
    team->working--;
    pthread_cond_signal(&team->ended);
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

/* Signals are for the threads of the program. */
static void begin(struct hand *hand)
{
    struct team *team = hand->team;
    sigset_t all, before;

    hand->g->call = team->g->call;
    pthread_mutex_lock(&team->lock);
    team->working++;
    pthread_mutex_unlock(&team->lock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    hand->started = pthread_create(&hand->thread, NULL, run_hand, hand) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (hand->started)
        return;
    pthread_mutex_lock(&team->lock);
    team->working--;
    pthread_mutex_unlock(&team->lock);
}

/* The others have to hear that the call was cancelled, or that one of them has failed. */
static bool tell_end(struct team *team, struct hand *hand)
{
    if (!gram_cancelled(team->g) && team->failed == INT64_MAX)
        return false;
    if (team->failed == INT64_MAX) {
        team->failed = team->all->end; /* so that nobody begins another piece */
        team->status = GRAM_CANCELLED;
        team->from = team->g;
        snprintf(team->message, sizeof team->message, "%s: cancelled", team->g->call);
    }
    for (int64_t i = 1; i < team->all->count; i++)
        gram_context_cancel(hand[i].g);
    return true;
}

/* Waits for the other threads. */
static void wait_for_others(struct team *team, struct hand *hand)
{
    bool told = false;

    pthread_mutex_lock(&team->lock);
    while (team->working > 0) {
        struct timespec until;

        told = told || tell_end(team, hand);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20 * 1000 * 1000;
        if (until.tv_nsec >= 1000 * 1000 * 1000) {
            until.tv_nsec -= 1000 * 1000 * 1000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&team->ended, &team->lock, &until);
    }
    pthread_mutex_unlock(&team->lock);
    for (int64_t i = 1; i < team->all->count; i++) {
        if (hand[i].started)
            pthread_join(hand[i].thread, NULL);
        (void)gram_call_ended(hand[i].g, GRAM_CANCELLED); /* the request was this call's */
    }
}

gram_status gram_machine_hands_run(gram_context *g, const struct machine_hands *hands)
{
    const size_t bytes = (size_t)hands->count * sizeof(struct hand);
    struct team team = {.all = hands,
                        .g = g,
                        .next = hands->first,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .ended = PTHREAD_COND_INITIALIZER,
                        .failed = INT64_MAX};
    struct hand *hand = gram_alloc(g, bytes);

    if (!hand)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t i = 0; i < hands->count; i++)
        hand[i] = (struct hand){
            .team = &team, .g = hands->contexts[i], .next = hands->first + i * hands->step};
    if (hands->count > 1)
        gram_blas_take_turns(true); /* the bits of a piece do not depend on those beside it */
    for (int64_t i = 1; i < hands->count; i++)
        begin(&hand[i]);
    work(&hand[0], hand[0].g, true);
    for (int64_t i = 1; i < hands->count; i++)
        if (!hand[i].started) /* on its own context, where dealt pieces have their memory */
            work(&hand[i], hand[i].g, true);
    wait_for_others(&team, hand);
    if (hands->count > 1)
        gram_blas_take_turns(false);
    gram_free(g, hand, bytes);
    if (team.failed == INT64_MAX)
        return GRAM_OK;
    if (team.from != g)
        memcpy(g->message, team.message, sizeof g->message);
    return team.status;
}
