/*
 * test_kron_tune.c - gram_tune_kron on the CPU: choices change no bit, and what is kept is taken
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "kron/cpu_kron_matmul.h"
#include "kron/kron.h"
#include "tests/core/tuned_choice.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct row {
    int64_t m;
    int count;
    int64_t p[GRAM_MAX_FACTORS], q[GRAM_MAX_FACTORS];
    bool by_columns; /* rows of x and y are contiguous */
    const char *why;
};

/* clang-format off */
static const struct row rows[] = {
    {1, 5, {8, 8, 8, 8, 8}, {8, 8, 8, 8, 8}, false, "one row, groups that differ"},
    {9, 4, {8, 7, 9, 8}, {8, 9, 7, 8}, false, "orders that a larger group would change"},
    {3, 6, {2, 9, 3, 8, 4, 5}, {9, 2, 8, 3, 5, 4}, false, "the same, six factors"},
    {300, 2, {16, 16}, {16, 16}, false, "one group, tiles of several rows"},
    {40, 4, {6, 5, 4, 7}, {5, 6, 7, 4}, true, "rows are the lanes of vectors"},
    {37, 3, {16, 2, 16}, {2, 16, 16}, true, "the same with a rest of rows"},
    {2, 2, {150, 3}, {3, 150}, false, "a factor that no small tile holds"},
};
/* clang-format on */

struct problem {
    gram_tensor x, y, factor[GRAM_MAX_FACTORS];
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    struct gram_kron_matmul_op op;
};

static gram_tensor filled(struct harness *h, int64_t rows_, int64_t cols, gram_dtype dtype)
{
    gram_tensor t =
        gram_matrix(calloc((size_t)(rows_ * cols), gram_dtype_size(dtype)), rows_, cols, dtype);

    if (!t.data)
        abort();
    for (int64_t e = 0; e < rows_ * cols; e++)
        test_put(&t, e, 2 * test_uniform(h) - 1);
    return t;
}

static void turn(gram_tensor *t)
{
    t->stride[1] = t->shape[0], t->stride[0] = 1;
}

static bool open_problem(struct harness *h, const struct row *r, gram_dtype dtype,
                         struct problem *q)
{
    const gram_kron_options options = GRAM_KRON_OPTIONS_INIT;
    const struct gram_kron_args args = {
        .x = &q->x, .factors = q->factors, .count = r->count, .y = &q->y};
    int64_t in = 1, out = 1;
    gram_status status;

    for (int i = 0; i < r->count; i++) {
        q->factor[i] = filled(h, r->p[i], r->q[i], dtype);
        q->factors[i] = &q->factor[i];
        in *= r->p[i], out *= r->q[i];
    }
    q->x = filled(h, r->m, in, dtype);
    q->y = filled(h, r->m, out, dtype);
    if (r->by_columns)
        turn(&q->x), turn(&q->y);
    status = gram_kron_matmul_describe(h->g, &args, &options, &q->op);
    CHECK(h, status == GRAM_OK, "%s: %s", r->why, gram_message(h->g));
    return status == GRAM_OK;
}

static void close_problem(const struct row *r, struct problem *q)
{
    free(q->x.data);
    free(q->y.data);
    for (int i = 0; i < r->count; i++)
        free(q->factor[i].data);
}

/* Every choice writes what choice 0 does, bit by bit; plans counts those that are not its. */
static void check_choices(struct harness *h, const struct row *r, gram_dtype dtype, int *plans)
{
    struct kron_plan own, plan;
    struct problem q;
    size_t bytes;
    char *want;

    if (!open_problem(h, r, dtype, &q))
        return;
    bytes = (size_t)test_count(&q.y) * gram_dtype_size(dtype);
    want = malloc(bytes);
    if (!want)
        abort();
    cpu_kron_matmul_plan(h->g, &q.op, 0, &own);
    for (int choice = 0; choice <= CPU_KRON_CHOICES; choice++) {
        memset(q.y.data, 0xff, bytes);
        if (cpu_kron_matmul_chosen(h->g, &q.op, choice) != GRAM_OK)
            CHECK(h, false, "%s, choice %d: %s", r->why, choice, gram_message(h->g));
        if (choice == 0)
            memcpy(want, q.y.data, bytes);
        CHECK(h, memcmp(want, q.y.data, bytes) == 0, "%s: choice %d has other bits", r->why,
              choice);
        cpu_kron_matmul_plan(h->g, &q.op, choice, &plan);
        *plans += plan.choice == choice && plan.tile != own.tile;
    }
    free(want);
    close_problem(r, &q);
}

static void every_choice_has_the_same_bits(struct harness *h)
{
    static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64, GRAM_F16, GRAM_I32};
    int plans = 0;

    for (int threads = 1; threads <= 3; threads += 2) {
        gram_context *whole = h->g;
        gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
        options.threads = threads;
        if (gram_context_create(&options, &h->g) != GRAM_OK)
            abort();
        for (int i = 0; i < LENGTH(rows); i++)
            for (int d = 0; d < LENGTH(dtypes); d++)
                check_choices(h, &rows[i], dtypes[d], &plans);
        gram_context_destroy(h->g);
        h->g = whole;
    }
    CHECK(h, plans > 40, "%d plans are not the library's own", plans);
}

/* The bytes of scratch of the problem tell which choice was taken. */
static size_t scratch_of(struct harness *h, const struct row *r, struct problem *q)
{
    gram_workspace need;
    gram_status status =
        gram_kron_matmul_workspace(h->g, &q->x, q->factors, r->count, NULL, &q->y, &need);

    CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    return need.host_bytes;
}

static void what_was_kept_is_taken(struct harness *h)
{
    const struct row *r = &rows[0];
    gram_kron_tuning found = {.size = sizeof found};
    char folder[64] = "/tmp/gram-cache-XXXXXX", path[128];
    struct problem q;
    size_t own, small;

    CHECK(h, mkdtemp(folder), "mkdtemp");
    h->g->cache_folder = folder;
    gram_tuned_forget(h->g);
    if (!open_problem(h, r, GRAM_F32, &q))
        return;
    own = scratch_of(h, r, &q);
    CHECK(h, gram_tune_kron(h->g, &q.x, q.factors, r->count, NULL, &q.y, &found) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, found.candidates > 1 && found.kept && found.ms > 0 && found.ms <= found.table_ms,
          "%d candidates, kept %d, %g and %g ms", found.candidates, found.kept, found.ms,
          found.table_ms);
    tuned_choice(h, 1); /* 32 KB */
    small = scratch_of(h, r, &q);
    CHECK(h, small < own, "%zu bytes with small tiles, %zu without", small, own);
    q.op.x.rows = 3; /* of another class */
    CHECK(h, cpu_kron_tuned(h->g, &q.op) == 0, "another class of problems is tuned too");
    for (int none = -1; none <= CPU_KRON_CHOICES + 1; none += CPU_KRON_CHOICES + 2) {
        tuned_choice(h, none);
        CHECK(h, scratch_of(h, r, &q) == own, "%d in the file is taken for a choice", none);
    }
    close_problem(r, &q);
    gram_tuned_clear(h->g);
    snprintf(path, sizeof path, "%s/kernels-1.db", folder);
    (void)unlink(path);
    CHECK(h, rmdir(folder) == 0, "%s is not empty", folder);
    gram_tuned_forget(h->g);
}

static const struct test_function tests[] = {
    {"every_choice_has_the_same_bits", every_choice_has_the_same_bits},
    {        "what_was_kept_is_taken",         what_was_kept_is_taken},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
