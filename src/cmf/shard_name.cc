#include "cmf/shard_name.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace cortiq::cmf {
namespace {

constexpr std::string_view kSuffix = ".cmf", kMiddle = "-of-";

// Five digits at `at`, or nothing.
std::optional<uint64_t> five_digits(std::string_view text, size_t at) {
  if (text.size() < at + 5) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text.substr(at, 5)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

}  // namespace

std::string shard_name(const std::string& stem, uint64_t no, uint64_t count) {
  return fmt::format("{}-{:05}{}{:05}{}", stem, no, kMiddle, count, kSuffix);
}

std::optional<ShardName> parse_shard_name(const std::string& path) {
  const std::string_view text = path;
  constexpr size_t kTail = 1 + 5 + kMiddle.size() + 5 + kSuffix.size();
  if (text.size() <= kTail || !text.ends_with(kSuffix)) return std::nullopt;
  const size_t dash = text.size() - kTail;
  const auto no = five_digits(text, dash + 1), count = five_digits(text, dash + 1 + 5 + kMiddle.size());
  if (text[dash] != '-' || text.substr(dash + 6, kMiddle.size()) != kMiddle || !no || !count) return std::nullopt;
  return ShardName{path.substr(0, dash), *no, *count};
}

std::string shard_stem(const std::string& output) {
  return output.ends_with(kSuffix) ? output.substr(0, output.size() - kSuffix.size()) : output;
}

}  // namespace cortiq::cmf
