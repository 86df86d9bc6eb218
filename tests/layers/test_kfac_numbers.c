/*
 * test_kfac_numbers.c - what numbers gram_kfac holds: corrected eigenvalues, f32 and f64, bytes
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac_problem.h"
#include <math.h>

static gram_kfac_info info_of(struct harness *h, const gram_kfac *kfac)
{
    gram_kfac_info info = {.size = sizeof info};

    CHECK(h, gram_kfac_get(h->g, kfac, &info) == GRAM_OK, "%s", gram_message(h->g));
    return info;
}

static void check_corrections(struct harness *h, int64_t positions, gram_dtype state)
{
    struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT};
    const double bound = state == GRAM_F64 ? 1e-11 : 1e-5;
    gram_tensor qa, qb, s;
    struct kfac_data d;

    kfac_fill(h, &d, positions, 4, 3);
    o.options.corrected = 1;
    o.options.scale = -2;
    o.options.state = state;
    kfac_open(h, &o, GRAM_LAYER_LINEAR, 4, 3, true);
    CHECK(h,
          kfac_learn(h, &o, &d) == GRAM_OK && gram_kfac_refresh(h->g, o.kfac) == GRAM_OK &&
              kfac_learn(h, &o, &d) == GRAM_OK,
          "%s", gram_message(h->g));
    qa = kfac_state(h, o.kfac, "0.a_vectors");
    qb = kfac_state(h, o.kfac, "0.b_vectors");
    s = kfac_state(h, o.kfac, "0.corrections");
    for (int64_t i = 0; i < 15; i++) {
        double mean = 0, got = test_at(&s, i);
        for (int64_t n = 0; n < KFAC_SAMPLES; n++) {
            double turned = 0;
            for (int64_t e = 0; e < 15; e++)
                turned += test_at(&qb, e / 5 * 3 + i / 5) * test_at(&qa, e % 5 * 5 + i % 5) *
                          kfac_sample(&d, n, e / 5, e % 5);
            mean += 4 * turned * turned / KFAC_SAMPLES;
        }
        CHECK(h, fabs(got - mean) <= bound * (1 + mean), "s[%lld] is %.15g, not %.15g",
              (long long)i, got, mean);
    }
    gram_kfac_destroy(o.kfac);
}

/* Of one position by products of squares, of two by positions that turn, of four by gradients. */
static void corrections_are_mean_squares(struct harness *h)
{
    for (int64_t positions = 1; positions <= 4; positions *= 2) {
        check_corrections(h, positions, GRAM_F64);
        check_corrections(h, positions, GRAM_F32);
    }
}

/* A of rank one, so large that its damping is lost in f32: no factorisation breaks down. */
static void rank_one_in_f32(struct harness *h)
{
    struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT};
    double a[36], b[4] = {1, 0, 0, 1};
    gram_tensor of_a = gram_matrix(a, 6, 6, GRAM_F64), of_b = gram_matrix(b, 2, 2, GRAM_F64);

    for (int exact = 0; exact < 2; exact++) {
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++)
                a[i * 6 + j] = 1e9 * (1 + 0.1 * i) * (1 + 0.1 * j);
        o.options.state = GRAM_F32;
        o.options.lambda = 1e-6;
        o.options.damping = exact ? GRAM_KFAC_EXACT : GRAM_KFAC_FACTORED;
        kfac_open(h, &o, GRAM_LAYER_LINEAR, 6, 2, false);
        CHECK(h,
              gram_kfac_feed(h->g, o.kfac, 0, &of_a, &of_b) == GRAM_OK &&
                  gram_kfac_refresh(h->g, o.kfac) == GRAM_OK && kfac_direct(h, &o, 0) == GRAM_OK,
              "%s", gram_message(h->g));
        CHECK(h, info_of(h, o.kfac).failed == 0, "%lld layers failed",
              (long long)info_of(h, o.kfac).failed);
        for (int i = 0; i < 12; i++)
            CHECK(h, isfinite(o.to_weight[i]), "number %d is %g", i, o.to_weight[i]);
        a[0] = 1e39; /* infinite there */
        CHECK(h, gram_kfac_feed(h->g, o.kfac, 0, &of_a, &of_b) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, info_of(h, o.kfac).skipped == 1, "%lld updates were skipped",
              (long long)info_of(h, o.kfac).skipped);
        gram_kfac_destroy(o.kfac);
    }
}

/* f32 takes half the bytes; what is shared by both is told by an object without layers. */
static void bytes_as_documented(struct harness *h)
{
    const int64_t m = 300, n = 200, state = 2 * (m * m + n * n) + m + n, most = m * m;
    int64_t told[2];

    for (int i = 0; i < 2; i++) {
        struct kfac_one o = {.options = GRAM_KFAC_OPTIONS_INIT};
        o.options.state = i ? GRAM_F32 : GRAM_F64;
        kfac_open(h, &o, GRAM_LAYER_LINEAR, n, m, false);
        told[i] = info_of(h, o.kfac).bytes;
        gram_kfac_destroy(o.kfac);
    }
    CHECK(h, told[0] - told[1] == 4 * ((state + 15) / 16 * 16 + m * n + 4 * most),
          "%lld bytes in f64, %lld in f32", (long long)told[0], (long long)told[1]);
}

static const struct test_function tests[] = {
    {"corrections_are_mean_squares", corrections_are_mean_squares},
    {             "rank_one_in_f32",              rank_one_in_f32},
    {         "bytes_as_documented",          bytes_as_documented},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
