/*
 * test_device.c - memory of a CUDA device through the library, and solves in its graphs
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void memory(struct harness *h)
{
    enum {
        COUNT = 1000
    };
    float from[COUNT], back[COUNT];
    void *there = NULL, *twice = NULL;
    gram_info info = {.size = sizeof info};
    gram_context *g = test_cuda_context(h, NULL);

    if (!g)
        return;
    CHECK(h, gram_context_device(g).type == GRAM_CUDA, "another device");
    CHECK(h, gram_context_info(g, &info) == GRAM_OK, "%s", gram_message(g));
    CHECK(h,
          info.device_name && *info.device_name && info.device_memory_available > 0 &&
              info.device_memory_available <= info.device_memory_total,
          "%lld of %lld bytes", (long long)info.device_memory_available,
          (long long)info.device_memory_total);
    for (int i = 0; i < COUNT; i++)
        from[i] = (float)i, back[i] = -1;
    CHECK(h,
          gram_memory_allocate(g, sizeof from, &there) == GRAM_OK &&
              gram_memory_allocate(g, sizeof from, &twice) == GRAM_OK,
          "%s", gram_message(g));
    CHECK(h,
          gram_memory_copy(g, there, from, sizeof from) == GRAM_OK &&
              gram_memory_copy(g, twice, there, sizeof from) == GRAM_OK &&
              gram_memory_copy(g, back, twice, sizeof from) == GRAM_OK &&
              gram_context_synchronize(g) == GRAM_OK,
          "%s", gram_message(g));
    CHECK(h, memcmp(from, back, sizeof from) == 0, "back[1] is %g", (double)back[1]);
    gram_memory_free(g, there, sizeof from);
    gram_memory_free(g, twice, sizeof from);
    CHECK(h,
          gram_memory_allocate_zeros(g, sizeof from, &there) == GRAM_OK &&
              gram_memory_copy(g, back, there, sizeof from) == GRAM_OK &&
              gram_context_synchronize(g) == GRAM_OK,
          "%s", gram_message(g));
    for (int i = 0; i < COUNT; i++)
        CHECK(h, back[i] == 0, "element %d is %g, not zero", i, (double)back[i]);
    gram_memory_free(g, there, sizeof from);
    CHECK(h, gram_memory_allocate(g, (size_t)1 << 50, &there) == GRAM_OUT_OF_MEMORY && !there,
          "a petabyte");
    CHECK(h, strstr(gram_message(g), "are free"), "%s", gram_message(g));
    gram_context_destroy(g);
}

/* A system whose solution is known: A = I + 1 1^T / n, b = 2, x = 1. */
struct solving {
    gram_context *g;
    gram_tensor a, b, x;
    bool lu;
    gram_eigh_driver driver; /* of eigh_by_driver() */
    gram_status status;      /* of the last one */
};

static bool solve(void *arg)
{
    struct solving *s = arg;

    return s->lu ? gram_solve_lu(s->g, &s->a, &s->b, NULL, &s->x, NULL) == GRAM_OK
                 : gram_solve_cholesky(s->g, &s->a, &s->b, NULL, &s->x, NULL) == GRAM_OK;
}

static gram_tensor on_device(int64_t rows, int64_t cols)
{
    size_t bytes = (size_t)(rows * cols) * sizeof(float);
    gram_tensor t = gram_matrix(device_allocate(bytes), rows, cols, GRAM_F32);

    t.device.type = GRAM_CUDA;
    return t;
}

static bool solving_open(struct harness *h, struct solving *s, void *stream, int64_t n, bool lu)
{
    float *host = malloc((size_t)(n * n + n) * sizeof(float)), *b = host + n * n;

    *s = (struct solving){.g = test_cuda_context(h, stream),
                          .a = on_device(n, n),
                          .b = on_device(n, 1),
                          .x = on_device(n, 1),
                          .lu = lu};
    if (!CHECK(h, host && s->a.data && s->b.data && s->x.data, "no memory")) {
        free(host);
        return false;
    }
    for (int64_t i = 0; i < n * n; i++)
        host[i] = 1 / (float)n + (float)(i % (n + 1) == 0);
    for (int64_t i = 0; i < n; i++)
        b[i] = 2;
    CHECK(h,
          device_upload(s->a.data, host, (size_t)(n * n) * sizeof(float)) &&
              device_upload(s->b.data, b, (size_t)n * sizeof(float)),
          "upload");
    free(host);
    return s->g != NULL;
}

static void solving_close(struct solving *s)
{
    device_release(s->a.data);
    device_release(s->b.data);
    device_release(s->x.data);
    gram_context_destroy(s->g);
}

static void check_solution(struct harness *h, const struct solving *s)
{
    int64_t n = s->x.shape[0];
    float got[2] = {0};

    CHECK(h,
          device_download(&got[0], s->x.data, sizeof *got) &&
              device_download(&got[1], (float *)s->x.data + n - 1, sizeof *got) &&
              fabsf(got[0] - 1) < 1e-5F && fabsf(got[1] - 1) < 1e-5F,
          "%s of order %lld gives %g and %g", s->lu ? "LU" : "Cholesky", (long long)n,
          (double)got[0], (double)got[1]);
}

