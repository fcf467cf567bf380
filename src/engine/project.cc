#include <algorithm>
#include <cstring>

#include "engine/pass.h"

// Matrix products of a batch whose rows may be bound to different weights: rows for which a projection means the same
// matrix and the same live neurons go through it together.
namespace cortiq::engine {

using Part = Projection::Part;

// All rows are bound alike, as far as these projections go.
void Pass::multiply(uint32_t binding, const Where& where, const float* x, uint64_t rows, uint64_t width,
                    uint64_t stride, std::span<const Projection> projections) {
  const std::vector<uint32_t>* alive = live(binding, where);
  products_.clear();
  for (const Projection& projection : projections) {
    const kernels::Matrix& weight = bindings_[binding]->matrix(projection.weight);
    kernels::Product product;
    product.weight = &weight;
    product.y = projection.y;
    product.stride = projection.stride;
    if (alive != nullptr && projection.part == Part::LiveRows) {
      if (alive->empty()) continue;
      product.rows = *alive;
    } else if (alive != nullptr && projection.part == Part::LiveColumns) {
      if (alive->empty()) {
        for (uint64_t i = 0; i < rows; ++i) std::fill_n(projection.y + i * projection.stride, weight.rows(), 0.0f);
        continue;
      }
      product.columns = *alive;
      width = alive->size();
    }
    products_.push_back(product);
  }
  if (products_.empty()) return;
  kernels::matmul(products_, {x, rows, width, stride}, mode_, workspace_, pool_);
}

// class_ holds the class of every binding, as project() found it.
void Pass::project_apart(RowInfos rows, const Where& where, const float* x, uint64_t width,
                         const Projection& projection) {
  for (uint32_t c = 0; c < class_.size(); ++c) {
    if (class_[c] != c) continue;
    member_.clear();
    for (uint32_t i = 0; i < rows.size(); ++i) {
      if (class_[rows[i].binding] == c) member_.push_back(i);
    }
    if (member_.empty()) continue;
    const uint64_t outputs = bindings_[c]->matrix(projection.weight).rows();
    float* in = room(gathered_, member_.size() * width);
    for (size_t i = 0; i < member_.size(); ++i) {
      std::memcpy(in + i * width, x + member_[i] * width, width * sizeof(float));
    }
    Projection part = projection;
    part.y = room(product_, member_.size() * outputs);
    part.stride = outputs;
    multiply(c, where, in, member_.size(), width, width, {&part, 1});
    const std::vector<uint32_t>* alive = projection.part == Part::LiveRows ? live(c, where) : nullptr;
    const uint64_t written = alive == nullptr ? outputs : alive->size();
    for (size_t i = 0; i < member_.size(); ++i) {
      std::memcpy(projection.y + member_[i] * projection.stride, part.y + i * outputs, written * sizeof(float));
    }
  }
}

// x [rows][width] is packed: with LiveColumns its rows are `width` apart, and their first live.size() values count.
void Pass::project(RowInfos rows, const Where& where, const float* x, uint64_t width,
                   std::span<const Projection> projections) {
  if (bindings_.size() == 1) {
    multiply(0, where, x, rows.size(), width, width, projections);
  } else {
    together_.clear();
    const uint32_t any = rows.front().binding;
    for (const Projection& projection : projections) {
      // class_[b]: the first binding among the rows' that means the same by this projection.
      class_.assign(bindings_.size(), ~uint32_t{0});
      uint32_t distinct = 0;
      for (const RowInfo& row : rows) {
        uint32_t& mine = class_[row.binding];
        if (mine != ~uint32_t{0}) continue;
        for (uint32_t b = 0; b < bindings_.size() && mine == ~uint32_t{0}; ++b) {
          const bool same =
              class_[b] == b &&
              &bindings_[b]->matrix(projection.weight) == &bindings_[row.binding]->matrix(projection.weight) &&
              (projection.part == Part::Whole || live(b, where) == live(row.binding, where));
          if (same) mine = b;
        }
        if (mine == ~uint32_t{0}) {
          mine = row.binding;
          ++distinct;
        }
      }
      if (distinct == 1) {
        together_.push_back(projection);
      } else {
        project_apart(rows, where, x, width, projection);
      }
    }
    if (!together_.empty()) multiply(any, where, x, rows.size(), width, width, together_);
  }

  for (const Projection& projection : projections) {
    if (!projection.bias) continue;
    for_rows(rows.size(), [&](size_t i) {
      const float* bias = binding(rows[i]).vector(projection.bias);
      float* y = projection.y + i * projection.stride;
      const std::vector<uint32_t>* alive = projection.part == Part::LiveRows ? live(rows[i].binding, where) : nullptr;
      if (alive == nullptr) {
        kernels::add(y, bias, binding(rows[i]).matrix(projection.weight).rows());
      } else {
        for (size_t j = 0; j < alive->size(); ++j) y[j] += bias[(*alive)[j]];
      }
    });
  }
}

}  // namespace cortiq::engine
