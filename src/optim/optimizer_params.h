/*
 * optimizer_params.h - what the host tells the kernels of an optimizer's step
 *
 * A launch is about a wave: blocks of one shape, one after the other in scratch.  Read by the
 * host's compiler and by NVRTC, which sees no other header: long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_OPTIMIZER_PARAMS_H
#define GRAM_OPTIMIZER_PARAMS_H
#include "device_params.h"

#define OPTIMIZER_THREADS 256
#define OPTIMIZER_TILE    4096 /* elements that a block of threads takes */
#define OPTIMIZER_SIDE    32   /* of a tile of a matrix */
#define OPTIMIZER_LIST    7    /* parameters that a launch of optimizer_list has room for */
#define OPTIMIZER_ITEMS   512  /* most matrices of a batch of roots */

#define SOAP_PANEL         32 /* columns that are reflected before the others */
#define SOAP_PANEL_THREADS 1024
/* What became of a basis. */
#define SOAP_REFRESHED 0
#define SOAP_KEPT      1
#define SOAP_FAILED    2

/* shampoo_cut: what its numbers are, an array that products have made of one that was cut, or the
 * matrix it is multiplied by. */
#define OPTIMIZER_CUT_ARRAY  0
#define OPTIMIZER_CUT_AGAIN  1
#define OPTIMIZER_CUT_MATRIX 2

/* Why a parameter rests. */
#define OPTIMIZER_NO_GRADIENT 1
#define OPTIMIZER_NOT_FINITE  2

/* A tensor in few dimensions, the last one first; data NULL: it is not wanted.  It is no
 * device_view: elements are found by their flat index in all dimensions, and one launch has tensors
 * of several types. */
struct optimizer_tensor {
    char *data;
    long long dtype, ndim, shape[DEVICE_DIMS], stride[DEVICE_DIMS];
};

struct optimizer_tensors {
    struct optimizer_tensor weight, gradient, direction;
    long long takes; /* its factors take the gradient in, in this step */
};

/* Of a parameter, in this step. */
struct optimizer_now {
    long long t;                      /* its step, from 1 */
    double correction, filter, graft; /* what L is divided by, F and V are multiplied by */
    double scale;                     /* of the direction */
    int rests;
    int still; /* SOAP's first step: moments and weights stay */
};

/* Of a block, for good: where it begins in the parameter's flat indices, and its state. */
struct optimizer_entry {
    long long parameter, number; /* number: in the optimizer's list */
    long long start, stride[DEVICE_DIMS];
    long long factor[DEVICE_DIMS], root[DEVICE_DIMS], moment, velocity, second; /* bytes */
};

struct optimizer_counts {
    long long skipped, refreshed, kept, failed, first_failed;
};

struct optimizer_options {
    double learning_rate, beta1, beta2, beta3, epsilon;
    double momentum, take; /* take: 1 - dampening */
    double decay_gradient, decay_direction;
    double graft_beta2, graft_epsilon;
    long long nesterov, start, bias_correction;
    long long graft_none, graft_sum, graft_corrected;
    long long soap, normalize;
    long long statistics; /* n: factors take in the first and every n-th gradient */
    double soap_keep;     /* of SOAP's direction, decay takes the rest */
};

struct optimizer_params {
    char *state;
    const struct optimizer_entry *entry; /* of the wave's first block */
    struct optimizer_tensors *tensors;   /* one a parameter */
    struct optimizer_now *now;
    struct optimizer_counts *counts;
    int *failed; /* one a block of the optimizer: roots that failed in this step */
    long long *step, *steps, *failures;
    long long parameters;
    struct optimizer_options options;
    double most; /* sum of squares that fits */
    /* The wave. */
    long long blocks, order, size[DEVICE_DIMS], count;
    long long array;        /* elements of scratch from a block to the next */
    long long tiles;        /* of a block */
    long long own, updates; /* this rank's; parameters are to be changed */
    /* Types are DEVICE_F32 and so on; 0 where there is no state. */
    long long matrix_type, packed, moment_type, velocity_type, second_type;
    char *g, *from, *to, *grafted, *matrix;
    double *squares, *grafted_squares; /* tiles a block */
    /* Operands in three parts of f16, or NULL; what 1 in them stands for: of the array of a block,
     * then of its matrix. */
    char *array_halves, *matrix_halves;
    double *units;
    long long cut;
    /* A dimension of the blocks: before by n by after elements. */
    long long k, n, before, after;
    long long product_type; /* Muon: of the matrices that are multiplied */
    double keep, take;      /* of optimizer_ema */
    double scale;           /* of optimizer_finish: what the direction is multiplied by */
    long long is_root;      /* optimizer_unpack: roots, else factors divided by their correction */
};

/* A batch of roots: blocks of the wave by their place in it. */
struct optimizer_roots {
    struct optimizer_params a;
    long long items;
    const int *info;
    int *kept; /* not 0: the root at hand still fits; NULL: nobody has checked */
    int item[OPTIMIZER_ITEMS];
};

/* Do roots fit?  Matrices of n by n, one per item. */
struct shampoo_fit {
    long long n, items;
    const char *factor;
    char *matrix;    /* the factor with its ridge, then the product with the roots */
    char *vectors;   /* two of n numbers per item */
    double *largest; /* eigenvalue of a factor */
    int *kept;
    double epsilon, skip, least; /* least: the ridge, times the largest eigenvalue */
    long long relative;          /* epsilon is */
};

/* A batch of bases of dimension a.k, from a.matrix, the factors, on: matrices are n by n. */
struct soap_batch {
    struct optimizer_roots r; /* info: of eigenvectors */
    char *q, *product, *next; /* the bases, times the factors, and to be */
    const char *checked;      /* soap_check_finite: one of them */
    double *values;           /* of the vectors */
    int *order, *outcome;     /* the old number of a new vector; SOAP_REFRESHED, ... */
    char *moment, *second;    /* arrays of the items */
    double skip;
    long long first; /* next is made of eigenvectors */
};

/* Matrices of count items, column-major; triangle: elements from an item's to the next. */
struct soap_panel {
    long long n, count, column, width, triangle;
    char *a, *reflectors, *triangles;
};

struct optimizer_list {
    struct optimizer_tensors *to;
    long long first, count;
    struct optimizer_tensors item[OPTIMIZER_LIST];
};
#endif
