/*
 * test_cuda_warm.c - gram_cache_warm_kernel: what it compiles is what gram_kernel then launches
 *
 * The calls run on the device with a new cache that holds what was compiled ahead, and add nothing.
 * Without a device and outside of the emulation: skipped.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "cuda_cache_folder.h"

enum {
    MOST = 1 << 17 /* elements of a matrix */
};

/* A call of gram_kernel; y NULL where symmetric. */
struct call {
    const char *why;
    int64_t m, n, k;
    gram_dtype dtype;
    double p;
    const char *expression; /* with the parameter c */
    bool symmetric, turned;
};

static const struct call calls[] = {
    {                    "a value", 33, 20,    7, GRAM_F32,   1,              NULL, false, false},
    {           "doubles, one set", 40, 40,    5, GRAM_F64,   2,              NULL,  true, false},
    {"columns of out side by side", 20, 30,    9, GRAM_F32, 1.3,              NULL, false,  true},
    {              "an expression", 24, 24,    6, GRAM_F32, 1.5,     "exp(-c * s)",  true, false},
    {         "another expression", 24, 24,    6, GRAM_F32, 1.5, "1 / (1 + c * s)",  true, false},
    {             "sums in pieces",  8,  8, 4000, GRAM_F32,   1,              NULL, false, false},
};

static void count_one(void *user, const gram_cache_entry *entry)
{
    (void)entry;
    ++*(int *)user;
}

static int64_t kernels_of(struct harness *h)
{
    gram_cache cache = {.size = sizeof cache};

    CHECK(h, gram_cache_info(h->g, &cache) == GRAM_OK && !cache.why[0], "%s", cache.why);
    return cache.kernels;
}

/* The tensors of a call in some memory, whatever is there. */
static void place(const struct call *c, void *memory, gram_device device, gram_tensor t[3])
{
    t[0] = gram_matrix(memory, c->m, c->k, c->dtype);
    t[1] = gram_matrix((char *)memory + 8 * MOST, c->n, c->k, c->dtype);
    t[2] = gram_matrix((char *)memory + 16 * MOST, c->m, c->n, c->dtype);
    if (c->turned)
        t[2].stride[0] = 1, t[2].stride[1] = c->m;
    for (int i = 0; i < 3; i++)
        t[i].device = device;
}

static void one_call(struct harness *h, gram_context *there, void *memory, const struct call *c)
{
    gram_parameter parameter = {"c", gram_number(2)};
    gram_kernel_options options = GRAM_KERNEL_OPTIONS_INIT;
    gram_warm_options warm = GRAM_WARM_OPTIONS_INIT;
    void *const nowhere = (void *)((uintptr_t)1 << 60); // NOLINT(performance-no-int-to-ptr)
    gram_tensor t[3];
    int64_t before;
    int visits = 0;

    options.function = GRAM_LAPLACE;
    options.p = gram_number(c->p);
    options.outer_power = gram_number(1 / c->p);
    if (c->expression) {
        options.function = GRAM_EXPRESSION;
        options.expression = c->expression;
        options.parameters = &parameter, options.parameter_count = 1;
    }
    warm.visit = count_one, warm.user = &visits;
    place(c, nowhere, (gram_device){GRAM_CPU, 0}, t);
    CHECK(h,
          gram_cache_warm_kernel(h->g, &t[0], c->symmetric ? NULL : &t[1], &options, &t[2],
                                 &warm) == GRAM_OK,
          "%s: %s", c->why, gram_message(h->g));
    before = kernels_of(h);
    CHECK(h, visits > 0 && before > 0, "%s: %d visits, %lld kernels", c->why, visits,
          (long long)before);
    place(c, memory, (gram_device){GRAM_CUDA, 0}, t);
    CHECK(h,
          gram_kernel(there, &t[0], c->symmetric ? NULL : &t[1], &options, &t[2]) == GRAM_OK &&
              gram_context_synchronize(there) == GRAM_OK,
          "%s: %s", c->why, gram_message(there));
    CHECK(h, kernels_of(h) == before, "%s: %lld kernels were compiled ahead, then there are %lld",
          c->why, (long long)before, (long long)kernels_of(h));
}

static void what_is_compiled_ahead_is_what_runs(struct harness *h)
{
    gram_context *there = test_cuda_context(h, NULL);
    void *memory = device_allocate(24 * (size_t)MOST);

    fresh(h);
    if (CHECK(h, there && memory, "no device")) {
        there->cache_folder = folder;
        for (int i = 0; i < LENGTH(calls); i++)
            one_call(h, there, memory, &calls[i]);
    }
    device_release(memory);
    gram_context_destroy(there);
    clean(h);
}

/* A call that does not fit is refused as gram_kernel refuses it; what is empty takes no kernel. */
static void refusals(struct harness *h)
{
    const char *const chips[] = {"sm_12"};
    gram_kernel_options options = GRAM_KERNEL_OPTIONS_INIT;
    gram_warm_options warm = GRAM_WARM_OPTIONS_INIT;
    double memory[64];
    gram_tensor x = gram_matrix(memory, 4, 2, GRAM_F64), out = gram_matrix(memory, 4, 4, GRAM_F64);
    int visits = 0;

    fresh(h);
    warm.visit = count_one, warm.user = &visits;
    options.function = GRAM_GAUSSIAN, options.p = gram_number(2);
    out.data = memory + 32;
    CHECK(h, gram_cache_warm_kernel(h->g, &x, NULL, NULL, &out, &warm) == GRAM_INVALID_ARGUMENT,
          "no options");
    CHECK(h, gram_cache_warm_kernel(h->g, NULL, NULL, &options, &out, &warm) != GRAM_OK, "no x");
    out.shape[0] = 3;
    CHECK(h, gram_cache_warm_kernel(h->g, &x, NULL, &options, &out, &warm) == GRAM_INVALID_ARGUMENT,
          "out of another shape");
    out.shape[0] = 4;
    warm.chips = chips, warm.count = 1;
    CHECK(h,
          gram_cache_warm_kernel(h->g, &x, NULL, &options, &out, &warm) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "chip \"sm_12\" is unknown"),
          "%s", gram_message(h->g));
    warm.chips = NULL;
    CHECK(h, gram_cache_warm_kernel(h->g, &x, NULL, &options, &out, &warm) == GRAM_INVALID_ARGUMENT,
          "one chip, none given");
    warm.count = 0;
    x.shape[0] = out.shape[0] = out.shape[1] = 0;
    CHECK(h, gram_cache_warm_kernel(h->g, &x, NULL, &options, &out, &warm) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, visits == 0 && kernels_of(h) == 0, "%d kernels", visits);
    clean(h);
}

static const struct test_function tests[] = {
    {"what_is_compiled_ahead_is_what_runs", what_is_compiled_ahead_is_what_runs},
    {                           "refusals",                            refusals},
};

int main(void)
{
    if (gram_best_device().type != GRAM_CUDA || !device_open(0)) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
