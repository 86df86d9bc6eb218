/*
 * test_many_pairs.c - calls over pairs that are never stored: cancelled before they begin and in
 * the middle, what they tell of their progress, and more pairs than 32 bits count
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "gram/gram.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    NEAREST,
    REDUCE,
    MATMUL,
    VJP,        /* tiles of weights */
    VJP_BLOCKS, /* p = infinity: by blocks */
    CALLS,
    COORDINATES = 2
};

static const char *const names[] = {"nearest", "kernel_reduce", "kernel_matmul",
                                    "kernel_matmul_vjp", "kernel_matmul_vjp by blocks"};

/* Points and results, where the context computes. */
struct problem {
    gram_context *g;
    int64_t m;
    struct test_tensor own[4];
    struct test_copy there[4]; /* x, v, out, indices */
    void (*progress)(void *user, double fraction);
    void *user;
};

static bool open_problem(struct harness *h, int64_t m, struct problem *p)
{
    const struct {
        gram_dtype dtype;
        int64_t cols;
    } shapes[] = {
        {GRAM_F32, COORDINATES},
        {GRAM_F32,           1},
        {GRAM_F32, COORDINATES},
        {GRAM_I64,           1}
    };

    *p = (struct problem){.g = h->g, .m = m};
    for (int i = 0; i < 4; i++) {
        test_tensor_create(h, &p->own[i], shapes[i].dtype, ROW_MAJOR, 2,
                           (int64_t[]){m, shapes[i].cols});
        if (i < 2)
            test_fill_normal(h, &p->own[i], 0, 1);
        if (!test_send(h, &p->own[i], &p->there[i]))
            return false;
    }
    return true;
}

static void close_problem(struct harness *h, struct problem *p)
{
    for (int i = 0; i < 4; i++) {
        CHECK(h, test_fetch(h, &p->own[i], &p->there[i]), "not fetched");
        test_tensor_destroy(h, &p->own[i], "a tensor");
    }
}

/* A column as a vector. */
static gram_tensor vector(const gram_tensor *t)
{
    gram_tensor v = *t;

    v.ndim = 1;
    v.stride[0] = t->stride[0];
    return v;
}

static gram_status run(struct problem *p, int which)
{
    gram_kernel_options kernel = GRAM_KERNEL_OPTIONS_INIT;
    gram_nearest_options nearest = GRAM_NEAREST_OPTIONS_INIT;
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;
    gram_tensor *x = &p->there[0].t, *v = &p->there[1].t, *to = &p->there[2].t,
                *indices = &p->there[3].t, out = vector(to), column = *to;

    kernel.function = GRAM_LAPLACE, kernel.p = gram_number(1);
    nearest.progress = p->progress, nearest.progress_user = p->user;
    column.shape[1] = 1;
    switch (which) {
    case NEAREST:
        return gram_nearest(p->g, x, NULL, gram_number(2), &nearest, indices, &column);
    case REDUCE:
        return gram_kernel_reduce(p->g, x, NULL, &kernel, GRAM_REDUCE_LOGSUMEXP, NULL, NULL, &out,
                                  NULL);
    case MATMUL:
        return gram_kernel_matmul(p->g, x, NULL, &kernel, v, NULL, &column);
    default:
        if (which == VJP_BLOCKS)
            kernel.p = gram_number(INFINITY), kernel.outer_power = gram_number(1);
        grads.x = to;
        return gram_kernel_matmul_vjp(p->g, x, NULL, &kernel, v, v, &grads);
    }
}

static void cancelled_before_it_begins(struct harness *h)
{
    const bool gpu = test_asked_device().type == GRAM_CUDA;
    struct problem p;

    if (!open_problem(h, 40, &p))
        return;
    for (int which = 0; which < CALLS; which++) {
        if (gpu && which >= VJP)
            continue; /* which only queues its work there */
        gram_context_cancel(h->g);
        CHECK(h, run(&p, which) == GRAM_CANCELLED, "%s: %s", names[which], gram_message(h->g));
        CHECK(h, run(&p, which) == GRAM_OK, "%s again: %s", names[which], gram_message(h->g));
    }
    close_problem(h, &p);
}

static void *cancel_soon(void *arg)
{
    const struct timespec soon = {0, 20000000};

    nanosleep(&soon, NULL);
    gram_context_cancel(arg);
    return NULL;
}

/* Each would take seconds: whenever the request comes, it ends the call. */
static void cancelled_in_the_middle(struct harness *h)
{
    struct problem p;

    if (!open_problem(h, 120000, &p))
        return;
    for (int which = 0; which < CALLS; which++) {
        pthread_t other;
        gram_status status;
        if (!CHECK(h, pthread_create(&other, NULL, cancel_soon, h->g) == 0, "no thread"))
            break;
        status = run(&p, which);
        pthread_join(other, NULL);
        CHECK(h, status == GRAM_CANCELLED, "%s: status %d", names[which], (int)status);
    }
    close_problem(h, &p);
}

