/*
 * soap_run.h - an optimizer of one parameter in the hands of a test, for SOAP and Muon
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef SOAP_RUN_H
#define SOAP_RUN_H
#include "check/harness/harness.h"

enum {
    SOAP_MOST = 512 /* elements of the parameter, and of a factor */
};

/* Arrays are row-major without gaps, of the dtype. */
struct soap_run {
    struct harness *h;
    gram_optimizer *optimizer;
    gram_tensor parameter, gradient, direction;
    int64_t count;
    double weights[SOAP_MOST], gradients[SOAP_MOST], directions[SOAP_MOST]; /* room of the three */
    gram_optimizer_report report;                                           /* of the last step */
};

/* Weights are random; false: it could not be made. */
bool soap_run_begin(struct harness *h, struct soap_run *r, const gram_optimizer_options *options,
                    gram_dtype dtype, int ndim, const int64_t *shape);
void soap_run_end(struct soap_run *r);

/* A gradient of numbers in [-1, 1), larger along the first dimension. */
void soap_run_draw(struct soap_run *r);

/* gram_optimizer_direction with it. */
gram_status soap_run_step(struct soap_run *r);

/* A state tensor by its name; without data if there is none. */
gram_tensor soap_run_state(const struct soap_run *r, const char *name);

/* A hash of everything in the state. */
uint64_t soap_run_hash(const struct soap_run *r);
#endif
