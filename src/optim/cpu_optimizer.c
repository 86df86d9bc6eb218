/*
 * cpu_optimizer.c - a step of an optimizer on the CPU: its blocks, their numbers, the passes
 *
 * A block is a set of runs of the parameter's flat indices (optimizer.h); a tensor of any strides
 * is walked in that order, with the dimensions that lie in memory as one joined.  Scratch is taken
 * before anything is written, and nothing can fail after that.
 *
 * BLAS is column-major: a row-major array of m by n is its matrix of n by m with leading dimension
 * n, and the upper triangle of a row-major matrix its lower one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_optimizer.h"
#include "core/blas.h"
#include "cpu/cpu_blas_for.h"
#include "cpu/move.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define SUFFIX f32
#define real   float
#include "optimizer_loops.h"

#define SUFFIX f64
#define real   double
#include "optimizer_loops.h"

#define TEMPLATE "optim/cpu_optimizer_move.h"
#define INTEGERS 0
#include "cpu/each_dtype.h"

enum {
    BLOCKS_A_THREAD = 2 /* with fewer, blocks one by one, each with all of BLAS's threads */
};

const struct cpu_optimizer_math *cpu_optimizer_math(gram_dtype work)
{
    return work == GRAM_F64 ? &math_f64 : &math_f32;
}

/* ---- Numbers of any dtype --------------------------------------------------------------- */

typedef void read_run(const void *data, int64_t step, int64_t n, void *to);
typedef void write_run(const void *from, int64_t n, void *data, int64_t step);

static read_run *reader(gram_dtype dtype, gram_dtype work)
{
    bool wide = work == GRAM_F64;

    switch (dtype) {
    case GRAM_F64:
        return wide ? read_f64_f64 : read_f32_f64;
    case GRAM_F16:
        return wide ? read_f64_f16 : read_f32_f16;
    case GRAM_BF16:
        return wide ? read_f64_bf16 : read_f32_bf16;
    default:
        return wide ? read_f64_f32 : read_f32_f32;
    }
}

