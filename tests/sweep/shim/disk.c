// Logs every write, sync and change of names below a directory, in order and with contents, so that the disk as a loss of power
// would leave it can be put together at any moment. To be preloaded into a program that reaches its files by libc.
//
// DISK_DIR: the directory. DISK_LOG: the log. DISK_FORGETS_SYNCS: syncs do nothing, and are not logged.
//
// A record: kind, length of the first path, of the second, offset, length of the data (all 64 bit, native), paths, data.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { CREATED = 1, WRITTEN, TRUNCATED, SYNCED, UNLINKED, RENAMED, LINKED, DIRECTORY };

#define MOST 4096
static char *paths[MOST];
static int appends[MOST];
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static const char *dir;
static int forgets;

#define REAL(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
  dir = getenv("DISK_DIR");
  forgets = getenv("DISK_FORGETS_SYNCS") != NULL;
  const char *log = getenv("DISK_LOG");
  if (!dir || !log) return;
  static int (*real_open)(const char *, int, ...);
  real_open = dlsym(RTLD_NEXT, "open");
  log_fd = real_open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int below(const char *path) {
  size_t n = dir ? strlen(dir) : 0;
  return log_fd >= 0 && n && !strncmp(path, dir, n) && (path[n] == '/' || !path[n]);
}

static void put(const void *bytes, size_t length) {
  static ssize_t (*real_write)(int, const void *, size_t);
  if (!real_write) real_write = dlsym(RTLD_NEXT, "write");
  const char *at = bytes;
  while (length) {
    ssize_t n = real_write(log_fd, at, length);
    if (n <= 0) { if (n < 0 && errno == EINTR) continue; abort(); }
    at += n;
    length -= (size_t)n;
  }
}

static void note(enum kind kind, const char *a, const char *b, uint64_t offset, const void *data, uint64_t length) {
  uint64_t head[5] = {kind, a ? strlen(a) : 0, b ? strlen(b) : 0, offset, length};
  put(head, sizeof head);
  if (a) put(a, head[1]);
  if (b) put(b, head[2]);
  // Of a truncation only the length is known.
  if (data) put(data, length);
}

static const char *whole(const char *path, char *buffer) {
  if (path[0] == '/') return path;
  if (!getcwd(buffer, PATH_MAX - strlen(path) - 2)) return path;
  strcat(buffer, "/");
  return strcat(buffer, path);
}

static int opened(int fd, const char *path, int flags, int existed) {
  char buffer[PATH_MAX];
  path = whole(path, buffer);
  if (fd < 0 || fd >= MOST || !below(path)) return fd;
  int saved = errno;
  free(paths[fd]);
  paths[fd] = strdup(path);
  appends[fd] = (flags & O_APPEND) != 0;
  if ((flags & O_CREAT) && !existed) note(CREATED, path, 0, 0, 0, 0);
  else if (flags & O_TRUNC) note(TRUNCATED, path, 0, 0, 0, 0);
  errno = saved;
  return fd;
}

static int there(const char *path) { struct stat s; return !stat(path, &s); }

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    REAL(name); \
    va_list rest; \
    va_start(rest, flags); \
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0; \
    va_end(rest); \
    pthread_mutex_lock(&one); \
    int existed = there(path); \
    int fd = opened(real(path, flags, mode), path, flags, existed); \
    pthread_mutex_unlock(&one); \
    return fd; \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
  int name(int at, const char *path, int flags, ...) { \
    REAL(name); \
    va_list rest; \
    va_start(rest, flags); \
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0; \
    va_end(rest); \
    pthread_mutex_lock(&one); \
    int existed = there(path); \
    int fd = opened(real(at, path, flags, mode), path, flags, existed); \
    pthread_mutex_unlock(&one); \
    return fd; \
  }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
  REAL(close);
  if (fd >= 0 && fd < MOST && paths[fd]) {
    pthread_mutex_lock(&one);
    free(paths[fd]);
    paths[fd] = 0;
    pthread_mutex_unlock(&one);
  }
  return real(fd);
}

