/*
 * nccl.c - opens NCCL
 *
 * SPDX-License-Identifier: MIT
 */
#include "nccl.h"

#define AT(member) offsetof(struct cuda_nccl, member)
static const struct cuda_symbol symbols[] = {
    {        "ncclGetVersion",      AT(version)},
    {    "ncclGetErrorString", AT(error_string)},
    {       "ncclGetUniqueId",      AT(make_id)},
    {"ncclCommInitRankConfig",         AT(open)},
    {      "ncclCommFinalize",     AT(finalize)},
    {       "ncclCommDestroy",      AT(destroy)},
    {         "ncclCommAbort",        AT(abort)},
    { "ncclCommGetAsyncError",  AT(async_error)},
    {        "ncclGroupStart",  AT(group_start)},
    {          "ncclGroupEnd",    AT(group_end)},
    {              "ncclSend",         AT(send)},
    {              "ncclRecv",      AT(receive)},
    {         "ncclAllReduce",   AT(all_reduce)},
    {                    NULL,                0},
};

static struct cuda_nccl functions;
static struct cuda_opened opened = {
    .name = "NCCL",
    .files = {"libnccl.so.2"},
    .package = "nvidia-nccl-cu13 or nvidia-nccl-cu12",
    .symbols = symbols,
    .into = &functions,
    .bytes = sizeof functions,
};

gram_status gram_cuda_nccl(gram_context *g, const struct cuda_nccl **out)
{
    *out = &functions;
    return gram_cuda_open(g, &opened);
}
