/*
 * test_cuda_graph.c - calls captured in a CUDA graph, which is replayed on other numbers
 *
 * The problems are those of `gram check`: made, sent, run once, captured; then an input changes
 * where the device has it, so that what stands in the outputs is wrong until the graph has run.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness_problem.h"
#include <stdlib.h>
#include <string.h>

static void *stream;

static bool run(void *arg)
{
    struct problem *p = ((void **)arg)[0];
    gram_context *g = ((void **)arg)[1];

    return p->made.run(g, p->made.state) == GRAM_OK;
}

/* Halves every number of the first input, here and there. */
static bool change_input(struct harness *h, struct problem *p)
{
    const gram_tensor *there = p->made.tensors[0], *here = &p->other[0];
    const size_t bytes = (size_t)test_count(here) * gram_dtype_size(here->dtype);

    for (int64_t i = 0; i < test_count(here); i++)
        test_put(here, i, test_at(here, i) / 2);
    return gram_memory_copy(h->g, there->data, here->data, bytes) == GRAM_OK &&
           gram_context_synchronize(h->g) == GRAM_OK;
}

static void replay(struct harness *h, const struct request *r)
{
    struct problem p;
    double stale, error;

    if (!CHECK(h, problem_open(h, r, &p) == HARNESS_RIGHT, "the problem cannot be made"))
        return;
    CHECK(h, problem_run(h, &p) == GRAM_OK, "%s", gram_message(h->g));
    error = problem_error(h, &p);
    CHECK(h, error <= 1, "error %g of its bound", error);
    CHECK(h, change_input(h, &p), "%s", gram_message(h->g));
    stale = problem_error(h, &p);
    CHECK(h, stale > 1, "the input did not matter: error %g of its bound", stale);
    CHECK(h, device_replay(stream, 2, run, (void *[]){&p, h->g}), "no graph: %s",
          gram_message(h->g));
    error = problem_error(h, &p);
    CHECK(h, error <= 1, "error %g of its bound after a replay", error);
    problem_close(h, &p);
}

/* What `gram check` would be told. */
static const struct row {
    const char *op, *words;
} rows[] = {
    {       "cdist_grad",                                      "20 30 5 1 p=1"},
    {       "cdist_grad",                                    "20 30 5 3 p=1.3"},
    {       "cdist_grad",                                     "40 30 5 12 p=2"},
    {       "cdist_grad",                          "20 30 5 2 p=1.5 dtype=f64"},
    {             "agop",                                      "20 30 5 1 p=1"},
    {             "agop",                         "20 30 5 3 p=1.3 diagonal=1"},
    {             "agop",                           "40 30 5 12 p=2 dtype=f64"},
    {       "kernel_vjp",                                        "30 20 4 p=1"},
    {"kernel_matmul_vjp",                                      "30 20 4 3 p=1"},
    {       "kernel_vjp",                                "30 20 4 p=1.3 q=0.9"},
    {       "kernel_vjp",                              "30 20 4 p=2 dtype=f64"},
    {             "eigh",                                               "40 3"},
    {             "eigh",                                     "5 20 dtype=f64"},
    {             "eigh",                                               "2 40"},
    {             "eigh",                            "1 50 k=5 driver=batched"},
    {           "median",                                           "60 5 p=1"},
    {           "median",                                 "300 5 p=2 rows=100"},
    {           "median",                               "60 5 p=1.3 dtype=f64"},
    {          "nearest",                                          "30 70 4 5"},
    {    "kernel_reduce",                                          "30 70 4 3"},
    {"kernel_reduce_vjp",                                          "30 70 4 3"},
    {          "nearest",      "40 0 4 3 symmetric=1 exclude_self=1 dtype=f64"},
    {    "kernel_matmul",                                          "30 40 4 3"},
    {    "kernel_matmul",                               "30 40 60 3 p=2 q=0.5"},
    {    "kernel_matmul",                          "1100 1100 2 1 symmetric=1"},
    {    "kernel_matmul",                    "50 50 4 2 symmetric=1 dtype=f64"},
    {      "kron_matmul",                                 "30 8 8 3 dtype=f64"},
    {   "solve_cholesky",                              "70 3 jitter=1 rcond=1"},
    {   "solve_cholesky",                   "70 3 dtype=f64 refine=1 jitter=1"},
    {   "solve_cholesky",                             "520 2 jitter=1 rcond=1"},
    {         "solve_lu",                                       "70 3 rcond=1"},
    {         "solve_lu",                    "70 3 dtype=f64 refine=1 rcond=1"},
    {         "solve_lu",                           "520 2 dtype=f64 refine=1"},
    {      "kron_matmul",                                "9 40 30 2 side=left"},
    {      "kron_matmul",                                          "3 64 64 2"},
    {      "kron_matmul",                               "2 128 64 2 dtype=f64"},
    {  "kron_matmul_vjp",                                           "30 3 8 4"},
    {  "kron_matmul_vjp",                      "9 2 40 30 dtype=f64 side=left"},
    {       "kron_solve",                                   "5 2 20 method=lu"},
    {       "kron_solve",                   "5 2 70 method=cholesky dtype=f64"},
    {       "kron_solve",                      "3 2 40 method=eigen dtype=f64"},
    {   "matmul_batched",                                         "20 30 10 3"},
    {   "matmul_batched",                               "20 30 10 3 dtype=f64"},
    {         "syrk_ema",                                            "20 10 3"},
    {         "syrk_ema",                                  "20 10 3 dtype=f64"},
    {      "sample_grad",                                         "3 20 30 40"},
    {      "sample_grad",                               "3 70 30 40 dtype=f64"},
    {     "matrix_power",                  "40 2 method=minimax condition=100"},
    {     "matrix_power", "40 2 method=coupled_newton condition=100 dtype=f64"},
    {     "matrix_power",            "40 2 method=newton_schulz condition=100"},
    {     "matrix_power",                                 "40 2 condition=100"},
    {            "cdist",                                     "150 140 40 p=1"},
    {            "cdist",                           "150 140 40 p=2 dtype=f64"},
};

