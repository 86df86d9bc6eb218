/*
 * cuda_optimizer.c - a step of an optimizer on the device: who rests, the waves, the end
 *
 * A step only queues: without a report nothing waits, and it can be captured in a graph.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_optimizer.h"
#include "cuda/arena.h"

static const struct cuda_kernel muon_momentum = {"muon.cu", "muon_momentum"};
static const struct cuda_kernel optimizer_begin = {"optimizer_begin.cu", "optimizer_begin"};
static const struct cuda_kernel optimizer_check_finite = {"optimizer_begin.cu",
                                                          "optimizer_check_finite"};
static const struct cuda_kernel optimizer_end = {"optimizer_begin.cu", "optimizer_end"};
static const struct cuda_kernel optimizer_list = {"optimizer_begin.cu", "optimizer_list"};
static const struct cuda_kernel optimizer_mark_not_finite = {"optimizer_begin.cu",
                                                             "optimizer_mark_not_finite"};
static const struct cuda_kernel optimizer_filter = {"optimizer_block.cu", "optimizer_filter"};
static const struct cuda_kernel optimizer_finish = {"optimizer_block.cu", "optimizer_finish"};
static const struct cuda_kernel optimizer_gather = {"optimizer_block.cu", "optimizer_gather"};
static const struct cuda_kernel optimizer_permute = {"optimizer_block.cu", "optimizer_permute"};
static const struct cuda_kernel optimizer_squares = {"optimizer_block.cu", "optimizer_squares"};
static const struct cuda_kernel optimizer_ema = {"optimizer_matrix.cu", "optimizer_ema"};
static const struct cuda_kernel optimizer_unpack = {"optimizer_matrix.cu", "optimizer_unpack"};
static const struct cuda_kernel soap_basis = {"soap_basis.cu", "soap_basis"};

gram_status cuda_optimizer_launch(const struct cuda_optimizer_job *job, gram_dtype work,
                                  const struct cuda_kernel *kernel, int64_t blocks, void *params)
{
    return cuda_launch_plain(job->step.g, kernel, work, blocks, OPTIMIZER_THREADS, params);
}

/* ---- What a step is given -------------------------------------------------------------------- */

/* The device reads and writes tensors where they are: memory that it cannot reach is refused
 * here. */
static gram_status check_pointers(gram_context *g, const struct gram_optimizer_op *op)
{
    for (int64_t i = 0; i < op->optimizer->parameters; i++) {
        const gram_tensor *const tensors[] = {op->parameters[i], op->gradients[i],
                                              op->directions ? op->directions[i] : NULL};
        static const char *const names[] = {"parameters", "gradients", "directions"};
        for (int j = 0; j < 3; j++) {
            struct gram_view view = {.data = tensors[j] ? tensors[j]->data : NULL};
            TRY(gram_cuda_check_pointer(g, names[j], &view));
        }
    }
    return GRAM_OK;
}

/* A tensor as kernels see it: in as few dimensions as its strides allow, or with data NULL where it
 * is not wanted. */
static struct optimizer_tensor tensor_of(const gram_tensor *t)
{
    struct optimizer_tensor to = {0};
    int64_t shape[GRAM_MAX_DIMS], stride[GRAM_MAX_DIMS];

    if (!t)
        return to;
    to.data = t->data;
    to.dtype = t->dtype;
    to.ndim = gram_optimizer_join(t, shape, stride);
    for (int d = 0; d < to.ndim; d++) {
        to.shape[d] = shape[d];
        to.stride[d] = stride[d];
    }
    return to;
}

