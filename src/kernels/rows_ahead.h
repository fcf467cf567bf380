#pragma once
#include "kernels/jobs.h"

namespace cortiq::kernels {
namespace {

/// The rows of the next panel, asked for while tiles of tokens go through this one: a share of their lines in each
/// tile, a few with each group, so that memory works while the tile computes. In one go they would only be waited for.
class RowsAhead {
 public:
  RowsAhead() = default;
  /// `rows` of blocks of 16 that lie side by side, `lines` of 64 bytes each.
  RowsAhead(const Block* blocks, uint64_t rows, uint64_t lines, uint64_t tiles, uint64_t groups) noexcept
      : blocks_(blocks), lines_(lines), left_(rows * lines) {
    share_ = (left_ + tiles - 1) / tiles;
    at_once_ = (share_ + groups - 1) / groups;
  }
  void begin_tile() noexcept {
    budget_ = share_ < left_ ? share_ : left_;
    left_ -= budget_;
  }
  /// To be called once a group.
  void some() noexcept {
    for (uint64_t i = 0; i < at_once_ && budget_ > 0; ++i, --budget_) {
      __builtin_prefetch(blocks_[row_ / kBlockRows].codes[row_ % kBlockRows] + 64 * line_, 0, 2);
      if (++line_ < lines_) continue;
      line_ = 0;
      ++row_;
    }
  }

 private:
  const Block* blocks_ = nullptr;
  uint64_t lines_ = 0, share_ = 0, at_once_ = 0;
  uint64_t left_ = 0, budget_ = 0;  // lines still to be asked for: of the panel, of the tile
  uint64_t row_ = 0, line_ = 0;
};

}  // namespace
}  // namespace cortiq::kernels
