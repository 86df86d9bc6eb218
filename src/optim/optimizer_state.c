/*
 * optimizer_state.c - an optimizer made and destroyed: its blocks, who does which, and their state
 *
 * The shape of a parameter is merged and cut into blocks, each of which belongs to one rank.  Its
 * method says which tensors of state a block has; they lie one after the other in one allocation,
 * behind the counts of steps and failures.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "optimizer.h"
#include <stdio.h>
#include <string.h>

/* ---- Shapes ---------------------------------------------------------------------------------- */

static void reverse(int64_t *list, int count)
{
    for (int i = 0; i < count / 2; i++) {
        int64_t other = list[i];
        list[i] = list[count - 1 - i];
        list[count - 1 - i] = other;
    }
}

/* From the right, while a product is at most options.block. */
static void merge_small(const gram_optimizer *o, struct gram_optimizer_parameter *p)
{
    for (int i = p->ndim - 1; i >= 0; i--) {
        int64_t product;
        if (p->shape[i] == 1)
            continue;
        if (p->order > 0 &&
            !__builtin_mul_overflow(p->merged[p->order - 1], p->shape[i], &product) &&
            product <= o->options.block)
            p->merged[p->order - 1] = product;
        else
            p->merged[p->order++] = p->shape[i];
    }
    reverse(p->merged, p->order);
}

static int64_t side(const gram_optimizer *o)
{
    return gram_optimizer_rules_of(o->options.method)->cut ? o->options.block : INT64_MAX;
}

static int64_t merge_shape(const gram_optimizer *o, struct gram_optimizer_parameter *p)
{
    int64_t blocks = 1;

    p->order = 0;
    if (p->count == 0)
        return 0;
    if (gram_optimizer_rules_of(o->options.method)->matrix) {
        p->order = p->ndim < 2 ? 0 : 2;
        p->merged[0] = p->ndim < 2 ? 0 : p->shape[0];
        p->merged[1] = p->ndim < 2 ? 0 : p->count / p->shape[0];
        if (p->ndim == 1)
            p->merged[p->order++] = p->count;
    } else if (o->options.merge) {
        merge_small(o, p);
    } else {
        for (; p->order < p->ndim; p->order++)
            p->merged[p->order] = p->shape[p->order];
    }
    if (p->order == 0)
        p->merged[p->order++] = 1;
    for (int i = 0; i < p->order; i++)
        if (__builtin_mul_overflow(blocks, gram_ceil_div(p->merged[i], side(o)), &blocks))
            return -1;
    return blocks;
}

