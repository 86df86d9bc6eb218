/*
 * kfac.c - gram_kfac: its options and memory, its state for the caller and in files
 *
 * A file has the texts "format" (gram.kfac.1) and "version", and as arrays the parts of the state
 * that gram_kfac_state_at names.  It is believed only after everything in it was checked: the
 * names, dtypes and shapes are those of the object, its numbers are finite and its counts make
 * sense.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac.h"
#include "core/model_file.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "gram.kfac.1"

enum {
    MOST_NUMBERS = INT32_MAX, /* along a side of a matrix */
    SAMPLE_NUMBERS = 1 << 16  /* least room for gradients of samples, a block of them at a time */
};

/* ---- Options -------------------------------------------------------------------------------- */

static gram_status check_options(gram_context *g, gram_kfac_options *o)
{
    if (!g->backend->kfac_pass)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    if (o->state != GRAM_F64 && o->state != GRAM_F32)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.state is %d, expected GRAM_F64 or GRAM_F32", (int)o->state);
    if (!(o->lambda > 0 && o->lambda < INFINITY))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.lambda is %g, expected a finite number of more than 0",
                         o->lambda);
    if (!(o->decay >= 0 && o->decay <= 1))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.decay is %g, expected 0 to 1",
                         o->decay);
    if (!(o->kl_clip >= 0))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.kl_clip is %g, expected at least 0",
                         o->kl_clip);
    if (!isfinite(o->scale))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.scale is %g, expected a finite number",
                         o->scale);
    if (o->damping != GRAM_KFAC_FACTORED && o->damping != GRAM_KFAC_EXACT)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.damping is %d, expected GRAM_KFAC_FACTORED or GRAM_KFAC_EXACT",
                         (int)o->damping);
    if (o->setting != GRAM_KFAC_EXPAND && o->setting != GRAM_KFAC_REDUCE)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.setting is %d, expected GRAM_KFAC_EXPAND or GRAM_KFAC_REDUCE",
                         (int)o->setting);
    o->corrected = o->corrected != 0;
    if (o->corrected)
        o->damping = GRAM_KFAC_EXACT;
    return GRAM_OK;
}

gram_status gram_kfac_check_context(gram_context *g, const gram_kfac *k)
{
    if (!k)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "kfac is NULL");
    if (k->owner ? k->owner != g : g->options.device.type != GRAM_CPU)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "kfac was created with another context, expected %s",
                         k->owner ? "that context" : "a context on the CPU");
    return GRAM_OK;
}

gram_status gram_kfac_set(gram_context *g, gram_kfac *kfac, const gram_kfac_options *options)
{
    gram_kfac_options o = GRAM_KFAC_OPTIONS_INIT;

    TRY(gram_begin(g, __func__));
    TRY(gram_kfac_check_context(g, kfac));
    TRY(gram_options_copy(g, &o, sizeof o, options));
    TRY(check_options(g, &o));
    if (o.corrected != kfac->options.corrected || o.damping != kfac->options.damping ||
        o.setting != kfac->options.setting || o.state != kfac->options.state)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.corrected, damping, setting and state are %d, %d, %d and %d, "
                         "expected those with which kfac was created, %d, %d, %d and %d",
                         o.corrected, (int)o.damping, (int)o.setting, (int)o.state,
                         kfac->options.corrected, (int)kfac->options.damping,
                         (int)kfac->options.setting, (int)kfac->options.state);
    kfac->options = o;
    return GRAM_OK;
}

/* ---- Layers --------------------------------------------------------------------------------- */

static gram_status check_size(gram_context *g, const char *name, int64_t index, int64_t size)
{
    if (size < 1 || size > MOST_NUMBERS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s[%lld] is %lld, expected 1 to %d", name,
                         (long long)index, (long long)size, MOST_NUMBERS);
    return GRAM_OK;
}

