/* Preloaded into a program: at its end, what occatrace has counted in it, as lines in the file LIVE_FILE. */
#include <stdio.h>
#include <stdlib.h>

#include <occatrace.h>

__attribute__((destructor)) static void at_end(void) {
  struct occatrace_live now;
  struct occatrace_live_kernel kernels[64];
  struct occatrace_live_memory memory[64];
  const char *name = getenv("LIVE_FILE");
  if (name == NULL || !occatrace_live_with(&now, kernels, 64, memory, 64) || now.kinds == 0) return;
  FILE *file = fopen(name, "a");
  if (file == NULL) return;
  for (uint32_t i = 0; i < now.kinds; i++)
    fprintf(file, "[\"work\", \"%s\", %llu, %llu, %llu]\n", now.work[i].kind, (unsigned long long)now.work[i].count,
            (unsigned long long)now.work[i].ns, (unsigned long long)now.work[i].bytes);
  for (uint32_t i = 0; i < now.kernels && i < 64; i++)
    fprintf(file, "[\"kernel\", \"%s\", %llu, %llu]\n", kernels[i].name, (unsigned long long)kernels[i].count, (unsigned long long)kernels[i].ns);
  for (uint32_t i = 0; i < now.memories && i < 64; i++)
    fprintf(file, "[\"memory\", \"%s\", \"%s\", %llu, %llu]\n", memory[i].api, memory[i].kind, (unsigned long long)memory[i].in_use,
            (unsigned long long)memory[i].count);
  fclose(file);
}
