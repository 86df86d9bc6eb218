/*
 * test_cuda_optimizer_memory.c - no memory on the device in the middle of a step: parameters and
 * state stay as they were
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "tests/optim/optimizer_sample.h"
#include <string.h>

enum {
    BYTES = SAMPLE_NUMBERS * sizeof(double)
};

static void *stream;

/* The allocation of scratch that fails; 0: none. */
struct device_limit {
    int64_t calls, fail_at;
    bool failed;
};

static void *allocate(void *user, size_t bytes, void *on)
{
    struct device_limit *limit = user;

    (void)on;
    limit->calls++;
    limit->failed = limit->failed || limit->calls == limit->fail_at;
    return limit->calls == limit->fail_at ? NULL : device_allocate(bytes);
}

static void release(void *user, void *memory, size_t bytes, void *on)
{
    (void)user, (void)bytes, (void)on;
    device_release(memory); /* waits for the device's work */
}

/* The sample and its optimizer on the device. */
struct there {
    struct device_limit limit;
    gram_context *g;
    struct sample s;
    void *memory; /* values, gradients */
    gram_optimizer *o;
};

static bool begin(struct harness *h, struct there *t, const gram_optimizer_options *options)
{
    gram_context_options context = GRAM_CONTEXT_OPTIONS_INIT;

    memset(t, 0, sizeof *t);
    context.device = (gram_device){GRAM_CUDA, 0};
    context.stream = stream;
    context.allocate_device = allocate;
    context.release_device = release;
    context.device_user = &t->limit;
    sample_open(h, &t->s);
    if (!CHECK(h,
               gram_context_create(&context, &t->g) == GRAM_OK &&
                   gram_memory_allocate(t->g, 2 * (size_t)BYTES, &t->memory) == GRAM_OK,
               "%s", gram_message(t->g)))
        return false;
    for (int i = 0; i < SAMPLE; i++) {
        gram_tensor *value = &t->s.value[i], *grad = &t->s.grad[i];
        value->data = (char *)t->memory + ((char *)value->data - (char *)t->s.w);
        grad->data = (char *)t->memory + BYTES + ((char *)grad->data - (char *)t->s.g);
        value->device = grad->device = context.device;
    }
    return CHECK(h,
                 gram_optimizer_create(t->g, options, (const gram_tensor *const *)t->s.values,
                                       SAMPLE, &t->o) == GRAM_OK,
                 "%s", gram_message(t->g));
}

static void end(struct there *t)
{
    gram_optimizer_destroy(t->o);
    if (t->memory)
        gram_memory_free(t->g, t->memory, 2 * (size_t)BYTES);
    gram_context_destroy(t->g);
}

static gram_status step(struct there *t)
{
    return gram_optimizer_step(t->g, t->o, t->s.values, t->s.gradients, NULL);
}

/* Beside an optimizer whose memory is there: before each of three steps the other one fails at
 * every allocation once, and the numbers are the same bit by bit. */
static void no_memory_for(struct harness *h, gram_optimizer_method method)
{
    gram_optimizer_options options = {.size = sizeof options};
    struct there a = {0}, b = {0};
    int refused = 0;

    CHECK(h, gram_optimizer_defaults(method, &options), "no method");
    options.refresh = 1;
    options.block = 4;
    options.epsilon = 1e-3;
    if (begin(h, &a, &options) && begin(h, &b, &options)) {
        memcpy(b.s.w, a.s.w, BYTES);
        sample_send(h, a.g, &a.s, a.memory);
        for (int i = 0; i < 3; i++) {
            gram_status status = GRAM_OUT_OF_MEMORY;
            sample_next(h, &a.s);
            memcpy(b.s.g, a.s.g, BYTES);
            sample_send(h, a.g, &a.s, a.memory);
            sample_send(h, b.g, &b.s, b.memory);
            CHECK(h, step(&a) == GRAM_OK, "%s", gram_message(a.g));
            for (int64_t fail = 1; fail < 40 && status != GRAM_OK; fail++) {
                b.limit = (struct device_limit){.fail_at = fail};
                status = step(&b);
                refused += status != GRAM_OK;
                CHECK(h, status == (b.limit.failed ? GRAM_OUT_OF_MEMORY : GRAM_OK),
                      "allocation %lld: %s", (long long)fail, gram_message(b.g));
            }
            CHECK(h, status == GRAM_OK, "never done");
            CHECK(h,
                  gram_memory_copy(a.g, a.s.w, a.memory, BYTES) == GRAM_OK &&
                      gram_memory_copy(b.g, b.s.w, b.memory, BYTES) == GRAM_OK &&
                      gram_context_synchronize(a.g) == GRAM_OK &&
                      gram_context_synchronize(b.g) == GRAM_OK,
                  "%s", gram_message(a.g));
            CHECK(h, memcmp(a.s.w, b.s.w, BYTES) == 0, "method %d, step %d differs", (int)method,
                  i);
        }
        CHECK(h, refused > 0, "no step took memory");
    }
    end(&a);
    end(&b);
}

static void no_memory(struct harness *h)
{
    no_memory_for(h, GRAM_SHAMPOO);
    no_memory_for(h, GRAM_SOAP);
    no_memory_for(h, GRAM_MUON);
}

static const struct test_function tests[] = {
    {"no_memory", no_memory},
};

int main(void)
{
    stream = device_stream_or_skip();
    return stream ? harness_run_tests(tests, LENGTH(tests)) : 77;
}
