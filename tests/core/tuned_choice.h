/*
 * tuned_choice.h - what was tuned, changed behind the library's back
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TUNED_CHOICE_H
#define GRAM_TUNED_CHOICE_H
#include "check/harness/harness.h"
#include "core/database.h"
#include <stdio.h>

/* The one choice in the file is now this; the process forgets what it has read. */
static inline void tuned_choice(struct harness *h, long long choice)
{
    struct gram_database s;
    char sql[64];

    snprintf(sql, sizeof sql, "UPDATE tuned SET choice=%lld", choice);
    CHECK(h,
          gram_database_open(h->g, true, &s) && s.call.exec(s.db, sql, NULL, NULL, NULL) == 0 &&
              s.call.changes(s.db) == 1,
          "%s", sql);
    gram_database_close(&s);
    gram_tuned_forget(h->g);
}
#endif
