/*
 * test_kfac_device.c - gram_kfac on a device beside the CPU: the same directions, the same trouble
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac_pair.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    STEPS = 3,
    CHOLESKY = GRAM_KFAC_FACTORED,
    EIGEN = GRAM_KFAC_EXACT,
    EXPAND = GRAM_KFAC_EXPAND,
    REDUCE = GRAM_KFAC_REDUCE
};

/* dtype of the tensors, of the state; damping, setting, corrected, kl_clip, bound.  Factors of full
 * rank: corrections in a null space depend on the basis that an eigensolver gives of it. */
static const struct kfac_pair_row rows[] = {
    {           "by Cholesky", GRAM_F64, GRAM_F64, CHOLESKY, EXPAND, 0,    0, 1e-6},
    {         "in f32, short", GRAM_F32, GRAM_F64, CHOLESKY, REDUCE, 0, 1e-5, 2e-3},
    {"by eigenvectors, short", GRAM_F64, GRAM_F64,    EIGEN, EXPAND, 0, 1e-5, 1e-6},
    {                 "EKFAC", GRAM_F64, GRAM_F64,    EIGEN, EXPAND, 1, 1e-5, 1e-6},
    {          "EKFAC of f32", GRAM_F32, GRAM_F64,    EIGEN, EXPAND, 1,    0, 2e-3},
    {          "state in f32", GRAM_F64, GRAM_F32, CHOLESKY, EXPAND, 0, 1e-5, 2e-3},
    {          "EKFAC in f32", GRAM_F32, GRAM_F32,    EIGEN, EXPAND, 1,    0, 1e-2},
    {   "f64 to EKFAC of f32", GRAM_F64, GRAM_F32,    EIGEN, EXPAND, 1,    0, 1e-2},
};

/* ---- Tests ---------------------------------------------------------------------------------- */

static void as_on_the_cpu(struct harness *h)
{
    struct kfac_pair p;

    for (int r = 0; r < LENGTH(rows); r++) {
        h->where = rows[r].why;
        if (kfac_pair_open(h, &p, &rows[r])) {
            kfac_pair_draw(&p);
            kfac_pair_compare(&p, rows[r].bound); /* before there are factors */
            for (int step = 0; step < STEPS; step++) {
                kfac_pair_draw(&p);
                kfac_pair_learn(&p);
                if (step != 1)
                    kfac_pair_refresh(&p);
                kfac_pair_compare(&p, rows[r].bound);
            }
        }
        kfac_pair_close(&p);
    }
}

/* What is not finite is left out; with a gradient of that kind a step is nothing. */
static void leave_out(struct harness *h, const struct kfac_pair_row *row)
{
    gram_kfac_info info = {.size = sizeof info};
    struct kfac_pair p;

    if (kfac_pair_open(h, &p, row)) {
        kfac_pair_draw(&p);
        test_put(&p.one[0].d.t, 3, NAN);
        test_put(&p.one[3].a.t, 2, INFINITY);
        kfac_pair_learn(&p);
        kfac_pair_refresh(&p);
        kfac_pair_compare(&p, row->bound);
        kfac_pair_draw(&p);
        kfac_pair_learn(&p);
        kfac_pair_refresh(&p);
        kfac_pair_compare(&p, row->bound);
        test_put(&p.one[1].weight.t, 5, NAN);
        CHECK(h, kfac_pair_direct(&p, false) == GRAM_NUMERICAL, "a NaN on the CPU");
        CHECK(h,
              kfac_pair_direct(&p, true) == (h->device.type == GRAM_CPU ? GRAM_NUMERICAL : GRAM_OK),
              "%s", gram_message(h->g));
        CHECK(h, gram_kfac_get(h->g, p.gpu.kfac, &info) == GRAM_OK, "%s", gram_message(h->g));
        if (h->device.type != GRAM_CPU) {
            for (int i = 0; i < KFAC_PAIR_LAYERS; i++)
                for (int64_t e = 0; e < kfac_pair_numbers(&p, i); e++)
                    CHECK(h, kfac_pair_number(&p.one[i], e) == 0, "layer %d, number %d is %g", i,
                          (int)e, kfac_pair_number(&p.one[i], e));
            CHECK(h, info.nu == 0 && info.skipped == 3, "nu %g, %d skipped", info.nu,
                  (int)info.skipped);
        }
        test_put(&p.one[1].weight.t, 5, 1);
        CHECK(h, kfac_pair_direct(&p, true) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, kfac_pair_number(&p.one[1], 5) != 0, "the next step is nothing too");
        test_put(&p.one[0].d.t, 3, NAN); /* where there are eigenvectors already */
        kfac_pair_learn(&p);
        CHECK(h, gram_kfac_get(h->g, p.gpu.kfac, &info) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, info.skipped == (h->device.type == GRAM_CPU ? 3 : 4), "%d skipped",
              (int)info.skipped);
        kfac_pair_refresh(&p);
        CHECK(h, kfac_pair_direct(&p, true) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, isfinite(kfac_pair_number(&p.one[0], 0)), "%g", kfac_pair_number(&p.one[0], 0));
    }
    kfac_pair_close(&p);
}

static void not_finite(struct harness *h)
{
    leave_out(h, &rows[0]);
    leave_out(h, &rows[3]);
}

