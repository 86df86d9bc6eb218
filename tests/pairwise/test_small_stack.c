/*
 * test_small_stack.c - kernels with an expression from a thread whose stack is small: musl gives
 * 128 KiB, and programs with many threads give less
 *
 * The stack is painted before the call, so that it says how deep the call went.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "gram/gram.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAINT = 0xa5,
    STACK_BYTES = 256 << 10,
#if defined __SANITIZE_ADDRESS__ || !defined __OPTIMIZE__
    MOST_BYTES = STACK_BYTES, /* frames are larger there */
#else
    MOST_BYTES = 80 << 10,
#endif
    POINTS = 70,
    COORDINATES = 3,
    CALLS = 6,
    NOTHING = -1 /* of CALLS */
};

struct job {
    gram_context *g;
    const char *text;
    gram_dtype dtype;
    int which;
    gram_status status;
    double data[4][POINTS * POINTS];
};

static const char *const names[CALLS] = {
    "kernel", "weight", "kernel_matmul", "kernel_matmul_vjp", "kernel_reduce", "eigh_kernel",
};

static void *run(void *arg)
{
    struct job *j = arg;
    gram_tensor x = gram_matrix(j->data[0], POINTS, COORDINATES, j->dtype),
                v = gram_matrix(j->data[1], POINTS, 2, j->dtype),
                square = gram_matrix(j->data[2], POINTS, POINTS, j->dtype),
                to = gram_matrix(j->data[2], POINTS, COORDINATES, j->dtype),
                to_v = gram_matrix(j->data[3], POINTS, 2, j->dtype),
                row = {.data = j->data[2],
                       .dtype = j->dtype,
                       .ndim = 1,
                       .shape = {POINTS},
                       .stride = {1}};
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;
    gram_eigh_options eigh = GRAM_EIGH_OPTIONS_INIT;
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    o.function = GRAM_EXPRESSION, o.expression = j->text;
    o.p = gram_number(2), o.outer_power = gram_number(1);
    switch (j->which) {
    case NOTHING:
        break;
    case 0:
        j->status = gram_kernel(j->g, &x, NULL, &o, &square);
        break;
    case 1:
        o.output = GRAM_WEIGHT;
        j->status = gram_kernel(j->g, &x, NULL, &o, &square);
        break;
    case 2:
        j->status = gram_kernel_matmul(j->g, &x, NULL, &o, &v, NULL, &to_v);
        break;
    case 3:
        grads.x = &to, grads.v = &to_v;
        j->status = gram_kernel_matmul_vjp(j->g, &x, NULL, &o, &v, &v, &grads);
        break;
    case 4:
        j->status =
            gram_kernel_reduce(j->g, &x, NULL, &o, GRAM_REDUCE_LOGSUMEXP, NULL, NULL, &row, NULL);
        break;
    default:
        eigh.select = GRAM_EIGH_LARGEST, eigh.count = 2, row.shape[0] = 2;
        j->status = gram_eigh_kernel(j->g, &x, &o, &eigh, &row, NULL, NULL);
        break;
    }
    return NULL;
}

/* Bytes of the stack that a thread has used, -1: it could not be started. */
static long used(struct job *j, unsigned char *stack)
{
    pthread_attr_t attributes;
    pthread_t thread;
    long at = 0;

    memset(stack, PAINT, STACK_BYTES);
    if (pthread_attr_init(&attributes))
        return -1;
    if (pthread_attr_setstack(&attributes, stack, STACK_BYTES) ||
        pthread_create(&thread, &attributes, run, j))
        at = -1;
    else
        pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    while (at >= 0 && at < STACK_BYTES && stack[at] == PAINT)
        at++;
    return at < 0 ? -1 : STACK_BYTES - at;
}

/* An expression with one part or another as deep in brackets as it may be. */
static void write_text(char *text, size_t size, const char *part, int depth)
{
    size_t length = (size_t)snprintf(text, size, "exp(-s) + norm_x * norm_y");

    for (int i = 0; i < depth; i++)
        length += (size_t)snprintf(text + length, size - length, part, i);
    length += (size_t)snprintf(text + length, size - length, "s");
    for (int i = 0; i < depth; i++)
        length += (size_t)snprintf(text + length, size - length, ")");
}

static void fill(struct job *j)
{
    for (int e = 0; e < POINTS * COORDINATES; e++)
        if (j->dtype == GRAM_F32)
            ((float *)j->data[0])[e] = ((float *)j->data[1])[e] = sinf((float)e);
        else
            j->data[0][e] = j->data[1][e] = sin(e);
}

/* An expression took up to 260 KiB of stack: its programs, and its values. */
static void an_expression_in_a_thread_with_a_small_stack(struct harness *h)
{
    static char texts[3][4096];
    unsigned char *stack = aligned_alloc(4096, STACK_BYTES);
    struct job *j = calloc(1, sizeof *j);
    long none;

    write_text(texts[0], sizeof texts[0], " * (1 + ", 1);
    write_text(texts[1], sizeof texts[1], " + (cos(s + %d) - ", 50); /* values at once */
    write_text(texts[2], sizeof texts[2], " + (0 || s && 0 == s < 1 + s * ", 60);
    if (!CHECK(h, stack && j && gram_context_create(NULL, &j->g) == GRAM_OK, "no memory"))
        return;
    j->which = NOTHING;
    none = used(j, stack); /* with glibc also the static variables of threads: 60 KiB of OpenBLAS */
    for (int i = 0; i < 2 * LENGTH(texts) * CALLS; i++) {
        long bytes;
        j->which = i / 2 / LENGTH(texts), j->dtype = i & 1 ? GRAM_F32 : GRAM_F64;
        j->text = texts[i / 2 % LENGTH(texts)];
        fill(j);
        bytes = used(j, stack) - none;
        if (getenv("GRAM_TEST_STACK"))
            printf("%s %d: %ld bytes\n", names[j->which], i / 2 % LENGTH(texts), bytes);
        CHECK(h, j->status == GRAM_OK, "%s: %s", names[j->which], gram_message(j->g));
        CHECK(h, bytes >= 0 && bytes <= MOST_BYTES, "%s took %ld bytes of stack, at most %d",
              names[j->which], bytes, (int)MOST_BYTES);
    }
    gram_context_destroy(j->g);
    free(j), free(stack);
}

static const struct test_function tests[] = {
    {"an_expression_in_a_thread_with_a_small_stack", an_expression_in_a_thread_with_a_small_stack},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
