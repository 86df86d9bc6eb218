/*
 * py_layer.h - the arguments that describe a layer of a network
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_LAYER_H
#define PY_LAYER_H
#include "py_functions.h"

/* Their order; activations and gradients come first. */
enum py_layer_argument {
    PY_L_ACTIVATIONS,
    PY_L_GRADIENTS,
    PY_L_KIND,
    PY_L_BIAS,
    PY_L_KERNEL_SIZE,
    PY_L_STRIDE,
    PY_L_PADDING,
    PY_L_DILATION,
    PY_L_GROUPS,
    PY_L_ROWS,
    PY_L_PADDING_ROW,
    PY_L_NORMALIZED,
    PY_L_EPSILON,
    PY_L_COUNT
};

#define PY_LAYER_WORDS                                                                   \
  PY_activations, PY_gradients, PY_kind, PY_bias, PY_kernel_size, PY_stride, PY_padding, \
      PY_dilation, PY_groups, PY_rows, PY_padding_row, PY_normalized, PY_epsilon

/* A layer, its tensors (NULL if they are not given), and its sizes, which are 0 if the arguments do
 * not fit together; the library then refuses the call. */
struct py_layer {
    gram_layer layer;
    gram_tensor *a, *d;
    int64_t in, out;  /* features of a group's patches, of all gradients */
    gram_dtype dtype; /* of outputs */
    struct py_shape weight;
    int bias_dims; /* of the weight, which the bias has too */
};

/* Reads them; -1 with an exception. */
int py_layer(struct py_call *call, PyObject *const *v, struct py_layer *out);
/* py_place, after which the dtype of outputs is known. */
int py_layer_place(struct py_call *call, struct py_layer *l);
#endif