static int watched(int fd) { return fd >= 0 && fd < MOST && paths[fd]; }

ssize_t write(int fd, const void *data, size_t length) {
  REAL(write);
  if (!watched(fd)) return real(fd, data, length);
  pthread_mutex_lock(&one);
  off_t at = lseek(fd, 0, appends[fd] ? SEEK_END : SEEK_CUR);
  ssize_t n = real(fd, data, length);
  int saved = errno;
  if (n > 0) note(WRITTEN, paths[fd], 0, (uint64_t)at, data, (uint64_t)n);
  pthread_mutex_unlock(&one);
  errno = saved;
  return n;
}

// Nothing here writes by vectors; if that changes, the log would be wrong without a word.
ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL(writev);
  if (watched(fd)) abort();
  return real(fd, parts, count);
}

#define PWRITE(name, offset_type) \
  ssize_t name(int fd, const void *data, size_t length, offset_type at) { \
    REAL(name); \
    if (!watched(fd)) return real(fd, data, length, at); \
    pthread_mutex_lock(&one); \
    ssize_t n = real(fd, data, length, at); \
    int saved = errno; \
    if (n > 0) note(WRITTEN, paths[fd], 0, (uint64_t)at, data, (uint64_t)n); \
    pthread_mutex_unlock(&one); \
    errno = saved; \
    return n; \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define TRUNCATE(name, offset_type) \
  int name(int fd, offset_type length) { \
    REAL(name); \
    if (!watched(fd)) return real(fd, length); \
    pthread_mutex_lock(&one); \
    int failed = real(fd, length); \
    int saved = errno; \
    if (!failed) note(TRUNCATED, paths[fd], 0, (uint64_t)length, 0, 0); \
    pthread_mutex_unlock(&one); \
    errno = saved; \
    return failed; \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

// The sync is over when it is logged, and nothing comes between: all that was logged before it is on the disk.
#define SYNC(name) \
  int name(int fd) { \
    REAL(name); \
    if (!watched(fd)) return real(fd); \
    if (forgets) return 0; \
    pthread_mutex_lock(&one); \
    int failed = real(fd); \
    int saved = errno; \
    if (!failed) note(SYNCED, paths[fd], 0, 0, 0, 0); \
    pthread_mutex_unlock(&one); \
    errno = saved; \
    return failed; \
  }
SYNC(fsync)
SYNC(fdatasync)

static void named(enum kind kind, const char *a, const char *b) {
  char first[PATH_MAX], second[PATH_MAX];
  a = whole(a, first);
  b = b ? whole(b, second) : b;
  int saved = errno;
  if (below(a) || (b && below(b))) {
    pthread_mutex_lock(&one);
    note(kind, a, b, 0, 0, 0);
    pthread_mutex_unlock(&one);
  }
  errno = saved;
}

int unlink(const char *path) {
  REAL(unlink);
  int failed = real(path);
  if (!failed) named(UNLINKED, path, 0);
  return failed;
}

int unlinkat(int at, const char *path, int flags) {
  REAL(unlinkat);
  int failed = real(at, path, flags);
  if (!failed) named(UNLINKED, path, 0);
  return failed;
}

int rename(const char *from, const char *to) {
  REAL(rename);
  int failed = real(from, to);
  if (!failed) named(RENAMED, from, to);
  return failed;
}

int link(const char *from, const char *to) {
  REAL(link);
  int failed = real(from, to);
  if (!failed) named(LINKED, from, to);
  return failed;
}

int linkat(int a, const char *from, int b, const char *to, int flags) {
  REAL(linkat);
  int failed = real(a, from, b, to, flags);
  if (!failed) named(LINKED, from, to);
  return failed;
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  int failed = real(path, mode);
  if (!failed) named(DIRECTORY, path, 0);
  return failed;
}