/* ---- Progress ------------------------------------------------------------------------------- */

struct progress {
    gram_context *g;
    double last;
    int calls;
    bool orderly, cancel;
};

static void note(void *user, double fraction)
{
    struct progress *seen = user;

    seen->orderly &= fraction > 0 && fraction <= 1;
    seen->last = fraction, seen->calls++;
    if (seen->cancel)
        gram_context_cancel(seen->g);
}

static void progress_of_nearest(struct harness *h)
{
    struct progress seen = {.g = h->g, .orderly = true};
    struct problem p;

    if (!open_problem(h, 3000, &p))
        return;
    p.progress = note, p.user = &seen;
    CHECK(h, run(&p, NEAREST) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, seen.calls > 1 && seen.orderly, "%d calls, the last with %g", seen.calls, seen.last);
    /* A request from inside ends the call: there are many tasks after the first. */
    seen = (struct progress){.g = h->g, .orderly = true, .cancel = true};
    CHECK(h, run(&p, NEAREST) == GRAM_CANCELLED, "status of a call that was cancelled inside");
    CHECK(h, seen.calls == 1 && seen.last < 1, "%d calls, the last with %g", seen.calls, seen.last);
    close_problem(h, &p);
}

/* ---- More pairs than 32 bits count ---------------------------------------------------------- */

enum {
    MANY = 66000, /* squared 4.36 10^9, above 2^32 */
    STEP = 7919   /* a prime: i STEP mod MANY goes through all numbers */
};

struct line {
    double *x, *y, *out;
    int64_t *indices, *place; /* place[v]: the row of y that holds v */
};

static bool create_line(struct line *l)
{
    l->x = calloc(3 * MANY, sizeof *l->x), l->indices = calloc(2 * MANY, sizeof *l->indices);
    if (!l->x || !l->indices)
        return false;
    l->y = l->x + MANY, l->out = l->y + MANY, l->place = l->indices + MANY;
    for (int64_t i = 0; i < MANY; i++) {
        l->x[i] = (double)i;
        l->y[i] = (double)(i * STEP % MANY);
        l->place[i * STEP % MANY] = i;
    }
    return true;
}

static void more_pairs_than_32_bits_count(struct harness *h)
{
    struct line l = {0};
    gram_kernel_options kernel = GRAM_KERNEL_OPTIONS_INIT;
    gram_nearest_options options = GRAM_NEAREST_OPTIONS_INIT;
    gram_context *g = NULL;
    gram_tensor x, y, out, indices, values;
    int64_t wrong = 0;

    if (!CHECK(h, create_line(&l) && gram_context_create(NULL, &g) == GRAM_OK, "no memory"))
        return;
    x = gram_matrix(l.x, MANY, 1, GRAM_F64), y = gram_matrix(l.y, MANY, 1, GRAM_F64);
    out = gram_matrix(l.out, MANY, 1, GRAM_F64);
    indices = gram_matrix(l.indices, MANY, 1, GRAM_I64);
    CHECK(h, gram_nearest(g, &x, &y, gram_number(1), &options, &indices, &out) == GRAM_OK, "%s",
          gram_message(g));
    for (int64_t i = 0; i < MANY; i++)
        wrong += l.indices[i] != l.place[i] || l.out[i] != 0;
    CHECK(h, wrong == 0, "%lld of the nearest are wrong", (long long)wrong);
    kernel.function = GRAM_IDENTITY, kernel.p = gram_number(1);
    values = vector(&out), indices = vector(&indices), wrong = 0;
    CHECK(h,
          gram_kernel_reduce(g, &x, &y, &kernel, GRAM_REDUCE_MAX, NULL, NULL, &values, &indices) ==
              GRAM_OK,
          "%s", gram_message(g));
    for (int64_t i = 0; i < MANY; i++) {
        const int64_t above = MANY - 1 - i, farthest = i > above ? 0 : MANY - 1;
        wrong += l.out[i] != (double)(i > above ? i : above) ||
                 (i != above && l.indices[i] != l.place[farthest]);
    }
    CHECK(h, wrong == 0, "%lld of the farthest are wrong", (long long)wrong);
    gram_context_destroy(g);
    free(l.x), free(l.indices);
}

static const struct test_function tests[] = {
    {   "cancelled_before_it_begins",    cancelled_before_it_begins},
    {      "cancelled_in_the_middle",       cancelled_in_the_middle},
    {          "progress_of_nearest",           progress_of_nearest},
    {"more_pairs_than_32_bits_count", more_pairs_than_32_bits_count},
};

int main(void)
{
    /* A GPU queues its work, which only the first can see. */
    const bool gpu = test_asked_device().type == GRAM_CUDA;

    return harness_run_tests(tests, gpu ? 1 : LENGTH(tests));
}
