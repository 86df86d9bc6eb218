/*
 * test_cuda_launches.c - batches of small items are no loops of launches
 *
 * Each operation of the backend's table is captured in a CUDA graph, which is never run, with 3,
 * 300 and 100,000 items: the number of the graph's nodes must be the same, unless the row says why
 * it cannot be.  The driver refuses grids that are too large when they are queued.  What has no
 * batch, or goes through it one by one, is named with its reason; an operation that is neither
 * called nor named fails the test.
 *
 * Rounds of scratch are no loops of launches: where all items together need more than a few hundred
 * MiB, each round has as many of them as fit, and the tiny ones of this test are one round.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "core/backend.h"
#include "launch_calls.h"
#include <stddef.h>
#include <stdlib.h>

enum {
    PIECE = 1 << 15, /* items of one of PIECES */
};

static const int64_t counts[] = {3, 300, 100000};
static const size_t pool_bytes = (size_t)96 << 20;
static void *stream;

/* ---- The table ------------------------------------------------------------------------------- */

#define SLOT(member) offsetof(struct gram_backend, member)

/* What else grows with the batch than the work of a launch. */
enum growth {
    NOTHING,
    PIECES, /* a launch has 2^15 items: as many as a call of cuBLAS takes, or, with the options of
               solves, about as many as 1 GiB of scratch has room for */
    SUM,    /* what many items add to one sum is added up by one more launch */
};

/* A way to call the operation of a slot of the table. */
static const struct row {
    const char *name;
    size_t slot;
    gram_status (*make)(struct launch_call *c);
    enum growth growth;
} rows[] = {
    {                            "cdist",             SLOT(cdist),                     launch_cdist,NOTHING                                                                                                    },
    {          "kernel of few long rows",             SLOT(cdist),       launch_kernel_of_long_rows, NOTHING},
    {                           "median",            SLOT(median),                    launch_median, NOTHING},
    {               "median of a sample",            SLOT(median),         launch_median_of_samples, NOTHING},
    {                          "nearest",           SLOT(nearest),                   launch_nearest, NOTHING},
    {                    "kernel_reduce",     SLOT(kernel_reduce),             launch_kernel_reduce, NOTHING},
    {                "kernel_reduce_vjp", SLOT(kernel_reduce_vjp),         launch_kernel_reduce_vjp, NOTHING},
    {                    "kernel_matmul",     SLOT(kernel_matmul),             launch_kernel_matmul,  PIECES},
    {  "kernel_matmul of one set, added",     SLOT(kernel_matmul),   launch_kernel_matmul_symmetric,
     PIECES                                                                                                 },
    {                       "kernel_vjp",        SLOT(kernel_vjp),                launch_kernel_vjp, NOTHING},
    {             "kernel_vjp, Gaussian",        SLOT(kernel_vjp),       launch_kernel_vjp_gaussian, NOTHING},
    {               "kernel_vjp, cosine",        SLOT(kernel_vjp),         launch_kernel_vjp_cosine, NOTHING},
    {                "kernel_matmul_vjp", SLOT(kernel_matmul_vjp),         launch_kernel_matmul_vjp,  PIECES},
    {                "points by lengths",    SLOT(lengths_divide),        launch_kernel_vjp_lengths, NOTHING},
    {             "gradients of lengths",      SLOT(lengths_grad),        launch_kernel_vjp_lengths, NOTHING},
    {                       "cdist_grad",        SLOT(cdist_grad),                launch_cdist_grad, NOTHING},
    {                             "agop",              SLOT(agop),                      launch_agop, NOTHING},
    {                   "agop, diagonal",              SLOT(agop),             launch_agop_diagonal, NOTHING},
    {                   "solve_cholesky",    SLOT(solve_cholesky),            launch_solve_cholesky, NOTHING},
    {"solve_cholesky with jitter, rcond",    SLOT(solve_cholesky),     launch_solve_cholesky_jitter,
     PIECES                                                                                                 },
    {                         "solve_lu",          SLOT(solve_lu),                  launch_solve_lu, NOTHING},
    {                   "matmul_batched",    SLOT(matmul_batched),            launch_matmul_batched,  PIECES},
    {  "matmul_batched, alpha an item's",    SLOT(matmul_batched), launch_matmul_batched_of_numbers,
     PIECES                                                                                                 },
    {                   "matmul_chunked",    SLOT(matmul_chunked),            launch_matmul_chunked,  PIECES},
    {                         "syrk_ema",          SLOT(syrk_ema),                  launch_syrk_ema,  PIECES},
    {                 "natural_gradient",  SLOT(natural_gradient),          launch_natural_gradient,  PIECES},
    {                             "eigh",              SLOT(eigh),                      launch_eigh, NOTHING},
    {                "eigh, closed form",              SLOT(eigh),          launch_eigh_closed_form, NOTHING},
    {                    "eigh, largest",              SLOT(eigh),              launch_eigh_largest, NOTHING},
    {               "matrix_power, eigh",      SLOT(matrix_power),         launch_matrix_power_eigh,  PIECES},
    {            "matrix_power, minimax",      SLOT(matrix_power),      launch_matrix_power_minimax,  PIECES},
    {     "matrix_power, coupled Newton",      SLOT(matrix_power),       launch_matrix_power_newton,  PIECES},
    {                             "kron",              SLOT(kron),                      launch_kron, NOTHING},
    {                    "kron_diagonal",              SLOT(kron),             launch_kron_diagonal, NOTHING},
    {                      "kron_matmul",       SLOT(kron_matmul),               launch_kron_matmul, NOTHING},
    {       "kron_matmul of one product",       SLOT(kron_matmul),        launch_kron_matmul_shared, NOTHING},
    {                  "kron_matmul_vjp",   SLOT(kron_matmul_vjp),           launch_kron_matmul_vjp, NOTHING},
    {   "kron_matmul_vjp of one product",   SLOT(kron_matmul_vjp),    launch_kron_matmul_vjp_shared,     SUM},
    {                       "kron_trace",        SLOT(kron_trace),                launch_kron_trace, NOTHING},
    {                      "kron_logdet",       SLOT(kron_logdet),               launch_kron_logdet, NOTHING},
    {                   "kron_solve, LU",        SLOT(kron_solve),             launch_kron_solve_lu, NOTHING},
    {             "kron_solve, Cholesky",        SLOT(kron_solve),       launch_kron_solve_cholesky, NOTHING},
    {         "kron_solve, eigenvectors",        SLOT(kron_solve),          launch_kron_solve_eigen, NOTHING},
    {                      "sample_grad",       SLOT(sample_grad),               launch_sample_grad, NOTHING},
    {                "sample_grad, sums",       SLOT(sample_grad),          launch_sample_grad_sums,     SUM},
    {                     "kfac_factors",      SLOT(kfac_factors),              launch_kfac_factors, NOTHING},
};

