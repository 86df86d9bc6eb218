/*
 * comma_locale.h - a locale whose decimal point is a comma
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_COMMA_LOCALE_H
#define GRAM_COMMA_LOCALE_H
#include <stdbool.h>

/* Sets the process's locale to one with decimal commas, which localedef makes if none is
 * installed.  False, after saying so on standard output, if there is none. */
bool comma_locale(void);
#endif
