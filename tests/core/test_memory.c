/*
 * test_memory.c - no operation makes a hidden copy: peak memory against inputs, outputs, workspace
 *
 * Each operation runs in a child of its own, whose threads, BLAS and tensors are in memory already.
 * What the process then holds at most may grow by the workspace that the query names and little
 * else, and that workspace may not be as large as the copy that nobody wants.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "peak.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
static const bool sanitized = true; /* which has a memory of its own */
#else
static const bool sanitized = false;
#endif

enum {
    MB = 1 << 20,
    SLACK = 3 * MB, /* stacks of threads, BLAS's odds and ends */
    M = 3000,
    N = 2800,
    K = 60,
};

struct problem {
    struct test_tensor in[4], out[2];
    int ins, outs;
    gram_kernel_options kernel;
    gram_solve_options solve;
};

static void input(struct harness *h, struct problem *p, int64_t rows, int64_t cols)
{
    struct test_tensor *t = &p->in[p->ins++];

    test_tensor_create(h, t, GRAM_F32, ROW_MAJOR, 2, (int64_t[]){rows, cols});
    test_fill_uniform(h, t, 0, 1);
}

static void output(struct harness *h, struct problem *p, int ndim, const int64_t *shape)
{
    test_tensor_create(h, &p->out[p->outs++], GRAM_F32, ROW_MAJOR, ndim, shape);
}

/* ---- The operations ----------------------------------------------------------------------- */

static void prepare_pairs(struct harness *h, struct problem *p)
{
    input(h, p, M, K);
    input(h, p, N, K);
    output(h, p, 2, (int64_t[]){M, N});
    p->kernel = gram_lpq_laplace(1.3, 0.9, 2);
}

static gram_status run_cdist(gram_context *g, struct problem *p, gram_workspace *need)
{
    if (need)
        return gram_cdist_workspace(g, &p->in[0].t, &p->in[1].t, gram_number(2), NULL, &p->out[0].t,
                                    need);
    return gram_cdist(g, &p->in[0].t, &p->in[1].t, gram_number(2), NULL, &p->out[0].t);
}

static gram_status run_kernel(gram_context *g, struct problem *p, gram_workspace *need)
{
    if (need)
        return gram_kernel_workspace(g, &p->in[0].t, &p->in[1].t, &p->kernel, &p->out[0].t, need);
    return gram_kernel(g, &p->in[0].t, &p->in[1].t, &p->kernel, &p->out[0].t);
}

static void prepare_symmetric(struct harness *h, struct problem *p)
{
    input(h, p, M, K);
    output(h, p, 2, (int64_t[]){M, M});
}

static gram_status run_symmetric(gram_context *g, struct problem *p, gram_workspace *need)
{
    if (need)
        return gram_cdist_workspace(g, &p->in[0].t, NULL, gram_number(1.3), NULL, &p->out[0].t,
                                    need);
    return gram_cdist(g, &p->in[0].t, NULL, gram_number(1.3), NULL, &p->out[0].t);
}

static void prepare_vjp(struct harness *h, struct problem *p)
{
    input(h, p, M, K);
    input(h, p, N, K);
    input(h, p, M, N);
    output(h, p, 2, (int64_t[]){M, K});
    output(h, p, 2, (int64_t[]){N, K});
    p->kernel = gram_lpq_laplace(1, 1, 2);
}

static gram_status run_vjp(gram_context *g, struct problem *p, gram_workspace *need)
{
    gram_kernel_grads grads = {.x = &p->out[0].t, .y = &p->out[1].t};

    if (need)
        return gram_kernel_vjp_workspace(g, &p->in[0].t, &p->in[1].t, &p->kernel, &p->in[2].t,
                                         &grads, need);
    return gram_kernel_vjp(g, &p->in[0].t, &p->in[1].t, &p->kernel, &p->in[2].t, &grads);
}

static void prepare_matmul_vjp(struct harness *h, struct problem *p)
{
    input(h, p, M, K);
    input(h, p, N, K);
    input(h, p, N, 8);
    input(h, p, M, 8);
    output(h, p, 2, (int64_t[]){M, K});
    output(h, p, 2, (int64_t[]){N, K});
    p->kernel = gram_lpq_laplace(1, 1, 2);
}

static gram_status run_matmul_vjp(gram_context *g, struct problem *p, gram_workspace *need)
{
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;
    const gram_tensor *x = &p->in[0].t, *y = &p->in[1].t, *v = &p->in[2].t, *grad = &p->in[3].t;

    grads.x = &p->out[0].t, grads.y = &p->out[1].t;
    if (need)
        return gram_kernel_matmul_vjp_workspace(g, x, y, &p->kernel, v, grad, &grads, need);
    return gram_kernel_matmul_vjp(g, x, y, &p->kernel, v, grad, &grads);
}

