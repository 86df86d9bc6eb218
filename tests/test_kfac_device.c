/*
 * test_kfac_device.c - gram_kfac on a device beside the CPU: the same directions, the same trouble
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LAYERS = 4,
    SAMPLES = 5,
    STEPS = 3
};

/* A layer with its tensors: what goes in, gradients of what comes out, of weight and bias. */
struct one {
    gram_layer layer;
    struct test_tensor a, d, weight, bias, to_weight, to_bias;
};

struct side {
    gram_context *g;
    gram_kfac *kfac;
};

struct pair {
    struct harness *h;
    struct one one[LAYERS];
    int64_t inputs[LAYERS], outputs[LAYERS];
    struct side cpu, gpu;
};

static const struct row {
    const char *why;
    gram_dtype dtype;
    gram_kfac_damping damping;
    gram_kfac_setting setting;
    double kl_clip, bound;
} rows[] = {
    {           "by Cholesky", GRAM_F64, GRAM_KFAC_FACTORED, GRAM_KFAC_EXPAND,    0, 1e-6},
    {         "in f32, short", GRAM_F32, GRAM_KFAC_FACTORED, GRAM_KFAC_REDUCE, 1e-5, 2e-3},
    {"by eigenvectors, short", GRAM_F64,    GRAM_KFAC_EXACT, GRAM_KFAC_EXPAND, 1e-5, 1e-6},
};

/* ---- Layers --------------------------------------------------------------------------------- */

