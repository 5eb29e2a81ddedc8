// One parallel region in each of two instances of a template.
#include <vector>

namespace parts {
template <typename T> struct Field {
  template <int shift> static void move(std::vector<T> &values) {
#pragma omp parallel for
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += shift;
  }
};
} // namespace parts

int main() {
  std::vector<double> values(1000);
  parts::Field<double>::move<3>(values);
  parts::Field<double>::move<4>(values);
  return values[7] != 7;
}