static gram_status describe_convolution(gram_context *g, struct kfac_layer *l, int64_t index)
{
    int64_t patch = l->cols;

    l->groups = l->layer.groups;
    if (l->layer.spatial < 1 || l->layer.spatial > 3 || l->groups < 1 || l->cols % l->groups ||
        l->rows % l->groups)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "layers[%lld] is a convolution in %d dimensions with %lld groups, %lld "
                         "inputs and %lld outputs, expected 1 to 3 dimensions, and a number of "
                         "groups that divides both others",
                         (long long)index, l->layer.spatial, (long long)l->groups,
                         (long long)l->cols, (long long)l->rows);
    patch /= l->groups;
    for (int i = 0; i < l->layer.spatial; i++)
        if (l->layer.kernel[i] < 1 || __builtin_mul_overflow(patch, l->layer.kernel[i], &patch))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "the kernel of layers[%lld] has size %lld in dimension %d, expected "
                             "at least 1, and a patch whose size does not overflow",
                             (long long)index, (long long)l->layer.kernel[i], i);
    l->cols = patch;
    l->rows /= l->groups;
    return check_size(g, "the patch of layers", index, patch);
}

static gram_status describe_layer(gram_context *g, const gram_layer *layer, int64_t index,
                                  const int64_t sizes[2], struct kfac_layer *l)
{
    if (!layer || layer->size == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "layers[%lld] %s", (long long)index,
                         layer ? "has size 0, expected GRAM_LAYER_INIT" : "NULL");
    TRY(gram_options_copy(g, &l->layer, sizeof l->layer, layer));
    if (l->layer.kind != GRAM_LAYER_LINEAR && l->layer.kind != GRAM_LAYER_CONVOLUTION &&
        l->layer.kind != GRAM_LAYER_EMBEDDING)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "layers[%lld] has kind %d, which has no Kronecker factors",
                         (long long)index, (int)l->layer.kind);
    l->diagonal = l->layer.kind == GRAM_LAYER_EMBEDDING;
    l->groups = 1;
    l->inputs = l->cols = l->diagonal ? l->layer.rows : sizes[0];
    l->outputs = l->rows = sizes[1];
    TRY(check_size(g, l->diagonal ? "the rows of layers" : "inputs", index, l->cols));
    TRY(check_size(g, "outputs", index, l->rows));
    if (l->diagonal && l->layer.bias)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "layers[%lld] is an embedding with a bias, but an embedding has no bias",
                         (long long)index);
    if (l->layer.kind == GRAM_LAYER_CONVOLUTION)
        TRY(describe_convolution(g, l, index));
    l->cols += l->layer.bias != 0;
    return GRAM_OK;
}

struct gram_batch gram_kfac_weight_shape(const struct kfac_layer *l)
{
    struct gram_batch s = {.ndim = 2, .count = l->outputs * l->inputs};

    s.shape[0] = l->diagonal ? l->inputs : l->outputs;
    s.shape[1] = l->diagonal ? l->outputs : l->inputs / l->groups;
    if (l->layer.kind == GRAM_LAYER_CONVOLUTION)
        for (int i = 0; i < l->layer.spatial; i++)
            s.shape[s.ndim++] = l->layer.kernel[i];
    return s;
}

