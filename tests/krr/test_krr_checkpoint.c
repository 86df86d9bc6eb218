/*
 * test_krr_checkpoint.c - checkpoints of gram_krr_solve: what goes on from one takes the same steps
 *
 * fsync and rename are this file's: a process can end there, a call be cancelled.  GRAM_TEST_DEVICE
 * is as in run_cases.c.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE // NOLINT(bugprone-reserved-identifier)
#include "check/harness/device_memory.h"
#include "core/model_file.h"
#include "tests/core/scratch_folder.h"
#include "tests/krr/krr_numbers.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    N = 90,
    BLOCKS_N = 600, /* two blocks of 256 rows, and one of what is left */
    WIDTH = 3,
    COLUMNS = 2,
    CENTRES = 20
};

/* ---- Where it hurts -------------------------------------------------------------------------- */

static int calls, fatal, cancelling; /* of fsync and rename; 0: none of them */
static gram_context *cancelled;

static void moment(void)
{
    calls++;
    if (calls == fatal)
        (void)raise(SIGKILL);
    if (calls == cancelling)
        gram_context_cancel(cancelled);
}

/* A disk that is slow makes this no better a test: what was written outlives the process. */
int fsync(int descriptor)
{
    (void)descriptor;
    moment();
    return 0;
}

int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *);

    *(void **)&real = dlsym(RTLD_NEXT, "rename");
    moment();
    return real(from, to);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

struct call {
    gram_dtype dtype, alpha_dtype;
    double x[BLOCKS_N * WIDTH], y[BLOCKS_N * COLUMNS], alpha[BLOCKS_N * COLUMNS];
    double weights[BLOCKS_N];
    int64_t n, unknowns;
    gram_kernel_options kernel;
    gram_krr_options options;
    gram_krr_report report;
    char path[SCRATCH_BYTES];
};

/* kind: 0 and 1 CG in f32 and f64, 2 with a preconditioner, 3 with refinement, 4 and 5 centres, 6
 * blocks. */
enum {
    CENTRED = 4,
    IN_BLOCKS = 6,
    KINDS = 7
};

static struct call call_of(int kind)
{
    static const gram_dtype dtypes[KINDS] = {GRAM_F32, GRAM_F64, GRAM_F64, GRAM_F32,
                                             GRAM_F32, GRAM_F64, GRAM_F64};
    struct call c = {.dtype = dtypes[kind], .n = N, .unknowns = N};
    uint64_t numbers = 99;

    c.alpha_dtype = kind == 3 ? GRAM_F64 : c.dtype;
    c.kernel = kernel_of(0);
    c.options = (gram_krr_options)GRAM_KRR_OPTIONS_INIT;
    c.options.method = kind < CENTRED     ? GRAM_KRR_CG
                       : kind < IN_BLOCKS ? GRAM_KRR_CENTRES
                                          : GRAM_KRR_BLOCKS;
    c.options.ridge = 1e-3;
    c.options.tolerance = c.dtype == GRAM_F64 || kind == 3 ? 1e-9 : 1e-3;
    c.options.rank = kind == 2 ? 10 : kind == 3 ? 40 : -1;
    c.options.refine = kind == 3;
    c.options.checkpoint_iterations = 1;
    if (c.options.method == GRAM_KRR_CENTRES) {
        c.options.centre_count = c.unknowns = CENTRES;
        c.options.ridge = 1e-5;
    }
    if (kind == IN_BLOCKS) {
        c.n = c.unknowns = BLOCKS_N;
        c.options.ridge = 1e-2; /* such that there is momentum */
        c.options.tolerance = 1e-5;
        c.options.checkpoint_iterations = 2;
    }
    for (int64_t i = 0; i < c.n * WIDTH; i++) {
        numbers = numbers * UINT64_C(6364136223846793005) + 1442695040888963407;
        set_number(c.dtype, c.x, i, 4 * (double)(numbers >> 40) * 0x1p-24 - 2);
    }
    for (int64_t i = 0; i < c.n; i++) { /* columns that converge at different times */
        set_number(c.dtype, c.y, i * COLUMNS, sin(2 * get_number(c.dtype, c.x, i * WIDTH)));
        set_number(c.dtype, c.y, i * COLUMNS + 1, (double)(i % 7) - 3);
        set_number(c.dtype, c.weights, i, 1 + (double)(i % 3));
    }
    return c;
}

