/*
 * test_fork.c - contexts in the child after fork(), which is how Python's multiprocessing starts
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/database.h"
#include "core/process.h"
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A child of a process with threads may start threads: that is what is tested. */
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

enum {
    N = 300,
    K = 40
};
static float data[N * K], out[N * N], again[N * N], solution[N], right[N];

/* Distances, which use the library's threads, and a solve, which uses those of BLAS. */
static bool compute(gram_context *g, float *distances)
{
    gram_tensor x = gram_matrix(data, N, K, GRAM_F32), d = gram_matrix(distances, N, N, GRAM_F32);
    gram_tensor b = gram_matrix(right, N, 1, GRAM_F32), s = gram_matrix(solution, N, 1, GRAM_F32);

    if (gram_cdist(g, &x, NULL, gram_number(1), NULL, &d) != GRAM_OK)
        return false;
    for (int i = 0; i < N; i++) {
        right[i] = 1;
        for (int j = 0; j < N; j++)
            again[i * N + j] = i == j ? 2 : expf(-distances[i * N + j]);
    }
    d.data = again;
    return gram_solve_cholesky(g, &d, &b, NULL, &s, NULL) == GRAM_OK && fabsf(solution[0]) < 1;
}

/* Runs body in a child; true if it ends, before it is taken for hung, and says 0. */
static bool in_child(int (*body)(gram_context *g), gram_context *g)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        alarm(1200);
        _exit(body(g));
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static float in_parent[N * N];

static int same_as_parent(gram_context *g)
{
    if (!compute(g, out))
        return 1;
    for (int i = 0; i < N * N; i++)
        if (out[i] != in_parent[i])
            return 2;
    return 0;
}

static int destroys_only(gram_context *g)
{
    gram_context_destroy(g);
    return 0;
}

static int computes_and_destroys(gram_context *g)
{
    int wrong = same_as_parent(g);

    gram_context_destroy(g);
    return wrong;
}

static int makes_its_own(gram_context *g)
{
    gram_context *own;
    int wrong;

    (void)g;
    if (gram_context_create(NULL, &own) != GRAM_OK)
        return 2;
    wrong = same_as_parent(own);
    gram_context_destroy(own);
    return wrong;
}

static int forks_again(gram_context *g)
{
    return !in_child(computes_and_destroys, g) || same_as_parent(g);
}

static void children_compute(struct harness *h)
{
    for (int i = 0; i < N * K; i++)
        data[i] = (float)test_uniform(h);
    if (!CHECK(h, compute(h->g, in_parent), "%s", gram_message(h->g)))
        return;
    CHECK(h, in_child(same_as_parent, h->g), "the parent's context");
    CHECK(h, in_child(destroys_only, h->g), "destroying the parent's context");
    CHECK(h, in_child(computes_and_destroys, h->g), "using and destroying it");
    CHECK(h, in_child(makes_its_own, h->g), "a context of its own");
    CHECK(h, in_child(forks_again, h->g), "a grandchild");
    CHECK(h, same_as_parent(h->g) == 0, "the parent after its children: %s", gram_message(h->g));
}

/* Forked while another thread is in the middle of a parallel loop of another context. */
static void *keep_busy(void *arg)
{
    struct harness *h = arg;
    static float busy[N * N];
    gram_tensor x = gram_matrix(data, N, K, GRAM_F32), d = gram_matrix(busy, N, N, GRAM_F32);

    for (int i = 0; i < 200; i++)
        CHECK(h, gram_cdist(h->g, &x, NULL, gram_number(1.3), NULL, &d) == GRAM_OK, "%s",
              gram_message(h->g));
    return NULL;
}

static void a_busy_parent_forks(struct harness *h)
{
    const struct harness_options options = {.threads = 2};
    struct harness other;
    pthread_t handle;

    for (int i = 0; i < N * K; i++)
        data[i] = (float)test_uniform(h);
    if (!CHECK(h, compute(h->g, in_parent), "%s", gram_message(h->g)) ||
        !harness_open(&other, &options, NULL))
        return;
    other.where = "the busy thread";
    if (CHECK(h, pthread_create(&handle, NULL, keep_busy, &other) == 0, "no thread")) {
        for (int i = 0; i < 10; i++)
            CHECK(h, in_child(makes_its_own, NULL), "child %d", i);
        pthread_join(handle, NULL);
    }
    CHECK(h, other.failures == 0 && other.checks > 0, "%d failures", other.failures);
    harness_close(&other);
}

/* ---- Locks of the process ----------------------------------------------------------------- */

enum {
    HELD_MS = 20 /* far longer than a fork() takes that does not wait */
};

struct holder {
    gram_context *g;
    enum gram_process_lock which;
    pthread_barrier_t held;
};

static void *hold(void *arg)
{
    struct holder *holder = arg;
    const struct timespec while_forking = {.tv_nsec = HELD_MS * 1000000L};

    gram_process_lock(holder->g, holder->which);
    pthread_barrier_wait(&holder->held);
    nanosleep(&while_forking, NULL);
    gram_process_unlock(holder->g, holder->which);
    return NULL;
}

/* The child finds every lock free, and can take each. */
static int takes_every_lock(gram_context *g)
{
    alarm(60);
    for (int i = 0; i < GRAM_PROCESS_LOCKS; i++) {
        gram_process_lock(g, (enum gram_process_lock)i);
        gram_process_unlock(g, (enum gram_process_lock)i);
    }
    return same_as_parent(g);
}

static void forked_while_a_lock_is_held(struct harness *h)
{
    pthread_t thread;

    if (!CHECK(h, compute(h->g, in_parent), "%s", gram_message(h->g)))
        return;
    for (int i = 0; i < GRAM_PROCESS_LOCKS; i++) {
        struct holder holder = {.g = h->g, .which = (enum gram_process_lock)i};
        pthread_barrier_init(&holder.held, NULL, 2);
        if (CHECK(h, pthread_create(&thread, NULL, hold, &holder) == 0, "no thread")) {
            pthread_barrier_wait(&holder.held);
            CHECK(h, in_child(takes_every_lock, h->g), "a child of a process with lock %d held", i);
            pthread_join(thread, NULL);
        }
        pthread_barrier_destroy(&holder.held);
    }
}

/* A thread that was in SQLite when the process was forked holds locks there for ever: the child
 * does without the file, and says so. */
static int does_without_the_cache(gram_context *g)
{
    struct gram_database s;

    if (gram_database_open(g, true, &s))
        return 1;
    return strstr(s.why, "forked") ? same_as_parent(g) : 2;
}

static int has_the_cache(gram_context *g)
{
    struct gram_database s;
    bool there = gram_database_open(g, false, &s);

    if (there)
        gram_database_close(&s);
    return there || !strstr(s.why, "forked") ? 0 : 1;
}

static void forked_while_the_cache_is_open(struct harness *h)
{
    if (!CHECK(h, compute(h->g, in_parent), "%s", gram_message(h->g)))
        return;
    (void)atomic_fetch_add(&h->g->process->in_store, 1);
    CHECK(h, in_child(does_without_the_cache, h->g), "the child of an open cache");
    (void)atomic_fetch_sub(&h->g->process->in_store, 1);
    CHECK(h, in_child(has_the_cache, h->g), "the child of a closed cache");
}

static const struct test_function tests[] = {
    {              "children_compute",               children_compute},
    {           "a_busy_parent_forks",            a_busy_parent_forks},
    {   "forked_while_a_lock_is_held",    forked_while_a_lock_is_held},
    {"forked_while_the_cache_is_open", forked_while_the_cache_is_open},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