/* The table of all tensors, which lies in scratch. */
static gram_status send_tensors(const struct cuda_optimizer_job *job)
{
    const struct gram_optimizer_op *op = job->step.op;

    for (int64_t first = 0; first < job->step.o->parameters; first += OPTIMIZER_LIST) {
        struct optimizer_list list = {.to = job->params.tensors, .first = first};
        list.count = gram_least(OPTIMIZER_LIST, job->step.o->parameters - first);
        for (int64_t i = 0; i < list.count; i++)
            list.item[i] = (struct optimizer_tensors){
                .weight = tensor_of(op->parameters[first + i]),
                .gradient = tensor_of(op->gradients[first + i]),
                .direction = tensor_of(op->directions ? op->directions[first + i] : NULL),
                .takes = gram_optimizer_takes_now(&job->step, first + i),
            };
        TRY(cuda_optimizer_launch(job, GRAM_F32, &optimizer_list, 1, &list));
    }
    return GRAM_OK;
}

/* The numbers of optimizer_filter and optimizer_finish.  Adam, which SOAP takes for all elements
 * and Muon for vectors, is Shampoo's filter with beta3 = beta1, whose "graft" is the direction
 * itself: V, epsilon and corrections of the graft get those of Adam. */
static struct optimizer_options options_of(const gram_optimizer_options *o)
{
    bool decoupled = o->decay == GRAM_DECAY_DECOUPLED;
    struct optimizer_options options = {
        .learning_rate = o->learning_rate,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .beta3 = o->beta3,
        .epsilon = o->epsilon,
        .momentum = o->momentum,
        .take = 1 - o->dampening,
        .decay_gradient = decoupled ? 0 : o->weight_decay,
        .decay_direction = decoupled ? o->weight_decay : 0,
        .graft_beta2 = o->graft_beta2,
        .graft_epsilon = o->graft_epsilon,
        .nesterov = o->nesterov != 0,
        .start = o->start,
        .bias_correction = o->bias_correction != 0,
        .statistics = o->statistics,
        .graft_none = o->graft == GRAM_GRAFT_NONE,
        .graft_sum = o->graft == GRAM_GRAFT_ADAGRAD,
        .graft_corrected = o->graft == GRAM_GRAFT_ADAM,
    };

    if (o->method == GRAM_MUON) { /* of vectors: Adam as a filter and its graft */
        options.beta3 = o->beta1;
        options.graft_beta2 = o->beta2;
        options.graft_epsilon = o->epsilon;
        options.graft_corrected = options.bias_correction;
        options.graft_none = true;
        options.start = 0;
    }
    if (o->method == GRAM_SOAP) { /* Adam again, of all; beta2 1: factors stay as they are */
        options.beta2 = 1;
        options.beta3 = o->beta1;
        options.graft_beta2 = o->beta2;
        options.graft_epsilon = o->epsilon;
        options.graft_corrected = false;
        options.graft_none = true;
        options.start = 0;
        options.soap = true;
        options.normalize = o->normalize != 0;
        options.soap_keep = decoupled ? 1 - o->learning_rate * o->weight_decay : 1;
    }
    return options;
}

/* What all launches of the step are told, but for the tables in scratch.  The counts lie in the
 * state as the host's copies lie in o->counts. */
static void fill_params(struct cuda_optimizer_job *job)
{
    const gram_optimizer *o = job->step.o;
    const struct cuda_optimizer *c = job->c;
    char *state = o->state;

    job->params = (struct optimizer_params){
        .counts = c->counts,
        .failed = c->failed,
        .step = (long long *)(void *)(state + ((char *)o->step - o->counts)),
        .steps = (long long *)(void *)(state + ((char *)o->steps - o->counts)),
        .failures = (long long *)(void *)(state + ((char *)o->failures - o->counts)),
        .parameters = o->parameters,
        .options = options_of(&o->options),
        .updates = job->step.op->updated != NULL,
    };
}

/* ---- Waves ----------------------------------------------------------------------------------- */

static struct cuda_optimizer_job *job_of(struct gram_optimizer_job *step)
{
    return (struct cuda_optimizer_job *)(void *)step;
}

static struct cuda_optimizer_group *wave_of(struct gram_optimizer_group *group)
{
    return (struct cuda_optimizer_group *)(void *)group;
}