static gram_status run_in(gram_context *g, struct harness *h, struct call *c)
{
    gram_tensor x = gram_matrix(c->x, c->n, WIDTH, c->dtype);
    gram_tensor y = gram_matrix(c->y, c->n, COLUMNS, c->dtype);
    gram_tensor alpha = gram_matrix(c->alpha, c->unknowns, COLUMNS, c->alpha_dtype);
    gram_krr_options options = c->options;
    gram_tensor weights = gram_vector(c->weights, c->n, c->dtype);
    gram_status status;

    c->report = (gram_krr_report){.size = sizeof c->report};
    options.report = &c->report;
    if (options.weights)
        options.weights = &weights;
    if (h->device.type == GRAM_CPU)
        return gram_krr_solve(g, &x, &c->kernel, &y, &options, &alpha);
    upload(h, &x, sizeof c->x);
    upload(h, &y, sizeof c->y);
    upload(h, &alpha, sizeof c->alpha);
    upload(h, &weights, sizeof c->weights);
    status = gram_krr_solve(g, &x, &c->kernel, &y, &options, &alpha);
    if (!device_download(c->alpha, alpha.data, sizeof c->alpha))
        abort();
    gram_memory_free(g, x.data, sizeof c->x);
    gram_memory_free(g, y.data, sizeof c->y);
    gram_memory_free(g, alpha.data, sizeof c->alpha);
    gram_memory_free(g, weights.data, sizeof c->weights);
    return status;
}

static gram_status run(struct harness *h, struct call *c)
{
    return run_in(h->g, h, c);
}

static void keep_at(struct call *c, const char *name)
{
    c->options.checkpoint = scratch_path(name, c->path);
    (void)unlink(c->path);
}

/* The history in a file; its length, or -1. */
static int64_t history_of(struct harness *h, const char *path, double *out, int64_t room)
{
    struct gram_model_file *file;
    const void *data;
    int64_t count = -1;

    if (!CHECK(h, gram_model_read(h->g, path, &file) == GRAM_OK, "%s", gram_message(h->g)))
        return -1;
    if (CHECK(h,
              gram_model_need_vector(h->g, file, "history", GRAM_F64, -1, &data, &count) ==
                      GRAM_OK &&
                  count <= room,
              "%s", gram_message(h->g)))
        memcpy(out, data, (size_t)count * sizeof *out);
    gram_model_file_destroy(file);
    return count;
}

enum {
    MOST = 600
};

struct whole { /* a solve that nothing interrupted */
    double history[MOST], alpha[BLOCKS_N * COLUMNS];
    int64_t count;
};

static void solve_whole(struct harness *h, int kind, struct whole *w)
{
    struct call c = call_of(kind);

    keep_at(&c, "whole");
    CHECK(h, run(h, &c) == GRAM_OK, "kind %d: %s", kind, gram_message(h->g));
    w->count = history_of(h, c.path, w->history, MOST);
    CHECK(h, w->count > 4, "kind %d: %lld iterations", kind, (long long)w->count);
    for (int64_t i = 0; i < c.unknowns * COLUMNS; i++)
        w->alpha[i] = get_number(c.alpha_dtype, c.alpha, i);
}

