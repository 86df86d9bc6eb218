/*
 * test_cuda_emulation.c - the emulation of CUDA notices what its README.md says that it does
 *
 * Every kernel of cuda_mistakes.cu runs in a process of its own.  On a device: skipped, since there
 * a mistake may go well.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_file.h"
#include <dlfcn.h>
#include <math.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#  define SANITIZED true
#else
#  define SANITIZED false
#endif

enum {
    THREADS = 64,
    ILLEGAL_ADDRESS = 700,
    READ = 42 /* and more: exit statuses */
};

/* How a mistake shows. */
enum outcome {
    RIGHT,
    NANS,    /* in the result */
    UNSET,   /* the same, of shared memory that is not filled in a sanitizer's build */
    FAULT,   /* the driver's error, from then on */
    ENDED,   /* the process ends with SIGABRT */
    REFUSED, /* the launch fails */
};

static const struct mistake {
    const char *kernel;
    enum outcome outcome;
} mistakes[] = {
    {               "nothing_wrong",   RIGHT},
    {                "reads_behind",   FAULT},
    {               "writes_before",   FAULT},
    {           "forgets_a_barrier",   UNSET},
    {              "forgets_a_wait",    NANS},
    {    "copies_over_what_is_read",    NANS},
    {     "reads_what_nobody_wrote",   UNSET},
    {     "half_of_it_at_a_barrier",   ENDED},
    {     "shuffles_with_the_ended",   ENDED},
    {           "copies_misaligned",   ENDED},
    {"writes_behind_dynamic_memory",   ENDED},
    {        "is_for_fewer_threads", REFUSED},
    {               "has_no_c_name", REFUSED},
};

static const char *wanted; /* the kernel of this process */

static enum outcome run_kernel(struct harness *h, const struct kernel_file *f)
{
    float out[THREADS];
    void *at = device_allocate(sizeof out);
    bool nans = false;

    CHECK(h, at, "no memory");
    if (kernel_start(f, wanted, 1, THREADS, THREADS * sizeof(float), &(void *){&at}) != 0)
        return REFUSED;
    if (!device_download(out, at, sizeof out))
        return (int)f->driver->stream_synchronize(NULL) == ILLEGAL_ADDRESS ? FAULT : REFUSED;
    for (int i = 0; i < THREADS; i++) {
        nans |= isnan(out[i]) != 0;
        CHECK(h, isnan(out[i]) || out[i] == 1, "out[%d] is %g", i, (double)out[i]);
    }
    return nans ? NANS : RIGHT;
}

/* Exits with how it went. */
static void one_kernel(struct harness *h)
{
    struct kernel_file f;

    if (kernel_file_open(h, "cuda_mistakes.cu", &f))
        exit(h->failures ? 100 : (int)run_kernel(h, &f));
}

static void every_mistake_is_noticed(struct harness *h)
{
    for (int i = 0; i < LENGTH(mistakes); i++) {
        char name[64], *const arguments[] = {(char[]){"test_cuda_emulation"}, name, NULL};
        enum outcome expected = mistakes[i].outcome;
        pid_t child = 0;
        int status = 0;
        if (expected == UNSET && SANITIZED)
            continue;
        expected = expected == UNSET ? NANS : expected;
        snprintf(name, sizeof name, "%s", mistakes[i].kernel);
        CHECK(h,
              posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0 &&
                  waitpid(child, &status, 0) == child,
              "posix_spawn");
        CHECK(h,
              expected == ENDED ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT
                                : WIFEXITED(status) && WEXITSTATUS(status) == (int)expected,
              "%s: status %x, expected outcome %d", name, (unsigned)status, (int)expected);
    }
}

/* ---- What the host does wrong --------------------------------------------------------------- */

static void the_host_reads_memory_of_the_device(struct harness *h)
{
    pid_t child;
    int status = 0;

    CHECK(h, device_open(0), "no device");
    child = fork();
    if (child == 0) {
        const volatile char *memory = device_allocate(64);
        _exit(memory && memory[0] == 1 ? READ + 1 : READ);
    }
    CHECK(h,
          waitpid(child, &status, 0) == child &&
              !(WIFEXITED(status) && WEXITSTATUS(status) >= READ),
          "it can be read");
}

/* Work lies in its stream until it is waited for; a kernel can write to memory of the host that the
 * driver gave. */
static void nothing_is_done_before_it_is_waited_for(struct harness *h)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *found;
    int (*allocate)(void **address, size_t bytes, unsigned flags);
    int (*release)(void *address);
    const size_t bytes = THREADS * sizeof(float);
    struct kernel_file f;
    void *memory = NULL;
    float before;

    if (!kernel_file_open(h, "cuda_mistakes.cu", &f) || !CHECK(h, library, "no driver"))
        return;
    found = dlsym(library, "cuMemHostAlloc");
    memcpy((void *)&allocate, &found, sizeof found);
    found = dlsym(library, "cuMemFreeHost");
    memcpy((void *)&release, &found, sizeof found);
    if (!CHECK(h, allocate(&memory, bytes, 0) == 0, "no memory of the host"))
        return;
    memset(memory, 0, bytes);
    CHECK(h,
          kernel_start(&f, "nothing_wrong", 1, THREADS, (unsigned)bytes, &(void *){&memory}) == 0,
          "not started");
    memcpy(&before, memory, sizeof before);
    CHECK(h, before == 0, "it is done when it is queued");
    CHECK(h, f.driver->stream_synchronize(NULL) == CUDA_SUCCESS, "the kernel failed");
    memcpy(&before, memory, sizeof before);
    CHECK(h, before == 1, "out[0] is %g", (double)before);
    CHECK(h, release(memory) == 0, "memory of the host is not taken back");
}

static const struct test_function tests[] = {
    {               "every_mistake_is_noticed",                every_mistake_is_noticed},
    {    "the_host_reads_memory_of_the_device",     the_host_reads_memory_of_the_device},
    {"nothing_is_done_before_it_is_waited_for", nothing_is_done_before_it_is_waited_for},
};

int main(int argc, char **argv)
{
    static const struct test_function one[] = {
        {"one_kernel", one_kernel}
    };

    if (!getenv("GRAM_TEST_EMULATED") || gram_best_device().type != GRAM_CUDA) {
        printf("skipped: not the emulation\n");
        return 77;
    }
    wanted = argc > 1 ? argv[1] : NULL;
    return wanted ? harness_run_tests(one, 1) : harness_run_tests(tests, LENGTH(tests));
}
