/* A library on top (cuBLAS, …): its functions, in front of it, preloaded only when --trace names it. One piece of code for all
 * functions and all libraries: it passes on the registers and the part of the stack in which arguments can be, whatever
 * they are, and sees the status that comes back. Compiled once for each library, with its generated header. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "trampoline.h"

#define LIBRARY_TABLES
#define STRING2(x) #x
#define STRING(x) STRING2(x)
/* Bytes of arguments on the stack that are passed on: no function has more than 33 arguments. */
#define LIBRARY_STACK 256

/* A call on its way; the machine code below knows the place of `level`. */
struct in_flight {
  uint32_t level; /* 0: not recorded */
  uint32_t index, seq;
  uint64_t start;
};

/* As wide as a trampoline of the core (occatrace_make_conditional counts them), and with a lookup at the same place. */
#define LIBRARY_BEGIN OCCATRACE_TRAMPOLINES_BEGIN("library_begin")
#define LIBRARY_END OCCATRACE_TRAMPOLINES_END("library_end")
#if defined(__x86_64__)
#define LIBRARY_STUB(symbol, index) \
  ".p2align 4\n.globl " symbol "\n.type " symbol ",@function\n" symbol \
  ":\n" \
  "endbr64\nmovl $" index ",%r11d\njmp library_enter\n.size " symbol ",.-" symbol "\n.p2align 4\n.skip 16\n" OCCATRACE_LOOKUP(index, "library_lookup")
#define COPY(at) "movups 16+" #at "(%rbp),%xmm8\nmovups %xmm8," #at "(%rsp)\n"
__asm__(
    ".text\n.p2align 4\n.type library_enter,@function\nlibrary_enter:\n.cfi_startproc\n"
    "pushq %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp,-16\nmovq %rsp,%rbp\n.cfi_def_cfa_register %rbp\nsubq $512,%rsp\n"
    "movq %rdi,-128(%rbp)\nmovq %rsi,-120(%rbp)\nmovq %rdx,-112(%rbp)\nmovq %rcx,-104(%rbp)\nmovq %r8,-96(%rbp)\n"
    "movq %r9,-88(%rbp)\nmovq %rax,-80(%rbp)\nmovq %r10,-72(%rbp)\n"
    "movups %xmm0,-256(%rbp)\nmovups %xmm1,-240(%rbp)\nmovups %xmm2,-224(%rbp)\nmovups %xmm3,-208(%rbp)\n"
    "movups %xmm4,-192(%rbp)\nmovups %xmm5,-176(%rbp)\nmovups %xmm6,-160(%rbp)\nmovups %xmm7,-144(%rbp)\n"
    "movl %r11d,%edi\nleaq -64(%rbp),%rsi\nmovq 8(%rbp),%rdx\ncall library_before\nmovq %rax,%r11\n"
    "movups -256(%rbp),%xmm0\nmovups -240(%rbp),%xmm1\nmovups -224(%rbp),%xmm2\nmovups -208(%rbp),%xmm3\n"
    "movups -192(%rbp),%xmm4\nmovups -176(%rbp),%xmm5\nmovups -160(%rbp),%xmm6\nmovups -144(%rbp),%xmm7\n"
    "cmpl $0,-64(%rbp)\n"
    "movq -128(%rbp),%rdi\nmovq -120(%rbp),%rsi\nmovq -112(%rbp),%rdx\nmovq -104(%rbp),%rcx\nmovq -96(%rbp),%r8\n"
    "movq -88(%rbp),%r9\nmovq -80(%rbp),%rax\nmovq -72(%rbp),%r10\n"
    "je 1f\n" COPY(0) COPY(16) COPY(32) COPY(48) COPY(64) COPY(80) COPY(96) COPY(112)
        COPY(128) COPY(144) COPY(160) COPY(176) COPY(192) COPY(208) COPY(224) COPY(240)
            "call *%r11\n"
            "movq %rax,-128(%rbp)\nmovq %rdx,-120(%rbp)\nmovups %xmm0,-256(%rbp)\nmovups %xmm1,-240(%rbp)\n"
            "leaq -64(%rbp),%rdi\nmovq %rax,%rsi\ncall library_after\n"
            "movq -128(%rbp),%rax\nmovq -120(%rbp),%rdx\nmovups -256(%rbp),%xmm0\nmovups -240(%rbp),%xmm1\n"
            ".cfi_remember_state\nleave\n.cfi_def_cfa %rsp,8\nret\n.cfi_restore_state\n"
            "1:\nleave\n.cfi_def_cfa %rsp,8\njmp *%r11\n.cfi_endproc\n.size library_enter,.-library_enter\n");
#elif defined(__aarch64__)
#define LIBRARY_STUB(symbol, index) \
  ".p2align 4\n.globl " symbol "\n.type " symbol ",%function\n" symbol \
  ":\n" \
  "hint #34\nmov w17,#" index "\nb library_enter\n.size " symbol ",.-" symbol "\n.p2align 4\n.skip 16\n" OCCATRACE_LOOKUP(index, "library_lookup")
