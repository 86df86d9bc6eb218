/*
 * fake_graph.c - captures and graphs: a graph is the list of work in the order of the calls
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_stream.h"
#include <stdlib.h>
#include <string.h>

struct CUgraphExec_st {
    struct fake_list work;
};

/* What this thread has chosen; a capture in the mode of all threads counts for all. */
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void find_capture(CUstream stream, void *found)
{
    if (stream->captures && stream->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        *(CUstream *)found = stream;
}

CUresult fake_capture_allows(void)
{
    CUstream found = NULL;

    if (thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        fake_each_stream(find_capture, (void *)&found);
    if (!found)
        return CUDA_SUCCESS;
    found->failed = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode before = thread_mode;

    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult result = CUDA_SUCCESS;

    fake_lock();
    if (fake_stream(stream) == fake_stream(NULL) || stream->graph) /* not the default stream */
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    else if (!(stream->graph = fake_handle(sizeof *stream->graph)))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else
        stream->captures = true, stream->failed = false, stream->mode = mode;
    fake_unlock();
    return result;
}

static void leave_capture(CUstream stream, void *graph)
{
    if (stream->graph == graph)
        stream->graph = NULL, stream->captures = false;
}

static void forget(struct fake_list *list)
{
    while (list->first) {
        struct fake_work *gone = list->first;
        list->first = gone->next;
        free(gone);
    }
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUresult result = CUDA_SUCCESS;

    fake_lock();
    *graph = stream->graph;
    if (!stream->captures)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        fake_each_stream(leave_capture, *graph);
    if (result == CUDA_SUCCESS && stream->failed) {
        forget(&(*graph)->work);
        free(*graph);
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (result != CUDA_SUCCESS)
        *graph = NULL;
    fake_unlock();
    return result;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    const CUresult usable = fake_usable();

    if (usable != CUDA_SUCCESS)
        return usable;
    *status = !fake_stream(stream)->graph   ? CU_STREAM_CAPTURE_STATUS_NONE
              : fake_stream(stream)->failed ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                            : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

static bool copy_list(const struct fake_list *from, struct fake_list *to)
{
    for (const struct fake_work *w = from->first; w; w = w->next) {
        struct fake_work *copy = malloc(w->bytes);
        if (!copy)
            return false;
        memcpy(copy, w, w->bytes);
        fake_append(to, copy);
    }
    return true;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                     unsigned long long flags)
{
    CUgraphExec e = fake_handle(sizeof *e);

    (void)flags;
    if (!e || !copy_list(&graph->work, &e->work))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *executable = e;
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    struct fake_list copy = {0};
    CUresult result = CUDA_SUCCESS;

    fake_lock();
    if (!copy_list(&executable->work, &copy))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    while (copy.first) {
        struct fake_work *work = copy.first;
        copy.first = work->next;
        (void)fake_queue(stream, work);
    }
    fake_unlock();
    return result;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    if (nodes)
        return CUDA_ERROR_NOT_SUPPORTED;
    *count = 0;
    for (const struct fake_work *w = graph->work.first; w; w = w->next)
        ++*count;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    forget(&graph->work);
    free(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    fake_lock();
    (void)fake_drain_all();
    forget(&executable->work);
    free(executable);
    fake_unlock();
    return CUDA_SUCCESS;
}
