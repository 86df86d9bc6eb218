/*
 * fake_solver.h - what the parts of the fake cuSOLVER share
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_SOLVER_H
#define FAKE_SOLVER_H
#include "fake_driver.h"

/* cusolverStatus_t */
enum {
    FAKE_SUCCESS = 0,
    FAKE_NOT_INITIALIZED = 1,
    FAKE_ALLOC_FAILED = 2,
    FAKE_INVALID_VALUE = 3,
    FAKE_EXECUTION_FAILED = 6,
    FAKE_INTERNAL_ERROR = 7,
    FAKE_HOST_BYTES = 96
};

/* The stream of a handle; false: it is none. */
bool fake_solver_stream(const void *handle, CUstream *stream);
/* A copy of work, which is the beginning of so many bytes, to the handle's stream. */
int fake_solver_queue(const void *handle, const struct fake_work *work, size_t bytes);
#endif
