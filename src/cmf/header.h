#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cmf/arch.h"

namespace cortiq::cmf {

/// The chat bundle (§6.1).
struct ChatBundle {
  std::optional<std::string> chat_template;
  std::vector<uint32_t> eos_token_ids;
  std::optional<uint32_t> bos_token_id, pad_token_id;
};

/// How a skill is found (§9): an affine subspace of mean and orthonormal rows.
struct Selection {
  std::string metric;
  uint64_t phi_layer = 0, rank = 0;
  std::vector<float> mean;   ///< [hidden]
  std::vector<float> basis;  ///< [rank, hidden], rows are directions
  std::string prompt;        ///< additive: "chat" or empty (raw text)
  std::string unusable;      ///< why the record cannot route (bad lengths, unknown metric); empty: it can
};

inline constexpr uint64_t kMaxSkillId = 256;  ///< bytes

struct SkillRecord {
  std::string id, name, input_mask_task, base_dir_hash, base_arch, task;
  std::vector<uint64_t> layers;
  std::optional<Selection> selection;
  std::string json;  ///< the whole record as it stands in the file, unknown keys and all
};

struct ShardPlace {
  uint64_t no = 1, count = 1;  ///< 1-based
};

/// What the header says about the other sections (§8.1); absent: unprotected.
struct SectionHashes {
  std::optional<uint64_t> masks, vocab, index;
};

/// The header JSON (§2). Typed where the machine needs it; `json` is the whole document as parse_lossless_json() keeps
/// it, so that a rewrite keeps unknown keys with their values. Numbers in ignored values may be of any size and nesting
/// of any depth up to 256.
struct Header {
  Arch arch;
  std::string quant_type;
  std::optional<ChatBundle> chat;
  std::vector<SkillRecord> skills;
  std::optional<ShardPlace> shard;
  SectionHashes section_hashes;
  std::shared_ptr<const Json> json;

  /// The registry's record, or nullptr.
  const SkillRecord* skill(std::string_view id) const noexcept;
};

/// The mean and basis of a selection as the header spells them: base64 of little-endian halves (§9).
std::string encode_halves(std::span<const float> values);

/// Parses and checks header JSON (FORMAT_FACTS §4, §4.5, §8.1; cases row 17). Parse with the JSON path.
Header parse_header(std::string_view text, std::string_view what);

}  // namespace cortiq::cmf
