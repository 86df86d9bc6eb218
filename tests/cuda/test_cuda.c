/*
 * test_cuda.c - contexts of CUDA devices: what is said where there is none, streams, graphs, sizes
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool has_device(void)
{
    return gram_best_device().type == GRAM_CUDA;
}

static void without_a_device(struct harness *h)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_info info = {.size = sizeof info};
    gram_context *g = h->g; /* not NULL */
    gram_status status;

    CHECK(h, gram_context_info(h->g, &info) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, (info.cuda_devices > 0) == has_device(), "%d devices", info.cuda_devices);
    o.device.type = GRAM_CUDA;
    o.device.index = has_device() ? 99 : 0;
    status = gram_context_create(&o, &g);
    CHECK(h, status == (has_device() ? GRAM_INVALID_ARGUMENT : GRAM_UNSUPPORTED), "%s",
          gram_status_name(status));
    CHECK(h, !g, "*out is not NULL");
    CHECK(h,
          strstr(gram_message(NULL), "gram_context_create: ") && strstr(gram_message(NULL), "CUDA"),
          "%s", gram_message(NULL));
    CHECK(h, gram_context_synchronize(h->g) == GRAM_OK, "the CPU: %s", gram_message(h->g));
}

static void a_plugin_that_is_none(struct harness *h)
{
    const char *before = getenv("GRAM_PLUGIN_DIR");
    char *copy = before ? strdup(before) : NULL;
    gram_info info = {.size = sizeof info};
    gram_device best;
    gram_context *g;

    setenv("GRAM_PLUGIN_DIR", "/nowhere/at/all", 1);
    best = gram_best_device();
    CHECK(h, best.type == GRAM_CPU || best.type == GRAM_CUDA, "device %d", (int)best.type);
    CHECK(h, gram_context_create(NULL, &g) == GRAM_OK, "%s", gram_message(NULL));
    CHECK(h, gram_context_info(g, &info) == GRAM_OK, "%s", gram_message(g));
    gram_context_destroy(g);
    if (copy)
        setenv("GRAM_PLUGIN_DIR", copy, 1);
    else
        unsetenv("GRAM_PLUGIN_DIR");
    free(copy);
}

static void environment(struct harness *h)
{
    static const char *const wrong[][2] = {
        {"GRAM_LOG",  "loud"},
        {"GRAM_JIT", "maybe"}
    };
    gram_context *g;

    for (int i = 0; i < LENGTH(wrong); i++) {
        setenv(wrong[i][0], wrong[i][1], 1);
        CHECK(h, gram_context_create(NULL, &g) == GRAM_INVALID_ARGUMENT, "%s=%s", wrong[i][0],
              wrong[i][1]);
        CHECK(h, strstr(gram_message(NULL), wrong[i][0]) && strstr(gram_message(NULL), wrong[i][1]),
              "%s", gram_message(NULL));
        unsetenv(wrong[i][0]);
    }
}

/* ---- With a device -------------------------------------------------------------------------- */

struct problem {
    gram_context *g;
    gram_tensor x, out;
    float *host;
    int64_t n, k;
};

static gram_tensor on_device(void *memory, int64_t rows, int64_t cols)
{
    gram_tensor t = gram_matrix(memory, rows, cols, GRAM_F32);

    t.device = (gram_device){GRAM_CUDA, 0};
    return t;
}

static void problem_close(struct problem *q)
{
    device_release(q->x.data);
    device_release(q->out.data);
    gram_context_destroy(q->g);
    free(q->host);
}

static bool problem_fill(struct harness *h, struct problem *q)
{
    size_t bytes = (size_t)(q->n * q->k) * sizeof(float);

    q->host = malloc(bytes);
    if (!CHECK(h, q->host, "no memory") || !q->host)
        return false;
    for (int64_t i = 0; i < q->n * q->k; i++)
        q->host[i] = (float)test_uniform(h);
    q->x = on_device(device_allocate(bytes), q->n, q->k);
    q->out = on_device(device_allocate((size_t)(q->n * q->n) * sizeof(float)), q->n, q->n);
    return CHECK(h, q->x.data && q->out.data && device_upload(q->x.data, q->host, bytes),
                 "no memory on the device");
}

static bool problem_open(struct harness *h, struct problem *q, void *stream, int64_t n, int64_t k)
{
    bool filled;

    *q = (struct problem){.n = n, .k = k, .g = test_cuda_context(h, stream)};
    filled = q->g && problem_fill(h, q);
    if (!filled)
        problem_close(q);
    return filled;
}

