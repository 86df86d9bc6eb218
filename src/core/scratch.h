/*
 * scratch.h - the scratch memory of an operation: what hands it out also measures it
 *
 * An operation says once what it needs, piece by piece, and then opens the layout:
 *
 *     struct gram_layout l = {0};
 *
 *     gram_take(&l, &job.panels, panel_bytes);
 *     gram_take(&l, &job.sums, sum_bytes);
 *     TRY(gram_layout_open(g, &l));
 *
 * In a call this fills in the pointers, from the context's arena (or the memory that the caller
 * gave).  In a workspace query the same function of the backend runs:
 *
 *     TRY(gram_measure(g, &bytes, g->backend->syrk_ema(g, &op)));
 *
 * and opening a layout, of no bytes too, writes down its bytes and ends the operation by a private
 * status that TRY passes up.  So a query cannot disagree with the call.  Until its layout is open
 * an operation may read its description and choose, but neither read nor write the caller's memory,
 * nor queue anything: gram_parallel_for asserts it, and a launch in a query ends it.
 *
 * An operation that calls others measures each of them in the same way, takes a piece as large as
 * the largest, and lends it to them while they run (gram_scratch_lend).
 *
 * Where each thread has pieces of its own, or where pieces are used in turn, a layout lies in a
 * piece of another one: it is measured by gram_layout_bytes and gets its memory, by the same
 * function that named its pieces, from gram_layout_place.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SCRATCH_H
#define GRAM_SCRATCH_H
#include "context.h"

enum {
    GRAM_MOST_PIECES = 32,
    GRAM_MEASURED = -1 /* a gram_status: the query has what it asked for */
};

struct gram_layout {
    size_t bytes; /* of all pieces; SIZE_MAX: more than can be counted */
    int count;
    struct {
        void *pointer; /* where the address of the piece goes */
        size_t at;
    } piece[GRAM_MOST_PIECES]; /* only the first `count` are set */
};

/* Adds a piece of bytes, which begins at a multiple of 64.  pointer is the address of a pointer to
 * any type, in which opening the layout writes where the piece is. */
void gram_take(struct gram_layout *l, void *pointer, size_t bytes);

/* The same of count times bytes. */
void gram_take_many(struct gram_layout *l, void *pointer, size_t count, size_t bytes);

/* Scratch in the memory of the context's device, valid until the next call of this function.  Every
 * error leaves the caller's memory as it was: GRAM_OUT_OF_MEMORY. */
gram_status gram_layout_open(gram_context *g, const struct gram_layout *l);

/* The same in memory of the CPU, of which a context of another device has some too.  Only the
 * library has this function, its plugins do not (context.c). */
gram_status gram_layout_open_host(gram_context *g, const struct gram_layout *l);

/* The bytes of a layout that lies in a piece of another one: a multiple of 64, so that several of
 * them can follow each other, or SIZE_MAX. */
size_t gram_layout_bytes(const struct gram_layout *l);

/* Fills in the pointers of such a layout, from memory of as many bytes. */
void gram_layout_place(const struct gram_layout *l, void *memory);

/* The bytes that a call would take, in *bytes; the status is that of the call where it is refused
 * before it takes any.  Queries nest. */
#define gram_measure(g, bytes, call)                     \
  ({                                                     \
size_t *const outer_ = gram_measure_begin((g), (bytes)); \
const gram_status called_ = (call);                      \
gram_measure_end((g), outer_, called_);                  \
  })

static inline size_t *gram_measure_begin(gram_context *g, size_t *bytes)
{
    size_t *outer = g->measure;

    *bytes = 0;
    g->measure = bytes;
    return outer;
}

static inline gram_status gram_measure_end(gram_context *g, size_t *outer, gram_status called)
{
    g->measure = outer;
    return called == (gram_status)GRAM_MEASURED ? GRAM_OK : called;
}

/* Scratch of a call while others, which are parts of it, take theirs in a piece of it. */
struct gram_scratch_before {
    void *memory;
    size_t bytes;
    bool given;
};

/* Operations take their scratch in this memory of the device, from now on until
 * gram_scratch_return; before keeps what that brings back. */
void gram_scratch_lend(gram_context *g, void *memory, size_t bytes,
                       struct gram_scratch_before *before);
void gram_scratch_return(gram_context *g, const struct gram_scratch_before *before);
#endif
