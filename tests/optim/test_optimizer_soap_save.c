/*
 * test_optimizer_soap_save.c - SOAP and Muon saved in the middle: what is loaded goes on bit by bit
 *
 * SPDX-License-Identifier: MIT
 */
#include "soap_run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/gram-soap-XXXXXX";

static void draw_and_step(struct soap_run *r)
{
    soap_run_draw(r);
    CHECK(r->h, soap_run_step(r) == GRAM_OK, "%s", gram_message(r->h->g));
}

static void check_save(struct harness *h, gram_optimizer_method method, gram_dtype state, int ndim)
{
    static const int64_t shape[] = {5, 3, 4};
    gram_optimizer_options options = {.size = sizeof options};
    struct soap_run whole, second;
    char path[64];

    CHECK(h, gram_optimizer_defaults(method, &options), "no method %d", (int)method);
    options.refresh = 2;
    options.state = state;
    (void)snprintf(path, sizeof path, "%s/state.safetensors", folder);
    if (soap_run_begin(h, &whole, &options, GRAM_F32, ndim, shape) &&
        soap_run_begin(h, &second, &options, GRAM_F32, ndim, shape)) {
        for (int i = 0; i < 4; i++)
            draw_and_step(&whole);
        CHECK(h, gram_optimizer_save(h->g, whole.optimizer, path) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, gram_optimizer_load(h->g, second.optimizer, path) == GRAM_OK, "%s",
              gram_message(h->g));
        memcpy(second.weights, whole.weights, sizeof whole.weights);
        for (int i = 0; i < 5; i++) {
            draw_and_step(&whole);
            memcpy(second.gradients, whole.gradients, sizeof whole.gradients);
            CHECK(h, soap_run_step(&second) == GRAM_OK, "%s", gram_message(h->g));
            CHECK(h,
                  memcmp(whole.directions, second.directions, sizeof whole.directions) == 0 &&
                      soap_run_hash(&whole) == soap_run_hash(&second),
                  "step %d after the load differs", i);
        }
        (void)remove(path);
    }
    soap_run_end(&whole);
    soap_run_end(&second);
}

static void a_save_in_the_middle(struct harness *h)
{
    for (int ndim = 1; ndim <= 3; ndim++) {
        check_save(h, GRAM_SOAP, (gram_dtype)0, ndim);
        check_save(h, GRAM_SOAP, GRAM_BF16, ndim);
        check_save(h, GRAM_MUON, (gram_dtype)0, ndim);
    }
}

static const struct test_function tests[] = {
    {"a_save_in_the_middle", a_save_in_the_middle},
};

int main(void)
{
    int status;

    if (!mkdtemp(folder))
        return 1;
    status = harness_run_tests(tests, LENGTH(tests));
    (void)rmdir(folder);
    return status;
}