static bool call(void *arg)
{
    struct problem *q = arg;

    return gram_cdist(q->g, &q->x, NULL, gram_number(1), NULL, &q->out) == GRAM_OK;
}

/* Elements of out against the formula, on a sample. */
static void check_sample(struct harness *h, const struct problem *q)
{
    for (int s = 0; s < 200; s++) {
        int64_t i = (int64_t)(test_uniform(h) * (double)q->n),
                j = s % 4 == 0 ? q->n - 1 : (int64_t)(test_uniform(h) * (double)q->n);
        double want = 0;
        float got = -1;
        for (int64_t k = 0; k < q->k; k++)
            want += fabs((double)q->host[i * q->k + k] - (double)q->host[j * q->k + k]);
        CHECK(h,
              device_download(&got, (float *)q->out.data + i * q->n + j, sizeof got) &&
                  fabs((double)got - want) <= 1e-5 * want,
              "out[%lld, %lld] is %g, expected %g", (long long)i, (long long)j, (double)got, want);
    }
}

static void a_graph_is_captured_and_replayed(struct harness *h)
{
    struct problem q;
    void *stream = device_stream();
    float zero[64] = {0};

    if (!CHECK(h, stream, "no stream") || !problem_open(h, &q, stream, 300, 20))
        return;
    CHECK(h, device_replay(stream, 3, call, &q), "%s", gram_message(q.g));
    check_sample(h, &q);
    CHECK(h, device_upload(q.out.data, zero, sizeof zero),
          "upload"); /* the graph writes it again */
    CHECK(h, device_replay(stream, 1, call, &q), "%s", gram_message(q.g));
    check_sample(h, &q);
    problem_close(&q);
}

static void more_than_2_31_elements(struct harness *h)
{
    struct problem q;

    if (!problem_open(h, &q, NULL, 47000, 5))
        return;
    CHECK(h, call(&q) && gram_context_synchronize(q.g) == GRAM_OK, "%s", gram_message(q.g));
    check_sample(h, &q);
    problem_close(&q);
}

static void memory_of_the_host_is_refused(struct harness *h)
{
    struct problem q;
    gram_tensor wrong, p;
    double number = 2;

    if (!problem_open(h, &q, NULL, 30, 5))
        return;
    wrong = on_device(q.host, 30, 5);
    CHECK(h, gram_cdist(q.g, &wrong, NULL, gram_number(2), NULL, &q.out) == GRAM_INVALID_ARGUMENT,
          "accepted");
    CHECK(h, strstr(gram_message(q.g), "x is at "), "%s", gram_message(q.g));
    p = gram_vector(&number, 1, GRAM_F64);
    p.ndim = 0;
    p.device.type = GRAM_CUDA;
    CHECK(h,
          gram_cdist(q.g, &q.x, NULL, gram_values(&p), NULL, &q.out) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(q.g), "p is at "),
          "%s", gram_message(q.g));
    wrong.device.index = 1;
    CHECK(h,
          gram_cdist(q.g, &wrong, NULL, gram_number(2), NULL, &q.out) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(q.g), "x is on device 1:1, expected the context's device 1:0"),
          "%s", gram_message(q.g));
    wrong.device = (gram_device){GRAM_CPU, 0};
    CHECK(h, gram_cdist(q.g, &wrong, NULL, gram_number(2), NULL, &q.out) == GRAM_INVALID_ARGUMENT,
          "a tensor of the CPU was accepted");
    problem_close(&q);
}

static void a_value_out_of_range_gives_nan(struct harness *h)
{
    static const float powers[] = {-1, NAN, 1};
    struct problem q;
    gram_tensor p;

    if (!problem_open(h, &q, NULL, 30, 5))
        return;
    for (int i = 0; i < LENGTH(powers); i++) {
        float got = 0;
        p = on_device(device_allocate(sizeof powers), 1, 1);
        p.ndim = 0;
        CHECK(h, device_upload(p.data, &powers[i], sizeof powers[i]), "upload");
        CHECK(h,
              gram_cdist(q.g, &q.x, NULL, gram_values(&p), NULL, &q.out) == GRAM_OK &&
                  gram_context_synchronize(q.g) == GRAM_OK,
              "%s", gram_message(q.g));
        CHECK(h,
              device_download(&got, (float *)q.out.data + 1, sizeof got) &&
                  (isnan(got) != 0) == (i < 2),
              "p = %g gives %g", (double)powers[i], (double)got);
        device_release(p.data);
    }
    problem_close(&q);
}

