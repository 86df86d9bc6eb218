/*
 * test_thread_counts.c - how many threads work takes: small work, BLAS, quotas
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/blas.h"
#include "core/blas_process.h"
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static gram_context *open_with(struct harness *h, int threads)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g = NULL;

    o.threads = threads;
    CHECK(h, gram_context_create(&o, &g) == GRAM_OK, "%s", gram_message(NULL));
    return g;
}

/* ---- Small work, and the threads of BLAS --------------------------------------------------- */

/* 60 steps of a small optimizer took ten seconds on a busy machine, 0.1 with one thread. */
static void small_work_wakes_nobody(struct harness *h)
{
    static const int64_t orders[] = {16, 64, 128};
    gram_context *g = open_with(h, 4);

    for (int i = 0; g && i < LENGTH(orders); i++) {
        int64_t n = orders[i];
        struct test_tensor a, b, w, few;
        test_tensor_create(h, &a, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){n, n});
        test_tensor_create(h, &b, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){n, n});
        test_tensor_create(h, &w, GRAM_F64, ROW_MAJOR, 1, (int64_t[]){n});
        test_tensor_create(h, &few, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){n, n / 2});
        for (int64_t k = 0; k < n * n; k++)
            test_put(&a.t, k, k % (n + 1) == 0 ? 2 * (double)n : 1);
        CHECK(h, gram_matrix_power(g, &a.t, NULL, &b.t, NULL) == GRAM_OK, "%s", gram_message(g));
        CHECK(h, gram_eigh(g, &a.t, NULL, &w.t, &b.t, NULL) == GRAM_OK, "%s", gram_message(g));
        CHECK(h, gram_solve_cholesky(g, &a.t, &few.t, NULL, &few.t, NULL) == GRAM_OK, "%s",
              gram_message(g));
        CHECK(h, gram_solve_lu(g, &a.t, &few.t, NULL, &few.t, NULL) == GRAM_OK, "%s",
              gram_message(g));
        CHECK(h, n > 64 || gram_cdist(g, &a.t, NULL, gram_number(2), NULL, &b.t) == GRAM_OK, "%s",
              gram_message(g));
        CHECK(h, g->pool == NULL, "matrices of order %d started threads", (int)n);
        test_tensor_destroy(h, &a, "a"), test_tensor_destroy(h, &b, "b");
        test_tensor_destroy(h, &w, "w"), test_tensor_destroy(h, &few, "few");
    }
    gram_context_destroy(g);
}

int B(openblas_get_num_threads)(void) __attribute__((weak));
void B(openblas_set_num_threads)(int threads) __attribute__((weak));

static int blas_threads(void)
{
    return B(openblas_get_num_threads) ? B(openblas_get_num_threads)() : 0;
}

static void look_at_blas(void *arg, int64_t index, int thread)
{
    (void)thread;
    ((int *)arg)[index] = blas_threads();
}

static void blas_takes_as_many_threads_as_gain(struct harness *h)
{
    static const struct {
        double work;
        int threads;
    } rows[] = {
        {   64.0 * 64 * 64, 1},
        {128.0 * 128 * 128, 1},
        {160.0 * 160 * 160, 4},
        {  1e3 * 1e3 * 1e3, 4},
    };
    gram_context *g = open_with(h, 4);
    int seen[8], before = blas_threads();

    if (!g || before == 0) { /* of another BLAS we know no number */
        gram_context_destroy(g);
        return;
    }
    B(openblas_set_num_threads)(3);
    for (int i = 0; i < LENGTH(rows); i++) {
        bool lent;
        gram_blas_threads(g);
        lent = gram_blas_begin(rows[i].work);
        CHECK(h, blas_threads() == rows[i].threads, "row %d: %d threads", i, blas_threads());
        gram_blas_end(lent);
        CHECK(h, blas_threads() == 3, "row %d leaves %d threads", i, blas_threads());
        gram_blas_for(g, 8, look_at_blas, seen);
        for (int k = 0; k < 8; k++)
            CHECK(h, seen[k] == 1, "%d threads in a loop of tasks", seen[k]);
        CHECK(h, blas_threads() == 3, "a loop leaves %d threads", blas_threads());
    }
    B(openblas_set_num_threads)(before);
    gram_context_destroy(g);
}