/* The call has solved, by the steps of the whole solve. */
static void check_same(struct harness *h, int kind, const struct call *c, const struct whole *w)
{
    static double history[MOST];
    int64_t count = history_of(h, c->path, history, MOST);
    double most = 0;

    CHECK(h, c->report.reached, "kind %d: the residual is %g", kind, c->report.residual);
    /* A limit may look at an answer of blocks, and find it good before its squares say so. */
    CHECK(h, count == w->count || (kind == IN_BLOCKS && count == w->count - 3),
          "kind %d: %lld iterations, expected %lld", kind, (long long)count, (long long)w->count);
    for (int64_t i = 0; i < count && i < w->count; i++)
        CHECK(h, fabs(history[i] - w->history[i]) <= 1e-3 * w->history[i],
              "kind %d: %g after %lld iterations, expected %g", kind, history[i], (long long)i + 1,
              w->history[i]);
    for (int64_t i = 0; i < c->unknowns * COLUMNS; i++)
        most = fmax(most, fabs(w->alpha[i]));
    for (int64_t i = 0; i < c->unknowns * COLUMNS; i++)
        CHECK(h, fabs(get_number(c->alpha_dtype, c->alpha, i) - w->alpha[i]) <= 1e-3 * most,
              "kind %d: alpha[%lld] is %g, expected %g", kind, (long long)i,
              get_number(c->alpha_dtype, c->alpha, i), w->alpha[i]);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

/* A limit of products ends the call in many places; another one goes on. */
static void what_a_limit_ends_goes_on(struct harness *h)
{
    static struct whole w;

    for (int kind = 0; kind < KINDS; kind++) {
        solve_whole(h, kind, &w);
        for (int products = 8; products < 40; products += h->device.type == GRAM_CPU ? 3 : 11) {
            struct call c = call_of(kind);
            gram_status status;

            keep_at(&c, "limited");
            c.options.products = products;
            c.options.checkpoint_iterations = 1000;
            status = run(h, &c);
            CHECK(h, status == GRAM_OK || status == GRAM_NUMERICAL, "%s", gram_message(h->g));
            CHECK(h, c.report.products <= products, "%lld products", (long long)c.report.products);
            c.options.products = 0;
            c.options.resume = 1;
            memset(c.alpha, 0, sizeof c.alpha);
            status = run(h, &c);
            CHECK(h, status == GRAM_OK, "kind %d: %s", kind, gram_message(h->g));
            check_same(h, kind, &c, &w);
        }
    }
}

/* The answer is in the file: another call needs no product, and a smaller tolerance goes on. */
static void the_end_is_kept(struct harness *h)
{
    static const int kinds[] = {1, 5, IN_BLOCKS};

    for (int i = 0; i < LENGTH(kinds); i++) {
        struct call c = call_of(kinds[i]);
        int64_t products;

        keep_at(&c, "end");
        c.options.tolerance = 1e-3;
        CHECK(h, run(h, &c) == GRAM_OK, "%s", gram_message(h->g));
        products = c.report.products;
        c.options.resume = 1;
        CHECK(h, run(h, &c) == GRAM_OK && c.report.products == products, "%lld products, %s",
              (long long)c.report.products, gram_message(h->g));
        c.options.tolerance = 1e-8;
        CHECK(h, run(h, &c) == GRAM_OK && c.report.products > products && c.report.residual <= 1e-8,
              "the residual is %g: %s", c.report.residual, gram_message(h->g));
    }
}

/* A call that is cancelled while it writes, or multiplies, keeps what it has. */
static void what_is_cancelled_goes_on(struct harness *h)
{
    static struct whole w;

    for (int kind = 0; kind < KINDS; kind++) {
        solve_whole(h, kind, &w);
        for (int i = 1; i < 20; i += 4) {
            struct call c = call_of(kind);
            gram_status status;

            keep_at(&c, "cancelled");
            memset(c.alpha, 5, sizeof c.alpha);
            calls = 0, cancelling = i, cancelled = h->g;
            status = run(h, &c);
            cancelling = 0;
            CHECK(h, status == GRAM_CANCELLED, "%s, %s", gram_status_name(status),
                  gram_message(h->g));
            CHECK(h, strstr(gram_message(h->g), "options.resume goes on from"), "%s",
                  gram_message(h->g));
            CHECK(h, c.alpha[0] == c.alpha[1], "alpha was written");
            c.options.resume = 1;
            CHECK(h, run(h, &c) == GRAM_OK, "kind %d: %s", kind, gram_message(h->g));
            check_same(h, kind, &c, &w);
        }
    }
}

/* kill -9 while a checkpoint is written, flushed or renamed: the next call goes on from the file,
 * or begins anew where there was none yet. */
static void what_is_killed_goes_on(struct harness *h)
{
    static struct whole w;

    for (int kind = 0; kind < KINDS && h->device.type == GRAM_CPU; kind++) {
        solve_whole(h, kind, &w);
        for (int i = 1; i < 24; i += 1 + i / 6) {
            struct call c = call_of(kind);
            int status = 0;
            pid_t child;

            keep_at(&c, "killed");
            child = fork();
            if (child == 0) {
                gram_context *g;
                calls = 0, fatal = i;
                if (gram_context_create(NULL, &g) == GRAM_OK)
                    (void)run_in(g, h, &c);
                _exit(1);
            }
            CHECK(h, child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status),
                  "kind %d, moment %d: status %d", kind, i, status);
            c.options.resume = 1;
            CHECK(h, run(h, &c) == GRAM_OK, "kind %d: %s", kind, gram_message(h->g));
            check_same(h, kind, &c, &w);
        }
    }
}

