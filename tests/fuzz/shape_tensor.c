/*
 * shape_tensor.c - tensors of shape_calls.h from their text
 *
 * SPDX-License-Identifier: MIT
 */
#include "shape_calls.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *shape_name(const struct shape_row *row, int i, char name[SHAPE_NAME])
{
    const char *text = row->tensors;

    for (; i > 0 && text; i--) {
        text = strstr(text, ", ");
        text = text ? text + 2 : NULL;
    }
    if (!text || i < 0)
        return NULL;
    (void)snprintf(name, SHAPE_NAME, "%.*s", (int)strcspn(text, ","), text);
    return name;
}

bool shape_tensor(const struct shape_row *row, int i, int64_t batch, gram_tensor *t)
{
    char name[SHAPE_NAME];
    const char *text = shape_name(row, i, name);
    int64_t step = 1;

    *t = (gram_tensor){.dtype = GRAM_F64};
    if (!text)
        return false;
    if (strncmp(name, "info", 4) == 0 || strncmp(name, "pivots", 6) == 0)
        t->dtype = GRAM_I32;
    if (batch >= 0)
        t->shape[t->ndim++] = batch;
    for (text += strcspn(text, " "); *text; text += strcspn(text + 1, " ") + 1)
        t->shape[t->ndim++] = strtol(text + 1, NULL, 10);
    for (int d = t->ndim - 1; d >= 0; step *= t->shape[d--])
        t->stride[d] = step;
    return true;
}
