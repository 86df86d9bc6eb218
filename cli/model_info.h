/*
 * model_info.h - what a model file holds, for `gram info`
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_MODEL_INFO_H
#define GRAM_CLI_MODEL_INFO_H
#include "command.h"

/* Loads the model and writes about it to standard output, as JSON or as text. */
enum exit_status model_info(const char *path, const struct common_settings *common, int json,
                            struct failure *why);
#endif
