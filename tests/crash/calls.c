/* Loaded before the C library: records what a process does to the files below a path.
 *
 * CALLS_BELOW     files whose path starts with this are watched
 * CALLS_LOG       the log, one for all processes; absent: nothing is recorded
 * CALLS_STOP      number of a call (from 0, over all processes) before which the process stops;
 *                 of a write, the first half is done
 *
 * Each call is made under a lock on the log, so that the order in the log is that of the calls.
 * A record is one line of text, "pid kind inode offset size path [path]", and `size` bytes of data.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#undef open
#undef open64
#undef openat
#undef openat64
#undef creat
#undef pwrite
#undef pwrite64

static const char *below;
static int logging = -1;
static long stop_at = -1;
static __thread int inside;
static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void start(void) {
    below = getenv("CALLS_BELOW");
    const char *name = getenv("CALLS_LOG"), *stop = getenv("CALLS_STOP");
    if (stop) stop_at = atol(stop);
    if (below && name) {
        int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
        logging = real(name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    }
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name)

static int watched(const char *path) {
    return logging >= 0 && !inside && path && strncmp(path, below, strlen(below)) == 0;
}

/* The path of an open file, if it is watched; the name it had when it was opened, or has now. */
static int watched_file(int fd, char *path, size_t size) {
    if (logging < 0 || inside) return 0;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return watched(path);
}

