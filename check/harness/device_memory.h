/*
 * device_memory.h - memory of a CUDA device, taken from the driver as any caller would
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_DEVICE_MEMORY_H
#define GRAM_TEST_DEVICE_MEMORY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False where there is no driver or no device of this index; makes its primary context current in
 * this thread, for the life of the process. */
bool device_open(int index);

/* Memory of the open device; NULL if there is none. */
void *device_allocate(size_t bytes);
void device_release(void *memory);
/* Memory of the CPU that the driver knows; NULL if there is none. */
void *device_pinned(size_t bytes);
void device_unpin(void *memory);
bool device_upload(void *to, const void *from, size_t bytes);
bool device_download(void *to, const void *from, size_t bytes);

/* A stream of its own, NULL: the driver refused; one of the first device, which is opened, NULL:
 * there is none, which a line says. */
void *device_stream(void);
void *device_stream_or_skip(void);

/* What body queues on a stream, captured into a graph that is replayed so many times.  False: the
 * driver refused. */
bool device_replay(void *stream, int times, bool (*body)(void *arg), void *arg);

/* How many kernels, copies and the like body queues on a stream: it is captured into a graph that
 * is thrown away.  Negative: the driver refused. */
int64_t device_count(void *stream, bool (*body)(void *arg), void *arg);

/* Milliseconds between two points of a stream, by the device's clock: the work of body, so many
 * times in a row; negative if the driver refused. */
double device_time(void *stream, int times, bool (*body)(void *arg), void *arg);
#endif
