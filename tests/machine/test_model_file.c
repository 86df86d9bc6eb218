/*
 * test_model_file.c - model files: what is written comes back, damage is named, nothing half
 * remains
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/model_file.h"
#include "machine/table.h"
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/gram-model-XXXXXX";
static char path[sizeof folder + 16];

/* ---- Round trip ------------------------------------------------------------------------------ */

static const double wide[6] = {0, -0.0, 1e308, 5e-324, 3.14, -7};
static const float narrow[3] = {1, 2.5f, -1e-40f};
static const int32_t whole[2] = {INT32_MIN, 7};

static void put_all(struct gram_model_writer *w)
{
    char *names[] = {"plain", "", "\xff\xfe not UTF-8", "\"quoted\"\n"};

    gram_model_put(w, "narrow", GRAM_F32, 1, (int64_t[]){3}, narrow);
    gram_model_put(w, "wide", GRAM_F64, 2, (int64_t[]){2, 3}, wide);
    gram_model_put_copy(w, "whole", GRAM_I32, 2, whole);
    gram_model_put(w, "nothing", GRAM_F64, 2, (int64_t[]){0, 5}, NULL);
    gram_model_put_strings(w, "names", 4, names);
    gram_model_put_text(w, "quote\"", "line\n\\ \x01 caf\xc3\xa9 \xf0\x9f\x98\x80 \xff.");
}

static void write_file(struct harness *h, const char *to, gram_status expected)
{
    struct gram_model_writer *w = gram_model_writer_create();
    gram_status status;

    put_all(w);
    status = gram_model_commit(h->g, w, to);
    gram_model_writer_destroy(w);
    CHECK(h, status == expected, "%s: %s", gram_status_name(status), gram_message(h->g));
}

/* Bit by bit: -0 and denormals must come back too. */
static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

static void expect_all(struct harness *h, const struct gram_model_file *f)
{
    const struct gram_model_array *a = gram_model_find(f, "wide");
    const char *text = gram_model_text(f, "quote\"");
    char **names;

    CHECK(h, a && a->ndim == 2 && a->shape[0] == 2 && same_bytes(a->data, wide, sizeof wide),
          "wide");
    a = gram_model_find(f, "narrow");
    CHECK(h, a && a->type == GRAM_F32 && same_bytes(a->data, narrow, sizeof narrow), "narrow");
    a = gram_model_find(f, "whole");
    CHECK(h, a && a->type == GRAM_I32 && same_bytes(a->data, whole, sizeof whole), "whole");
    a = gram_model_find(f, "nothing");
    CHECK(h, a && a->shape[0] == 0 && a->shape[1] == 5, "nothing");
    CHECK(h, !gram_model_find(f, "absent") && !gram_model_text(f, "absent"), "found the absent");
    CHECK(h, text && !strcmp(text, "line\n\\ \x01 caf\xc3\xa9 \xf0\x9f\x98\x80 \xef\xbf\xbd."),
          "text \"%s\"", text ? text : "none");
    CHECK(h, gram_model_need_strings(h->g, f, "names", 4, NULL, &names) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, !strcmp(names[1], "") && !strcmp(names[2], "\xff\xfe not UTF-8") && !names[4],
          "names[2] is %s", names[2]);
    free(names);
}

static void check_needs(struct harness *h, const struct gram_model_file *f)
{
    const struct gram_model_array *a;
    const void *data;
    char **names;

    CHECK(h, gram_model_need(h->g, f, "absent", GRAM_F64, 1, NULL, &a) == GRAM_BAD_DATA, "absent");
    CHECK(h, strstr(gram_message(h->g), "no array \"absent\""), "%s", gram_message(h->g));
    CHECK(h, gram_model_need_vector(h->g, f, "narrow", GRAM_F64, 3, &data, NULL) == GRAM_BAD_DATA,
          "dtype");
    CHECK(h, strstr(gram_message(h->g), "dtype F32, expected F64"), "%s", gram_message(h->g));
    CHECK(h, gram_model_need_vector(h->g, f, "narrow", GRAM_F32, 4, &data, NULL) == GRAM_BAD_DATA,
          "size");
    CHECK(h, strstr(gram_message(h->g), "size 3 in dimension 0, expected 4"), "%s",
          gram_message(h->g));
    CHECK(h, gram_model_need_vector(h->g, f, "wide", GRAM_F64, 6, &data, NULL) == GRAM_BAD_DATA,
          "dimensions");
    CHECK(h, gram_model_need_strings(h->g, f, "names", 3, NULL, &names) == GRAM_BAD_DATA, "texts");
    CHECK(h, strstr(gram_message(h->g), "4 texts, expected 3"), "%s", gram_message(h->g));
}

