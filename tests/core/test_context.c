/*
 * test_context.c - contexts: options, environment, messages, workspace, allocation
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/context.h"
#include "failing_alloc.h"
#include <stdlib.h>
#include <string.h>

/* Creates and destroys; the status and, on an error, the message. */
static gram_status create(const gram_context_options *options, char message[512])
{
    static char other;
    gram_context *g = (gram_context *)(void *)&other;
    gram_status status = gram_context_create(options, &g);

    snprintf(message, 512, "%s", status == GRAM_OK ? "" : gram_message(NULL));
    if (status != GRAM_OK && g)
        snprintf(message, 512, "*out is not NULL");
    else
        gram_context_destroy(g);
    return status;
}

static void defaults_and_bounds_of_options(struct harness *h)
{
    static const struct {
        const char *isa, *says;
        int threads;
        gram_status status;
    } rows[] = {
        {     NULL,                        "",    1,               GRAM_OK},
        {   "base",                        "",    0,               GRAM_OK},
        {     NULL,                        "", 1024,               GRAM_OK},
        {     NULL,   "options.threads is -1",   -1, GRAM_INVALID_ARGUMENT},
        {     NULL, "options.threads is 1025", 1025, GRAM_INVALID_ARGUMENT},
        {"mmx2000",                 "mmx2000",    1, GRAM_INVALID_ARGUMENT},
        {       "",                        "",    1, GRAM_INVALID_ARGUMENT},
    };
    char message[512];

    CHECK(h, create(NULL, message) == GRAM_OK, "NULL options: %s", message);
    for (int i = 0; i < LENGTH(rows); i++) {
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
        gram_status status;
        o.threads = rows[i].threads;
        o.cpu_isa = rows[i].isa;
        status = create(&o, message);
        CHECK(h, status == rows[i].status, "row %d: %s %s", i, gram_status_name(status), message);
        CHECK(h, status == GRAM_OK || strstr(message, "gram_context_create: ") == message,
              "row %d: %s", i, message);
        CHECK(h, strstr(message, rows[i].says), "row %d: \"%s\" lacks \"%s\"", i, message,
              rows[i].says);
    }
}

static void sizes_of_options(struct harness *h)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    char message[512];

    o.size = sizeof o + 1; /* of a newer header, with members that we cannot know */
    CHECK(h, create(&o, message) == GRAM_INVALID_ARGUMENT, "accepted");
    CHECK(h, strstr(message, "options.size"), "%s", message);
    o.size = 0;
    CHECK(h, create(&o, message) == GRAM_INVALID_ARGUMENT, "accepted");
    o.size = offsetof(gram_context_options, threads); /* of an older header */
    o.threads = -5;
    CHECK(h, create(&o, message) == GRAM_OK, "members after the size were read: %s", message);
}

/* The message names the struct that is wrong, not the options that point to it. */
static void a_bad_size_of_a_metric_is_said_of_the_metric(struct harness *h)
{
    gram_distance metric = GRAM_DISTANCE_INIT;
    gram_cdist_options distances = GRAM_CDIST_OPTIONS_INIT;
    gram_kernel_options kernel = GRAM_KERNEL_OPTIONS_INIT;
    double x[4] = {1, 2, 3, 4}, out[4];
    gram_tensor tx = gram_matrix(x, 2, 2, GRAM_F64), to = gram_matrix(out, 2, 2, GRAM_F64);

    metric.size = sizeof metric + 8;
    distances.metric = kernel.metric = &metric;
    CHECK(h,
          gram_cdist(h->g, &tx, NULL, gram_number(2), &distances, &to) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "options.metric->size is "),
          "%s", gram_message(h->g));
    CHECK(h,
          gram_kernel(h->g, &tx, NULL, &kernel, &to) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "options.metric->size is "),
          "%s", gram_message(h->g));
}

static void devices_that_are_not_here(struct harness *h)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_device best = gram_best_device();
    char message[512];

    o.device = (gram_device){(gram_device_type)77, 0};
    CHECK(h, create(&o, message) != GRAM_OK, "device 77 was accepted");
    CHECK(h, *message, "no message");
    o.device = best;
    CHECK(h, create(&o, message) == GRAM_OK, "the best device: %s", message);
}