static write_run *writer(gram_dtype dtype, gram_dtype work)
{
    bool wide = work == GRAM_F64;

    switch (dtype) {
    case GRAM_F64:
        return wide ? write_f64_f64 : write_f32_f64;
    case GRAM_F16:
        return wide ? write_f64_f16 : write_f32_f16;
    case GRAM_BF16:
        return wide ? write_f64_bf16 : write_f32_bf16;
    default:
        return wide ? write_f64_f32 : write_f32_f32;
    }
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* A tensor in few dimensions, and the block's array that it goes to (read) or comes from. */
struct walk {
    int ndim;
    int64_t shape[GRAM_MAX_DIMS], stride[GRAM_MAX_DIMS];
    char *data;
    int64_t size; /* of an element, in bytes */
    read_run *read;
    char *to;
    write_run *write; /* where read is NULL */
    const char *from;
    int64_t array_size; /* of an element of the block's array, in bytes */
};

/* Elements flat .. flat + n of the tensor; to or from is moved on by n elements. */
static void move_run(struct walk *w, int64_t flat, int64_t n)
{
    while (n > 0) {
        int64_t rest = flat, at = 0, piece = gram_least(n, w->shape[0] - flat % w->shape[0]);
        char *data;
        for (int i = 0; i < w->ndim; i++) {
            at += rest % w->shape[i] * w->stride[i];
            rest /= w->shape[i];
        }
        data = w->data + at * w->size;
        if (w->read)
            w->read(data, w->stride[0], piece, w->to);
        else
            w->write(w->from, piece, data, w->stride[0]);
        w->to = w->read ? w->to + piece * w->array_size : NULL;
        w->from = w->read ? NULL : w->from + piece * w->array_size;
        flat += piece;
        n -= piece;
    }
}

/* All runs of the block: dimensions behind the last one that is cut belong to one run. */
static void move_block(const struct gram_optimizer_parameter *p,
                       const struct gram_optimizer_block *b, struct walk *w)
{
    int64_t index[GRAM_MAX_DIMS] = {0}, run = 1, stride = 1, strides[GRAM_MAX_DIMS];
    int outer = b->order;

    for (int i = b->order - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= p->merged[i];
    }
    while (outer > 0 && run == strides[outer - 1])
        run *= b->size[--outer];
    for (int64_t done = 0; done < b->count; done += run) {
        int64_t flat = 0;
        for (int i = 0; i < b->order; i++)
            flat += (b->start[i] + index[i]) * strides[i];
        move_run(w, flat, run);
        for (int i = outer - 1; i >= 0 && ++index[i] == b->size[i]; i--)
            index[i] = 0;
    }
}

void cpu_optimizer_gather(const struct cpu_optimizer_unit *u, const gram_tensor *t, void *to)
{
    struct walk w = {.data = t->data,
                     .size = (int64_t)gram_dtype_size(t->dtype),
                     .read = reader(t->dtype, u->work),
                     .to = to,
                     .array_size = (int64_t)gram_dtype_size(u->work)};

    w.ndim = gram_optimizer_join(t, w.shape, w.stride);
    move_block(u->p, u->b, &w);
}

void cpu_optimizer_scatter(const struct cpu_optimizer_unit *u, const void *from, gram_tensor *t)
{
    struct walk w = {.data = t->data,
                     .size = (int64_t)gram_dtype_size(t->dtype),
                     .write = writer(t->dtype, u->work),
                     .from = from,
                     .array_size = (int64_t)gram_dtype_size(u->work)};

    w.ndim = gram_optimizer_join(t, w.shape, w.stride);
    move_block(u->p, u->b, &w);
}

/* ---- State -------------------------------------------------------------------------------- */

void cpu_optimizer_load(const gram_optimizer *o, const struct gram_optimizer_slot *s,
                        gram_dtype work, bool mirror, void *to)
{
    read_run *read = reader(s->dtype, work);
    const char *from = gram_optimizer_data(o, s);
    size_t size = gram_dtype_size(s->dtype), out = gram_dtype_size(work);

    if (!s->packed) {
        read(from, 1, s->count, to);
        return;
    }
    for (int64_t i = 0, at = 0; i < s->n; at += s->n - i++)
        read(from + (size_t)at * size, 1, s->n - i, (char *)to + (size_t)(i * s->n + i) * out);
    if (mirror)
        cpu_mirror(work, s->n, to);
}

void cpu_optimizer_store(const gram_optimizer *o, const struct gram_optimizer_slot *s,
                         gram_dtype work, const void *from)
{
    write_run *write = writer(s->dtype, work);
    size_t in = gram_dtype_size(work), size = gram_dtype_size(s->dtype);
    char *to = gram_optimizer_data(o, s);

    if (!s->packed) {
        write(from, s->count, to, 1);
        return;
    }
    for (int64_t i = 0; i < s->n; i++, to += (size_t)(s->n - i + 1) * size)
        write((const char *)from + (size_t)(i * s->n + i) * in, s->n - i, to, 1);
}

/* ---- What BLAS does to a block ------------------------------------------------------------ */

/* to = x of a by n by rest, with the middle dimension first. */
static void middle_first(int64_t a, int64_t n, int64_t rest, size_t size, const char *x, char *to)
{
    size_t run = (size_t)rest * size;

    for (int64_t i = 0; i < a; i++)
        for (int64_t j = 0; j < n; j++)
            memcpy(to + (size_t)(j * a + i) * run, x + (size_t)(i * n + j) * run, run);
}

/* The upper triangle of matrix = keep matrix + take G_k G_k^T, G_k being the gradient with
 * dimension k as rows. */
static void add_gram(const struct cpu_optimizer_unit *u, int k, double keep, double take,
                     void *matrix)
{
    int64_t n = u->b->size[k], rest = u->b->count / n, before = 1;
    struct gram_blas_matrix rows = {u->g, rest, true};

    for (int i = 0; i < k; i++)
        before *= u->b->size[i];
    if (before > 1 && before == rest) { /* the last dimension that is not 1: rows are columns */
        rows = (struct gram_blas_matrix){u->g, n, false};
    } else if (before > 1) {
        middle_first(before, n, rest / before, gram_dtype_size(u->work), u->g, u->spare[0]);
        rows.data = u->spare[0];
    }
    gram_blas_syrk(u->work, GRAM_LOWER, n, rest, take, rows, keep, matrix, n);
}

void cpu_optimizer_accumulate(const struct cpu_optimizer_unit *u, double keep, double take,
                              void *matrix)
{
    for (int k = 0; k < u->b->order; k++) {
        const struct gram_optimizer_slot *factor = &u->b->factor[k];
        if (!factor->dtype)
            continue;
        cpu_optimizer_load(u->o, factor, u->work, false, matrix);
        add_gram(u, k, keep, take, matrix);
        if (!factor->packed)
            cpu_mirror(u->work, factor->n, matrix);
        cpu_optimizer_store(u->o, factor, u->work, matrix);
    }
}

void cpu_optimizer_turn(gram_dtype work, int64_t first, int64_t rest, const void *matrix,
                        const void *x, void *to)
{
    gram_blas_gemm(work, (int64_t[]){first, rest, first}, 1,
                   (struct gram_blas_matrix){matrix, first, false},
                   (struct gram_blas_matrix){x, rest, true}, 0, to, first);
}

/* ---- Scratch ------------------------------------------------------------------------------ */

static const struct cpu_optimizer_method *method_of(const gram_optimizer *o)
{
    static const struct cpu_optimizer_method *const methods[] = {
        [GRAM_SHAMPOO] = &cpu_shampoo,
        [GRAM_SOAP] = &cpu_soap,
        [GRAM_MUON] = &cpu_muon,
    };

    return methods[o->options.method];
}

/* flags: one a parameter.  Then, for a pass, bytes for each worker; or what a refresh takes. */
struct layout {
    int workers; /* 1: blocks one after the other */
    size_t flags, worker_bytes, array_bytes, refresh_bytes, bytes;
};

static bool grow(size_t *bytes, size_t more)
{
    return more > SIZE_MAX - 64 || __builtin_add_overflow(*bytes, gram_round64(more), bytes);
}

static double sides_of(const struct gram_optimizer_block *b)
{
    double sum = 0;

    for (int k = 0; k < b->order; k++)
        sum += (double)b->size[k];
    return sum;
}

static gram_status lay_out(gram_context *g, const gram_optimizer *o, struct layout *l)
{
    const struct cpu_optimizer_method *method = method_of(o);
    int64_t own = 0;
    double work = 0; /* nanoseconds of a pass, about: products with factors of each side */
    size_t most = 0;
    bool overflow = false;

    *l = (struct layout){.workers = 1, .flags = gram_round64((size_t)o->parameters + 1)};
    for (int64_t i = 0; i < o->blocks; i++) {
        const struct gram_optimizer_block *b = &o->block[i];
        size_t bytes = (size_t)b->count * gram_dtype_size(o->parameter[b->parameter].work);
        if (gram_optimizer_owns(o, b)) {
            own++;
            work += (double)b->count * sides_of(b) / 4;
            most = gram_most_bytes(most, method->unit_bytes(o, b));
        }
        l->array_bytes = gram_most_bytes(l->array_bytes, gram_round64(bytes));
    }
    if (own >= BLOCKS_A_THREAD * (int64_t)g->threads && gram_worth_waking(work))
        l->workers = g->threads;
    for (int i = 0; i < 3; i++)
        overflow |= grow(&l->worker_bytes, l->array_bytes);
    overflow |= grow(&l->worker_bytes, most);
    overflow |= __builtin_mul_overflow((size_t)l->workers, l->worker_bytes, &l->bytes);
    if (method->refresh_bytes)
        TRY(method->refresh_bytes(g, o, &l->refresh_bytes));
    l->bytes = gram_most_bytes(l->bytes, l->refresh_bytes);
    overflow |= grow(&l->bytes, l->flags);
    if (overflow)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "the size of the scratch overflows");
    return GRAM_OK;
}

