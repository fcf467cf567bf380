#include "kernels/matmul.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/cpu.h"
#include "base/error.h"
#include "kernels/planes.h"
#include "kernels/workspace.h"

namespace cortiq::kernels {
namespace {

using codec::Dtype;
using codec::kGroup;

constexpr uint64_t kSegmentGroups = 32;      // groups that one piece of the quantisation handles
constexpr uint64_t kPanelRows = 32;          // rows that belong together: work is split at multiples of it
constexpr uint64_t kInlineElements = 16384;  // fewer are quantised sooner than another thread could be told

Flavour flavour_of(Weights weights) noexcept {
  switch (weights) {
    case Weights::Q8:
      return Flavour::Q8;
    case Weights::Vbit:
      return Flavour::Vbit;
    case Weights::Q1:
      return Flavour::Q1;
    case Weights::Q1t:
      return Flavour::Q1t;
    default:
      return Flavour::Q4;
  }
}

uint8_t* bytes_of(Scratch& scratch, uint64_t n) { return reinterpret_cast<uint8_t*>(scratch.floats((n + 3) / 4)); }

class Multiplication {
 public:
  Multiplication(std::span<const Product> group, const Rows& x, Mode mode, Workspace::State& state, ThreadPool& pool)
      : group_(group), x_(x), mode_(mode), state_(state), table_(*state.table), pool_(pool) {}

  void run() {
    plan();
    allocate();
    quantise();
    if (state_.plans.empty() || chunks_ == 0) return;
    parallel(chunks_, [&](size_t worker, uint64_t chunk) {
      auto plan = state_.plans.rbegin();
      while (plan->first_chunk > chunk) ++plan;
      const uint64_t first = (chunk - plan->first_chunk) * plan->chunk_rows;
      const uint64_t count = std::min(plan->chunk_rows, plan->rows - first);
      if (plan->integer) {
        integer_chunk(*plan, first, count, state_.workers[worker]);
      } else {
        float_chunk(*plan, first, count, state_.workers[worker]);
      }
    });
  }

 private:
  void plan() {
    state_.plans.clear();
    state_.sets.clear();
    uint64_t bytes = 0;
    for (const Product& product : group_) {
      const Matrix& matrix = *product.weight;
      const uint64_t width = product.columns.empty() ? matrix.cols() : product.columns.size();
      if (width != x_.width) {
        fail(ErrorKind::Bounds, "matrix product: {} activations a row for {} columns", x_.width, width);
      }
      Plan plan{};
      plan.product = &product;
      plan.integer = mode_ == Mode::Fast && matrix.integer();
      plan.rows = product.rows.empty() ? matrix.rows() : product.rows.size();
      if (plan.integer) {
        plan.planes = planes_of(matrix);
        plan.set = activation_set(product, plan.planes);
      } else if (matrix.integer() && table_.decode != nullptr) {
        plan.planes = planes_of(matrix);
        plan.decode_scratch = table_.scratch_bytes(plan.planes, 1);
      }
      bytes += plan.rows * (matrix.bytes() / std::max<uint64_t>(1, matrix.rows()));
      state_.plans.push_back(plan);
    }
    // Pieces of about equal bytes; several a thread, so that one delayed by the system holds up little.
    const uint64_t share = pool_.threads() == 1 ? bytes : std::max<uint64_t>(bytes / (pool_.threads() * 8), 16384);
    for (Plan& plan : state_.plans) {
      const Matrix& matrix = *plan.product->weight;
      const uint64_t row_bytes = std::max<uint64_t>(1, matrix.bytes() / std::max<uint64_t>(1, matrix.rows()));
      plan.chunk_rows = std::max<uint64_t>(1, (share / row_bytes + kPanelRows - 1) / kPanelRows) * kPanelRows;
      plan.first_chunk = chunks_;
      chunks_ += (plan.rows + plan.chunk_rows - 1) / plan.chunk_rows;
    }
  }