gram_tensor gram_kfac_dense(const gram_kfac *k, void *numbers, const struct gram_batch *shape,
                            gram_dtype dtype)
{
    gram_tensor t = {.data = numbers, .dtype = dtype, .ndim = shape->ndim};
    int64_t step = 1;

    if (k->owner)
        t.device = k->owner->options.device;
    memcpy(t.shape, shape->shape, sizeof t.shape);
    for (int i = t.ndim - 1; i >= 0; step *= t.shape[i--])
        t.stride[i] = step;
    return t;
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* Adds the numbers of a layer's state, and raises *most to its largest matrix; false: they
 * overflow. */
static bool count_layer(const gram_kfac *k, struct kfac_layer *l, int64_t *numbers, int64_t *most)
{
    double a =
        l->diagonal ? (double)l->cols : (double)l->groups * (double)l->cols * (double)l->cols;
    double b = (double)l->groups * (double)l->rows * (double)l->rows;
    double m = (double)l->groups * (double)l->rows * (double)l->cols;
    double all = 2 * (a + b) + 2 * m + (double)l->groups * (double)(l->rows + l->cols);

    l->corrected = k->options.corrected && !l->diagonal;
    if (!(all < 0x1p56))
        return false;
    *numbers += 2 * (kfac_a_count(l) + kfac_b_count(l)) + l->groups * (l->rows + l->cols) +
                (l->corrected ? kfac_m_count(l) : 0);
    *most = gram_most(*most, gram_most(kfac_m_count(l), kfac_b_count(l)));
    *most = gram_most(*most, l->diagonal ? l->cols : kfac_a_count(l));
    return *numbers < (int64_t)1 << 58;
}

/* Adds a part to the state, which takes its numbers from the memory at *at. */
static void *add_state(gram_kfac *k, int64_t layer, const char *part, const int64_t shape[3],
                       char **at)
{
    struct kfac_state *s = &k->state[k->states++];
    char *memory = *at;
    gram_tensor t = {.data = memory, .dtype = k->options.state};
    int64_t count = 1;

    if (k->owner)
        t.device = k->owner->options.device;
    (void)snprintf(s->name, sizeof s->name, "%lld.%s", (long long)layer, part);
    for (int i = 0; i < 3; i++)
        if (shape[i] > 0)
            t.shape[t.ndim++] = shape[i];
    for (int i = t.ndim - 1; i >= 0; count *= t.shape[i--])
        t.stride[i] = count;
    s->view = t;
    *at += (size_t)count * gram_dtype_size(t.dtype);
    return memory;
}

static void place_layer(gram_kfac *k, int64_t index, char **at)
{
    struct kfac_layer *l = &k->layer[index];
    bool exact = k->options.damping == GRAM_KFAC_EXACT;
    int64_t groups = l->groups > 1 ? l->groups : 0;
    const int64_t a[3] = {groups, l->cols, l->diagonal ? 0 : l->cols};
    const int64_t b[3] = {groups, l->rows, l->rows}, m[3] = {groups, l->rows, l->cols};
    struct kfac_state *counts;

    l->a = add_state(k, index, "a", a, at);
    l->b = add_state(k, index, "b", b, at);
    if (!l->diagonal)
        l->a_inverse = add_state(k, index, exact ? "a_vectors" : "a_inverse", a, at);
    l->b_inverse = add_state(k, index, exact ? "b_vectors" : "b_inverse", b, at);
    if (exact || l->diagonal)
        l->a_values = add_state(k, index, exact ? "a_values" : "a_inverse",
                                (int64_t[3]){groups, l->cols}, at);
    if (exact)
        l->b_values = add_state(k, index, "b_values", (int64_t[3]){groups, l->rows}, at);
    if (l->corrected)
        l->corrections = add_state(k, index, "corrections", m, at);
    counts = &k->state[k->states++];
    (void)snprintf(counts->name, sizeof counts->name, "%lld.counts", (long long)index);
    l->counts = k->counts + index * KFAC_COUNTS;
    counts->view = gram_vector(l->counts, KFAC_COUNTS, GRAM_I64);
    if (k->owner)
        counts->view.device = k->owner->options.device;
}

/* Allocates zeros for k->numbers numbers, and behind them the counts of the layers, the report and
 * the outcomes of factorisations. */
static gram_status allocate_memory(gram_context *g, gram_kfac *k)
{
    const bool on_host = g->options.device.type == GRAM_CPU;
    const size_t numbers = (size_t)k->numbers * gram_dtype_size(k->options.state);
    const size_t counts = (size_t)k->count * KFAC_COUNTS * sizeof *k->counts;
    const size_t report = on_host ? offsetof(struct kfac_report, part) : sizeof *k->report;
    const double one = 1;

    for (int64_t i = 0; i < k->count; i++)
        k->most_groups = gram_most(k->most_groups, k->layer[i].groups);
    k->bytes = numbers + counts + report + (size_t)k->most_groups * 2 * sizeof *k->info;
    if (on_host) {
        k->gradients = calloc(1, k->bytes);
        if (!k->gradients)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld numbers of state",
                             (long long)k->numbers);
    } else {
        k->owner = g;
        TRY(g->backend->memory_allocate(g, k->bytes, &k->gradients));
        TRY(g->backend->memory_zero(g, k->gradients, k->bytes));
    }
    k->counts = (int64_t *)(void *)((char *)k->gradients + numbers);
    k->report = (void *)((char *)k->counts + counts);
    k->info = (int32_t *)(void *)((char *)k->report + report);
    if (on_host) {
        k->report->nu = one;
        return GRAM_OK;
    }
    TRY(g->backend->memory_copy(g, &k->report->nu, &one, sizeof one));
    return g->backend->synchronize(g);
}

