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
#include "cpu/cpu.h"
#include "cpu/move.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define TEMPLATE "optim/optimizer_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

enum {
    BLOCKS_A_THREAD = 2 /* with fewer, blocks one by one, each with all of BLAS's threads */
};

const struct cpu_optimizer_math *cpu_optimizer_math(gram_dtype work)
{
    return work == GRAM_F64 ? &math_f64 : &math_f32;
}

/* ---- Numbers of any dtype -------------------------------------------------------------------- */

/* A run of n numbers: where it lies, and the elements from one to the next. */
struct run {
    gram_dtype dtype;
    void *data;
    int64_t step;
};

static void convert(struct run to, struct run from, int64_t n)
{
    const struct cpu_move move = {
        .to = to.data,
        .from = from.data,
        .to_stride = {  to.step, 0},
        .from_stride = {from.step, 0},
        .rows = n,
        .cols = 1
    };

    cpu_convert(to.dtype, from.dtype, &move);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* A tensor in few dimensions, and the block's array, which is written or, with write, read. */
struct walk {
    int ndim;
    int64_t shape[GRAM_MAX_DIMS], stride[GRAM_MAX_DIMS];
    gram_dtype dtype, work;
    char *data, *array;
    bool write; /* the tensor */
};

/* Elements flat .. flat + n of the tensor; the array is moved on by n elements. */
static void move_run(struct walk *w, int64_t flat, int64_t n)
{
    while (n > 0) {
        int64_t rest = flat, at = 0, piece = gram_least(n, w->shape[0] - flat % w->shape[0]);
        struct run tensor = {w->dtype, NULL, w->stride[0]}, array = {w->work, w->array, 1};
        for (int i = 0; i < w->ndim; i++) {
            at += rest % w->shape[i] * w->stride[i];
            rest /= w->shape[i];
        }
        tensor.data = w->data + at * (int64_t)gram_dtype_size(w->dtype);
        if (w->write)
            convert(tensor, array, piece);
        else
            convert(array, tensor, piece);
        w->array += (size_t)piece * gram_dtype_size(w->work);
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

static void move_tensor(const struct cpu_optimizer_unit *u, const gram_tensor *t, void *array,
                        bool write)
{
    struct walk w = {
        .dtype = t->dtype, .work = u->work, .data = t->data, .array = array, .write = write};

    w.ndim = gram_optimizer_join(t, w.shape, w.stride);
    move_block(u->p, u->b, &w);
}

/* The block of a tensor with the parameter's shape, of any dtype and strides, to an array of the
 * dtype of the arithmetic; write_block is the way back. */
static void read_block(const struct cpu_optimizer_unit *u, const gram_tensor *t, void *to)
{
    move_tensor(u, t, to, false);
}

static void write_block(const struct cpu_optimizer_unit *u, void *from, gram_tensor *t)
{
    move_tensor(u, t, from, true);
}

/* ---- State ----------------------------------------------------------------------------------- */

void cpu_optimizer_load(const gram_optimizer *o, const struct gram_optimizer_slot *s,
                        gram_dtype work, bool mirror, void *to)
{
    struct run slot = {s->dtype, gram_optimizer_data(o, s), 1}, array = {work, to, 1};
    const size_t size = gram_dtype_size(s->dtype), out = gram_dtype_size(work);
    char *from = slot.data;

    if (!s->packed) {
        convert(array, slot, s->count);
        return;
    }
    for (int64_t i = 0; i < s->n; from += (size_t)(s->n - i++) * size) {
        slot.data = from;
        array.data = (char *)to + (size_t)(i * s->n + i) * out;
        convert(array, slot, s->n - i);
    }
    if (mirror)
        cpu_mirror(work, s->n, to);
}

void cpu_optimizer_store(const gram_optimizer *o, const struct gram_optimizer_slot *s,
                         gram_dtype work, void *from)
{
    struct run slot = {s->dtype, gram_optimizer_data(o, s), 1}, array = {work, from, 1};
    const size_t size = gram_dtype_size(s->dtype), in = gram_dtype_size(work);
    char *to = slot.data;

    if (!s->packed) {
        convert(slot, array, s->count);
        return;
    }
    for (int64_t i = 0; i < s->n; to += (size_t)(s->n - i++) * size) {
        slot.data = to;
        array.data = (char *)from + (size_t)(i * s->n + i) * in;
        convert(slot, array, s->n - i);
    }
}

void *cpu_optimizer_open(const gram_optimizer *o, const struct gram_optimizer_slot *slot,
                         gram_dtype work, void *memory)
{
    if (slot->dtype == work && !slot->packed)
        return gram_optimizer_data(o, slot);
    cpu_optimizer_load(o, slot, work, true, memory);
    return memory;
}

void cpu_optimizer_close(const gram_optimizer *o, const struct gram_optimizer_slot *slot,
                         gram_dtype work, void *data)
{
    if (data != gram_optimizer_data(o, slot))
        cpu_optimizer_store(o, slot, work, data);
}

/* ---- What BLAS does to a block --------------------------------------------------------------- */

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

/* to = x of first by rest elements, with its first dimension multiplied by the symmetric matrix of
 * that order (both triangles) and made the last one. */
static void rotate_product(gram_dtype work, int64_t first, int64_t rest, const void *matrix,
                           const void *x, void *to)
{
    gram_blas_gemm(work, (int64_t[]){first, rest, first}, 1,
                   (struct gram_blas_matrix){matrix, first, false},
                   (struct gram_blas_matrix){x, rest, true}, 0, to, first);
}

/* ---- Scratch --------------------------------------------------------------------------------- */

static const struct cpu_optimizer_method *method_of(const gram_optimizer *o)
{
    static const struct cpu_optimizer_method *const methods[] = {
        [GRAM_SHAMPOO] = &cpu_shampoo,
        [GRAM_SOAP] = &cpu_soap,
        [GRAM_MUON] = &cpu_muon,
    };

    return methods[o->options.method];
}

struct cpu_job {
    struct gram_optimizer_job step; /* the first member: passes are given its address */
    char *flags;                    /* a parameter rests */
    char *scratch;                  /* a share for each worker of a pass; or what a refresh takes */
    int workers;                    /* 1: blocks one after the other */
    size_t share_bytes, array_bytes;
    gram_optimizer_pass *body;
    bool others;
};

/* The share of a worker that has block b; all arrays are as long as the longest. */
static void take_unit(const struct cpu_job *job, const struct gram_optimizer_block *b,
                      struct gram_layout *l, struct cpu_optimizer_unit *u)
{
    const gram_optimizer *o = job->step.o;

    gram_take(l, &u->g, job->array_bytes);
    gram_take(l, &u->spare[0], job->array_bytes);
    gram_take(l, &u->spare[1], job->array_bytes);
    if (gram_optimizer_owns(o, b))
        method_of(o)->take(o, b, l, u);
}

static double sides_of(const struct gram_optimizer_block *b)
{
    double sum = 0;

    for (int k = 0; k < b->order; k++)
        sum += (double)b->size[k];
    return sum;
}

/* Chooses the number of workers, and the bytes of their shares. */
static void plan(struct cpu_job *job)
{
    const gram_optimizer *o = job->step.o;
    const int threads = job->step.g->threads;
    int64_t own = 0;
    double work = 0; /* nanoseconds of a pass, about: products with factors of each side */

    for (int64_t i = 0; i < o->blocks; i++) {
        const struct gram_optimizer_block *b = &o->block[i];
        size_t bytes = (size_t)b->count * gram_dtype_size(o->parameter[b->parameter].work);
        if (gram_optimizer_owns(o, b)) {
            own++;
            work += (double)b->count * sides_of(b) / 4;
        }
        job->array_bytes = gram_most_bytes(job->array_bytes, bytes);
    }
    job->workers =
        own >= BLOCKS_A_THREAD * (int64_t)threads && gram_worth_waking(work) ? threads : 1;
    for (int64_t i = 0; i < o->blocks; i++) {
        struct gram_layout share = {0};
        struct cpu_optimizer_unit unit;
        take_unit(job, &o->block[i], &share, &unit);
        job->share_bytes = gram_most_bytes(job->share_bytes, gram_layout_bytes(&share));
    }
}

static gram_status open_scratch(struct cpu_job *job)
{
    gram_context *g = job->step.g;
    struct gram_layout layout = {0}, shares = {0};
    size_t refresh = 0;

    plan(job);
    if (method_of(job->step.o)->refresh_bytes)
        TRY(method_of(job->step.o)->refresh_bytes(g, job->step.o, &refresh));
    gram_take_many(&shares, &job->scratch, (size_t)job->workers, job->share_bytes);
    gram_take(&layout, &job->flags, (size_t)job->step.o->parameters + 1);
    gram_take(&layout, &job->scratch, gram_most_bytes(shares.bytes, refresh));
    return gram_layout_open(g, &layout);
}

/* ---- Groups of one block --------------------------------------------------------------------- */

static struct cpu_optimizer_unit *unit_of(struct gram_optimizer_group *group)
{
    return (struct cpu_optimizer_unit *)(void *)group;
}

static void one_block(void *arg, int64_t index, int thread)
{
    const struct cpu_job *job = arg;
    gram_optimizer *o = job->step.o;
    const struct gram_optimizer_block *b = &o->block[index];
    const bool own = gram_optimizer_owns(o, b) && !job->flags[b->parameter];
    struct gram_layout share = {0};
    struct cpu_optimizer_unit unit = {
        .all = {&job->step, b, &index, 1, own},
        .alone = job->workers == 1,
        .o = o,
        .p = &o->parameter[b->parameter],
        .b = b,
        .t = o->steps[b->parameter] + 1,
        .work = o->parameter[b->parameter].work,
        .math = cpu_optimizer_math(o->parameter[b->parameter].work),
    };

    take_unit(job, b, &share, &unit);
    gram_layout_place(&share, job->scratch + (size_t)thread * job->share_bytes);
    unit.still = o->options.method == GRAM_SOAP && unit.t == 1;
    if (own || job->others)
        (void)job->body(&unit.all); /* nothing can fail: see open_scratch */
}

static gram_status for_groups(struct gram_optimizer_job *step, gram_optimizer_pass *body,
                              bool others)
{
    struct cpu_job *job = (struct cpu_job *)(void *)step;

    job->body = body;
    job->others = others;
    cpu_blas_for(step->g, job->workers > 1, step->o->blocks, one_block, job);
    return GRAM_OK;
}

/* ---- Gradients and factors ------------------------------------------------------------------- */

static gram_status gather(struct gram_optimizer_group *group)
{
    struct cpu_optimizer_unit *u = unit_of(group);
    const gram_optimizer_options *options = &u->o->options;
    const struct gram_optimizer_op *op = group->job->op;

    u->x = u->g;
    u->to = u->spare[0];
    read_block(u, op->gradients[u->b->parameter], u->g);
    if (options->weight_decay > 0 && options->decay == GRAM_DECAY_L2) {
        read_block(u, op->parameters[u->b->parameter], u->spare[0]);
        u->math->add(u->b->count, options->weight_decay, u->spare[0], u->g);
    }
    return GRAM_OK;
}

static gram_status accumulate(struct gram_optimizer_group *group, double keep, double take)
{
    const struct cpu_optimizer_unit *u = unit_of(group);
    void *matrix = u->matrix;

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
    return GRAM_OK;
}

/* ---- Moments --------------------------------------------------------------------------------- */

/* V takes the gradient in. */
static void update_second(struct cpu_optimizer_unit *u)
{
    const gram_optimizer_options *o = &u->o->options;
    bool sum = o->graft == GRAM_GRAFT_ADAGRAD;

    cpu_optimizer_load(u->o, &u->b->second, u->work, false, u->spare[0]);
    u->math->second(u->b->count, sum ? 1 : o->graft_beta2, sum ? 1 : 1 - o->graft_beta2, u->g,
                    u->spare[0]);
    cpu_optimizer_store(u->o, &u->b->second, u->work, u->spare[0]);
}

/* X becomes the filtered gradient, M takes it in. */
static void update_moment(struct cpu_optimizer_unit *u)
{
    const gram_optimizer_options *o = &u->o->options;
    double scale = 1;

    if (o->bias_correction)
        scale = 1 / (1 - o->beta3 * pow(o->beta1, (double)(u->t - 1)));
    cpu_optimizer_load(u->o, &u->b->moment, u->work, false, u->spare[0]);
    u->math->filter(u->b->count, (double[]){o->beta1, o->beta3}, scale, u->spare[0], u->g);
    cpu_optimizer_store(u->o, &u->b->moment, u->work, u->spare[0]);
}

/* The graft's step is kept in spare[1], or is X itself. */
static gram_status filter(struct gram_optimizer_group *group)
{
    struct cpu_optimizer_unit *u = unit_of(group);
    const gram_optimizer_options *o = &u->o->options;
    double scale = 1;

    if (u->b->second.dtype)
        update_second(u);
    if (u->b->moment.dtype)
        update_moment(u);
    u->grafted = u->x;
    if (!u->b->second.dtype)
        return GRAM_OK;
    if (o->graft == GRAM_GRAFT_ADAM)
        scale = 1 / -expm1((double)u->t * log(o->graft_beta2));
    cpu_optimizer_load(u->o, &u->b->second, u->work, false, u->spare[0]);
    u->math->adapt(u->b->count, scale, o->graft_epsilon, u->g, u->spare[0], u->spare[1]);
    u->grafted = u->spare[1];
    return GRAM_OK;
}

static gram_status adapt(struct gram_optimizer_group *group)
{
    struct cpu_optimizer_unit *u = unit_of(group);
    const gram_optimizer_options *o = &u->o->options;
    const struct gram_optimizer_block *b = u->b;
    const bool corrected = o->bias_correction && o->method == GRAM_MUON;
    const double first = corrected ? 1 - pow(o->beta1, (double)u->t) : 1;
    const double second = corrected ? 1 - pow(o->beta2, (double)u->t) : 1;
    void *m = cpu_optimizer_open(u->o, &b->moment, u->work, u->moment);
    void *v = cpu_optimizer_open(u->o, &b->second, u->work, u->second);

    u->math->second(b->count, o->beta2, 1 - o->beta2, u->x, v);
    u->math->filter(b->count, (double[]){o->beta1, o->beta1}, 1, m, u->x);
    u->math->adapt(b->count, 1 / second, o->epsilon, u->x, v, u->x);
    if (corrected)
        u->math->scale(b->count, 1 / first, u->x);
    cpu_optimizer_close(u->o, &b->moment, u->work, m);
    cpu_optimizer_close(u->o, &b->second, u->work, v);
    return GRAM_OK;
}

/* ---- Matrices applied ------------------------------------------------------------------------ */

static void exchange(struct cpu_optimizer_unit *u)
{
    void *other = u->x;

    u->x = u->to;
    u->to = other;
}

/* Before the first product overwrites the graft's step, its norm is taken. */
static gram_status multiply_root(struct gram_optimizer_group *group, int k)
{
    struct cpu_optimizer_unit *u = unit_of(group);
    const int64_t n = u->b->size[k];

    if (k == 0 && u->o->options.graft != GRAM_GRAFT_NONE)
        u->graft = sqrt(u->math->squares(u->b->count, u->grafted));
    u->grafted = NULL;
    cpu_optimizer_load(u->o, &u->b->root[k], u->work, true, u->matrix);
    rotate_product(u->work, n, u->b->count / n, u->matrix, u->x, u->to);
    exchange(u);
    return GRAM_OK;
}

static gram_status project(struct gram_optimizer_group *group, int k, bool back)
{
    struct cpu_optimizer_unit *u = unit_of(group);
    struct cpu_mode mode = cpu_mode_of(u->b->size, u->b->order, k);

    cpu_mode_product(u->work, &mode, u->x,
                     cpu_optimizer_open(u->o, &u->b->root[k], u->work, u->matrix), back, u->to);
    exchange(u);
    return GRAM_OK;
}

static gram_status add_momentum(struct gram_optimizer_group *group)
{
    struct cpu_optimizer_unit *u = unit_of(group);
    const gram_optimizer_options *o = &u->o->options;
    void *m;

    if (!u->b->moment.dtype)
        return GRAM_OK;
    m = cpu_optimizer_open(u->o, &u->b->moment, u->work, u->moment);
    u->math->momentum(u->b->count, o->momentum, 1 - o->dampening, o->nesterov != 0, m, u->x);
    cpu_optimizer_close(u->o, &u->b->moment, u->work, m);
    return GRAM_OK;
}

static gram_status orthogonalise(struct gram_optimizer_group *group)
{
    cpu_muon_run(unit_of(group));
    return GRAM_OK;
}

/* ---- Lengths, and the end -------------------------------------------------------------------- */

static gram_status scale(struct gram_optimizer_group *group, double s)
{
    struct cpu_optimizer_unit *u = unit_of(group);

    u->math->scale(u->b->count, s, u->x);
    return GRAM_OK;
}

static gram_status scale_to_graft(struct gram_optimizer_group *group)
{
    struct cpu_optimizer_unit *u = unit_of(group);

    return scale(group, u->graft / (sqrt(u->math->squares(u->b->count, u->x)) + 1e-16));
}

/* The first step moved nothing and does not count. */
static gram_status scale_to_mean(struct gram_optimizer_group *group)
{
    struct cpu_optimizer_unit *u = unit_of(group);
    const gram_optimizer_options *o = &u->o->options;
    double steps = (double)(u->t - 1), by = 1;

    if (o->bias_correction)
        by = sqrt(1 - pow(o->beta2, steps)) / (1 - pow(o->beta1, steps));
    if (o->normalize)
        by /= 1e-30 + sqrt(u->math->squares(u->b->count, u->x) / (double)u->b->count);
    if (o->decay == GRAM_DECAY_DECOUPLED) /* the decay applies to the parameter after the step */
        by *= 1 - o->learning_rate * o->weight_decay;
    return scale(group, by);
}

/* Decoupled decay, and the momentum of directions, of the direction in g. */
static void decay_and_momentum(struct cpu_optimizer_unit *u, const struct gram_optimizer_op *op)
{
    const gram_optimizer_options *options = &u->o->options;
    int64_t count = u->b->count;

    if (options->weight_decay > 0 && options->decay == GRAM_DECAY_DECOUPLED) {
        read_block(u, op->parameters[u->b->parameter], u->spare[0]);
        u->math->add(count, options->weight_decay, u->spare[0], u->g);
    }
    if (u->b->velocity.dtype) {
        cpu_optimizer_load(u->o, &u->b->velocity, u->work, false, u->spare[0]);
        u->math->momentum(count, options->momentum, 1 - options->dampening, options->nesterov,
                          u->spare[0], u->g);
        cpu_optimizer_store(u->o, &u->b->velocity, u->work, u->spare[0]);
    }
}

static gram_status finish(struct gram_optimizer_group *group)
{
    struct cpu_optimizer_unit *u = unit_of(group);
    const struct gram_optimizer_op *op = group->job->op;
    const int64_t index = u->b->parameter, count = u->b->count;
    const size_t bytes = (size_t)count * gram_dtype_size(u->work);
    const void *direction = u->grafted ? u->grafted : u->x;

    if (group->own && !u->still) {
        if (direction != u->g)
            memcpy(u->g, direction, bytes);
        decay_and_momentum(u, op);
    } else {
        memset(u->g, 0, bytes);
    }
    if (op->directions && op->directions[index])
        write_block(u, u->g, op->directions[index]);
    if (group->own && op->updated) {
        read_block(u, op->parameters[index], u->spare[0]);
        u->math->add(count, -u->o->options.learning_rate, u->g, u->spare[0]);
        write_block(u, u->spare[0], op->updated[index]);
    }
    return GRAM_OK;
}

/* ---- Who rests, and refreshes ---------------------------------------------------------------- */

/* Sets the flag of a gradient that is not finite, or whose squares do not fit into the statistics.
 * Several threads, each with a block of the parameter, may set it: they all write the same. */
static gram_status check_finite(struct gram_optimizer_group *group)
{
    struct cpu_optimizer_unit *u = unit_of(group);
    const struct cpu_job *job = (const struct cpu_job *)(const void *)group->job;
    double most = gram_optimizer_statistics(u->p) == GRAM_F64 ? DBL_MAX : FLT_MAX;

    if (!job->step.op->gradients[u->b->parameter])
        return GRAM_OK;
    TRY(gather(group));
    if (!(u->math->squares(u->b->count, u->g) <= most))
        __atomic_store_n(&job->flags[u->b->parameter], 1, __ATOMIC_RELAXED);
    return GRAM_OK;
}

/* Sets the flags of parameters that rest; counts those whose gradients are not finite. */
static gram_status find_resting(struct gram_optimizer_job *step)
{
    struct cpu_job *job = (struct cpu_job *)(void *)step;
    const struct gram_optimizer_op *op = step->op;

    memset(job->flags, 0, (size_t)step->o->parameters);
    TRY(for_groups(step, check_finite, true));
    for (int64_t i = 0; i < step->o->parameters; i++) {
        op->report->skipped += job->flags[i];
        if (job->flags[i] && step->o->options.not_finite == GRAM_NOT_FINITE_FAIL)
            return gram_fail(step->g, GRAM_NUMERICAL,
                             "gradients[%lld] holds a NaN or an infinity, or its sum of squares "
                             "overflows",
                             (long long)i);
        job->flags[i] |= !op->gradients[i];
    }
    return GRAM_OK;
}

static gram_status refresh(struct gram_optimizer_job *step,
                           void (*run)(const struct cpu_optimizer_step *s))
{
    const struct cpu_job *job = (const struct cpu_job *)(const void *)step;
    const struct cpu_optimizer_step s = {.job = step, .rests = job->flags, .scratch = job->scratch};
    int64_t start = gram_trace_begin(step->g);

    run(&s);
    gram_trace_end(step->g, "optimizer refresh", 0, start);
    return GRAM_OK;
}

static gram_status refresh_roots(struct gram_optimizer_job *step)
{
    return refresh(step, cpu_shampoo_refresh);
}

static gram_status refresh_bases(struct gram_optimizer_job *step)
{
    return refresh(step, cpu_soap_refresh);
}

static gram_status count_step(struct gram_optimizer_job *step)
{
    const struct cpu_job *job = (const struct cpu_job *)(const void *)step;

    for (int64_t i = 0; i < step->o->parameters; i++)
        step->o->steps[i] += !job->flags[i];
    ++*step->o->step;
    return GRAM_OK;
}

/* ---- A step ---------------------------------------------------------------------------------- */

static const struct gram_optimizer_passes passes = {
    .find_resting = find_resting,
    .for_groups = for_groups,
    .count_step = count_step,
    .gather = gather,
    .accumulate = accumulate,
    .filter = filter,
    .adapt = adapt,
    .multiply_root = multiply_root,
    .project = project,
    .scale_to_graft = scale_to_graft,
    .scale_to_mean = scale_to_mean,
    .scale = scale,
    .add_momentum = add_momentum,
    .orthogonalise = orthogonalise,
    .finish = finish,
    .refresh_roots = refresh_roots,
    .refresh_bases = refresh_bases,
};

gram_status cpu_optimizer_step(gram_context *g, const struct gram_optimizer_op *op)
{
    struct cpu_job job = {
        .step = {.g = g, .o = op->optimizer, .op = op, .passes = &passes}
    };

    TRY(open_scratch(&job));
    return gram_optimizer_run(&job.step);
}