  size_t activation_set(const Product& product, const Planes& planes) {
    ActivationSet want{};
    want.flavour = flavour_of(planes.weights);
    want.columns = product.columns;
    want.cols = planes.cols;
    want.groups = planes.groups;
    want.spread = !product.columns.empty() && planes.overlay != Planes::Overlay::None;
    if (product.weight->dtype() == Dtype::Q8TwoField) want.field = planes.scales + 2 * planes.rows;
    for (size_t i = 0; i < state_.sets.size(); ++i) {
      ActivationSet& have = state_.sets[i];
      if (have.flavour == want.flavour && have.field == want.field && have.cols == want.cols &&
          have.columns.data() == want.columns.data() && have.columns.size() == want.columns.size()) {
        have.spread |= want.spread;
        return i;
      }
    }
    state_.sets.push_back(want);
    return state_.sets.size() - 1;
  }

  void allocate() {
    if (x_.count != 0) {
      const uint64_t tiles = (x_.count + table_.tile_limit(x_.count) - 1) / table_.tile_limit(x_.count);
      state_.tiles.clear();
      for (uint64_t i = 0, at = 0; i < tiles; ++i) {
        const uint64_t tokens = (x_.count - at + tiles - i - 1) / (tiles - i);  // evenly: 13 = 7 + 6, not 8 + 5
        state_.tiles.push_back({at, static_cast<uint32_t>(tokens)});
        at += tokens;
      }
    } else {
      chunks_ = 0;
      state_.tiles.clear();
    }
    constexpr uint64_t kAlign = 64;
    uint64_t total = 0, spread = 0;
    for (ActivationSet& set : state_.sets) {
      set.token_bytes = table_.token_bytes(set.flavour, x_.count, set.groups);
      total += (set.token_bytes * x_.count + kAlign - 1) / kAlign * kAlign;
      if (set.spread) spread += set.cols * x_.count;
      set.first_item = items_;
      elements_ += x_.count * set.cols;
      items_ += state_.tiles.size() * ((set.groups + kSegmentGroups - 1) / kSegmentGroups);
    }
    uint8_t* data = bytes_of(state_.activations, total);
    float* spread_x = state_.spread.floats(spread);
    for (ActivationSet& set : state_.sets) {
      set.data = data;
      set.spread_x = spread_x;
      data += (set.token_bytes * x_.count + kAlign - 1) / kAlign * kAlign;
      if (set.spread) spread_x += set.cols * x_.count;
    }
    if (state_.workers.size() < pool_.threads()) state_.workers.resize(pool_.threads());
  }

  // Pieces are taken from a counter; `worker` tells which scratch memory belongs to the thread.
  template <class Body>
  void parallel(uint64_t count, const Body& body) {
    std::atomic<uint64_t> next{0};
    pool_.run(static_cast<size_t>(std::min<uint64_t>(count, pool_.threads())), [&](size_t worker) {
      while (true) {
        const uint64_t i = next.fetch_add(1, std::memory_order_relaxed);
        if (i >= count) return;
        body(worker, i);
      }
    });
  }

  void quantise() {
    const auto item = [&](size_t worker, uint64_t i) {
      auto set = state_.sets.rbegin();
      while (set->first_item > i) ++set;
      const uint64_t segments = (set->groups + kSegmentGroups - 1) / kSegmentGroups;
      i -= set->first_item;
      quantise_piece(*set, state_.tiles[i / segments], i % segments * kSegmentGroups, state_.workers[worker]);
    };
    if (items_ <= 1 || elements_ <= kInlineElements) {
      for (uint64_t i = 0; i < items_; ++i) item(0, i);
    } else {
      parallel(items_, item);
    }
  }

