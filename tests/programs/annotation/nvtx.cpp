// NVTX in C and C++ and occatrace.h in C++, each from two sides: the functions of the default domain and those of domains.
#include <cstdio>
#include <thread>

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvtx3.hpp>
#include <occatrace.h>

struct solver_domain {
  static constexpr char const *name{"solver"};
};

static nvtxEventAttributes_t attributes(const char *message) {
  nvtxEventAttributes_t a{};
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = message;
  return a;
}

int main() {
  // The levels that NVTX promises.
  bool right = true;
  right &= nvtxRangePushA("outer") == 0;
  right &= nvtxRangePushW(L"wide \u00e4") == 1;
  right &= nvtxRangePop() == 1;
  right &= nvtxRangePop() == 0;
  right &= nvtxRangePop() < 0;

  nvtxDomainHandle_t domain = nvtxDomainCreateA("physics");
  nvtxStringHandle_t text = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainNameCategoryA(domain, 7, "seven");
  for (int i = 0; i < 100; i++) {
    auto a = attributes(nullptr);
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = text;
    a.category = 7;
    a.colorType = NVTX_COLOR_ARGB;
    a.color = 0xff112233;
    a.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    a.payload.llValue = -i;
    right &= nvtxDomainRangePushEx(domain, &a) == 0;
    right &= nvtxDomainRangePop(domain) == 0;
  }
  // Payloads of every type, categories without a name.
  auto a = attributes("payload");
  a.category = 12;
  a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, a.payload.ullValue = UINT64_MAX;
  nvtxMarkEx(&a);
  a.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE, a.payload.dValue = 0.1;
  nvtxMarkEx(&a);
  a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32, a.payload.uiValue = UINT32_MAX;
  nvtxMarkEx(&a);
  a.payloadType = NVTX_PAYLOAD_TYPE_INT32, a.payload.iValue = -5;
  nvtxMarkEx(&a);
  a.payloadType = NVTX_PAYLOAD_TYPE_FLOAT, a.payload.fValue = 0.5f;
  nvtxMarkEx(&a);

  // Two domains whose ranges do not nest, and a range that another thread ends.
  auto x = attributes("x"), y = attributes("y");
  nvtxDomainHandle_t second = nvtxDomainCreateW(L"second");
  nvtxDomainRangePushEx(domain, &x);
  nvtxDomainRangePushEx(second, &y);
  right &= nvtxDomainRangePop(domain) == 0;
  right &= nvtxDomainRangePop(second) == 0;
  nvtxRangeId_t id = nvtxRangeStartA("handed over");
  std::thread([id] { nvtxRangeEnd(id); }).join();
  right &= nvtxRangeStartA("never ended") != 0;

  for (int i = 0; i < 3; i++) {
    nvtx3::scoped_range_in<solver_domain> range{"cpp", nvtx3::rgb{0, 255, 0}, nvtx3::payload{i}};
    nvtx3::mark_in<solver_domain>("tick");
    occatrace::scope own("own", 0xff0000ff);
  }
  std::printf("%s\n", right ? "right" : "wrong");
  return right ? 0 : 1;
}
