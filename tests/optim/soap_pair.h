/*
 * soap_pair.h - SOAP on the CPU and on a GPU side by side, for tests
 *
 * Two parameters of one shape: on the GPU their blocks are done together.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef SOAP_PAIR_H
#define SOAP_PAIR_H
#include "check/harness/harness.h"
#include "optimizer_change.h"

enum {
    SOAP_COPIES = 2,
    SOAP_ELEMENTS = 512, /* elements of a parameter */
    SOAP_BYTES = SOAP_ELEMENTS * sizeof(double)
};

enum {
    SOAP_VALUES,
    SOAP_GRADIENTS,
    SOAP_DIRECTIONS,
    SOAP_LISTS
};

/* An optimizer and its tensors, on the CPU or the GPU. */
struct soap_side {
    gram_context *g;
    gram_optimizer *o;
    char *memory; /* lists, copies, numbers */
    gram_tensor tensor[SOAP_LISTS][SOAP_COPIES];
    gram_tensor *list[SOAP_LISTS][SOAP_COPIES];
    gram_optimizer_report report;
};

struct soap_pair {
    struct harness *h;
    struct soap_side cpu, gpu;
    int64_t count;
    double numbers[SOAP_LISTS][SOAP_COPIES][SOAP_ELEMENTS]; /* the CPU's */
    double back[SOAP_COPIES][SOAP_ELEMENTS];                /* the GPU's directions */
};

struct soap_row {
    const char *why;
    int ndim;
    int64_t shape[4];
    bool adopt; /* eigenvectors of the first factors are not unique: the GPU takes the CPU's */
    gram_dtype dtype, state;
    double bound;
    struct optimizer_change changes[6]; /* and the end of the list */
};

/* Defaults of SOAP with the row's changes; refresh is 3 without them. */
gram_optimizer_options soap_pair_options(const struct soap_row *row);
/* The GPU's context queues on stream; false: it could not be made, but has to be closed. */
bool soap_pair_open(struct harness *h, struct soap_pair *p, const struct soap_row *row,
                    const gram_optimizer_options *options, void *stream);
void soap_pair_close(struct soap_pair *p);

/* Gradients whose rows grow, so that eigenvalues are apart. */
void soap_pair_draw(struct soap_pair *p);
/* The CPU's values and gradients to the GPU. */
bool soap_pair_send(struct soap_pair *p);
/* gram_optimizer_direction of one side. */
gram_status soap_pair_ask(struct soap_side *s, bool told);
/* The GPU's, with what is sent before it; its directions come back. */
gram_status soap_pair_step_there(struct soap_pair *p, bool told);
/* Both do a step; and whether they have done the same. */
bool soap_pair_both(struct soap_pair *p);
void soap_pair_compare(struct soap_pair *p, int step, double bound);
#endif