static void allocators_come_in_pairs(struct harness *h)
{
    struct failing_alloc a = FAILING_ALLOC_INIT;
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    char message[512];

    failing_alloc_use(&a, &o);
    o.release = NULL;
    CHECK(h, create(&o, message) == GRAM_INVALID_ARGUMENT, "no release");
    CHECK(h, strstr(message, "options.release"), "%s", message);
    CHECK(h, a.calls == 0, "it was called");
}

static void creation_without_memory(struct harness *h)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    struct failing_alloc a = FAILING_ALLOC_INIT;
    char message[512];
    int64_t n = 1;

    failing_alloc_use(&a, &o);
    for (bool failed = true; failed; n++) {
        gram_status status;
        failing_alloc_reset(&a, n);
        status = create(&o, message);
        failed = a.failed;
        CHECK(h, status == (failed ? GRAM_OUT_OF_MEMORY : GRAM_OK), "allocation %d: %s", (int)n,
              gram_status_name(status));
        CHECK(h, a.live == 0 && a.wrong_releases == 0, "allocation %d: %d blocks leak", (int)n,
              (int)a.live);
    }
    CHECK(h, n > 2, "nothing came from the allocator");
}

/* Sets a variable, creates a context of default options, and restores the variable. */
static gram_status create_in(const char *name, const char *value, gram_info *info,
                             char message[512])
{
    const char *before = getenv(name);
    char *copy = before ? strdup(before) : NULL;
    gram_context *g;
    gram_status status;

    setenv(name, value, 1);
    status = gram_context_create(NULL, &g);
    snprintf(message, 512, "%s", status == GRAM_OK ? "" : gram_message(NULL));
    if (status == GRAM_OK)
        status = gram_context_info(g, info);
    gram_context_destroy(g);
    if (copy)
        setenv(name, copy, 1);
    else
        unsetenv(name);
    free(copy);
    return status;
}

static void environment(struct harness *h)
{
    static const char *const wrong[] = {"0", "-1", "two", "3x", "1025", "99999999999999999999"};
    gram_info info = {.size = sizeof info};
    char message[512];

    CHECK(h, create_in("GRAM_NUM_THREADS", "3", &info, message) == GRAM_OK, "%s", message);
    CHECK(h, info.threads == 3, "%d threads", info.threads);
    CHECK(h, create_in("GRAM_NUM_THREADS", "", &info, message) == GRAM_OK, "%s", message);
    CHECK(h, info.threads > 0, "%d threads", info.threads);
    for (int i = 0; i < LENGTH(wrong); i++) {
        gram_status status = create_in("GRAM_NUM_THREADS", wrong[i], &info, message);
        CHECK(h, status == GRAM_INVALID_ARGUMENT, "GRAM_NUM_THREADS=%s is accepted", wrong[i]);
        CHECK(h, strstr(message, "GRAM_NUM_THREADS") && strstr(message, wrong[i]), "%s", message);
    }
    CHECK(h, create_in("GRAM_CPU_ISA", "base", &info, message) == GRAM_OK, "%s", message);
    CHECK(h, strcmp(info.cpu_isa, "base") == 0, "it is %s", info.cpu_isa);
    CHECK(h, create_in("GRAM_CPU_ISA", "nosuch", &info, message) == GRAM_INVALID_ARGUMENT,
          "accepted");
    CHECK(h, strstr(message, "nosuch"), "%s", message);
}

static void threads_by_options(struct harness *h, const gram_context_options *o)
{
    gram_info info = {.size = sizeof info};
    gram_context *g;

    if (!CHECK(h, gram_context_create(o, &g) == GRAM_OK, "%s", gram_message(NULL)))
        return;
    CHECK(h, gram_context_info(g, &info) == GRAM_OK && info.threads == o->threads, "%d threads",
          info.threads);
    gram_context_destroy(g);
}

/* OMP_NUM_THREADS=1 and the limits of joblib's workers were ignored: 64 workers had 64 threads
 * each. */
