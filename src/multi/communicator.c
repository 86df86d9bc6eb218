/*
 * communicator.c - gram_communicator_*: the processes that share a call, how they agree, and what
 * they tell the first of them
 *
 * SPDX-License-Identifier: MIT
 */
#include "communicator.h"
#include "core/backend.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gram_status open_transport(gram_context *g, const struct gram_plugin *plugin,
                                  const void *handle, size_t bytes, gram_communicator *c)
{
    char why[384];

    c->transport = gram_plugin_open(g, plugin, &c->plugin, why, sizeof why);
    if (!c->transport)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s", why);
    return c->transport->open(g, handle, bytes, c);
}

static void close_transport(gram_communicator *c)
{
    if (c->transport)
        c->transport->close(c->g, c);
    if (c->plugin)
        dlclose(c->plugin);
}

enum {
    TABLES = 4 /* of one number per rank, of 8 bytes at most */
};

/* The communicator with its tables behind it. */
static size_t all_bytes(const gram_communicator *c)
{
    return gram_round64(sizeof *c) + TABLES * (size_t)c->size * sizeof(int64_t);
}

static struct gram_common version_here(void)
{
    const char *at = GRAM_VERSION;
    int64_t number = 0;
    char *end;

    for (int part = 0; part < 3; part++, at = *end == '.' ? end + 1 : end)
        number = number * 1000 + strtol(at, &end, 10);
    return (struct gram_common){"the version of libgram (1.2.3: 1002003)", -1, number};
}

/* No rank leaves the others alone: memory is wanted only when all of them can be told. */
gram_status gram_communicator_open(gram_context *g, const struct gram_plugin *plugin,
                                   const void *handle, size_t bytes, gram_communicator **out)
{
    gram_communicator here = {.g = g}, *c = NULL;
    const struct gram_common version = version_here();
    gram_status status = open_transport(g, plugin, handle, bytes, &here);

    if (status == GRAM_OK) {
        c = gram_alloc(g, all_bytes(&here));
        if (!c)
            status =
                gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a table of %d ranks", here.size);
        status = gram_agree(g, &here, status, &version, 1);
    }
    if (status != GRAM_OK || !c) { /* no rank agrees where it has none */
        gram_free(g, c, all_bytes(&here));
        close_transport(&here);
        return status;
    }
    here.rows[0] = (int64_t *)(void *)((char *)c + gram_round64(sizeof *c));
    here.rows[1] = here.rows[0] + here.size;
    here.send_bytes = (size_t *)(void *)(here.rows[1] + here.size);
    here.receive_bytes = here.send_bytes + here.size;
    *c = here;
    *out = c;
    return GRAM_OK;
}

void gram_communicator_destroy(gram_communicator *c)
{
    if (!c)
        return;
    close_transport(c);
    gram_free(c->g, c, all_bytes(c));
}

int gram_communicator_rank(const gram_communicator *communicator)
{
    return communicator ? communicator->rank : -1;
}

int gram_communicator_size(const gram_communicator *communicator)
{
    return communicator ? communicator->size : 0;
}

/* ---- Agreement ----------------------------------------------------------------------------- */

static gram_status differs(gram_context *g, const struct gram_common *common, int64_t least,
                           int64_t most)
{
    char name[64];

    snprintf(name, sizeof name, "%s", common->name);
    if (common->index >= 0)
        snprintf(name, sizeof name, "%s of factors[%d]", common->name, common->index);
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "the ranks disagree: %s is %lld on one rank and %lld on another", name,
                     (long long)least, (long long)most);
}

enum {
    VALUES = 1 + 2 * GRAM_MAX_COMMON,
    LETTERS = 7 /* that a value carries, which is not below 0 */
};

const char *gram_bare_message(const gram_context *g)
{
    const size_t length = strlen(g->call);

    if (strncmp(g->message, g->call, length) == 0 && strncmp(g->message + length, ": ", 2) == 0)
        return g->message + length + 2;
    return g->message;
}