static void one(struct harness *h, const struct row *row)
{
    char text[128], *words[HARNESS_MAX_SIZES], *rest = NULL;
    struct request request;
    int count = 0;

    snprintf(text, sizeof text, "%s", row->words);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    if (CHECK(h, request_parse(&request, harness_find(row->op), count, words) == HARNESS_RIGHT,
              "%s %s", row->op, row->words))
        replay(h, &request);
}

static void all_of(struct harness *h, const char *op)
{
    struct harness there = *h;

    there.device.type = GRAM_CUDA;
    there.g = test_cuda_context(h, stream);
    if (!there.g)
        return;
    for (int i = 0; i < LENGTH(rows); i++)
        if (strcmp(rows[i].op, op) == 0)
            one(&there, &rows[i]);
    h->checks = there.checks, h->failures = there.failures;
    gram_context_destroy(there.g);
}

/* As large problems are computed: with panels, and by tensor cores. */
static void cdist(struct harness *h)
{
    if (!CHECK(h, setenv("GRAM_CDIST_FORM", "expansion", 1) == 0, "the environment"))
        return;
    all_of(h, "cdist");
    unsetenv("GRAM_CDIST_FORM");
}

static void cdist_grad(struct harness *h)
{
    all_of(h, "cdist_grad");
}

static void agop(struct harness *h)
{
    all_of(h, "agop");
}

static void kernel_vjp(struct harness *h)
{
    all_of(h, "kernel_vjp");
}

static void kernel_matmul_vjp(struct harness *h)
{
    all_of(h, "kernel_matmul_vjp");
}

/* XsyevBatched and the kernels of small matrices; what cannot be captured is in test_device.c. */
static void eigh(struct harness *h)
{
    all_of(h, "eigh");
}

static void kernel_matmul(struct harness *h)
{
    all_of(h, "kernel_matmul");
}

/* What test_device.c does not have: rcond, jitter and refine. */
static void solve_cholesky(struct harness *h)
{
    all_of(h, "solve_cholesky");
}

static void solve_lu(struct harness *h)
{
    all_of(h, "solve_lu");
}

static void median(struct harness *h)
{
    all_of(h, "median");
}

static void kernel_reduce(struct harness *h)
{
    all_of(h, "kernel_reduce");
}

static void kernel_reduce_vjp(struct harness *h)
{
    all_of(h, "kernel_reduce_vjp");
}

static void nearest(struct harness *h)
{
    all_of(h, "nearest");
}

static void matmul_batched(struct harness *h)
{
    all_of(h, "matmul_batched");
}

static void syrk_ema(struct harness *h)
{
    all_of(h, "syrk_ema");
}

static void sample_grad(struct harness *h)
{
    all_of(h, "sample_grad");
}

static void matrix_power(struct harness *h)
{
    all_of(h, "matrix_power");
}

static void kron_matmul(struct harness *h)
{
    all_of(h, "kron_matmul");
}

static void kron_matmul_vjp(struct harness *h)
{
    all_of(h, "kron_matmul_vjp");
}

static void kron_solve(struct harness *h)
{
    all_of(h, "kron_solve");
}

static const struct test_function tests[] = {
    {       "cdist_grad",        cdist_grad},
    {             "agop",              agop},
    {       "kernel_vjp",        kernel_vjp},
    {"kernel_matmul_vjp", kernel_matmul_vjp},
    {    "kernel_matmul",     kernel_matmul},
    {             "eigh",              eigh},
    {           "median",            median},
    {          "nearest",           nearest},
    {    "kernel_reduce",     kernel_reduce},
    {"kernel_reduce_vjp", kernel_reduce_vjp},
    {      "kron_matmul",       kron_matmul},
    {   "solve_cholesky",    solve_cholesky},
    {         "solve_lu",          solve_lu},
    {  "kron_matmul_vjp",   kron_matmul_vjp},
    {       "kron_solve",        kron_solve},
    {   "matmul_batched",    matmul_batched},
    {         "syrk_ema",          syrk_ema},
    {      "sample_grad",       sample_grad},
    {     "matrix_power",      matrix_power},
    {            "cdist",             cdist},
};

int main(void)
{
    stream = device_stream_or_skip();
    return stream ? harness_run_tests(tests, LENGTH(tests)) : 77;
}