/* By the kernel of small matrices and by cuSOLVER, which the first call opens. */
static void solves_are_captured(struct harness *h)
{
    static const int64_t orders[] = {40, 100};
    void *stream = device_stream();
    float nothing = 0;
    struct solving s;

    if (!CHECK(h, stream, "no stream"))
        return;
    for (int i = 0; i < 4; i++) {
        if (!solving_open(h, &s, stream, orders[i % 2], i / 2))
            return;
        CHECK(h, solve(&s), "%s", gram_message(s.g));
        CHECK(h, gram_context_synchronize(s.g) == GRAM_OK, "%s", gram_message(s.g));
        check_solution(h, &s);
        CHECK(h, device_upload(s.x.data, &nothing, sizeof nothing), "upload"); /* written again */
        CHECK(h, device_replay(stream, 2, solve, &s), "%s", gram_message(s.g));
        check_solution(h, &s);
        solving_close(&s);
    }
}

static bool eigh_by_driver(void *arg)
{
    struct solving *s = arg;
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;

    options.driver = s->driver;
    options.select = GRAM_EIGH_LARGEST;
    options.count = s->b.shape[0];
    s->status = gram_eigh(s->g, &s->a, &options, &s->b, NULL, NULL);
    return s->status == GRAM_OK;
}

/* Xsyevd waits inside, block Lanczos looks at its numbers: in a capture that is refused before
 * anything is queued. */
static void who_waits_is_not_captured(struct harness *h)
{
    for (int i = 0; i < 2; i++) {
        void *stream = device_stream();
        struct solving s;
        if (!CHECK(h, stream, "no stream") || !solving_open(h, &s, stream, 40, false))
            return;
        s.driver = i ? GRAM_EIGH_DRIVER_KRYLOV : GRAM_EIGH_DRIVER_DIVIDE;
        s.b = gram_vector(s.b.data, i ? 2 : 40, GRAM_F32);
        s.b.device.type = GRAM_CUDA;
        CHECK(h, eigh_by_driver(&s), "%s", gram_message(s.g));
        (void)device_replay(stream, 1, eigh_by_driver, &s);
        CHECK(h, s.status == GRAM_UNSUPPORTED && strstr(gram_message(s.g), "cannot be captured"),
              "%s: %s", gram_status_name(s.status), gram_message(s.g));
        solving_close(&s);
    }
}

/* The values of a: 1 / n everywhere and 1 more on the diagonal. */
static void check_values(struct harness *h, const struct solving *s, const char *what)
{
    float got[40] = {0};

    CHECK(h,
          device_download(got, s->b.data, sizeof got) && fabsf(got[0] - 1) < 1e-5F &&
              fabsf(got[38] - 1) < 1e-5F && fabsf(got[39] - 2) < 1e-5F,
          "%s: values %g, %g, %g", what, (double)got[0], (double)got[38], (double)got[39]);
}

/* Nothing is written before somebody waits: what b held is still there. */
static void check_untouched(struct harness *h, const struct solving *s)
{
    float got[40] = {0};

    CHECK(h, device_download(got, s->b.data, sizeof got) && got[0] == -7 && got[39] == -7,
          "values %g and %g before anybody waited", (double)got[0], (double)got[39]);
}

/* Whatever waits for the thread, the outputs are there then. */
static void eigh_in_the_background(struct harness *h)
{
    void *stream = device_stream();
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    struct solving s;
    gram_status status;
    float before[40];

    if (!CHECK(h, stream, "no stream") || !solving_open(h, &s, stream, 40, false))
        return;
    for (int i = 0; i < LENGTH(before); i++)
        before[i] = -7;
    s.b = gram_vector(s.b.data, 40, GRAM_F32);
    s.b.device.type = GRAM_CUDA;
    options.driver = GRAM_EIGH_DRIVER_DIVIDE;
    options.background = 1;
    for (int way = 0; way < 3; way++) {
        CHECK(h, device_upload(s.b.data, before, sizeof before), "upload");
        status = gram_eigh(s.g, &s.a, &options, &s.b, NULL, NULL);
        CHECK(h, status == GRAM_OK, "%s", gram_message(s.g));
        check_untouched(h, &s);
        if (way == 0)
            status = gram_eigh_wait(s.g);
        else if (way == 1) /* the next call waits */
            status = gram_eigh(s.g, &s.a, &options, &s.b, NULL, NULL);
        CHECK(h, status == GRAM_OK, "%s", gram_message(s.g));
        CHECK(h, gram_context_synchronize(s.g) == GRAM_OK, "%s", gram_message(s.g));
        check_values(h, &s, way == 0 ? "wait" : way == 1 ? "next call" : "synchronize");
    }
    CHECK(h, gram_eigh_wait(s.g) == GRAM_OK, "nothing to wait for: %s", gram_message(s.g));
    CHECK(h, gram_eigh(s.g, &s.a, &options, &s.b, NULL, NULL) == GRAM_OK, "%s", gram_message(s.g));
    gram_context_destroy(s.g); /* while the thread may run */
    s.g = NULL;
    solving_close(&s);
}

static const struct test_function tests[] = {
    {                   "memory",                    memory},
    {      "solves_are_captured",       solves_are_captured},
    {"who_waits_is_not_captured", who_waits_is_not_captured},
    {   "eigh_in_the_background",    eigh_in_the_background},
};

int main(void)
{
    if (gram_best_device().type != GRAM_CUDA || !device_open(0)) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
