/*
 * unseen.h - remarks on what a table has that the training table of a model did not have
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_UNSEEN_H
#define GRAM_CLI_UNSEEN_H
#include "model.h"
#include "remarks.h"

/* Adds the remarks on a table that model_read_table has read. */
enum exit_status unseen_look(const struct model *m, const struct table *t, struct remarks *out,
                             struct failure *why);
#endif
