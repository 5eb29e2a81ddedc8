/* Programs that open HIP's library, the CUDA runtime, Level Zero's loader or an MPI themselves (ctypes, Triton, TensorFlow, Julia)
 * ask it for functions by dlsym with its handle, past all that is preloaded. Here is a dlsym in front of libc's that gives them
 * ours. Everything that is no function of these, or asked for without a handle, goes on to libc's with the caller's return address
 * where it is. CUPTI, for which a program may ask in the same way, has its own rules (cuda/cupti_watch.h), and so has OpenCL, whose
 * loaders have layers or not (opencl/opencl_loaders.cpp). Preloaded where there is a HIP, a driver of CUDA or a loader of Level
 * Zero, or where OpenCL or MPI is traced. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "../cuda/cupti_watch.h"
#include "../opencl/opencl_by_handle.h"
#include "library_of.h"
#include "occatrace_core.h"

typedef occatrace_lookup lookup;

__attribute__((visibility("hidden"), used)) lookup occatrace_real_dlsym;

__attribute__((visibility("hidden"), used)) lookup occatrace_find_dlsym(void) {
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
  lookup found = NULL;
  for (size_t i = 0; found == NULL && i < sizeof versions / sizeof *versions; i++)
    found = (lookup)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  __atomic_store_n(&occatrace_real_dlsym, found, __ATOMIC_RELEASE);
  return found;
}

/* How functions of each begin, and one that only its library has. */
static const struct {
  const char *prefix, *anchor;
} apis[] = {{"hip", "hipApiName"}, {"cuda", "cudaRuntimeGetVersion"}, {"ze", "zelLoaderGetVersions"}, {"MPI_", "PMPI_Init"}};

/* What stands in for `found`, a function of the name that the library behind the handle has. */
static void *in_front_of(lookup next, void *handle, const char *name, size_t api, void *found) {
  void *ours = next(RTLD_DEFAULT, name);
  if (ours == NULL || ours == found || !occatrace_is_core(ours)) return found;
  /* Only for what the API's library has itself: not where a library of another name stands before it. */
  const void *anchor = next(handle, apis[api].anchor);
  return anchor != NULL && occatrace_in_one_library(anchor, found) && occatrace_leads_to(ours, found) ? ours : found;
}

/* The layer knows the loaders. */
static void *in_front_of_opencl(lookup next, const char *name, void *found, const void *asker) {
  typedef void *(*layer_lookup)(occatrace_lookup, const char *, void *, const void *);
  static layer_lookup known;
  if (occatrace_is_core(asker) || !occatrace_chosen("opencl")) return found;
  layer_lookup layer = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
  if (layer == NULL) {
    void *library = occatrace_load_library("liboccatrace_opencl.so");
    layer = library == NULL ? NULL : (layer_lookup)next(library, "occatrace_opencl_by_handle");
    __atomic_store_n(&known, layer, __ATOMIC_RELEASE);
  }
  void *given = layer == NULL ? found : layer(next, name, found, asker);
  dlerror(); /* as below */
  return given;
}

__attribute__((visibility("hidden"), used)) void *occatrace_dlsym_by_handle(void *handle, const char *name) {
  lookup next = __atomic_load_n(&occatrace_real_dlsym, __ATOMIC_ACQUIRE);
  if (next == NULL) next = occatrace_find_dlsym();
  void *found = next(handle, name);
  if (found != NULL && strncmp(name, "cupti", 5) == 0)
    return occatrace_in_front_of_cupti(name, found, __builtin_return_address(0));
  if (found != NULL && name[0] == 'c' && name[1] == 'l' && name[2] >= 'A' && name[2] <= 'Z')
    return in_front_of_opencl(next, name, found, __builtin_return_address(0));
  size_t api = 0;
  while (api < sizeof apis / sizeof *apis && strncmp(name, apis[api].prefix, strlen(apis[api].prefix)) != 0) api++;
  /* Our own search for the real functions. */
  if (found == NULL || api == sizeof apis / sizeof *apis || occatrace_is_core(__builtin_return_address(0))) return found;
  void *given = in_front_of(next, handle, name, api, found);
  dlerror(); /* what our searches did not find is no failure of the program's */
  return given;
}

/* dlsym(handle, name): the handles -1 (RTLD_NEXT) and 0 (RTLD_DEFAULT) mean the caller's place in the search order. Only
 * names that begin with h, c, z or M are looked at any further. */
#if defined(__x86_64__)
__asm__(
    ".text\n.p2align 4\n.globl dlsym\n.type dlsym,@function\ndlsym:\nendbr64\n"
    "leaq 1(%rdi),%rax\ncmpq $1,%rax\njbe 1f\n"
    "testq %rsi,%rsi\njz 1f\n"
    "cmpb $0x68,(%rsi)\nje 3f\ncmpb $0x63,(%rsi)\nje 3f\ncmpb $0x7a,(%rsi)\nje 3f\n"
    "cmpb $0x4d,(%rsi)\njne 1f\n"
    "3:\njmp occatrace_dlsym_by_handle\n"
    "1:\nmovq occatrace_real_dlsym(%rip),%rax\ntestq %rax,%rax\njz 2f\njmp *%rax\n"
    "2:\npushq %rdi\npushq %rsi\nsubq $8,%rsp\ncall occatrace_find_dlsym\naddq $8,%rsp\npopq %rsi\npopq %rdi\njmp *%rax\n"
    ".size dlsym,.-dlsym\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n.p2align 4\n.globl dlsym\n.type dlsym,%function\ndlsym:\nhint #34\n"
    "add x9,x0,#1\ncmp x9,#1\nb.ls 1f\ncbz x1,1f\n"
    "ldrb w9,[x1]\ncmp w9,#0x68\nb.eq 3f\ncmp w9,#0x63\nb.eq 3f\ncmp w9,#0x7a\nb.eq 3f\n"
    "cmp w9,#0x4d\nb.ne 1f\n"
    "3:\nb occatrace_dlsym_by_handle\n"
    "1:\nadrp x16,occatrace_real_dlsym\nldr x16,[x16,#:lo12:occatrace_real_dlsym]\ncbz x16,2f\nbr x16\n"
    "2:\nstp x29,x30,[sp,#-32]!\nmov x29,sp\nstp x0,x1,[sp,#16]\nbl occatrace_find_dlsym\nmov x16,x0\n"
    "ldp x0,x1,[sp,#16]\nldp x29,x30,[sp],#32\nbr x16\n"
    ".size dlsym,.-dlsym\n");
#else
#error "no dlsym for this processor yet: add it here"
#endif