/* Rank `from` failed with `worst`, and tells its message to those that did not fail. */
static gram_status tell_message(gram_context *g, gram_communicator *c, gram_status own,
                                gram_status worst, int from)
{
    int64_t values[VALUES] = {0};
    char text[sizeof g->message] = "";

    if (c->rank == from)
        snprintf(text, sizeof text, "%s", gram_bare_message(g));
    for (int i = 0; i < (int)sizeof text; i++)
        values[i / LETTERS] |= (int64_t)(unsigned char)text[i] << (8 * (i % LETTERS));
    TRY(c->transport->largest(g, c, values, VALUES));
    if (own != GRAM_OK)
        return own;
    for (int i = 0; i < (int)sizeof text; i++)
        text[i] = (char)(values[i / LETTERS] >> (8 * (i % LETTERS)) & 255);
    return gram_fail(g, worst, "rank %d failed with %s: %s", from, gram_status_name(worst), text);
}

/* The largest of all values but the first, which is for the status. */
static gram_status agree(gram_context *g, gram_communicator *c, gram_status status, int64_t *values)
{
    gram_status worst;

    if (status == GRAM_OK && c->transport->look)
        status = c->transport->look(g, c);
    /* Of ranks with one status the first is named. */
    values[0] = status == GRAM_OK ? 0 : (int64_t)status << 32 | (INT32_MAX - c->rank);
    TRY(c->transport->largest(g, c, values, VALUES));
    worst = (gram_status)(values[0] >> 32);
    if (worst != GRAM_OK)
        return tell_message(g, c, status, worst, INT32_MAX - (int)(values[0] & INT32_MAX));
    return GRAM_OK;
}

gram_status gram_agree(gram_context *g, gram_communicator *c, gram_status status,
                       const struct gram_common *common, int count)
{
    int64_t values[VALUES] = {0};

    for (int i = 0; i < count; i++) {
        values[1 + 2 * i] = common[i].value;
        values[2 + 2 * i] = ~common[i].value; /* the largest of these is the least value */
    }
    TRY(agree(g, c, status, values));
    for (int i = 0; i < count; i++)
        if (values[1 + 2 * i] != ~values[2 + 2 * i])
            return differs(g, &common[i], ~values[2 + 2 * i], values[1 + 2 * i]);
    return GRAM_OK;
}

gram_status gram_share(gram_context *g, gram_communicator *c, gram_status status, bool largest,
                       int64_t *numbers, int count)
{
    int64_t values[VALUES] = {0};

    for (int i = 0; i < count; i++)
        values[1 + i] = largest || c->rank == 0 ? numbers[i] : INT64_MIN;
    TRY(agree(g, c, status, values));
    memcpy(numbers, values + 1, (size_t)count * sizeof *numbers);
    return GRAM_OK;
}

gram_status gram_communicator_agree(gram_context *g, gram_communicator *c, gram_status status)
{
    if (status == GRAM_OK || !g) /* the message of a failure is kept */
        TRY(gram_begin(g, __func__));
    if (!c)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "communicator is NULL");
    return gram_agree(g, c, status, NULL, 0);
}

/* ---- Rows of all ranks ----------------------------------------------------------------------- */

gram_status gram_tell_all(gram_context *g, gram_communicator *c, int64_t number, int64_t *all)
{
    int64_t numbers[GRAM_MAX_COMMON];

    for (int first = 0; first < c->size; first += GRAM_MAX_COMMON) {
        int count = c->size - first < GRAM_MAX_COMMON ? c->size - first : GRAM_MAX_COMMON;
        for (int i = 0; i < count; i++)
            numbers[i] = first + i == c->rank ? number : 0;
        TRY(c->transport->largest(g, c, numbers, count));
        for (int i = 0; i < count; i++)
            all[first + i] = numbers[i];
    }
    return GRAM_OK;
}

gram_status gram_count_rows(gram_context *g, gram_communicator *c, int side, int64_t own,
                            int64_t *first, int64_t *total)
{
    int64_t *rows = c->rows[side];

    *first = *total = 0;
    TRY(gram_tell_all(g, c, own, rows));
    for (int rank = 0; rank < c->size; rank++) {
        if (rank == c->rank)
            *first = *total;
        if (__builtin_add_overflow(*total, rows[rank], total))
            *total = INT64_MAX;
    }
    return GRAM_OK;
}

static gram_status exchange(gram_context *g, gram_communicator *c, const struct gram_exchange *e)
{
    const int64_t start = gram_trace_begin(g);
    const gram_status status = c->transport->exchange(g, c, e);

    gram_trace_end(g, "exchange", 0, start);
    return status;
}

