/* The OCCA C API on the default device, without a device of its own: one allocation of 400 bytes by the function that
   argv[1] names, before any other call of OCCA. */
#include <stdio.h>
#include <string.h>

#include <occa.h>

int main(int argc, char **argv) {
  const char *begin = argc > 1 ? argv[1] : "";
  occaMemory memory;
  if (!strcmp(begin, "occaMalloc")) memory = occaMalloc(400, NULL, occaCreateProperties());
  else if (!strcmp(begin, "occaTypedUMalloc")) return !occaTypedUMalloc(100, occaDtypeFloat, NULL, occaCreateProperties());
  else return 2;
  return !occaMemoryIsInitialized(memory);
}