/* Each kind has as many waves as its blocks need; the parameters of a wave are made once and change
 * from pass to pass. */
static gram_status for_waves(struct cuda_optimizer_job *job, gram_optimizer_pass *body, bool others)
{
    for (int64_t i = 0; i < job->c->kinds; i++) {
        const struct cuda_optimizer_kind *kind = &job->c->kind[i];
        for (int64_t first = 0; (kind->own || others) && first < kind->count; first += kind->wave) {
            const int64_t count = gram_least(kind->wave, kind->count - first);
            struct cuda_optimizer_group u = {
                .all = {&job->step, kind->block, job->c->order + kind->first, kind->count,
                        kind->own},
                .job = job,
                .kind = kind,
                .p = cuda_optimizer_wave(job, kind, first, count),
            };
            TRY(body(&u.all));
        }
    }
    return GRAM_OK;
}

/* Roots, which are taken between passes, give cuBLAS other scratch. */
static gram_status for_groups(struct gram_optimizer_job *step, gram_optimizer_pass *body,
                              bool others)
{
    struct cuda_optimizer_job *job = job_of(step);

    TRY(gram_cuda_blas(step->g, job->blas_memory, &job->blas));
    return for_waves(job, body, others);
}

/* Launches a block of threads for each tile of the wave's blocks. */
static gram_status for_tiles(struct cuda_optimizer_group *u, const struct cuda_kernel *kernel)
{
    return cuda_optimizer_launch(u->job, u->kind->work, kernel, u->p.blocks * u->p.tiles, &u->p);
}

/* Launches one for each tile of the upper triangle of a matrix of every block. */
static gram_status for_pairs(struct cuda_optimizer_group *u, const struct cuda_kernel *kernel)
{
    return cuda_optimizer_launch(u->job, u->kind->work, kernel,
                                 u->p.blocks * cuda_optimizer_pairs(u->p.n), &u->p);
}

static gram_status for_parameters(struct cuda_optimizer_job *job, const struct cuda_kernel *kernel)
{
    return cuda_optimizer_launch(job, GRAM_F64, kernel,
                                 gram_ceil_div(job->step.o->parameters + 1, OPTIMIZER_THREADS),
                                 &job->params);
}

/* ---- Gradients and factors ------------------------------------------------------------------- */

/* optimizer_gather writes zeros where the device knows that the parameter rests. */
static gram_status gather(struct gram_optimizer_group *group)
{
    struct cuda_optimizer_group *u = wave_of(group);

    u->x = u->spare = u->p.g;
    u->to = u->p.to;
    return for_tiles(u, &optimizer_gather);
}

static struct cuda_gemm_items product_of(const struct cuda_optimizer_group *u)
{
    return (struct cuda_gemm_items){
        .dtype = u->kind->work,
        .compute = cuda_optimizer_compute(u->job, u->kind->work),
        .m = u->p.n,
        .n = u->p.n,
        .count = u->p.blocks,
        .alpha = 1,
    };
}

/* matrix = X_k X_k^T, X_k being X with dimension k as rows. */
static gram_status multiply_unfolding(struct cuda_optimizer_group *u)
{
    struct optimizer_params *p = &u->p;
    struct cuda_gemm_items gemm = product_of(u);
    struct cuda_gemm_side rows = {p->g, p->count / p->n, p->array, false};

    if (p->before > 1 && p->after == 1) { /* its columns lie one after the other */
        rows.ld = p->n;
        rows.transposed = true;
    } else if (p->before > 1) {
        p->from = p->g;
        TRY(for_tiles(u, &optimizer_permute));
        p->from = NULL;
        rows.data = p->to;
    }
    gemm.k = p->count / p->n;
    gemm.a = gemm.b = rows;
    gemm.a.transposed = !rows.transposed;
    gemm.c = p->matrix;
    gemm.ldc = p->n;
    gemm.stride_c = p->n * p->n;
    return gram_cuda_gemm_items(u->job->step.g, u->job->blas, &gemm);
}