gram_status cpu_optimizer_workspace(gram_context *g, const gram_optimizer *o, size_t *bytes)
{
    struct layout l;

    TRY(lay_out(g, o, &l));
    *bytes = l.bytes;
    return GRAM_OK;
}

/* ---- Passes ------------------------------------------------------------------------------- */

/* What a pass does with a block. */
struct task {
    struct cpu_optimizer_unit unit;
    const struct gram_optimizer_op *op;
    char *flag; /* of the block's parameter: it rests */
};

typedef void pass_body(struct task *task);

struct pass {
    gram_context *g;
    const struct gram_optimizer_op *op;
    const struct layout *layout;
    char *flags, *scratch;
    pass_body *body;
    bool others; /* blocks of other ranks and of parameters that rest as well */
};

static void one_block(void *arg, int64_t index, int thread)
{
    const struct pass *pass = arg;
    gram_optimizer *o = pass->op->optimizer;
    const struct gram_optimizer_block *b = &o->block[index];
    char *memory = pass->scratch + (size_t)thread * pass->layout->worker_bytes;
    struct task task = {.op = pass->op, .flag = &pass->flags[b->parameter]};

    if (!pass->others && (*task.flag || !gram_optimizer_owns(o, b)))
        return;
    task.unit = (struct cpu_optimizer_unit){
        .context = pass->g,
        .alone = pass->layout->workers == 1,
        .o = o,
        .p = &o->parameter[b->parameter],
        .b = b,
        .t = o->steps[b->parameter] + 1,
        .g = memory,
        .spare = {memory + pass->layout->array_bytes, memory + 2 * pass->layout->array_bytes},
        .own = memory + 3 * pass->layout->array_bytes,
        .work = o->parameter[b->parameter].work,
        .math = cpu_optimizer_math(o->parameter[b->parameter].work),
    };
    pass->body(&task);
}