#define COPY(at) "ldp q16,q17,[x29,#16+" #at "]\nstp q16,q17,[sp,#" #at "]\n"
__asm__(
    ".text\n.p2align 4\n.type library_enter,%function\nlibrary_enter:\n.cfi_startproc\n"
    "stp x29,x30,[sp,#-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset 29,-16\n.cfi_offset 30,-8\n"
    "mov x29,sp\n.cfi_def_cfa_register 29\nsub sp,sp,#528\n"
    "stp x0,x1,[x29,#-144]\nstp x2,x3,[x29,#-128]\nstp x4,x5,[x29,#-112]\nstp x6,x7,[x29,#-96]\nstr x8,[x29,#-80]\n"
    "stp q0,q1,[x29,#-272]\nstp q2,q3,[x29,#-240]\nstp q4,q5,[x29,#-208]\nstp q6,q7,[x29,#-176]\n"
    "mov w0,w17\nsub x1,x29,#64\nmov x2,x30\nbl library_before\nmov x16,x0\nldr w9,[x29,#-64]\n"
    "ldp x0,x1,[x29,#-144]\nldp x2,x3,[x29,#-128]\nldp x4,x5,[x29,#-112]\nldp x6,x7,[x29,#-96]\nldr x8,[x29,#-80]\n"
    "ldp q0,q1,[x29,#-272]\nldp q2,q3,[x29,#-240]\nldp q4,q5,[x29,#-208]\nldp q6,q7,[x29,#-176]\n"
    "cbz w9,1f\n" COPY(0) COPY(32) COPY(64) COPY(96) COPY(128) COPY(160) COPY(192) COPY(224)
        "blr x16\n"
        "stp x0,x1,[x29,#-144]\nstp q0,q1,[x29,#-272]\nmov x1,x0\nsub x0,x29,#64\nbl library_after\n"
        "ldp x0,x1,[x29,#-144]\nldp q0,q1,[x29,#-272]\n"
        ".cfi_remember_state\nmov sp,x29\nldp x29,x30,[sp],#16\n.cfi_def_cfa 31,0\nret\n.cfi_restore_state\n"
        "1:\nmov sp,x29\nldp x29,x30,[sp],#16\n.cfi_def_cfa 31,0\nbr x16\n.cfi_endproc\n.size library_enter,.-library_enter\n");
#else
#error "no way to pass arguments on for this processor yet: add it here"
#endif

#include STRING(LIBRARY_HEADER)

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
extern const char library_begin[] __attribute__((visibility("hidden")));
extern const char library_end[] __attribute__((visibility("hidden")));

static const struct occatrace_conditional conditional = {LIBRARY_ANCHOR, LIBRARY_COUNT, library_names, library_begin, library_end, 1};
__attribute__((visibility("hidden"), used)) const void *library_lookup(uint32_t index) {
  return occatrace_conditional_lookup(&conditional, index);
}
__attribute__((constructor)) static void make_conditional(void) { occatrace_make_conditional(&conditional); }

static void *original[LIBRARY_COUNT];
static uint8_t levels[LIBRARY_COUNT];
static const LIBRARY_EVENTS *events;
static uint32_t first_slot;
static int started; /* 1: recorded, -1: not */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void) {
  events = occatrace_capture_wanted() ? occatrace_load_provider(LIBRARY_NAME) : NULL;
  if (events != NULL) {
    occatrace_levels(LIBRARY_NAME, levels, library_levels, library_names, LIBRARY_COUNT);
    first_slot = occatrace_register_functions(LIBRARY_NAME, library_names, LIBRARY_COUNT);
  }
  __atomic_store_n(&started, events != NULL ? 1 : -1, __ATOMIC_RELEASE);
}

static void *find(uint32_t index, const void *caller) {
  void *found = dlsym(RTLD_NEXT, library_names[index]);
  if (found == NULL) found = occatrace_find_symbol_beside(library_names[index], caller, __ehdr_start, _end);
  if (found == NULL) {
    occatrace_say("%s was called, but no loaded library has it; please report this", library_names[index]);
    abort();
  }
  __atomic_store_n(&original[index], found, __ATOMIC_RELEASE);
  return found;
}

__attribute__((visibility("hidden"), used)) void *library_before(uint32_t index, struct in_flight *f, const void *caller) {
  void *real = __atomic_load_n(&original[index], __ATOMIC_ACQUIRE);
  if (real == NULL) real = find(index, caller);
  if (__atomic_load_n(&started, __ATOMIC_ACQUIRE) == 0) pthread_once(&once, start);
  f->level = started == 1 ? occatrace_level_now(levels[index]) : OCCATRACE_OFF;
  if (f->level == OCCATRACE_OFF) return real;
  f->index = index;
  if (f->level == OCCATRACE_EVENT) {
    f->seq = occatrace_next_seq(occatrace_self());
    f->start = occatrace_now();
  } else {
    f->start = occatrace_ticks();
  }
  return real;
}

__attribute__((visibility("hidden"), used)) void library_after(const struct in_flight *f, uint64_t result) {
  struct occatrace_thread *self = occatrace_self();
  const int32_t status = library_functions[f->index].returns_status ? (int32_t)result : 0;
  if (f->level == OCCATRACE_EVENT) {
    const LIBRARY_CALL e = {
        .tid = self->tid, .seq = f->seq, .start = f->start, .function = library_functions[f->index].code, .ret = status};
    events->call(&e);
  } else {
    occatrace_tally_add(self, first_slot + f->index, occatrace_ticks() - f->start, status != 0);
  }
  if (__builtin_expect(status != 0, 0))
    occatrace_failure(first_slot + f->index, f->level == OCCATRACE_EVENT ? f->seq : OCCATRACE_NO_RUN, status, 0);
}
