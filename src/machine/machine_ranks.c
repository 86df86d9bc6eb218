/*
 * machine_ranks.c - what the ranks of a fit tell each other
 *
 * Every rank has the whole table.  The first one searches, and decides whatever depends on time or
 * memory; the others help it (machine_halves.c), wait for what it has found, train their leaves,
 * and give them to it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_deal.h"
#include "multi/communicator.h"
#include <stdlib.h>
#include <string.h>

bool gram_machine_first(const struct machine_job *job)
{
    return gram_machine_rank(job) == 0;
}

int gram_machine_rank(const struct machine_job *job)
{
    return job->o.communicator ? job->o.communicator->rank : 0;
}

int gram_machine_ranks(const struct machine_job *job)
{
    return job->o.communicator ? job->o.communicator->size : 1;
}

/* A failure of an agreement is known to all. */
static gram_status noted(struct machine_job *job, gram_status status)
{
    job->ended |= status != GRAM_OK;
    return status;
}

gram_status gram_machine_ranks_end(gram_context *g, struct machine_job *job, gram_status status)
{
    if (!job->o.communicator || job->ended)
        return status;
    return noted(job, gram_agree(g, job->o.communicator, status, NULL, 0));
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static gram_status check_group(gram_context *g, const gram_group *group)
{
    if (group->size < offsetof(gram_group, speeds) || !group->contexts || group->count < 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.group has no contexts, expected at least one");
    for (int64_t i = 0; i < group->count; i++) {
        if (!group->contexts[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.group->contexts[%lld] is NULL",
                             (long long)i);
        if ((group->contexts[i] == g) != (i == 0))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.group->contexts[%lld] is %s, expected the context of the "
                             "call first and others behind it",
                             (long long)i, i == 0 ? "another one" : "that of the call");
        for (int64_t j = 0; j < i; j++)
            if (group->contexts[i] == group->contexts[j])
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "options.group->contexts[%lld] is the same as contexts[%lld], "
                                 "expected distinct contexts",
                                 (long long)i, (long long)j);
    }
    return GRAM_OK;
}

gram_status gram_machine_shares_check(gram_context *g, const gram_machine_options *o)
{
    if (o->group)
        TRY(check_group(g, o->group));
    for (int64_t i = 1; o->group && i < o->group->count; i++)
        TRY(gram_begin_as(o->group->contexts[i], g->call, "options.group->contexts"));
    return o->communicator ? gram_check_transport(g, o->communicator) : GRAM_OK;
}

gram_status gram_machine_ranks_open(gram_context *g, struct machine_job *job, gram_status status)
{
    const bool described = status == GRAM_OK;
    const struct gram_common common[] = {
        {               "the number of rows", -1,    described ? job->table->rows : 0},
        {            "the number of columns", -1, described ? job->table->columns : 0},
        {            "the number of targets", -1,                        job->targets},
        {"the number of rows with a target,", -1,                           job->rows},
        {                    "options.dtype", -1,                        job->o.dtype},
        {                "options.leaf_rows", -1,                    job->o.leaf_rows},
        {                    "options.trees", -1,                        job->o.trees},
        {                 "options.ensemble", -1,                     job->o.ensemble},
        {           "options.max_categories", -1,               job->o.max_categories},
        {      "options.category_statistics", -1,          job->o.category_statistics},
        {                     "options.loss", -1,                         job->o.loss},
        {         "the bits of options.seed", -1,                (int64_t)job->o.seed},
        {            "the number of classes", -1,                   job->kind.classes},
    };

    if (!job->o.communicator)
        return status;
    return noted(job, gram_agree(g, job->o.communicator, status, common,
                                 (int)(sizeof common / sizeof *common)));
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* What is sent and received, in memory of the host, by the communicator's tables of sizes. */
struct letters {
    const void *send;
    void *receive;
    size_t bytes, room; /* of these */
    bool to_all;
};

/* The transport's memory is where the context computes. */
static gram_status exchange(gram_context *g, struct machine_job *job, gram_status status,
                            const struct letters *l)
{
    gram_communicator *c = job->o.communicator;
    const bool here = gram_context_device(g).type == GRAM_CPU;
    struct gram_exchange e = {.send = l->send,
                              .receive = l->receive,
                              .send_bytes = c->send_bytes,
                              .receive_bytes = c->receive_bytes,
                              .to_all = l->to_all};
    struct krr_array from = {0}, to = {0};

    if (status == GRAM_OK && !here) {
        status = gram_krr_send(g, l->send, l->bytes, &from);
        if (status == GRAM_OK)
            status = gram_krr_allocate(g, l->room, &to);
        e.send = from.data, e.receive = to.data;
    }
    status = noted(job, gram_agree(g, c, status, NULL, 0));
    if (status == GRAM_OK) {
        status = c->transport->exchange(g, c, &e);
        if (status == GRAM_OK && !here && l->room > 0)
            status = gram_krr_fetch(g, l->receive, to.data, l->room);
        status = noted(job, gram_agree_or_abandon(g, c, status));
    }
    gram_krr_free(g, &from);
    gram_krr_free(g, &to);
    return status;
}

gram_status gram_machine_ranks_spread(gram_context *g, struct machine_job *job, gram_status status,
                                      void *data, size_t bytes)
{
    gram_communicator *c = job->o.communicator;
    const size_t mine = gram_machine_first(job) ? bytes : 0;
    const struct letters l = {
        .send = data, .receive = data, .bytes = mine, .room = bytes, .to_all = true};

    if (!c)
        return status;
    for (int rank = 0; rank < c->size; rank++) {
        c->send_bytes[rank] = mine;
        c->receive_bytes[rank] = rank == 0 ? bytes : 0;
    }
    return exchange(g, job, status, &l);
}

/* What the first rank receives: room for all, and how much it is. */
static gram_status make_room(gram_context *g, struct machine_job *job, char **all, size_t *count)
{
    const gram_communicator *c = job->o.communicator;
    size_t total = 0;

    for (int rank = 0; rank < c->size; rank++) {
        c->receive_bytes[rank] = gram_machine_first(job) ? (size_t)c->rows[0][rank] : 0;
        total += c->receive_bytes[rank];
    }
    *count = total;
    if (!gram_machine_first(job))
        return GRAM_OK;
    *all = malloc(total + 1);
    return *all ? GRAM_OK : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", total);
}

gram_status gram_machine_ranks_gather(gram_context *g, struct machine_job *job, gram_status status,
                                      const void *data, size_t bytes, char **all, size_t *count)
{
    gram_communicator *c = job->o.communicator;
    struct letters l = {.send = data, .bytes = bytes};

    *all = NULL;
    *count = 0;
    TRY(noted(job, gram_agree(g, c, status, NULL, 0)));
    TRY(noted(job, gram_tell_all(g, c, (int64_t)bytes, c->rows[0])));
    for (int rank = 0; rank < c->size; rank++)
        c->send_bytes[rank] = rank == 0 ? bytes : 0;
    status = make_room(g, job, all, count);
    l.receive = *all;
    l.room = *count;
    status = exchange(g, job, status, &l);
    if (status != GRAM_OK) {
        free(*all);
        *all = NULL;
    }
    return status;
}

gram_status gram_machine_ranks_rows(gram_context *g, struct machine_job *job, gram_status status,
                                    struct machine_leaf_rows *rows)
{
    const bool first = gram_machine_first(job);
    int64_t sizes[2] = {0, 0};

    if (!job->o.communicator)
        return status;
    if (first && status == GRAM_OK) {
        sizes[0] = rows->leaves;
        sizes[1] = rows->first[rows->leaves];
    }
    TRY(gram_machine_ranks_spread(g, job, status, sizes, sizeof sizes));
    if (!first) {
        rows->leaves = sizes[0];
        rows->first = malloc(((size_t)sizes[0] + 1) * sizeof *rows->first);
        rows->row = malloc((size_t)sizes[1] * sizeof *rows->row + 1);
        if (!rows->first || !rows->row)
            status =
                gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)sizes[1]);
    }
    TRY(gram_machine_ranks_spread(g, job, status, rows->first,
                                  ((size_t)sizes[0] + 1) * sizeof *rows->first));
    return gram_machine_ranks_spread(g, job, GRAM_OK, rows->row,
                                     (size_t)sizes[1] * sizeof *rows->row);
}