/* Two small calls overlap: the first one to end leaves the other its number.  Without that the
 * second went on with the number of the process, and so with sums in another order. */
static void the_end_of_a_call_changes_no_other(struct harness *h)
{
    gram_context *g = open_with(h, 2);
    int before = blas_threads();
    bool first, second;

    if (before == 0) {
        gram_context_destroy(g);
        return;
    }
    B(openblas_set_num_threads)(3);
    gram_blas_threads(g);
    first = gram_blas_begin(1);
    second = gram_blas_begin(1);
    gram_blas_end(first);
    CHECK(h, blas_threads() == 1, "%d threads after the end of another call", blas_threads());
    gram_blas_end(second);
    CHECK(h, blas_threads() == 3, "both leave %d threads", blas_threads());
    B(openblas_set_num_threads)(before);
    gram_context_destroy(g);
}

/* A small call, in a thread of its own. */
struct small_call {
    gram_context *g;
    atomic_bool begun;
    int seen; /* threads of BLAS in it */
};

static void *call_in_turn(void *arg)
{
    struct small_call *call = arg;
    bool lent;

    gram_blas_threads(call->g);
    lent = gram_blas_begin(1);
    atomic_store(&call->begun, true);
    call->seen = blas_threads();
    gram_blas_end(lent);
    return NULL;
}

/* A small call beside a large one waits for its end, where somebody has promised the same bits. */
static void calls_of_other_numbers_take_turns(struct harness *h)
{
    struct small_call call = {.g = open_with(h, 2)};
    int before = blas_threads();
    pthread_t thread;
    bool lent, inner;

    if (before == 0) {
        gram_context_destroy(call.g);
        return;
    }
    B(openblas_set_num_threads)(3);
    gram_blas_take_turns(true);
    gram_blas_threads(call.g);
    lent = gram_blas_begin(1e9);
    CHECK(h, pthread_create(&thread, NULL, call_in_turn, &call) == 0, "no thread");
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    CHECK(h, !atomic_load(&call.begun) && blas_threads() == 2, "%d threads beside another call",
          blas_threads());
    inner = gram_blas_begin(1e9); /* of a thread that has a loan: it waits for nobody */
    gram_blas_end(inner);
    gram_blas_end(lent);
    (void)pthread_join(thread, NULL);
    CHECK(h, atomic_load(&call.begun) && call.seen == 1, "%d threads in its turn", call.seen);
    gram_blas_take_turns(false);
    CHECK(h, blas_threads() == 3, "they leave %d threads", blas_threads());
    B(openblas_set_num_threads)(before);
    gram_context_destroy(call.g);
}

static void call_in_loop(void *arg, int64_t index, int thread)
{
    bool lent;

    (void)arg, (void)index, (void)thread;
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    lent = gram_blas_begin(1);
    gram_blas_end(lent);
}

static void *call_large(void *arg)
{
    bool lent;

    gram_blas_threads(arg);
    lent = gram_blas_begin(1e9);
    gram_blas_end(lent);
    return NULL;
}

/* A loop holds BLAS's number, and its tasks want a buffer, of which there is one.  A call that took
 * the buffer before it waited for the number never ended, nor did the loop.  Memory stays limited
 * from here on. */