static void cut_blocks(const gram_optimizer *o, const struct gram_optimizer_parameter *p,
                       int64_t parameter, struct gram_optimizer_block *blocks)
{
    int64_t most = side(o);

    for (int64_t number = 0; number < p->blocks; number++) {
        struct gram_optimizer_block *b = &blocks[number];
        int64_t rest = number;
        *b = (struct gram_optimizer_block){
            .parameter = parameter, .number = number, .order = p->order, .count = 1};
        for (int i = p->order - 1; i >= 0; i--) {
            int64_t pieces = gram_ceil_div(p->merged[i], most);
            b->start[i] = rest % pieces * most;
            b->size[i] = gram_least(most, p->merged[i] - b->start[i]);
            b->count *= b->size[i];
            rest /= pieces;
        }
    }
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

/* What its roots cost. */
static double cost(const struct gram_optimizer_block *b)
{
    double sum = 0;

    for (int i = 0; i < b->order; i++)
        sum += (double)b->size[i] * (double)b->size[i] * (double)b->size[i];
    return sum;
}

/* The next block in the order of falling costs, of equal ones the first, after block `after`. */
static int64_t next_dearest(const gram_optimizer *o, int64_t after)
{
    double before = after < 0 ? 0 : cost(&o->block[after]);
    int64_t best = -1;

    for (int64_t i = 0; i < o->blocks; i++) {
        double c = cost(&o->block[i]);
        bool later = after < 0 || c < before || (c == before && i > after);
        if (later && (best < 0 || c > cost(&o->block[best])))
            best = i;
    }
    return best;
}

/* Each block, the dearest first, goes to the rank with the least to do so far: every rank comes to
 * the same answer. */
static gram_status share_blocks(gram_context *g, gram_optimizer *o)
{
    size_t ranks = (size_t)o->options.ranks;
    double *load;

    if (ranks == 1)
        return GRAM_OK;
    load = gram_alloc(g, ranks * sizeof *load);
    if (!load)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", ranks * sizeof *load);
    for (size_t r = 0; r < ranks; r++)
        load[r] = 0;
    for (int64_t i = next_dearest(o, -1); i >= 0; i = next_dearest(o, i)) {
        size_t least = 0;
        for (size_t r = 1; r < ranks; r++)
            if (load[r] < load[least])
                least = r;
        o->block[i].rank = (int64_t)least;
        load[least] += cost(&o->block[i]);
    }
    gram_free(g, load, ranks * sizeof *load);
    return GRAM_OK;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

int gram_optimizer_slots(const struct gram_optimizer_block *b)
{
    return 2 * b->order + 3;
}

struct gram_optimizer_slot *gram_optimizer_slot(struct gram_optimizer_block *b, int i,
                                                const char **name)
{
    static const char *const arrays[] = {"moment", "velocity", "second"};
    struct gram_optimizer_slot *const slots[] = {&b->moment, &b->velocity, &b->second};

    if (i < 2 * b->order) {
        *name = i % 2 ? "root" : "factor";
        return i % 2 ? &b->root[i / 2] : &b->factor[i / 2];
    }
    *name = arrays[i - 2 * b->order];
    return slots[i - 2 * b->order];
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* Of the optimizer's own memory, zeros. */
static gram_status allocate(gram_context *g, size_t count, size_t size, void *out)
{
    size_t bytes;
    void *memory = NULL;

    if (!__builtin_mul_overflow(count, size, &bytes))
        memory = gram_alloc(g, bytes);
    if (!memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu elements of %zu bytes", count,
                         size);
    memset(memory, 0, bytes);
    memcpy(out, &memory, sizeof memory);
    return GRAM_OK;
}

static gram_status describe_parameter(gram_context *g, const gram_optimizer *o, int64_t index,
                                      const gram_tensor *t, struct gram_optimizer_parameter *p)
{
    int64_t bytes = 1;
    bool real = t && (t->dtype == GRAM_F32 || t->dtype == GRAM_F64 || t->dtype == GRAM_F16 ||
                      t->dtype == GRAM_BF16);

    if (!t)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "parameters[%lld] is NULL", (long long)index);
    if (!real)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "parameters[%lld] has dtype %s, expected f32, f64, f16 or bf16",
                         (long long)index, gram_dtype_name(t->dtype));
    if (t->ndim < 0 || t->ndim > GRAM_MAX_DIMS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "parameters[%lld] has %d dimensions, expected 0 to %d", (long long)index,
                         (int)t->ndim, GRAM_MAX_DIMS);
    *p = (struct gram_optimizer_parameter){.dtype = t->dtype, .ndim = t->ndim, .count = 1};
    for (int i = 0; i < t->ndim; i++) {
        p->shape[i] = t->shape[i];
        if (t->shape[i] < 0 ||
            (t->shape[i] && __builtin_mul_overflow(bytes, t->shape[i], &bytes)) ||
            bytes > INT64_MAX / (int64_t)sizeof(double))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "parameters[%lld] has size %lld in dimension %d, which is negative, "
                             "or too large together with the other sizes",
                             (long long)index, (long long)t->shape[i], i);
        p->count *= t->shape[i];
    }
    p->state = o->options.state ? o->options.state : t->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    p->work = t->dtype == GRAM_F64 || p->state == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    return GRAM_OK;
}

static gram_status add_parameters(gram_context *g, gram_optimizer *o,
                                  const gram_tensor *const *parameters)
{
    for (int64_t i = 0; i < o->parameters; i++) {
        struct gram_optimizer_parameter *p = &o->parameter[i];
        TRY(describe_parameter(g, o, i, parameters[i], p));
        p->first_block = o->blocks;
        p->blocks = merge_shape(o, p);
        if (p->blocks < 0 || __builtin_add_overflow(o->blocks, p->blocks, &o->blocks))
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "the number of blocks overflows");
    }
    TRY(allocate(g, (size_t)o->blocks, sizeof *o->block, &o->block));
    for (int64_t i = 0; i < o->parameters; i++)
        cut_blocks(o, &o->parameter[i], i, o->block + o->parameter[i].first_block);
    return share_blocks(g, o);
}

