// What the tests' programs use of OCCA 2, as far as tracing sees it: the same names, layouts, virtual members and lifetimes. Written
// from what OCCA 1.2 to 2.0 do; no kernels but inline ones, which do nothing; no files. Programs compile against this and against the real one.
#ifndef FAKE_OCCA2_HPP
#define FAKE_OCCA2_HPP

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace occa {

typedef int64_t dim_t;
typedef uint64_t udim_t;

class json {
 public:
  json();
  json(const json &other);
  ~json();
  json(const std::string &text); // {key: 'value', ...}
  json &operator=(const json &other);
  json &operator=(bool value);
  json &operator=(const char *value);
  json &operator[](const char *path);
  const json &operator[](const char *path) const;
  std::string toString() const;
  // Weak in a library, as a template's instances are; hidden by builds that hide inline functions.
  template <class T> T get(const char *path, const T &otherwise = T()) const;

 private:
  bool given;
  std::string value;
  std::map<std::string, json> *fields;
};

class dtype_t {
 public:
  explicit dtype_t(int bytes);
  int bytes() const;

 private:
  int bytes_;
};
namespace dtype {
extern const dtype_t byte, float_;
}

namespace gc {
class ringEntry_t {
 public:
  ringEntry_t *left = nullptr, *right = nullptr;
};
// As large as OCCA's ring.
template <class T> struct ring_t {
  bool used = true;
  std::set<T *> *entries = new std::set<T *>;
  ~ring_t() { delete entries; }
};
} // namespace gc

class modeDevice_t;
class modeKernel_t;
class modeMemory_t;
class modeMemoryPool_t;
class modeStream_t;

class memory : public gc::ringEntry_t {
 public:
  memory();
  memory(modeMemory_t *of);
  memory(const memory &other);
  memory &operator=(const memory &other);
  ~memory();
  const std::string &mode() const;
  udim_t byte_size() const;
  void set(modeMemory_t *of);
  void copyFrom(const void *source, const dim_t count, const dim_t offset = 0, const json &props = json());
  void copyTo(void *target, const dim_t count, const dim_t offset = 0, const json &props = json()) const;
  memory slice(const dim_t offset, const dim_t count = -1) const;
  memory operator+(const dim_t offset) const;
  void free();
  modeMemory_t *modeMemory;
};

class memoryPool : public gc::ringEntry_t {
 public:
  memoryPool();
  memoryPool(modeMemoryPool_t *of);
  memoryPool(const memoryPool &other);
  memoryPool &operator=(const memoryPool &other);
  ~memoryPool();
  modeDevice_t *getModeDevice() const;
  const std::string &mode() const;
  const json &properties() const;
  void set(modeMemoryPool_t *of);
  void resize(const udim_t bytes);
  void shrinkToFit();
  void free();
  memory reserve(const dim_t entries, const dtype_t &dtype);
  void setAlignment(const udim_t alignment);
  modeMemoryPool_t *modeMemoryPool;
};

class kernel : public gc::ringEntry_t {
 public:
  kernel();
  kernel(modeKernel_t *of);
  kernel(const kernel &other);
  kernel &operator=(const kernel &other);
  ~kernel();
  void set(modeKernel_t *of);
  const std::string &name();
  const std::string &sourceFilename();
  const std::string &binaryFilename();
  const std::string &mode() const;
  void run() const;
  modeKernel_t *modeKernel;
};

class stream : public gc::ringEntry_t {
 public:
  modeStream_t *modeStream = nullptr;
};

class device : public gc::ringEntry_t {
 public:
  device();
  explicit device(modeDevice_t *of); // does not keep it
  explicit device(const std::string &props);
  device(const device &) = delete;
  ~device();
  void setup(const json &props);
  void setup(const std::string &props);
  void free();
  const std::string &mode() const;
  udim_t memoryAllocated() const;
  udim_t maxMemoryAllocated() const;
  memory malloc(const dim_t entries, const dtype_t &dtype, const void *source = nullptr, const json &props = json());
  memory malloc(const dim_t entries, const dtype_t &dtype, const json &props);
  memory wrapMemory(const void *pointer, const dim_t entries, const dtype_t &dtype, const json &props = json());
  memoryPool createMemoryPool(const json &props = json());
  stream wrapStream(void *pointer, const json &props = json());
  kernel buildKernelFromString(const std::string &content, const std::string &name, const json &props = json()) const;
  modeDevice_t *modeDevice;

 private:
  bool keeps = true;
};

struct scopeKernelArg {
  scopeKernelArg(const char *name, const memory &value);
  memory value;
};
struct scope {
  scope(std::initializer_list<scopeKernelArg> args, const json &props = json());
  memory first;
  json props;
};
class kernelBuilder {
 public:
  kernelBuilder(const std::string &source, const std::string &name);
  void run(const scope &of);

 private:
  std::string source, name;
  kernel built;
};

} // namespace occa

#define OCCA_JIT(SCOPE, SOURCE)                                         \
  do {                                                                  \
    static ::occa::kernelBuilder _builder(#SOURCE, "_occa_jit_kernel"); \
    _builder.run(SCOPE);                                                \
  } while (false)
#endif
