// The library behind occa.hpp: two modes, which keep their memory on the host. OPAQUE: inline functions are hidden.
#include "occa.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace occa {

// ---- json ----

json::json() : given(false), fields(nullptr) {}
json::json(const json &other) : given(false), fields(nullptr) { *this = other; }
json::~json() { delete fields; }
json::json(const std::string &text) : given(false), fields(nullptr) {
  for (size_t at = text.find(':'); at != std::string::npos; at = text.find(':', at + 1)) {
    const size_t key = text.find_last_of("{, ", at) + 1, first = text.find_first_not_of(" '", at + 1), end = text.find_first_of(",}'", first);
    (*this)[text.substr(key, at - key).c_str()] = text.substr(first, end - first).c_str();
  }
}
json &json::operator=(const json &other) {
  if (this == &other) return *this;
  delete fields;
  fields = other.fields ? new std::map<std::string, json>(*other.fields) : nullptr;
  given = other.given;
  value = other.value;
  return *this;
}
json &json::operator=(bool from) { return *this = from ? "true" : "false"; }
json &json::operator=(const char *from) {
  given = true;
  value = from;
  return *this;
}
json &json::operator[](const char *path) {
  const char *end = std::strchr(path, '/');
  if (!fields) fields = new std::map<std::string, json>;
  json &field = (*fields)[end ? std::string(path, end) : path];
  return end ? field[end + 1] : field;
}
const json &json::operator[](const char *path) const {
  static const json none;
  const char *end = std::strchr(path, '/');
  if (!fields) return none;
  const auto found = fields->find(end ? std::string(path, end) : path);
  if (found == fields->end()) return none;
  return end ? found->second[end + 1] : found->second;
}
std::string json::toString() const { return value; }

#ifdef OPAQUE
#define INLINE __attribute__((visibility("hidden")))
#else
#define INLINE __attribute__((weak))
#endif
template <> INLINE bool json::get<bool>(const char *path, const bool &otherwise) const {
  const json &found = (*this)[path];
  return found.given ? found.value == "true" : otherwise;
}
template <> INLINE std::string json::get<std::string>(const char *path, const std::string &otherwise) const {
  const json &found = (*this)[path];
  return found.given ? found.value : otherwise;
}

dtype_t::dtype_t(int bytes) : bytes_(bytes) {}
int dtype_t::bytes() const { return bytes_; }
namespace dtype {
const dtype_t byte(1), float_(4);
}

// ---- objects of the modes ----

class modeBuffer_t;

class modeMemory_t : public gc::ringEntry_t {
 public:
  gc::ring_t<memory> memoryRing;
  modeBuffer_t *modeBuffer;
  char *ptr;
  const dtype_t *dtype_;
  udim_t size;
  dim_t offset;
  modeMemory_t(modeBuffer_t *buffer, udim_t bytes, dim_t from);
  modeDevice_t *getModeDevice() const;
  virtual ~modeMemory_t();
  virtual void copyTo(void *target, const udim_t bytes, const udim_t offset, const json &props) const = 0;
  virtual void copyFrom(const void *source, const udim_t bytes, const udim_t offset, const json &props) = 0;
  virtual void copyFrom(const modeMemory_t *source, const udim_t bytes, const udim_t offset, const udim_t from, const json &props) = 0;
};

class modeBuffer_t : public gc::ringEntry_t {
 public:
  json properties;
  gc::ring_t<modeMemory_t> modeMemoryRing;
  char *ptr = nullptr;
  modeDevice_t *modeDevice;
  udim_t size;
  bool isWrapped = false;
  modeBuffer_t(modeDevice_t *device, udim_t bytes, const json &props);
  virtual ~modeBuffer_t();
  virtual bool needsFree() const;
  virtual void malloc(udim_t) {}
  virtual modeMemory_t *slice(const dim_t offset, const udim_t bytes) = 0;
};

class modeMemoryPool_t : public modeBuffer_t {
 public:
  gc::ring_t<memoryPool> memoryPoolRing;
  udim_t alignment = 128;
  modeBuffer_t *buffer = nullptr;
  modeMemoryPool_t(modeDevice_t *device, const json &props);
  virtual ~modeMemoryPool_t();
  udim_t reserved() const;
  bool needsFree() const override;
  modeMemory_t *reserve(const udim_t bytes);
  void resize(const udim_t bytes);
  void move(const udim_t bytes, const udim_t to_alignment);

 private:
  virtual modeBuffer_t *makeBuffer() = 0;
  virtual void setPtr(modeMemory_t *memory, modeBuffer_t *buffer, const dim_t offset) = 0;
  virtual void memcpy(modeBuffer_t *to, const dim_t to_offset, modeBuffer_t *from, const dim_t from_offset, const udim_t bytes) = 0;
};