/* Adds a tensor of count elements to the state; false: it does not fit. */
static bool place(gram_optimizer *o, int64_t count, gram_dtype dtype, size_t *offset)
{
    size_t bytes;

    *offset = o->state_bytes;
    if (count < 0 || __builtin_mul_overflow((size_t)count, gram_dtype_size(dtype), &bytes) ||
        bytes > SIZE_MAX / 2 ||
        __builtin_add_overflow(o->state_bytes, gram_round64(bytes), &o->state_bytes))
        return false;
    o->names++;
    return true;
}

static gram_status lay_out(gram_context *g, gram_optimizer *o, size_t offset[3])
{
    const struct gram_optimizer_rules *rules = gram_optimizer_rules_of(o->options.method);
    bool fits = place(o, 1, GRAM_I64, &offset[0]) &&
                place(o, o->parameters, GRAM_I64, &offset[1]) &&
                place(o, o->blocks, GRAM_I64, &offset[2]);

    o->counts_bytes = o->state_bytes;
    for (int64_t i = 0; i < o->blocks; i++) {
        struct gram_optimizer_block *b = &o->block[i];
        const char *name;
        if (!gram_optimizer_owns(o, b))
            continue;
        TRY(rules->describe(g, o, &o->parameter[b->parameter], b));
        for (int j = 0; j < gram_optimizer_slots(b); j++) {
            struct gram_optimizer_slot *s = gram_optimizer_slot(b, j, &name);
            fits = fits && (!s->dtype || place(o, s->count, s->dtype, &s->offset));
        }
    }
    return fits ? GRAM_OK : gram_fail(g, GRAM_OUT_OF_MEMORY, "the size of the state overflows");
}

/* ---- Names and first values ------------------------------------------------------------------ */

static gram_tensor view_of(const gram_optimizer *o, const struct gram_optimizer_block *b,
                           const struct gram_optimizer_slot *s)
{
    void *data = gram_optimizer_data(o, s);
    gram_tensor t = {.data = data, .dtype = s->dtype, .ndim = b->order};
    int64_t stride = 1;

    if (s->n > 0)
        return s->packed ? gram_vector(data, s->count, s->dtype)
                         : gram_matrix(data, s->n, s->n, s->dtype);
    for (int i = b->order - 1; i >= 0; i--) {
        t.shape[i] = b->size[i];
        t.stride[i] = stride;
        stride *= b->size[i];
    }
    return t;
}

/* Counts as the caller sees them: where the state is. */
static gram_tensor counts(const gram_optimizer *o, const int64_t *data, int64_t count)
{
    return gram_vector(o->state + ((const char *)data - o->counts), count, GRAM_I64);
}

static void set_one(const gram_optimizer *o, const struct gram_optimizer_slot *s, int64_t at)
{
    void *data = gram_optimizer_data(o, s);

    if (s->dtype == GRAM_F64)
        ((double *)data)[at] = 1;
    else
        ((float *)data)[at] = 1;
}

static void set_identity(const gram_optimizer *o, const struct gram_optimizer_slot *s)
{
    for (int64_t i = 0; s->dtype && i < s->n; i++)
        set_one(o, s, s->packed ? i * s->n - i * (i - 1) / 2 : i * s->n + i);
}