/* What is measured is the kernel of the quotients, which is what gram_kernel computes. */
static void tuning_a_kernel_with_lengths_divides_by_them(struct harness *h)
{
    static const float numbers[] = {4, 8, 2, 16, 32};
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
    gram_tuning result = {.size = sizeof result};
    float tuned[2] = {0}, computed[2] = {-1, -1};
    gram_tensor lengths;
    struct problem q;

    if (!problem_open(h, &q, NULL, 30, 5))
        return;
    lengths = on_device(device_allocate(sizeof numbers), 1, 5);
    lengths.ndim = 1;
    lengths.shape[0] = 5, lengths.stride[0] = 1;
    CHECK(h, device_upload(lengths.data, numbers, sizeof numbers), "upload");
    o.lengths = &lengths;
    CHECK(h,
          gram_tune(q.g, &q.x, NULL, &o, &q.out, &result) == GRAM_OK &&
              gram_context_synchronize(q.g) == GRAM_OK &&
              device_download(tuned, q.out.data, sizeof tuned),
          "%s", gram_message(q.g));
    CHECK(h,
          gram_kernel(q.g, &q.x, NULL, &o, &q.out) == GRAM_OK &&
              gram_context_synchronize(q.g) == GRAM_OK &&
              device_download(computed, q.out.data, sizeof computed),
          "%s", gram_message(q.g));
    CHECK(h, tuned[1] == computed[1] && result.tile > 0, "%g, not %g", (double)tuned[1],
          (double)computed[1]);
    device_release(lengths.data);
    problem_close(&q);
}

/* Rows that lie where no memory is: what the device says of it, and that nothing is done after. */
static void a_fault_here(struct harness *h)
{
    struct problem q;
    gram_tensor far;

    if (!problem_open(h, &q, NULL, 30, 5))
        return;
    far = q.x;
    far.stride[0] = (int64_t)1 << 36; /* away from out, which it would overlap */
    if ((char *)q.out.data > (char *)q.x.data)
        far.stride[0] = -far.stride[0];
    CHECK(h, gram_cdist(q.g, &far, NULL, gram_number(1), NULL, &q.out) == GRAM_OK, "%s",
          gram_message(q.g));
    CHECK(h, gram_context_synchronize(q.g) == GRAM_DEVICE_FAILED && strstr(gram_message(q.g), "70"),
          "%s", gram_message(q.g));
    CHECK(h, gram_cdist(q.g, &q.x, NULL, gram_number(1), NULL, &q.out) == GRAM_DEVICE_FAILED,
          "work goes on");
    CHECK(h,
          strstr(gram_message(q.g),
                 "CUDA device 0 failed: cuStreamSynchronize failed with error 7") &&
              strstr(gram_message(q.g), "cannot use the device again"),
          "%s", gram_message(q.g));
    CHECK(h, gram_context_synchronize(q.g) == GRAM_DEVICE_FAILED, "it is forgotten");
    problem_close(&q);
}

static int run_fault(void)
{
    static const struct test_function here[] = {
        {"a_fault_here", a_fault_here},
    };

    return has_device() && device_open(0) ? harness_run_tests(here, 1) : 77;
}

/* In a process of its own, since a process does not get its device back. */
static void a_fault_is_told_and_ends_the_work(struct harness *h)
{
    char name[] = "test_cuda", which[] = "fault", *const arguments[] = {name, which, NULL};
    pid_t child;
    int status = 0;

    if (!CHECK(h, posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0,
               "posix_spawn"))
        return;
    CHECK(h, waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "status %d", status);
}

static const struct test_function tests[] = {
    {                            "without_a_device",                             without_a_device},
    {                       "a_plugin_that_is_none",                        a_plugin_that_is_none},
    {                                 "environment",                                  environment},
    {            "a_graph_is_captured_and_replayed",             a_graph_is_captured_and_replayed},
    {               "memory_of_the_host_is_refused",                memory_of_the_host_is_refused},
    {              "a_value_out_of_range_gives_nan",               a_value_out_of_range_gives_nan},
    {"tuning_a_kernel_with_lengths_divides_by_them", tuning_a_kernel_with_lengths_divides_by_them},
    {           "a_fault_is_told_and_ends_the_work",            a_fault_is_told_and_ends_the_work},
    {                     "more_than_2_31_elements",                      more_than_2_31_elements},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "fault") == 0)
        return run_fault();
    bool device = has_device() && device_open(0);
    int count = device ? LENGTH(tests) : 3;

    if (!device)
        printf("no CUDA device: %d tests are skipped\n", LENGTH(tests) - 3);
    if (device && getenv("GRAM_TEST_EMULATED")) {
        printf("on the emulation of a CUDA device, which has no memory for %s\n",
               tests[--count].name);
    }
    return harness_run_tests(tests, count);
}