/* ---- Files that are not right ---------------------------------------------------------------- */

static char *read_whole(const char *path, size_t *size)
{
    struct stat about;
    int file = open(path, O_RDONLY);
    char *bytes = NULL;

    *size = 0;
    if (file >= 0 && fstat(file, &about) == 0 && (bytes = malloc((size_t)about.st_size + 1)) &&
        read(file, bytes, (size_t)about.st_size) == about.st_size)
        *size = (size_t)about.st_size;
    (void)close(file);
    return bytes;
}

static void write_whole(const char *path, const char *bytes, size_t size)
{
    int file = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);

    if (file < 0 || write(file, bytes, size) != (ssize_t)size || close(file) != 0)
        abort();
}

/* Of a small solve in the middle. */
static struct call small_call(int kind)
{
    struct call c = call_of(kind);

    const bool centred = c.options.method == GRAM_KRR_CENTRES;

    c.n = 8;
    c.unknowns = centred ? 4 : 8;
    c.options.centre_count = centred ? 4 : 0;
    c.options.rank = centred ? 0 : 2;
    c.options.products = centred ? 14 : 6;
    c.options.tolerance = kind == IN_BLOCKS ? 1e-30 : 1e-13; /* its one block is all rows */
    return c;
}

static void refused(struct harness *h, struct call *c, const char *what, size_t at)
{
    gram_status status;

    memset(c->alpha, 5, sizeof c->alpha);
    status = run(h, c);
    CHECK(h, status == GRAM_BAD_DATA && *gram_message(h->g), "%s %zu: %s, %s", what, at,
          gram_status_name(status), gram_message(h->g));
    CHECK(h, c->alpha[0] == c->alpha[1], "%s %zu: alpha was written", what, at);
}

static void every_flip_and_every_cut_is_refused(struct harness *h)
{
    static const int kinds[] = {1, 5, IN_BLOCKS};

    for (int k = 0; k < (h->device.type == GRAM_CPU ? LENGTH(kinds) : 1); k++) {
        struct call c = small_call(kinds[k]);
        gram_status status;
        size_t size;
        char *bytes;

        keep_at(&c, "flipped");
        status = run(h, &c);
        CHECK(h, status == GRAM_NUMERICAL && c.report.end == GRAM_KRR_PRODUCTS, "%s",
              gram_message(h->g));
        bytes = read_whole(c.path, &size);
        CHECK(h, bytes && size > 1000, "%zu bytes", size);
        c.options.resume = 1;
        for (size_t i = 0; i < size; i += h->device.type == GRAM_CPU ? 1 : 97)
            for (int how = 0; how < 2; how++) {
                int mask = how ? 0xff : 1 << i % 8;

                bytes[i] = (char)(bytes[i] ^ mask);
                write_whole(c.path, bytes, size);
                bytes[i] = (char)(bytes[i] ^ mask);
                refused(h, &c, "flipped", i);
            }
        for (size_t i = 0; i < size; i += h->device.type == GRAM_CPU ? 1 : 97) {
            write_whole(c.path, bytes, i);
            refused(h, &c, "cut", i);
        }
        write_whole(c.path, bytes, size);
        c.options.products = 0;
        c.options.tolerance = 1e-9;
        CHECK(h, run(h, &c) == GRAM_OK || c.report.end == GRAM_KRR_ROUNDING, "%s",
              gram_message(h->g));
        free(bytes);
    }
}