static void name_state(gram_optimizer *o)
{
    static const char *const vectors[] = {"step", "steps", "failures"};
    struct gram_optimizer_named *to = o->named;

    for (int i = 0; i < 3; i++)
        (void)snprintf(to[i].name, sizeof to[i].name, "%s", vectors[i]);
    to[0].view = counts(o, o->step, 1);
    to[0].view.ndim = 0;
    to[1].view = counts(o, o->steps, o->parameters);
    to[2].view = counts(o, o->failures, o->blocks);
    to += 3;
    for (int64_t i = 0; i < o->blocks; i++) {
        struct gram_optimizer_block *b = &o->block[i];
        for (int j = 0; j < gram_optimizer_slots(b); j++) {
            const char *name;
            struct gram_optimizer_slot *s = gram_optimizer_slot(b, j, &name);
            int used;
            if (!s->dtype)
                continue;
            used = snprintf(to->name, sizeof to->name, "%lld.%lld.%s", (long long)b->parameter,
                            (long long)b->number, name);
            if (s->n > 0)
                (void)snprintf(to->name + used, sizeof to->name - (size_t)used, ".%d", j / 2);
            to->view = view_of(o, b, s);
            to++;
        }
        for (int k = 0; k < b->order && !o->owner; k++)
            set_identity(o, &b->root[k]);
    }
    for (int64_t i = 0; o->owner && i < o->names; i++)
        o->named[i].view.device = o->owner->options.device;
}

/* Memory of the state, zeros. */
static gram_status allocate_state(gram_context *g, gram_optimizer *o)
{
    void *memory;

    if (!g->backend->optimizer_open) {
        TRY(allocate(g, o->state_bytes, 1, &o->state));
        o->counts = o->state;
        return GRAM_OK;
    }
    TRY(allocate(g, o->counts_bytes, 1, &o->counts));
    o->owner = g;
    TRY(g->backend->memory_allocate(g, o->state_bytes, &memory));
    o->state = memory;
    return g->backend->memory_zero(g, memory, o->state_bytes);
}

static gram_status fill(gram_context *g, gram_optimizer *o, const gram_tensor *const *parameters)
{
    size_t offset[3] = {0}, count = (size_t)o->parameters, bytes;

    TRY(allocate(g, count, sizeof *o->parameter, &o->parameter));
    TRY(allocate(g, count, 3 * sizeof *o->range, &o->range));
    TRY(add_parameters(g, o, parameters));
    TRY(lay_out(g, o, offset));
    TRY(allocate(g, (size_t)o->names, sizeof *o->named, &o->named));
    TRY(allocate_state(g, o));
    o->step = (int64_t *)(void *)(o->counts + offset[0]);
    o->steps = (int64_t *)(void *)(o->counts + offset[1]);
    o->failures = (int64_t *)(void *)(o->counts + offset[2]);
    name_state(o);
    if (o->owner)
        TRY(g->backend->optimizer_open(g, o));   /* roots begin as the identity */
    return gram_optimizer_measure(g, o, &bytes); /* refuses sizes that cannot be done */
}

gram_status gram_optimizer_create(gram_context *g, const gram_optimizer_options *options,
                                  const gram_tensor *const *parameters, int64_t count,
                                  gram_optimizer **out)
{
    gram_optimizer_options taken;
    gram_optimizer *o;
    gram_status status;

    TRY(gram_begin(g, __func__));
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    if (count < 0 || count > INT64_MAX / 1024 || (count > 0 && !parameters))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "count is %lld and parameters is %s, expected a list of that many tensors",
                         (long long)count, parameters ? "given" : "NULL");
    TRY(gram_optimizer_take_options(g, options, &taken));
    if (!g->backend->optimizer_step)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    TRY(allocate(g, 1, sizeof *o, &o));
    o->memory = g->options;
    o->options = taken;
    o->parameters = count;
    status = fill(g, o, parameters);
    if (status != GRAM_OK)
        gram_optimizer_destroy(o);
    else
        *out = o;
    return status;
}

void gram_optimizer_destroy(gram_optimizer *o)
{
    gram_context allocator;

    if (!o)
        return;
    allocator = (gram_context){.options = o->memory};
    gram_free(&allocator, o->range, (size_t)o->parameters * 3 * sizeof *o->range);
    gram_free(&allocator, o->parameter, (size_t)o->parameters * sizeof *o->parameter);
    gram_free(&allocator, o->block, (size_t)o->blocks * sizeof *o->block);
    gram_free(&allocator, o->named, (size_t)o->names * sizeof *o->named);
    if (o->owner) {
        o->owner->backend->optimizer_close(o);
        if (o->state)
            o->owner->backend->memory_free(o->owner, o->state);
        gram_free(&allocator, o->counts, o->counts_bytes);
    } else {
        gram_free(&allocator, o->state, o->state_bytes);
    }
    gram_free(&allocator, o, sizeof *o);
}
