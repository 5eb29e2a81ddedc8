/* Keeps the tracing daemon of one run, and leaves nothing behind. It holds one end of a socket pair whose other end is
 * in occa_prof: when that end closes, however occa_prof ended, the session is destroyed, the daemon ended and the
 * folders removed. It knows nothing of runs, events or programs. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <lttng/lttng.h>

enum {
  MAX_REMOVE = 8,
  /* seconds */
  READY_TIMEOUT = 5,
  SESSION_TIMEOUT = 2,
  BUFFERS_TIMEOUT = 1,
  ANSWER_TIMEOUT = 10,
  END_TIMEOUT = 5,
  ORPHANS_TIMEOUT = 5
};

#define WARM_SESSION "occatrace-warm"

static int control_fd = -1, lock_fd = -1, log_fd = -1;
static const char *session_name, *lock_path, *removed[MAX_REMOVE];
static int remove_count, remove_wait_files;
static rlim_t fd_limit;
static pid_t daemon_pid, primer_pid, warmer_pid;
static const char *primed; /* the library of the events of every process */
static int session_done; /* occa_prof has destroyed the session itself */
static int all_written;  /* and all that was recorded is in the trace: the daemon may end without a word */
static int signals_fd, daemon_ready;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void say(const char *text) { (void)!write(control_fd, text, strlen(text)); }

static void close_others(void) {
  DIR *dir = opendir("/proc/self/fd");
  if (!dir) return;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    int fd = atoi(entry->d_name);
    if (fd > 2 && fd != control_fd && fd != lock_fd && fd != log_fd && fd != dirfd(dir)) close(fd);
  }
  closedir(dir);
}

/* As many as the daemon may need, where that is allowed; more would slow its start, for it closes every possible one. */
static void limit_descriptors(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_max < fd_limit) {
    const struct rlimit more = {fd_limit, fd_limit};
    if (setrlimit(RLIMIT_NOFILE, &more) == 0) return; /* root */
  }
  limit.rlim_cur = limit.rlim_max < fd_limit ? limit.rlim_max : fd_limit;
  setrlimit(RLIMIT_NOFILE, &limit);
}

static pid_t start_daemon(char **argv) {
  pid_t keeper = getpid(), pid = fork();
  if (pid != 0) return pid;
  /* Should the keeper itself be killed, the daemon still ends gracefully. */
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != keeper) _exit(0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (fd_limit) limit_descriptors();
  if (log_fd >= 0) {
    dup2(log_fd, 1);
    dup2(log_fd, 2);
    close(log_fd);
  }
  if (control_fd >= 0) close(control_fd);
  if (lock_fd >= 0) close(lock_fd);
  execv(argv[0], argv);
  fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
  _exit(127);
}

/* The daemon makes the buffers of a user, 40 MiB and more, when the first process of that user registers, and that process
 * waits for it: 60 ms where memory is slow. A child that registers as the session starts does so while the program is still
 * being loaded. It records nothing, and ends when it is registered. */
static void prime(void) {
  if (!primed || primer_pid || (primer_pid = fork()) != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "occa_primer");
  close(control_fd);
  close(signals_fd);
  setenv("LTTNG_UST_REGISTER_TIMEOUT", "5000", 1);
  dlopen(primed, RTLD_NOW); /* returns when the daemon has taken it in */
  _exit(0);
}

/* The daemon starts its consumer at the first command on a session's user-space part, which takes as long as its own start. A
 * session of its own has that done before there is a run to be recorded; nothing is recorded in it. */
static void warm(void) {
  if (!primed || warmer_pid || (warmer_pid = fork()) != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "occa_warmer");
  close(control_fd);
  close(signals_fd);
  struct lttng_domain domain = {.type = LTTNG_DOMAIN_UST, .buf_type = LTTNG_BUFFER_PER_UID};
  struct lttng_channel *channels = NULL;
  if (lttng_create_session(WARM_SESSION, NULL) < 0) _exit(0);
  struct lttng_handle *handle = lttng_create_handle(WARM_SESSION, &domain);
  if (handle) lttng_list_channels(handle, &channels);
  lttng_destroy_session_no_wait(WARM_SESSION);
  _exit(0);
}

/* Reaps whatever has ended; tells whether the daemon was among it. */
static int reap(void) {
  int daemon_ended = 0;
  for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;)
    if (pid == daemon_pid) {
      daemon_pid = 0;
      daemon_ended = 1;
    } else if (pid == primer_pid) {
      primer_pid = -1;
    } else if (pid == warmer_pid) {
      warmer_pid = -1;
    }
  return daemon_ended;
}

/* Takes one signal; returns its number, or 0 after `timeout` ms. */
static int take_signal(int timeout) {
  struct pollfd fd = {.fd = signals_fd, .events = POLLIN};
  struct signalfd_siginfo info;
  if (poll(&fd, 1, timeout) <= 0 || read(signals_fd, &info, sizeof info) != sizeof info) return 0;
  if (info.ssi_signo == SIGUSR1) daemon_ready = 1;
  return (int)info.ssi_signo;
}

