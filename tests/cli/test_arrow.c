/*
 * test_arrow.c - Arrow files that are cut at every byte, or of which every byte is another one
 *
 * None may do more than be refused; what is read nevertheless is a table.  The files are those of
 * tests/corpus/fuzz_arrow.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "cli/arrow.h"
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    "file.arrow",  "stream.arrows", "old.arrows",      "views.arrow",     "zstd.arrows",
    "lz4.feather", "delta.arrow",   "replaced.arrows", "types.arrow",     "nested.arrow",
    "large.arrow", "delta.arrows",  "no_rows.arrow",   "no_columns.arrow"};

/* Ignores what no table can hold. */
static enum column_kind no_nested(const void *user, const char *name)
{
    static const char *const nested[] = {"list",
                                         "struct",
                                         "union",
                                         "map",
                                         "binary",
                                         "fixed_size_list",
                                         "binary_view",
                                         "interval",
                                         "fixed_size_binary",
                                         "run_end_encoded"};

    (void)user;
    for (int i = 0; i < LENGTH(nested); i++)
        if (strcmp(nested[i], name) == 0)
            return COLUMN_IGNORED;
    return COLUMN_ANY;
}

/* Reads a copy that ends where the bytes end, so that a sanitizer sees one byte too many. */
static enum exit_status read_bytes(const struct text *bytes, size_t size, struct failure *why)
{
    const struct csv_options options = {.kind = no_nested};
    struct text copy = {malloc(size ? size : 1), size};
    struct table t;
    enum exit_status status;

    if (!copy.data)
        exit(2);
    memcpy(copy.data, bytes->data, size);
    *why = (struct failure){""};
    status = arrow_parse(copy, "t.arrow", &options, &t, why);
    table_free(&t);
    return status;
}

static void check_refusal(struct harness *h, const char *name, enum exit_status status,
                          const struct failure *why)
{
    const int told = status == CLI_OK || why->text[0] != '\0';

    CHECK(h, told && status != CLI_NO_MEMORY, "%s: status %d, %s", name, (int)status, why->text);
}

static void test_cut(struct harness *h, const char *name, const struct text *bytes)
{
    const int is_stream = strstr(name, ".arrows") != NULL;

    for (size_t size = 0; size < bytes->size; size++) {
        struct failure why;
        const enum exit_status status = read_bytes(bytes, size, &why);
        check_refusal(h, name, status, &why);
        /* A stream may end behind any message. */
        CHECK(h, status != CLI_OK || is_stream, "%s is read when %zu bytes are left", name, size);
    }
}

static void test_changed(struct harness *h, const char *name, struct text *bytes)
{
    static const unsigned char changes[] = {0x01, 0xff};

    for (size_t at = 0; at < bytes->size; at++)
        for (int i = 0; i < LENGTH(changes); i++) {
            struct failure why;
            bytes->data[at] = (char)((unsigned char)bytes->data[at] ^ changes[i]);
            check_refusal(h, name, read_bytes(bytes, bytes->size, &why), &why);
            bytes->data[at] = (char)((unsigned char)bytes->data[at] ^ changes[i]);
        }
}

int main(void)
{
    struct harness h = {.isa = "none", .random = 1};
    const char *source = getenv("GRAM_SOURCE_DIR");

    for (int i = 0; i < LENGTH(names); i++) {
        char path[4096];
        struct text bytes;
        struct failure why;
        enum exit_status status;
        snprintf(path, sizeof path, "%s/tests/corpus/fuzz_arrow/%s", source ? source : ".",
                 names[i]);
        if (text_read(path, &bytes, &why) != CLI_OK) {
            printf("test_arrow: %s\n", why.text);
            return 1;
        }
        status = read_bytes(&bytes, bytes.size, &why);
        CHECK(&h, status == CLI_OK || status == CLI_UNSUPPORTED, "%s", why.text);
        test_cut(&h, names[i], &bytes);
        test_changed(&h, names[i], &bytes);
        free(bytes.data);
    }
    printf("test_arrow: %d checks, %d failures\n", h.checks, h.failures);
    return h.failures != 0;
}
