/*
 * Loaded before the C library (LD_PRELOAD), this counts every call that changes a file below one folder, or
 * makes it durable, and kills the process with SIGKILL at the n-th of them: before the call, or in its middle
 * (half of a write is done; any other call is done whole). With a log it writes down every call instead, so
 * that what a power cut would have left on the disk can be put together afterwards.
 *
 * The index of SQLite's log ("-shm") is memory shared between processes and never synced: it is left out.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[PATH_MAX];
static size_t folder_length;
static long left = -1, seen;
static int in_the_middle, record = -1, strangers = -1;

/* From now on: die at the n-th call (n < 0: never), note all calls in `log`, files elsewhere in `outside`. */
void crash_arm(const char *below, long n, int middle, int log, int outside) {
    folder_length = strlen(below);
    memcpy(folder, below, folder_length + 1);
    left = n, seen = 0, in_the_middle = middle, record = log, strangers = outside;
}

long crash_seen(void) { return seen; }

static int ends_with(const char *path, const char *end) {
    size_t all = strlen(path), part = strlen(end);
    return all >= part && strcmp(path + all - part, end) == 0;
}

static int watched(const char *path) {
    return folder_length && strncmp(path, folder, folder_length) == 0
        && (path[folder_length] == '/' || path[folder_length] == 0) && !ends_with(path, "-shm");
}

static int watched_descriptor(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = folder_length ? readlink(link, path, PATH_MAX - 1) : -1;
    if (length < 0) return 0;
    path[length] = 0;
    return watched(path);
}

static void put(const void *bytes, size_t length) {
    const char *at = bytes;
    while (length) {
        long done = syscall(SYS_write, record, at, length);
        if (done <= 0) return;
        at += done, length -= (size_t)done;
    }
}

static void note(char kind, const char *path, const char *other, int64_t place, const void *data, size_t length) {
    if (record < 0) return;
    uint32_t sizes[3] = {(uint32_t)strlen(path), (uint32_t)strlen(other), (uint32_t)length};
    put(&kind, 1), put(sizes, sizeof sizes), put(&place, sizeof place);
    put(path, sizes[0]), put(other, sizes[1]), put(data, length);
}

/* Something said by the process under test, put between the calls in the log. */
void crash_say(const void *data, size_t length) { note('s', "", "", 0, data, length); }

static void die(void) { syscall(SYS_kill, syscall(SYS_getpid), SIGKILL); }

/* Returns whether this call is to be cut in its middle. */
static int counted(void) {
    seen++;
    if (left < 0 || left-- > 0) return 0;
    if (!in_the_middle) die();
    return 1;
}

#define REAL(name, type, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

ssize_t write(int descriptor, const void *data, size_t length) {
    REAL(write, ssize_t, int, const void *, size_t);
    char path[PATH_MAX];
    if (!watched_descriptor(descriptor, path)) return real(descriptor, data, length);
    if (counted()) real(descriptor, data, length / 2), die();
    note('w', path, "", lseek(descriptor, 0, SEEK_CUR), data, length);
    return real(descriptor, data, length);
}

#define PWRITE(name) \
    ssize_t name(int descriptor, const void *data, size_t length, off64_t place) { \
        REAL(name, ssize_t, int, const void *, size_t, off64_t); \
        char path[PATH_MAX]; \
        if (!watched_descriptor(descriptor, path)) return real(descriptor, data, length, place); \
        if (counted()) real(descriptor, data, length / 2, place), die(); \
        note('w', path, "", place, data, length); \
        return real(descriptor, data, length, place); \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define SYNC(name) \
    int name(int descriptor) { \
        REAL(name, int, int); \
        char path[PATH_MAX]; \
        if (!watched_descriptor(descriptor, path)) return real(descriptor); \
        if (counted()) real(descriptor), die(); \
        int result = real(descriptor); \
        note('f', path, "", 0, "", 0); \
        return result; \
    }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name) \
    int name(int descriptor, off64_t length) { \
        REAL(name, int, int, off64_t); \
        char path[PATH_MAX]; \
        if (!watched_descriptor(descriptor, path)) return real(descriptor, length); \
        if (counted()) real(descriptor, length), die(); \
        note('t', path, "", length, "", 0); \
        return real(descriptor, length); \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

int fchmod(int descriptor, mode_t mode) {
    REAL(fchmod, int, int, mode_t);
    char path[PATH_MAX];
    if (watched_descriptor(descriptor, path) && counted()) real(descriptor, mode), die();
    return real(descriptor, mode);
}

int chmod(const char *path, mode_t mode) {
    REAL(chmod, int, const char *, mode_t);
    if (watched(path) && counted()) real(path, mode), die();
    return real(path, mode);
}

int unlink(const char *path) {
    REAL(unlink, int, const char *);
    if (!watched(path)) return real(path);
    if (counted()) real(path), die();
    int result = real(path);
    if (!result) note('u', path, "", 0, "", 0);
    return result;
}

int rename(const char *path, const char *other) {
    REAL(rename, int, const char *, const char *);
    if (!watched(path)) return real(path, other);
    if (counted()) real(path, other), die();
    int result = real(path, other);
    if (!result) note('r', path, other, 0, "", 0);
    return result;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name, int, const char *, int, ...); \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0; \
        va_end(arguments); \
        if (strangers >= 0 && flags & (O_WRONLY | O_RDWR | O_CREAT) && !ends_with(path, "-shm") \
            && !watched(path)) \
            syscall(SYS_write, strangers, path, strlen(path)), syscall(SYS_write, strangers, "\n", 1); \
        struct stat found; \
        int makes = flags & O_CREAT && watched(path) && stat(path, &found) != 0; \
        if (!makes) return real(path, flags, mode); \
        if (counted()) real(path, flags, mode), die(); \
        int result = real(path, flags, mode); \
        if (result >= 0) note('c', path, "", 0, "", 0); \
        return result; \
    }
OPEN(open)
OPEN(open64)
