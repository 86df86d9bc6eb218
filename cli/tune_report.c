/*
 * tune_report.c - the lines that every kind of `gram tune` prints around its own
 *
 * SPDX-License-Identifier: MIT
 */
#include "tune_report.h"

enum exit_status tune_report_open(struct tune_report *r, int json, struct failure *why)
{
    TRY(output_open(&r->out, "-", why));
    r->j = json_to(&r->out);
    r->json = json;
    if (json)
        json_object(&r->j, NULL);
    return CLI_OK;
}

enum exit_status tune_report_close(struct tune_report *r, int kept, struct failure *why)
{
    if (r->json)
        json_end(&r->j);
    else if (!kept)
        output_text(&r->out, "The choice is not kept; gram cache info says why.\n");
    return output_close(&r->out, why);
}
