/*
 * scratch.c - scratch memory: layouts, and lending a piece of it to calls inside of a call
 *
 * SPDX-License-Identifier: MIT
 */
#include "scratch.h"
#include "backend.h"
#include <assert.h>
#include <string.h>

void gram_take(struct gram_layout *l, void *pointer, size_t bytes)
{
    const size_t most = SIZE_MAX / 64 * 64; /* so that rounding up does not wrap around */
    size_t at = l->bytes > most ? SIZE_MAX : gram_round64(l->bytes);

    assert(l->count < GRAM_MOST_PIECES);
    l->piece[l->count].pointer = pointer;
    l->piece[l->count++].at = at;
    l->bytes = bytes > SIZE_MAX - at ? SIZE_MAX : at + bytes;
}

void gram_take_many(struct gram_layout *l, void *pointer, size_t count, size_t bytes)
{
    gram_take(l, pointer, bytes > 0 && count > SIZE_MAX / bytes ? SIZE_MAX : count * bytes);
}

gram_status gram_layout_open(gram_context *g, const struct gram_layout *l)
{
    void *memory;

    if (l->bytes == SIZE_MAX)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "the size of the scratch memory overflows");
    TRY(g->backend->scratch(g, l->bytes, &memory));
    gram_layout_place(l, memory);
    return GRAM_OK;
}

size_t gram_layout_bytes(const struct gram_layout *l)
{
    return l->bytes > SIZE_MAX / 64 * 64 ? SIZE_MAX : gram_round64(l->bytes);
}

void gram_layout_place(const struct gram_layout *l, void *memory)
{
    for (int i = 0; i < l->count; i++) {
        char *piece = memory ? (char *)memory + l->piece[i].at : NULL;
        memcpy(l->piece[i].pointer, &piece, sizeof piece);
    }
}

void gram_scratch_lend(gram_context *g, void *memory, size_t bytes,
                       struct gram_scratch_before *before)
{
    g->backend->scratch_lend(g, memory, bytes, before);
}

void gram_scratch_return(gram_context *g, const struct gram_scratch_before *before)
{
    g->backend->scratch_return(g, before);
}
