/*
 * devices.c - several GPUs for one call: --device cuda:0,1
 *
 * SPDX-License-Identifier: MIT
 */
#include "devices.h"
#include "number.h"
#include <math.h>
#include <string.h>

int devices_several(const char *text)
{
    return text && strncmp(text, "cuda:", 5) == 0 && strchr(text, ',') != NULL;
}

/* The number at *at, and what stands behind it and its comma. */
static enum exit_status next_device(const char *text, const char **at, gram_device *out,
                                    struct failure *why)
{
    double index = -1;
    const char *end = number_parse(*at, &index);

    if (!end || (*end && *end != ',') || (*end && !end[1]) || !(index >= 0 && index <= 4095) ||
        index != floor(index))
        return fail(why, CLI_USAGE, "--device is \"%.100s\", expected cuda:0,1 and so on", text);
    *out = (gram_device){GRAM_CUDA, (int32_t)index};
    *at = *end ? end + 1 : end;
    return CLI_OK;
}

enum exit_status devices_open(const struct common_settings *common, struct devices *out,
                              struct failure *why)
{
    const char *at = common->device + strlen("cuda:");
    gram_device devices[MOST_DEVICES];
    int count = 0;

    *out = (struct devices){.group = GRAM_GROUP_INIT};
    out->group.contexts = out->g;
    while (*at) {
        if (count == MOST_DEVICES)
            return fail(why, CLI_USAGE,
                        "--device names more than the %d devices that are supported", MOST_DEVICES);
        TRY(next_device(common->device, &at, &devices[count++], why));
    }
    for (int i = 0; i < count; i++) {
        gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
        gram_status status;
        options.device = devices[i];
        options.threads = common->threads > 0 ? (int)common->threads : 0;
        status = gram_context_create(&options, &out->g[i]);
        if (status != GRAM_OK)
            return fail_gram(why, status, NULL);
        out->group.count++;
    }
    return CLI_OK;
}

void devices_close(struct devices *d)
{
    while (d->group.count > 0)
        gram_context_destroy(d->g[--d->group.count]);
}