static int64_t whole_steps(int64_t numbers)
{
    return gram_ceil_div(numbers, KFAC_STEP) * KFAC_STEP;
}

static gram_status allocate(gram_context *g, gram_kfac *k)
{
    const int64_t size = (int64_t)gram_dtype_size(k->options.state);
    int64_t numbers = 0, most = SAMPLE_NUMBERS;
    char *at;

    for (int64_t i = 0; i < k->count; i++) {
        if (!count_layer(k, &k->layer[i], &numbers, &most))
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "the bytes of the state overflow");
        k->parameters += kfac_m_count(&k->layer[i]);
    }
    most = whole_steps(most);
    k->numbers = whole_steps(k->parameters) + KFAC_WORKS * most + whole_steps(numbers);
    k->work_count = most;
    k->state = calloc((size_t)k->count * 8 + 1, sizeof *k->state);
    if (!k->state)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the names of %lld layers",
                         (long long)k->count);
    TRY(allocate_memory(g, k));
    at = k->gradients;
    for (int64_t i = 0; i < k->count; at += kfac_m_count(&k->layer[i++]) * size)
        k->layer[i].gradient = at;
    at = (char *)k->gradients + whole_steps(k->parameters) * size;
    for (int i = 0; i < KFAC_WORKS; i++, at += most * size)
        k->work[i] = at;
    for (int64_t i = 0; i < k->count; i++)
        place_layer(k, i, &at);
    return GRAM_OK;
}

static gram_status build(gram_context *g, gram_kfac *k, const gram_layer *const *layers,
                         const int64_t *inputs, const int64_t *outputs)
{
    k->layer = calloc((size_t)k->count + 1, sizeof *k->layer);
    if (!k->layer)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld layers", (long long)k->count);
    for (int64_t i = 0; i < k->count; i++) {
        const gram_layer defaults = GRAM_LAYER_INIT;
        k->layer[i].layer = defaults;
        TRY(describe_layer(g, layers[i], i, (int64_t[2]){inputs[i], outputs[i]}, &k->layer[i]));
    }
    return allocate(g, k);
}

gram_status gram_kfac_create(gram_context *g, const gram_layer *const *layers,
                             const int64_t *inputs, const int64_t *outputs, int64_t count,
                             const gram_kfac_options *options, gram_kfac **out)
{
    gram_kfac_options o = GRAM_KFAC_OPTIONS_INIT;
    gram_status status;
    gram_kfac *k;

    TRY(gram_begin(g, __func__));
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    if (count < 0 || count > MOST_NUMBERS || (count > 0 && (!layers || !inputs || !outputs)))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "count is %lld, expected at least 0, and layers, inputs and outputs that "
                         "are not NULL",
                         (long long)count);
    TRY(gram_options_copy(g, &o, sizeof o, options));
    TRY(check_options(g, &o));
    k = calloc(1, sizeof *k);
    if (!k)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the object");
    k->options = o;
    k->count = count;
    status = build(g, k, layers, inputs, outputs);
    if (status == GRAM_OK)
        *out = k;
    else
        gram_kfac_destroy(k);
    return status;
}

void gram_kfac_destroy(gram_kfac *kfac)
{
    if (!kfac)
        return;
    if (kfac->owner && kfac->gradients)
        kfac->owner->backend->memory_free(kfac->owner, kfac->gradients);
    else
        free(kfac->gradients);
    free(kfac->state);
    free(kfac->layer);
    free(kfac);
}

/* ---- Queries -------------------------------------------------------------------------------- */