  void quantise_piece(const ActivationSet& set, const Tile& tile, uint64_t first_group, Scratch& scratch) {
    const uint64_t last_group = std::min(set.groups, first_group + kSegmentGroups);
    const uint64_t first = first_group * kGroup, last = std::min(set.cols, last_group * kGroup);
    QuantiseJob job{};
    job.flavour = set.flavour;
    job.tokens = tile.tokens;
    job.groups = set.groups;
    job.first_group = first_group;
    job.last_group = last_group;
    job.out = set.data + tile.first * set.token_bytes;
    if (set.columns.empty() && set.field == nullptr && last == last_group * kGroup) {
      job.x = x_.data + tile.first * x_.stride + first;
      job.stride = x_.stride;
    } else {
      constexpr uint64_t kWidth = kSegmentGroups * kGroup;
      float* copy = scratch.floats((tile.tokens + 1) * kWidth);
      float* field = copy + tile.tokens * kWidth;
      if (set.field) table_.widen(Format::F16, set.field + 2 * first, last - first, field);
      for (uint32_t t = 0; t < tile.tokens; ++t) {
        gather(set, x_.data + (tile.first + t) * x_.stride, first, last, copy + t * kWidth);
        std::fill(copy + t * kWidth + (last - first), copy + (t + 1) * kWidth, 0.0f);
        if (set.spread) {
          std::copy_n(copy + t * kWidth, last - first, set.spread_x + (tile.first + t) * set.cols + first);
        }
        if (set.field) {
          for (uint64_t c = 0; c < last - first; ++c) copy[t * kWidth + c] *= field[c];
        }
      }
      job.x = copy;
      job.stride = kWidth;
    }
    table_.quantise(job);
  }

  // Columns [first, last) of one token.
  static void gather(const ActivationSet& set, const float* x, uint64_t first, uint64_t last, float* out) {
    if (set.columns.empty()) {
      std::copy(x + first, x + last, out);
      return;
    }
    std::fill(out, out + (last - first), 0.0f);
    auto column = std::lower_bound(set.columns.begin(), set.columns.end(), first);
    for (; column != set.columns.end() && *column < last; ++column) {
      out[*column - first] = x[column - set.columns.begin()];
    }
  }

  void integer_chunk(const Plan& plan, uint64_t first, uint64_t count, Scratch& scratch) {
    const ActivationSet& set = state_.sets[plan.set];
    IntegerJob job{};
    job.weight = &plan.planes;
    job.list = plan.product->rows.empty() ? nullptr : plan.product->rows.data();
    job.first = first;
    job.count = count;
    job.tiles = state_.tiles.data();
    job.tile_count = static_cast<uint32_t>(state_.tiles.size());
    job.activations = set.data;
    job.token_bytes = set.token_bytes;
    job.x = set.spread ? set.spread_x : x_.data;
    job.x_stride = set.spread ? set.cols : x_.stride;
    job.y = plan.product->y + first;
    job.y_stride = plan.product->stride;
    job.scratch = bytes_of(scratch, table_.scratch_bytes(plan.planes, x_.count));
    table_.integer(job);
  }