/* Until occa_prof lets go: the end of its socket. SIGTERM is none: who ends a job sends it to all processes, and the program
 * and occa_prof may have much to do until they have ended. */
static void serve(void) {
  struct pollfd fds[] = {{.fd = control_fd, .events = POLLIN}, {.fd = signals_fd, .events = POLLIN}};
  for (;;) {
    if (poll(fds, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (fds[1].revents) {
      const int signal = take_signal(0);
      if (signal == SIGUSR1) { /* the daemon is ready */
        say("R");
        warm();
      }
      if (signal == SIGCHLD && reap()) say("X"); /* it has ended of itself */
    }
    if (fds[0].revents) {
      char word;
      ssize_t got = read(control_fd, &word, 1);
      if (got == 1 && word == 'P') {
        prime();
        continue;
      }
      if (got == 1 && (word == 'D' || word == 'K')) {
        session_done = 1;
        all_written = word == 'K';
        continue;
      }
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      return;
    }
  }
}

/* A daemon that does not answer: ours is killed, which ends the call; without one of ours there is nothing to do here. */
static void no_answer(int signal) {
  (void)signal;
  if (daemon_pid <= 0) _exit(1);
  kill(daemon_pid, SIGKILL);
}

static void end_session(void) {
  if (!session_name || session_done) return;
  alarm(ANSWER_TIMEOUT);
  if (lttng_session_daemon_alive() == 1) {
    lttng_stop_tracing(session_name);
    lttng_destroy_session_no_wait(session_name);
  }
  alarm(0);
}

/* Asked to end while it starts, the daemon may miss it and stay. */
static void wait_until_ready(void) {
  for (double end = now() + READY_TIMEOUT; !daemon_ready && daemon_pid > 0 && now() < end; reap()) take_signal(10);
}

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

static int sessions_left(void) {
  struct lttng_session *sessions = NULL;
  alarm(ANSWER_TIMEOUT);
  int count = lttng_list_sessions(&sessions);
  alarm(0);
  free(sessions);
  return count > 0 ? count : 0;
}

/* A daemon that others may use ends when its last user has gone: every run holds the lock shared. */
static void wait_for_other_users(void) {
  for (;;) {
    flock(lock_fd, LOCK_EX);
    if (sessions_left() == 0) return;
    flock(lock_fd, LOCK_SH); /* somebody's own session, or one that is still being destroyed */
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
}

/* A daemon that is asked to end while it destroys a session may wait for that for ever. */
static void wait_for_session(void) {
  for (double end = now() + SESSION_TIMEOUT; daemon_pid > 0 && sessions_left() > 0 && now() < end; reap()) nap();
}

static int children_left(void) { return waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD; }

static void kill_children(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  FILE *file = fopen(path, "r");
  if (!file) return;
  for (int pid; fscanf(file, "%d", &pid) == 1;) kill(pid, SIGKILL);
  fclose(file);
}

/* A daemon of one run has nothing left to do where all is written. Its own end takes 0.1 s and more, in which it frees what
 * the kernel frees at once. */
static void kill_daemon(void) {
  if (daemon_pid > 0) kill(daemon_pid, SIGKILL);
  for (double end = now() + ORPHANS_TIMEOUT; now() < end; nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL)) {
    reap();
    if (daemon_pid > 0) continue;
    kill_children(); /* its own, and theirs when these have ended */
    if (!children_left()) return;
  }
}

static void end_daemon(void) {
  if (daemon_pid > 0) {
    kill(daemon_pid, SIGTERM);
    for (double end = now() + END_TIMEOUT; daemon_pid > 0 && now() < end; nap()) reap();
    if (daemon_pid > 0) kill(daemon_pid, SIGKILL);
  }
  /* The consumer flushes what it has and leaves after the daemon; as a subreaper we are its parent by now. */
  for (double end = now() + ORPHANS_TIMEOUT; children_left() && now() < end; nap());
  if (children_left()) {
    kill_children();
    for (double end = now() + 1; children_left() && now() < end; nap());
  }
}

static void remove_content(int folder, dev_t device);

static int remove_entry(int folder, const char *name, dev_t device) {
  if (unlinkat(folder, name, 0) == 0) return 1;
  const int below = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (below < 0) return 0;
  struct stat info;
  if (fstat(below, &info) == 0 && info.st_dev == device) remove_content(below, device);
  close(below);
  return unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

/* Removes a folder's content, step by step through descriptors: no link is followed, no other file system entered. */
static void remove_content(int folder, dev_t device) {
  const int copy = dup(folder);
  if (copy < 0) return;
  DIR *dir = fdopendir(copy);
  if (!dir) {
    close(copy);
    return;
  }
  int removed;
  do { /* once more, as some file systems skip entries when others are removed meanwhile */
    removed = 0;
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
      if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
        removed += remove_entry(folder, entry->d_name, device);
  } while (removed);
  closedir(dir);
}

/* A folder of ours, and nobody else's that has taken its place. */
static void remove_folder(const char *path) {
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  struct stat info;
  if (fstat(folder, &info) == 0 && info.st_uid == geteuid()) {
    remove_content(folder, info.st_dev);
    rmdir(path);
  }
  close(folder);
}

/* A thread that was killed in the middle of an event leaves a part of a buffer that the consumer never reads, and so it keeps all
 * of them. The daemon, which has been asked to destroy the session, waits for their folder to go, and answers nobody meanwhile. */
static void let_go_of_buffers(void) {
  for (int i = 0; i < remove_count; i++) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/buffers", removed[i]) >= (int)sizeof path) continue;
    for (double end = now() + BUFFERS_TIMEOUT; access(path, F_OK) == 0 && now() < end; reap()) nap();
    remove_folder(path);
  }
}

static int is_mapped(const char *file) {
  DIR *proc = opendir("/proc");
  if (!proc) return 1;
  int found = 0;
  for (struct dirent *entry; !found && (entry = readdir(proc)) != NULL;) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    char path[300], *line = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "/proc/%s/maps", entry->d_name);
    FILE *maps = fopen(path, "r");
    if (!maps) continue;
    while (!found && getline(&line, &size, maps) > 0) {
      const char *at = strstr(line, file);
      found = at != NULL && (at[strlen(file)] == '\n' || at[strlen(file)] == ' ');
    }
    free(line);
    fclose(maps);
  }
  closedir(proc);
  return found;
}

