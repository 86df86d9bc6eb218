/*
 * settings.h - every environment variable that libgram reads, in one table
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SETTINGS_H
#define GRAM_SETTINGS_H
#include "context.h"

/* Completes g->options from the environment and sets g->threads; called once, at creation.  What it
 * keeps is released in any case. */
gram_status gram_settings_apply(gram_context *g);
void gram_settings_release(gram_context *g);
#endif