/* A of rank one, so large that its damping is lost in f32: no factorisation breaks down. */
static void rank_one_in_f32(struct harness *h)
{
    gram_kfac_info info = {.size = sizeof info};
    struct test_tensor a;
    struct test_copy there;
    struct kfac_pair p;

    if (kfac_pair_open(h, &p, &rows[5])) {
        kfac_pair_draw(&p);
        kfac_pair_learn(&p);
        test_tensor_create(h, &a, GRAM_F64, ROW_MAJOR, 2, (const int64_t[]){8, 8});
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++)
                test_put(&a.t, i * 8 + j, 1e9 * (1 + 0.1 * i) * (1 + 0.1 * j));
        CHECK(h, test_send(h, &a, &there), "no copy");
        CHECK(h, gram_kfac_feed(h->g, p.gpu.kfac, 0, &there.t, NULL) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, gram_kfac_refresh(h->g, p.gpu.kfac) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, kfac_pair_direct(&p, true) == GRAM_OK, "%s", gram_message(h->g));
        test_fetch(h, &a, &there);
        test_tensor_destroy(h, &a, "a_factor");
        CHECK(h, gram_kfac_get(h->g, p.gpu.kfac, &info) == GRAM_OK && info.failed == 0, "%d failed",
              (int)info.failed);
        for (int64_t e = 0; e < kfac_pair_numbers(&p, 0); e++)
            CHECK(h, isfinite(kfac_pair_number(&p.one[0], e)), "number %d is %g", (int)e,
                  kfac_pair_number(&p.one[0], e));
    }
    kfac_pair_close(&p);
}

/* A factor without an inverse leaves what there was. */
static void kept(struct harness *h)
{
    gram_kfac_info info = {.size = sizeof info};
    struct test_tensor b;
    struct test_copy there;
    struct kfac_pair p;

    if (h->device.type != GRAM_CPU &&
        kfac_pair_open(h, &p, &rows[0])) { /* the CPU has another way */
        kfac_pair_draw(&p);
        kfac_pair_learn(&p);
        kfac_pair_refresh(&p);
        test_tensor_create(h, &b, GRAM_F64, ROW_MAJOR, 2, (const int64_t[]){4, 4});
        for (int i = 0; i < 16; i++)
            test_put(&b.t, i, i % 5 == 0 ? -1e6 : 0);
        CHECK(h, test_send(h, &b, &there), "no copy");
        CHECK(h, gram_kfac_feed(h->g, p.gpu.kfac, 0, NULL, &there.t) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, gram_kfac_refresh(h->g, p.gpu.kfac) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, gram_kfac_get(h->g, p.gpu.kfac, &info) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, info.failed == 1, "%d failed", (int)info.failed);
        CHECK(h, kfac_pair_direct(&p, true) == GRAM_OK, "%s", gram_message(h->g));
        test_fetch(h, &b, &there);
        test_tensor_destroy(h, &b, "b_factor");
        CHECK(h, isfinite(kfac_pair_number(&p.one[0], 0)), "%g", kfac_pair_number(&p.one[0], 0));
        kfac_pair_close(&p);
    }
    CHECK(h, true, "ran");
}

static void travel(struct harness *h, const struct kfac_pair_row *row)
{
    char folder[] = "/tmp/gram-kfac-XXXXXX", path[64];
    struct kfac_pair p;

    if (kfac_pair_open(h, &p, row) && CHECK(h, mkdtemp(folder) != NULL, "no folder")) {
        (void)snprintf(path, sizeof path, "%s/state", folder);
        for (int back = 0; back < 2; back++) {
            const struct kfac_pair_side *from = back ? &p.gpu : &p.cpu,
                                        *to = back ? &p.cpu : &p.gpu;
            kfac_pair_draw(&p);
            kfac_pair_learn(&p);
            kfac_pair_refresh(&p);
            CHECK(h, gram_kfac_refresh(from->g, from->kfac) == GRAM_OK, "%s",
                  gram_message(from->g));
            CHECK(h, gram_kfac_save(from->g, from->kfac, path) == GRAM_OK, "%s",
                  gram_message(from->g));
            CHECK(h, gram_kfac_load(to->g, to->kfac, path) == GRAM_OK, "%s", gram_message(to->g));
            kfac_pair_compare(&p, row->state == GRAM_F64 ? 1e-9 : row->bound);
        }
        (void)unlink(path);
        (void)rmdir(folder);
    }
    kfac_pair_close(&p);
}

static void travels(struct harness *h)
{
    for (int r = 0; r < LENGTH(rows); r++) {
        h->where = rows[r].why;
        if (r == 0 || rows[r].corrected)
            travel(h, &rows[r]);
    }
}

static void refused(struct harness *h)
{
    struct kfac_pair p;

    if (h->device.type != GRAM_CPU) {
        if (kfac_pair_open(h, &p, &rows[0])) {
            CHECK(h, gram_kfac_refresh(p.cpu.g, p.gpu.kfac) == GRAM_INVALID_ARGUMENT, "%s",
                  gram_message(p.cpu.g));
            CHECK(h, gram_kfac_refresh(p.gpu.g, p.cpu.kfac) == GRAM_INVALID_ARGUMENT, "%s",
                  gram_message(p.gpu.g));
        }
        kfac_pair_close(&p);
    }
    CHECK(h, true, "ran");
}

static const struct test_function tests[] = {
    {  "as_on_the_cpu",   as_on_the_cpu},
    {     "not_finite",      not_finite},
    {"rank_one_in_f32", rank_one_in_f32},
    {           "kept",            kept},
    {        "travels",         travels},
    {        "refused",         refused},
};

int main(void)
{
    return harness_run_tests_where_asked(tests, LENGTH(tests));
}
