/*
 * test_mpi_trouble.c - gram_kron_matmul_multi where a rank has bad arguments, lacks memory or
 * fails: all of them get an error, none hangs, and nothing is written
 *
 * SPDX-License-Identifier: MIT
 */
#include "mpi_kron_problem.h"
#ifdef GRAM_TEST_MPI
#  include "core/backend.h"
#  include <dlfcn.h>
#  include <stdlib.h>
#  include <string.h>
#  include <time.h>
#  include <unistd.h>

/* ---- One rank has trouble ------------------------------------------------------------------ */

/* Every rank gets status, the one in trouble with own in its message, the others with other; nobody
 * has written. */
static void all_refuse(struct harness *h, struct kron_parts *p, gram_status status, const char *own,
                       const char *other)
{
    mpi_expect_refusal(h, multiply(h, p), status, own, other);
    for (int64_t i = 0; i < test_count(&p->y.t); i++)
        if (!CHECK(h, test_at(&p->y.t, i) == 77, "y was written"))
            break;
}

static void a_bad_argument_of_one_rank_ends_all(struct harness *h)
{
    for (int split = 0; split < 2; split++) {
        struct kron_parts p;
        set(h, &p, (gram_kron_split)split);
        if (mpi_rank() == 0)
            p.my_x.shape[1]++;
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "x has", "rank 0 failed with GRAM_INVALID");
        take_part(h, &p, (gram_kron_split)split);
        if (mpi_rank() == 0)
            p.options.split = GRAM_KRON_SPLIT_AUTO;
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "options.split is 2", "rank 0 failed");
        take_part(h, &p, (gram_kron_split)split);
        if (mpi_rank() == 0)
            p.options.alpha.value = 2;
        if (gram_communicator_size(mpi_ranks(h)) == 1) { /* with itself a rank agrees */
            kron_parts_drop(h, &p);
            continue;
        }
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "the ranks disagree: options.alpha",
                   "the ranks disagree: options.alpha");
        p.options.alpha.value = 1;
        CHECK(h, multiply(h, &p) == GRAM_OK, "afterwards: %s", gram_message(h->g));
        kron_parts_drop(h, &p);
    }
}

static void other_factors_on_one_rank_are_noticed(struct harness *h)
{
    struct kron_parts p;
    gram_tensor turned[3];
    const gram_tensor *saved[3];

    if (gram_communicator_size(mpi_ranks(h)) == 1)
        return;
    set(h, &p, GRAM_KRON_SPLIT_ROWS);
    memcpy(saved, p.factors, sizeof saved);
    for (int i = 0; i < 3; i++) { /* 6 by 6 seen as 4 by 9 and 9 by 4: x still fits */
        turned[i] = p.factor[i].t;
        turned[i].shape[0] = (int64_t[]){4, 9, 6}[i];
        turned[i].shape[1] = (int64_t[]){4, 9, 6}[i];
        turned[i].stride[0] = 0;
        if (mpi_rank() == 0)
            p.factors[i] = &turned[i];
    }
    all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "the ranks disagree: the rows of factors[0] is 4",
               "6 on another");
    memcpy(p.factors, saved, sizeof saved);
    kron_parts_drop(h, &p);
}

static void scratch_that_one_rank_lacks_ends_all(struct harness *h)
{
    _Alignas(64) static char little[64];
    struct kron_parts p;

    for (int split = 0; split < 2; split++) {
        set(h, &p, (gram_kron_split)split);
        if (mpi_rank() == 0)
            CHECK(h, gram_context_use_workspace(h->g, little, 64) == GRAM_OK, "%s",
                  gram_message(h->g));
        all_refuse(h, &p, GRAM_OUT_OF_MEMORY, "the given workspace", "rank 0 failed with GRAM_OUT");
        CHECK(h, gram_context_use_workspace(h->g, NULL, 0) == GRAM_OK, "%s", gram_message(h->g));
        kron_parts_drop(h, &p);
    }
}

/* The backend of rank 0, whose product number fails_at fails. */
static int products, fails_at;

static gram_status failing_product(gram_context *g, const struct gram_kron_matmul_op *op)
{
    if (mpi_rank() == 0 && products++ == fails_at)
        return gram_fail(g, GRAM_DEVICE_FAILED, "broken for the test");
    return gram_cpu_backend.kron_matmul(g, op);
}

