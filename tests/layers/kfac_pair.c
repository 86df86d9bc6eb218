/*
 * kfac_pair.c - gram_kfac twice, on the CPU and where the harness works, on the same layers
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac_pair.h"
#include <math.h>

/* ---- Layers --------------------------------------------------------------------------------- */

static bool has_bias(int i)
{
    return i < 2 || i == 4;
}

static void describe(struct kfac_pair *p)
{
    const gram_layer plain = GRAM_LAYER_INIT;

    for (int i = 0; i < KFAC_PAIR_LAYERS; i++) {
        p->one[i].layer = plain;
        p->one[i].layer.bias = has_bias(i);
    }
    p->inputs[0] = 7, p->outputs[0] = 4; /* linear */
    p->one[1].layer.kind = GRAM_LAYER_CONVOLUTION;
    p->one[1].layer.groups = 2;
    p->one[1].layer.kernel[0] = 3, p->one[1].layer.padding[0] = 1;
    p->inputs[1] = 4, p->outputs[1] = 6;
    p->one[2].layer.kind = GRAM_LAYER_EMBEDDING;
    p->one[2].layer.rows = 6, p->one[2].layer.padding_row = 1;
    p->inputs[2] = 6, p->outputs[2] = 3;
    p->inputs[3] = 3, p->outputs[3] = 40; /* linear, an order that has a driver of its own */
    p->inputs[4] = 2, p->outputs[4] = 2;  /* linear of one position */
}

static void create_one(struct kfac_pair *p, int i, gram_dtype dtype)
{
    enum {
        N = KFAC_PAIR_SAMPLES
    };
    /* clang-format off */
    static const int64_t a[KFAC_PAIR_LAYERS][4] = {{N, 2, 7}, {N, 4, 5, 4}, {N, 3}, {N, 12, 3},
                                                   {N, 2}};
    static const int64_t d[KFAC_PAIR_LAYERS][4] = {{N, 2, 4}, {N, 6, 5, 4}, {N, 3, 3},
                                                   {N, 12, 40}, {N, 2}};
    static const int64_t weight[KFAC_PAIR_LAYERS][4] = {{4, 7}, {6, 2, 3, 1}, {6, 3}, {40, 3},
                                                        {2, 2}};
    static const int dims[KFAC_PAIR_LAYERS][3] = {{3, 3, 2}, {4, 4, 4}, {2, 3, 2}, {3, 3, 2},
                                                  {2, 2, 2}};
    /* clang-format on */
    struct kfac_pair_layer *o = &p->one[i];
    const int64_t *bias = &p->outputs[i];

    test_tensor_create(p->h, &o->a, i == 2 ? GRAM_I64 : dtype, ROW_MAJOR, dims[i][0], a[i]);
    test_tensor_create(p->h, &o->d, dtype, PADDED, dims[i][1], d[i]);
    test_tensor_create(p->h, &o->weight, dtype, COLUMN_MAJOR, dims[i][2], weight[i]);
    test_tensor_create(p->h, &o->to_weight, dtype, REVERSED, dims[i][2], weight[i]);
    test_tensor_create(p->h, &o->bias, dtype, ROW_MAJOR, 1, bias);
    test_tensor_create(p->h, &o->to_bias, dtype, EVERY_SECOND, 1, bias);
}

void kfac_pair_draw(struct kfac_pair *p)
{
    for (int i = 0; i < KFAC_PAIR_LAYERS; i++) {
        struct kfac_pair_layer *o = &p->one[i];
        if (i == 2)
            test_fill_integers(p->h, &o->a, 6);
        else
            test_fill_normal(p->h, &o->a, 0.2, 1);
        test_fill_normal(p->h, &o->d, 0, 1);
        test_fill_normal(p->h, &o->weight, 0, 1);
        test_fill_normal(p->h, &o->bias, 0, 1);
    }
}

/* ---- Both sides ----------------------------------------------------------------------------- */

