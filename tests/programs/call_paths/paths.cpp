// OCCA's malloc in stacks that the program knows: "TRUE bytes line line ..." for each, the outermost frame first.
#include <cstdio>
#include <functional>
#include <occa.hpp>
#include <omp.h>
#include <vector>

static thread_local std::vector<int> stack;
static int number = 1000;
static occa::device device;

// Not in tail position: that would be a jump, which leaves no frame.
#define GO(call)                       \
  do {                                 \
    stack.push_back(__LINE__);         \
    call;                              \
    stack.pop_back();                  \
    __asm__ volatile("" ::: "memory"); \
  } while (0)

static size_t told() {
  fprintf(stderr, "TRUE %d", number);
  for (int line : stack) fprintf(stderr, " %d", line);
  fprintf(stderr, "\n");
  return static_cast<size_t>(number++);
}
__attribute__((noinline)) static void allocate() {
  GO(device.malloc(told()).free());
}
template <class F> __attribute__((noinline)) static void apply(F f) {
  GO(f());
}
struct Base {
  virtual ~Base() = default;
  virtual void act() = 0;
};
struct Derived : Base {
  __attribute__((noinline)) void act() override { GO(allocate()); }
};

int main() {
  device.setup("{mode: 'Serial'}");
  GO(allocate());
  GO(apply([&] { GO(allocate()); }));
  GO(apply([&] { GO(device.malloc(told()).free()); }));
  Derived derived;
  Base *volatile base = &derived;
  GO(base->act());
#pragma omp parallel num_threads(2)
  {
    if (omp_get_thread_num() == 1) GO(allocate());
  }
#pragma omp parallel num_threads(1)
  {
    // Without the line of the directive in main, which is that of no call.
    GO(allocate());
  }
  return 0;
}
