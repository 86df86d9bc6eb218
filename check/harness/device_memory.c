/*
 * device_memory.c - the driver's few functions that the tests need, opened at run time
 *
 * The types are those of the driver's C interface: an int for results and devices, a 64-bit number
 * for an address on the device, pointers for everything else.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_memory.h"
#include "gram/gram.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int index);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*allocate)(uint64_t *address, size_t bytes);
    int (*release)(uint64_t address);
    int (*pin)(void **memory, size_t bytes, unsigned flags);
    int (*unpin)(void *memory);
    int (*upload)(uint64_t to, const void *from, size_t bytes);
    int (*download)(void *to, uint64_t from, size_t bytes);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_wait)(void *stream);
    int (*capture_begin)(void *stream, int mode);
    int (*capture_end)(void *stream, void **graph);
    int (*graph_nodes)(void *graph, void **nodes, size_t *count);
    int (*graph_destroy)(void *graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*replay)(void *executable, void *stream);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_wait)(void *event);
    int (*event_time)(float *ms, void *start, void *end);
} driver;

static const struct {
    const char *name;
    void *at;
} symbols[] = {
    {                     "cuInit",          &driver.init},
    {                "cuDeviceGet",    &driver.device_get},
    {   "cuDevicePrimaryCtxRetain",        &driver.retain},
    {            "cuCtxSetCurrent",   &driver.set_current},
    {              "cuMemAlloc_v2",      &driver.allocate},
    {               "cuMemFree_v2",       &driver.release},
    {             "cuMemHostAlloc",           &driver.pin},
    {              "cuMemFreeHost",         &driver.unpin},
    {            "cuMemcpyHtoD_v2",        &driver.upload},
    {            "cuMemcpyDtoH_v2",      &driver.download},
    {             "cuStreamCreate", &driver.stream_create},
    {        "cuStreamSynchronize",   &driver.stream_wait},
    {    "cuStreamBeginCapture_v2", &driver.capture_begin},
    {         "cuStreamEndCapture",   &driver.capture_end},
    {            "cuGraphGetNodes",   &driver.graph_nodes},
    {             "cuGraphDestroy", &driver.graph_destroy},
    {"cuGraphInstantiateWithFlags",   &driver.instantiate},
    {              "cuGraphLaunch",        &driver.replay},
    {              "cuEventCreate",  &driver.event_create},
    {              "cuEventRecord",  &driver.event_record},
    {         "cuEventSynchronize",    &driver.event_wait},
    {      "cuEventElapsedTime_v2",    &driver.event_time},
};

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    char older[64];
    size_t length = strlen(name);

    if (found || length < 4 || length >= sizeof older || strcmp(name + length - 3, "_v2") != 0)
        return found;
    memcpy(older, name, length - 3);
    older[length - 3] = '\0';
    return dlsym(library, older);
}

bool device_open(int index)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int device;

    if (!library)
        return false;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = symbol(library, symbols[i].name);
        if (!found)
            return false;
        memcpy(symbols[i].at, &found, sizeof found);
    }
    return driver.init(0) == 0 && driver.device_get(&device, index) == 0 &&
           driver.retain(&context, device) == 0 && driver.set_current(context) == 0;
}

void *device_allocate(size_t bytes)
{
    uint64_t address = 0;
    void *memory = NULL;

    if (driver.allocate(&address, bytes ? bytes : 1) == 0)
        memcpy(&memory, &address, sizeof memory);
    return memory;
}

void device_release(void *memory)
{
    if (memory)
        (void)driver.release((uintptr_t)memory);
}

void *device_pinned(size_t bytes)
{
    void *memory = NULL;

    return driver.pin(&memory, bytes, 0) == 0 ? memory : NULL;
}

void device_unpin(void *memory)
{
    if (memory)
        (void)driver.unpin(memory);
}

bool device_upload(void *to, const void *from, size_t bytes)
{
    return bytes == 0 || driver.upload((uintptr_t)to, from, bytes) == 0;
}

bool device_download(void *to, const void *from, size_t bytes)
{
    return bytes == 0 || driver.download(to, (uintptr_t)from, bytes) == 0;
}

void *device_stream(void)
{
    void *stream = NULL;

    return driver.stream_create(&stream, 1) == 0 ? stream : NULL; /* 1: not after the default one */
}

void *device_stream_or_skip(void)
{
    if (gram_best_device().type == GRAM_CUDA && device_open(0))
        return device_stream();
    printf("skipped: no CUDA device\n");
    return NULL;
}

/* NULL: the driver refused. */
static void *capture(void *stream, bool (*body)(void *arg), void *arg)
{
    void *graph = NULL;
    bool captured;

    if (driver.capture_begin(stream, 0) != 0) /* 0: nothing that is unsafe, in any thread */
        return NULL;
    captured = body(arg);
    return driver.capture_end(stream, &graph) == 0 && captured ? graph : NULL;
}

int64_t device_count(void *stream, bool (*body)(void *arg), void *arg)
{
    void *graph = capture(stream, body, arg);
    size_t count = 0;
    bool counted = graph && driver.graph_nodes(graph, NULL, &count) == 0;

    return graph && driver.graph_destroy(graph) == 0 && counted ? (int64_t)count : -1;
}

bool device_replay(void *stream, int times, bool (*body)(void *arg), void *arg)
{
    void *graph = capture(stream, body, arg), *executable = NULL;

    if (!graph || driver.instantiate(&executable, graph, 0) != 0)
        return false;
    for (int i = 0; i < times; i++)
        if (driver.replay(executable, stream) != 0)
            return false;
    return driver.stream_wait(stream) == 0;
}

double device_time(void *stream, int times, bool (*body)(void *arg), void *arg)
{
    void *start = NULL, *end = NULL;
    float ms = -1;

    if (driver.event_create(&start, 0) != 0 || driver.event_create(&end, 0) != 0 ||
        driver.event_record(start, stream) != 0)
        return -1;
    for (int i = 0; i < times; i++)
        if (!body(arg))
            return -1;
    if (driver.event_record(end, stream) != 0 || driver.event_wait(end) != 0 ||
        driver.event_time(&ms, start, end) != 0)
        return -1;
    return (double)ms;
}
