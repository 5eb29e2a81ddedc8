// Functions of extensions that had another signature in older versions: recorded as the present ones. An address says nothing of
// its version, the devices do.
#pragma once

#include "opencl_work.h"

namespace occatrace::opencl {

namespace {

// The commands of cl_khr_command_buffer got an argument of properties with 0.9.5.
template <class Present>
struct Older;
template <class... A>
struct Older<cl_int(CL_API_CALL *)(cl_command_buffer_khr, cl_command_queue, const cl_properties *, A...)> {
  using Function = cl_int(CL_API_CALL *)(cl_command_buffer_khr, cl_command_queue, A...);
  template <class Which, int P>
  static inline Function real = nullptr;
  // What the traced call calls, and what the program does.
  template <class Which, int P>
  static cl_int CL_API_CALL below(cl_command_buffer_khr buffer, cl_command_queue queue, const cl_properties *, A... a) {
    return real<Which, P>(buffer, queue, a...);
  }
  template <class Which, int P>
  static cl_int CL_API_CALL above(cl_command_buffer_khr buffer, cl_command_queue queue, A... a) {
    return Which::traced(buffer, queue, nullptr, a..., uint32_t{kAsk} | P << 8, OCCATRACE_CALLED_FROM());
  }

  // Of the first platforms, as claim() does it for present versions.
  template <class Which, int P>
  static void *claim(void *address) {
    if (address == reinterpret_cast<void *>(above<Which, P>)) return address;
    auto &member = extensions[P].*Which::member;
    if (member == nullptr) {
      real<Which, P> = reinterpret_cast<Function>(address);
      member = below<Which, P>;
    }
    return reinterpret_cast<void *>(real<Which, P>) == address ? reinterpret_cast<void *>(above<Which, P>) : nullptr;
  }
  template <class Which, int... P>
  static void *claim(void *address, std::integer_sequence<int, P...>) {
    void *ours = nullptr;
    ((ours != nullptr ? void() : void(ours = claim<Which, P>(address))), ...);
    return ours;
  }
};

#define OCCATRACE_OLDER(function) \
  struct Older_##function { \
    static constexpr auto member = &Extensions::function; \
    static constexpr const char *name = #function; \
    using Present = decltype(Extensions::function); \
    template <class... A> \
    static cl_int traced(A... a) { \
      return traced_##function<0>(a...); \
    } \
  };
OCCATRACE_OLDER(clCommandBarrierWithWaitListKHR)
OCCATRACE_OLDER(clCommandCopyBufferKHR)
OCCATRACE_OLDER(clCommandCopyBufferRectKHR)
OCCATRACE_OLDER(clCommandCopyBufferToImageKHR)
OCCATRACE_OLDER(clCommandCopyImageKHR)
OCCATRACE_OLDER(clCommandCopyImageToBufferKHR)
OCCATRACE_OLDER(clCommandFillBufferKHR)
OCCATRACE_OLDER(clCommandFillImageKHR)
OCCATRACE_OLDER(clCommandSVMMemcpyKHR)
OCCATRACE_OLDER(clCommandSVMMemFillKHR)
#undef OCCATRACE_OLDER

template <class... Each>
struct Functions {
  static bool has(const char *name) { return ((std::strcmp(name, Each::name) == 0) || ...); }
  template <class Platforms>
  static void *wrapped(const char *name, void *address, Platforms all) {
    void *ours = address;
    ((std::strcmp(name, Each::name) == 0 ? void(ours = Older<typename Each::Present>::template claim<Each>(address, all)) : void()), ...);
    return ours;
  }
};
using WithoutProperties =
    Functions<Older_clCommandBarrierWithWaitListKHR, Older_clCommandCopyBufferKHR, Older_clCommandCopyBufferRectKHR,
              Older_clCommandCopyBufferToImageKHR, Older_clCommandCopyImageKHR, Older_clCommandCopyImageToBufferKHR,
              Older_clCommandFillBufferKHR, Older_clCommandFillImageKHR, Older_clCommandSVMMemcpyKHR, Older_clCommandSVMMemFillKHR>;

// Whether a device of the platform (of any platform if none is given) has the extension in a version before this one.
template <int I>
bool has_older(cl_platform_id platform, const char *extension, cl_version since) {
  const Dispatch &cl = real<I>();
  cl_platform_id platforms[16] = {platform};
  cl_uint count = 1;
  if (platform == nullptr && cl.clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) return false;
  for (cl_uint at = 0; at < std::min<cl_uint>(count, 16); ++at) {
    cl_device_id devices[64];
    cl_uint found = 0;
    if (cl.clGetDeviceIDs(platforms[at], CL_DEVICE_TYPE_ALL, 64, devices, &found) != CL_SUCCESS) continue;
    for (cl_uint which = 0; which < std::min<cl_uint>(found, 64); ++which) {
      size_t size = 0;
      if (cl.clGetDeviceInfo(devices[which], CL_DEVICE_EXTENSIONS_WITH_VERSION, 0, nullptr, &size) != CL_SUCCESS) continue;
      std::vector<cl_name_version> all(size / sizeof(cl_name_version));
      cl.clGetDeviceInfo(devices[which], CL_DEVICE_EXTENSIONS_WITH_VERSION, size, all.data(), nullptr);
      for (const cl_name_version &one : all) {
        if (std::strncmp(one.name, extension, sizeof one.name) == 0 && one.version < since) return true;
      }
    }
  }
  return false;
}

template <int I>
bool is_older(const char *name, cl_platform_id platform) {
  if (WithoutProperties::has(name)) return has_older<I>(platform, "cl_khr_command_buffer", CL_MAKE_VERSION(0, 9, 5));
  if (std::strcmp(name, "clUpdateMutableCommandsKHR") != 0) return false;
  return has_older<I>(platform, "cl_khr_command_buffer_mutable_dispatch", CL_MAKE_VERSION(0, 9, 3));
}

// Under a lock of the caller's. The old form of clUpdateMutableCommandsKHR is not recorded.
template <class Platforms>
void *wrapped_older(const char *name, void *address, Platforms all) {
  return WithoutProperties::wrapped(name, address, all);
}

}  // namespace

}  // namespace occatrace::opencl