static void that_of_another_solve_is_refused(struct harness *h)
{
    static const char *const said[] = {
        "another x",     "another y",        "options.ridge is 0.001", "another kernel",
        "other weights", "the method is cg", "options.refine is 0",    "another kernel",
        "another x",     "the method is cg"};

    for (int i = 0; i < LENGTH(said); i++) {
        struct call c = call_of(2);
        float lengths[2 * WIDTH] = {1, 2, 3, 1, 2, 3};
        gram_tensor t = gram_vector(lengths, WIDTH, GRAM_F64);

        keep_at(&c, "other");
        c.options.products = 9;
        CHECK(h, run(h, &c) == GRAM_NUMERICAL, "%s", gram_message(h->g));
        c.options.resume = 1;
        c.x[7] += i == 0;
        c.y[7] += i == 1;
        c.options.ridge *= i == 2 ? 2 : 1;
        if (i == 3)
            c.kernel.bandwidth.value *= 1.0000001;
        if (i == 4)
            c.options.weights = &t;
        if (i == 5)
            c.options.centre_count = CENTRES, c.unknowns = CENTRES,
            c.options.method = GRAM_KRR_AUTO;
        c.options.refine = i == 6;
        if (i == 7)
            c.kernel = kernel_of(4);
        if (i == 8)
            c.n--, c.unknowns--;
        if (i == 9)
            c.options.method = GRAM_KRR_BLOCKS;
        refused(h, &c, said[i], 0);
        CHECK(h, strstr(gram_message(h->g), said[i]) && strstr(gram_message(h->g), "/other"),
              "%s: %s", said[i], gram_message(h->g));
    }
}

static void what_is_no_checkpoint_is_refused(struct harness *h)
{
    static const struct {
        const char *text;
        gram_status status;
    } rows[] = {
        {                                             "", GRAM_BAD_DATA},
        {                           "x,y\n1,2\n3,4\n5,6", GRAM_BAD_DATA},
        {"\x1a\0\0\0\0\0\0\0{\"__metadata__\": {}}     ", GRAM_BAD_DATA},
    };

    for (int i = 0; i < LENGTH(rows); i++) {
        struct call c = call_of(1);
        gram_status status;

        keep_at(&c, "none");
        c.options.resume = 1;
        write_whole(c.path, rows[i].text, i == 2 ? 34 : strlen(rows[i].text));
        status = run(h, &c);
        CHECK(h, status == rows[i].status, "row %d: %s, %s", i, gram_status_name(status),
              gram_message(h->g));
    }
}

/* A limit of the process ends a write in the middle, as a full disk does. */
static void a_full_disk_leaves_the_former_file(struct harness *h)
{
    for (int former = 0; former < 2; former++) {
        struct call c = call_of(1), same;
        struct rlimit before;
        gram_status status;
        char *bytes, *after;
        size_t size, then;

        keep_at(&c, "full");
        c.options.products = 9;
        status = former ? run(h, &c) : GRAM_NUMERICAL;
        CHECK(h, status == GRAM_NUMERICAL, "%s", gram_message(h->g));
        bytes = read_whole(c.path, &size);
        c.options.products = 0;
        c.options.resume = 1;
        same = c;
        (void)signal(SIGXFSZ, SIG_IGN);
        (void)getrlimit(RLIMIT_FSIZE, &before);
        (void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){700, before.rlim_max});
        status = run(h, &c);
        (void)setrlimit(RLIMIT_FSIZE, &before);
        CHECK(h, status == GRAM_IO && c.report.reached, "%s, %s", gram_status_name(status),
              gram_message(h->g));
        CHECK(h,
              strstr(gram_message(h->g), strerror(EFBIG)) &&
                  strstr(gram_message(h->g),
                         former ? "the former checkpoint is as it was" : "there is no checkpoint"),
              "%s", gram_message(h->g));
        after = read_whole(c.path, &then);
        CHECK(h, then == size && (!bytes || memcmp(bytes, after, size) == 0), "%zu bytes", then);
        CHECK(h, run(h, &same) == GRAM_OK && memcmp(same.alpha, c.alpha, sizeof c.alpha) == 0,
              "alpha differs: %s", gram_message(h->g));
        free(bytes);
        free(after);
    }
}