  void float_chunk(const Plan& plan, uint64_t first, uint64_t count, Scratch& scratch) {
    const Matrix& matrix = *plan.product->weight;
    const Dtype dtype = matrix.dtype();
    const Format format = dtype == Dtype::F16 ? Format::F16 : dtype == Dtype::BF16 ? Format::BF16 : Format::F32;
    const bool stored = dtype == Dtype::F32 || format != Format::F32;
    // A half that several tokens use is widened once, unless there are so few that widening costs more than it saves.
    const bool direct = stored && plan.product->columns.empty() && (format == Format::F32 || x_.count <= 4);
    const uint64_t pitch = (matrix.cols() + kGroup - 1) / kGroup * kGroup;
    // [rows][column field of q8_2f][the decoder's own]
    float* decoded = direct ? nullptr : scratch.floats((kPanelRows + 1) * pitch + plan.decode_scratch / sizeof(float));
    const bool fold = plan.decode_scratch != 0 && dtype == Dtype::Q8TwoField;
    float* field = fold ? decoded + kPanelRows * pitch : nullptr;
    if (fold) table_.widen(Format::F16, plan.planes.scales + 2 * plan.planes.rows, matrix.cols(), field);
    const uint8_t* rows[kPanelRows];
    for (uint64_t at = first; at < first + count; at += kPanelRows) {
      FloatJob job{};
      job.count = static_cast<uint32_t>(std::min(kPanelRows, first + count - at));
      job.rows = rows;
      job.format = direct ? format : Format::F32;
      job.cols = x_.width;
      for (uint32_t i = 0; i < job.count; ++i) {
        rows[i] = direct
                      ? matrix.payload().data() + row_of(plan, at + i) * matrix.cols() * (format == Format::F32 ? 4 : 2)
                      : reinterpret_cast<const uint8_t*>(decoded + i * pitch);
      }
      if (!direct) decode_rows(plan, stored ? format : Format::F32, stored, at, job.count, decoded, pitch, field);
      job.x = x_.data;
      job.x_stride = x_.stride;
      job.tokens = x_.count;
      job.y = plan.product->y + at;
      job.y_stride = plan.product->stride;
      table_.floating(job);
    }
  }

  static uint64_t row_of(const Plan& plan, uint64_t index) {
    return plan.product->rows.empty() ? index : plan.product->rows[index];
  }

  // Rows of the product as f32, their listed columns packed. Scratch memory for the decoder lies behind them.
  void decode_rows(const Plan& plan, Format format, bool stored, uint64_t first, uint32_t count, float* out,
                   uint64_t pitch, const float* field) {
    const Matrix& matrix = *plan.product->weight;
    if (plan.decode_scratch != 0) {
      IntegerJob job{};
      job.weight = &plan.planes;
      job.list = plan.product->rows.empty() ? nullptr : plan.product->rows.data();
      job.first = first;
      job.count = count;
      job.scratch = reinterpret_cast<uint8_t*>(out + (kPanelRows + 1) * pitch);
      table_.decode(job, out, pitch);
    }
    for (uint32_t i = 0; i < count; ++i, out += pitch) {
      const uint64_t row = row_of(plan, first + i);
      if (stored) {
        table_.widen(format, matrix.payload().data() + row * matrix.cols() * (format == Format::F32 ? 4 : 2),
                     matrix.cols(), out);
      } else if (plan.decode_scratch == 0) {
        matrix.decode_row(row, out);
      } else if (field != nullptr) {
        for (uint64_t c = 0; c < matrix.cols(); ++c) out[c] *= field[c];
      }
      const auto columns = plan.product->columns;
      for (size_t c = 0; c < columns.size(); ++c) out[c] = out[columns[c]];
    }
  }

  std::span<const Product> group_;
  const Rows& x_;
  Mode mode_;
  Workspace::State& state_;
  const KernelTable& table_;
  ThreadPool& pool_;
  uint64_t chunks_ = 0, items_ = 0, elements_ = 0;
};

}  // namespace

const KernelTable& kernels_for(Isa isa) noexcept {
#if defined(__x86_64__)
  if (isa == Isa::Avx512Vnni) return kAvx512VnniKernels;
  if (isa == Isa::Avx512) return kAvx512Kernels;
  if (isa == Isa::AvxVnni) return kAvxVnniKernels;
  if (isa == Isa::Avx2) return kAvx2Kernels;
#elif defined(__aarch64__)
  if (isa == Isa::Neon) return kNeonKernels;
#endif
  (void)isa;
  return kScalarKernels;
}

Workspace::Workspace() : state_(std::make_unique<State>()) { state_->table = &kernels_for(active_isa()); }
Workspace::~Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;

void matmul(std::span<const Product> group, const Rows& x, Mode mode, Workspace& workspace, ThreadPool& pool) {
  Multiplication(group, x, mode, workspace.state(), pool).run();
}

}  // namespace cortiq::kernels
