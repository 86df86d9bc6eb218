/*
 * test_kfac_trouble.c - gram_kfac: no memory in the middle of a call, gradients of zeros, factors
 * of rank one and of zeros
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac_problem.h"
#include "tests/core/failing_alloc.h"
#include <math.h>
#include <string.h>

enum {
    UPDATE,
    REFRESH,
    PRECONDITION,
    CALLS
};

/* A hash of everything in the state. */
static uint64_t hash_of(struct harness *h, gram_kfac *kfac)
{
    uint64_t hash = 0xCBF29CE484222325u;
    const char *name;
    gram_tensor view;

    for (int64_t i = 0; gram_kfac_state_at(h->g, kfac, i, &name, &view) == GRAM_OK; i++)
        for (size_t j = 0; j < (size_t)test_count(&view) * gram_dtype_size(view.dtype); j++)
            hash = (hash ^ ((const unsigned char *)view.data)[j]) * 0x100000001B3u;
    return hash;
}

static void begin(struct harness *h, struct kfac_one *o, struct kfac_data *d, bool corrected)
{
    *o = (struct kfac_one){.options = GRAM_KFAC_OPTIONS_INIT};
    o->options.corrected = corrected;
    o->options.damping = corrected ? GRAM_KFAC_EXACT : GRAM_KFAC_FACTORED;
    kfac_fill(h, d, 2, 4, 3);
    kfac_open(h, o, GRAM_LAYER_LINEAR, 4, 3, true);
    CHECK(h,
          kfac_learn(h, o, d) == GRAM_OK && gram_kfac_refresh(h->g, o->kfac) == GRAM_OK &&
              kfac_learn(h, o, d) == GRAM_OK,
          "%s", gram_message(h->g));
    d->a[0] += 1; /* so that an update changes something */
}

static gram_status call(struct harness *h, int which, struct kfac_one *o, struct kfac_data *d)
{
    if (which == UPDATE)
        return kfac_learn(h, o, d);
    return which == REFRESH ? gram_kfac_refresh(h->g, o->kfac) : kfac_direct(h, o, 0.5);
}

/* Every allocation of a call fails once: the state is what it was, and nothing was written. */
static void no_memory(struct harness *h)
{
    struct failing_alloc memory = FAILING_ALLOC_INIT;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;

    failing_alloc_use(&memory, &options);
    options.threads = 2;
    for (int i = 0; i < 2 * CALLS; i++) {
        bool done = false, refused = false;
        for (int64_t fail = 1; fail < 40 && !done; fail++) {
            struct harness mine = *h;
            struct kfac_one o;
            struct kfac_data d;
            gram_status status;
            uint64_t hash;
            begin(h, &o, &d, i % 2);
            hash = hash_of(h, o.kfac);
            failing_alloc_reset(&memory, 0);
            CHECK(h, gram_context_create(&options, &mine.g) == GRAM_OK, "a context");
            failing_alloc_reset(&memory, fail);
            status = call(&mine, i / 2, &o, &d);
            done = status == GRAM_OK && !memory.failed; /* some products do with less memory */
            CHECK(h, status == GRAM_OK || (status == GRAM_OUT_OF_MEMORY && memory.failed),
                  "allocation %lld of call %d: %s", (long long)fail, i, gram_message(mine.g));
            refused |= status != GRAM_OK;
            if (status != GRAM_OK)
                CHECK(h, hash_of(h, o.kfac) == hash && o.to_weight[0] == -7 && o.to_bias[0] == -7,
                      "allocation %lld of call %d changed something", (long long)fail, i);
            gram_context_destroy(mine.g);
            gram_kfac_destroy(o.kfac);
            CHECK(h, memory.live == 0 && memory.wrong_releases == 0, "%lld blocks left",
                  (long long)memory.live);
        }
        CHECK(h, done, "call %d was never done", i);
        CHECK(h, refused || i / 2 == PRECONDITION, "call %d was never refused", i);
    }
}

/* One sample for ever (rank one), or nothing at all: finite directions, and 0 for 0. */
static void poor_gradients(struct harness *h)
{
    for (int i = 0; i < 8; i++) {
        struct kfac_one o;
        struct kfac_data d;
        bool zeros = i & 1, nothing = i & 2;
        begin(h, &o, &d, i & 4);
        for (int64_t r = 0; r < d.samples * d.positions; r++) {
            for (int64_t k = 0; k < 4; k++)
                d.a[r * 4 + k] = zeros ? 0 : (double)(k + 1);
            for (int64_t k = 0; k < 3; k++)
                d.g[r * 3 + k] = zeros ? 0 : (double)(k - 1);
        }
        if (nothing)
            memset(o.weight, 0, sizeof o.weight), memset(o.bias, 0, sizeof o.bias);
        for (int step = 0; step < 4; step++) {
            CHECK(h,
                  kfac_learn(h, &o, &d) == GRAM_OK && gram_kfac_refresh(h->g, o.kfac) == GRAM_OK &&
                      kfac_direct(h, &o, 0.5) == GRAM_OK,
                  "%s", gram_message(h->g));
            for (int64_t e = 0; e < o.rows * o.cols; e++) {
                double v = kfac_number(&o, true, e / o.cols, e % o.cols);
                CHECK(h, isfinite(v) && (v == 0 || !nothing), "row %d: %g", i, v);
            }
        }
        gram_kfac_destroy(o.kfac);
    }
}

static const struct test_function tests[] = {
    {     "no_memory",      no_memory},
    {"poor_gradients", poor_gradients},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