static void do_pass(gram_context *g, struct pass *pass, pass_body *body, bool others)
{
    pass->body = body;
    pass->others = others;
    cpu_blas_for(g, pass->layout->workers > 1, pass->op->optimizer->blocks, one_block, pass);
}

/* ---- What passes do ------------------------------------------------------------------------ */

/* The gradient, with L2's decay. */
static void load_gradient(struct cpu_optimizer_unit *u, const struct gram_optimizer_op *op)
{
    const gram_optimizer_options *options = &u->o->options;

    cpu_optimizer_gather(u, op->gradients[u->b->parameter], u->g);
    if (options->weight_decay > 0 && options->decay == GRAM_DECAY_L2) {
        cpu_optimizer_gather(u, op->parameters[u->b->parameter], u->spare[0]);
        u->math->add(u->b->count, options->weight_decay, u->spare[0], u->g);
    }
}

/* The flag of a gradient that is not finite, or whose squares do not fit into the statistics.  Of a
 * parameter's blocks, several threads may set it: they all write the same. */
static void look(struct task *task)
{
    struct cpu_optimizer_unit *u = &task->unit;
    double most = gram_optimizer_statistics(u->p) == GRAM_F64 ? DBL_MAX : FLT_MAX;

    if (!task->op->gradients[u->b->parameter])
        return;
    load_gradient(u, task->op);
    if (!(u->math->squares(u->b->count, u->g) <= most))
        __atomic_store_n(task->flag, 1, __ATOMIC_RELAXED);
}

static void statistics(struct task *task)
{
    load_gradient(&task->unit, task->op);
    method_of(task->unit.o)->statistics(&task->unit);
}