/* Operations that no row calls, and why that must be so. */
static const struct named {
    size_t slot;
    const char *why;
} named[] = {
    {     SLOT(kron_move),        "pieces of a product of several processes, no batch of items"},
    {SLOT(optimizer_step), "a list of parameters, which become batches of matrices of one size"},
    {      SLOT(krr_path),                                    "not offered by a GPU, no launch"},
    {     SLOT(kfac_pass),                                      "one layer, which has no batch"},
};

static const struct operation {
    const char *name;
    size_t slot;
} operations[] = {
#define GRAM_OP(name, op, devices) {#name, SLOT(name)},
#include "core/ops.def"
};

/* ---- Tests ----------------------------------------------------------------------------------- */

static bool run(void *call)
{
    struct launch_call *c = call;

    c->used = 0;
    c->used_bytes = 0;
    return c->make(c) == GRAM_OK && c->used <= LAUNCH_TENSORS && c->used_bytes <= pool_bytes;
}

static void check_row(struct harness *h, const struct row *row, struct launch_call *c)
{
    int64_t launches[LENGTH(counts)], most;

    h->where = row->name;
    h->printed = 0;
    c->make = row->make;
    c->items = counts[0];
    /* Outside of a capture first, so that the libraries are open. */
    if (!CHECK(h, run(c), "%s", gram_message(c->g)) ||
        !CHECK(h, gram_context_synchronize(c->g) == GRAM_OK, "%s", gram_message(c->g)))
        return;
    for (int i = 0; i < LENGTH(counts); i++) {
        c->items = counts[i];
        launches[i] = device_count(stream, run, c);
        CHECK(h, launches[i] > 0, "%lld items: %s", (long long)counts[i], gram_message(c->g));
        most = row->growth == PIECES ? launches[0] * gram_ceil_div(counts[i], PIECE)
                                     : launches[0] + (row->growth == SUM);
        CHECK(h, launches[i] <= most, "%lld launches for %lld items, %lld for %lld",
              (long long)launches[i], (long long)counts[i], (long long)launches[0],
              (long long)counts[0]);
    }
}

static void batches_are_no_loops_of_launches(struct harness *h)
{
    struct launch_call c = {.pool = device_allocate(pool_bytes)};

    if (!CHECK(h, c.pool, "no memory"))
        return;
    for (int i = 0; i < LENGTH(rows); i++) {
        c.g = test_cuda_context(h, stream); /* the last one's scratch belongs to its graphs */
        if (c.g)
            check_row(h, &rows[i], &c);
        gram_context_destroy(c.g);
    }
    device_release(c.pool);
}

static bool is_there(size_t slot)
{
    for (int i = 0; i < LENGTH(rows); i++)
        if (rows[i].slot == slot)
            return true;
    for (int i = 0; i < LENGTH(named); i++)
        if (named[i].slot == slot)
            return true;
    return false;
}

static void no_operation_is_forgotten(struct harness *h)
{
    for (int i = 0; i < LENGTH(operations); i++)
        CHECK(h, is_there(operations[i].slot), "%s is in neither table", operations[i].name);
}

static const struct test_function tests[] = {
    {"batches_are_no_loops_of_launches", batches_are_no_loops_of_launches},
    {       "no_operation_is_forgotten",        no_operation_is_forgotten},
};

int main(void)
{
    /* Of the emulation: solves with more than one factorisation have tiles of all items. */
    if (setenv("GRAM_FAKE_CUDA_MEMORY", "4096", 0) != 0)
        return 1;
    stream = device_stream_or_skip();
    return stream ? harness_run_tests(tests, LENGTH(tests)) : 77;
}
