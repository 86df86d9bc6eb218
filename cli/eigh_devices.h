/*
 * eigh_devices.h - several GPUs for one eigenproblem: --device cuda:0,1
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_EIGH_DEVICES_H
#define GRAM_CLI_EIGH_DEVICES_H
#include "command.h"

enum {
    MOST_EIGH_DEVICES = 16
};

/* Contexts of devices: eigh_devices_close when done, after a failure too. */
struct eigh_devices {
    gram_context *g[MOST_EIGH_DEVICES];
    gram_group group;
};

/* Whether the text of --device names more than one: "cuda:0,1". */
int eigh_devices_several(const char *text);
enum exit_status eigh_devices_open(const struct common_settings *common, struct eigh_devices *out,
                                   struct failure *why);
void eigh_devices_close(struct eigh_devices *d);
#endif
