/*
 * cuda_optimizer.c - a step of an optimizer on the device: who rests, the waves, the end
 *
 * A step only queues: without a report nothing waits, and it can be captured in a graph.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_optimizer.h"
#include "cuda/arena.h"

static const struct cuda_kernel optimizer_begin = {"optimizer_begin.cu", "optimizer_begin"};
static const struct cuda_kernel optimizer_check_finite = {"optimizer_begin.cu",
                                                          "optimizer_check_finite"};
static const struct cuda_kernel optimizer_end = {"optimizer_begin.cu", "optimizer_end"};
static const struct cuda_kernel optimizer_list = {"optimizer_begin.cu", "optimizer_list"};
static const struct cuda_kernel optimizer_mark_not_finite = {"optimizer_begin.cu",
                                                             "optimizer_mark_not_finite"};

gram_status cuda_optimizer_launch(const struct cuda_optimizer_job *job, gram_dtype work,
                                  const struct cuda_kernel *kernel, int64_t blocks, void *params)
{
    return cuda_launch_plain(job->g, kernel, work, blocks, OPTIMIZER_THREADS, params);
}

/* ---- What a step is given ------------------------------------------------------------------- */

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

static struct optimizer_tensor tensor_of(const gram_tensor *t)
{
    struct optimizer_tensor to = {0};
    int64_t shape[GRAM_MAX_DIMS], stride[GRAM_MAX_DIMS];

    if (!t)
        return to;
    to.data = t->data;
    to.type = cuda_optimizer_type(t->dtype);
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
    const struct gram_optimizer_op *op = job->op;

    for (int64_t first = 0; first < job->o->parameters; first += OPTIMIZER_LIST) {
        struct optimizer_list list = {.to = job->params.tensors, .first = first};
        list.count = gram_least(OPTIMIZER_LIST, job->o->parameters - first);
        for (int64_t i = 0; i < list.count; i++)
            list.item[i] = (struct optimizer_tensors){
                .weight = tensor_of(op->parameters[first + i]),
                .gradient = tensor_of(op->gradients[first + i]),
                .direction = tensor_of(op->directions ? op->directions[first + i] : NULL),
                .takes = cuda_optimizer_takes(job, first + i),
            };
        TRY(cuda_optimizer_launch(job, GRAM_F32, &optimizer_list, 1, &list));
    }
    return GRAM_OK;
}

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

static void fill_params(struct cuda_optimizer_job *job)
{
    const gram_optimizer *o = job->o;
    const struct cuda_optimizer *c = job->c;
    char *scratch = job->scratch, *state = o->state;

    job->params = (struct optimizer_params){
        .tensors = (struct optimizer_tensors *)(void *)scratch,
        .now = (struct optimizer_now *)(void *)(scratch + job->at.now),
        .counts = (struct optimizer_counts *)(void *)(c->memory + c->counts_at),
        .failed = (int *)(void *)(c->memory + c->failed_at),
        .step = (long long *)(void *)(state + ((char *)o->step - o->counts)),
        .steps = (long long *)(void *)(state + ((char *)o->steps - o->counts)),
        .failures = (long long *)(void *)(state + ((char *)o->failures - o->counts)),
        .parameters = o->parameters,
        .options = options_of(&o->options),
        .updates = job->op->updated != NULL,
        .squares = (double *)(void *)(scratch + job->at.squares),
        .grafted_squares = (double *)(void *)(scratch + job->at.grafted_squares),
    };
}

/* ---- Passes --------------------------------------------------------------------------------- */

typedef gram_status pass_body(const struct cuda_optimizer_job *job,
                              const struct cuda_optimizer_kind *kind, struct optimizer_params *p);

/* Over the waves of all kinds; others: of other ranks too. */
static gram_status do_pass(const struct cuda_optimizer_job *job, pass_body *body, bool others)
{
    for (int64_t i = 0; i < job->c->kinds; i++) {
        const struct cuda_optimizer_kind *kind = &job->c->kind[i];
        for (int64_t first = 0; (kind->own || others) && first < kind->count; first += kind->wave) {
            struct optimizer_params p =
                cuda_optimizer_wave(job, kind, first, gram_least(kind->wave, kind->count - first));
            TRY(body(job, kind, &p));
        }
    }
    return GRAM_OK;
}

static gram_status look(const struct cuda_optimizer_job *job,
                        const struct cuda_optimizer_kind *kind, struct optimizer_params *p)
{
    TRY(cuda_optimizer_launch(job, kind->work, &optimizer_check_finite, p->blocks * p->tiles, p));
    return cuda_optimizer_launch(job, kind->work, &optimizer_mark_not_finite, p->blocks, p);
}

static gram_status for_parameters(struct cuda_optimizer_job *job, const struct cuda_kernel *kernel)
{
    return cuda_optimizer_launch(job, GRAM_F64, kernel,
                                 gram_ceil_div(job->o->parameters + 1, OPTIMIZER_THREADS),
                                 &job->params);
}

/* Refuses a step with a gradient that is not finite: the host has to know. */
static gram_status refuse_not_finite(const struct cuda_optimizer_job *job)
{
    gram_context *g = job->g;

    TRY(g->backend->memory_copy(g, job->c->now, job->params.now,
                                (size_t)job->o->parameters * sizeof *job->c->now));
    TRY(g->backend->synchronize(g));
    for (int64_t i = 0; i < job->o->parameters; i++)
        if (job->c->now[i].rests & OPTIMIZER_NOT_FINITE)
            return gram_fail(g, GRAM_NUMERICAL,
                             "gradients[%lld] holds a NaN or an infinity, or its sum of squares "
                             "overflows",
                             (long long)i);
    return GRAM_OK;
}