static void a_rank_that_fails_in_the_middle_ends_all(struct harness *h)
{
    const struct gram_backend *whole = h->g->backend;
    struct gram_backend broken = *whole;

    broken.kron_matmul = failing_product;
    for (fails_at = 0; fails_at < 2; fails_at++) {
        struct kron_parts p;
        set(h, &p, GRAM_KRON_SPLIT_COLUMNS);
        products = 0;
        h->g->backend = &broken;
        all_refuse(h, &p, GRAM_DEVICE_FAILED, "broken for the test", "rank 0 failed with GRAM_DEV");
        h->g->backend = whole;
        CHECK(h, multiply(h, &p) == GRAM_OK, "afterwards: %s", gram_message(h->g));
        kron_parts_drop(h, &p);
    }
}

/* Rank 0 has no memory for one of the blocks of a communicator. */
static void a_communicator_needs_memory_everywhere(struct harness *h)
{
    static struct failing_alloc alloc = FAILING_ALLOC_INIT;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    MPI_Comm world = MPI_COMM_WORLD;
    int64_t blocks = 1;
    gram_context *g;

    failing_alloc_use(&alloc, &options);
    if (!CHECK(h, gram_context_create(&options, &g) == GRAM_OK, "%s", gram_message(NULL)))
        return;
    for (int64_t i = 1; i <= blocks; i++) {
        gram_communicator *c;
        gram_status status;
        failing_alloc_reset(&alloc, 0);
        CHECK(h, gram_communicator_create_mpi(g, &world, sizeof world, &c) == GRAM_OK, "%s",
              gram_message(g));
        gram_communicator_destroy(c);
        blocks = alloc.calls; /* the same on all ranks */
        failing_alloc_reset(&alloc, mpi_rank() == 0 ? i : 0);
        status = gram_communicator_create_mpi(g, &world, sizeof world, &c);
        CHECK(h, status == GRAM_OUT_OF_MEMORY && !c, "block %lld: %s", (long long)i,
              gram_status_name(status));
    }
    CHECK(h, blocks > 1, "%lld blocks", (long long)blocks);
    gram_context_destroy(g);
    CHECK(h, alloc.live == 0, "%lld blocks are left", (long long)alloc.live);
}

/* A rank that cannot make its arguments says so in the place of the call, and the others hear it.
 */
static void a_rank_may_fail_before_a_call(struct harness *h)
{
    gram_communicator *c = mpi_ranks(h);
    gram_status own, status;
    struct kron_parts p;

    set(h, &p, GRAM_KRON_SPLIT_ROWS);
    CHECK(h, gram_communicator_agree(h->g, c, GRAM_OK) == GRAM_OK, "%s", gram_message(h->g));
    if (mpi_rank() == 0) {
        own = gram_kron_matmul_part(h->g, -1, p.factors, 3, &p.options, &(gram_kron_part){0});
        status = gram_communicator_agree(h->g, c, own);
        CHECK(h, status == own && strstr(gram_message(h->g), "rows is -1"), "%s",
              gram_message(h->g));
    } else {
        all_refuse(h, &p, GRAM_INVALID_ARGUMENT, "", "rank 0 failed with GRAM_INVALID");
    }
    CHECK(h, multiply(h, &p) == GRAM_OK, "afterwards: %s", gram_message(h->g));
    kron_parts_drop(h, &p);
}

