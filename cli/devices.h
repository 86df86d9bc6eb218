/*
 * devices.h - several GPUs for one call: --device cuda:0,1
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_DEVICES_H
#define GRAM_CLI_DEVICES_H
#include "command.h"

enum {
    MOST_DEVICES = 16
};

/* Contexts of devices: devices_close when done, after a failure too. */
struct devices {
    gram_context *g[MOST_DEVICES];
    gram_group group;
};

/* Whether the text of --device names more than one: "cuda:0,1". */
int devices_several(const char *text);
enum exit_status devices_open(const struct common_settings *common, struct devices *out,
                              struct failure *why);
void devices_close(struct devices *d);
#endif