static void threads_of_others(struct harness *h)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                        "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT",
                                        "PYTHON_CPU_COUNT"};
    static const char *const silent[] = {"", "0", "-2", "two", "3x", "1e0", "99999999999999999999"};
    gram_info info = {.size = sizeof info};
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    char message[512];
    int usual;

    for (int i = 0; i < LENGTH(names); i++)
        unsetenv(names[i]);
    CHECK(h, create_in("GRAM_NUM_THREADS", "", &info, message) == GRAM_OK, "%s", message);
    usual = info.threads;
    for (int i = 0; i < LENGTH(names); i++) {
        CHECK(h, create_in(names[i], "1", &info, message) == GRAM_OK, "%s", message);
        CHECK(h, info.threads == 1, "%s=1: %d threads", names[i], info.threads);
        CHECK(h, create_in(names[i], "1,4", &info, message) == GRAM_OK, "%s", message);
        CHECK(h, info.threads == 1, "%s=1,4: %d threads", names[i], info.threads);
        CHECK(h, create_in(names[i], "1000", &info, message) == GRAM_OK, "%s", message);
        CHECK(h, info.threads == usual, "%s=1000: %d threads", names[i], info.threads);
        for (int k = 0; k < LENGTH(silent); k++) {
            CHECK(h, create_in(names[i], silent[k], &info, message) == GRAM_OK, "%s", message);
            CHECK(h, info.threads == usual, "%s=%s: %d threads", names[i], silent[k], info.threads);
        }
    }
    setenv("OMP_NUM_THREADS", "1", 1);
    CHECK(h, create_in("GRAM_NUM_THREADS", "3", &info, message) == GRAM_OK, "%s", message);
    CHECK(h, info.threads == 3, "GRAM_NUM_THREADS=3 gives %d threads", info.threads);
    o.threads = 5;
    threads_by_options(h, &o);
    unsetenv("OMP_NUM_THREADS");
}

static void information(struct harness *h)
{
    gram_info info = {.size = sizeof info};

    CHECK(h, gram_context_info(h->g, &info) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, strcmp(info.version, gram_version()) == 0, "%s", info.version);
    CHECK(h, strstr(info.cpu_isas, info.cpu_isa), "%s is not in %s", info.cpu_isa, info.cpu_isas);
    CHECK(h, strstr(info.cpu_isas, "base"), "%s", info.cpu_isas);
    CHECK(h, info.blas && *info.blas, "no BLAS");
    CHECK(h, info.threads == 2, "%d threads, 2 were asked for", info.threads);
    CHECK(h, info.memory_total > 1 << 20, "%lld bytes", (long long)info.memory_total);
    CHECK(h, info.memory_available > 0 && info.memory_available <= info.memory_total,
          "%lld of %lld bytes", (long long)info.memory_available, (long long)info.memory_total);
    info.size = 3;
    CHECK(h, gram_context_info(h->g, &info) == GRAM_INVALID_ARGUMENT, "size 3 is accepted");
    CHECK(h, strstr(gram_message(h->g), "size"), "%s", gram_message(h->g));
}

static void names_of_statuses(struct harness *h)
{
    static const char *const names[] = {
        "GRAM_OK",          "GRAM_INVALID_ARGUMENT",
        "GRAM_UNSUPPORTED", "GRAM_OUT_OF_MEMORY",
        "GRAM_CANCELLED",   "GRAM_IO",
        "GRAM_BAD_DATA",    "GRAM_NUMERICAL",
    };

    for (int i = 0; i < LENGTH(names); i++)
        CHECK(h, strcmp(gram_status_name((gram_status)i), names[i]) == 0, "%d is %s", i,
              gram_status_name((gram_status)i));
    CHECK(h, strcmp(gram_status_name((gram_status)12345), "unknown status") == 0, "12345");
}

static gram_status distance(gram_context *g, int columns_of_y)
{
    float x[6] = {0}, y[12] = {0}, out[6];
    gram_tensor tx = gram_matrix(x, 3, 2, GRAM_F32), to = gram_matrix(out, 3, 2, GRAM_F32);
    gram_tensor ty = gram_matrix(y, 2, columns_of_y, GRAM_F32);

    return gram_cdist(g, &tx, &ty, gram_number(2), NULL, &to);
}

