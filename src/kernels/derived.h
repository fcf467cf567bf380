#pragma once
#include <mutex>
#include <vector>

#include "kernels/matrix.h"

namespace cortiq::kernels {

struct Matrix::Derived {
  std::once_flag once;
  std::vector<float> ladder;      ///< q4tp: first rung and ratio of each row
  std::vector<uint64_t> offsets;  ///< vbit: where each row begins in the packed plane, rows + 1 values
};

}  // namespace cortiq::kernels