// Name and files stand where OCCA has them, and then no arguments.
class modeKernel_t : public gc::ringEntry_t {
 public:
  modeDevice_t *modeDevice;
  std::string name, sourceFilename, binaryFilename;
  char others[512] = {};
  gc::ring_t<kernel> kernelRing;
  modeKernel_t(modeDevice_t *device, const std::string &named, const std::string &file);
  virtual ~modeKernel_t() {}
  virtual void run() const = 0;
};

class modeStream_t {};

class modeDevice_t {
 public:
  std::string mode;
  udim_t bytesAllocated = 0, maxBytesAllocated = 0;
  std::set<modeBuffer_t *> buffers;
  explicit modeDevice_t(const std::string &name) : mode(name) {}
  virtual ~modeDevice_t() {}
  void count(udim_t bytes) {
    bytesAllocated += bytes;
    maxBytesAllocated = std::max(maxBytesAllocated, bytesAllocated);
  }
  virtual modeMemory_t *malloc(const udim_t bytes, const void *source, const json &props) = 0;
  virtual modeMemory_t *wrapMemory(const void *pointer, const udim_t bytes, const json &props) = 0;
  virtual modeMemoryPool_t *createMemoryPool(const json &props) = 0;
};

modeKernel_t::modeKernel_t(modeDevice_t *device, const std::string &named, const std::string &file)
    : modeDevice(device), name(named), sourceFilename(file), binaryFilename(file + ".binary") {}
namespace serial {
class kernel : public modeKernel_t {
 public:
  kernel(modeDevice_t *device, const std::string &named, const std::string &file) : modeKernel_t(device, named, file) {}
  virtual ~kernel();
  void run() const override;
};
kernel::~kernel() {}
void kernel::run() const {}
} // namespace serial

modeMemory_t::modeMemory_t(modeBuffer_t *buffer, udim_t bytes, dim_t from)
    : modeBuffer(buffer), ptr(nullptr), dtype_(&dtype::byte), size(bytes), offset(from) {
  modeBuffer->modeMemoryRing.entries->insert(this);
}
// A buffer that goes lets go of its memory first: there is no device to be asked then.
modeDevice_t *modeMemory_t::getModeDevice() const { return modeBuffer->modeDevice; }
modeMemory_t::~modeMemory_t() {
  for (memory *handle : *memoryRing.entries) handle->modeMemory = nullptr;
  if (!modeBuffer) return;
  modeBuffer->modeMemoryRing.entries->erase(this);
  if (modeBuffer->needsFree()) delete modeBuffer;
}

modeBuffer_t::modeBuffer_t(modeDevice_t *device, udim_t bytes, const json &props) : properties(props), modeDevice(device), size(bytes) {
  modeDevice->buffers.insert(this);
}
bool modeBuffer_t::needsFree() const { return modeMemoryRing.entries->empty(); }
modeBuffer_t::~modeBuffer_t() {
  while (!modeMemoryRing.entries->empty()) {
    modeMemory_t *of = *modeMemoryRing.entries->begin();
    modeMemoryRing.entries->erase(of);
    of->modeBuffer = nullptr;
    delete of;
  }
  if (!isWrapped) modeDevice->bytesAllocated -= size;
  modeDevice->buffers.erase(this);
}

