/*
 * arguments.h - a small valid call of every operation, to be spoilt in one place
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_ARGUMENTS_H
#define GRAM_TEST_ARGUMENTS_H
#include "check/harness/harness.h"

enum {
    MAX_ARGUMENTS = 6
};

/* The arguments of a call; each operation takes those that it has. */
struct arguments {
    gram_tensor t[MAX_ARGUMENTS];
    gram_tensor *arg[MAX_ARGUMENTS]; /* what is passed: &t[i], or NULL */
    gram_scalar p;
    gram_kernel_options kernel;
    gram_kernel_options *kernel_options;
    gram_cdist_options cdist;
    gram_median_options median;
    gram_nearest_options nearest;
    gram_kernel_reduce_options reduce;
    gram_agop_options agop;
    gram_kernel_matmul_options matmul;
    gram_solve_options solve;
    gram_matrix_power_options power;
    gram_krr_path_options path;
    double ridges[2];
};

/* Tensors as text: name, marks, sizes.  '!': it is written; '?': NULL is another valid call; '~':
 * no other argument has its last size, and it may be of a half-precision dtype; '^': none has its
 * first size. */
struct operation {
    const char *name; /* "gram_cdist" */
    gram_status (*call)(gram_context *g, struct arguments *a);
    const char *tensors[MAX_ARGUMENTS];
};

extern const struct operation operations[]; /* name NULL at the end */
const struct operation *operation_named(const char *name);

struct tensor_spec {
    char name[16];
    bool output, optional, alone, first_alone;
    int ndim;
    int64_t shape[3];
};

/* False if the operation has no i'th tensor. */
bool tensor_spec_read(const struct operation *o, int i, struct tensor_spec *s);

/* A valid call of o, f32, in memory of this file. */
void make_valid(const struct operation *o, struct arguments *a);

/* Checks that the call fails with GRAM_INVALID_ARGUMENT, names itself and the argument, and writes
 * nothing.  what, for messages: "has dtype 99". */
void refuses(struct harness *h, const struct operation *o, struct arguments *a,
             const char *argument, const char *what);
#endif
