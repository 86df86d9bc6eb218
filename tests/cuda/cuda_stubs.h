/*
 * cuda_stubs.h - functions of a CUDA driver that does nothing, for tables that stand in for it
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_CUDA_STUBS_H
#define GRAM_TEST_CUDA_STUBS_H
#include "core/process.h"
#include "cuda/cuda_ops.h"
#include <stdio.h>

static inline CUresult stub_capture_mode(CUstreamCaptureMode *mode)
{
    *mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return CUDA_SUCCESS;
}

/* A module has one function: itself. */
static inline CUresult stub_module_function(CUfunction *function, CUmodule module, const char *name)
{
    (void)name;
    *function = (CUfunction)(void *)module;
    return CUDA_SUCCESS;
}

static inline CUresult stub_function_attribute(int *value, CUfunction_attribute which,
                                               CUfunction function)
{
    (void)which, (void)function;
    *value = 7;
    return CUDA_SUCCESS;
}

static inline CUresult stub_function_set(CUfunction function, CUfunction_attribute which, int value)
{
    (void)function, (void)which;
    return value > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Every pointer is memory of the device. */
// NOLINTNEXTLINE(readability-non-const-parameter): the driver's type
static inline CUresult stub_pointer_attributes(unsigned count, CUpointer_attribute *which,
                                               void **values, CUdeviceptr address)
{
    (void)count, (void)which, (void)address;
    *(unsigned *)values[0] = CU_MEMORYTYPE_DEVICE;
    *(int *)values[1] = 0;
    *(unsigned *)values[2] = 0;
    return CUDA_SUCCESS;
}

static inline CUresult stub_context_current(CUcontext *context)
{
    *context = NULL; /* as the device's: nothing has to be entered */
    return CUDA_SUCCESS;
}

/* Whether there is NVRTC; says so if there is none. */
static inline int stub_compiler_is_missing(void)
{
    gram_context g = {.call = "main", .process = gram_process()};
    const char *why;

    if (gram_cuda_compiler(&g, &why))
        return 0;
    printf("skipped: %s\n", why);
    return 1;
}
#endif
