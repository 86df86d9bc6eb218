/*
 * cpu_optimizer.c - a step of an optimizer on the CPU: which parameters rest, the passes, the end
 *
 * Scratch is taken before anything is written, and nothing can fail after that.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_optimizer.h"
#include "cpu/cpu_blas_for.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    BLOCKS_A_THREAD = 2 /* with fewer, blocks one by one, each with all of BLAS's threads */
};

static const struct cpu_optimizer_method *method_of(const gram_optimizer *o)
{
    static const struct cpu_optimizer_method *const methods[] = {
        [GRAM_SHAMPOO] = &cpu_shampoo,
        [GRAM_SOAP] = &cpu_soap,
        [GRAM_MUON] = &cpu_muon,
    };

    return methods[o->options.method];
}

/* ---- Scratch ------------------------------------------------------------------------------ */

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
