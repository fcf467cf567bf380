#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/matrix.h"
#include "kernels/scratch.h"

namespace cortiq::kernels {

/// Rows of f32 activations [count × width], row t at data + t·stride.
struct Rows {
  const float* data = nullptr;
  uint64_t count = 0, width = 0, stride = 0;
};

/// One product of a group that shares its input: y[t, r] = Σ_c W[r, c]·x[t, c], written at y + t·stride + r.
///
/// rows     if not empty: only these rows of W, ascending; outputs are packed (rows.size() of them per t). Rows not
///          listed are not read.
/// columns  if not empty: x holds only these columns of W, packed ascending (x.width == columns.size()); the others
///          count as zeros. Exact mode and float matrices sum over the packed columns as the cut matrix would
///          (decisions 7); in Fast mode they are zeros in their original groups, and the weights are read whole: a
///          caller that drops many columns for long keeps a gathered copy (decisions 28).
struct Product {
  const Matrix* weight = nullptr;
  float* y = nullptr;
  uint64_t stride = 0;
  std::span<const uint32_t> rows = {};
  std::span<const uint32_t> columns = {};
};

/// Scratch that the kernels need; grows to the largest request and then allocates no more. One per decoder.
class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;
  struct State;
  State& state() noexcept { return *state_; }
  Scratch& scratch() noexcept { return scratch_; }  ///< of attention and the delta rule

 private:
  std::unique_ptr<State> state_;
  Scratch scratch_;
};

/// Multiplies all products of the group with the same x in one parallel loop. x is quantised once for all integer
/// matrices that take it as it is (q8_2f folds its column field first, each for itself).
///
/// Every output element is computed by one thread in one order that depends on the matrix's shape and dtype alone
/// (docs/numerics.md; the scalar kernel is the definition), so results do not change with the instruction set, the
/// number of threads, or the number of rows of x.
void matmul(std::span<const Product> group, const Rows& x, Mode mode, Workspace& workspace, ThreadPool& pool);

}  // namespace cortiq::kernels
