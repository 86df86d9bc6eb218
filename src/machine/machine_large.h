/*
 * machine_large.h - what large tables are learned by
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_LARGE_H
#define GRAM_MACHINE_LARGE_H
#include "machine.h"

/* Whether that many rows are learned by centres and corrections. */
bool gram_machine_is_large(const gram_context *g, const struct machine_job *job, int64_t rows);

/* Trains on all rows, which come in random order.  params come as the search has chosen them, and
 * become those of the base.  The job gets the outputs of the rows that were held out. */
gram_status gram_machine_large_fit(gram_context *g, struct machine_job *job,
                                   const struct machine_data *all, struct machine_params *params,
                                   gram_machine *machine);

#endif