/* Rank i has 3 i bytes of its own number. */
static void bytes_come_to_the_first_rank(struct harness *h)
{
    gram_communicator *c = mpi_ranks(h);
    int ranks = gram_communicator_size(c), total = 3 * ranks * (ranks - 1) / 2;
    unsigned char mine[256], all[1024];
    int at = 0;

    if (!CHECK(h, ranks <= 16, "%d ranks", ranks))
        return;
    memset(mine, mpi_rank(), sizeof mine);
    memset(all, 99, sizeof all);
    CHECK(h,
          gram_communicator_gather(h->g, c, mine, 3 * (size_t)mpi_rank(), all, (size_t)total) ==
              GRAM_OK,
          "%s", gram_message(h->g));
    for (int rank = 0; mpi_rank() == 0 && rank < ranks; rank++)
        for (int i = 0; i < 3 * rank; i++)
            CHECK(h, all[at++] == rank, "byte %d", i);
    CHECK(h, all[mpi_rank() == 0 ? total : 0] == 99, "bytes behind the last");
    if (ranks == 1)
        return;
    CHECK(h,
          gram_communicator_gather(h->g, c, mine, 3, all, 3 * (size_t)ranks - 1) ==
              GRAM_INVALID_ARGUMENT,
          "no room is enough");
    CHECK(h, strstr(gram_message(h->g), mpi_rank() ? "rank 0 failed" : "room is"), "%s",
          gram_message(h->g));
    CHECK(h,
          gram_communicator_gather(h->g, c, mpi_rank() == 1 ? NULL : mine, 3, all, sizeof all) ==
              GRAM_INVALID_ARGUMENT,
          "nothing is something");
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Rank 0 does something else for 0.4 s.  MPI's own waits would take all of that time of a
 * processor, unless others want it; a load on the machine makes what is taken less, not more. */
static void ranks_that_wait_leave_their_processors(struct harness *h)
{
    const struct timespec busy = {.tv_nsec = 400000000};
    double taken = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    gram_status status;

    if (mpi_rank() == 0)
        nanosleep(&busy, NULL);
    status = gram_communicator_agree(h->g, mpi_ranks(h), GRAM_OK);
    CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    taken = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - taken;
    CHECK(h, taken < 0.2, "a wait of 0.4 s took %g s of a processor", taken);
}

/* A folder in which libgram_mpi.so is another library. */
static void spoil_plugin(struct harness *h, char folder[64])
{
    char path[96];
    Dl_info info = {.dli_fname = ""};

    memcpy(folder, "/tmp/gram_mpi_XXXXXX", 21);
    if (!CHECK(h, mkdtemp(folder) && dladdr((void *)(uintptr_t)&MPI_Init, &info), "no folder"))
        return;
    snprintf(path, sizeof path, "%s/libgram_mpi.so", folder);
    CHECK(h, symlink(info.dli_fname, path) == 0, "no link");
}

/* Rank 0 cannot load libgram_mpi.so: nobody waits for it. */
static void a_rank_without_the_library_ends_all(struct harness *h)
{
    MPI_Comm world = MPI_COMM_WORLD;
    const char *saved = getenv("GRAM_PLUGIN_DIR");
    char folder[64], path[96];
    gram_context *g;

    saved = saved ? strdup(saved) : NULL;
    if (mpi_rank() == 0) {
        spoil_plugin(h, folder);
        setenv("GRAM_PLUGIN_DIR", folder, 1);
    }
    CHECK(h, gram_context_create(NULL, &g) == GRAM_OK, "%s", gram_message(NULL));
    for (int fortran = 0; fortran < 2 && g; fortran++) {
        gram_communicator *c;
        gram_status status =
            fortran ? gram_communicator_create_mpi_fortran(g, (int)MPI_Comm_c2f(world), &c)
                    : gram_communicator_create_mpi(g, &world, sizeof world, &c);
        CHECK(h, status == GRAM_UNSUPPORTED && !c, "%s", gram_status_name(status));
        CHECK(h, strstr(gram_message(g), mpi_rank() ? "1 of " : "has version unknown"), "%s",
              gram_message(g));
        gram_communicator_destroy(c);
    }
    gram_context_destroy(g);
    if (mpi_rank() == 0) {
        snprintf(path, sizeof path, "%s/libgram_mpi.so", folder);
        CHECK(h, unlink(path) == 0 && rmdir(folder) == 0, "the folder stays");
        unsetenv("GRAM_PLUGIN_DIR");
        if (saved)
            setenv("GRAM_PLUGIN_DIR", saved, 1);
    }
    free((void *)(uintptr_t)saved);
}

/* The same ranks by other names: the handle in Fortran, and the world. */
static void a_communicator_has_other_names(struct harness *h)
{
    for (int way = 0; way < 2; way++) {
        gram_communicator *c;
        gram_status status =
            way == 0
                ? gram_communicator_create_mpi_fortran(h->g, (int)MPI_Comm_c2f(MPI_COMM_WORLD), &c)
                : gram_communicator_create_mpi_world(h->g, &c);
        if (!CHECK(h, status == GRAM_OK, "%s", gram_message(h->g)))
            continue;
        CHECK(h, gram_communicator_rank(c) == mpi_rank(), "rank %d", gram_communicator_rank(c));
        CHECK(h, gram_communicator_agree(h->g, c, GRAM_OK) == GRAM_OK, "%s", gram_message(h->g));
        gram_communicator_destroy(c);
    }
}

/* ---- What is refused ----------------------------------------------------------------------- */

static void refused(struct harness *h, gram_status status, const char *expected)
{
    CHECK(h, status == GRAM_INVALID_ARGUMENT, "%s", gram_status_name(status));
    CHECK(h, strstr(gram_message(h->g), expected) != NULL, "\"%s\", expected \"%s\"",
          gram_message(h->g), expected);
}

static void bad_input_is_named(struct harness *h)
{
    gram_communicator *c = mpi_ranks(h), *none = c;
    MPI_Comm null = MPI_COMM_NULL, world = MPI_COMM_WORLD;
    gram_kron_options o = GRAM_KRON_OPTIONS_INIT;
    gram_kron_part part;
    struct kron_parts p;

    set(h, &p, GRAM_KRON_SPLIT_COLUMNS);
    refused(h, gram_communicator_create_mpi(h->g, &world, 1, &none), "bytes is 1, expected");
    CHECK(h, !none, "a communicator in spite of an error");
    refused(h, gram_communicator_create_mpi(h->g, NULL, sizeof world, &none), "mpi_comm is NULL");
    refused(h, gram_communicator_create_mpi(h->g, &world, sizeof world, NULL), "out is NULL");
    refused(h, gram_communicator_create_mpi(h->g, &null, sizeof null, &none), "MPI_COMM_NULL");
    refused(h, gram_communicator_create_mpi_fortran(h->g, (int)MPI_Comm_c2f(null), &none),
            "MPI_COMM_NULL");
    refused(h, gram_communicator_create_mpi_fortran(h->g, 0, NULL), "out is NULL");
    refused(h, gram_communicator_create_mpi_world(h->g, NULL), "out is NULL");
    refused(h, gram_communicator_agree(h->g, NULL, GRAM_OK), "communicator is NULL");
    refused(h, gram_communicator_gather(h->g, NULL, &p, 0, &p, 0), "communicator is NULL");
    refused(h, gram_kron_matmul_multi(h->g, &p.my_x, p.factors, 3, &o, &p.my_y),
            "options.communicator is NULL");
    refused(h, gram_kron_matmul_multi(h->g, &p.my_x, p.factors, 3, NULL, &p.my_y),
            "options.communicator is NULL");
    refused(h, gram_kron_matmul(h->g, &p.x.t, p.factors, 3, &p.options, &p.y.t),
            "options.communicator is given");
    refused(h, gram_kron_matmul_part(h->g, -1, p.factors, 3, &p.options, &part), "rows is -1");
    refused(h, gram_kron_matmul_part(h->g, 1, p.factors, 3, &p.options, NULL), "part is NULL");
    refused(h, gram_kron_matmul_part(h->g, 1, p.factors, 0, &p.options, &part), "count is 0");
    p.options.split = (gram_kron_split)3;
    refused(h, gram_kron_matmul_part(h->g, 1, p.factors, 3, &p.options, &part), "split is 3");
    kron_parts_drop(h, &p);
}

int main(int argc, char **argv)
{
    static const struct test_function tests[] = {
        {     "a bad argument of one rank ends all",      a_bad_argument_of_one_rank_ends_all},
        {   "other factors on one rank are noticed",    other_factors_on_one_rank_are_noticed},
        {    "scratch that one rank lacks ends all",     scratch_that_one_rank_lacks_ends_all},
        {"a rank that fails in the middle ends all", a_rank_that_fails_in_the_middle_ends_all},
        {  "a communicator needs memory everywhere",   a_communicator_needs_memory_everywhere},
        {           "a rank may fail before a call",            a_rank_may_fail_before_a_call},
        {            "bytes come to the first rank",             bytes_come_to_the_first_rank},
        {  "ranks that wait leave their processors",   ranks_that_wait_leave_their_processors},
        {     "a rank without the library ends all",      a_rank_without_the_library_ends_all},
        {          "a communicator has other names",           a_communicator_has_other_names},
        {                      "bad input is named",                       bad_input_is_named},
    };

    return mpi_run_tests(&argc, &argv, tests, LENGTH(tests));
}
#endif
