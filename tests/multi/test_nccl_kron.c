/*
 * test_nccl_kron.c - gram_kron_matmul_multi over NCCL: against one process, and where a rank fails
 *
 * With as many ranks as there are GPUs, and fewer; the emulation has three.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "multi/communicator.h"
#include "nccl_team.h"
#include "tests/core/failing_alloc.h"
#include <stdlib.h>
#include <string.h>

/* ---- Tests ---------------------------------------------------------------------------------- */

static void parts_make_the_whole(struct harness *h)
{
    for (int ranks = 1; ranks <= nccl_gpus(h); ranks++) {
        struct nccl_team t;
        nccl_begin(h, &t, ranks);
        for (int row = 0; row < KRON_PARTS_ROWS; row++)
            for (int split = 0; split < 2; split++) {
                char name[64];
                snprintf(name, sizeof name, "row %d by %s, %d ranks", row,
                         split ? "columns" : "rows", ranks);
                h->where = name;
                nccl_set(h, &t, &kron_parts_table[row], row, (gram_kron_split)split);
                nccl_all_succeed(h, &t);
            }
        nccl_end(&t);
    }
}

/* One byte less is refused everywhere. */
static void scratch_is_told_exactly(struct harness *h)
{
    for (int less = 0; less < 2; less++) {
        gram_workspace need[NCCL_MOST] = {{.device_bytes = 0}};
        void *memory[NCCL_MOST] = {NULL};
        struct nccl_team t;
        nccl_begin(h, &t, nccl_gpus(h));
        nccl_set(h, &t, &kron_parts_square, 0, GRAM_KRON_SPLIT_COLUMNS);
        for (int i = 0; i < t.ranks; i++) {
            struct nccl_rank *r = &t.rank[i];
            CHECK(h,
                  gram_kron_matmul_multi_workspace(r->g, &r->p.my_x, r->factors, 3, &r->p.options,
                                                   &r->p.my_y, &need[i]) == GRAM_OK &&
                      gram_memory_allocate(r->g, need[i].device_bytes, &memory[i]) == GRAM_OK &&
                      gram_context_use_workspace(
                          r->g, memory[i], need[i].device_bytes - (i == 0 && less)) == GRAM_OK,
                  "%s", gram_message(r->g));
        }
        if (less)
            nccl_all_refuse(h, &t, GRAM_OUT_OF_MEMORY, "the given workspace",
                            "rank 0 failed with GRAM_");
        else
            nccl_all_succeed(h, &t);
        for (int i = 0; i < t.ranks; i++) {
            CHECK(h, gram_context_use_workspace(t.rank[i].g, NULL, 0) == GRAM_OK, "%s",
                  gram_message(t.rank[i].g));
            gram_memory_free(t.rank[i].g, memory[i], need[i].device_bytes);
        }
        nccl_end(&t);
    }
}

static void a_bad_argument_of_one_rank_ends_all(struct harness *h)
{
    struct nccl_team t;

    nccl_begin(h, &t, nccl_gpus(h));
    for (int split = 0; split < 2; split++) {
        nccl_set(h, &t, &kron_parts_square, 0, (gram_kron_split)split);
        t.rank[0].p.my_x.shape[1]++;
        nccl_all_refuse(h, &t, GRAM_INVALID_ARGUMENT, "x has", "rank 0 failed with GRAM_INVALID");
    }
    if (t.ranks > 1) {
        nccl_set(h, &t, &kron_parts_square, 0, GRAM_KRON_SPLIT_COLUMNS);
        t.rank[0].p.my_x.data = t.rank[1].p.my_x.data;
        nccl_all_refuse(h, &t, GRAM_INVALID_ARGUMENT, "x is in the memory of CUDA device 1",
                        "rank 0 failed with GRAM_INVALID");
        nccl_set(h, &t, &kron_parts_square, 0, GRAM_KRON_SPLIT_COLUMNS);
        t.rank[0].p.options.alpha.value = 2;
        nccl_all_refuse(h, &t, GRAM_INVALID_ARGUMENT, "the ranks disagree: options.alpha",
                        "the ranks disagree: options.alpha");
    }
    nccl_set(h, &t, &kron_parts_square, 0, GRAM_KRON_SPLIT_COLUMNS);
    nccl_all_succeed(h, &t);
    nccl_end(&t);
}

/* The backend of rank 0, whose product number fails_at fails; one that is measured is none. */
static int products, fails_at;
static const struct gram_backend *whole;

