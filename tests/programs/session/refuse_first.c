/* Preloaded into LTTng's daemon: it loses the first connection of the first process that registers, as it may on a loaded
 * machine. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int accept(int listener, struct sockaddr *peer, socklen_t *length) {
  static int (*real)(int, struct sockaddr *, socklen_t *);
  static int refused;
  if (!real) real = (int (*)(int, struct sockaddr *, socklen_t *))dlsym(RTLD_NEXT, "accept");
  const int got = real(listener, peer, length);
  struct sockaddr_un own = {0};
  socklen_t size = sizeof own;
  if (got >= 0 && !refused && getsockname(listener, (struct sockaddr *)&own, &size) == 0 && strstr(own.sun_path, "lttng-ust-sock"))
    refused = shutdown(got, SHUT_RDWR) == 0;
  return got;
}