/* The product is made for all blocks of the wave; optimizer_ema leaves out those that rest or whose
 * factors take no gradient in. */
static gram_status accumulate(struct gram_optimizer_group *group, double keep, double take)
{
    struct cuda_optimizer_group *u = wave_of(group);

    u->p.keep = keep;
    u->p.take = take;
    for (int k = 0; k < group->b->order; k++) {
        if (!group->b->factor[k].dtype)
            continue;
        cuda_optimizer_dimension(group->b, k, &u->p);
        TRY(multiply_unfolding(u));
        TRY(for_pairs(u, &optimizer_ema));
    }
    return GRAM_OK;
}

/* ---- Moments --------------------------------------------------------------------------------- */

/* One kernel updates V and M, and leaves F in g, the graft's step in grafted, and the sum of its
 * squares. */
static gram_status filter(struct gram_optimizer_group *group)
{
    struct cuda_optimizer_group *u = wave_of(group);

    if (group->job->o->options.graft != GRAM_GRAFT_NONE || u->p.moment_type)
        return for_tiles(u, &optimizer_filter);
    u->spare = u->p.grafted; /* the gradient is what it would make, and stays */
    u->p.grafted = u->p.g;
    return GRAM_OK;
}

/* Adam's step is Shampoo's filter and graft with other numbers: see options_of. */
static gram_status adapt(struct gram_optimizer_group *group)
{
    struct cuda_optimizer_group *u = wave_of(group);

    u->p.g = u->x;
    TRY(for_tiles(u, &optimizer_filter));
    u->x = u->p.from = u->p.grafted;
    return GRAM_OK;
}

/* ---- Matrices applied ------------------------------------------------------------------------ */

/* X is the result of a product; the next one may go to free. */
static void advance(struct cuda_optimizer_group *u, char *free)
{
    u->x = u->p.from = u->to;
    u->to = free;
}

/* By parts of f16 where there is room for them (cuda_shampoo.c). */
static gram_status multiply_root(struct gram_optimizer_group *group, int k)
{
    struct cuda_optimizer_group *u = wave_of(group);
    struct optimizer_params *p = &u->p;
    struct cuda_gemm_items gemm;

    p->is_root = 1;
    cuda_optimizer_dimension(group->b, k, p);
    TRY(for_pairs(u, &optimizer_unpack));
    gemm = product_of(u);
    gemm.n = p->count / p->n;
    gemm.k = p->n;
    gemm.a = (struct cuda_gemm_side){p->matrix, p->n, p->n * p->n, false};
    gemm.b = (struct cuda_gemm_side){u->x, gemm.n, p->array, true};
    gemm.c = u->to;
    gemm.ldc = p->n;
    gemm.stride_c = p->array;
    TRY(p->array_halves ? cuda_shampoo_multiply_halves(u, gemm)
                        : gram_cuda_gemm_items(u->job->step.g, u->job->blas, &gemm));
    advance(u, k == 0 ? u->spare : u->x);
    return GRAM_OK;
}

/* A basis is brought from the state to scratch in the dtype of the arithmetic, then multiplied
 * by. */
static gram_status project(struct gram_optimizer_group *group, int k, bool back)
{
    struct cuda_optimizer_group *u = wave_of(group);
    struct optimizer_params *p = &u->p;
    const struct cuda_soap_product product = {
        .p = p,
        .work = u->kind->work,
        .compute = cuda_optimizer_compute(u->job, u->kind->work),
        .count = p->blocks,
        .matrix = p->matrix,
        .back = back,
        .x = u->x,
        .to = u->to,
    };

    cuda_optimizer_dimension(group->b, k, p);
    TRY(cuda_optimizer_launch(u->job, u->kind->work, &soap_basis,
                              p->blocks * gram_ceil_div(p->n * p->n, OPTIMIZER_TILE), p));
    TRY(cuda_soap_multiply(u->job->step.g, u->job->blas, &product));
    advance(u, u->x);
    return GRAM_OK;
}