static void wrong_options_are_refused(struct harness *h)
{
    static const struct {
        gram_krr_options o;
        const char *said;
        gram_status status;
    } rows[] = {
        {                                    {.resume = 1},
         "options.resume is given without options.checkpoint", GRAM_INVALID_ARGUMENT                         },
        {                     {.checkpoint_iterations = 3},
         "options.checkpoint_iterations is given without", GRAM_INVALID_ARGUMENT                             },
        {                        {.checkpoint_seconds = 3},
         "options.checkpoint_seconds is given without", GRAM_INVALID_ARGUMENT                                },
        {{.checkpoint = "/a", .checkpoint_iterations = -1},
         "options.checkpoint_iterations is -1", GRAM_INVALID_ARGUMENT                                        },
        {  {.checkpoint = "/a", .checkpoint_seconds = NAN},
         "options.checkpoint_seconds is nan", GRAM_INVALID_ARGUMENT                                          },
        {{.checkpoint = "/a", .method = GRAM_KRR_CHOLESKY},
         "which keeps none", GRAM_INVALID_ARGUMENT                                                           },
        {                     {.checkpoint = "/nowhere/a"},               "/nowhere/a",               GRAM_IO},
        {                      {.checkpoint = "/dev/null"}, "it is not a regular file",               GRAM_IO},
        {                               {.checkpoint = ""},                   "cannot",               GRAM_IO},
    };

    for (int i = 0; i < LENGTH(rows); i++) {
        struct call c = call_of(1);
        gram_status status;

        c.options.checkpoint = rows[i].o.checkpoint;
        c.options.resume = rows[i].o.resume;
        c.options.checkpoint_iterations = rows[i].o.checkpoint_iterations;
        c.options.checkpoint_seconds = rows[i].o.checkpoint_seconds;
        if (rows[i].o.method)
            c.options.method = rows[i].o.method;
        status = run(h, &c);
        CHECK(h, status == rows[i].status && strstr(gram_message(h->g), rows[i].said),
              "row %d: %s, %s", i, gram_status_name(status), gram_message(h->g));
    }
}

/* AUTO takes a factorisation for few rows, which keeps nothing; nothing to do keeps nothing. */
static void what_does_not_iterate_keeps_nothing(struct harness *h)
{
    struct call c = call_of(1);

    keep_at(&c, "nothing");
    c.options.method = GRAM_KRR_AUTO;
    c.options.resume = 1;
    CHECK(h, run(h, &c) == GRAM_OK && access(c.path, F_OK) != 0, "%s", gram_message(h->g));
    c.n = c.unknowns = 0;
    c.options.method = GRAM_KRR_CG;
    CHECK(h, run(h, &c) == GRAM_OK && access(c.path, F_OK) != 0, "%s", gram_message(h->g));
}

static const struct test_function tests[] = {
    {          "what_a_limit_ends_goes_on",           what_a_limit_ends_goes_on},
    {                    "the_end_is_kept",                     the_end_is_kept},
    {          "what_is_cancelled_goes_on",           what_is_cancelled_goes_on},
    {"every_flip_and_every_cut_is_refused", every_flip_and_every_cut_is_refused},
    {   "that_of_another_solve_is_refused",    that_of_another_solve_is_refused},
    {   "what_is_no_checkpoint_is_refused",    what_is_no_checkpoint_is_refused},
    { "a_full_disk_leaves_the_former_file",  a_full_disk_leaves_the_former_file},
    {          "wrong_options_are_refused",           wrong_options_are_refused},
    {"what_does_not_iterate_keeps_nothing", what_does_not_iterate_keeps_nothing},
 /* On the CPU alone: */
    {             "what_is_killed_goes_on",              what_is_killed_goes_on},
};

int main(void)
{
    return scratch_run_tests_or_some(tests, LENGTH(tests), LENGTH(tests) - 1);
}