static gram_status run_reduce_vjp(gram_context *g, struct problem *p, gram_workspace *need)
{
    gram_kernel_reduce_grads grads = GRAM_KERNEL_REDUCE_GRADS_INIT;
    const gram_tensor *x = &p->in[0].t, *y = &p->in[1].t, *v = &p->in[2].t, *grad = &p->in[3].t;

    grads.x = &p->out[0].t, grads.y = &p->out[1].t;
    if (need)
        return gram_kernel_reduce_vjp_workspace(g, x, y, &p->kernel, GRAM_REDUCE_SOFTMAX, v, NULL,
                                                grad, &grads, need);
    return gram_kernel_reduce_vjp(g, x, y, &p->kernel, GRAM_REDUCE_SOFTMAX, v, NULL, grad, &grads);
}

static void prepare_matmul(struct harness *h, struct problem *p)
{
    input(h, p, M, K);
    input(h, p, N, K);
    input(h, p, N, 8);
    output(h, p, 2, (int64_t[]){M, 8});
    p->kernel = gram_lpq_laplace(1, 1, 2);
}

static gram_status run_matmul(gram_context *g, struct problem *p, gram_workspace *need)
{
    if (need)
        return gram_kernel_matmul_workspace(g, &p->in[0].t, &p->in[1].t, &p->kernel, &p->in[2].t,
                                            NULL, &p->out[0].t, need);
    return gram_kernel_matmul(g, &p->in[0].t, &p->in[1].t, &p->kernel, &p->in[2].t, NULL,
                              &p->out[0].t);
}

/* a[K, M] is N by M here: the large one. */
static void prepare_grad(struct harness *h, struct problem *p)
{
    input(h, p, N, M);
    input(h, p, K, N);
    input(h, p, 10, N);
    input(h, p, K, M);
    output(h, p, 3, (int64_t[]){10, K, M});
}

static gram_status run_grad(gram_context *g, struct problem *p, gram_workspace *need)
{
    const gram_tensor *a = &p->in[0].t, *b = &p->in[1].t, *c = &p->in[2].t, *d = &p->in[3].t;

    if (need)
        return gram_cdist_grad_workspace(g, a, b, c, d, gram_number(1), &p->out[0].t, need);
    return gram_cdist_grad(g, a, b, c, d, gram_number(1), &p->out[0].t);
}

static void prepare_agop(struct harness *h, struct problem *p)
{
    input(h, p, N, 2 * M);
    input(h, p, 2 * K, N);
    input(h, p, 26, N);
    input(h, p, 2 * K, 2 * M);
    output(h, p, 2, (int64_t[]){2 * K, 2 * K});
}

static gram_status run_agop(gram_context *g, struct problem *p, gram_workspace *need)
{
    const gram_tensor *a = &p->in[0].t, *b = &p->in[1].t, *c = &p->in[2].t, *d = &p->in[3].t;

    if (need)
        return gram_agop_workspace(g, a, b, c, d, gram_number(1), NULL, &p->out[0].t, need);
    return gram_agop(g, a, b, c, d, gram_number(1), NULL, &p->out[0].t);
}

static void prepare_in_place(struct harness *h, struct problem *p)
{
    input(h, p, N, N);
    input(h, p, N, 8);
    for (int64_t i = 0; i < N; i++)
        test_set(&p->in[0].t, (int64_t[]){i, i}, N);
    p->solve = (gram_solve_options)GRAM_SOLVE_OPTIONS_INIT;
    p->solve.factor = &p->in[0].t;
}

static gram_status run_cholesky(gram_context *g, struct problem *p, gram_workspace *need)
{
    gram_tensor *a = &p->in[0].t, *b = &p->in[1].t;

    if (need)
        return gram_solve_cholesky_workspace(g, a, b, &p->solve, b, need);
    return gram_solve_cholesky(g, a, b, &p->solve, b, NULL);
}

static gram_status run_lu(gram_context *g, struct problem *p, gram_workspace *need)
{
    static int32_t pivots[N];
    gram_tensor *a = &p->in[0].t, *b = &p->in[1].t, t = gram_vector(pivots, N, GRAM_I32);

    p->solve.pivots = &t;
    if (need)
        return gram_solve_lu_workspace(g, a, b, &p->solve, b, need);
    return gram_solve_lu(g, a, b, &p->solve, b, NULL);
}

static void prepare_solve(struct harness *h, struct problem *p)
{
    prepare_in_place(h, p);
    p->solve.factor = NULL;
}

