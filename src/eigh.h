/*
 * eigh.h - what the fronts of gram_eigh and of its implicit forms share
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EIGH_H
#define GRAM_EIGH_H
#include "backend.h"

/* Checks the options of the Krylov driver, and takes them to op. */
gram_status gram_eigh_check_krylov(gram_context *g, const gram_eigh_options *o);
void gram_eigh_krylov(const gram_eigh_options *o, gram_eigh_report *report,
                      struct gram_eigh_op *op);
/* The end of a call: fills in the report that its options ask for, as much of it as its size
 * covers, and gives the status. */
gram_status gram_eigh_ended(gram_context *g, gram_status status, const gram_eigh_options *given,
                            const gram_eigh_report *report);

/* The arguments of gram_eigh; info may be NULL. */
struct gram_eigh_call {
    const gram_tensor *a;
    const gram_eigh_options *options;
    const gram_tensor *values, *vectors, *info;
};
/* Checks them; the driver that would be used, and the scratch. */
gram_status gram_eigh_query(gram_context *g, const struct gram_eigh_call *call,
                            gram_eigh_driver *driver, gram_workspace *need);
#endif
