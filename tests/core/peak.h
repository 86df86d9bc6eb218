/*
 * peak.h - how much memory a piece of work takes at its worst, as the kernel counts it
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_PEAK_H
#define GRAM_TEST_PEAK_H
#include <stdbool.h>
#include <stdint.h>

/* Starts counting: the peak is now what the process holds now.  False if the system cannot. */
bool peak_start(void);

/* Bytes that the process held at most since peak_start, beyond what it held then. */
int64_t peak_growth(void);
#endif
