#include "cmf/header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>

#include "base/hash64.h"
#include "cmf/fields.h"
#include "cmf/lossless_json.h"
#include "cmf/skill_record.h"

namespace cortiq::cmf {
namespace {

// The closed list of FORMAT_FACTS §4: other readers refuse a file with any other label.
constexpr std::array<std::string_view, 7> kQuantTypes{"Q8_ROW", "Q4_BLOCK", "Q8_2F", "VBIT", "BF16", "F16", "F32"};

constexpr uint64_t kTokenIds = std::numeric_limits<uint32_t>::max();

std::optional<uint32_t> token_id(const Fields& in, const char* key) {
  const auto id = in.maybe_integer(key, kTokenIds);
  return id ? std::optional(static_cast<uint32_t>(*id)) : std::nullopt;
}

ChatBundle parse_chat(const Fields& in) {
  ChatBundle out;
  out.chat_template = in.maybe_text("chat_template");
  for (const uint64_t id : in.integers("eos_token_ids", kTokenIds))
    out.eos_token_ids.push_back(static_cast<uint32_t>(id));
  out.bos_token_id = token_id(in, "bos_token_id");
  out.pad_token_id = token_id(in, "pad_token_id");
  return out;
}

ShardPlace parse_shard(const Fields& in) {
  const ShardPlace out{in.integer("no", 99999), in.integer("count", 99999)};
  if (out.count == 0) in.wrong("count", "must be at least 1");
  if (out.no == 0 || out.no > out.count)
    in.wrong("no", fmt::format("{} is not a number from 1 to {}", out.no, out.count));
  return out;
}

SectionHashes parse_section_hashes(const Fields& in) {
  const auto hash = [&](const char* key) -> std::optional<uint64_t> {
    const auto text = in.maybe_text(key);
    if (!text) return std::nullopt;
    return parse_hex64(*text, fmt::format("{}: {}.{}", in.what(), in.path(), key));
  };
  return {hash("masks"), hash("vocab"), hash("index")};
}

// Extensions of the reference that nothing here uses: their types are checked all the same (FORMAT_FACTS §4).
void check_extensions(const Fields& in) {
  if (const auto calibration = in.maybe_object("calibration")) calibration->number("temperature");
  if (const auto routing = in.maybe_object("routing")) {
    for (const char* key : {"temperature", "novelty_theta", "target_fpr"}) routing->number(key);
    routing->integer("samples");
  }
}

}  // namespace

const SkillRecord* Header::skill(std::string_view id) const noexcept {
  const auto at = std::find_if(skills.begin(), skills.end(), [&](const SkillRecord& one) { return one.id == id; });
  return at == skills.end() ? nullptr : &*at;
}

Header parse_header(std::string_view text, std::string_view what) {
  auto json = std::make_shared<const Json>(parse_lossless_json(text, what));
  const Fields in(*json, "", what);
  Header out;
  // §0 row 59: a header that names another format or version contradicts the envelope.
  if (const Json* format = in.find("format"); format && *format != "cmf") in.wrong("format", "must be \"cmf\"");
  if (const uint64_t version = in.integer("version"); version != 2) {
    in.wrong("version", fmt::format("{} contradicts the envelope's 2", version));
  }
  out.arch = parse_arch(in.object("arch").json(), what);
  out.quant_type = in.text("quant_type");
  if (std::find(kQuantTypes.begin(), kQuantTypes.end(), out.quant_type) == kQuantTypes.end()) {
    in.wrong("quant_type", fmt::format("'{}' is no known label", printable(out.quant_type, 60)));
  }
  if (const auto chat = in.maybe_object("tokenizer_config")) out.chat = parse_chat(*chat);
  if (const auto hashes = in.maybe_object("section_hashes")) out.section_hashes = parse_section_hashes(*hashes);
  if (const auto shard = in.maybe_object("shard")) out.shard = parse_shard(*shard);
  if (in.find("skills")) {
    std::unordered_set<std::string_view> ids;
    const Json& records = in.array("skills");
    out.skills.reserve(records.size());
    for (size_t i = 0; i < records.size(); ++i) {
      const Fields record(records[i], fmt::format("skills[{}]", i), what);
      out.skills.push_back(parse_skill_record(record, out.arch));
      if (!ids.insert(out.skills.back().id).second) {
        record.wrong("id", fmt::format("'{}' is the id of an earlier record too", printable(out.skills.back().id, 60)));
      }
    }
  }
  check_extensions(in);
  out.json = std::move(json);
  return out;
}

}  // namespace cortiq::cmf
