/* Registration with occa_prof. A part of core.c, whose state it uses. */

int occatrace_trusts_user(unsigned uid) { return uid == 0 || uid == geteuid(); }

/* The path may be another user's by now: a program may outlive its run, whose folder lay in /tmp. */
int occatrace_is_of_our_run(int fd) {
  struct ucred other;
  socklen_t size = sizeof other;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && occatrace_trusts_user(other.uid);
}

/* What a shell or the process itself lowered since occa_prof looked (occatrace/run/limits.py): without room the program would
 * fail where it does not otherwise, or wait for LTTng. Returns 0 where there is enough, else the request that says so. */
static int lacks_room(char *text, size_t size) {
  struct rlimit limit;
  const char *what = NULL;
  rlim_t need = OCCATRACE_LEAST_SPACE;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < need) what = "space";
  if (what == NULL) {
    need = OCCATRACE_DESCRIPTORS_PER_CPU * (rlim_t)sysconf(_SC_NPROCESSORS_CONF) + OCCATRACE_OTHER_DESCRIPTORS +
           OCCATRACE_LEFT_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < need) what = "files";
  }
  if (what == NULL) return 0;
  return snprintf(text, size, "LIMIT %ld %ld %s %llu %llu", (long)getpid(), (long)getuid(), what,
                  (unsigned long long)limit.rlim_cur, (unsigned long long)need);
}

int occatrace_register_process(void) {
  const char *path = getenv("OCCATRACE_SOCKET");
  char text[128];
  int n = lacks_room(text, sizeof text);
  if (path == NULL || *path == '\0') { /* the user's own LTTng session */
    if (n != 0)
      occatrace_say("process %ld runs untraced: ulimit -v or -n leaves less than tracing takes (%llu MiB, or files)",
                    (long)getpid(), (unsigned long long)(OCCATRACE_LEAST_SPACE >> 20));
    return n == 0;
  }
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    occatrace_say("OCCATRACE_SOCKET is too long; the program runs untraced");
    return 0;
  }
  strcpy(address.sun_path, path);
  int saved = errno, result = 0, answered = 0;
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
    if (!occatrace_is_of_our_run(fd)) {
      occatrace_say("another user listens at OCCATRACE_SOCKET; process %ld runs untraced", (long)getpid());
      close(fd);
      errno = saved;
      return 0;
    }
    if (n == 0) n = snprintf(text, sizeof text, "REG %ld %ld", (long)getpid(), (long)getuid());
    const uint64_t until = occatrace_now() + UINT64_C(30000000000);
    if (send(fd, text, (size_t)n, MSG_NOSIGNAL) == n) {
      for (;;) {
        const uint64_t now = occatrace_now();
        if (now >= until) break;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const int ready = poll(&p, 1, (int)((until - now) / 1000000) + 1);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) break;
        const ssize_t got = recv(fd, text, sizeof text - 1, 0);
        answered = got >= 2; /* to an answer other than OK occa_prof itself says why, once */
        result = answered && strncmp(text, "OK", 2) == 0;
        break;
      }
    }
    if (!answered) occatrace_say("occa_prof did not answer process %ld; it runs untraced", (long)getpid());
  } else if (errno != ECONNREFUSED && errno != ENOENT) {
    /* A process that outlives its run finds no socket any more; that is not worth a line. */
    occatrace_say("cannot reach occa_prof (%s); process %ld runs untraced", strerror(errno), (long)getpid());
  }
  if (fd >= 0) close(fd);
  errno = saved;
  return result;
}
