/*
 * test_cuda_fork.c - what a child after fork() has of a process that uses a GPU
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/process.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_bool stop;

/* All that takes the plugin's locks: libraries that are opened, kernels that are found. */
static void *keep_busy(void *arg)
{
    struct harness *h = arg;

    while (!atomic_load(&stop)) {
        gram_context *g = test_cuda_context(h, NULL);
        gram_cache cache = {.size = sizeof cache};
        CHECK(h, g && gram_cache_info(g, &cache) == GRAM_OK, "%s", gram_message(g));
        gram_context_destroy(g);
    }
    return NULL;
}

/* A status, 0: right. */
static int use_in_child(gram_context *theirs)
{
    float x[6] = {0, 0, 3, 4, 6, 8}, out[9];
    gram_tensor tx = gram_matrix(x, 3, 2, GRAM_F32), to = gram_matrix(out, 3, 3, GRAM_F32);
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g;
    void *memory;

    alarm(120);
    if (gram_context_synchronize(theirs) != GRAM_DEVICE_FAILED ||
        !strstr(gram_message(theirs), "fork()"))
        return 1;
    if (gram_memory_allocate(theirs, 64, &memory) != GRAM_DEVICE_FAILED)
        return 2;
    gram_context_destroy(theirs);
    if (gram_best_device().type != GRAM_CPU)
        return 3;
    o.device.type = GRAM_CUDA;
    if (gram_context_create(&o, &g) != GRAM_UNSUPPORTED || !strstr(gram_message(NULL), "fork()"))
        return 4;
    if (gram_context_create(NULL, &g) != GRAM_OK)
        return 5;
    if (gram_cdist(g, &tx, NULL, gram_number(2), NULL, &to) != GRAM_OK || out[1] != 5)
        return 6;
    gram_context_destroy(g);
    return 0;
}

static void children_have_the_cpu(struct harness *h)
{
    gram_context *g = test_cuda_context(h, NULL);
    struct harness other = *h;
    pthread_t thread;

    if (!g || !CHECK(h, pthread_create(&thread, NULL, keep_busy, &other) == 0, "no thread"))
        return;
    for (int i = 0; i < 20; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(use_in_child(g));
        CHECK(h,
              child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                  WEXITSTATUS(status) == 0,
              "child %d: status %#x", i, (unsigned)status);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    CHECK(h, other.failures == 0, "%d failures in the busy thread", other.failures);
    CHECK(h, gram_context_synchronize(g) == GRAM_OK, "the parent: %s", gram_message(g));
    gram_context_destroy(g);
}

static const struct test_function tests[] = {
    {"children_have_the_cpu", children_have_the_cpu},
};

int main(void)
{
    if (gram_best_device().type != GRAM_CUDA) {
        printf("no CUDA device: skipped\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
