/*
 * arena.h - scratch memory on the device
 *
 * One block a context, which grows when a call needs more and then keeps its size, so that nothing
 * is allocated in the steady state.  Blocks come from the driver's pool and go back to it in the
 * order of the context's stream: nobody waits.  While the stream is being captured the pool would
 * give memory that belongs to the graph alone, so a block then comes from cuMemAlloc.  A block that
 * a graph may use is never given back before the context ends.
 *
 * Blocks of options.allocate_device are given back like others, graph or not: their allocator
 * answers for graphs.  A block that was allocated outside of a capture is not used inside of one,
 * nor the other way round.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_ARENA_H
#define GRAM_CUDA_ARENA_H
#include "driver.h"

/* Scratch of at least bytes, aligned to 64 bytes, for work on the context's stream; valid until the
 * next call of this function.  The device's context must be current (gram_cuda_enter).  NULL for 0
 * bytes. */
gram_status gram_cuda_scratch(gram_context *g, size_t bytes, void **out);

/* Calls that are parts of another one take their scratch in a piece of its scratch, from begin to
 * end; before keeps what end brings back. */
struct cuda_borrowed {
    void *given;
    size_t bytes;
};
void gram_cuda_scratch_begin(gram_context *g, void *memory, size_t bytes,
                             struct cuda_borrowed *before);
void gram_cuda_scratch_end(gram_context *g, const struct cuda_borrowed *before);

/* gram_context_use_workspace on this device. */
gram_status gram_cuda_use_workspace(gram_context *g, void *memory, size_t bytes);

/* Gives back what no graph may use; the next call that needs scratch grows it again. */
void gram_cuda_scratch_release(gram_context *g);

/* Gives everything back: the context is about to end. */
void gram_cuda_arena_close(gram_context *g, struct cuda_device *device);

/* Memory that the device cannot read would be a fault in the middle of the work: refuses a view of
 * it. */
gram_status gram_cuda_check_pointer(gram_context *g, const char *name, const struct gram_view *v);

/* ---- The thread that a context may have in the background (cuda_eigh_large.c) ---------------- */

/* Waits for the thread, if one runs, and queues what it left to do: before the scratch or
 * cuSOLVER's handle are used for something else.  A failure is kept for gram_cuda_joined. */
void gram_cuda_join(gram_context *g);
/* The same; gives what failed since it was asked last. */
gram_status gram_cuda_joined(gram_context *g);
void gram_cuda_background_close(gram_context *g, struct cuda_device *device);
#endif
