// OCCA's CUDA mode as a library of its own: OCCA's sources of it, for a libocca that was built without. Whoever links it has
// the mode. OCCA 1.0.8 knows the driver's functions as they were before CUDA 13.
#include <cuda.h>
#undef cuMemAdvise
#undef cuMemPrefetchAsync
#undef cuCtxCreate
#define cuCtxCreate cuCtxCreate_v2
extern "C" {
CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice);
CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream);
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
}

#include <occa/defines/compiledDefines.hpp>
#undef OCCA_CUDA_ENABLED
#define OCCA_CUDA_ENABLED 1

#include "mode/cuda/device.cpp"
#include "mode/cuda/kernel.cpp"
#include "mode/cuda/memory.cpp"
#include "mode/cuda/registration.cpp"
#include "mode/cuda/stream.cpp"
#include "mode/cuda/streamTag.cpp"
#include "mode/cuda/utils.cpp"