static void messages_belong_to_a_context(struct harness *h)
{
    gram_context *other;
    gram_context_options bad = GRAM_CONTEXT_OPTIONS_INIT;
    char message[512];

    CHECK(h, gram_context_create(NULL, &other) == GRAM_OK, "%s", gram_message(NULL));
    CHECK(h, !*gram_message(other), "a new context says %s", gram_message(other));
    CHECK(h, distance(h->g, 5) == GRAM_INVALID_ARGUMENT, "2 and 5 columns");
    CHECK(h, strcmp(gram_message(h->g), "gram_cdist: x has 2 columns but y has 5") == 0, "%s",
          gram_message(h->g));
    CHECK(h, !*gram_message(other), "another context says %s", gram_message(other));
    bad.threads = -1;
    CHECK(h, create(&bad, message) == GRAM_INVALID_ARGUMENT, "accepted");
    CHECK(h, strstr(gram_message(h->g), "y has 5"), "a creation that fails changed the message");
    CHECK(h, distance(h->g, 2) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, !*gram_message(h->g), "after a success it says %s", gram_message(h->g));
    CHECK(h, distance(NULL, 2) == GRAM_INVALID_ARGUMENT, "no context");
    CHECK(h, strcmp(gram_message(NULL), "gram_cdist: g is NULL") == 0, "%s", gram_message(NULL));
    CHECK(h, create(NULL, message) == GRAM_OK && !*gram_message(NULL), "it still says %s",
          gram_message(NULL));
    gram_context_destroy(other);
    gram_context_destroy(NULL);
}

static void given_workspace(struct harness *h)
{
    static _Alignas(64) char memory[1 << 20];

    CHECK(h, gram_context_use_workspace(h->g, memory + 8, 64) == GRAM_INVALID_ARGUMENT,
          "not aligned to 64 bytes");
    CHECK(h, strstr(gram_message(h->g), "gram_context_use_workspace: "), "%s", gram_message(h->g));
    CHECK(h, distance(h->g, 2) == GRAM_OK, "the arena is gone: %s", gram_message(h->g));
    CHECK(h, gram_context_use_workspace(h->g, memory, sizeof memory) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, distance(h->g, 2) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_context_use_workspace(h->g, NULL, 0) == GRAM_OK, "%s", gram_message(h->g));
    memset(memory, 0, sizeof memory);
    CHECK(h, distance(h->g, 2) == GRAM_OK, "%s", gram_message(h->g));
    for (size_t i = 0; i < sizeof memory; i++)
        if (!CHECK(h, memory[i] == 0, "byte %zu was written after it was taken back", i))
            break;
}

static void a_limit_of_scratch(struct harness *h)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_info info = {.size = sizeof info};
    gram_workspace need = {0};
    float x[12] = {0}, out[4];
    gram_tensor a = gram_matrix(x, 2, 6, GRAM_F32), d = gram_matrix(out, 2, 2, GRAM_F32);
    gram_context *g;

    CHECK(h, gram_context_info(h->g, &info) == GRAM_OK, "%s", gram_message(h->g));
    o.threads = info.threads; /* each has scratch of its own */
    CHECK(h, gram_cdist_workspace(h->g, &a, NULL, gram_number(1), NULL, &d, &need) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int less = 0; less < 2; less++) {
        o.scratch_limit = need.host_bytes - (size_t)less;
        CHECK(h, gram_context_create(&o, &g) == GRAM_OK, "%s", gram_message(NULL));
        CHECK(h,
              gram_cdist(g, &a, NULL, gram_number(1), NULL, &d) ==
                  (less ? GRAM_OUT_OF_MEMORY : GRAM_OK),
              "%d bytes less than %zu: %s", less, need.host_bytes, gram_message(g));
        CHECK(h, !less || strstr(gram_message(g), "options.scratch_limit is"), "%s",
              gram_message(g));
        gram_context_destroy(g);
    }
}