/* The number of calls so far is kept in the first 16 bytes of a file beside the log. */
static long count_call(void) {
    static int counter = -1;
    if (counter < 0) {
        char name[4096];
        snprintf(name, sizeof name, "%s.count", getenv("CALLS_LOG"));
        int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
        counter = real(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    }
    long count = 0;
    if (pread(counter, &count, sizeof count, 0) < 0) return -1;
    long next = count + 1;
    ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
    if (real(counter, &next, sizeof next, 0) < 0) return -1;
    return count;
}

static void stop(void) {
    char name[4096], text[32];
    snprintf(name, sizeof name, "%s.stopped", getenv("CALLS_LOG"));
    int (*opens)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    ssize_t (*writes)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    int fd = opens(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (writes(fd, text, length) == length) raise(SIGSTOP);
}

/* Takes the lock; whether the process is to stop before this call. */
static int begin(void) {
    inside = 1;
    pthread_mutex_lock(&threads); /* the lock on the log is one for all threads of a process */
    while (flock(logging, LOCK_EX) && errno == EINTR) {}
    return count_call() == stop_at;
}

static void record(const char *kind, long inode, long offset, long size, const char *path,
                   const char *other, const void *data) {
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    char text[9000];
    int length = snprintf(text, sizeof text, "%d %s %ld %ld %ld %s%s%s\n", (int)getpid(), kind,
                          inode, offset, size, path, other ? "\t" : "", other ? other : "");
    if (real(logging, text, length) != length) abort();
    if (size && data && real(logging, data, size) != size) abort();
}

static void end(void) {
    int error = errno;
    flock(logging, LOCK_UN);
    pthread_mutex_unlock(&threads);
    inside = 0;
    errno = error;
}

static long inode_of(int fd) {
    struct stat about;
    return fstat(fd, &about) ? -1 : (long)about.st_ino;
}

static ssize_t recorded_write(int fd, const void *data, size_t size, off_t offset, const char *path) {
    ssize_t (*real)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
    if (begin()) {
        real(fd, data, size / 2, offset);
        stop();
    }
    ssize_t done = real(fd, data, size, offset);
    if (done > 0) record("write", inode_of(fd), offset, done, path, NULL, data);
    end();
    return done;
}

#define PWRITE(name)                                                                      \
    ssize_t name(int fd, const void *data, size_t size, off_t offset) {                   \
        char path[4096];                                                                  \
        REAL(name);                                                                       \
        if (!watched_file(fd, path, sizeof path)) return real(fd, data, size, offset);    \
        return recorded_write(fd, data, size, offset, path);                              \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t write(int fd, const void *data, size_t size) {
    char path[4096];
    REAL(write);
    if (!watched_file(fd, path, sizeof path)) return real(fd, data, size);
    off_t offset = fcntl(fd, F_GETFL) & O_APPEND ? lseek(fd, 0, SEEK_END) : lseek(fd, 0, SEEK_CUR);
    ssize_t done = recorded_write(fd, data, size, offset, path);
    if (done > 0) lseek(fd, offset + done, SEEK_SET);
    return done;
}

static ssize_t write_all(int fd, const struct iovec *parts, int count, off_t offset,
                         const char *path) {
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t done = recorded_write(fd, parts[i].iov_base, parts[i].iov_len, offset + total, path);
        if (done < 0) return total ? total : done;
        total += done;
        if ((size_t)done < parts[i].iov_len) break;
    }
    return total;
}

#define PWRITEV(name)                                                                     \
    ssize_t name(int fd, const struct iovec *parts, int count, off_t offset) {            \
        char path[4096];                                                                  \
        REAL(name);                                                                       \
        if (!watched_file(fd, path, sizeof path)) return real(fd, parts, count, offset);  \
        return write_all(fd, parts, count, offset, path);                                 \
    }
PWRITEV(pwritev)
PWRITEV(pwritev64)

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char path[4096];
    REAL(writev);
    if (!watched_file(fd, path, sizeof path)) return real(fd, parts, count);
    off_t offset = lseek(fd, 0, SEEK_CUR);
    ssize_t done = write_all(fd, parts, count, offset, path);
    if (done > 0) lseek(fd, offset + done, SEEK_SET);
    return done;
}

#define TRUNCATE(name)                                                                    \
    int name(int fd, off_t size) {                                                        \
        char path[4096];                                                                  \
        REAL(name);                                                                       \
        if (!watched_file(fd, path, sizeof path)) return real(fd, size);                  \
        if (begin()) stop();                                                              \
        int failed = real(fd, size);                                                      \
        if (!failed) record("truncate", inode_of(fd), size, 0, path, NULL, NULL);         \
        end();                                                                            \
        return failed;                                                                    \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define ALLOCATE(name, ...)                                                               \
    int name(__VA_ARGS__, off_t offset, off_t size) {                                     \
        char path[4096];                                                                  \
        REAL(name);                                                                       \
        if (!watched_file(fd, path, sizeof path)) return real(ARGUMENTS, offset, size);   \
        if (begin()) stop();                                                              \
        int failed = real(ARGUMENTS, offset, size);                                       \
        if (!failed) record("allocate", inode_of(fd), offset + size, 0, path, NULL, NULL); \
        end();                                                                            \
        return failed;                                                                    \
    }
#define ARGUMENTS fd
ALLOCATE(posix_fallocate, int fd)
ALLOCATE(posix_fallocate64, int fd)
#undef ARGUMENTS
#define ARGUMENTS fd, mode
ALLOCATE(fallocate, int fd, int mode)
ALLOCATE(fallocate64, int fd, int mode)

#define SYNC(name)                                                                        \
    int name(int fd) {                                                                    \
        char path[4096];                                                                  \
        REAL(name);                                                                       \
        if (!watched_file(fd, path, sizeof path)) return real(fd);                        \
        if (begin()) stop();                                                              \
        int failed = real(fd);                                                            \
        if (!failed) record("sync", inode_of(fd), 0, 0, path, NULL, NULL);                \
        end();                                                                            \
        return failed;                                                                    \
    }
SYNC(fsync)
SYNC(fdatasync)

static int recorded_rename(int a, const char *from, int b, const char *to) {
    int (*real)(int, const char *, int, const char *) = dlsym(RTLD_NEXT, "renameat");
    if (!watched(to)) return real(a, from, b, to);
    if (begin()) stop();
    int failed = real(a, from, b, to);
    if (!failed) record("rename", 0, 0, 0, from, to, NULL);
    end();
    return failed;
}
int rename(const char *from, const char *to) {
    return recorded_rename(AT_FDCWD, from, AT_FDCWD, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    return recorded_rename(a, from, b, to);
}

static int recorded_removal(const char *kind, int folder, const char *path, int flags) {
    int (*real)(int, const char *, int) = dlsym(RTLD_NEXT, "unlinkat");
    if (!watched(path)) return real(folder, path, flags);
    if (begin()) stop();
    int failed = real(folder, path, flags);
    if (!failed) record(kind, 0, 0, 0, path, NULL, NULL);
    end();
    return failed;
}
int unlink(const char *path) { return recorded_removal("unlink", AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) {
    return recorded_removal(flags & AT_REMOVEDIR ? "rmdir" : "unlink", folder, path, flags);
}
int rmdir(const char *path) { return recorded_removal("rmdir", AT_FDCWD, path, AT_REMOVEDIR); }

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    if (!watched(path)) return real(path, mode);
    if (begin()) stop();
    int failed = real(path, mode);
    if (!failed) record("mkdir", 0, 0, 0, path, NULL, NULL);
    end();
    return failed;
}

/* Opening counts where it creates or empties a file. */
static int recorded_open(int folder, const char *path, int flags, mode_t mode) {
    int (*real)(int, const char *, int, ...) = dlsym(RTLD_NEXT, "openat");
    if (!watched(path) || !(flags & (O_CREAT | O_TRUNC))) return real(folder, path, flags, mode);
    struct stat about;
    int present = fstatat(folder, path, &about, AT_SYMLINK_NOFOLLOW) == 0;
    if (present && (!(flags & O_TRUNC) || flags & O_EXCL)) return real(folder, path, flags, mode);
    if (begin()) stop();
    int fd = real(folder, path, flags, mode);
    if (fd >= 0) record(present ? "truncate" : "create", inode_of(fd), 0, 0, path, NULL, NULL);
    end();
    return fd;
}

#define OPEN(name)                                                                        \
    int name(const char *path, int flags, ...) {                                          \
        va_list rest;                                                                     \
        va_start(rest, flags);                                                            \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;           \
        va_end(rest);                                                                     \
        return recorded_open(AT_FDCWD, path, flags, mode);                                \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                      \
    int name(int folder, const char *path, int flags, ...) {                              \
        va_list rest;                                                                     \
        va_start(rest, flags);                                                            \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;           \
        va_end(rest);                                                                     \
        return recorded_open(folder, path, flags, mode);                                  \
    }
OPENAT(openat)
OPENAT(openat64)

int creat(const char *path, mode_t mode) {
    return recorded_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
