/*
 * fuzz_replay.c - a main for fuzz targets where there is no libFuzzer: runs every file it is given
 *
 *   fuzz_csv tests/corpus/fuzz_csv FILE...
 *
 * A folder stands for the files in it.  A target that survives its inputs passes; what went wrong
 * otherwise is told by the signal, an assertion or a sanitizer.
 *
 * SPDX-License-Identifier: MIT
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Runs one file; false if it cannot be read. */
static int replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1); /* exact, so that a sanitizer sees one byte too many */
    int ok = file && data && fread(data, 1, size, file) == size;

    if (file)
        fclose(file);
    if (ok)
        LLVMFuzzerTestOneInput(data, size);
    else
        fprintf(stderr, "%s: cannot be read\n", path);
    free(data);
    return ok;
}

/* Runs a file or the files of a folder; the number of inputs, or -1. */
static int replay(const char *path)
{
    struct stat status;
    struct dirent *entry;
    int count = 0;
    DIR *folder;

    if (stat(path, &status) != 0) {
        perror(path);
        return -1;
    }
    if (!S_ISDIR(status.st_mode))
        return replay_file(path, (size_t)status.st_size) ? 1 : -1;
    if (!(folder = opendir(path))) {
        perror(path);
        return -1;
    }
    while (count >= 0 && (entry = readdir(folder))) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] == '.' || stat(file, &status) != 0)
            continue;
        count = replay_file(file, (size_t)status.st_size) ? count + 1 : -1;
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;

    for (int i = 1; i < argc; i++) {
        int count = replay(argv[i]);
        if (count < 0)
            return 1;
        total += count;
    }
    printf("%d inputs\n", total);
    return total == 0; /* an empty corpus tests nothing */
}
