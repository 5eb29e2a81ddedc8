/* Preloaded: a file system without a feature. Below the folder REFUSE_BELOW, calls of the kinds in REFUSE fail as NFS, Lustre, FUSE
 * or CIFS let them fail: locks (flock, fcntl), mappings (shared, of files), links, modes (chmod, chown), fallocate, removal (a file
 * that this process has open gets another name, and stays). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int refused(const char *kind) {
  const char *kinds = getenv("REFUSE");
  return kinds && strstr(kinds, kind) != NULL;
}

static int is_below(const char *path) {
  const char *folder = getenv("REFUSE_BELOW");
  return folder && strncmp(path, folder, strlen(folder)) == 0 && path[strlen(folder)] == '/';
}

static int fd_path(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, PATH_MAX - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return 1;
}

static int fd_below(int fd) {
  char path[PATH_MAX];
  return fd >= 0 && fd_path(fd, path) && is_below(path);
}

static int absolute(int folder, const char *path, char *out) {
  if (path[0] == '/') return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
  char base[PATH_MAX];
  if (folder == AT_FDCWD ? !getcwd(base, sizeof base) : !fd_path(folder, base)) return 0;
  return snprintf(out, PATH_MAX, "%s/%s", base, path) < PATH_MAX;
}

static int path_below(int folder, const char *path) {
  char whole[PATH_MAX];
  return absolute(folder, path, whole) && is_below(whole);
}

static int fail(int error) {
  errno = error;
  return -1;
}

int flock(int fd, int operation) { return refused("locks") && fd_below(fd) ? fail(ENOLCK) : (int)syscall(SYS_flock, fd, operation); }

int fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void *argument = va_arg(list, void *);
  va_end(list);
  const int lock = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
  return lock && refused("locks") && fd_below(fd) ? fail(ENOLCK) : (int)syscall(SYS_fcntl, fd, command, argument);
}
int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
  if ((flags & MAP_SHARED) && fd >= 0 && refused("mappings") && fd_below(fd)) return fail(ENODEV), MAP_FAILED;
  return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}
void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset) {
  return mmap(address, length, protection, flags, fd, offset);
}

int link(const char *from, const char *to) { return refused("links") && path_below(AT_FDCWD, to) ? fail(EPERM) : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0); }
int symlink(const char *from, const char *to) { return refused("links") && path_below(AT_FDCWD, to) ? fail(EPERM) : (int)syscall(SYS_symlinkat, from, AT_FDCWD, to); }
int chmod(const char *path, mode_t mode) { return refused("modes") && path_below(AT_FDCWD, path) ? fail(EPERM) : (int)syscall(SYS_fchmodat, AT_FDCWD, path, mode); }
int fchmod(int fd, mode_t mode) { return refused("modes") && fd_below(fd) ? fail(EPERM) : (int)syscall(SYS_fchmod, fd, mode); }
int fchmodat(int folder, const char *path, mode_t mode, int flags) {
  return refused("modes") && path_below(folder, path) ? fail(EPERM) : (int)syscall(SYS_fchmodat, folder, path, mode, flags);
}
int chown(const char *path, uid_t user, gid_t group) {
  return refused("modes") && path_below(AT_FDCWD, path) ? fail(EPERM) : (int)syscall(SYS_fchownat, AT_FDCWD, path, user, group, 0);
}
int fchown(int fd, uid_t user, gid_t group) { return refused("modes") && fd_below(fd) ? fail(EPERM) : (int)syscall(SYS_fchown, fd, user, group); }
int fallocate(int fd, int mode, off_t offset, off_t length) {
  return refused("fallocate") && fd_below(fd) ? fail(EOPNOTSUPP) : (int)syscall(SYS_fallocate, fd, mode, offset, length);
}
int fallocate64(int fd, int mode, off64_t offset, off64_t length) { return fallocate(fd, mode, offset, length); }
int posix_fallocate(int fd, off_t offset, off_t length) {
  if (refused("fallocate") && fd_below(fd)) return EOPNOTSUPP;
  return syscall(SYS_fallocate, fd, 0, offset, length) == 0 ? 0 : errno;
}
int posix_fallocate64(int fd, off64_t offset, off64_t length) { return posix_fallocate(fd, offset, length); }

static int is_open(const char *path) {
  DIR *folder = opendir("/proc/self/fd");
  struct dirent *entry;
  char found[PATH_MAX];
  int open = 0;
  while (folder && !open && (entry = readdir(folder))) open = fd_path(atoi(entry->d_name), found) && strcmp(found, path) == 0;
  if (folder) closedir(folder);
  return open;
}

static int renamed(int folder, const char *path) {
  static unsigned number;
  char whole[PATH_MAX], other[PATH_MAX];
  if (!refused("removal") || !absolute(folder, path, whole) || !is_below(whole) || !is_open(whole)) return 0;
  const char *name = strrchr(whole, '/') + 1;
  if (strncmp(name, ".nfs", 4) == 0) return fail(EBUSY), 1;
  if (snprintf(other, sizeof other, "%.*s.nfs%08x%08x", (int)(name - whole), whole, (unsigned)getpid(), ++number) >= PATH_MAX) return 0;
  return rename(whole, other) == 0;
}
int unlink(const char *path) {
  errno = 0;
  if (renamed(AT_FDCWD, path)) return errno == EBUSY ? -1 : 0;
  return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
int unlinkat(int folder, const char *path, int flags) {
  errno = 0;
  if (!(flags & AT_REMOVEDIR) && renamed(folder, path)) return errno == EBUSY ? -1 : 0;
  return (int)syscall(SYS_unlinkat, folder, path, flags);
}
