/*
 * whole_file.c - writes beside the file that is replaced, flushes, renames
 *
 * On Linux the file has no name until it is whole (O_TMPFILE): nothing is left where a process ends
 * in the middle, however it ends.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TEMPORARY_BYTES = 48 /* of a temporary file's name without its folder */
};

static gram_status cannot(gram_context *g, const char *what, const char *path, int error)
{
    return gram_fail(g, error == ENOMEM ? GRAM_OUT_OF_MEMORY : GRAM_IO, "cannot %s %s: %s", what,
                     path, strerror(error));
}

/* Whether path, which is there where exists says so, may be written: 0, or an error.  It is opened,
 * and nothing is made or cut, so that Linux has a say in links that others have planted in a
 * folder such as /tmp (fs.protected_symlinks), as it has with every program that writes there. */
static int try_to_open(const char *path, bool exists)
{
    int descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat link;

    if (descriptor >= 0)
        (void)close(descriptor);
    else if (exists || errno != ENOENT)
        return errno;
    else if (lstat(path, &link) == 0)
        return ENOENT; /* a link to nothing: it is not replaced */
    return 0;
}

/* Gives the file a name that is free: makes it, or links the one that is written.  0 or an error.
 */
static int take_name(struct gram_whole_file *t)
{
    char proc[32];

    (void)snprintf(proc, sizeof proc, "/proc/self/fd/%d", t->descriptor);
    for (int attempt = 0; attempt < 1000 && !t->named; attempt++) {
        (void)snprintf(t->temporary + t->folder, TEMPORARY_BYTES, ".gram-%ld-%d.tmp",
                       (long)getpid(), attempt);
        if (t->descriptor >= 0)
            t->named = linkat(AT_FDCWD, proc, AT_FDCWD, t->temporary, AT_SYMLINK_FOLLOW) == 0;
        else {
            t->descriptor = open(t->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, t->mode);
            t->named = t->descriptor >= 0;
        }
        if (!t->named && errno != EEXIST)
            return errno;
    }
    return t->named ? 0 : EEXIST;
}

/* A file without a name is gone with the process, whatever ends it; where the system has none, one
 * with a name.  0 or an error. */
static int make_temporary(struct gram_whole_file *t)
{
#ifdef O_TMPFILE
    char proc[32];

    t->temporary[t->folder] = '\0';
    t->descriptor = open(t->folder ? t->temporary : ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, t->mode);
    (void)snprintf(proc, sizeof proc, "/proc/self/fd/%d", t->descriptor);
    if (t->descriptor >= 0 && access(proc, F_OK) == 0)
        return 0;
    if (t->descriptor >= 0)
        (void)close(t->descriptor);
    t->descriptor = -1;
#endif
    return take_name(t);
}

/* Where path leads, and room for a name beside it: 0 or an error. */
static int find_paths(const char *path, bool exists, struct gram_whole_file *t)
{
    int error = try_to_open(path, exists);
    const char *slash;

    if (error)
        return error;
    t->path = exists ? realpath(path, NULL) : strdup(path); /* through links */
    if (!t->path)
        return errno;
    slash = strrchr(t->path, '/');
    t->folder = slash ? (size_t)(slash - t->path) + 1 : 0;
    t->temporary = malloc(t->folder + TEMPORARY_BYTES);
    if (!t->temporary)
        return ENOMEM;
    memcpy(t->temporary, t->path, t->folder);
    return 0;
}

static void forget(struct gram_whole_file *t)
{
    free(t->path);
    free(t->temporary);
    *t = (struct gram_whole_file){.descriptor = -1};
}

/* What replaces a file is private until it has that file's mode. */
gram_status gram_whole_file_open(gram_context *g, const char *path, struct gram_whole_file *f)
{
    struct stat about;
    bool exists = stat(path, &about) == 0;
    const char *what = "write";
    int error;

    *f = (struct gram_whole_file){.descriptor = -1};
    if (exists && !S_ISREG(about.st_mode))
        return gram_fail(g, GRAM_IO, "cannot write %s: it is not a regular file", path);
    error = find_paths(path, exists, f);
    f->mode = exists ? S_IRUSR | S_IWUSR : 0666;
    if (!error) {
        what = "create";
        error = make_temporary(f);
    }
    if (error) {
        forget(f);
        return cannot(g, what, path, error);
    }
    if (exists)
        (void)fchmod(f->descriptor, about.st_mode & 07777); /* as far as the file system can */
    return GRAM_OK;
}

/* Makes the rename last; a file system that cannot is not an error: the file is whole. */
static void flush_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int descriptor = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (descriptor >= 0) {
        (void)fsync(descriptor);
        (void)close(descriptor);
    }
    free(folder);
}

gram_status gram_whole_file_close(gram_context *g, const char *path, struct gram_whole_file *f,
                                  int error)
{
    if (!error && fsync(f->descriptor) != 0)
        error = errno;
    if (!error && !f->named)
        error = take_name(f);
    if (close(f->descriptor) != 0 && !error)
        error = errno;
    if (!error && rename(f->temporary, f->path) != 0)
        error = errno;
    if (error && f->named)
        (void)unlink(f->temporary);
    if (!error)
        flush_folder(f->path);
    forget(f);
    return error ? cannot(g, "write", path, error) : GRAM_OK;
}