static const struct row {
    const char *name;
    void (*prepare)(struct harness *h, struct problem *p);
    gram_status (*run)(gram_context *g, struct problem *p, gram_workspace *need);
    int64_t most; /* of workspace */
} rows[] = {
    {                  "cdist",      prepare_pairs,      run_cdist,            4 * MB},
    {         "cdist of x = y",  prepare_symmetric,  run_symmetric,            4 * MB},
    {                 "kernel",      prepare_pairs,     run_kernel,            4 * MB},
    {             "kernel_vjp",        prepare_vjp,        run_vjp,            6 * MB}, /* M N: 34 MB */
    {      "kernel_matmul_vjp", prepare_matmul_vjp, run_matmul_vjp,            8 * MB}, /* M N: 34 MB */
    {      "kernel_reduce_vjp", prepare_matmul_vjp, run_reduce_vjp,           14 * MB}, /* M N: 34 MB */
    {          "kernel_matmul",     prepare_matmul,     run_matmul,            6 * MB}, /* M N: 34 MB */
    {             "cdist_grad",       prepare_grad,       run_grad,            8 * MB}, /* a: 34 MB */
    {                   "agop",       prepare_agop,       run_agop,           24 * MB}, /* O N M: 75 MB */
    {"solve_cholesky in place",   prepare_in_place,   run_cholesky,            4 * MB},
    {      "solve_lu in place",   prepare_in_place,         run_lu,            4 * MB},
    {         "solve_cholesky",      prepare_solve,   run_cholesky, N *N * 4 + 4 * MB}, /* one copy */
    {               "solve_lu",      prepare_solve,         run_lu, N *N * 4 + 4 * MB},
};

/* BLAS makes its threads and fills its buffers at the first large product. */
static void warm_up(struct harness *h)
{
    enum {
        SIZE = 1800
    };
    static float a[SIZE * SIZE], x[SIZE * 8], out[SIZE * SIZE];
    gram_tensor ta = gram_matrix(a, SIZE, SIZE, GRAM_F32), tx = gram_matrix(x, SIZE, 8, GRAM_F32);
    gram_tensor to = gram_matrix(out, SIZE, SIZE, GRAM_F32);

    for (int i = 0; i < SIZE; i++)
        a[i * (SIZE + 1)] = 1;
    CHECK(h, gram_solve_cholesky(h->g, &ta, &tx, NULL, &tx, NULL) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, gram_solve_lu(h->g, &ta, &tx, NULL, &tx, NULL) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_cdist(h->g, &ta, NULL, gram_number(1), NULL, &to) == GRAM_OK, "%s",
          gram_message(h->g));
    /* an arena without what these needed */
    CHECK(h, gram_context_use_workspace(h->g, NULL, 0) == GRAM_OK, "%s", gram_message(h->g));
}

static void run_row(struct harness *h, const struct row *r)
{
    struct problem p = {.kernel = GRAM_KERNEL_OPTIONS_INIT};
    gram_workspace need = {0, 0};
    int64_t growth;

    warm_up(h);
    r->prepare(h, &p);
    CHECK(h, r->run(h->g, &p, &need) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, (int64_t)need.host_bytes <= r->most, "%zu bytes of workspace, at most %lld",
          need.host_bytes, (long long)r->most);
    if (sanitized || !peak_start()) {
        printf("SKIPPED: %s: the system does not tell the peak\n", r->name);
        return;
    }
    CHECK(h, r->run(h->g, &p, NULL) == GRAM_OK, "%s", gram_message(h->g));
    growth = peak_growth();
    CHECK(h, growth <= (int64_t)need.host_bytes + SLACK, "grew by %lld, workspace %zu",
          (long long)growth, need.host_bytes);
    printf("%-24s workspace %8.2f MB, peak grew by %8.2f MB\n", r->name,
           (double)need.host_bytes / MB, (double)growth / MB);
}

/* The peak of a large block must be seen, or nothing else here means anything. */
static bool sees_a_copy(void)
{
    size_t bytes = 40 * MB;
    char *memory;
    volatile char *block;

    if (sanitized || !peak_start())
        return sanitized;
    block = memory = malloc(bytes);
    for (size_t i = 0; block && i < bytes; i += 4096)
        block[i] = 1;
    free(memory);
    return peak_growth() > 39 * MB && peak_growth() < 42 * MB;
}

int main(void)
{
    const struct harness_options options = {.threads = 2};
    int failed = 0, status;

    for (int i = 0; i < LENGTH(rows); i++) {
        pid_t child = fork();
        if (child == 0) {
            struct harness h;
            if (!harness_open(&h, &options, NULL))
                _exit(2);
            h.where = rows[i].name;
            run_row(&h, &rows[i]);
            fflush(stdout);
            _exit(h.failures != 0);
        }
        failed += child < 0 || waitpid(child, &status, 0) != child || status != 0;
    }
    if (!sees_a_copy()) {
        fprintf(stderr, "a block of 40 MB was not seen\n");
        failed++;
    }
    printf("%d passed, %d failed\n", LENGTH(rows) + 1 - failed, failed);
    return failed != 0;
}