bool kfac_pair_open(struct harness *h, struct kfac_pair *p, const struct kfac_pair_row *row)
{
    const gram_context_options cpu = GRAM_CONTEXT_OPTIONS_INIT;
    gram_kfac_options options = GRAM_KFAC_OPTIONS_INIT;
    const gram_layer *layers[KFAC_PAIR_LAYERS];
    bool made;

    *p = (struct kfac_pair){.h = h};
    options.damping = (gram_kfac_damping)row->damping;
    options.setting = (gram_kfac_setting)row->setting;
    options.corrected = row->corrected;
    options.state = row->state;
    options.kl_clip = row->kl_clip;
    describe(p);
    for (int i = 0; i < KFAC_PAIR_LAYERS; i++) {
        create_one(p, i, row->dtype);
        layers[i] = &p->one[i].layer;
    }
    p->gpu.g = h->g;
    made = CHECK(h, gram_context_create(&cpu, &p->cpu.g) == GRAM_OK, "no context of the CPU");
    made = made && CHECK(h,
                         gram_kfac_create(p->cpu.g, layers, p->inputs, p->outputs, KFAC_PAIR_LAYERS,
                                          &options, &p->cpu.kfac) == GRAM_OK,
                         "%s", gram_message(p->cpu.g));
    return made && CHECK(h,
                         gram_kfac_create(p->gpu.g, layers, p->inputs, p->outputs, KFAC_PAIR_LAYERS,
                                          &options, &p->gpu.kfac) == GRAM_OK,
                         "%s", gram_message(p->gpu.g));
}

void kfac_pair_close(struct kfac_pair *p)
{
    gram_kfac_destroy(p->cpu.kfac);
    gram_kfac_destroy(p->gpu.kfac);
    if (p->cpu.g)
        gram_context_destroy(p->cpu.g);
    for (int i = 0; i < KFAC_PAIR_LAYERS; i++) {
        struct kfac_pair_layer *o = &p->one[i];
        test_tensor_destroy(p->h, &o->a, "a");
        test_tensor_destroy(p->h, &o->d, "d");
        test_tensor_destroy(p->h, &o->weight, "weight");
        test_tensor_destroy(p->h, &o->to_weight, "to_weight");
        test_tensor_destroy(p->h, &o->bias, "bias");
        test_tensor_destroy(p->h, &o->to_bias, "to_bias");
    }
}

void kfac_pair_learn(struct kfac_pair *p)
{
    for (int i = 0; i < KFAC_PAIR_LAYERS; i++) {
        struct kfac_pair_layer *o = &p->one[i];
        struct test_copy a, d;
        CHECK(p->h, gram_kfac_update(p->cpu.g, p->cpu.kfac, i, &o->a.t, &o->d.t) == GRAM_OK, "%s",
              gram_message(p->cpu.g));
        if (test_send(p->h, &o->a, &a) && test_send(p->h, &o->d, &d))
            CHECK(p->h, gram_kfac_update(p->gpu.g, p->gpu.kfac, i, &a.t, &d.t) == GRAM_OK, "%s",
                  gram_message(p->gpu.g));
        CHECK(p->h, gram_context_synchronize(p->gpu.g) == GRAM_OK, "%s", gram_message(p->gpu.g));
        test_fetch(p->h, &o->a, &a);
        test_fetch(p->h, &o->d, &d);
    }
}

void kfac_pair_refresh(struct kfac_pair *p)
{
    CHECK(p->h, gram_kfac_refresh(p->cpu.g, p->cpu.kfac) == GRAM_OK, "%s", gram_message(p->cpu.g));
    CHECK(p->h, gram_kfac_refresh(p->gpu.g, p->gpu.kfac) == GRAM_OK, "%s", gram_message(p->gpu.g));
}

