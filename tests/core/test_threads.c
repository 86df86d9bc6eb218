/*
 * test_threads.c - the parallel loop, its pool, and contexts in threads of their own
 *
 * ThreadSanitizer runs this program: what it must not find is a race.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/threads.h"
#include "failing_alloc.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ITEMS = 5000
};

struct tally {
    int times[ITEMS];  /* how often each index came */
    int of_thread[16]; /* items that each thread did */
    int64_t limit;
    bool outside;
};

static void count_item(void *arg, int64_t index, int thread)
{
    struct tally *t = arg;

    if (index < 0 || index >= t->limit || thread < 0 || thread >= 16) {
        t->outside = true;
        return;
    }
    t->times[index]++; /* no atomic: an index comes once, a thread is one thread */
    t->of_thread[thread]++;
}

static gram_context *open_with(struct harness *h, int threads)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g = NULL;

    o.threads = threads;
    CHECK(h, gram_context_create(&o, &g) == GRAM_OK, "%s", gram_message(NULL));
    return g;
}

static void every_index_comes_once(struct harness *h)
{
    static const int thread_counts[] = {1, 2, 3, 7};
    static const int64_t item_counts[] = {0, 1, 2, 3, 100, ITEMS};

    for (int t = 0; t < LENGTH(thread_counts); t++) {
        gram_context *g = open_with(h, thread_counts[t]);
        for (int c = 0; g && c < LENGTH(item_counts) * 20; c++) {
            struct tally tally = {.limit = item_counts[c % LENGTH(item_counts)]};
            int64_t sum = 0;
            gram_parallel_for(g, tally.limit, count_item, &tally);
            for (int64_t i = 0; i < tally.limit; i++)
                CHECK(h, tally.times[i] == 1, "index %d came %d times", (int)i, tally.times[i]);
            for (int i = 0; i < 16; i++) {
                CHECK(h, i < thread_counts[t] || tally.of_thread[i] == 0, "thread %d of %d", i,
                      thread_counts[t]);
                sum += tally.of_thread[i];
            }
            CHECK(h, sum == tally.limit && !tally.outside, "%d of %d items", (int)sum,
                  (int)tally.limit);
        }
        gram_context_destroy(g);
    }
}

/* Averages of 8 matrices on 16 threads wrote behind their scratch, which was for 8. */
static void few_items_have_small_thread_numbers(struct harness *h)
{
    gram_context *g = open_with(h, 16);

    for (int round = 0; g && round < 2000; round++) {
        struct tally tally = {.limit = 2 + round % 7};
        int beyond = 0;

        gram_parallel_for(g, tally.limit, count_item, &tally);
        for (int64_t i = tally.limit; i < 16; i++)
            beyond += tally.of_thread[i];
        CHECK(h, beyond == 0 && !tally.outside, "%d of %d items", beyond, (int)tally.limit);
    }
    gram_context_destroy(g);
}

static void the_pool_can_go_and_come_back(struct harness *h)
{
    for (int round = 0; round < 20; round++) {
        struct tally tally = {.limit = 64};
        gram_parallel_for(h->g, 64, count_item, &tally);
        for (int i = 0; i < 64; i++)
            CHECK(h, tally.times[i] == 1, "index %d came %d times", i, tally.times[i]);
        gram_pool_destroy(h->g);
        gram_pool_destroy(h->g);
    }
}

/* A loop cannot fail: without memory for a pool the caller does it all. */
static void without_memory_the_caller_works(struct harness *h)
{
    struct failing_alloc a = FAILING_ALLOC_INIT;
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    struct tally tally = {.limit = 100};
    gram_context *g;

    o.threads = 4;
    failing_alloc_use(&a, &o);
    if (!CHECK(h, gram_context_create(&o, &g) == GRAM_OK, "%s", gram_message(NULL)))
        return;
    failing_alloc_reset(&a, 1);
    gram_parallel_for(g, 100, count_item, &tally);
    CHECK(h, a.failed, "the pool's memory did not come from the allocator");
    CHECK(h, tally.of_thread[0] == 100, "the caller did %d of 100", tally.of_thread[0]);
    gram_context_destroy(g);
    CHECK(h, a.live == 0, "%d blocks leak", (int)a.live);
}

/* ---- Contexts in threads ------------------------------------------------------------------ */

struct job {
    pthread_t handle;
    int seed;
    int failures, checks;
};

static bool distance_is_right(const gram_tensor *x, const gram_tensor *out, double p)
{
    for (int64_t j = 0; j < x->shape[0]; j += 7) {
        double sum = 0, got = test_get(out, (int64_t[]){3, j});
        for (int64_t k = 0; k < x->shape[1]; k++)
            sum += pow(fabs(test_get(x, (int64_t[]){3, k}) - test_get(x, (int64_t[]){j, k})), p);
        if (!(fabs(got - pow(sum, 1 / p)) <= 1e-5 * pow(sum, 1 / p)))
            return false;
    }
    return true;
}