modeMemoryPool_t::modeMemoryPool_t(modeDevice_t *device, const json &props) : modeBuffer_t(device, 0, props) {}
modeMemoryPool_t::~modeMemoryPool_t() {
  for (memoryPool *handle : *memoryPoolRing.entries) handle->modeMemoryPool = nullptr;
  delete buffer;
  size = 0;
}
bool modeMemoryPool_t::needsFree() const { return memoryPoolRing.entries->empty(); }
udim_t modeMemoryPool_t::reserved() const {
  udim_t sum = 0;
  for (const modeMemory_t *of : *modeMemoryRing.entries) sum += (of->size + alignment - 1) / alignment * alignment;
  return sum;
}
modeMemory_t *modeMemoryPool_t::reserve(const udim_t bytes) {
  const udim_t used = reserved(), aligned = (bytes + alignment - 1) / alignment * alignment;
  if (used + bytes > size) resize(used + aligned);
  return slice(static_cast<dim_t>(used), bytes);
}
void modeMemoryPool_t::resize(const udim_t bytes) {
  if (bytes < reserved()) throw std::runtime_error("Cannot resize memoryPool below current usage");
  if (size != bytes) move((bytes + alignment - 1) / alignment * alignment, alignment);
}
void modeMemoryPool_t::move(const udim_t bytes, const udim_t to_alignment) {
  if (modeMemoryRing.entries->empty()) {
    delete buffer;
    buffer = nullptr;
  }
  modeBuffer_t *fresh = makeBuffer();
  fresh->malloc(bytes);
  modeDevice->count(bytes);
  std::vector<modeMemory_t *> parts(modeMemoryRing.entries->begin(), modeMemoryRing.entries->end());
  std::sort(parts.begin(), parts.end(), [](const modeMemory_t *a, const modeMemory_t *b) { return a->offset < b->offset; });
  // What lies side by side moves as one block.
  dim_t offset = 0;
  for (size_t i = 0; i < parts.size();) {
    const dim_t start = parts[i]->offset;
    dim_t end = start;
    for (; i < parts.size() && parts[i]->offset <= end; ++i) {
      end = std::max(end, parts[i]->offset + static_cast<dim_t>(parts[i]->size));
      setPtr(parts[i], fresh, parts[i]->offset - start + offset);
    }
    memcpy(fresh, offset, buffer, start, static_cast<udim_t>(end - start));
    offset += (end - start + static_cast<dim_t>(to_alignment) - 1) / static_cast<dim_t>(to_alignment) * static_cast<dim_t>(to_alignment);
  }
  delete buffer;
  buffer = fresh;
  size = bytes;
}

// The classes of a mode: `new` and a call of a virtual member in one function, which compilers make a direct call.
#define MODE(name)                                                                                                               \
  namespace name {                                                                                                                     \
  class buffer : public modeBuffer_t {                                                                                                 \
   public:                                                                                                                             \
    buffer(modeDevice_t *device, udim_t bytes, const json &props) : modeBuffer_t(device, bytes, props) {}                              \
    virtual ~buffer();                                                                                                                 \
    void malloc(udim_t bytes) override;                                                                                                \
    void wrapMemory(const void *pointer) {                                                                                             \
      ptr = static_cast<char *>(const_cast<void *>(pointer));                                                                          \
      isWrapped = true;                                                                                                                \
    }                                                                                                                                  \
    modeMemory_t *slice(const dim_t offset, const udim_t bytes) override;                                                              \
  };                                                                                                                                   \
  class memory : public modeMemory_t {                                                                                                 \
   public:                                                                                                                             \
    memory(modeBuffer_t *buffer, char *at, udim_t bytes, dim_t offset) : modeMemory_t(buffer, bytes, offset) { ptr = at + offset; }     \
    virtual ~memory();                                                                                                                 \
    void copyTo(void *target, const udim_t bytes, const udim_t offset, const json &props) const override;                              \
    void copyFrom(const void *source, const udim_t bytes, const udim_t offset, const json &props) override;                            \
    void copyFrom(const modeMemory_t *source, const udim_t bytes, const udim_t offset, const udim_t from, const json &props) override; \
  };                                                                                                                                   \
  class memoryPool : public modeMemoryPool_t {                                                                                         \
   public:                                                                                                                             \
    memoryPool(modeDevice_t *device, const json &props) : modeMemoryPool_t(device, props) {}                                           \
    virtual ~memoryPool();                                                                                                             \
    modeMemory_t *slice(const dim_t offset, const udim_t bytes) override;                                                              \
                                                                                                                                       \
   private:                                                                                                                            \
    modeBuffer_t *makeBuffer() override;                                                                                               \
    void setPtr(modeMemory_t *memory, modeBuffer_t *buffer, const dim_t offset) override;                                              \
    void memcpy(modeBuffer_t *to, const dim_t to_offset, modeBuffer_t *from, const dim_t from_offset, const udim_t bytes) override;    \
  };                                                                                                                                   \
  class device : public modeDevice_t {                                                                                                 \
   public:                                                                                                                             \
    explicit device(const std::string &mode) : modeDevice_t(mode) {}                                                                   \
    modeMemory_t *malloc(const udim_t bytes, const void *source, const json &props) override;                                          \
    modeMemory_t *wrapMemory(const void *pointer, const udim_t bytes, const json &props) override;                                     \
    modeMemoryPool_t *createMemoryPool(const json &props) override;                                                                    \
  };                                                                                                                                   \
  buffer::~buffer() {                                                                                                                  \
    if (!isWrapped) std::free(ptr);                                                                                                    \
  }                                                                                                                                    \
  void buffer::malloc(udim_t bytes) {                                                                                                  \
    ptr = static_cast<char *>(std::calloc(1, bytes));                                                                                  \
    size = bytes;                                                                                                                      \
  }                                                                                                                                    \
  modeMemory_t *buffer::slice(const dim_t offset, const udim_t bytes) { return new memory(this, ptr, bytes, offset); }                  \
  memory::~memory() {}                                                                                                                 \
  void memory::copyTo(void *target, const udim_t bytes, const udim_t from, const json &) const { ::memcpy(target, ptr + from, bytes); } \
  void memory::copyFrom(const void *source, const udim_t bytes, const udim_t to, const json &) { ::memcpy(ptr + to, source, bytes); }   \
  void memory::copyFrom(const modeMemory_t *source, const udim_t bytes, const udim_t to, const udim_t from, const json &) {            \
    ::memcpy(ptr + to, source->ptr + from, bytes);                                                                                     \
  }                                                                                                                                    \
  memoryPool::~memoryPool() {}                                                                                                         \
  modeMemory_t *memoryPool::slice(const dim_t offset, const udim_t bytes) { return new memory(this, buffer->ptr, bytes, offset); }      \
  modeBuffer_t *memoryPool::makeBuffer() { return new name::buffer(modeDevice, 0, properties); }                                       \
  void memoryPool::setPtr(modeMemory_t *of, modeBuffer_t *in, const dim_t offset) {                                                    \
    of->offset = offset;                                                                                                               \
    of->ptr = in->ptr + offset;                                                                                                        \
  }                                                                                                                                    \
  void memoryPool::memcpy(modeBuffer_t *to, const dim_t to_offset, modeBuffer_t *from, const dim_t from_offset, const udim_t bytes) {   \
    ::memcpy(to->ptr + to_offset, from->ptr + from_offset, bytes);                                                                     \
  }                                                                                                                                    \
  modeMemory_t *device::malloc(const udim_t bytes, const void *source, const json &props) {                                            \
    buffer *in = new buffer(this, bytes, props);                                                                                       \
    in->malloc(bytes);                                                                                                                 \
    memory *made = new memory(in, in->ptr, bytes, 0);                                                                                  \
    if (source) made->copyFrom(source, bytes, 0, props);                                                                               \
    return made;                                                                                                                       \
  }                                                                                                                                    \
  modeMemory_t *device::wrapMemory(const void *pointer, const udim_t bytes, const json &props) {                                       \
    buffer *in = new buffer(this, bytes, props);                                                                                       \
    in->wrapMemory(pointer);                                                                                                           \
    return new memory(in, in->ptr, bytes, 0);                                                                                          \
  }                                                                                                                                    \
  modeMemoryPool_t *device::createMemoryPool(const json &props) { return new memoryPool(this, props); }                                \
  }
