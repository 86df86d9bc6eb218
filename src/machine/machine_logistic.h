/*
 * machine_logistic.h - kernel logistic regression
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_LOGISTIC_H
#define GRAM_MACHINE_LOGISTIC_H
#include "machine.h"

/* The last of the systems of least squares: its weights, and targets of the data's dtype; and where
 * it has led, from which the next fit of the same rows begins. */
struct machine_logistic {
    double *weight;
    char *target;
    bool known;    /* there is such a point: */
    double *f, *a; /* its outputs and coefficients */
    size_t bytes;
};

gram_status gram_machine_logistic_open(gram_context *g, int64_t rows,
                                       struct machine_logistic *system);
void gram_machine_logistic_close(gram_context *g, struct machine_logistic *system);

/* The probability of the second class and the loss of an output whose target is 0 or 1, and the
 * weighted mean of such losses. */
double gram_machine_logistic_probability(double f);
double gram_machine_logistic_error(const struct machine_data *data, const double *f);
double gram_machine_logistic_loss(double f, double target);

/* The coefficients, alpha, of rows with one column of targets that are 0 or 1, and the system that
 * was solved last.  The arguments are those of gram_machine_leaf_solve. */
gram_status gram_machine_logistic_fit(gram_context *g, const struct machine_params *params,
                                      double bandwidth, const struct machine_data *z, void *alpha,
                                      struct machine_logistic *system,
                                      struct machine_report *report);

#endif