static gram_status failing_product(gram_context *g, const struct gram_kron_matmul_op *op)
{
    if (!g->measure && products++ == fails_at)
        return gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test");
    return whole->kron_matmul(g, op);
}

/* Before the first exchange: nothing was queued.  Before the second: it is given up. */
static void a_rank_that_fails_in_the_middle_ends_all(struct harness *h)
{
    struct nccl_team t;

    nccl_begin(h, &t, nccl_gpus(h));
    for (fails_at = 0; fails_at < 2; fails_at++) {
        struct gram_backend broken = *t.rank[0].g->backend;
        whole = t.rank[0].g->backend;
        broken.kron_matmul = failing_product;
        products = 0;
        nccl_set(h, &t, &kron_parts_square, 0, GRAM_KRON_SPLIT_COLUMNS);
        t.rank[0].g->backend = &broken;
        nccl_all_refuse(h, &t, GRAM_DEVICE_FAILED, "broken for the test",
                        "rank 0 failed with GRAM_DEV");
        t.rank[0].g->backend = whole;
        if (fails_at > 0) {
            nccl_set(h, &t, &kron_parts_square, 0, GRAM_KRON_SPLIT_COLUMNS);
            nccl_all_refuse(h, &t, GRAM_DEVICE_FAILED, "cannot be used after a failure",
                            "cannot be used after a failure");
            nccl_disconnect(&t);
            nccl_connect(h, &t, NULL);
        }
        nccl_set(h, &t, &kron_parts_square, 0, GRAM_KRON_SPLIT_COLUMNS);
        nccl_all_succeed(h, &t);
    }
    nccl_end(&t);
}

static void a_rank_that_does_not_come_is_not_waited_for(struct harness *h)
{
    gram_nccl_options o = GRAM_NCCL_OPTIONS_INIT;
    char id[GRAM_NCCL_ID_BYTES];
    gram_communicator *c;
    struct nccl_team t;

    o.timeout = 0.3;
    nccl_begin(h, &t, nccl_gpus(h));
    CHECK(h, gram_nccl_id(t.rank[0].g, id, sizeof id) == GRAM_OK, "%s", gram_message(t.rank[0].g));
    CHECK(h,
          gram_communicator_create_nccl(t.rank[0].g, id, sizeof id, 0, 2, &o, &c) ==
                  GRAM_DEVICE_FAILED &&
              !c && strstr(gram_message(t.rank[0].g), "did not make the call within 0.3 s"),
          "%s", gram_message(t.rank[0].g));
    if (t.ranks > 1) {
        nccl_disconnect(&t);
        o.timeout = 5;
        nccl_connect(h, &t, &o);
        nccl_set(h, &t, &kron_parts_square, 0, GRAM_KRON_SPLIT_COLUMNS);
        nccl_run(&t.rank[0]);
        CHECK(h,
              t.rank[0].status == GRAM_DEVICE_FAILED &&
                  strstr(gram_message(t.rank[0].g), "did not make the call within 5 s"),
              "%s", gram_message(t.rank[0].g));
        nccl_drop(h, &t);
    }
    nccl_end(&t);
}

/* An exchange of one rank alone, as if the others had died after they agreed to it; what waits for
 * its stream goes on, and the next call fails.  way 0: by the timeout; 1: NCCL has noticed. */
static void expect_left(struct harness *h, struct nccl_rank *r, int way)
{
    size_t bytes[NCCL_MOST];
    char *memory = NULL;
    struct gram_exchange e = {.send_bytes = bytes, .receive_bytes = bytes};
    const int64_t start = gram_nanoseconds();
    double seconds;

    for (int i = 0; i < NCCL_MOST; i++)
        bytes[i] = 64;
    CHECK(h,
          gram_memory_allocate(r->g, sizeof bytes * 64, (void **)&memory) == GRAM_OK &&
              gram_context_synchronize(r->g) == GRAM_OK,
          "%s", gram_message(r->g));
    e.send = memory, e.receive = memory + NCCL_MOST * 64;
    CHECK(h, r->c->transport->exchange(r->g, r->c, &e) == GRAM_OK, "%s", gram_message(r->g));
    if (way == 1)
        CHECK(h, setenv("GRAM_FAKE_NCCL_ASYNC", "3", 1) == 0, "no memory");
    CHECK(h, gram_context_synchronize(r->g) == GRAM_OK, "%s", gram_message(r->g));
    seconds = (double)(gram_nanoseconds() - start) * 1e-9;
    CHECK(h, seconds < 5 && (way == 1 || seconds >= 0.3), "the stream was left after %g s",
          seconds);
    CHECK(h,
          r->c->transport->look(r->g, r->c) == GRAM_DEVICE_FAILED &&
              strstr(gram_message(r->g), way == 0 ? "did not finish an exchange within 0.3 s"
                                                  : "NCCL failed with error 3"),
          "%s", gram_message(r->g));
    unsetenv("GRAM_FAKE_NCCL_ASYNC");
    gram_memory_free(r->g, memory, sizeof bytes * 64);
}