/* muon_momentum sums the squares of X too, by which the next kernel divides. */
static gram_status add_momentum(struct gram_optimizer_group *group)
{
    return for_tiles(wave_of(group), &muon_momentum);
}

static gram_status orthogonalise(struct gram_optimizer_group *group)
{
    return cuda_muon_run(wave_of(group));
}

/* ---- Lengths, and the end -------------------------------------------------------------------- */

/* optimizer_finish applies this and the sums of squares, which it is given. */
static gram_status scale(struct gram_optimizer_group *group, double s)
{
    wave_of(group)->p.scale = s;
    return GRAM_OK;
}

/* The sums of the squares of X, beside which optimizer_finish has those of the graft's step. */
static gram_status scale_to_graft(struct gram_optimizer_group *group)
{
    return for_tiles(wave_of(group), &optimizer_squares);
}

static gram_status scale_to_mean(struct gram_optimizer_group *group)
{
    return group->job->o->options.normalize ? for_tiles(wave_of(group), &optimizer_squares)
                                            : GRAM_OK;
}

/* Blocks of other ranks get here as well: their directions are zeros. */
static gram_status finish(struct gram_optimizer_group *group)
{
    return for_tiles(wave_of(group), &optimizer_finish);
}

/* ---- Who rests, refreshes, and the count ----------------------------------------------------- */

/* A sum of squares for each tile, then a verdict for each block: two launches, so that no block of
 * threads waits for another. */
static gram_status check_finite(struct gram_optimizer_group *group)
{
    struct cuda_optimizer_group *u = wave_of(group);

    TRY(for_tiles(u, &optimizer_check_finite));
    return cuda_optimizer_launch(u->job, u->kind->work, &optimizer_mark_not_finite, u->p.blocks,
                                 &u->p);
}

/* Refuses a step with a gradient that is not finite: the host has to know. */
static gram_status refuse_not_finite(const struct cuda_optimizer_job *job)
{
    gram_context *g = job->step.g;

    TRY(g->backend->memory_copy(g, job->c->now, job->params.now,
                                (size_t)job->step.o->parameters * sizeof *job->c->now));
    TRY(g->backend->synchronize(g));
    for (int64_t i = 0; i < job->step.o->parameters; i++)
        if (job->c->now[i].rests & OPTIMIZER_NOT_FINITE)
            return gram_fail(g, GRAM_NUMERICAL,
                             "gradients[%lld] holds a NaN or an infinity, or its sum of squares "
                             "overflows",
                             (long long)i);
    return GRAM_OK;
}

static gram_status find_resting(struct gram_optimizer_job *step)
{
    struct cuda_optimizer_job *job = job_of(step);

    TRY(send_tensors(job));
    TRY(for_parameters(job, &optimizer_begin));
    TRY(for_waves(job, check_finite, true));
    if (step->o->options.not_finite == GRAM_NOT_FINITE_FAIL)
        TRY(refuse_not_finite(job));
    return GRAM_OK;
}

static gram_status refresh_roots(struct gram_optimizer_job *step)
{
    const struct cuda_optimizer_job *job = job_of(step);

    for (int64_t i = 0; i < job->c->kinds; i++)
        if (job->c->kind[i].own)
            TRY(cuda_shampoo_refresh(job, &job->c->kind[i]));
    return GRAM_OK;
}

static gram_status refresh_bases(struct gram_optimizer_job *step)
{
    const struct cuda_optimizer_job *job = job_of(step);

    for (int64_t i = 0; i < job->c->kinds; i++)
        if (job->c->kind[i].own)
            TRY(cuda_soap_refresh(job, &job->c->kind[i]));
    return GRAM_OK;
}

