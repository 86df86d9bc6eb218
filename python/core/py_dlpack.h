/*
 * py_dlpack.h - the exchange of arrays between Python libraries by DLPack, in our own words
 *
 * The structs have the layout of DLPack 1.x: DLManagedTensor, DLManagedTensorVersioned, and the C
 * exchange API that a type of arrays has in the capsule __dlpack_c_exchange_api__.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_DLPACK_H
#define PY_DLPACK_H
#include "gram/dlpack.h"

enum {
    PY_DL_MAJOR = 1,
    PY_DL_READ_ONLY = 1, /* a flag */
    PY_DL_UINT = 1,      /* codes of dtypes that the library does not know */
    PY_DL_BOOL = 6
};

/* What a capsule "dltensor" holds. */
struct py_managed_legacy {
    struct gram_dl_tensor tensor;
    void *owner;
    void (*deleter)(struct py_managed_legacy *self);
};

/* What a capsule "dltensor_versioned" holds. */
struct py_managed {
    uint32_t major, minor;
    void *owner;
    void (*deleter)(struct py_managed *self);
    uint64_t flags;
    struct gram_dl_tensor tensor;
};

/* Functions of a library of arrays; none waits for a stream.  0: done, -1: Python exception. */
struct py_exchange {
    uint32_t major, minor;
    const struct py_exchange *previous;
    int (*allocate)(struct gram_dl_tensor *like, struct py_managed **out, void *user,
                    void (*fail)(void *user, const char *kind, const char *message));
    int (*managed_from)(void *object, struct py_managed **out);
    int (*object_from)(struct py_managed *stolen, void **out);
    int (*tensor_from)(void *object, struct gram_dl_tensor *out); /* or NULL */
    int (*current_stream)(int32_t device_type, int32_t index, void **out);
};

#endif