gram_status gram_kfac_get(gram_context *g, const gram_kfac *kfac, gram_kfac_info *info)
{
    struct kfac_report on_device;
    const struct kfac_report *found;
    gram_kfac_info all;

    TRY(gram_begin(g, __func__));
    if (!info || info->size < sizeof info->size)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "info is NULL, or info.size is too small");
    TRY(gram_kfac_check_context(g, kfac));
    found = kfac->report;
    if (kfac->owner) {
        TRY(g->backend->memory_copy(g, &on_device, kfac->report, sizeof on_device));
        TRY(g->backend->synchronize(g));
        found = &on_device;
    }
    all = (gram_kfac_info){
        .size = info->size,
        .layers = kfac->count,
        .parameters = kfac->parameters,
        .bytes = (int64_t)(sizeof *kfac + (size_t)kfac->count * sizeof *kfac->layer +
                           (size_t)kfac->count * 8 * sizeof *kfac->state + kfac->bytes),
        .states = kfac->states,
        .skipped = found->skipped,
        .failed = found->failed,
        .nu = found->nu,
    };
    memcpy(info, &all, info->size < sizeof all ? info->size : sizeof all);
    return GRAM_OK;
}

gram_status gram_kfac_state_at(gram_context *g, gram_kfac *kfac, int64_t index, const char **name,
                               gram_tensor *view)
{
    TRY(gram_begin(g, __func__));
    if (!kfac)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "kfac is NULL");
    if (index < 0 || index >= kfac->states || !name || !view)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "index is %lld, expected 0 to %lld",
                         (long long)index, (long long)kfac->states - 1);
    *name = kfac->state[index].name;
    *view = kfac->state[index].view;
    return GRAM_OK;
}

/* ---- Parts of the state from the caller ----------------------------------------------------- */

static int64_t count_of(const gram_tensor *t)
{
    int64_t count = 1;

    for (int i = 0; i < t->ndim; i++)
        count *= t->shape[i];
    return count;
}

/* False if no object could have these counts. */
static bool counts_hold(const int64_t *counts)
{
    bool ready = counts[KFAC_READY] == 1;

    for (int i = 0; i < KFAC_COUNTS; i++)
        if (counts[i] < 0 || counts[i] > (int64_t)1 << 62)
            return false;
    return counts[KFAC_READY] <= 1 &&
           (!ready || (counts[KFAC_A_UPDATES] > 0 && counts[KFAC_B_UPDATES] > 0));
}

/* True if a tensor has the dtype and shape of the view and lies on the CPU without gaps. */
static bool is_like(const gram_tensor *t, const gram_tensor *view)
{
    bool same =
        t->dtype == view->dtype && t->ndim == view->ndim && t->data && t->device.type == GRAM_CPU;

    for (int i = 0; same && i < t->ndim; i++)
        same =
            t->shape[i] == view->shape[i] && (t->shape[i] < 2 || t->stride[i] == view->stride[i]);
    return same;
}

gram_status gram_kfac_put(gram_context *g, gram_kfac *kfac, int64_t index, const gram_tensor *part)
{
    const struct kfac_state *s;
    int64_t count;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_kfac_check_context(g, kfac));
    if (index < 0 || index >= kfac->states || !part)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "index is %lld, expected 0 to %lld, and a part that is not NULL",
                         (long long)index, (long long)kfac->states - 1);
    s = &kfac->state[index];
    count = count_of(&s->view);
    if (!is_like(part, &s->view))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "part is another kind of tensor, expected %lld elements of %s on the CPU "
                         "without gaps, with the shape of %s",
                         (long long)count, gram_dtype_name(s->view.dtype), s->name);
    if (part->dtype == GRAM_I64 ? !counts_hold(part->data)
                                : !gram_kfac_finite(count, part->data, part->dtype, part->dtype))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "part holds values that are not valid for %s",
                         s->name);
    bytes = (size_t)count * gram_dtype_size(s->view.dtype);
    if (!kfac->owner) {
        memmove(s->view.data, part->data, bytes);
        return GRAM_OK;
    }
    TRY(g->backend->memory_copy(g, s->view.data, part->data, bytes));
    TRY(g->backend->synchronize(g));
    if (s->view.dtype == GRAM_I64) {
        int64_t layer = ((const int64_t *)s->view.data - kfac->counts) / KFAC_COUNTS;
        memcpy(kfac->layer[layer].queued, part->data, bytes);
    }
    return GRAM_OK;
}

/* ---- Files ---------------------------------------------------------------------------------- */

