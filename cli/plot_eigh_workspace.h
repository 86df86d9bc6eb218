/*
 * plot_eigh_workspace.h - what plans say of the workspace of one matrix on 1, 2, 4, ... GPUs
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_PLOT_EIGH_WORKSPACE_H
#define GRAM_CLI_PLOT_EIGH_WORKSPACE_H
#include "command.h"

enum {
    WORKSPACE_POINTS = 32,
    WORKSPACE_TRACKS = 5 /* 1, 2, 4, 8, 16 GPUs */
};

/* Bytes of each of so many GPUs over n. */
struct workspace_track {
    int devices, count;
    char name[16];
    double n[WORKSPACE_POINTS], bytes[WORKSPACE_POINTS];
};

/* Fills in a track for every power of two of GPUs that are here, none on the CPU; nothing is
 * computed.  A track ends where a plan cannot be made. */
enum exit_status workspace_plans(gram_context *g, gram_dtype dtype,
                                 struct workspace_track tracks[WORKSPACE_TRACKS], int *count,
                                 struct failure *why);
#endif
