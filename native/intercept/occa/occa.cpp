// OCCA, without its headers: hooks of its C++ members, by mangled name (tracepoints/occa.yaml), for the 1.0 and the 1.2+ family.
// The outermost call of a thread is the event. The virtual members below it are the truth for kernels, launches, copies
// and allocations, and stand in for the API members that a compiler has inlined.
#include "occa_memory.h"

namespace {

// ---- devices and streams ----

// Of a device, and of no other argument worth a field.
template <class E> struct OfDevice : Function {
  using Event = E;
  template <class C, class... A> static void enter(C &call, const void *device, A...) {
    call.event.device = handle(device);
    call.event.mode = mode_of(call.state, ask.device_mode, object(device));
  }
  template <class C, class... A> static void leave(C &, A...) {}
  static void finish(Event &, Frame &) {}
};

struct Setup : OfDevice<occatrace_occa_device_setup> {
  OCCA_BLOCKING(device_setup)
  // Before it, the handle is empty or not even constructed.
  static bool tagged(const void *, const void *const &props) { return tag_in(props).wanted; }
  template <class... A> static bool tagged(const A &...) { return false; }
  template <class C, class... A> static void enter(C &, A...) {}
  template <class C, class... A> static void leave(C &call, const void *device, A...) { OfDevice::enter(call, device); }
  template <class C> static void leave(C &call, const void *device, const void *props) {
    remember_tag(object(device), tag_in(props));
    OfDevice::enter(call, device);
  }
};
struct Finish : OfDevice<occatrace_occa_device_finish> {
  OCCA_BLOCKING(device_finish)
};
// occa::finish
struct FinishCurrent : Finish {
  template <class C> static void enter(C &) {}
  template <class C> static void leave(C &call) { OfDevice::enter(call, current_device()); }
};
struct FinishAll : OfDevice<occatrace_occa_device_finishAll> {
  OCCA_BLOCKING(device_finishAll)
};
struct DeviceFree : OfDevice<occatrace_occa_device_free> {
  OCCA_BLOCKING(device_free)
};
struct CreateStream : OfDevice<occatrace_occa_device_createStream> {
  OCCA_FUNCTION(device_createStream)
  static void leave(Call<CreateStream> &call, const Object &result, const void *, const void *) { call.event.stream = address(result.object); }
};

struct WrapStream : OfDevice<occatrace_occa_device_wrapStream> {
  OCCA_FUNCTION(device_wrapStream)
  static void leave(Call<WrapStream> &call, const Object &result, const void *, void *, const void *) { call.event.stream = address(result.object); }
};

struct SetStream : Function {
  OCCA_FUNCTION(device_setStream)
  static void enter(Call<SetStream> &call, const void *device, Object *stream) {
    call.event.device = handle(device);
    call.event.stream = handle(stream);
  }
  static void leave(Call<SetStream> &, const void *, Object *) {}
  static void finish(Event &, Frame &) {}
};
struct TagStream : Function {
  OCCA_FUNCTION(device_tagStream)
  static void enter(Call<TagStream> &call, const void *device) { call.event.device = handle(device); }
  static void leave(Call<TagStream> &call, const Object &result, const void *) { call.event.tag = address(result.object); }
  static void finish(Event &, Frame &) {}
};
struct WaitFor : Function {
  OCCA_BLOCKING(device_waitFor)
  static void enter(Call<WaitFor> &call, const void *device, Object *tag) {
    call.event.device = handle(device);
    call.event.tag = handle(tag);
  }
  static void leave(Call<WaitFor> &, const void *, Object *) {}
  static void finish(Event &, Frame &) {}
};
struct TimeBetween : Function {
  OCCA_BLOCKING(device_timeBetween)
  static void enter(Call<TimeBetween> &call, const void *device, const void *first, const void *last) {
    call.event.device = handle(device);
    call.event.first = handle(first);
    call.event.last = handle(last);
  }
  static void leave(Call<TimeBetween> &call, double seconds, const void *, const void *, const void *) { call.event.seconds = seconds; }
  static void finish(Event &, Frame &) {}
};

template <class E> struct OfStream : Function {
  using Event = E;
  template <class C> static void enter(C &call, const void *stream) { call.event.stream = handle(stream); }
  template <class C> static void leave(C &, const void *) {}
  static void finish(Event &, Frame &) {}
};
struct StreamFinish : OfStream<occatrace_occa_stream_finish> {
  OCCA_BLOCKING(stream_finish)
};
struct StreamFree : OfStream<occatrace_occa_stream_free> {
  OCCA_FUNCTION(stream_free)
};

// ---- which hook stands for which symbol ----

#define SLOT(symbol) OCCATRACE_SLOT_##symbol
#define API(symbol, policy, ...) {SLOT(symbol), reinterpret_cast<void *>(&Api<policy, SLOT(symbol), __VA_ARGS__>::hook)}
#define VIRTUAL(symbol, ...) {SLOT(symbol), reinterpret_cast<void *>(&__VA_ARGS__)}
// The same in both families: the properties are the last argument.
#define API2(prefix, policy, ...) \
  API(prefix##RKNS_10propertiesE, policy, __VA_ARGS__), API(prefix##RKNS_4jsonE, policy, __VA_ARGS__)

using Handle = const void *;
using Props = const void *;
using Name = const std::string &;

struct Hook {
  unsigned slot;
  void *function;
};

// The members of a mode; the second family has modes that the first lacks.
#define MODE_MEMORY(mode, props, on_host) \
  VIRTUAL(_ZN4occa##mode##6memory8copyFromEPKvmmRKNS_##props, copy_from_host<SLOT(_ZN4occa##mode##6memory8copyFromEPKvmmRKNS_##props), on_host>), \
      VIRTUAL(_ZN4occa##mode##6memory8copyFromEPKNS_12modeMemory_tEmmmRKNS_##props, \
              copy_from_memory<SLOT(_ZN4occa##mode##6memory8copyFromEPKNS_12modeMemory_tEmmmRKNS_##props), on_host>), \
      VIRTUAL(_ZNK4occa##mode##6memory6copyToEPvmmRKNS_##props, copy_to_host<SLOT(_ZNK4occa##mode##6memory6copyToEPvmmRKNS_##props), on_host>), \
      VIRTUAL(_ZN4occa##mode##6device6mallocEmPKvRKNS_##props, allocate<SLOT(_ZN4occa##mode##6device6mallocEmPKvRKNS_##props), on_host>)
#define MODE_ENDS(mode) \
  VIRTUAL(_ZN4occa##mode##6kernelD0Ev, delete_kernel<SLOT(_ZN4occa##mode##6kernelD0Ev)>), \
      VIRTUAL(_ZN4occa##mode##6memoryD0Ev, delete_memory<SLOT(_ZN4occa##mode##6memoryD0Ev)>)
#define MODE_RUN(mode) VIRTUAL(_ZNK4occa##mode##6kernel9deviceRunEv, run_on_device<SLOT(_ZNK4occa##mode##6kernel9deviceRunEv)>)
// Of 1.2 and later.
#define MODE_BUFFERS(mode, on_host) \
  VIRTUAL(_ZN4occa##mode##6buffer6mallocEm, grow<SLOT(_ZN4occa##mode##6buffer6mallocEm), on_host>), \
      VIRTUAL(_ZN4occa##mode##6bufferD0Ev, delete_buffer<SLOT(_ZN4occa##mode##6bufferD0Ev)>), \
      VIRTUAL(_ZN4occa##mode##10memoryPoolD0Ev, delete_pool<SLOT(_ZN4occa##mode##10memoryPoolD0Ev)>), \
      VIRTUAL(_ZN4occa##mode##10memoryPool6memcpyEPNS_12modeBuffer_tElS3_lm, \
              move_in_pool<SLOT(_ZN4occa##mode##10memoryPool6memcpyEPNS_12modeBuffer_tElS3_lm), on_host>)
#define MODE(mode) MODE_MEMORY(mode, 4jsonE, false), MODE_ENDS(mode), MODE_RUN(mode), MODE_BUFFERS(mode, false)

const Hook hooks[] = {
    API(_ZNK4occa6kernel3runEv, KernelRun, void, Handle),
    VIRTUAL(_ZNK4occa20launchedModeKernel_t3runEv, run_kernel<SLOT(_ZNK4occa20launchedModeKernel_t3runEv)>),
    VIRTUAL(_ZNK4occa6serial6kernel3runEv, run_kernel<SLOT(_ZNK4occa6serial6kernel3runEv)>),
    API(_ZN4occa6kernel4freeEv, KernelFree, void, Handle),

    API2(_ZN4occa6memory8copyFromEPKv, CopyFromHost, void, void *, const void *, Props),
    API2(_ZN4occa6memory8copyFromEPKvll, CopyFromHost, void, void *, const void *, int64_t, int64_t, Props),
    API2(_ZN4occa6memory8copyFromES0_, CopyFromMemory, void, void *, Object *, Props),
    API2(_ZN4occa6memory8copyFromES0_lll, CopyFromMemory, void, void *, Object *, int64_t, int64_t, int64_t, Props),
    API2(_ZNK4occa6memory6copyToEPv, CopyToHost, void, Handle, void *, Props),
    API2(_ZNK4occa6memory6copyToEPvll, CopyToHost, void, Handle, void *, int64_t, int64_t, Props),
    API2(_ZNK4occa6memory6copyToES0_, CopyToMemory, void, Handle, Object *, Props),
    API2(_ZNK4occa6memory6copyToES0_lll, CopyToMemory, void, Handle, Object *, int64_t, int64_t, int64_t, Props),
    API2(_ZN4occa6memcpyENS_6memoryEPKv, MemcpyToMemory, void, Object *, const void *, Props),
    API2(_ZN4occa6memcpyENS_6memoryEPKvll, MemcpyToMemory, void, Object *, const void *, int64_t, int64_t, Props),
    API2(_ZN4occa6memcpyENS_6memoryES0_, MemcpyInDevice, void, Object *, Object *, Props),
    API2(_ZN4occa6memcpyENS_6memoryES0_lll, MemcpyInDevice, void, Object *, Object *, int64_t, int64_t, int64_t, Props),
    API2(_ZN4occa6memcpyEPvNS_6memoryE, MemcpyToHost, void, void *, Object *, Props),
    API2(_ZN4occa6memcpyEPvNS_6memoryEll, MemcpyToHost, void, void *, Object *, int64_t, int64_t, Props),
    API(_ZN4occa6memcpyEPvPKvRKNS_10propertiesE, MemcpyUnified, void, void *, const void *, Props),
    API(_ZN4occa6memcpyEPvPKvlRKNS_10propertiesE, MemcpyUnified, void, void *, const void *, int64_t, Props),

    API(_ZN4occa6device6mallocElNS_6memoryERKNS_10propertiesE, Malloc, Object, Handle, int64_t, Object *, Props),
    API(_ZN4occa6device6mallocElPKvRKNS_10propertiesE, Malloc, Object, Handle, int64_t, const void *, Props),
    API(_ZN4occa6device6mallocElRKNS_10propertiesE, Malloc, Object, Handle, int64_t, Props),
    API2(_ZN4occa6device6mallocElRKNS_7dtype_tENS_6memoryE, Malloc, Object, Handle, int64_t, const void *, Object *, Props),
    API2(_ZN4occa6device6mallocElRKNS_7dtype_tEPKv, Malloc, Object, Handle, int64_t, const void *, const void *, Props),
    API2(_ZN4occa6device6mallocElRKNS_7dtype_tE, Malloc, Object, Handle, int64_t, const void *, Props),
    API(_ZN4occa6device7umallocElNS_6memoryERKNS_10propertiesE, UMalloc, void *, Handle, int64_t, Object *, Props),
    API(_ZN4occa6device7umallocElPKvRKNS_10propertiesE, UMalloc, void *, Handle, int64_t, const void *, Props),
    API(_ZN4occa6device7umallocElRKNS_10propertiesE, UMalloc, void *, Handle, int64_t, Props),
    API(_ZN4occa6device7umallocElRKNS_7dtype_tENS_6memoryERKNS_10propertiesE, UMalloc, void *, Handle, int64_t, const void *, Object *, Props),
    API(_ZN4occa6device7umallocElRKNS_7dtype_tEPKvRKNS_10propertiesE, UMalloc, void *, Handle, int64_t, const void *, const void *, Props),
    API(_ZN4occa6device7umallocElRKNS_7dtype_tERKNS_10propertiesE, UMalloc, void *, Handle, int64_t, const void *, Props),
    API2(_ZN4occa6mallocElRKNS_7dtype_tEPKv, AllocOnCurrentDevice<Malloc>, Object, int64_t, const void *, const void *, Props),
    API(_ZN4occa6mallocElPKvRKNS_10propertiesE, AllocOnCurrentDevice<Malloc>, Object, int64_t, const void *, Props),
    API(_ZN4occa7umallocElPKvRKNS_10propertiesE, AllocOnCurrentDevice<UMalloc>, void *, int64_t, const void *, Props),
    API(_ZN4occa7umallocElRKNS_7dtype_tEPKvRKNS_10propertiesE, AllocOnCurrentDevice<UMalloc>, void *, int64_t, const void *, const void *, Props),
    API(_ZN4occa6device10wrapMemoryEPKvlRKNS_7dtype_tERKNS_4jsonE, WrapMemory, Object, Handle, const void *, int64_t, const void *, Props),
    API(_ZN4occa6memory4freeEv, MemoryFree, void, Handle),
    API(_ZN4occa6memory6detachEv, MemoryFree, void, Handle),
    API(_ZNK4occa6memory5sliceEll, Slice, Object, Handle, int64_t, int64_t),
    API(_ZNK4occa6memoryplEl, Slice, Object, Handle, int64_t),
    API(_ZNK4occa6memory5cloneEv, Clone, Object, Handle),
    API(_ZN4occa6device16createMemoryPoolERKNS_4jsonE, CreateMemoryPool, Object, Handle, Props),
    API(_ZN4occa10memoryPool7reserveElRKNS_7dtype_tE, Reserve, Object, Handle, int64_t, const void *),
    API(_ZN4occa10memoryPool6resizeEm, PoolResize, void, Handle, uint64_t),
    API(_ZN4occa10memoryPool11shrinkToFitEv, PoolShrinkToFit, void, Handle),
    API(_ZN4occa10memoryPool12setAlignmentEm, PoolSetAlignment, void, Handle, uint64_t),
    API(_ZN4occa10memoryPool4freeEv, PoolFree, void, Handle),

    API2(_ZN4occa6device5setupE, Setup, void, Handle, Props),
    API(_ZN4occa6device5setupERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE, Setup, void, Handle, Name),
    API2(_ZN4occa6deviceC1E, Setup, void, Handle, Props),
    API(_ZN4occa6deviceC1ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE, Setup, void, Handle, Name),
    API(_ZN4occa6deviceC1ESt16initializer_listINS_12jsonKeyValueEE, Setup, void, Handle, const void *, size_t),
    API2(_ZNK4occa6device11buildKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8_, BuildKernel, Object, Handle, Name, Name, Props),
    API2(_ZNK4occa6device21buildKernelFromStringERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8_, BuildKernelFromString, Object, Handle,
         Name, Name, Props),
    API2(_ZNK4occa6device21buildKernelFromBinaryERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8_, BuildKernelFromBinary, Object, Handle,
         Name, Name, Props),
    API2(_ZN4occa11buildKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES7_, OnCurrentDevice<BuildKernel>, Object, Name, Name, Props),
    API2(_ZN4occa21buildKernelFromStringERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES7_, OnCurrentDevice<BuildKernelFromString>, Object,
         Name, Name, Props),
    API2(_ZN4occa21buildKernelFromBinaryERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES7_, OnCurrentDevice<BuildKernelFromBinary>, Object,
         Name, Name, Props),
    API(_ZN4occa6finishEv, FinishCurrent, void),
    API(_ZN4occa6device6finishEv, Finish, void, Handle),
    API(_ZN4occa6device9finishAllEv, FinishAll, void, Handle),
    API(_ZN4occa6device4freeEv, DeviceFree, void, Handle),
    API(_ZN4occa6stream6finishEv, StreamFinish, void, Handle),
    API(_ZN4occa6stream4freeEv, StreamFree, void, Handle),
    API2(_ZN4occa6device12createStreamE, CreateStream, Object, Handle, Props),
    API(_ZN4occa6device10wrapStreamEPvRKNS_4jsonE, WrapStream, Object, Handle, void *, Props),
    API(_ZN4occa6device9setStreamENS_6streamE, SetStream, void, Handle, Object *),
    API(_ZN4occa6device9tagStreamEv, TagStream, Object, Handle),
    API(_ZN4occa6device7waitForENS_9streamTagE, WaitFor, void, Handle, Object *),
    API(_ZN4occa6device11timeBetweenERKNS_9streamTagES3_, TimeBetween, double, Handle, Handle, Handle),

    MODE_MEMORY(6serial, 10propertiesE, true),
    MODE_MEMORY(6serial, 4jsonE, true),
    MODE_ENDS(6serial),
    MODE_BUFFERS(6serial, true),
    MODE_MEMORY(6opencl, 10propertiesE, false),
    MODE_MEMORY(4cuda, 10propertiesE, false),
    MODE(6opencl),
    MODE(4cuda),
    MODE(3hip),
    MODE(5dpcpp),
    MODE(5metal),
};

// operator() with 0, 1, 2 … arguments, all of them references; their slots follow each other.
constexpr unsigned kCalls = 129, kManyArguments = 8, kFirstCall = SLOT(_ZNK4occa6kernelclEv);
static_assert(kFirstCall + kCalls == SLOT(_ZNK4occa20launchedModeKernel_t3runEv), "operator() stands in another order");

template <unsigned> using Argument = const void *;
template <unsigned Slot, unsigned... I> void *call_hook(std::integer_sequence<unsigned, I...>) {
  if constexpr (sizeof...(I) > kManyArguments)
    return reinterpret_cast<void *>(&ManyArguments<Slot, Argument<I>...>::hook);
  else
    return reinterpret_cast<void *>(&Api<KernelRun, Slot, void, Handle, Argument<I>...>::hook);
}
template <unsigned... N> std::array<Hook, sizeof...(N)> call_hooks(std::integer_sequence<unsigned, N...>) {
  return {Hook{kFirstCall + N, call_hook<kFirstCall + N>(std::make_integer_sequence<unsigned, N>())}...};
}

// ---- binding ----

const char *const vtables[] = {
    "_ZTVN4occa6serial6kernelE",
    "_ZTVN4occa6serial6memoryE",
    "_ZTVN4occa6serial6deviceE",
    "_ZTVN4occa6serial6bufferE",
    "_ZTVN4occa6serial10memoryPoolE",
    "_ZTVN4occa6openmp6deviceE",
    "_ZTVN4occa6opencl6kernelE",
    "_ZTVN4occa6opencl6memoryE",
    "_ZTVN4occa6opencl6deviceE",
    "_ZTVN4occa6opencl6bufferE",
    "_ZTVN4occa6opencl10memoryPoolE",
    "_ZTVN4occa4cuda6kernelE",
    "_ZTVN4occa4cuda6memoryE",
    "_ZTVN4occa4cuda6deviceE",
    "_ZTVN4occa4cuda6bufferE",
    "_ZTVN4occa4cuda10memoryPoolE",
    "_ZTVN4occa3hip6kernelE",
    "_ZTVN4occa3hip6memoryE",
    "_ZTVN4occa3hip6deviceE",
    "_ZTVN4occa3hip6bufferE",
    "_ZTVN4occa3hip10memoryPoolE",
    "_ZTVN4occa5dpcpp6kernelE",
    "_ZTVN4occa5dpcpp6memoryE",
    "_ZTVN4occa5dpcpp6deviceE",
    "_ZTVN4occa5dpcpp6bufferE",
    "_ZTVN4occa5dpcpp10memoryPoolE",
    "_ZTVN4occa5metal6kernelE",
    "_ZTVN4occa5metal6memoryE",
    "_ZTVN4occa5metal6deviceE",
    "_ZTVN4occa5metal6bufferE",
    "_ZTVN4occa5metal10memoryPoolE",
};

struct Protection {
  uintptr_t page, length;
  bool read_only;
};

// After start-up the dynamic linker makes the RELRO part of an object read-only.
int find_protection(dl_phdr_info *info, size_t, void *data) {
  auto *wanted = static_cast<Protection *>(data);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_GNU_RELRO || wanted->page + wanted->length <= start || wanted->page >= start + segment.p_memsz) continue;
    wanted->read_only = true;
    return 1;
  }
  return 0;
}

void write_slot(void **slot, void *hook) {
  const uintptr_t size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  Protection p{address(slot) & ~(size - 1), size, false};
  dl_iterate_phdr(find_protection, &p);
  if (p.read_only && mprotect(reinterpret_cast<void *>(p.page), p.length, PROT_READ | PROT_WRITE) != 0) {
    occatrace_say("cannot write to OCCA's vtables; some kernels and copies will be missing");
    return;
  }
  __atomic_store_n(slot, hook, __ATOMIC_RELEASE);
  if (p.read_only) mprotect(reinterpret_cast<void *>(p.page), p.length, PROT_READ);
}

// Slots that the dynamic linker has not led to our trampolines (-Bsymbolic), found by the address in them.
void patch_vtables(void *library, void *const *slots) {
  for (const char *name : vtables) {
    void *table = dlsym(library, name);
    Dl_info info;
    const ElfW(Sym) *symbol = nullptr;
    if (!table || !dladdr1(table, &info, reinterpret_cast<void **>(const_cast<ElfW(Sym) **>(&symbol)), RTLD_DL_SYMENT) || !symbol) continue;
    void **words = static_cast<void **>(table);
    for (size_t i = 0; i < symbol->st_size / sizeof(void *); i++) {
      for (const Hook &hook : hooks) {
        if (original[hook.slot] && words[i] == original[hook.slot] && slots[hook.slot] != original[hook.slot]) {
          write_slot(&words[i], slots[hook.slot]);
          break;
        }
      }
    }
  }
}

template <class F> void find(F &function, void *library, const char *symbol) {
  function = reinterpret_cast<F>(dlsym(library, symbol));
}

} // namespace

extern "C" OCCATRACE_EXPORT void occatrace_bind_occa(const occatrace_trampolines *trampolines) {
  static const uint8_t table[][4] = OCCATRACE_OCCA_LEVELS;
  static const char *const names[] = OCCATRACE_OCCA_NAMES;
  static_assert(std::size(hooks) + kCalls == SLOT(occaCreateDevice), "a symbol of the model has no hook, or two");
  events = static_cast<const occatrace_occa_events *>(occatrace_load_provider("occa"));
  if (!events) return;
  std::copy_n(trampolines->original, OCCATRACE_OCCA_SLOTS, original);
  Dl_info info;
  void *library = nullptr;
  for (void *function : original)
    if (function && dladdr(function, &info)) {
      // Kept for good: hooks and vtables lead into it.
      library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
      break;
    }
  if (!library) library = dlopen(nullptr, RTLD_LAZY);
  find(ask.kernel_name, library, "_ZN4occa6kernel4nameB5cxx11Ev");
  find(ask.kernel_source, library, "_ZN4occa6kernel14sourceFilenameB5cxx11Ev");
  find(ask.kernel_binary, library, "_ZN4occa6kernel14binaryFilenameB5cxx11Ev");
  find(ask.kernel_mode, library, "_ZNK4occa6kernel4modeB5cxx11Ev");
  find(ask.memory_mode, library, "_ZNK4occa6memory4modeB5cxx11Ev");
  find(ask.device_mode, library, "_ZNK4occa6device4modeB5cxx11Ev");
  find(ask.current_device, library, "_ZN4occa9getDeviceEv");
  find(ask.json_bool, library, "_ZNK4occa4json3getIbEET_PKcRKS2_");
  find(ask.json_text, library, "_ZNK4occa4json3getINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEEET_PKcRKS8_");
  find(ask.json_at, library, "_ZNK4occa4jsonixEPKc");
  find(ask.json_string, library, "_ZNK4occa4json8toStringB5cxx11Ev");
  find(ask.pool_mode, library, "_ZNK4occa10memoryPool4modeB5cxx11Ev");
  find(ask.pool_device, library, "_ZNK4occa10memoryPool13getModeDeviceEv");
  find(ask.pool_properties, library, "_ZNK4occa10memoryPool10propertiesEv");
  // 2.0 counts entries in size().
  find(ask.memory_size, library, "_ZNK4occa6memory9byte_sizeEv");
  if (!ask.memory_size) find(ask.memory_size, library, "_ZNK4occa6memory4sizeEv");
  second_family = dlsym(library, "_ZN4occa6device5setupERKNS_4jsonE") != nullptr;
  // 1.2 and later, 1.1, 1.0.
  if (second_family)
    layout = {464, 64, 56};
  else
    layout = dlsym(library, "_ZN4occa6kernel4hashEv") ? Layout{448, 32, 0} : Layout{360, 32, 0};
  occatrace_levels("occa", levels, table, names, OCCATRACE_OCCA_COUNT);
  first_tally = occatrace_register_functions("occa", names, OCCATRACE_OCCA_COUNT);
  occatrace_on_end = close_calls;
  for (const Hook &hook : hooks)
    if (original[hook.slot]) trampolines->slots[hook.slot] = hook.function;
  for (const Hook &hook : call_hooks(std::make_integer_sequence<unsigned, kCalls>()))
    if (original[hook.slot]) trampolines->slots[hook.slot] = hook.function;
  patch_vtables(library, trampolines->slots);
}
