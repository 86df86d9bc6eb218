/*
 * foreign.c - recognises files of other formats by their first bytes and by the endings of their
 * names
 *
 * SPDX-License-Identifier: MIT
 */
#include "foreign.h"
#include <string.h>
#include <strings.h>

/* Advice on how to convert a file to text; %s is its name. */
static const char through_zcat[] = "unpack it, as in: zcat '%s' | gram COMMAND -",
                  through_bzcat[] = "unpack it, as in: bzcat '%s' | gram COMMAND -",
                  through_xzcat[] = "unpack it, as in: xzcat '%s' | gram COMMAND -",
                  through_zstdcat[] = "unpack it, as in: zstdcat '%s' | gram COMMAND -",
                  parquet[] = "give the path of '%s': such a file cannot be read from a pipe",
                  feather[] =
                      "make CSV of it, as in: python3 -c 'import pandas; "
                      "pandas.read_feather(\"%s\").to_csv(\"data.csv\", index=False)'",
                  zip[] = "unpack '%s', or save the sheet as CSV",
                  database[] = "make CSV of it, as in: sqlite3 -header -csv '%s' 'SELECT ...'",
                  other[] = "make CSV or .npy of '%s' first";

static const struct {
    const char *bytes;
    int size;
    const char *name, *advice;
} beginnings[] = {
    {        "\x1f\x8b",  2,                 "gzip",    through_zcat},
    {             "BZh",  3,                "bzip2",   through_bzcat},
    {       "\xfd"
       "7zXZ",  5,                   "xz",   through_xzcat     },
    {"\x28\xb5\x2f\xfd",  4,                 "zstd", through_zstdcat},
    {            "PAR1",  4,              "Parquet",         parquet},
    {            "FEA1",  4, "Feather of version 1",         feather},
    {          "PK\3\4",  4, "zip or a spreadsheet",             zip},
    { "SQLite format 3", 15,    "a SQLite database",        database},
    {         "\x89HDF",  4,                 "HDF5",           other},
};

static const char *const endings[] = {"parquet", "feather", "arrow", "xlsx", "xls",  "ods",
                                      "gz",      "bz2",     "xz",    "zst",  "zip",  "npz",
                                      "h5",      "hdf5",    "mat",   "pkl",  "html", "xml"};

enum exit_status foreign_refuse(const struct text *text, const char *path, struct failure *why)
{
    for (int i = 0; i < LENGTH(beginnings); i++) {
        char advice[400];
        const char *percent = strstr(beginnings[i].advice, "%s");
        if (text->size < (size_t)beginnings[i].size ||
            memcmp(text->data, beginnings[i].bytes, (size_t)beginnings[i].size) != 0)
            continue;
        snprintf(advice, sizeof advice, "%.*s%.200s%s", (int)(percent - beginnings[i].advice),
                 beginnings[i].advice, strcmp(path, "-") == 0 ? "FILE" : path, percent + 2);
        return fail(why, CLI_BAD_DATA, "%s: this is %s, not text; %s", text_name(path),
                    beginnings[i].name, advice);
    }
    return CLI_OK;
}

const char *foreign_ending(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash + 1 : path, '.');

    for (int i = 0; dot && i < LENGTH(endings); i++)
        if (strcasecmp(dot + 1, endings[i]) == 0)
            return endings[i];
    return NULL;
}
