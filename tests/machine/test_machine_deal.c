/*
 * test_machine_deal.c - leaves of one machine that several contexts train: the same machine, and
 * what ends it
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "machine/machine_deal.h"
#include "machine_sample.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HANDS = 3,
    MANY_ROWS = 2400,
    FEW_ROWS = 400
};

struct hands {
    gram_context *g[HANDS];
    gram_group group;
};

/* The test's context, and others on its device, or on the one after it where there are two. */
static void open_hands(struct harness *h, struct hands *a)
{
    const gram_device device = gram_context_device(h->g);
    gram_info info = {.size = sizeof info};

    CHECK(h, gram_context_info(h->g, &info) == GRAM_OK, "%s", gram_message(h->g));
    *a = (struct hands){.group = GRAM_GROUP_INIT};
    a->g[0] = h->g;
    for (int i = 1; i < HANDS; i++) {
        gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
        options.device = device;
        if (device.type == GRAM_CUDA && info.cuda_devices > 1)
            options.device.index = i % 2;
        options.threads = h->threads; /* of a BLAS, on which the order of sums depends */
        CHECK(h, gram_context_create(&options, &a->g[i]) == GRAM_OK, "%s", gram_message(NULL));
    }
    a->group.contexts = a->g;
    a->group.count = HANDS;
}

static void close_hands(struct hands *a)
{
    for (int i = 1; i < HANDS; i++)
        gram_context_destroy(a->g[i]);
}

/* The bytes of the file of a machine, which has no times in it. */
static char *saved(struct harness *h, gram_machine *m, long *bytes)
{
    char path[] = "/tmp/gram_dealXXXXXX", *text = NULL;
    const int file = mkstemp(path);
    FILE *stream;

    CHECK(h, file >= 0 && gram_machine_save(h->g, m, path) == GRAM_OK, "%s", gram_message(h->g));
    stream = fopen(path, "rb");
    *bytes = 0;
    if (stream && fseek(stream, 0, SEEK_END) == 0) {
        *bytes = ftell(stream);
        rewind(stream);
        text = must_allocate((size_t)*bytes);
        CHECK(h, fread(text, 1, (size_t)*bytes, stream) == (size_t)*bytes, "%s cannot be read",
              path);
    }
    if (stream)
        (void)fclose(stream);
    if (file >= 0)
        (void)close(file);
    (void)unlink(path);
    return text;
}

static void check_same(struct harness *h, gram_machine *m1, gram_machine *m2)
{
    long bytes[2];
    char *one = saved(h, m1, &bytes[0]), *other = saved(h, m2, &bytes[1]);

    CHECK(h, bytes[0] == bytes[1] && one && other && memcmp(one, other, (size_t)bytes[0]) == 0,
          "files of %ld and %ld bytes differ", bytes[0], bytes[1]);
    free(one);
    free(other);
}

/* Leaves alone, with a search, by iterations, under a base, an ensemble, and one leaf. */
static const struct deal_row {
    int64_t leaf_rows, centres;
    int search, ensemble, iterations;
    gram_solver solver;
    bool labels;
} rows[] = {
  /* clang-format off */
    {100, 0, -1, 0, 0, GRAM_SOLVER_AUTO, false},
    {100, -1, 0, 1, 1, GRAM_SOLVER_AUTO, true},
    {150, -1, -1, 0, -1, GRAM_SOLVER_CG, false},
    {200, 12, 0, 0, -1, GRAM_SOLVER_AUTO, false},
    {300, -1, 0, 2, -1, GRAM_SOLVER_AUTO, false},
    {600, -1, -1, 0, -1, GRAM_SOLVER_AUTO, false},
  /* clang-format on */
};

static gram_machine_options options_of(const struct deal_row *row)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;

    o.leaf_rows = row->leaf_rows;
    o.centres = row->centres;
    o.search = row->search;
    o.ensemble = row->ensemble;
    o.iterations = row->iterations;
    o.solver = row->solver;
    return o;
}

static void any_number_of_hands_makes_one_machine(struct harness *h)
{
    struct sample s = sample_make(h, ROWS);
    struct hands a;

    open_hands(h, &a);
    for (int i = 0; i < (gram_context_device(h->g).type == GRAM_CPU ? LENGTH(rows) : 1); i++) {
        const gram_column *target = rows[i].labels ? &s.label : &s.number;
        gram_machine_options o = options_of(&rows[i]);
        gram_machine *alone, *together;
        char name[32];

        snprintf(name, sizeof name, "row %d", i);
        h->where = name;
        alone = sample_fit(h, &s, target, &o);
        o.group = &a.group;
        together = sample_fit(h, &s, target, &o);
        CHECK(h, alone->leaves > 1 || rows[i].leaf_rows == 600, "%lld leaves",
              (long long)alone->leaves);
        check_same(h, alone, together);
        gram_machine_destroy(alone);
        gram_machine_destroy(together);
    }
    close_hands(&a);
    sample_destroy(&s);
}

