/* Machine code of the preloaded symbols: a jump through a slot, so that a hooked function costs one indirect jump and
 * nothing is loaded before its first call. The caller's return address stays where it is. */
#ifndef OCCATRACE_TRAMPOLINE_H
#define OCCATRACE_TRAMPOLINE_H
#include "occatrace_core.h"

/* Called by the resolver stub; returns the address to go on to. */
__attribute__((visibility("hidden"), used)) void *occatrace_trampoline_resolve(struct occatrace_trampolines *t,
                                                                               uint64_t index, const void *caller);

/* Those of every API, ended by NULL (generated). */
__attribute__((visibility("hidden"))) extern struct occatrace_trampolines *const occatrace_all_trampolines[];

/* Symbols of an API that may come later, or not at all. While the program is linked they are functions like any other; then
 * they become indirect ones, so that whoever looks one up from there on (dlopen, dlsym) finds it where the API's library
 * has been loaded and has it too, and nothing where not: programs ask in this way what there is. */
struct occatrace_conditional {
  const char *anchor; /* a symbol that only the API's library has */
  uint32_t count;
  const char *const *symbols;
  const char *begin, *end; /* the trampolines */
  int several;             /* its functions are in several libraries (cuBLAS and cuBLASLt), each of which may be there alone */
};
__attribute__((visibility("hidden"))) void occatrace_make_conditional(const struct occatrace_conditional *c);
/* Address of the trampoline, or NULL. */
__attribute__((visibility("hidden"))) const void *occatrace_conditional_lookup(const struct occatrace_conditional *c,
                                                                               uint32_t index);
/* From a trampoline to its lookup stub, and to the next trampoline. */
enum {
  OCCATRACE_LOOKUP_OFFSET = 32,
  OCCATRACE_TRAMPOLINE_SIZE = 48,
};
#define OCCATRACE_LABEL(label) ".p2align 4\n.globl " label "\n.hidden " label "\n" label ":\n"
#define OCCATRACE_TRAMPOLINES_BEGIN(label) OCCATRACE_LABEL(label)
#define OCCATRACE_TRAMPOLINES_END(label) OCCATRACE_LABEL(label)

#if defined(__x86_64__)
#define OCCATRACE_LOOKUP(index, lookup) ".p2align 4\nendbr64\nmovl $" index ",%edi\njmp " lookup "\n"
#define OCCATRACE_TRAMPOLINE(symbol, stub, slots, index, offset, resolve) \
  ".p2align 4\n.globl " symbol "\n.type " symbol ",@function\n" symbol \
  ":\n" \
  "endbr64\njmp *" slots "+" offset "(%rip)\n.size " symbol ",.-" symbol \
  "\n" \
  ".globl " stub "\n.hidden " stub "\n.type " stub ",@function\n" stub ":\nendbr64\npushq $" index "\njmp " resolve "\n"
/* Saves every register that may carry an argument, also %al of variadic calls and the static chain. */
#define OCCATRACE_TRAMPOLINE_COMMON(resolve, trampolines) \
  ".p2align 4\n.type " resolve ",@function\n" resolve \
  ":\n" \
  "pushq %rbp\nmovq %rsp,%rbp\nandq $-16,%rsp\nsubq $208,%rsp\n" \
  "movq %rdi,(%rsp)\nmovq %rsi,8(%rsp)\nmovq %rdx,16(%rsp)\nmovq %rcx,24(%rsp)\nmovq %r8,32(%rsp)\n" \
  "movq %r9,40(%rsp)\nmovq %rax,48(%rsp)\nmovq %r10,56(%rsp)\n" \
  "movups %xmm0,64(%rsp)\nmovups %xmm1,80(%rsp)\nmovups %xmm2,96(%rsp)\nmovups %xmm3,112(%rsp)\n" \
  "movups %xmm4,128(%rsp)\nmovups %xmm5,144(%rsp)\nmovups %xmm6,160(%rsp)\nmovups %xmm7,176(%rsp)\n" \
  "leaq " trampolines \
  "(%rip),%rdi\nmovq 8(%rbp),%rsi\nmovq 16(%rbp),%rdx\ncall occatrace_trampoline_resolve\n" \
  "movq %rax,%r11\n" \
  "movups 64(%rsp),%xmm0\nmovups 80(%rsp),%xmm1\nmovups 96(%rsp),%xmm2\nmovups 112(%rsp),%xmm3\n" \
  "movups 128(%rsp),%xmm4\nmovups 144(%rsp),%xmm5\nmovups 160(%rsp),%xmm6\nmovups 176(%rsp),%xmm7\n" \
  "movq (%rsp),%rdi\nmovq 8(%rsp),%rsi\nmovq 16(%rsp),%rdx\nmovq 24(%rsp),%rcx\nmovq 32(%rsp),%r8\n" \
  "movq 40(%rsp),%r9\nmovq 48(%rsp),%rax\nmovq 56(%rsp),%r10\n" \
  "movq %rbp,%rsp\npopq %rbp\naddq $8,%rsp\njmp *%r11\n.size " resolve ",.-" resolve "\n"
#elif defined(__aarch64__)
#define OCCATRACE_LOOKUP(index, lookup) ".p2align 4\nhint #34\nmov w0,#" index "\nb " lookup "\n"
#define OCCATRACE_TRAMPOLINE(symbol, stub, slots, index, offset, resolve) \
  ".p2align 4\n.globl " symbol "\n.type " symbol ",%function\n" symbol \
  ":\n" \
  "hint #34\nadrp x16," slots "+" offset "\nldr x16,[x16,#:lo12:" slots "+" offset \
  "]\nbr x16\n" \
  ".size " symbol ",.-" symbol \
  "\n" \
  ".globl " stub "\n.hidden " stub "\n.type " stub ",%function\n" stub ":\nhint #34\nmov x17,#" index "\nb " resolve "\n"
/* x8 carries the address of a returned object. */
#define OCCATRACE_TRAMPOLINE_COMMON(resolve, trampolines) \
  ".p2align 4\n.type " resolve ",%function\n" resolve \
  ":\n" \
  "stp x29,x30,[sp,#-224]!\nmov x29,sp\n" \
  "stp x0,x1,[sp,#16]\nstp x2,x3,[sp,#32]\nstp x4,x5,[sp,#48]\nstp x6,x7,[sp,#64]\nstr x8,[sp,#80]\n" \
  "stp q0,q1,[sp,#96]\nstp q2,q3,[sp,#128]\nstp q4,q5,[sp,#160]\nstp q6,q7,[sp,#192]\n" \
  "adrp x0," trampolines "\nadd x0,x0,#:lo12:" trampolines \
  "\nmov x1,x17\nmov x2,x30\n" \
  "bl occatrace_trampoline_resolve\nmov x16,x0\n" \
  "ldp x0,x1,[sp,#16]\nldp x2,x3,[sp,#32]\nldp x4,x5,[sp,#48]\nldp x6,x7,[sp,#64]\nldr x8,[sp,#80]\n" \
  "ldp q0,q1,[sp,#96]\nldp q2,q3,[sp,#128]\nldp q4,q5,[sp,#160]\nldp q6,q7,[sp,#192]\n" \
  "ldp x29,x30,[sp],#224\nbr x16\n.size " resolve ",.-" resolve "\n"
#else
#error "no trampolines for this processor yet: add them here"
#endif
#endif