/* LTTng-UST keeps a small file per user in /dev/shm, on which programs without a daemon wait for one. Ours goes, unless
 * somebody waits there. */
static void remove_unused_wait_files(void) {
  DIR *shm = opendir("/dev/shm");
  if (!shm) return;
  for (struct dirent *entry; (entry = readdir(shm)) != NULL;) {
    if (strncmp(entry->d_name, "lttng-ust-wait-", 15) != 0) continue;
    char path[300];
    struct stat info;
    snprintf(path, sizeof path, "/dev/shm/%s", entry->d_name);
    if (lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == getuid() && !is_mapped(path)) unlink(path);
  }
  closedir(shm);
}

int main(int argc, char **argv) {
  for (int option; (option = getopt(argc, argv, "+c:s:r:l:p:o:n:t:w")) != -1;) switch (option) {
      case 'c': control_fd = atoi(optarg); break;
      case 's': session_name = optarg; break;
      case 'r':
        if (remove_count < MAX_REMOVE) removed[remove_count++] = optarg;
        break;
      case 'l': lock_fd = atoi(optarg); break;
      case 'p': lock_path = optarg; break;
      case 'o': log_fd = atoi(optarg); break;
      case 'n': fd_limit = (rlim_t)strtoul(optarg, NULL, 10); break;
      case 't': primed = optarg; break;
      case 'w': remove_wait_files = 1; break;
      default:
        fprintf(stderr,
                "usage: %s -c control-fd [-s session] [-r folder]... [-l lock-fd -p lock-file] [-o log-fd] [-n fds]\n"
                "       [-t tracepoints] [-w] [daemon [argument]...]\nStarted by occa_prof; of no use by hand.\n",
                argv[0]);
        return 2;
    }
  if (control_fd < 0) return 2;
  if (getsid(0) != getpid()) setsid(); /* the terminal's signals are not for us */
  prctl(PR_SET_NAME, "occa_keeper");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  close_others();
  (void)!chdir("/");
  lttng_set_tracing_group(""); /* a member of `tracing` would be sent to the system's daemon */

  signal(SIGALRM, no_answer);
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGALRM);
  sigprocmask(SIG_SETMASK, &all, NULL);
  sigset_t heard;
  sigemptyset(&heard);
  sigaddset(&heard, SIGCHLD);
  sigaddset(&heard, SIGUSR1);
  signals_fd = signalfd(-1, &heard, SFD_CLOEXEC);

  if (optind < argc) daemon_pid = start_daemon(argv + optind);
  serve();
  close(control_fd);
  if (primer_pid > 0) kill(primer_pid, SIGKILL);
  if (warmer_pid > 0) kill(warmer_pid, SIGKILL);
  if (all_written && lock_fd < 0) {
    kill_daemon();
  } else {
    wait_until_ready();
    end_session();
    let_go_of_buffers();
    if (daemon_pid > 0) {
      if (lock_fd >= 0)
        wait_for_other_users();
      else
        wait_for_session();
    }
    end_daemon();
  }
  for (int i = 0; i < remove_count; i++) remove_folder(removed[i]);
  if (remove_wait_files) remove_unused_wait_files();
  /* The lock file goes with its last holder, who holds it exclusively: see Lock in session.py. */
  if (lock_fd >= 0 && lock_path && flock(lock_fd, LOCK_EX | LOCK_NB) == 0) unlink(lock_path);
  return 0;
}
