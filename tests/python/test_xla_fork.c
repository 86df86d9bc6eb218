/*
 * test_xla_fork.c - a child of fork() finds the contexts of gram.jax free
 *
 * XLA's threads take them without the interpreter's lock, so that fork() may come while one of them
 * has the list locked.
 *
 * SPDX-License-Identifier: MIT
 */
// For its lock, which a thread is to hold when the process is forked.
#include "check/harness/harness.h"
#include "python/core/py_xla_context.c" // NOLINT(bugprone-suspicious-include)
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A child of a process with threads does not end in ThreadSanitizer: that is what is tested. */
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

static atomic_bool held;

static void *hold(void *unused)
{
    const struct timespec moment = {.tv_nsec = 200 * 1000000};

    lock_process();
    atomic_store(&held, true);
    (void)nanosleep(&moment, NULL); /* fork() comes meanwhile */
    unlock_process();
    return unused;
}

/* The child takes the lock; one that waits for ever is ended by its alarm. */
static void a_child_does_not_wait_for_a_thread_of_its_parent(struct harness *h)
{
    pthread_t thread;
    int status = -1;
    pid_t child;

    py_xla_set_threads(2);
    CHECK(h, pthread_create(&thread, NULL, hold, NULL) == 0, "no thread");
    while (!atomic_load(&held))
        continue;
    child = fork();
    if (child == 0) {
        alarm(20);
        py_xla_set_threads(1);
        _exit(process.threads == 1 ? 0 : 1);
    }
    CHECK(h, child > 0 && waitpid(child, &status, 0) == child && status == 0, "status %d", status);
    CHECK(h, pthread_join(thread, NULL) == 0, "no end");
    py_xla_set_threads(0); /* the parent has its lock too */
    CHECK(h, process.threads == 0, "%d threads", process.threads);
}

static void contexts_that_wait_go_with_the_child(struct harness *h)
{
    const gram_device cpu = {GRAM_CPU, 0};
    struct py_xla_context *context = NULL;
    int status = -1;
    pid_t child;

    CHECK(h, py_xla_take(NULL, cpu, NULL, &context) == GRAM_OK, "no context");
    if (!context)
        return;
    py_xla_give(context);
    CHECK(h, process.count == 1, "%d wait", process.count);
    child = fork();
    if (child == 0) {
        alarm(20);
        context = NULL;
        if (py_xla_take(NULL, cpu, NULL, &context) != GRAM_OK || !context || process.count != 0)
            _exit(1);
        py_xla_give(context);
        py_xla_set_threads(1);
        _exit(process.count);
    }
    CHECK(h, child > 0 && waitpid(child, &status, 0) == child && status == 0, "status %d", status);
    py_xla_set_threads(0);
    CHECK(h, process.count == 0, "%d wait", process.count);
}

static const struct test_function tests[] = {
    {"a_child_does_not_wait_for_a_thread_of_its_parent",
     a_child_does_not_wait_for_a_thread_of_its_parent                                        },
    {            "contexts_that_wait_go_with_the_child", contexts_that_wait_go_with_the_child},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