static void who_waits_holds_no_buffer(struct harness *h)
{
    gram_context *one = open_with(h, 1), *two = open_with(h, 2);
    pthread_t thread;

    if (one && two && blas_threads() > 0) {
        atomic_store(&gram_blas_memory_limited, true);
        CHECK(h, gram_blas_memory_reserve(one) == GRAM_OK, "%s", gram_message(one));
        gram_blas_take_turns(true);
        CHECK(h, pthread_create(&thread, NULL, call_large, two) == 0, "no thread");
        gram_blas_for(one, 5, call_in_loop, NULL);
        (void)pthread_join(thread, NULL);
        gram_blas_take_turns(false);
    }
    gram_context_destroy(one);
    gram_context_destroy(two);
}

/* A system that is large enough for BLAS's threads: (n + 1) I + ones. */
static bool solve(gram_context *g)
{
    enum {
        N = 300
    };
    double *a = malloc(N * (N + 1) * sizeof *a), *b = a + N * N;
    gram_tensor matrix = gram_matrix(a, N, N, GRAM_F64), side = gram_matrix(b, N, 1, GRAM_F64);
    bool right;

    if (!a)
        return false;
    for (int i = 0; i < N * N; i++)
        a[i] = i % (N + 1) == 0 ? N + 2 : 1;
    for (int i = 0; i < N; i++)
        b[i] = 2 * N + 1;
    right = gram_solve_cholesky(g, &matrix, &side, NULL, &side, NULL) == GRAM_OK &&
            b[0] > 1 - 1e-12 && b[0] < 1 + 1e-12;
    free(a);
    return right;
}

static void *solve_often(void *arg)
{
    bool right = true;

    for (int i = 0; i < 20; i++)
        right &= solve(arg);
    return right ? arg : NULL;
}

/* Contexts of 1, 2 and 3 threads, whose loans of BLAS's number overlap. */
static void solve_side_by_side(struct harness *h)
{
    pthread_t thread[3];
    gram_context *g[3];

    for (int i = 0; i < 3; i++) {
        g[i] = open_with(h, i + 1);
        CHECK(h, pthread_create(&thread[i], NULL, solve_often, g[i]) == 0, "no thread");
    }
    for (int i = 0; i < 3; i++) {
        void *right = NULL;
        pthread_join(thread[i], &right);
        CHECK(h, right != NULL, "a solution of %d threads is wrong", i + 1);
        gram_context_destroy(g[i]);
    }
}

/* Others share the BLAS of the process: what they have set is there after each call. */
static void calls_leave_the_number_of_blas(struct harness *h)
{
    static const int numbers[] = {1, 2, 3};
    int before = blas_threads();

    for (int i = 0; before > 0 && i < LENGTH(numbers); i++) {
        B(openblas_set_num_threads)(numbers[i]);
        solve(h->g);
        CHECK(h, blas_threads() == numbers[i], "%d threads became %d", numbers[i], blas_threads());
        solve_side_by_side(h);
        CHECK(h, blas_threads() == numbers[i], "%d threads became %d after calls side by side",
              numbers[i], blas_threads());
    }
    if (before > 0)
        B(openblas_set_num_threads)(before);
}

/* ---- Quotas -------------------------------------------------------------------------------- */

/* Writes a file below a folder, with the folders on its way. */
static void write_below(struct harness *h, const char *root, const char *path, const char *text)
{
    char name[512];
    FILE *file;

    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *c = name + strlen(root) + 1; *c; c++)
        if (*c == '/') {
            *c = '\0';
            mkdir(name, 0700);
            *c = '/';
        }
    file = fopen(name, "w");
    if (CHECK(h, file != NULL, "cannot write %s", name)) {
        fputs(text, file);
        fclose(file);
    }
}

