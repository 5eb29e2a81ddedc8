/* deny NUMBER[,NUMBER…] ERRNO COMMAND…: system calls of these numbers fail with ERRNO in COMMAND and all that it starts, as in a
 * container. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv) {
  struct sock_filter filter[64];
  unsigned short n = 0;
  if (argc < 4) return 2;
  const unsigned refuse = SECCOMP_RET_ERRNO | (atoi(argv[2]) & SECCOMP_RET_DATA);
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (char *number = strtok(argv[1], ","); number && n < 60; number = strtok(NULL, ",")) {
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(number), 0, 1);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, refuse);
  }
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {n, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
    perror("deny");
    return 3;
  }
  execvp(argv[3], argv + 3);
  perror("deny");
  return 127;
}
