/*
 * compile_cache.c - a file of the folder for every key, written beside and renamed
 *
 * A file ends with a checksum of its bytes: a machine that stops may leave half of one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "compile_cache.h"
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

__extension__ typedef unsigned __int128 wide;

/* FNV-1a of 128 bits. */
static void add_byte(struct compile_key *key, unsigned char byte)
{
    const wide prime = ((wide)1 << 88) + 0x13B;
    wide value = ((wide)key->high << 64 | key->low) ^ byte;

    value *= prime;
    key->high = (unsigned long long)(value >> 64);
    key->low = (unsigned long long)value;
}

struct compile_key compile_key_begin(void)
{
    return (struct compile_key){.high = 0x6C62272E07BB0142u, .low = 0x62B821756295C58Du};
}

void compile_key_add(struct compile_key *key, const char *text)
{
    do
        add_byte(key, (unsigned char)*text);
    while (*text++);
}

enum {
    MOST_HEADERS = 128
};

struct headers {
    int count;
    const char *const *names, *const *texts;
    bool added[MOST_HEADERS];
};

/* Each header counts once. */
static void add_text(struct compile_key *key, struct headers *h, const char *text)
{
    static const char include[] = "include \""; /* behind # and blanks */
    const char *at = text;

    compile_key_add(key, text);
    while ((at = strstr(at, include)) != NULL) {
        at += strlen(include);
        for (int i = 0; i < h->count; i++) {
            size_t length = strlen(h->names[i]);
            if (h->added[i] || strncmp(at, h->names[i], length) != 0 || at[length] != '"')
                continue;
            h->added[i] = true;
            compile_key_add(key, h->names[i]);
            add_text(key, h, h->texts[i]);
        }
    }
}

void compile_key_add_source(struct compile_key *key, const char *text, int headers,
                            const char *const *names, const char *const *texts)
{
    struct headers h = {.count = headers, .names = names, .texts = texts};

    assert(headers <= MOST_HEADERS);
    add_text(key, &h, text);
}

static struct compile_key checksum(const char *bytes, size_t size)
{
    struct compile_key sum = compile_key_begin();

    for (size_t i = 0; i < size; i++)
        add_byte(&sum, (unsigned char)bytes[i]);
    return sum;
}

/* The user's own, and closed to all others. */
static bool is_private(const char *folder)
{
    struct stat s;

    return lstat(folder, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           (s.st_mode & 077) == 0;
}

static bool make_folder(char *folder, size_t size)
{
    const char *own = getenv("GRAM_TEST_CACHE"), *caches = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int length;

    if (own)
        length = snprintf(folder, size, "%s", own);
    else if (caches && caches[0] == '/')
        length = snprintf(folder, size, "%s/libgram-tests", caches);
    else if (home && home[0] == '/')
        length = snprintf(folder, size, "%s/.cache/libgram-tests", home);
    else
        return false;
    if (length <= 0 || (size_t)length >= size)
        return false;
    if (!own) {
        char *name = strrchr(folder, '/');
        *name = '\0';
        (void)mkdir(folder, 0700); /* the folder of caches, where it is missing */
        *name = '/';
    }
    (void)mkdir(folder, 0700);
    return is_private(folder);
}

static bool path_of(const struct compile_key *key, char *path, size_t size)
{
    size_t length;

    if (!make_folder(path, size))
        return false;
    length = strlen(path);
    return (size_t)snprintf(path + length, size - length, "/%016llx%016llx", key->high, key->low) <
           size - length;
}

static char *read_whole(int file, size_t *size)
{
    struct stat s;
    char *bytes = NULL;

    if (fstat(file, &s) == 0 && s.st_size > 0 && (bytes = malloc((size_t)s.st_size)) != NULL) {
        *size = (size_t)s.st_size;
        if (read(file, bytes, *size) == s.st_size)
            return bytes;
    }
    free(bytes);
    return NULL;
}

char *compile_cache_get(const struct compile_key *key, size_t *size)
{
    char path[1024], *bytes = NULL;
    struct compile_key sum, kept;
    int file = path_of(key, path, sizeof path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (file < 0)
        return NULL;
    bytes = read_whole(file, size);
    (void)close(file);
    if (bytes && *size > sizeof kept) {
        *size -= sizeof kept;
        memcpy(&kept, bytes + *size, sizeof kept);
        sum = checksum(bytes, *size);
        if (sum.high == kept.high && sum.low == kept.low) {
            (void)utimensat(AT_FDCWD, path, NULL, 0); /* it is in use */
            return bytes;
        }
    }
    (void)unlink(path);
    free(bytes);
    return NULL;
}

void compile_cache_put(const struct compile_key *key, const char *bytes, size_t size)
{
    char path[1024], beside[1056];
    const struct compile_key sum = checksum(bytes, size);
    bool written;
    int file;

    if (!path_of(key, path, sizeof path))
        return;
    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    file = mkostemp(beside, O_CLOEXEC);
    if (file < 0)
        return;
    written = write(file, bytes, size) == (ssize_t)size &&
              write(file, &sum, sizeof sum) == (ssize_t)sizeof sum;
    if (close(file) != 0 || !written || rename(beside, path) != 0)
        (void)unlink(beside);
}
