/*
 * optimizer_step.c - the order of a step's passes, and which blocks are due in it
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_step.h"

bool gram_optimizer_due_now(const struct gram_optimizer_job *job,
                            const struct gram_optimizer_block *b)
{
    return gram_optimizer_due(job->o, b, job->o->steps[b->parameter] + 1);
}

bool gram_optimizer_takes_now(const struct gram_optimizer_job *job, int64_t parameter)
{
    const gram_optimizer *o = job->o;
    const struct gram_optimizer_parameter *p = &o->parameter[parameter];
    bool due = false;

    if (!job->capturing || o->options.statistics == 1)
        return gram_optimizer_takes(o, o->steps[parameter] + 1);
    for (int64_t i = 0; i < p->blocks && !due; i++)
        due = gram_optimizer_due_now(job, &o->block[p->first_block + i]);
    return due;
}

bool gram_optimizer_any(const struct gram_optimizer_group *u,
                        bool (*f)(const struct gram_optimizer_job *job,
                                  const struct gram_optimizer_block *b))
{
    for (int64_t i = 0; i < u->count; i++) {
        const struct gram_optimizer_block *b = &u->job->o->block[u->kind[i]];
        if (u->job->op->gradients[b->parameter] && f(u->job, b))
            return true;
    }
    return false;
}

static const struct {
    gram_optimizer_pass *statistics, *direction;
} methods[] = {
    [GRAM_SHAMPOO] = {gram_shampoo_statistics, gram_shampoo_direction},
    [GRAM_SOAP] = {                   NULL,    gram_soap_direction},
    [GRAM_MUON] = {                   NULL,    gram_muon_direction},
};

gram_status gram_optimizer_run(struct gram_optimizer_job *job)
{
    const struct gram_optimizer_passes *q = job->passes;
    const gram_optimizer_method method = job->o->options.method;

    TRY(q->find_resting(job));
    if (methods[method].statistics)
        TRY(q->for_groups(job, methods[method].statistics, false));
    if (method == GRAM_SHAMPOO)
        TRY(q->refresh_roots(job));
    TRY(q->for_groups(job, methods[method].direction, true));
    if (method == GRAM_SOAP)
        TRY(q->refresh_bases(job));
    return q->count_step(job);
}
