#include "convert/fused.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace cortiq::convert {
namespace {

using Range = Recipe::Range;

class Splitter {
 public:
  Splitter(const Source& source, const SourceTensor& tensor, const std::string& name, const cmf::Arch& arch,
           const Layout& layout, std::vector<Mapped>& out)
      : source_(source), tensor_(tensor), name_(name), arch_(arch), layout_(layout), out_(out) {}

  void run() {
    struct Form {
      std::string_view ending;
      void (Splitter::*split)();
    };
    static constexpr Form kForms[] = {
        {"self_attn.qkv_proj.weight", &Splitter::query_key_value},
        {"self_attn.qkv_proj.bias", &Splitter::query_key_value},
        {"mlp.experts.gate_up_proj", &Splitter::experts_gate_up},
        {"mlp.experts.down_proj", &Splitter::experts_down},
        {"mlp.gate_up_proj.weight", &Splitter::gate_up},
        {"mlp.gate_up_proj.bias", &Splitter::gate_up},
        {"linear_attn.in_proj_qkvz.weight", &Splitter::delta_qkvz},
        {"linear_attn.in_proj_ba.weight", &Splitter::delta_ba},
    };
    for (const Form& form : kForms) {
      if (!name_.ends_with(form.ending)) continue;
      stem_ = name_.substr(0, name_.size() - form.ending.size());
      return (this->*form.split)();
    }
    out_.push_back({name_, tensor_.shape, Recipe{.source = &source_, .tensor = &tensor_}, {}});
  }

 private:
  [[noreturn]] void does_not_add_up(const std::string& expected) const {
    fail(ErrorKind::Bounds, "tensor '{}' {}: {} expected", printable(tensor_.name), tensor_.shape_text(), expected);
  }

  static uint64_t total(const std::vector<Range>& ranges) {
    uint64_t sum = 0;
    for (const Range& range : ranges) sum += range.count;
    return sum;
  }

  // Rows of a matrix, or elements of a vector, as a tensor of their own.
  void part(const std::string& name, std::vector<Range> ranges) {
    Mapped one{stem_ + name, {total(ranges)}, Recipe{.source = &source_, .tensor = &tensor_}, {}};
    one.note = fmt::format("{} of {}", described(ranges), printable(tensor_.name, 120));
    if (tensor_.shape.size() == 2) {
      one.shape.push_back(tensor_.cols());
      one.recipe.rows = std::move(ranges);
    } else {
      one.recipe.columns = std::move(ranges);
    }
    out_.push_back(std::move(one));
  }

  static std::string described(const std::vector<Range>& ranges) {
    if (ranges.size() == 1) return fmt::format("rows {}..{}", ranges[0].first, ranges[0].first + ranges[0].count - 1);
    return fmt::format("{} rows in {} groups", total(ranges), ranges.size());
  }

  uint64_t length() const { return tensor_.shape.empty() ? 1 : tensor_.shape[0]; }

  void require_rank(size_t rank) const {
    if (tensor_.shape.size() != rank) does_not_add_up(fmt::format("{} dimensions", rank));
  }

  std::string kind() const { return name_.substr(name_.rfind('.')); }  // ".weight" or ".bias"

  void query_key_value() {
    require_rank(kind() == ".bias" ? 1 : 2);
    const uint64_t q = arch_.heads(layer()) * arch_.head_dim, kv = arch_.num_kv_heads * arch_.head_dim;
    if (length() != q + 2 * kv) does_not_add_up(fmt::format("{} query, {} key and {} value rows", q, kv, kv));
    part("self_attn.q_proj" + kind(), {{0, q}});
    part("self_attn.k_proj" + kind(), {{q, kv}});
    part("self_attn.v_proj" + kind(), {{q + kv, kv}});
  }

  uint64_t layer() const {
    const size_t at = stem_.find("layers.");
    uint64_t number = 0;
    if (at != stem_.npos) std::from_chars(stem_.data() + at + 7, stem_.data() + stem_.size(), number);
    return std::min(number, arch_.num_layers - 1);
  }

  void gate_up() {
    require_rank(kind() == ".bias" ? 1 : 2);
    if (length() % 2 != 0) does_not_add_up("an even number of rows");
    part("mlp.gate_proj" + kind(), {{0, length() / 2}});
    part("mlp.up_proj" + kind(), {{length() / 2, length() / 2}});
  }

  // [E, out, in], or transposed [E, in, out]: the shape tells, unless it fits both ways.
  bool is_transposed(uint64_t outs, uint64_t ins) const {
    const bool plain = tensor_.shape[1] == outs && tensor_.shape[2] == ins;
    const bool turned = tensor_.shape[1] == ins && tensor_.shape[2] == outs;
    if (!plain && !turned) does_not_add_up(fmt::format("[experts, {}, {}] or its transpose", outs, ins));
    if (plain && turned && !layout_.fused_experts_plain) {
      const std::string other =
          stem_ + (name_.ends_with("down_proj") ? "mlp.experts.gate_up_proj" : "mlp.experts.down_proj");
      fail(ErrorKind::Unsupported,
           "tensor '{}' {}: rows and columns are equal, so that its orientation is unknown (see also '{}')",
           printable(tensor_.name), tensor_.shape_text(), printable(other));
    }
    return !plain;
  }