static void a_rank_that_dies_in_an_exchange_is_left(struct harness *h)
{
    gram_nccl_options o = GRAM_NCCL_OPTIONS_INIT;
    const int ways = getenv("GRAM_TEST_EMULATED") ? 2 : 1;
    struct nccl_team t;

    o.timeout = 0.3;
    nccl_begin(h, &t, nccl_gpus(h));
    CHECK(h, setenv("GRAM_FAKE_NCCL_PATIENCE", "20000", 1) == 0, "no memory");
    for (int way = 0; t.ranks > 1 && way < ways; way++) {
        nccl_disconnect(&t);
        nccl_connect(h, &t, &o);
        expect_left(h, &t.rank[0], way);
    }
    unsetenv("GRAM_FAKE_NCCL_PATIENCE");
    nccl_end(&t);
}

/* Errors that the fake NCCL gives. */
static void what_nccl_reports(struct harness *h)
{
    struct nccl_team t;
    gram_communicator *c;
    gram_context *g;

    nccl_begin(h, &t, nccl_gpus(h));
    g = t.rank[0].g;
    nccl_set(h, &t, &kron_parts_square, 0, GRAM_KRON_SPLIT_COLUMNS);
    CHECK(h, setenv("GRAM_FAKE_NCCL_ASYNC", "3", 1) == 0, "no memory");
    nccl_all_refuse(h, &t, GRAM_DEVICE_FAILED, "NCCL failed with error 3",
                    "rank 0 failed with GRAM_DEV");
    unsetenv("GRAM_FAKE_NCCL_ASYNC");
    nccl_set(h, &t, &kron_parts_square, 0, GRAM_KRON_SPLIT_COLUMNS);
    CHECK(h, setenv("GRAM_FAKE_NCCL_SEND", "1", 1) == 0, "no memory");
    if (t.ranks > 1)
        nccl_all_refuse(h, &t, GRAM_DEVICE_FAILED,
                        "ncclRecv failed with error 1, unhandled cuda error",
                        "rank 0 failed with GRAM_DEV");
    else
        nccl_drop(h, &t);
    unsetenv("GRAM_FAKE_NCCL_SEND");
    CHECK(h, setenv("GRAM_FAKE_NCCL_VERSION", "21300", 1) == 0, "no memory");
    CHECK(h,
          gram_communicator_create_nccl_all(&g, 1, NULL, &c) == GRAM_UNSUPPORTED && !c &&
              strstr(gram_message(g), "NCCL has version 21300, expected 21400"),
          "%s", gram_message(g));
    unsetenv("GRAM_FAKE_NCCL_VERSION");
    nccl_end(&t);
}

static void refused(struct harness *h, const gram_context *g, gram_status status,
                    const char *expected)
{
    CHECK(h, status == GRAM_INVALID_ARGUMENT, "%s", gram_status_name(status));
    CHECK(h, strstr(gram_message(g), expected), "\"%s\", expected \"%s\"", gram_message(g),
          expected);
}

