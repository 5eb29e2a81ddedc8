/* One rank that sends to itself: out of shared virtual memory of OpenCL into memory of its own. */
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  cl_platform_id platform;
  cl_device_id device;
  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS) return 77;
  if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) return 77;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  char *shared = clSVMAlloc(context, CL_MEM_READ_WRITE, 4096, 0), own[1000];
  if (shared == NULL) return 77;
  MPI_Init(&argc, &argv);
  MPI_Sendrecv(shared + 96, 1000, MPI_CHAR, 0, 1, own, 1000, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(own, 10, MPI_CHAR, 0, 2, own + 10, 10, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  clSVMFree(context, shared);
  clReleaseContext(context);
  return 0;
}
