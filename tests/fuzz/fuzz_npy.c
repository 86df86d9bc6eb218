/*
 * fuzz_npy.c - any bytes as a .npy file: read, and every element that was promised is there
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/npy.h"
#include <stdlib.h>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct npy array;
    struct failure why = {""};
    FILE *file;
    enum exit_status status;
    volatile double seen = 0; /* so that the elements are really read */

    if (size == 0)
        return 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): takes away const; "rb" does not write
    file = fmemopen((void *)(uintptr_t)data, size, "rb");
    require(file != NULL);
    status = npy_read_stream(file, "fuzz", &array, &why);
    fclose(file);
    if (status != CLI_OK) {
        require(why.text[0] != '\0' && array.data == NULL);
        return 0;
    }
    require(array.ndim >= 0 && array.ndim <= GRAM_MAX_DIMS && array.data != NULL);
    require((uint64_t)array.count * npy_type_size(array.type) < size);
    for (int64_t i = 0; i < array.count; i++)
        seen = npy_get(&array, i);
    (void)seen;
    free(array.data);
    return 0;
}
