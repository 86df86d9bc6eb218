/*
 * test_kfac_put.c - gram_kfac_put: a state part by part, and parts that are none
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "kfac_problem.h"
#include <math.h>
#include <string.h>

static void open_one(struct harness *h, struct kfac_one *o, gram_dtype state, int corrected)
{
    *o = (struct kfac_one){.options = GRAM_KFAC_OPTIONS_INIT};
    o->options.state = state;
    o->options.corrected = corrected;
    kfac_open(h, o, GRAM_LAYER_LINEAR, 4, 3, true);
}

static void all_parts_are_the_state(struct harness *h)
{
    for (int row = 0; row < 3; row++) {
        const gram_dtype state = row == 1 ? GRAM_F32 : GRAM_F64;
        struct kfac_one o, p;
        struct kfac_data d;
        const char *name;
        gram_tensor part;

        open_one(h, &o, state, row == 2);
        open_one(h, &p, state, row == 2);
        kfac_fill(h, &d, 1, 4, 3);
        memcpy(p.weight, o.weight, sizeof p.weight);
        memcpy(p.bias, o.bias, sizeof p.bias);
        CHECK(h,
              kfac_learn(h, &o, &d) == GRAM_OK && gram_kfac_refresh(h->g, o.kfac) == GRAM_OK &&
                  kfac_learn(h, &o, &d) == GRAM_OK && kfac_direct(h, &o, 0.5) == GRAM_OK,
              "%s", gram_message(h->g));
        for (int64_t i = 0; gram_kfac_state_at(h->g, o.kfac, i, &name, &part) == GRAM_OK; i++)
            CHECK(h, gram_kfac_put(h->g, p.kfac, i, &part) == GRAM_OK, "%s: %s", name,
                  gram_message(h->g));
        CHECK(h, kfac_direct(h, &p, 0.5) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, memcmp(p.to_weight, o.to_weight, sizeof p.to_weight) == 0, "another direction");
        gram_kfac_destroy(o.kfac);
        gram_kfac_destroy(p.kfac);
    }
}

static void a_part_that_is_none_changes_nothing(struct harness *h)
{
    double numbers[50];
    int64_t counts[4] = {1, 0, 0, 1};
    const gram_tensor good = gram_matrix(numbers, 5, 5, GRAM_F64);
    const gram_tensor of_counts = gram_vector(counts, 4, GRAM_I64);
    gram_tensor a, wrong[4] = {good, good, good, good};
    struct kfac_one o;
    int64_t last = 0;
    const char *name;

    open_one(h, &o, GRAM_F64, 0);
    a = kfac_state(h, o.kfac, "0.a");
    for (int i = 0; i < 50; i++)
        numbers[i] = 7;
    wrong[0].shape[1] = 4;
    wrong[1].stride[0] = 10;
    wrong[2].dtype = GRAM_F32;
    wrong[3].data = NULL;
    for (int i = 0; i < LENGTH(wrong); i++)
        CHECK(h, gram_kfac_put(h->g, o.kfac, 0, &wrong[i]) == GRAM_INVALID_ARGUMENT, "%d", i);
    CHECK(h, gram_kfac_put(h->g, o.kfac, 0, NULL) == GRAM_INVALID_ARGUMENT, "NULL was taken");
    CHECK(h, gram_kfac_put(h->g, o.kfac, -1, &good) == GRAM_INVALID_ARGUMENT, "-1 was taken");
    while (gram_kfac_state_at(h->g, o.kfac, last + 1, &name, &wrong[0]) == GRAM_OK)
        last++;
    CHECK(h, strcmp(name, "0.counts") == 0, "the last part is %s", name);
    CHECK(h, gram_kfac_put(h->g, o.kfac, last, &of_counts) == GRAM_INVALID_ARGUMENT,
          "it has inverses without averages");
    CHECK(h, gram_kfac_put(h->g, o.kfac, last + 1, &of_counts) == GRAM_INVALID_ARGUMENT,
          "there is no part behind the last");
    numbers[24] = INFINITY;
    CHECK(h, gram_kfac_put(h->g, o.kfac, 0, &good) == GRAM_INVALID_ARGUMENT, "INFINITY was taken");
    CHECK(h,
          strstr(gram_message(h->g), "gram_kfac_put: part holds values that are not valid for 0.a"),
          "%s", gram_message(h->g));
    CHECK(h, test_at(&a, 0) == 0, "something was written");
    numbers[24] = 7;
    CHECK(h, gram_kfac_put(h->g, o.kfac, 0, &good) == GRAM_OK && test_at(&a, 24) == 7, "%s",
          gram_message(h->g));
    gram_kfac_destroy(o.kfac);
}

static const struct test_function tests[] = {
    {            "all_parts_are_the_state",             all_parts_are_the_state},
    {"a_part_that_is_none_changes_nothing", a_part_that_is_none_changes_nothing},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
