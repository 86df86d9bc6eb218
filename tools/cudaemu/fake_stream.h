/*
 * fake_stream.h - streams, events and graphs: what fake_stream.c and fake_graph.c share
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_STREAM_H
#define FAKE_STREAM_H
#include "fake_driver.h"

struct fake_list {
    struct fake_work *first, **end;
};

struct CUgraph_st {
    struct fake_list work;
};

struct CUstream_st {
    struct CUstream_st *next;
    struct fake_list work;
    int device;
    bool apart;    /* does not wait for the default stream */
    CUgraph graph; /* that it is captured into */
    bool captures; /* and it is the one where the capture began */
    bool failed;   /* something was not allowed */
    CUstreamCaptureMode mode;
};

struct CUevent_st {
    CUstream stream; /* where it was recorded */
    CUgraph graph;   /* NULL: not while a graph was captured */
    uint64_t recorded, done;
    double ms;
};

/* The stream of a handle: the default one of the thread's device for NULL and its two names. */
CUstream fake_stream(CUstream handle);
/* Calls see with every stream. */
void fake_each_stream(void (*see)(CUstream stream, void *arg), void *arg);
void fake_append(struct fake_list *list, struct fake_work *work);
/* Does the work of the stream until the event is done (NULL: all). */
CUresult fake_advance(CUstream stream, const struct CUevent_st *event, uint64_t number);
#endif