/* Only after this is anything written. */
static gram_status choose(struct cuda_optimizer_job *job)
{
    TRY(send_tensors(job));
    TRY(for_parameters(job, &optimizer_begin));
    TRY(do_pass(job, look, true));
    if (job->o->options.not_finite == GRAM_NOT_FINITE_FAIL)
        TRY(refuse_not_finite(job));
    return GRAM_OK;
}

static gram_status use_blas(struct cuda_optimizer_job *job)
{
    return gram_cuda_blas(job->g, job->scratch + job->at.blas, &job->blas);
}

static gram_status report(const struct cuda_optimizer_job *job)
{
    gram_context *g = job->g;
    struct optimizer_counts counts = {0};

    TRY(g->backend->memory_copy(g, &counts, job->params.counts, sizeof counts));
    TRY(gram_optimizer_read_counts(g, job->o)); /* waits */
    job->op->report->skipped = counts.skipped;
    job->op->report->refreshed = counts.refreshed;
    job->op->report->kept = counts.kept;
    job->op->report->failed = counts.failed;
    job->op->report->first_failed = counts.first_failed;
    return GRAM_OK;
}

/* As far as the host knows: a gradient that is not finite is not in its count. */
static void count_steps(const struct cuda_optimizer_job *job)
{
    ++*job->o->step;
    for (int64_t i = 0; i < job->o->parameters; i++) {
        if (!job->op->gradients[i])
            continue;
        if (job->o->options.method == GRAM_SOAP && job->o->steps[i] == 0)
            job->o->stale = true; /* its first step, if it was one, made the bases */
        job->o->steps[i]++;
    }
}

static const struct cuda_optimizer_method methods[] = {
    [GRAM_SHAMPOO] = {.statistics = cuda_shampoo_statistics,
                      .refresh = cuda_shampoo_refresh,
                      .direction = cuda_shampoo_direction},
    [GRAM_SOAP] = {         .refresh = cuda_soap_refresh,
                      .direction = cuda_soap_direction,
                      .refresh_last = true},
    [GRAM_MUON] = {     .direction = cuda_muon_direction },
};

static gram_status refresh(const struct cuda_optimizer_job *job,
                           const struct cuda_optimizer_method *method)
{
    for (int64_t i = 0; i < job->c->kinds && method->refresh; i++)
        if (job->c->kind[i].own)
            TRY(method->refresh(job, &job->c->kind[i]));
    return GRAM_OK;
}

static gram_status run(struct cuda_optimizer_job *job)
{
    const struct cuda_optimizer_method *method = &methods[job->o->options.method];
    void *scratch;

    TRY(cuda_optimizer_lay_out(job->g, job->o, &job->at));
    TRY(gram_cuda_scratch(job->g, job->at.bytes, &scratch));
    job->scratch = scratch;
    fill_params(job);
    TRY(choose(job));
    TRY(use_blas(job));
    if (method->statistics)
        TRY(do_pass(job, method->statistics, false));
    if (!method->refresh_last)
        TRY(refresh(job, method));
    TRY(use_blas(job)); /* roots have given it other scratch */
    TRY(do_pass(job, method->direction, true));
    if (method->refresh_last)
        TRY(refresh(job, method));
    TRY(for_parameters(job, &optimizer_end));
    if (job->op->asked)
        return report(job);
    if (!job->capturing)
        count_steps(job);
    return GRAM_OK;
}

/* ---- A step --------------------------------------------------------------------------------- */

static gram_status check_capture(struct cuda_optimizer_job *job)
{
    gram_context *g = job->g;

    TRY(gram_cuda_capturing(g, &job->capturing));
    if (job->capturing && job->op->asked)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "report is given, expected NULL: a graph cannot wait for it");
    if (job->capturing && job->o->options.not_finite == GRAM_NOT_FINITE_FAIL)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "options.not_finite is GRAM_NOT_FINITE_FAIL, for which a graph cannot "
                         "wait: expected GRAM_NOT_FINITE_SKIP");
    for (int64_t i = 0; job->capturing && i < job->o->parameters; i++)
        if (job->o->options.method == GRAM_SOAP && job->op->gradients[i] && job->o->steps[i] == 0)
            return gram_fail(g, GRAM_UNSUPPORTED,
                             "parameters[%lld] has not been stepped yet: its first step makes the "
                             "bases, which a graph would make again and again",
                             (long long)i);
    return GRAM_OK;
}

gram_status cuda_optimizer_step(gram_context *g, const struct gram_optimizer_op *op)
{
    struct cuda_optimizer_job job = {
        .g = g, .o = op->optimizer, .c = op->optimizer->device, .op = op};
    gram_status status;
    bool entered;

    TRY(check_pointers(g, op));
    TRY(check_capture(&job));
    if (!job.capturing && (job.o->stale || job.c->captured)) {
        TRY(gram_optimizer_read_counts(g, job.o));
        job.o->stale = false;
    }
    job.c->captured |= job.capturing;
    entered = gram_cuda_enter(g->device);
    status = run(&job);
    gram_cuda_leave(g->device, entered);
    return status;
}