/* Decoupled decay, and the momentum of directions. */
static void finish_direction(struct cpu_optimizer_unit *u, const struct gram_optimizer_op *op)
{
    const gram_optimizer_options *options = &u->o->options;
    int64_t count = u->b->count;

    if (options->weight_decay > 0 && options->decay == GRAM_DECAY_DECOUPLED) {
        cpu_optimizer_gather(u, op->parameters[u->b->parameter], u->spare[0]);
        u->math->add(count, options->weight_decay, u->spare[0], u->g);
    }
    if (u->b->velocity.dtype) {
        cpu_optimizer_load(u->o, &u->b->velocity, u->work, false, u->spare[0]);
        u->math->momentum(count, options->momentum, 1 - options->dampening, options->nesterov,
                          u->spare[0], u->g);
        cpu_optimizer_store(u->o, &u->b->velocity, u->work, u->spare[0]);
    }
}

static void direction(struct task *task)
{
    struct cpu_optimizer_unit *u = &task->unit;
    const struct gram_optimizer_op *op = task->op;
    int64_t index = u->b->parameter, count = u->b->count;
    bool own = gram_optimizer_owns(u->o, u->b) && !*task->flag;

    if (own) {
        load_gradient(u, op);
        method_of(u->o)->direction(u);
        if (!u->still)
            finish_direction(u, op);
    } else {
        memset(u->g, 0, (size_t)count * gram_dtype_size(u->work));
    }
    if (op->directions && op->directions[index])
        cpu_optimizer_scatter(u, u->g, op->directions[index]);
    if (own && op->updated) {
        cpu_optimizer_gather(u, op->parameters[index], u->spare[0]);
        u->math->add(count, -u->o->options.learning_rate, u->g, u->spare[0]);
        cpu_optimizer_scatter(u, u->spare[0], op->updated[index]);
    }
}

/* ---- A step ------------------------------------------------------------------------------- */

/* Sets the flags of parameters that rest; counts those whose gradients are not finite. */
static gram_status choose(gram_context *g, struct pass *pass)
{
    const struct gram_optimizer_op *op = pass->op;
    const gram_optimizer *o = op->optimizer;

    memset(pass->flags, 0, (size_t)o->parameters);
    do_pass(g, pass, look, true);
    for (int64_t i = 0; i < o->parameters; i++) {
        op->report->skipped += pass->flags[i];
        if (pass->flags[i] && o->options.not_finite == GRAM_NOT_FINITE_FAIL)
            return gram_fail(g, GRAM_NUMERICAL,
                             "gradients[%lld] holds a NaN or an infinity, or its sum of squares "
                             "overflows",
                             (long long)i);
        pass->flags[i] |= !op->gradients[i];
    }
    return GRAM_OK;
}

static void refresh(gram_context *g, const struct pass *pass)
{
    const struct gram_optimizer_op *op = pass->op;
    struct cpu_optimizer_step step = {.g = g,
                                      .o = op->optimizer,
                                      .op = op,
                                      .rests = pass->flags,
                                      .scratch = pass->scratch,
                                      .scratch_bytes = pass->layout->refresh_bytes};
    int64_t start = gram_trace_begin(g);

    method_of(op->optimizer)->refresh(&step);
    gram_trace_end(g, "optimizer refresh", 0, start);
}

gram_status cpu_optimizer_step(gram_context *g, const struct gram_optimizer_op *op)
{
    gram_optimizer *o = op->optimizer;
    const struct cpu_optimizer_method *method = method_of(o);
    struct layout layout;
    struct pass pass = {.g = g, .op = op, .layout = &layout};
    void *scratch;

    TRY(lay_out(g, o, &layout));
    TRY(gram_scratch(g, layout.bytes, &scratch));
    pass.flags = scratch;
    pass.scratch = pass.flags + layout.flags;
    TRY(choose(g, &pass));
    if (method->statistics)
        do_pass(g, &pass, statistics, false);
    if (method->refresh && !method->refresh_last)
        refresh(g, &pass);
    do_pass(g, &pass, direction, true);
    if (method->refresh && method->refresh_last)
        refresh(g, &pass);
    for (int64_t i = 0; i < o->parameters; i++)
        o->steps[i] += !pass.flags[i];
    ++*o->step;
    return GRAM_OK;
}