static void check_round_trip(struct harness *h)
{
    struct gram_model_file *f = NULL;

    h->where = "round trip";
    write_file(h, path, GRAM_OK);
    CHECK(h, gram_model_read(h->g, path, &f) == GRAM_OK, "%s", gram_message(h->g));
    if (!f)
        return;
    expect_all(h, f);
    check_needs(h, f);
    gram_model_file_destroy(f);
}

static void check_encoder(struct harness *h)
{
    const double x[] = {1, 2, NAN};
    const char *const c[] = {"b", "a", NULL}, *const one[] = {"z", "z", "z"};
    const char *const many[] = {"p", "q", "r"}, *const days[] = {"1.2.2020", "3.4.2021", NULL};
    const gram_column columns[] = {
        {   "x",    x, NULL},
        {   "c", NULL,    c},
        { "one", NULL,  one},
        {"many", NULL, many},
        {"days", NULL, days}
    };
    const gram_table t = {3, 5, columns};
    const struct gram_encoding how = {.scaling = GRAM_ROBUST, .max_categories = 2};
    struct gram_model_writer *w = gram_model_writer_create();
    struct gram_model_file *f = NULL;
    struct gram_encoder *e = NULL, *again = NULL;
    double before[33], after[33];

    h->where = "encoder";
    CHECK(h, gram_encoder_fit(h->g, &t, (int64_t[]){0, 1, 2}, 3, &how, &e) == GRAM_OK, "%s",
          gram_message(h->g));
    gram_model_put_encoder(w, e);
    CHECK(h, gram_model_commit(h->g, w, path) == GRAM_OK, "%s", gram_message(h->g));
    gram_model_writer_destroy(w);
    CHECK(h, gram_model_read(h->g, path, &f) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_model_need_encoder(h->g, f, &again) == GRAM_OK, "%s", gram_message(h->g));
    gram_model_file_destroy(f);
    if (!again)
        return;
    CHECK(h, again->width == e->width && again->width == 11, "width %lld", (long long)again->width);
    CHECK(h, gram_encoder_apply(h->g, e, &t, NULL, 3, GRAM_F64, before) == GRAM_OK, "before");
    CHECK(h, gram_encoder_apply(h->g, again, &t, NULL, 3, GRAM_F64, after) == GRAM_OK, "after");
    CHECK(h, same_bytes(before, after, sizeof before), "the features differ");
    CHECK(h, again->column[3].other && !again->column[1].other, "which columns share a feature");
    CHECK(h, again->column[4].dates == e->column[4].dates && again->column[4].dates, "dates");
    gram_encoder_destroy(e);
    gram_encoder_destroy(again);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

#define ARRAY(name, begin, end) \
  "\"" name "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" begin "," end "]}"

static const struct damage {
    const char *header;
    size_t data;      /* bytes behind it */
    const char *says; /* NULL: it is sound */
} damages[] = {
    {                                                                                  "{}",    0,NULL                                                                                                      },
    {                                                                        " {" ARRAY("a",  "0",           "8") "," ARRAY("b",    "8", "16") " } ", 16, NULL},
    {                                                                         "{" ARRAY("b",  "8",          "16") "," ARRAY("a",                                                                                                        "0", "8") "}", 16, NULL},
    {                                                               "{\"__metadata__\":{}}",    0,                         NULL    },
    {                                                                                    "",    0,               "expected '{'"                                                                                                           },
    {                                                                                   "{",    0,          "expected a string"    },
    {                                                                                 "{}x",    0,        "the end of the text"    },
    {                                                                                "{\"a",    0,      "the end of the string"    },
    {                                                                              "{\"a\\",    0,                     "escape"    },
    {                                                                          "{\"a\\q\":",    0,                     "escape"    },
    {                                                                         "{\"\\u12\":",    0,                "hexadecimal"    },
    {                                                                       "{\"\\ud800\":",    0,                 "surrogates"    },
    {                                                                       "{\"\\u0000\":",    0,                      "u0000"    },
    {                                                                          "{\"\xff\":",    0,                      "UTF-8"    },
    {                                                                      "{\"\xc0\x80\":",    0,                      "UTF-8"    },
    {                                                                          "{\"a\tb\":",    0,         "control characters"    },
    {                                                        "{\"__metadata__\":{\"k\":1}}",    0,                   "a string"    },
    {                                        "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}",    0, "two texts are called \"k\""    },
    {                                           "{\"__metadata__\":{},\"__metadata__\":{}}",    0,                  "two parts"    },
    {                                                                         "{" ARRAY("a",  "0",           "8") "," ARRAY("a",    "8", "16") "}", 16, "two arrays are called \"a\""},
    {                                                                         "{" ARRAY("a",  "0",                    "8") ",}",    8, "a string"},
    {                                                                         "{" ARRAY("a",  "0",           "8") "," ARRAY("b",    "4", "12") "}", 12, "expected 8, where the one"},
    {                                                                         "{" ARRAY("a",  "0",           "8") "," ARRAY("b",                                                                                 "12", "20") "}", 20, "expected 8, where the one"},
    {                                                                         "{" ARRAY("a",  "0",           "8") "," ARRAY("b",    "0", "8") "}", 8, "expected 8, where the one"},
    {                                                                         "{" ARRAY("a",  "0",                     "8") "}",                          7, "truncated"},
    {                                                                         "{" ARRAY("a",  "0",                     "8") "}",                                                                              9, "1 bytes of data belong to no array"},
    {                                                                         "{" ARRAY("a",  "0",                     "9") "}",         9, "its shape takes 8"},
    {                                                                         "{" ARRAY("a",  "8",                     "0") "}",8, "its shape takes 8"},
    {                                                                         "{" ARRAY("a", "-8",                     "0") "}",         8, "a whole number"},
    {                                                                         "{" ARRAY("a",  "0",                   "8.0") "}",                                                                               8, "a whole number"},
    {                                                                         "{" ARRAY("a",  "0",                    "08") "}",         8, "a whole number"},
    {                                                                         "{" ARRAY("a",  "0",                   "8e0") "}",                                                        8, "a whole number"},
    {                                                                         "{" ARRAY("a",  "0",   "9223372036854775808") "}",    8, "below 2^63"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",    0,
     "overflows"},
    {            "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}",    4,                "more than 4"                                                                 },
    {                    "{\"a\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}",    8,              "dtype \"C64\""    },
    {                                            "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}",    1,                      "lacks"                 },
    {                       "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}",    1,                      "lacks"                                                                    },
    {    "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",    1,
     "twice \"dtype\""    },
    {             "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}",    1,              "unknown \"x\""                    },
    {                                  "{\"\\u001b[31m\":{\"dtype\":\"U8\",\"shape\":[1]}}",    1,            "array \"?[31m\""                                                                    },
    {                "{\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}",    5,   "expected a multiple of 4"    },
};

/* The bytes of a file with that header, padded to a multiple of 8; size gets their number. */
static char *file_bytes(const struct damage *d, size_t *size)
{
    uint64_t length = (strlen(d->header) + 7) / 8 * 8;
    char *bytes;

    *size = 8 + (size_t)length + d->data;
    bytes = calloc(*size, 1); /* exact: a sanitizer sees one byte too many */
    if (!bytes)
        exit(EXIT_FAILURE);
    memcpy(bytes, &length, 8);
    memset(bytes + 8, ' ', length);
    memcpy(bytes + 8, d->header, strlen(d->header));
    return bytes;
}

static void expect_refused(struct harness *h, const void *bytes, size_t size, const char *says)
{
    struct gram_model_file *f = NULL;
    gram_status status = gram_model_parse(h->g, "some.gram", bytes, size, &f);

    if (!says) {
        CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    } else {
        CHECK(h, status == GRAM_BAD_DATA && !f, "status %s", gram_status_name(status));
        CHECK(h, strstr(gram_message(h->g), says) != NULL, "it says \"%s\"", gram_message(h->g));
        CHECK(h, strstr(gram_message(h->g), "some.gram: ") != NULL, "no name in \"%s\"",
              gram_message(h->g));
    }
    gram_model_file_destroy(f);
}

static void check_damage(struct harness *h)
{
    const uint64_t hostile[] = {UINT64_MAX, (uint64_t)1 << 40, 16};
    size_t size;

    for (int i = 0; i < LENGTH(damages); i++) {
        char *bytes = file_bytes(&damages[i], &size);
        h->where = damages[i].header;
        expect_refused(h, bytes, size, damages[i].says);
        free(bytes);
    }
    h->where = "length";
    for (int i = 0; i < LENGTH(hostile); i++)
        expect_refused(h, &hostile[i], 8, "its header has");
    expect_refused(h, hostile, 7, "7 bytes");
    expect_refused(h, NULL, 0, "0 bytes");
    expect_refused(h, "\1\0\0\0\0\0\0\0{", 9, "multiple of 8");
}

/* Every shorter version of a good file must be refused. */
static void check_truncation(struct harness *h)
{
    char bytes[4096];
    size_t size;
    FILE *file;

    h->where = "truncated";
    write_file(h, path, GRAM_OK);
    file = fopen(path, "rb");
    if (!file)
        exit(EXIT_FAILURE);
    size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    CHECK(h, size > 100 && size < sizeof bytes, "%zu bytes", size);
    for (size_t n = 0; n < size; n++) {
        char *copy = malloc(n ? n : 1);
        struct gram_model_file *f = NULL;
        memcpy(copy, bytes, n);
        CHECK(h, gram_model_parse(h->g, "cut", copy, n, &f) == GRAM_BAD_DATA, "%zu bytes", n);
        gram_model_file_destroy(f);
        free(copy);
    }
}

/* ---- Trouble with the file system ------------------------------------------------------------ */

static int files_in_folder(void)
{
    DIR *d = opendir(folder);
    int count = 0;

    if (!d)
        exit(EXIT_FAILURE);
    while (readdir(d))
        count++;
    closedir(d);
    return count - 2;
}

/* A write that fails midway leaves the old file, and nothing beside it. */
static void check_full_disk(struct harness *h)
{
    struct gram_model_file *f = NULL;
    struct rlimit before, little = {256, 256};

    h->where = "full disk";
    write_file(h, path, GRAM_OK);
    getrlimit(RLIMIT_FSIZE, &before);
    little.rlim_max = before.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &little);
    write_file(h, path, GRAM_IO);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(h, strstr(gram_message(h->g), "cannot write"), "%s", gram_message(h->g));
    CHECK(h, files_in_folder() == 1, "%d files", files_in_folder());
    CHECK(h, gram_model_read(h->g, path, &f) == GRAM_OK, "%s", gram_message(h->g));
    gram_model_file_destroy(f);
}