/* Weights by a likelihood, whose factorisations take several threads of BLAS, beside calls so small
 * that they take one.  BLAS has one number for the process: where these overlapped, a factorisation
 * took that of another leaf's call, and two GPUs made other bytes of a machine than one. */
static void leaves_keep_their_blas_threads(struct harness *h)
{
    struct sample s;
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *alone;
    struct hands a;

    open_hands(h, &a);
    if (gram_context_device(h->g).type !=
        GRAM_CPU) { /* a GPU's take the same BLAS, and more time */
        close_hands(&a);
        return;
    }
    s = sample_make(h, MANY_ROWS);
    o.search = -1;
    o.leaf_rows = 700;
    o.iterations = 1;
    o.metric = GRAM_METRIC_ARD;
    o.solver = GRAM_SOLVER_CG;
    alone = sample_fit(h, &s, &s.number, &o);
    o.group = &a.group;
    for (int i = 0; i < 2; i++) {
        gram_machine *together = sample_fit(h, &s, &s.number, &o);

        check_same(h, alone, together);
        gram_machine_destroy(together);
    }
    gram_machine_destroy(alone);
    close_hands(&a);
    sample_destroy(&s);
}

/* Products of the second GPU; fails: number 2 does. */
static const struct gram_backend *whole;
static int products;
static bool fails;

static gram_status counted_product(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    if (!g->measure && products++ == 2 && fails)
        return gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test");
    return whole->kernel_matmul(g, op);
}

/* One leaf whose matrix of 1.3 MB is not stored; NCCL is there where the GPUs are emulated. */
static void gpus_share_the_solves_of_a_single_leaf(struct harness *h)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    struct sample s = sample_make(h, FEW_ROWS);
    gram_machine *alone, *together, *none = NULL;
    struct gram_backend counted;
    struct hands a;

    open_hands(h, &a);
    if (gram_context_device(h->g).type == GRAM_CUDA && gram_context_device(a.g[1]).index == 1) {
        o.search = -1;
        o.leaf_rows = FEW_ROWS;
        o.solver = GRAM_SOLVER_CG;
        o.dtype = GRAM_F64;
        o.tolerance = 1e-8;
        o.memory_limit = 1000000;
        alone = sample_fit(h, &s, &s.number, &o);
        whole = a.g[1]->backend, counted = *whole;
        counted.kernel_matmul = counted_product;
        a.g[1]->backend = &counted;
        a.group.count = 2;
        o.group = &a.group;
        products = 0, fails = false;
        together = sample_fit(h, &s, &s.number, &o);
        CHECK(h, products > 3 || !getenv("GRAM_TEST_EMULATED"), "%d products", products);
        expect_alike(h, alone, together, &s, 1e-6);
        if (products > 3) {
            products = 0, fails = true;
            CHECK(h,
                  gram_machine_fit(h->g, table_of(&s), &s.number, &o, &none) ==
                          GRAM_DEVICE_FAILED &&
                      !none && strstr(gram_message(h->g), "broken for the test"),
                  "%s", gram_message(h->g));
        }
        a.g[1]->backend = whole;
        gram_machine_destroy(alone);
        gram_machine_destroy(together);
    }
    close_hands(&a);
    sample_destroy(&s);
}

/* The number in the next id of the emulated NCCL, which counts them: ranks that are made take one.
 */
static uint64_t next_id(struct harness *h)
{
    char id[GRAM_NCCL_ID_BYTES];
    uint64_t number = 0;

    CHECK(h, gram_nccl_id(h->g, id, sizeof id) == GRAM_OK, "%s", gram_message(h->g));
    memcpy(&number, id, sizeof number);
    return number;
}

enum {
    POINTS = 200 /* in one dimension; their matrix takes 320 kB */
};

/* A solve of a job that shares it, with a matrix that is not stored; ids: of ranks that it made. */
static gram_status shared_solve(struct harness *h, struct machine_job *job, uint64_t *ids)
{
    const struct machine_params params = {.p = 2, .q = 2, .bandwidth = 1, .shared = job};
    const gram_kernel_options kernel = gram_machine_kernel(2, 2, 1);
    double x[POINTS], ridge[POINTS], b[POINTS];
    struct krr_system system = {
        .kernel = &kernel, .ridge = ridge, .b = b, .columns = 1, .tolerance = 1e-6, .memory = 1e5};
    struct krr_array points = {0}, alpha = {0};
    struct krr_report report;
    gram_status status;

    for (int i = 0; i < POINTS; i++) {
        x[i] = 0.1 * i;
        ridge[i] = 1;
        b[i] = i % 7;
    }
    CHECK(h,
          gram_krr_send(h->g, x, sizeof x, &points) == GRAM_OK &&
              gram_krr_allocate(h->g, sizeof b, &alpha) == GRAM_OK,
          "%s", gram_message(h->g));
    system.x = gram_krr_matrix(h->g, points.data, POINTS, 1, GRAM_F64);
    *ids = next_id(h);
    status = gram_machine_shared_solve(h->g, &params, 1, &system, alpha.data, &report);
    *ids = next_id(h) - *ids - 1;
    gram_krr_free(h->g, &alpha);
    gram_krr_free(h->g, &points);
    return status;
}

