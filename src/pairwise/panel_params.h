/*
 * panel_params.h - what the host tells cdist_panels.cu
 *
 * Read by the host's compiler and by NVRTC.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PANEL_PARAMS_H
#define GRAM_PANEL_PARAMS_H
#include "pair_params.h"

#define PANEL_ROWS 128
#define PANEL_COLS 32 /* that panels are filled up to with zeros */

struct panel_params {
    struct pair_side side[2]; /* x and y, of one item */
    char *panels[2];
    long long tiles[2]; /* of PANEL_ROWS rows */
    long long depth, chunks;
};
#endif
