/* NVTX in C: what nvtx.cpp leaves out. Attributes of started ranges, wide texts, names of categories in both domains. */
#include <stdio.h>
#include <wchar.h>

#include <nvtx3/nvToolsExt.h>

int main(void) {
  nvtxInitialize(NULL);
  nvtxEventAttributes_t a = {0};
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = "started";
  a.category = 3;
  a.colorType = NVTX_COLOR_ARGB;
  a.color = 0xff00aa11;
  a.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  a.payload.llValue = -7;
  nvtxNameCategoryA(3, "input");
  nvtxRangeEnd(nvtxRangeStartEx(&a));

  nvtxDomainHandle_t domain = nvtxDomainCreateA("c");
  nvtxDomainNameCategoryW(domain, 3, L"output \u00e4");
  a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  a.message.registered = nvtxDomainRegisterStringW(domain, L"written \u00e4");
  const nvtxRangeId_t first = nvtxDomainRangeStartEx(domain, &a), second = nvtxDomainRangeStartEx(domain, &a);
  nvtxDomainRangeEnd(domain, first);
  nvtxDomainRangeEnd(domain, second);
  nvtxDomainMarkEx(domain, &a);

  nvtxMarkA("plain");
  nvtxMarkW(L"broad");
  nvtxRangeEnd(nvtxRangeStartW(L"broad range"));
  nvtxNameCategoryW(4, L"broad category");
  a.messageType = NVTX_MESSAGE_TYPE_UNICODE;
  a.message.unicode = L"attributes";
  a.category = 4;
  const int level = nvtxRangePushEx(&a);
  printf("%d %d\n", level, nvtxRangePop());
  return 0;
}