/* The host waits here, and only here: for the counts of this step and the state's. */
static gram_status report(const struct cuda_optimizer_job *job)
{
    gram_context *g = job->step.g;
    struct optimizer_counts counts = {0};

    TRY(g->backend->memory_copy(g, &counts, job->params.counts, sizeof counts));
    TRY(gram_optimizer_read_counts(g, job->step.o)); /* waits */
    job->step.op->report->skipped = counts.skipped;
    job->step.op->report->refreshed = counts.refreshed;
    job->step.op->report->kept = counts.kept;
    job->step.op->report->failed = counts.failed;
    job->step.op->report->first_failed = counts.first_failed;
    return GRAM_OK;
}

/* As far as the host knows: a gradient that is not finite is not in its count. */
static void count_on_host(const struct cuda_optimizer_job *job)
{
    ++*job->step.o->step;
    for (int64_t i = 0; i < job->step.o->parameters; i++) {
        if (!job->step.op->gradients[i])
            continue;
        if (job->step.o->options.method == GRAM_SOAP && job->step.o->steps[i] == 0)
            job->step.o->stale = true; /* its first step, if it was one, made the bases */
        job->step.o->steps[i]++;
    }
}

static gram_status count_step(struct gram_optimizer_job *step)
{
    const struct cuda_optimizer_job *job = job_of(step);

    TRY(for_parameters(job_of(step), &optimizer_end));
    if (step->op->asked)
        return report(job);
    if (!step->capturing)
        count_on_host(job);
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

static gram_status run(struct cuda_optimizer_job *job)
{
    fill_params(job);
    TRY(cuda_optimizer_open_scratch(job));
    return gram_optimizer_run(&job->step);
}

/* What a graph cannot have: a report and a refusal, for which the host would wait, and SOAP's first
 * step, which a replay would repeat. */
static gram_status check_capture(struct cuda_optimizer_job *job)
{
    gram_context *g = job->step.g;

    TRY(gram_cuda_capturing(g, &job->step.capturing));
    if (job->step.capturing && job->step.op->asked)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "report is given, expected NULL, because a captured graph cannot wait "
                         "for it");
    if (job->step.capturing && job->step.o->options.not_finite == GRAM_NOT_FINITE_FAIL)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "options.not_finite is GRAM_NOT_FINITE_FAIL, expected "
                         "GRAM_NOT_FINITE_SKIP, because a captured graph cannot wait for the "
                         "answer");
    for (int64_t i = 0; job->step.capturing && i < job->step.o->parameters; i++)
        if (job->step.o->options.method == GRAM_SOAP && job->step.op->gradients[i] &&
            job->step.o->steps[i] == 0)
            return gram_fail(g, GRAM_UNSUPPORTED,
                             "parameters[%lld] has done no step yet; its first step computes the "
                             "bases, which a captured graph would compute in every step",
                             (long long)i);
    return GRAM_OK;
}

/* What a call has that a workspace query does not: tensors, and a state that is to change.  The
 * host's counts are read again where a graph, a file or the caller may have changed them. */
static gram_status prepare_call(struct cuda_optimizer_job *job)
{
    gram_context *g = job->step.g;

    TRY(check_pointers(g, job->step.op));
    TRY(check_capture(job));
    if (!job->step.capturing && (job->step.o->stale || job->c->captured)) {
        TRY(gram_optimizer_read_counts(g, job->step.o));
        job->step.o->stale = false;
    }
    job->c->captured |= job->step.capturing;
    return GRAM_OK;
}

gram_status cuda_optimizer_step(gram_context *g, const struct gram_optimizer_op *op)
{
    struct cuda_optimizer_job job = {
        .step = {.g = g, .o = op->optimizer, .op = op, .passes = &passes},
        .c = op->optimizer->device
    };
    gram_status status;
    bool entered;

    if (!g->measure)
        TRY(prepare_call(&job));
    entered = gram_cuda_enter(g->device);
    status = run(&job);
    gram_cuda_leave(g->device, entered);
    return status;
}