static void check_paths(struct harness *h)
{
    struct gram_model_file *f = NULL;
    char link[sizeof path + 8], nowhere[sizeof path + 32];
    struct stat about;

    h->where = "paths";
    snprintf(nowhere, sizeof nowhere, "%s/no/such/folder", folder);
    write_file(h, nowhere, GRAM_IO);
    write_file(h, folder, GRAM_IO);
    CHECK(h, strstr(gram_message(h->g), "not a regular file"), "%s", gram_message(h->g));
    write_file(h, "/dev/null", GRAM_IO);
    CHECK(h, stat("/dev/null", &about) == 0 && S_ISCHR(about.st_mode), "/dev/null was replaced");
    CHECK(h, gram_model_read(h->g, nowhere, &f) == GRAM_IO && !f, "read %s", nowhere);
    CHECK(h, gram_model_read(h->g, folder, &f) == GRAM_IO && !f, "read %s", folder);
    CHECK(h, gram_model_read(h->g, "/dev/null", &f) == GRAM_IO && !f, "read /dev/null");

    chmod(path, 0640);
    snprintf(link, sizeof link, "%s.link", path);
    CHECK(h, symlink(path, link) == 0, "symlink");
    write_file(h, link, GRAM_OK);
    CHECK(h, lstat(link, &about) == 0 && S_ISLNK(about.st_mode), "the link was replaced");
    CHECK(h, stat(path, &about) == 0 && (about.st_mode & 0777) == 0640, "mode %o", about.st_mode);
    unlink(link);
    CHECK(h, files_in_folder() == 1, "%d files", files_in_folder());
}

int main(void)
{
    struct harness_options options = {.threads = 2};
    struct harness h;

    if (!harness_open(&h, &options, NULL) || !mkdtemp(folder))
        return EXIT_FAILURE;
    snprintf(path, sizeof path, "%s/m", folder);
    h.g->call = "gram_machine_load"; /* whose messages these are */
    check_round_trip(&h);
    check_encoder(&h);
    check_damage(&h);
    check_truncation(&h);
    check_full_disk(&h);
    check_paths(&h);
    unlink(path);
    rmdir(folder);
    printf("model file: %d checks, %d failed\n", h.checks, h.failures);
    harness_close(&h);
    return h.failures || !h.checks ? EXIT_FAILURE : EXIT_SUCCESS;
}