MODE(serial)
MODE(opencl)
MODE(dpcpp)

// ---- handles ----

#define HANDLE(type, object, ring)                                         \
  type::type() : object(nullptr) {}                                        \
  type::type(object##_t *of) : object(nullptr) { set(of); }                \
  type::type(const type &other) : object(nullptr) { set(other.object); }   \
  type::~type() { set(nullptr); }                                          \
  type &type::operator=(const type &other) {                               \
    set(other.object);                                                     \
    return *this;                                                          \
  }                                                                        \
  void type::set(object##_t *of) {                                         \
    object##_t *const before = object;                                     \
    if (of == before) return;                                              \
    object = of;                                                           \
    if (of) of->ring.entries->insert(this);                                \
    if (!before) return;                                                   \
    before->ring.entries->erase(this);                                     \
    if (before->ring.entries->empty()) delete before;                      \
  }
HANDLE(memory, modeMemory, memoryRing)
HANDLE(memoryPool, modeMemoryPool, memoryPoolRing)
HANDLE(kernel, modeKernel, kernelRing)

const std::string &kernel::name() { return modeKernel->name; }
const std::string &kernel::sourceFilename() { return modeKernel->sourceFilename; }
const std::string &kernel::binaryFilename() { return modeKernel->binaryFilename; }
const std::string &kernel::mode() const { return modeKernel->modeDevice->mode; }
void kernel::run() const { modeKernel->run(); }

const std::string &memory::mode() const {
  static const std::string none = "No Mode";
  return modeMemory ? modeMemory->getModeDevice()->mode : none;
}
udim_t memory::byte_size() const { return modeMemory ? modeMemory->size : 0; }
void memory::copyFrom(const void *source, const dim_t count, const dim_t offset, const json &props) {
  if (static_cast<udim_t>(count + offset) > modeMemory->size) throw std::runtime_error("Destination memory is too small");
  modeMemory->copyFrom(source, static_cast<udim_t>(count), static_cast<udim_t>(offset), props);
}
void memory::copyTo(void *target, const dim_t count, const dim_t offset, const json &props) const {
  modeMemory->copyTo(target, static_cast<udim_t>(count), static_cast<udim_t>(offset), props);
}
memory memory::slice(const dim_t offset, const dim_t count) const {
  const dim_t bytes = count == -1 ? static_cast<dim_t>(modeMemory->size) - offset : count;
  return memory(modeMemory->modeBuffer->slice(modeMemory->offset + offset, static_cast<udim_t>(bytes)));
}
memory memory::operator+(const dim_t offset) const { return slice(offset); }
void memory::free() {
  delete modeMemory;
  modeMemory = nullptr;
}

modeDevice_t *memoryPool::getModeDevice() const { return modeMemoryPool ? modeMemoryPool->modeDevice : nullptr; }
const std::string &memoryPool::mode() const {
  static const std::string none = "No Mode";
  return modeMemoryPool ? modeMemoryPool->modeDevice->mode : none;
}
const json &memoryPool::properties() const {
  static const json none;
  return modeMemoryPool ? modeMemoryPool->properties : none;
}
void memoryPool::resize(const udim_t bytes) { modeMemoryPool->resize(bytes); }
void memoryPool::shrinkToFit() { resize(modeMemoryPool->reserved()); }
void memoryPool::free() { delete modeMemoryPool; }
memory memoryPool::reserve(const dim_t entries, const dtype_t &dtype) {
  return memory(modeMemoryPool->reserve(static_cast<udim_t>(entries * dtype.bytes())));
}
void memoryPool::setAlignment(const udim_t alignment) {
  modeMemoryPool_t &of = *modeMemoryPool;
  if (of.alignment == alignment) return;
  const udim_t before = of.alignment;
  of.alignment = alignment;
  const udim_t bytes = of.reserved();
  of.alignment = before;
  if (bytes) of.move(bytes, alignment);
  of.alignment = alignment;
}

device::device() : modeDevice(nullptr) {}
device::device(modeDevice_t *of) : modeDevice(of), keeps(false) {}
device::device(const std::string &props) : modeDevice(nullptr) { setup(props); }
device::~device() { free(); }
void device::setup(const std::string &props) { setup(json(props)); }
void device::setup(const json &props) {
  const std::string mode = props["mode"].toString();
  if (mode == "OpenCL") modeDevice = new opencl::device(mode);
  else if (mode == "dpcpp") modeDevice = new dpcpp::device(mode);
  else modeDevice = new serial::device(mode);
}
void device::free() {
  if (!modeDevice || !keeps) return;
  while (!modeDevice->buffers.empty()) delete *modeDevice->buffers.begin();
  delete modeDevice;
  modeDevice = nullptr;
}
const std::string &device::mode() const {
  static const std::string none = "No Mode";
  return modeDevice ? modeDevice->mode : none;
}
udim_t device::memoryAllocated() const { return modeDevice->bytesAllocated; }
udim_t device::maxMemoryAllocated() const { return modeDevice->maxBytesAllocated; }
memory device::malloc(const dim_t entries, const dtype_t &dtype, const void *source, const json &props) {
  const udim_t bytes = static_cast<udim_t>(entries * dtype.bytes());
  memory made(modeDevice->malloc(bytes, source, props));
  modeDevice->count(bytes);
  return made;
}
memory device::malloc(const dim_t entries, const dtype_t &dtype, const json &props) { return malloc(entries, dtype, nullptr, props); }
memory device::wrapMemory(const void *pointer, const dim_t entries, const dtype_t &dtype, const json &props) {
  return memory(modeDevice->wrapMemory(pointer, static_cast<udim_t>(entries * dtype.bytes()), props));
}
memoryPool device::createMemoryPool(const json &props) { return memoryPool(modeDevice->createMemoryPool(props)); }
stream device::wrapStream(void *, const json &) { return stream(); }
kernel device::buildKernelFromString(const std::string &content, const std::string &name, const json &) const {
  return kernel(new serial::kernel(modeDevice, name, "/cache/" + std::to_string(std::hash<std::string>()(content)) + "/string_source.cpp"));
}

scopeKernelArg::scopeKernelArg(const char *, const memory &of) : value(of) {}
scope::scope(std::initializer_list<scopeKernelArg> args, const json &of) : first(args.begin()->value), props(of) {}
kernelBuilder::kernelBuilder(const std::string &from, const std::string &named) : source(from), name(named) {}
void kernelBuilder::run(const scope &of) {
  if (!built.modeKernel) built = device(of.first.modeMemory->getModeDevice()).buildKernelFromString("@kernel void " + name + "() " + source, name, of.props);
  built.run();
}

} // namespace occa
