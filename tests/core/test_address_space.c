/*
 * test_address_space.c - a limit of the address space (ulimit -v) ends in a status, not in a hang
 *
 * OpenBLAS asks for ever for a buffer that it cannot have.  Each limit is tried in a process of its
 * own, this program begun anew, since OpenBLAS makes its threads when it is loaded; the process
 * ends, at its end too, where OpenBLAS waits for its threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/blas.h"
#include "core/blas_process.h"
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#    define SANITIZED
#  endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define SANITIZED
#endif

enum {
    N = 200,       /* more than one thread of BLAS works on */
    ITEMS = 12,    /* which run one per thread, each with a buffer */
    TRIED = 3,     /* of the calls below, at every limit */
    PATIENCE = 60, /* seconds for a process that takes a tenth of one */
    WORKED = 0,    /* how a process ends */
    NO_MEMORY = 3,
    WRONG = 4
};

/* ---- In the process with the limit --------------------------------------------------------- */

static int ended(gram_context *g, const char *call, gram_status status, bool right)
{
    if (status == GRAM_OK && right)
        return WORKED;
    if (status == GRAM_OUT_OF_MEMORY && gram_message(g)[0])
        return NO_MEMORY;
    fprintf(stderr, "%s: %s, %s\n", call, gram_status_name(status), gram_message(g));
    return WRONG;
}

/* Diagonal matrices, i + 1 in all places of the diagonal of matrix i. */
static void fill(double *a, int items)
{
    memset(a, 0, (size_t)items * N * N * sizeof *a);
    for (int i = 0; i < items; i++)
        for (int j = 0; j < N; j++)
            a[((size_t)i * N + (size_t)j) * N + (size_t)j] = i + 1;
}

static int solve(gram_context *g)
{
    static double a[N * N], b[N], x[N];
    gram_tensor ta = gram_matrix(a, N, N, GRAM_F64), tb = gram_matrix(b, N, 1, GRAM_F64);
    gram_tensor tx = gram_matrix(x, N, 1, GRAM_F64);
    gram_status status;

    fill(a, 1);
    for (int i = 0; i < N; i++)
        b[i] = i;
    status = gram_solve_cholesky(g, &ta, &tb, NULL, &tx, NULL);
    return ended(g, "solve", status, x[N - 1] == N - 1);
}

static int eigh(gram_context *g)
{
    static double a[ITEMS * N * N], w[ITEMS * N], v[ITEMS * N * N];
    gram_tensor ta = gram_matrices(a, ITEMS, N, N, GRAM_F64),
                tw = gram_matrix(w, ITEMS, N, GRAM_F64);
    gram_tensor tv = gram_matrices(v, ITEMS, N, N, GRAM_F64);
    gram_status status;

    fill(a, ITEMS);
    status = gram_eigh(g, &ta, NULL, &tw, &tv, NULL);
    return ended(g, "eigh", status, w[0] == 1 && w[ITEMS * N - 1] == ITEMS);
}

/* BLAS has as many threads as the context, which OpenBLAS had not when it was loaded. */
static int solve_on_all(gram_context *g)
{
    int end = solve(g);

    return end == WORKED && gram_blas_memory_threads() != g->threads ? WRONG : end;
}

static int cdist(gram_context *g)
{
    static double x[N], out[N * N];
    gram_tensor tx = gram_matrix(x, N, 1, GRAM_F64), to = gram_matrix(out, N, N, GRAM_F64);
    gram_status status;

    for (int i = 0; i < N; i++)
        x[i] = i;
    status = gram_cdist(g, &tx, NULL, gram_number(1), NULL, &to);
    return ended(g, "cdist", status, out[N - 1] == N - 1);
}

static const struct {
    const char *name;
    int (*body)(gram_context *g);
} calls[] = {
    {       "solve",        solve},
    {        "eigh",         eigh},
    {       "cdist",        cdist},
    {"solve on all", solve_on_all},
};

/* In a process with a limit, and with the threads that OpenBLAS was told to make. */
static int run_limited(const char *name, int threads)
{
    const gram_context_options options = {.size = sizeof options, .threads = threads};
    gram_context *g;
    int end = WRONG;

    if (gram_context_create(&options, &g) != GRAM_OK)
        return ended(NULL, "context", GRAM_OUT_OF_MEMORY, false);
    for (int i = 0; i < LENGTH(calls); i++)
        if (strcmp(calls[i].name, name) == 0)
            end = calls[i].body(g);
    gram_context_destroy(g);
    return end;
}

