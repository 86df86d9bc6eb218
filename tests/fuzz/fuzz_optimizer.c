/*
 * fuzz_optimizer.c - any bytes as the state of an optimizer: refused with a message, or a step
 * after
 *
 * A file that is refused leaves the state as it was; after one that is taken, every number of the
 * state is finite and a step can be done.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/model_file.h"
#include "optim/optimizer.h"
#include "tests/optim/optimizer_change.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// NOLINTNEXTLINE(readability-identifier-naming)
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

struct problem {
    double w[6], g[6];
    gram_tensor value, gradient;
    gram_tensor *values[1];
    const gram_tensor *gradients[1];
    gram_optimizer *o;
};

static void open_problem(gram_context *g, struct problem *p)
{
    gram_optimizer_options options = optimizer_plain();

    *p = (struct problem){
        .w = {1,  2, 3,  4, 5, 6},
          .g = {1, -1, 2, -2, 3, 1}
    };
    p->value = gram_matrix(p->w, 3, 2, GRAM_F64);
    p->gradient = gram_matrix(p->g, 3, 2, GRAM_F64);
    p->values[0] = &p->value;
    p->gradients[0] = &p->gradient;
    options.block = 2;
    options.epsilon = 1e-6;
    options.graft = GRAM_GRAFT_ADAM;
    require(gram_optimizer_create(g, &options, (const gram_tensor *const *)p->values, 1, &p->o) ==
            GRAM_OK);
}

static void load(gram_context *g, struct problem *p, const struct gram_model_file *file)
{
    char *before = malloc(p->o->state_bytes);
    gram_status status;

    require(before != NULL);
    memcpy(before, p->o->state, p->o->state_bytes);
    status = gram_optimizer_take_file(g, p->o, file);
    require(status == GRAM_OK || (status == GRAM_BAD_DATA && *gram_message(g)));
    require(status == GRAM_OK || memcmp(before, p->o->state, p->o->state_bytes) == 0);
    free(before);
    if (status != GRAM_OK)
        return;
    require(*p->o->step >= 0 && p->o->steps[0] <= *p->o->step);
    /* A root may fail too often, or the file say that it did. */
    status = gram_optimizer_step(g, p->o, p->values, p->gradients, NULL);
    require(status == GRAM_OK || status == GRAM_NUMERICAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    struct gram_model_file *file;
    struct problem p;
    gram_context *g = NULL;

    options.threads = 1;
    require(gram_context_create(&options, &g) == GRAM_OK);
    open_problem(g, &p);
    if (gram_model_parse(g, "fuzz", data, size, &file) == GRAM_OK)
        load(g, &p, file);
    gram_model_file_destroy(file);
    gram_optimizer_destroy(p.o);
    gram_context_destroy(g);
    return 0;
}
