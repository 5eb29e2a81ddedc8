// A CUDA program as people write them: kernels by `<<<>>>`, memory, copies in all directions, streams, a graph, a failure.
// It is compiled by nvcc as it stands; on the fake driver a kernel whose name begins with "spin" takes the time that it is told.
#include <cstdio>
#include <vector>

extern "C" __global__ void spin_for(unsigned long long ns) { (void)ns; }
template <class T>
__global__ void scale(T factor, T *x) {
  x[blockIdx.x * blockDim.x + threadIdx.x] *= factor;
}

#define OK(call)                                                  \
  do {                                                            \
    const cudaError_t code_ = (call);                             \
    if (code_ != cudaSuccess) {                                   \
      std::printf("%s: %d\n", #call, static_cast<int>(code_));    \
      return 1;                                                   \
    }                                                             \
  } while (0)

int main() {
  constexpr size_t n = 1 << 20;
  std::vector<char> pageable(n);
  float *x;
  char *pinned, *managed;
  OK(cudaMalloc(&x, n));
  OK(cudaMallocHost(&pinned, n));
  OK(cudaMallocManaged(&managed, n));
  cudaStream_t s;
  OK(cudaStreamCreate(&s));
  OK(cudaMemcpy(x, pageable.data(), 1000, cudaMemcpyHostToDevice));
  OK(cudaMemcpyAsync(x, pinned, 2000, cudaMemcpyHostToDevice, s));
  OK(cudaMemcpyAsync(managed, x, 3000, cudaMemcpyDefault, s));
  OK(cudaMemsetAsync(x, 0, 4000, s));
  for (int i = 0; i < 3; ++i) spin_for<<<dim3(4, 2), 64, 0, s>>>(2000000);
  scale<<<16, 32, 0, s>>>(2.0f, x);
  OK(cudaGetLastError());
  OK(cudaStreamSynchronize(s));

  cudaGraph_t graph;
  cudaGraphExec_t exec;
  OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  spin_for<<<1, 64, 0, s>>>(1000000);
  OK(cudaStreamEndCapture(s, &graph));
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, s));

  void *too_much = nullptr;
  const int failure = cudaMalloc(&too_much, size_t{1} << 50);
  const int peeked = cudaPeekAtLastError();
  const int taken = cudaGetLastError();
  OK(cudaDeviceSynchronize());
  OK(cudaFree(x));
  OK(cudaFreeHost(pinned));
  OK(cudaFree(managed));
  std::printf("%d %d %d %d\n", failure, peeked, taken, static_cast<int>(cudaGetLastError()));
  return 0;
}
