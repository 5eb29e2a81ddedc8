// The largest eigenvalue of a dense matrix by ViennaCL's OpenCL backend.
#define VIENNACL_WITH_OPENCL
#include <iostream>
#include <vector>

#include <viennacl/linalg/inner_prod.hpp>
#include <viennacl/linalg/norm_2.hpp>
#include <viennacl/linalg/prod.hpp>
#include <viennacl/matrix.hpp>
#include <viennacl/vector.hpp>

int main() {
    const std::size_t size = 300;
    std::vector<float> host(size, 1.5f);
    viennacl::vector<float> x(size), y(size);
    viennacl::copy(host, x);
    viennacl::matrix<float> a = viennacl::scalar_matrix<float>(size, size, 0.5f);
    float norm = 0;
    for (int turn = 0; turn < 20; turn++) {
        y = viennacl::linalg::prod(a, x);
        norm = viennacl::linalg::norm_2(y);
        x = y / norm;
    }
    const float one = viennacl::linalg::inner_prod(x, x);
    std::cout << norm << " " << one << std::endl;
}