gram_status kfac_pair_direct(struct kfac_pair *p, bool on_gpu)
{
    struct test_copy from[KFAC_PAIR_LAYERS][2], to[KFAC_PAIR_LAYERS][2];
    const gram_tensor *weights[KFAC_PAIR_LAYERS], *biases[KFAC_PAIR_LAYERS];
    gram_tensor *to_weights[KFAC_PAIR_LAYERS], *to_biases[KFAC_PAIR_LAYERS];
    const struct kfac_pair_side *s = on_gpu ? &p->gpu : &p->cpu;
    gram_status status;

    for (int i = 0; i < KFAC_PAIR_LAYERS; i++) {
        struct kfac_pair_layer *o = &p->one[i];
        struct test_tensor *const in[2] = {&o->weight, &o->bias};
        struct test_tensor *const out[2] = {&o->to_weight, &o->to_bias};
        for (int j = 0; j < 2; j++) {
            from[i][j].t = in[j]->t, to[i][j].t = out[j]->t;
            if (on_gpu &&
                (!test_send(p->h, in[j], &from[i][j]) || !test_send(p->h, out[j], &to[i][j])))
                return GRAM_OUT_OF_MEMORY;
        }
        weights[i] = &from[i][0].t, to_weights[i] = &to[i][0].t;
        biases[i] = has_bias(i) ? &from[i][1].t : NULL;
        to_biases[i] = has_bias(i) ? &to[i][1].t : NULL;
    }
    status = gram_kfac_precondition(s->g, s->kfac, 0.5, weights, biases, to_weights, to_biases);
    CHECK(p->h, gram_context_synchronize(s->g) == GRAM_OK, "%s", gram_message(s->g));
    for (int i = 0; on_gpu && i < KFAC_PAIR_LAYERS; i++) {
        test_fetch(p->h, &p->one[i].weight, &from[i][0]);
        test_fetch(p->h, &p->one[i].bias, &from[i][1]);
        test_fetch(p->h, &p->one[i].to_weight, &to[i][0]);
        test_fetch(p->h, &p->one[i].to_bias, &to[i][1]);
    }
    return status;
}

double kfac_pair_number(const struct kfac_pair_layer *o, int64_t e)
{
    const int64_t count = test_count(&o->to_weight.t);

    return e < count ? test_at(&o->to_weight.t, e) : test_at(&o->to_bias.t, e - count);
}

int64_t kfac_pair_numbers(const struct kfac_pair *p, int i)
{
    return test_count(&p->one[i].to_weight.t) + (has_bias(i) ? p->outputs[i] : 0);
}

void kfac_pair_compare(struct kfac_pair *p, double bound)
{
    double want[KFAC_PAIR_LAYERS][128];
    gram_kfac_info cpu = {.size = sizeof cpu}, gpu = cpu;

    CHECK(p->h, kfac_pair_direct(p, false) == GRAM_OK, "%s", gram_message(p->cpu.g));
    for (int i = 0; i < KFAC_PAIR_LAYERS; i++)
        for (int64_t e = 0; e < kfac_pair_numbers(p, i); e++)
            want[i][e] = kfac_pair_number(&p->one[i], e);
    CHECK(p->h, kfac_pair_direct(p, true) == GRAM_OK, "%s", gram_message(p->gpu.g));
    for (int i = 0; i < KFAC_PAIR_LAYERS; i++) {
        double most = 0;
        for (int64_t e = 0; e < kfac_pair_numbers(p, i); e++)
            most = fmax(most, fabs(want[i][e]));
        for (int64_t e = 0; e < kfac_pair_numbers(p, i); e++)
            CHECK(p->h, fabs(kfac_pair_number(&p->one[i], e) - want[i][e]) <= bound * most,
                  "layer %d, number %d: %.12g, the CPU has %.12g", i, (int)e,
                  kfac_pair_number(&p->one[i], e), want[i][e]);
    }
    CHECK(p->h, gram_kfac_get(p->cpu.g, p->cpu.kfac, &cpu) == GRAM_OK, "%s",
          gram_message(p->cpu.g));
    CHECK(p->h, gram_kfac_get(p->gpu.g, p->gpu.kfac, &gpu) == GRAM_OK, "%s",
          gram_message(p->gpu.g));
    CHECK(p->h, fabs(gpu.nu - cpu.nu) <= bound * cpu.nu, "nu is %.12g, of the CPU %.12g", gpu.nu,
          cpu.nu);
    CHECK(p->h, gpu.skipped == cpu.skipped && gpu.failed == cpu.failed,
          "%d skipped, %d failed, of the CPU %d and %d", (int)gpu.skipped, (int)gpu.failed,
          (int)cpu.skipped, (int)cpu.failed);
}
