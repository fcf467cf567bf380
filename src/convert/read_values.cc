#include "convert/read_values.h"

#include <algorithm>
#include <cstring>

namespace cortiq::convert {
namespace {

constexpr uint64_t kPiece = 1 << 18;  // elements a thread reads at once: 1 MB of f32

using Range = Recipe::Range;

// Output rows of a recipe as runs of consecutive source rows, each short enough to be one thread's piece.
struct Run {
  uint64_t source_row, count, output_row;
};

std::vector<Run> runs_of(const Recipe& recipe) {
  const SourceTensor& tensor = *recipe.tensor;
  const std::vector<Range> whole{{0, tensor.rows()}};
  const uint64_t piece = std::max<uint64_t>(1, kPiece / std::max<uint64_t>(1, tensor.cols()));
  std::vector<Run> out;
  uint64_t output = 0;
  for (const Range& range : recipe.rows.empty() ? whole : recipe.rows) {
    for (uint64_t done = 0; done < range.count; done += piece) {
      const uint64_t count = std::min(piece, range.count - done);
      out.push_back({range.first + done, count, output});
      output += count;
    }
  }
  return out;
}

void check_inside(const Recipe& recipe) {
  const auto inside = [](const std::vector<Range>& ranges, uint64_t size) {
    return std::all_of(ranges.begin(), ranges.end(),
                       [&](const Range& one) { return one.first <= size && one.count <= size - one.first; });
  };
  if (!inside(recipe.rows, recipe.tensor->rows()) || !inside(recipe.columns, recipe.tensor->cols())) {
    fail(ErrorKind::Bounds, "a part outside the {} of tensor '{}'", recipe.tensor->shape_text(),
         printable(recipe.tensor->name));
  }
}

uint64_t total(const std::vector<Range>& ranges, uint64_t whole) {
  if (ranges.empty()) return whole;
  uint64_t sum = 0;
  for (const Range& range : ranges) sum += range.count;
  return sum;
}

}  // namespace

void read_values(const Recipe& recipe, std::span<float> out, ThreadPool& pool) {
  check_inside(recipe);
  const SourceTensor& tensor = *recipe.tensor;
  const uint64_t cols = tensor.cols();
  const std::vector<Range> all{{0, cols}};
  const std::vector<Range>& columns = recipe.columns.empty() ? all : recipe.columns;
  const uint64_t height = total(recipe.rows, tensor.rows()), width = total(recipe.columns, cols);
  if (checked_multiply(height, width) != out.size()) {
    fail(ErrorKind::Bounds, "tensor '{}': {} x {} values for {} places", printable(tensor.name), height, width,
         out.size());
  }
  const std::vector<Run> runs = runs_of(recipe);
  const bool straight = recipe.columns.empty() && !recipe.transpose;
  pool.run(runs.size(), [&](size_t i) {
    const Run& run = runs[i];
    if (straight)
      return recipe.source->read_rows(tensor, run.source_row, run.count, out.data() + run.output_row * width);
    std::vector<float> rows(run.count * cols);
    recipe.source->read_rows(tensor, run.source_row, run.count, rows.data());
    uint64_t column = 0;
    for (const Range& range : columns) {
      for (uint64_t r = 0; r < run.count; ++r) {
        const float* from = rows.data() + r * cols + range.first;
        const uint64_t row = run.output_row + r;
        if (!recipe.transpose) {
          std::memcpy(out.data() + row * width + column, from, range.count * sizeof(float));
        } else {
          for (uint64_t c = 0; c < range.count; ++c) out[(column + c) * height + row] = from[c];
        }
      }
      column += range.count;
    }
  });
}

std::vector<float> read_values(const PlannedTensor& tensor, ThreadPool& pool) {
  std::vector<float> out(tensor.shape.elements());
  read_values(tensor.recipe, out, pool);
  return out;
}

}  // namespace cortiq::convert
