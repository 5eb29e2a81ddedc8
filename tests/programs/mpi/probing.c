/* A program without MPI that asks whether there is one, as libraries do that work with and without. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

extern int MPI_Initialized(int *) __attribute__((weak));

int main(void) {
  const char *names[] = {"MPI_Init", "PMPI_Init", "MPI_Initialized", "MPI_Send", "MPI_Send_c", "MPI_Session_init"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (dlsym(RTLD_DEFAULT, names[i]) != NULL) printf("%s is there\n", names[i]);
  puts("asked");
  return 0;
}