/* *image becomes the object's memory, or a copy of it where that is on a device. */
static gram_status open_image(gram_context *g, const gram_kfac *k, char **image)
{
    gram_status status;

    *image = (char *)k->gradients;
    if (!k->owner)
        return GRAM_OK;
    *image = gram_alloc(g, k->bytes);
    if (!*image)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", k->bytes);
    status = g->backend->memory_copy(g, *image, k->gradients, k->bytes);
    if (status == GRAM_OK)
        status = g->backend->synchronize(g);
    if (status != GRAM_OK)
        gram_free(g, *image, k->bytes);
    return status;
}

static void close_image(gram_context *g, const gram_kfac *k, char *image)
{
    if (k->owner)
        gram_free(g, image, k->bytes);
}

/* Where a part of the state lies in the image. */
static void *part_of(const gram_kfac *k, char *image, const gram_tensor *t)
{
    return k->owner ? image + ((char *)t->data - (char *)k->gradients) : t->data;
}

gram_status gram_kfac_save(gram_context *g, const gram_kfac *kfac, const char *path)
{
    struct gram_model_writer *w;
    gram_status status;
    char *image;

    TRY(gram_begin(g, __func__));
    if (!path)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "path is NULL");
    TRY(gram_kfac_check_context(g, kfac));
    TRY(open_image(g, kfac, &image));
    w = gram_model_writer_create();
    gram_model_put_text(w, "format", FORMAT);
    gram_model_put_text(w, "version", gram_version());
    for (int64_t i = 0; i < kfac->states; i++) {
        const gram_tensor *t = &kfac->state[i].view;
        gram_model_put(w, kfac->state[i].name, (int)t->dtype, t->ndim, t->shape,
                       part_of(kfac, image, t));
    }
    status = gram_model_commit(g, w, path);
    gram_model_writer_destroy(w);
    close_image(g, kfac, image);
    return status;
}

static gram_status check_parts(gram_context *g, const gram_kfac *k,
                               const struct gram_model_file *file)
{
    const char *format = gram_model_text(file, "format");

    if (!format || strcmp(format, FORMAT) != 0)
        return gram_model_bad(g, file, "it is not a state of gram_kfac");
    for (int64_t i = 0; i < k->states; i++) {
        const gram_tensor *t = &k->state[i].view;
        const struct gram_model_array *a;
        TRY(gram_model_need(g, file, k->state[i].name, (int)t->dtype, t->ndim, t->shape, &a));
        if (t->dtype == GRAM_I64 ? !counts_hold(a->data)
                                 : !gram_kfac_finite(count_of(t), a->data, t->dtype, t->dtype))
            return gram_model_bad(g, file, "%s holds values that are not valid", a->name);
    }
    return GRAM_OK;
}

static void take_parts(gram_kfac *k, const struct gram_model_file *file, char *image)
{
    for (int64_t i = 0; i < k->states; i++) {
        const gram_tensor *t = &k->state[i].view;
        memcpy(part_of(k, image, t), gram_model_find(file, k->state[i].name)->data,
               (size_t)count_of(t) * gram_dtype_size(t->dtype));
    }
    for (int64_t i = 0; k->owner && i < k->count; i++)
        memcpy(k->layer[i].queued, image + ((char *)k->layer[i].counts - (char *)k->gradients),
               sizeof k->layer[i].queued);
}

gram_status gram_kfac_load(gram_context *g, gram_kfac *kfac, const char *path)
{
    struct gram_model_file *file;
    gram_status status;
    char *image;

    TRY(gram_begin(g, __func__));
    if (!path)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "path is NULL");
    TRY(gram_kfac_check_context(g, kfac));
    TRY(gram_model_read(g, path, &file));
    status = check_parts(g, kfac, file);
    if (status == GRAM_OK)
        status = open_image(g, kfac, &image);
    if (status == GRAM_OK) {
        take_parts(kfac, file, image);
        if (kfac->owner)
            status = g->backend->memory_copy(g, kfac->gradients, image, kfac->bytes);
        if (kfac->owner && status == GRAM_OK)
            status = g->backend->synchronize(g);
        close_image(g, kfac, image);
    }
    gram_model_file_destroy(file);
    return status;
}