  uint64_t check_experts() const {
    if (!arch_.moe) does_not_add_up("no experts, since the config has none,");
    require_rank(3);
    if (tensor_.shape[0] != arch_.moe->num_experts) does_not_add_up(fmt::format("{} experts", arch_.moe->num_experts));
    return arch_.moe->moe_intermediate_size;
  }

  // Rows [first, first + count) of expert e's matrix, stored as [outs, ins] or turned.
  void expert(uint64_t e, std::string_view role, uint64_t first, uint64_t count, uint64_t outs, uint64_t ins,
              bool turned) {
    Mapped one{fmt::format("{}mlp.experts.{}.{}_proj.weight", stem_, e, role),
               {count, ins},
               Recipe{.source = &source_, .tensor = &tensor_},
               fmt::format("expert {} of {}", e, printable(tensor_.name, 120))};
    if (turned) {
      one.recipe.rows = {{e * ins, ins}};
      if (count != outs) one.recipe.columns = {{first, count}};
      one.recipe.transpose = true;
    } else {
      one.recipe.rows = {{e * outs + first, count}};
    }
    out_.push_back(std::move(one));
  }

  void experts_gate_up() {
    const uint64_t inner = check_experts(), hidden = arch_.hidden_size;
    const bool turned = is_transposed(2 * inner, hidden);
    for (uint64_t e = 0; e < tensor_.shape[0]; ++e) {
      expert(e, "gate", 0, inner, 2 * inner, hidden, turned);
      expert(e, "up", inner, inner, 2 * inner, hidden, turned);
    }
  }

  void experts_down() {
    const uint64_t inner = check_experts(), hidden = arch_.hidden_size;
    const bool turned = is_transposed(hidden, inner);
    for (uint64_t e = 0; e < tensor_.shape[0]; ++e) expert(e, "down", 0, hidden, hidden, inner, turned);
  }

  // Rows are grouped by key head: [q dk | k dk | v r·dv | z r·dv] (ENGINE_FACTS §8).
  void delta_qkvz() {
    require_rank(2);
    const DeltaSizes s = delta_sizes();
    const uint64_t group = 2 * s.key + 2 * s.ratio * s.value;
    if (length() != s.heads * group) does_not_add_up(fmt::format("{} groups of {} rows", s.heads, group));
    std::vector<Range> qkv, z;
    for (uint64_t g = 0; g < s.heads; ++g) qkv.push_back({g * group, s.key});
    for (uint64_t g = 0; g < s.heads; ++g) qkv.push_back({g * group + s.key, s.key});
    for (uint64_t g = 0; g < s.heads; ++g) qkv.push_back({g * group + 2 * s.key, s.ratio * s.value});
    for (uint64_t g = 0; g < s.heads; ++g) z.push_back({g * group + 2 * s.key + s.ratio * s.value, s.ratio * s.value});
    part("linear_attn.in_proj_qkv.weight", std::move(qkv));
    part("linear_attn.in_proj_z.weight", std::move(z));
  }

  void delta_ba() {
    require_rank(2);
    const DeltaSizes s = delta_sizes();
    if (length() != 2 * s.heads * s.ratio) does_not_add_up(fmt::format("{} groups of {} rows", s.heads, 2 * s.ratio));
    std::vector<Range> b, a;
    for (uint64_t g = 0; g < s.heads; ++g) b.push_back({g * 2 * s.ratio, s.ratio});
    for (uint64_t g = 0; g < s.heads; ++g) a.push_back({g * 2 * s.ratio + s.ratio, s.ratio});
    part("linear_attn.in_proj_b.weight", std::move(b));
    part("linear_attn.in_proj_a.weight", std::move(a));
  }

  struct DeltaSizes {
    uint64_t heads, ratio, key, value;
  };
  DeltaSizes delta_sizes() const {
    if (!arch_.linear_num_key_heads) does_not_add_up("no delta net, since the config has none,");
    return {*arch_.linear_num_key_heads, *arch_.linear_num_value_heads / *arch_.linear_num_key_heads,
            *arch_.linear_key_head_dim, *arch_.linear_value_head_dim};
  }

  const Source& source_;
  const SourceTensor& tensor_;
  const std::string& name_;
  const cmf::Arch& arch_;
  const Layout& layout_;
  std::vector<Mapped>& out_;
  std::string stem_;
};

}  // namespace

void split_fused(const Source& source, const SourceTensor& tensor, const std::string& name, const cmf::Arch& arch,
                 const Layout& layout, std::vector<Mapped>& out) {
  Splitter(source, tensor, name, arch, layout, out).run();
}

bool same_values(const Source& source_a, const SourceTensor& a, const Source& source_b, const SourceTensor& b) {
  if (a.shape != b.shape) return false;
  const uint64_t piece = std::max<uint64_t>(1, (1 << 20) / std::max<uint64_t>(1, a.cols()));
  std::vector<float> left(piece * a.cols()), right(left.size());
  for (uint64_t row = 0; row < a.rows(); row += piece) {
    const uint64_t count = std::min(piece, a.rows() - row);
    source_a.read_rows(a, row, count, left.data());
    source_b.read_rows(b, row, count, right.data());
    if (std::memcmp(left.data(), right.data(), count * a.cols() * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace cortiq::convert