static void bad_input_is_named(struct harness *h)
{
    gram_nccl_options o = GRAM_NCCL_OPTIONS_INIT;
    char id[GRAM_NCCL_ID_BYTES];
    gram_communicator *c, *two[2];
    struct nccl_team t;
    gram_context *g;

    nccl_begin(h, &t, 1);
    g = t.rank[0].g;
    refused(h, h->g, gram_nccl_id(h->g, id, sizeof id), "g is a context on the CPU");
    refused(h, g, gram_nccl_id(g, NULL, sizeof id), "id is NULL");
    refused(h, g, gram_nccl_id(g, id, 64), "bytes is 64, expected 128");
    CHECK(h, gram_nccl_id(g, id, sizeof id) == GRAM_OK, "%s", gram_message(g));
    refused(h, g, gram_communicator_create_nccl(g, NULL, sizeof id, 0, 1, NULL, &c), "id is NULL");
    refused(h, g, gram_communicator_create_nccl(g, id, 1, 0, 1, NULL, &c), "bytes is 1");
    refused(h, g, gram_communicator_create_nccl(g, id, sizeof id, 0, 1, NULL, NULL), "out is NULL");
    refused(h, g, gram_communicator_create_nccl(g, id, sizeof id, 1, 1, NULL, &c), "rank is 1 of");
    refused(h, h->g, gram_communicator_create_nccl(h->g, id, sizeof id, 0, 1, NULL, &c),
            "g is a context on the CPU");
    o.timeout = -1;
    refused(h, g, gram_communicator_create_nccl(g, id, sizeof id, 0, 1, &o, &c), "timeout is -1");
    refused(h, g, gram_communicator_create_nccl_all(&g, 0, NULL, &c), "count is 0");
    refused(h, g, gram_communicator_create_nccl_all(&g, 1, NULL, NULL), "out is NULL");
    refused(h, g, gram_communicator_create_nccl_all((gram_context *[]){g, NULL}, 2, NULL, two),
            "contexts[1] is NULL");
    refused(h, g, gram_communicator_create_nccl_all((gram_context *[]){g, h->g}, 2, NULL, two),
            "contexts[1] is a context on the CPU");
    refused(h, g, gram_communicator_create_nccl_all((gram_context *[]){g, g}, 2, NULL, two),
            "both on CUDA device 0");
    nccl_set(h, &t, &kron_parts_square, 0, GRAM_KRON_SPLIT_COLUMNS);
    refused(h, h->g,
            gram_kron_matmul_multi(h->g, &t.rank[0].p.x.t, t.rank[0].p.factors, 3,
                                   &t.rank[0].p.options, &t.rank[0].p.y.t),
            "was made with another context");
    nccl_drop(h, &t);
    nccl_end(&t);
}

static void a_communicator_needs_memory(struct harness *h)
{
    struct failing_alloc alloc = FAILING_ALLOC_INIT;
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_status status = GRAM_OUT_OF_MEMORY;
    gram_communicator *c = NULL;
    gram_context *g;
    int64_t i = 0;

    o.device = (gram_device){GRAM_CUDA, 0};
    failing_alloc_use(&alloc, &o);
    if (!CHECK(h, gram_context_create(&o, &g) == GRAM_OK, "%s", gram_message(NULL)))
        return;
    while (status != GRAM_OK && ++i < 20) {
        failing_alloc_reset(&alloc, i);
        status = gram_communicator_create_nccl_all(&g, 1, NULL, &c);
        CHECK(h, (status == GRAM_OK && c) || (status == GRAM_OUT_OF_MEMORY && !c), "block %d: %s",
              (int)i, gram_message(g));
    }
    CHECK(h, status == GRAM_OK && i > 2, "%d blocks", (int)i);
    failing_alloc_reset(&alloc, 0);
    gram_communicator_destroy(c);
    gram_context_destroy(g);
    CHECK(h, alloc.live == 0 && alloc.wrong_releases == 0, "%lld blocks are left",
          (long long)alloc.live);
}

int main(void)
{
    static const struct test_function tests[] = {
        {                       "parts_make_the_whole",parts_make_the_whole                                                       },
        {                    "scratch_is_told_exactly",                  scratch_is_told_exactly},
        {        "a_bad_argument_of_one_rank_ends_all",      a_bad_argument_of_one_rank_ends_all},
        {   "a_rank_that_fails_in_the_middle_ends_all", a_rank_that_fails_in_the_middle_ends_all},
        {"a_rank_that_does_not_come_is_not_waited_for",
         a_rank_that_does_not_come_is_not_waited_for                                            },
        {    "a_rank_that_dies_in_an_exchange_is_left",  a_rank_that_dies_in_an_exchange_is_left},
        {                         "bad_input_is_named",                       bad_input_is_named},
        {                "a_communicator_needs_memory",              a_communicator_needs_memory},
        {                          "what_nccl_reports",                        what_nccl_reports},
    };

    if (gram_best_device().type != GRAM_CUDA) {
        puts("skipped: no CUDA device");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests) - !getenv("GRAM_TEST_EMULATED"));
}