static void describe(struct pair *p)
{
    const gram_layer plain = GRAM_LAYER_INIT;

    for (int i = 0; i < LAYERS; i++) {
        p->one[i].layer = plain;
        p->one[i].layer.bias = i < 2;
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
}

static void create_one(struct pair *p, int i, gram_dtype dtype)
{
    /* clang-format off */
    static const int64_t a[LAYERS][4] = {{SAMPLES, 2, 7}, {SAMPLES, 4, 5, 4}, {SAMPLES, 3},
                                         {SAMPLES, 3}};
    static const int64_t d[LAYERS][4] = {{SAMPLES, 2, 4}, {SAMPLES, 6, 5, 4}, {SAMPLES, 3, 3},
                                         {SAMPLES, 40}};
    static const int64_t weight[LAYERS][4] = {{4, 7}, {6, 2, 3, 1}, {6, 3}, {40, 3}};
    static const int dims[LAYERS][3] = {{3, 3, 2}, {4, 4, 4}, {2, 3, 2}, {2, 2, 2}};
    /* clang-format on */
    struct one *o = &p->one[i];
    const int64_t *bias = &p->outputs[i];

    test_tensor_create(p->h, &o->a, i == 2 ? GRAM_I64 : dtype, ROW_MAJOR, dims[i][0], a[i]);
    test_tensor_create(p->h, &o->d, dtype, PADDED, dims[i][1], d[i]);
    test_tensor_create(p->h, &o->weight, dtype, COLUMN_MAJOR, dims[i][2], weight[i]);
    test_tensor_create(p->h, &o->to_weight, dtype, REVERSED, dims[i][2], weight[i]);
    test_tensor_create(p->h, &o->bias, dtype, ROW_MAJOR, 1, bias);
    test_tensor_create(p->h, &o->to_bias, dtype, EVERY_SECOND, 1, bias);
}

static void draw(struct pair *p)
{
    for (int i = 0; i < LAYERS; i++) {
        struct one *o = &p->one[i];
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

static bool open_pair(struct harness *h, struct pair *p, const struct row *row)
{
    const gram_context_options cpu = GRAM_CONTEXT_OPTIONS_INIT;
    gram_kfac_options options = GRAM_KFAC_OPTIONS_INIT;
    const gram_layer *layers[LAYERS];
    bool made;

    *p = (struct pair){.h = h};
    options.damping = row->damping;
    options.setting = row->setting;
    options.kl_clip = row->kl_clip;
    describe(p);
    for (int i = 0; i < LAYERS; i++) {
        create_one(p, i, row->dtype);
        layers[i] = &p->one[i].layer;
    }
    p->gpu.g = h->g;
    made = CHECK(h, gram_context_create(&cpu, &p->cpu.g) == GRAM_OK, "no context of the CPU");
    made = made && CHECK(h,
                         gram_kfac_create(p->cpu.g, layers, p->inputs, p->outputs, LAYERS, &options,
                                          &p->cpu.kfac) == GRAM_OK,
                         "%s", gram_message(p->cpu.g));
    return made && CHECK(h,
                         gram_kfac_create(p->gpu.g, layers, p->inputs, p->outputs, LAYERS, &options,
                                          &p->gpu.kfac) == GRAM_OK,
                         "%s", gram_message(p->gpu.g));
}

static void close_pair(struct pair *p)
{
    gram_kfac_destroy(p->cpu.kfac);
    gram_kfac_destroy(p->gpu.kfac);
    if (p->cpu.g)
        gram_context_destroy(p->cpu.g);
    for (int i = 0; i < LAYERS; i++) {
        struct one *o = &p->one[i];
        test_tensor_destroy(p->h, &o->a, "a");
        test_tensor_destroy(p->h, &o->d, "d");
        test_tensor_destroy(p->h, &o->weight, "weight");
        test_tensor_destroy(p->h, &o->to_weight, "to_weight");
        test_tensor_destroy(p->h, &o->bias, "bias");
        test_tensor_destroy(p->h, &o->to_bias, "to_bias");
    }
}

static void learn(struct pair *p)
{
    for (int i = 0; i < LAYERS; i++) {
        struct one *o = &p->one[i];
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

static void refresh(struct pair *p)
{
    CHECK(p->h, gram_kfac_refresh(p->cpu.g, p->cpu.kfac) == GRAM_OK, "%s", gram_message(p->cpu.g));
    CHECK(p->h, gram_kfac_refresh(p->gpu.g, p->gpu.kfac) == GRAM_OK, "%s", gram_message(p->gpu.g));
}

/* Directions of a side to to_weight and to_bias; on the GPU by copies. */
static gram_status direct(struct pair *p, bool on_gpu)
{
    struct test_copy from[LAYERS][2], to[LAYERS][2];
    const gram_tensor *weights[LAYERS], *biases[LAYERS];
    gram_tensor *to_weights[LAYERS], *to_biases[LAYERS];
    const struct side *s = on_gpu ? &p->gpu : &p->cpu;
    gram_status status;

    for (int i = 0; i < LAYERS; i++) {
        struct one *o = &p->one[i];
        struct test_tensor *const in[2] = {&o->weight, &o->bias};
        struct test_tensor *const out[2] = {&o->to_weight, &o->to_bias};
        for (int j = 0; j < 2; j++) {
            from[i][j].t = in[j]->t, to[i][j].t = out[j]->t;
            if (on_gpu &&
                (!test_send(p->h, in[j], &from[i][j]) || !test_send(p->h, out[j], &to[i][j])))
                return GRAM_OUT_OF_MEMORY;
        }
        weights[i] = &from[i][0].t, to_weights[i] = &to[i][0].t;
        biases[i] = i < 2 ? &from[i][1].t : NULL, to_biases[i] = i < 2 ? &to[i][1].t : NULL;
    }
    status = gram_kfac_precondition(s->g, s->kfac, 0.5, weights, biases, to_weights, to_biases);
    CHECK(p->h, gram_context_synchronize(s->g) == GRAM_OK, "%s", gram_message(s->g));
    for (int i = 0; on_gpu && i < LAYERS; i++) {
        test_fetch(p->h, &p->one[i].weight, &from[i][0]);
        test_fetch(p->h, &p->one[i].bias, &from[i][1]);
        test_fetch(p->h, &p->one[i].to_weight, &to[i][0]);
        test_fetch(p->h, &p->one[i].to_bias, &to[i][1]);
    }
    return status;
}

static double number_of(const struct one *o, int64_t e)
{
    const int64_t count = test_count(&o->to_weight.t);

    return e < count ? test_at(&o->to_weight.t, e) : test_at(&o->to_bias.t, e - count);
}

static int64_t numbers_of(const struct pair *p, int i)
{
    return test_count(&p->one[i].to_weight.t) + (i < 2 ? p->outputs[i] : 0);
}

static void compare(struct pair *p, double bound)
{
    double want[LAYERS][128];
    gram_kfac_info cpu = {.size = sizeof cpu}, gpu = cpu;

    CHECK(p->h, direct(p, false) == GRAM_OK, "%s", gram_message(p->cpu.g));
    for (int i = 0; i < LAYERS; i++)
        for (int64_t e = 0; e < numbers_of(p, i); e++)
            want[i][e] = number_of(&p->one[i], e);
    CHECK(p->h, direct(p, true) == GRAM_OK, "%s", gram_message(p->gpu.g));
    for (int i = 0; i < LAYERS; i++) {
        double most = 0;
        for (int64_t e = 0; e < numbers_of(p, i); e++)
            most = fmax(most, fabs(want[i][e]));
        for (int64_t e = 0; e < numbers_of(p, i); e++)
            CHECK(p->h, fabs(number_of(&p->one[i], e) - want[i][e]) <= bound * most,
                  "layer %d, number %d: %.12g, the CPU has %.12g", i, (int)e,
                  number_of(&p->one[i], e), want[i][e]);
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

/* ---- Tests ---------------------------------------------------------------------------------- */

static void as_on_the_cpu(struct harness *h)
{
    struct pair p;

    for (int r = 0; r < LENGTH(rows); r++) {
        h->where = rows[r].why;
        if (open_pair(h, &p, &rows[r])) {
            draw(&p);
            compare(&p, rows[r].bound); /* before there are factors */
            for (int step = 0; step < STEPS; step++) {
                draw(&p);
                learn(&p);
                if (step != 1)
                    refresh(&p);
                compare(&p, rows[r].bound);
            }
        }
        close_pair(&p);
    }
}

/* What is not finite is left out; with a gradient of that kind a step is nothing. */
static void not_finite(struct harness *h)
{
    gram_kfac_info info = {.size = sizeof info};
    struct pair p;

    if (open_pair(h, &p, &rows[0])) {
        draw(&p);
        test_put(&p.one[0].d.t, 3, NAN);
        test_put(&p.one[3].a.t, 2, INFINITY);
        learn(&p);
        refresh(&p);
        compare(&p, rows[0].bound);
        draw(&p);
        learn(&p);
        refresh(&p);
        compare(&p, rows[0].bound);
        test_put(&p.one[1].weight.t, 5, NAN);
        CHECK(h, direct(&p, false) == GRAM_NUMERICAL, "a NaN on the CPU");
        CHECK(h, direct(&p, true) == (h->device.type == GRAM_CPU ? GRAM_NUMERICAL : GRAM_OK), "%s",
              gram_message(h->g));
        CHECK(h, gram_kfac_get(h->g, p.gpu.kfac, &info) == GRAM_OK, "%s", gram_message(h->g));
        if (h->device.type != GRAM_CPU) {
            for (int i = 0; i < LAYERS; i++)
                for (int64_t e = 0; e < numbers_of(&p, i); e++)
                    CHECK(h, number_of(&p.one[i], e) == 0, "layer %d, number %d is %g", i, (int)e,
                          number_of(&p.one[i], e));
            CHECK(h, info.nu == 0 && info.skipped == 3, "nu %g, %d skipped", info.nu,
                  (int)info.skipped);
        }
        test_put(&p.one[1].weight.t, 5, 1);
        CHECK(h, direct(&p, true) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, number_of(&p.one[1], 5) != 0, "the next step is nothing too");
    }
    close_pair(&p);
}

/* A factor without an inverse leaves what there was. */
static void kept(struct harness *h)
{
    gram_kfac_info info = {.size = sizeof info};
    struct test_tensor b;
    struct test_copy there;
    struct pair p;

    if (h->device.type != GRAM_CPU && open_pair(h, &p, &rows[0])) { /* the CPU has another way */
        draw(&p);
        learn(&p);
        refresh(&p);
        test_tensor_create(h, &b, GRAM_F64, ROW_MAJOR, 2, (const int64_t[]){4, 4});
        for (int i = 0; i < 16; i++)
            test_put(&b.t, i, i % 5 == 0 ? -1e6 : 0);
        CHECK(h, test_send(h, &b, &there), "no copy");
        CHECK(h, gram_kfac_feed(h->g, p.gpu.kfac, 0, NULL, &there.t) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, gram_kfac_refresh(h->g, p.gpu.kfac) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, gram_kfac_get(h->g, p.gpu.kfac, &info) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, info.failed == 1, "%d failed", (int)info.failed);
        CHECK(h, direct(&p, true) == GRAM_OK, "%s", gram_message(h->g));
        test_fetch(h, &b, &there);
        test_tensor_destroy(h, &b, "b_factor");
        CHECK(h, isfinite(number_of(&p.one[0], 0)), "%g", number_of(&p.one[0], 0));
        close_pair(&p);
    }
    CHECK(h, true, "ran");
}

static void travels(struct harness *h)
{
    char folder[] = "/tmp/gram-kfac-XXXXXX", path[64];
    struct pair p;

    if (open_pair(h, &p, &rows[0]) && CHECK(h, mkdtemp(folder) != NULL, "no folder")) {
        (void)snprintf(path, sizeof path, "%s/state", folder);
        for (int back = 0; back < 2; back++) {
            const struct side *from = back ? &p.gpu : &p.cpu, *to = back ? &p.cpu : &p.gpu;
            draw(&p);
            learn(&p);
            refresh(&p);
            CHECK(h, gram_kfac_refresh(from->g, from->kfac) == GRAM_OK, "%s",
                  gram_message(from->g));
            CHECK(h, gram_kfac_save(from->g, from->kfac, path) == GRAM_OK, "%s",
                  gram_message(from->g));
            CHECK(h, gram_kfac_load(to->g, to->kfac, path) == GRAM_OK, "%s", gram_message(to->g));
            compare(&p, 1e-9);
        }
        (void)unlink(path);
        (void)rmdir(folder);
    }
    close_pair(&p);
}

static void refused(struct harness *h)
{
    const gram_layer layer = GRAM_LAYER_INIT, *const layers[] = {&layer};
    gram_kfac_options options = GRAM_KFAC_OPTIONS_INIT;
    const int64_t size = 2;
    gram_kfac *kfac;
    struct pair p;

    options.corrected = 1;
    if (h->device.type != GRAM_CPU) {
        CHECK(h,
              gram_kfac_create(h->g, layers, &size, &size, 1, &options, &kfac) ==
                      GRAM_UNSUPPORTED &&
                  strstr(gram_message(h->g), "has no EKFAC"),
              "%s", gram_message(h->g));
        if (open_pair(h, &p, &rows[0])) {
            CHECK(h, gram_kfac_refresh(p.cpu.g, p.gpu.kfac) == GRAM_INVALID_ARGUMENT, "%s",
                  gram_message(p.cpu.g));
            CHECK(h, gram_kfac_refresh(p.gpu.g, p.cpu.kfac) == GRAM_INVALID_ARGUMENT, "%s",
                  gram_message(p.gpu.g));
        }
        close_pair(&p);
    }
    CHECK(h, true, "ran");
}

static const struct test_function tests[] = {
    {"as_on_the_cpu", as_on_the_cpu},
    {   "not_finite",    not_finite},
    {         "kept",          kept},
    {      "travels",       travels},
    {      "refused",       refused},
};

int main(void)
{
    return harness_run_tests_where_asked(tests, LENGTH(tests));
}