gram_status gram_gather_rows(gram_context *g, gram_communicator *c, const int64_t *rows,
                             size_t row_bytes, void *memory)
{
    struct gram_exchange e = {.send = memory,
                              .receive = memory,
                              .send_bytes = c->send_bytes,
                              .receive_bytes = c->receive_bytes,
                              .to_all = true};

    for (int rank = 0; rank < c->size; rank++) {
        c->send_bytes[rank] = (size_t)rows[c->rank] * row_bytes;
        c->receive_bytes[rank] = (size_t)rows[rank] * row_bytes;
        if (rank < c->rank && memory)
            e.send += c->receive_bytes[rank];
    }
    return exchange(g, c, &e);
}

gram_status gram_scatter_rows(gram_context *g, gram_communicator *c, const int64_t *rows,
                              size_t row_bytes, const void *from, void *to)
{
    const struct gram_exchange e = {.send = from,
                                    .receive = to,
                                    .send_bytes = c->send_bytes,
                                    .receive_bytes = c->receive_bytes};

    for (int rank = 0; rank < c->size; rank++) {
        c->send_bytes[rank] = (size_t)rows[rank] * row_bytes;
        c->receive_bytes[rank] = (size_t)rows[c->rank] * row_bytes;
    }
    return exchange(g, c, &e);
}

gram_status gram_agree_or_abandon(gram_context *g, gram_communicator *c, gram_status status)
{
    status = gram_agree(g, c, status, NULL, 0);
    if (status != GRAM_OK && c->transport->abandon)
        c->transport->abandon(c);
    return status;
}

/* An exchange takes memory of its transport's device, and is queued on its context's stream. */
gram_status gram_check_transport(gram_context *g, const gram_communicator *c)
{
    const struct gram_transport *transport = c->transport;

    if (transport->device == GRAM_CUDA && g != c->g)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.communicator was made with another context, expected this one");
    if (transport->device == g->options.device.type)
        return GRAM_OK;
    return gram_fail(g, GRAM_UNSUPPORTED,
                     "%s exchanges memory of %s, but the context is one of %s; both have to be on "
                     "the same device",
                     transport->name, transport->device == GRAM_CUDA ? "GPUs" : "the CPU",
                     g->backend->name);
}

/* ---- Bytes of all ranks to the first one ---------------------------------------------------- */

static gram_status check_gather(gram_context *g, const gram_communicator *c, const void *data,
                                size_t bytes, const void *into)
{
    if (c->transport->device != GRAM_CPU)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not exchange memory of the CPU",
                         c->transport->name);
    if (bytes > INT64_MAX)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "bytes is %zu, expected at most %lld", bytes,
                         (long long)INT64_MAX);
    if (!data && bytes > 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "data is NULL");
    if (!into && c->rank == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "into is NULL on rank 0");
    return GRAM_OK;
}

gram_status gram_communicator_gather(gram_context *g, gram_communicator *c, const void *data,
                                     size_t bytes, void *into, size_t room)
{
    struct gram_exchange e = {.send = data, .receive = into};
    gram_status status = GRAM_OK;
    size_t total = 0;

    TRY(gram_begin(g, __func__));
    if (!c)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "communicator is NULL");
    TRY(gram_agree(g, c, check_gather(g, c, data, bytes, into), NULL, 0));
    TRY(gram_tell_all(g, c, (int64_t)bytes, c->rows[0]));
    for (int rank = 0; rank < c->size; rank++) {
        c->receive_bytes[rank] = (size_t)c->rows[0][rank];
        if (__builtin_add_overflow(total, c->receive_bytes[rank], &total))
            total = SIZE_MAX;
        c->send_bytes[rank] = rank == 0 ? bytes : 0;
        if (c->rank != 0)
            c->receive_bytes[rank] = 0;
    }
    if (c->rank == 0 && total > room)
        status =
            gram_fail(g, GRAM_INVALID_ARGUMENT, "room is %zu bytes, expected %zu", room, total);
    TRY(gram_agree(g, c, status, NULL, 0));
    e.send_bytes = c->send_bytes, e.receive_bytes = c->receive_bytes;
    return gram_agree(g, c, c->transport->exchange(g, c, &e), NULL, 0);
}