static void memory(struct harness *h)
{
    const char from[] = "what is copied";
    char back[sizeof from] = "";
    void *there = h;

    CHECK(h, gram_context_device(h->g).type == GRAM_CPU, "not the CPU");
    CHECK(h, gram_memory_allocate(h->g, 0, &there) == GRAM_OK && !there, "0 bytes at %p", there);
    CHECK(h, gram_memory_allocate(h->g, sizeof from, &there) == GRAM_OK && there, "%s",
          gram_message(h->g));
    CHECK(h, (uintptr_t)there % 64 == 0, "at %p", there);
    CHECK(h, gram_memory_copy(h->g, there, from, sizeof from) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_memory_copy(h->g, back, there, sizeof from) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, strcmp(back, from) == 0, "%s", back);
    CHECK(h, gram_memory_copy(h->g, NULL, NULL, 0) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_memory_copy(h->g, NULL, from, 1) == GRAM_INVALID_ARGUMENT, "to NULL");
    CHECK(h, gram_memory_copy(h->g, there, NULL, 1) == GRAM_INVALID_ARGUMENT, "from NULL");
    gram_memory_free(h->g, there, sizeof from);
    CHECK(h, gram_memory_allocate(h->g, 1, NULL) == GRAM_INVALID_ARGUMENT, "out NULL");
    CHECK(h, gram_memory_allocate_zeros(h->g, 1, NULL) == GRAM_INVALID_ARGUMENT, "out NULL");
    CHECK(h, gram_memory_allocate(h->g, SIZE_MAX, &there) == GRAM_OUT_OF_MEMORY && !there, "%p",
          there);
    gram_memory_free(h->g, NULL, 0);
    memset(back, 1, sizeof back);
    for (int i = 0; i < 2; i++) { /* the second time it is memory that was in use */
        CHECK(h, gram_memory_allocate_zeros(h->g, sizeof back, &there) == GRAM_OK && there, "%s",
              gram_message(h->g));
        CHECK(h, memchr(there, 1, sizeof back) == NULL && *(char *)there == 0, "not zeros");
        memcpy(there, back, sizeof back);
        gram_memory_free(h->g, there, sizeof back);
    }
    CHECK(h, gram_memory_allocate_zeros(h->g, 0, &there) == GRAM_OK && !there, "0 bytes");
    CHECK(h, gram_memory_allocate_zeros(h->g, SIZE_MAX, &there) == GRAM_OUT_OF_MEMORY && !there,
          "%p", there);
}

/* A NULL to which a call adds the offset of a part that is empty is undefined. */
static void scratch_of_no_bytes_has_an_address(struct harness *h)
{
    gram_context *g = NULL;
    void *scratch = NULL;

    CHECK(h, gram_context_create(NULL, &g) == GRAM_OK, "%s", gram_message(NULL));
    if (!g)
        return;
    CHECK(h, gram_scratch(g, 0, &scratch) == GRAM_OK && scratch, "%s", gram_message(g));
    CHECK(h, (uintptr_t)scratch % 64 == 0, "%p is not aligned", scratch);
    CHECK(h, gram_scratch(g, 1, &scratch) == GRAM_OK, "%s", gram_message(g));
    memset(scratch, 1, 1);
    gram_context_destroy(g);
}

static const struct test_function tests[] = {
    {          "scratch_of_no_bytes_has_an_address",           scratch_of_no_bytes_has_an_address},
    {              "defaults_and_bounds_of_options",               defaults_and_bounds_of_options},
    {                            "sizes_of_options",                             sizes_of_options},
    {"a_bad_size_of_a_metric_is_said_of_the_metric", a_bad_size_of_a_metric_is_said_of_the_metric},
    {                   "devices_that_are_not_here",                    devices_that_are_not_here},
    {                    "allocators_come_in_pairs",                     allocators_come_in_pairs},
    {                     "creation_without_memory",                      creation_without_memory},
    {                                 "environment",                                  environment},
    {                           "threads_of_others",                            threads_of_others},
    {                                 "information",                                  information},
    {                           "names_of_statuses",                            names_of_statuses},
    {                "messages_belong_to_a_context",                 messages_belong_to_a_context},
    {                             "given_workspace",                              given_workspace},
    {                          "a_limit_of_scratch",                           a_limit_of_scratch},
    {                                      "memory",                                       memory},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