/* Solves and gradients by matrix products, which share the threads of BLAS: A = 2 n I + ones. */
static void use_blas(struct harness *h, int64_t n)
{
    struct test_tensor a, b, c, out;

    test_tensor_create(h, &a, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){n, n});
    test_tensor_create(h, &b, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){n, 3});
    test_tensor_create(h, &c, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){3, n});
    test_tensor_create(h, &out, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){n, n});
    for (int64_t i = 0; i < n * n; i++)
        test_put(&a.t, i, i % (n + 1) == 0 ? 2 * (double)n + 1 : 1);
    for (int64_t i = 0; i < 3 * n; i++) {
        test_put(&b.t, i, 3 * (double)n); /* A times ones */
        test_put(&c.t, i, 1);
    }
    CHECK(h, gram_solve_cholesky(h->g, &a.t, &b.t, NULL, &b.t, NULL) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int64_t i = 0; i < 3 * n; i++)
        CHECK(h, fabs(test_at(&b.t, i) - 1) < 1e-12, "solution %d is %g", (int)i, test_at(&b.t, i));
    /* with p = 2 and features 0 of the centres every gradient is d (c a) = d (3 n) */
    memset(b.t.data, 0, b.bytes);
    for (int64_t i = 0; i < n * n; i++)
        test_put(&a.t, i, 1);
    b.t = (gram_tensor){
        .data = b.t.data, .dtype = GRAM_F64, .ndim = 2, .shape = {3, n},
                   .stride = {n, 1}
    };
    out.t.shape[0] = 3;
    CHECK(h,
          gram_agop(h->g, &a.t, &b.t, &c.t, &c.t, gram_number(2), NULL,
                    &(gram_tensor){
                        .data = out.t.data,
                        .dtype = GRAM_F64,
                        .ndim = 2,
                        .shape = {3, 3},
                        .stride = {3, 1}
    }) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, fabs(test_at(&out.t, 0) / (3 * (double)n * (double)n) - 1) < 1e-12, "agop is %g",
          test_at(&out.t, 0));
    test_tensor_destroy(h, &a, "a"), test_tensor_destroy(h, &b, "b");
    test_tensor_destroy(h, &c, "c"), test_tensor_destroy(h, &out, "out");
}

/* Distances, solves and gradients with a context of its own, again and again. */
static void *work(void *arg)
{
    struct job *job = arg;
    struct harness own, *h = &own;
    const struct harness_options options = {.threads = 1 + job->seed % 3};
    struct test_tensor x, out;
    int64_t n = 150 + job->seed;

    if (!harness_open(h, &options, NULL)) {
        job->failures = 1;
        return NULL;
    }
    h->where = "a thread with its own context";
    harness_seed(h, "work", job->seed);
    test_tensor_create(h, &x, GRAM_F32, ROW_MAJOR, 2, (int64_t[]){n, 20});
    test_tensor_create(h, &out, GRAM_F32, ROW_MAJOR, 2, (int64_t[]){n, n});
    test_fill_normal(h, &x, 0, 1);
    for (int round = 0; round < 12; round++) {
        gram_scalar p = gram_number(round % 2 ? 1.3 : 2);
        CHECK(h, gram_cdist(h->g, &x.t, NULL, p, NULL, &out.t) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, distance_is_right(&x.t, &out.t, p.value), "round %d", round);
        CHECK(h,
              gram_cdist(h->g, &x.t, NULL, gram_number(-1), NULL, &out.t) == GRAM_INVALID_ARGUMENT,
              "p = -1");
        use_blas(h, n);
    }
    test_tensor_destroy(h, &x, "x");
    test_tensor_destroy(h, &out, "out");
    job->failures = h->failures;
    job->checks = h->checks;
    harness_close(h);
    return NULL;
}

static void contexts_are_independent(struct harness *h)
{
    struct job jobs[4] = {0};
    int started = 0;

    for (int i = 0; i < 4; i++) {
        jobs[i].seed = i;
        if (!CHECK(h, pthread_create(&jobs[i].handle, NULL, work, &jobs[i]) == 0, "thread %d", i))
            break;
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(jobs[i].handle, NULL);
        CHECK(h, jobs[i].failures == 0 && jobs[i].checks > 0, "thread %d: %d failures", i,
              jobs[i].failures);
    }
}

/* One thread at a time, but not always the same one. */
static void *one_call(void *arg)
{
    struct tally tally = {.limit = 100};
    gram_context *g = arg;

    gram_parallel_for(g, 100, count_item, &tally);
    return tally.times[99] == 1 ? g : NULL;
}

static void a_context_may_change_its_thread(struct harness *h)
{
    for (int i = 0; i < 8; i++) {
        pthread_t handle;
        void *right = NULL;
        if (!CHECK(h, pthread_create(&handle, NULL, one_call, h->g) == 0, "no thread"))
            return;
        pthread_join(handle, &right);
        CHECK(h, right != NULL, "in thread %d", i);
    }
}

static const struct test_function tests[] = {
    {             "every_index_comes_once",              every_index_comes_once},
    {      "the_pool_can_go_and_come_back",       the_pool_can_go_and_come_back},
    {"few_items_have_small_thread_numbers", few_items_have_small_thread_numbers},
    {    "without_memory_the_caller_works",     without_memory_the_caller_works},
    {           "contexts_are_independent",            contexts_are_independent},
    {    "a_context_may_change_its_thread",     a_context_may_change_its_thread},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