/* ---- In the test --------------------------------------------------------------------------- */

static void begin_limited(const char *name, int mib, const int threads[2])
{
    struct rlimit limit = {(rlim_t)mib << 20, (rlim_t)mib << 20};
    char made[16], ours[16];

    snprintf(made, sizeof made, "%d", threads[0]);
    snprintf(ours, sizeof ours, "%d", threads[1]);
    setenv("OPENBLAS_NUM_THREADS", made, 1);
    if (setrlimit(RLIMIT_AS, &limit) == 0)
        execl("/proc/self/exe", "test_address_space", name, ours, (char *)NULL);
    _exit(WRONG);
}

/* How it ended; -1: it did not, or by a signal. */
static int limited(struct harness *h, const char *name, int mib, const int threads[2])
{
    pid_t child = fork();
    int status = 0;

    if (child == 0)
        begin_limited(name, mib, threads);
    for (int i = 0; i < PATIENCE * 100; i++) {
        pid_t gone = waitpid(child, &status, WNOHANG);
        if (gone == child) {
            CHECK(h, WIFEXITED(status), "%s, %d MiB: signal %d", name, mib, WTERMSIG(status));
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    CHECK(h, false, "%s, %d MiB, %d threads of BLAS: hangs", name, mib, threads[0]);
    return -1;
}

static const int sizes[] = {96, 128, 160, 200, 256, 300, 350, 400, 500, 700, 1000};

/* OpenBLAS's own threads, made when it was loaded, and ours. */
static const int teams[][2] = {
    {1, 4},
    {2, 2},
    {3, 8},
};

static void ends_with_a_status(struct harness *h)
{
    for (int i = 0; i < TRIED; i++)
        for (int t = 0; t < LENGTH(teams); t++)
            for (int s = t; s < LENGTH(sizes); s += t + 1) {
                int end = limited(h, calls[i].name, sizes[s], teams[t]);
                CHECK(h, end == WORKED || end == NO_MEMORY, "%s, %d MiB, threads %d and %d: %d",
                      calls[i].name, sizes[s], teams[t][0], teams[t][1], end);
            }
}

static void works_where_there_is_room(struct harness *h)
{
    for (int i = 0; i < TRIED; i++)
        for (int t = 0; t < LENGTH(teams); t++) {
            int end = limited(h, calls[i].name, 1000, teams[t]);
            CHECK(h, end == WORKED, "%s, threads %d and %d: %d", calls[i].name, teams[t][0],
                  teams[t][1], end);
        }
}

static void makes_threads_where_there_is_room(struct harness *h)
{
    CHECK(h, limited(h, "solve on all", 4000, teams[0]) == WORKED, "fewer threads");
}

/* No buffer fits; distances need none. */
static void says_that_memory_is_short(struct harness *h)
{
    CHECK(h, limited(h, "solve", 160, teams[0]) == NO_MEMORY, "a buffer fits?");
    CHECK(h, limited(h, "cdist", 160, teams[0]) == WORKED, "cdist takes a buffer");
}

static void without_a_limit_nothing_is_bounded(struct harness *h)
{
    CHECK(h, gram_blas_memory_threads() == INT_MAX, "%d threads", gram_blas_memory_threads());
}

static const struct test_function tests[] = {
    {                "ends_with_a_status",                 ends_with_a_status},
    {         "works_where_there_is_room",          works_where_there_is_room},
    { "makes_threads_where_there_is_room",  makes_threads_where_there_is_room},
    {         "says_that_memory_is_short",          says_that_memory_is_short},
    {"without_a_limit_nothing_is_bounded", without_a_limit_nothing_is_bounded},
};

int main(int argc, char **argv)
{
    gram_context *g;

    if (argc == 3)
        return run_limited(argv[1], atoi(argv[2])); // NOLINT(cert-err34-c): our own number
#ifdef SANITIZED
    puts("a sanitizer needs the address space");
    return 77;
#endif
    if (gram_context_create(NULL, &g) != GRAM_OK || !strstr(gram_blas_name(), "OpenBLAS"))
        return 77;
    gram_context_destroy(g);
    return harness_run_tests(tests, LENGTH(tests));
}