static void quotas_of_cgroups_count(struct harness *h)
{
    static const struct {
        const char *groups, *file, *quota, *other_file, *other;
        int processors;
    } rows[] = {
        {                         "0::/\n",                "/sys/fs/cgroup/cpu.max", "200000 100000\n",NULL,NULL,       2                                                                                                                                   },
        {                         "0::/\n",                "/sys/fs/cgroup/cpu.max", "150000 100000\n",                       NULL,       NULL,       2},
        {                         "0::/\n",                "/sys/fs/cgroup/cpu.max",   "5000 100000\n",                       NULL,       NULL,       1},
        {                         "0::/\n",                "/sys/fs/cgroup/cpu.max",    "max 100000\n",                       NULL,       NULL, INT_MAX},
        {                         "0::/\n",                "/sys/fs/cgroup/cpu.max",                "",                       NULL,       NULL, INT_MAX},
        {                         "0::/\n",                  "/sys/fs/cgroup/other",                "",                       NULL,       NULL, INT_MAX},
        {                      "0::/a/b\n",            "/sys/fs/cgroup/a/b/cpu.max",    "max 100000\n", "/sys/fs/cgroup/a/cpu.max",
         "300000 100000\n",       3                                                                                                                    },
        {                      "0::/a/b\n",            "/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n",   "/sys/fs/cgroup/cpu.max",
         "max 100000\n",       4                                                                                                                       },
        {"5:memory:/m\n4:cpu,cpuacct:/d\n", "/sys/fs/cgroup/cpu/d/cpu.cfs_quota_us",        "250000\n",
         "/sys/fs/cgroup/cpu/d/cpu.cfs_period_us",  "50000\n",       5                                                                                 },
        {             "4:cpuacct,cpu:/d\n",   "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",        "100000\n",
         "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n",       1                                                                                   },
        {                     "4:cpu:/d\n", "/sys/fs/cgroup/cpu/d/cpu.cfs_quota_us",            "-1\n",
         "/sys/fs/cgroup/cpu/d/cpu.cfs_period_us", "100000\n", INT_MAX                                                                                 },
        {                  "4:cpuset:/d\n", "/sys/fs/cgroup/cpu/d/cpu.cfs_quota_us",        "100000\n",
         "/sys/fs/cgroup/cpu/d/cpu.cfs_period_us", "100000\n", INT_MAX                                                                                 },
        {                 "nonsense\n4:\n",                "/sys/fs/cgroup/cpu.max", "100000 100000\n",                       NULL,       NULL, INT_MAX},
    };

    for (int i = 0; i < LENGTH(rows); i++) {
        char root[] = "/tmp/gram-quota-XXXXXX", command[64];
        int got;
        if (!CHECK(h, mkdtemp(root) != NULL, "no folder"))
            return;
        write_below(h, root, "/proc/self/cgroup", rows[i].groups);
        write_below(h, root, rows[i].file, rows[i].quota);
        if (rows[i].other_file)
            write_below(h, root, rows[i].other_file, rows[i].other);
        got = gram_quota_processors(root);
        CHECK(h, got == rows[i].processors, "row %d: %d processors, expected %d", i, got,
              rows[i].processors);
        snprintf(command, sizeof command, "rm -r %s", root);
        CHECK(h, system(command) == 0, "%s remains", root); // NOLINT(cert-env33-c)
    }
    CHECK(h, gram_quota_processors("/nowhere") == INT_MAX, "a quota from no file");
    CHECK(h, gram_processors() >= 1 && gram_processors() <= GRAM_MAX_THREADS, "%d processors",
          gram_processors());
}

/* The last one limits memory. */
static const struct test_function tests[] = {
    {           "small_work_wakes_nobody",            small_work_wakes_nobody},
    {"blas_takes_as_many_threads_as_gain", blas_takes_as_many_threads_as_gain},
    {"the_end_of_a_call_changes_no_other", the_end_of_a_call_changes_no_other},
    { "calls_of_other_numbers_take_turns",  calls_of_other_numbers_take_turns},
    {    "calls_leave_the_number_of_blas",     calls_leave_the_number_of_blas},
    {           "quotas_of_cgroups_count",            quotas_of_cgroups_count},
    {         "who_waits_holds_no_buffer",          who_waits_holds_no_buffer},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