/* The GPUs of a group are ranks from the first solve of a fit on; after a failure they are new. */
static void solves_of_a_fit_have_the_same_ranks(struct harness *h)
{
    struct gram_backend counted;
    struct hands a;

    open_hands(h, &a);
    if (getenv("GRAM_TEST_EMULATED") && gram_context_device(a.g[1]).index == 1) {
        struct machine_job job = {.o = {.group = &a.group}};
        uint64_t ids;

        a.group.count = 2;
        whole = a.g[1]->backend, counted = *whole;
        counted.kernel_matmul = counted_product;
        a.g[1]->backend = &counted;
        for (int i = 0; i < 5; i++) { /* the second is broken, and so the third makes ranks again */
            const gram_status expected = i == 1 ? GRAM_DEVICE_FAILED : GRAM_OK;
            gram_status status;

            products = 0, fails = i == 1;
            status = shared_solve(h, &job, &ids);
            CHECK(h, status == expected && products > 2, "solve %d: %s, %d products: %s", i,
                  gram_status_name(status), products, gram_message(h->g));
            CHECK(h, (ids > 0) == (i == 0 || i == 2), "solve %d took %d ids", i, (int)ids);
            CHECK(h, !job.lanes == (i == 1), "solve %d left ranks %p", i, (void *)job.lanes);
        }
        gram_machine_shared_close(h->g, &job);
        CHECK(h, !job.lanes, "ranks are left");
        a.g[1]->backend = whole;
    }
    close_hands(&a);
}

static void refuse(struct harness *h, struct sample *s, const gram_machine_options *o,
                   gram_status status, const char *text)
{
    gram_machine *m = NULL;
    const gram_status got = gram_machine_fit(h->g, table_of(s), &s->number, o, &m);

    CHECK(h, got == status && !m && strstr(gram_message(h->g), text), "%s: %s, expected \"%s\"",
          gram_status_name(got), gram_message(h->g), text);
    gram_machine_destroy(m);
}

static void bad_groups_are_named(struct harness *h)
{
    struct sample s = sample_make(h, ROWS);
    gram_machine_options o = options_of(&rows[0]);
    struct hands a;

    open_hands(h, &a);
    o.group = &a.group;
    a.group.count = 0;
    refuse(h, &s, &o, GRAM_INVALID_ARGUMENT, "options.group has no contexts");
    a.group.count = HANDS;
    a.g[0] = a.g[1], a.g[1] = h->g;
    refuse(h, &s, &o, GRAM_INVALID_ARGUMENT, "contexts[0] is another one");
    a.g[1] = a.g[0], a.g[0] = h->g;
    a.group.contexts = (gram_context *[]){h->g, a.g[1], a.g[1]};
    refuse(h, &s, &o, GRAM_INVALID_ARGUMENT, "contexts[2] is the same as contexts[1]");
    a.group.contexts = (gram_context *[]){h->g, NULL, a.g[1]};
    refuse(h, &s, &o, GRAM_INVALID_ARGUMENT, "contexts[1] is NULL");
    close_hands(&a);
    sample_destroy(&s);
}

/* The caller's context is cancelled while leaves are trained. */
static void cancel(void *user, double fraction, const char *stage)
{
    (void)stage;
    if (fraction > 0.3)
        gram_context_cancel(user);
}

static void a_cancelled_call_ends_all_hands(struct harness *h)
{
    struct sample s = sample_make(h, ROWS);
    gram_machine_options o = options_of(&rows[0]);
    gram_machine *m;
    struct hands a;

    open_hands(h, &a);
    o.group = &a.group;
    o.leaf_rows = 50;
    o.iterations = 5;
    o.progress = cancel;
    o.progress_user = h->g;
    refuse(h, &s, &o, GRAM_CANCELLED, "cancelled");
    o.progress = NULL;
    m = sample_fit(h, &s, &s.number, &o); /* and nobody is cancelled any more */
    gram_machine_destroy(m);
    close_hands(&a);
    sample_destroy(&s);
}

int main(void)
{
    static const struct test_function tests[] = {
        {"any number of hands makes one machine",  any_number_of_hands_makes_one_machine},
        {      "a cancelled call ends all hands",        a_cancelled_call_ends_all_hands},
        {     "leaves keep their BLAS's threads",         leaves_keep_their_blas_threads},
        {          "GPUs share solves of a leaf", gpus_share_the_solves_of_a_single_leaf},
        {          "solves of a fit share ranks",    solves_of_a_fit_have_the_same_ranks},
        {                 "bad groups are named",                   bad_groups_are_named},
    };

    return harness_run_tests_or_some(tests, LENGTH(tests), LENGTH(tests));
}
