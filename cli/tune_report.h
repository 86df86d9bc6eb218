/*
 * tune_report.h - what every kind of `gram tune` prints around its own lines
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_TUNE_REPORT_H
#define GRAM_CLI_TUNE_REPORT_H
#include "json.h"

/* Its own lines are members of j, or lines of text to out. */
struct tune_report {
    struct output out;
    struct json j; /* points into it */
    int json;
};

enum exit_status tune_report_open(struct tune_report *r, int json, struct failure *why);
/* kept: the choice stands in the file; in JSON that is a member of its own. */
enum exit_status tune_report_close(struct tune_report *r, int kept, struct failure *why);
#endif
