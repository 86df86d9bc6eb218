/*
 * files.c - checks that no file is both an input and an output, and no two outputs are the same
 * file
 *
 * A file is identified by its device and inode.  A file that does not exist yet is identified by
 * those of its folder and by its name there, after links were followed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "files.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST_LINKS = 40 /* as many as Linux follows */
};

/* Splits path after its last slash; the folder of a name without one is ".". */
static const char *split(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int size = slash ? (int)(slash - path) + 1 : 1;

    snprintf(folder, PATH_MAX, "%.*s", size, slash ? path : ".");
    return slash ? slash + 1 : path;
}

/* Replaces path by the target of the dangling link that it names; 0 if it is not a link. */
static int follow(char path[PATH_MAX])
{
    char target[PATH_MAX], folder[PATH_MAX], joined[2 * PATH_MAX];
    ssize_t size = readlink(path, target, sizeof target - 1);

    if (size <= 0)
        return 0;
    target[size] = '\0';
    split(path, folder);
    snprintf(joined, sizeof joined, "%s/%s", target[0] == '/' ? "" : folder, target);
    if (strlen(joined) >= PATH_MAX)
        return 0;
    memcpy(path, joined, strlen(joined) + 1);
    return 1;
}

/* Whether the path leads to a regular file, or to a place where one can be made. */
static int identify(const char *path, int standard, struct file_identity *out)
{
    char at[PATH_MAX], folder[PATH_MAX];
    struct stat about;
    const char *name;
    int found = strcmp(path, "-") == 0 ? fstat(standard, &about) : stat(path, &about);

    if (found == 0) {
        *out = (struct file_identity){about.st_dev, about.st_ino, ""};
        return S_ISREG(about.st_mode);
    }
    if (errno != ENOENT || strlen(path) >= sizeof at)
        return 0;
    memcpy(at, path, strlen(path) + 1);
    for (int links = 0; links < MOST_LINKS && follow(at); links++)
        ;
    name = split(at, folder);
    if (stat(folder, &about) != 0 || !*name || strlen(name) >= FILES_NAME)
        return 0;
    *out = (struct file_identity){about.st_dev, about.st_ino, ""};
    memcpy(out->name, name, strlen(name) + 1);
    return 1;
}

static int same(const struct file_identity *a, const struct file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && strcmp(a->name, b->name) == 0;
}

static void add(struct files *files, const char *option, const struct file_identity *is)
{
    if (files->count == FILES_MOST) /* no command has so many */
        return;
    files->at[files->count].is = *is;
    files->at[files->count].option = option;
    files->count++;
}

void files_read(struct files *files, const char *path)
{
    struct file_identity is;

    if (identify(path, STDIN_FILENO, &is))
        add(files, NULL, &is);
}

enum exit_status files_write(struct files *files, const char *option, const char *path,
                             struct failure *why)
{
    struct file_identity is;

    if (!identify(path, STDOUT_FILENO, &is))
        return CLI_OK;
    for (int i = 0; i < files->count; i++) {
        const char *other = files->at[i].option;
        if (!same(&files->at[i].is, &is))
            continue;
        if (!other)
            return fail(why, CLI_USAGE, "--%s is %s, which is an input", option,
                        strcmp(path, "-") == 0 ? "standard output" : path);
        return fail(why, CLI_USAGE, "--%s is %s, which --%s also writes", option,
                    strcmp(path, "-") == 0 ? "standard output" : path, other);
    }
    add(files, option, &is);
    return CLI_OK;
}
