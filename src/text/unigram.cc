#include "text/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "text/unicode.h"

namespace cortiq::text {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr uint32_t kNone = Vocabulary::kNone;

// 10^0 … 10^308, each the double nearest to it.
const std::array<double, 309> kPowers = [] {
  std::array<double, 309> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string text = "1e" + std::to_string(i);
    std::from_chars(text.data(), text.data() + text.size(), out[i]);
  }
  return out;
}();

// The genuine library's JSON reader computes digits / 10^n with two roundings. Scores that differ in the last bit
// decide between segmentations of equal probability, so its value is computed from the shortest spelling of the exact
// one, which is what files hold.
double as_read_there(double exact) {
  if (!std::isfinite(exact) || exact == 0) return exact;
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), std::fabs(exact), std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  const char* at = text;
  for (; at < end && *at != 'e'; ++at) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    if (fraction) --exponent;
  }
  if (at < end) {
    int power = 0;
    std::from_chars(at + (at[1] == '+' ? 2 : 1), end, power);
    exponent += power;
  }
  double value = static_cast<double>(digits);
  for (; exponent < -308; exponent += 308) value /= 1e308;
  const double power = kPowers[static_cast<size_t>(std::abs(exponent))];
  value = exponent >= 0 ? value * power : value / power;
  return exact < 0 ? -value : value;
}

}  // namespace

void Unigram::Pieces::add(std::string_view piece, double score) {
  const uint32_t before = vocabulary.find(piece);
  if (before != kNone) shadowed.emplace(before, piece);
  vocabulary.set(piece, static_cast<uint32_t>(scores.size()));
  scores.push_back(as_read_there(score));
}

Unigram::Unigram(Pieces pieces, std::optional<uint32_t> unknown, bool byte_fallback, const std::string& where)
    : scores_(std::move(pieces.scores)),
      shadowed_(std::move(pieces.shadowed)),
      unknown_(unknown),
      byte_fallback_(byte_fallback) {
  vocabulary_ = std::move(pieces.vocabulary);
  if (scores_.empty() && unknown)
    fail(ErrorKind::Parse, "{}: the vocabulary is empty, so unk_id {} is not in it", where, *unknown);
  if (unknown && *unknown >= scores_.size()) {
    fail(ErrorKind::Parse, "{}: unk_id {} is not one of the {} pieces", where, *unknown, scores_.size());
  }
  double lowest = 0;
  for (size_t i = 0; i < scores_.size(); ++i) lowest = i == 0 ? scores_[i] : std::min(lowest, scores_[i]);
  unknown_score_ = lowest - kUnknownPenalty;
  vocabulary_.for_each([&](std::string_view piece, uint32_t id) {
    if (!piece.empty()) trie_.insert(piece, id, true);
  });
  bytes_.fill(kNone);
  if (byte_fallback_) {
    for (unsigned b = 0; b < 256; ++b) bytes_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
  }
}

std::optional<std::string_view> Unigram::token_of(uint32_t id) const noexcept {
  const auto found = shadowed_.find(id);
  return found != shadowed_.end() ? std::optional<std::string_view>(found->second) : vocabulary_.token(id);
}

uint32_t Unigram::unknown_id(std::string_view text) const {
  if (!unknown_) {
    fail(ErrorKind::Parse, "the tokenizer has no token for '{}' and no unknown token", printable(text, 60));
  }
  return *unknown_;
}

void Unigram::tokenize(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const {
  constexpr uint32_t kUnreached = UINT32_MAX;
  auto& best = scratch.best;
  best.assign(piece.size() + 1, {0, kUnreached, 0});
  const auto offer = [&](size_t end, size_t from, double score, uint32_t id) {
    // A later candidate wins only if it is strictly better.
    if (best[end].from == kUnreached || score > best[end].score) best[end] = {score, static_cast<uint32_t>(from), id};
  };
  for (size_t at = 0; at < piece.size();) {
    const size_t size = code_at(piece, at).size;
    const double here = best[at].score;
    bool single = false;
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = at; end < piece.size();) {
      node = trie_.child(node, static_cast<unsigned char>(piece[end++]));
      if (node == ByteTrie::kNone) break;
      const uint32_t id = trie_.value(node);
      if (id == ByteTrie::kNone) continue;
      offer(end, at, scores_[id] + here, id);
      single = single || end - at == size;
    }
    if (!single) offer(at + size, at, unknown_score_ + here, unknown_id(piece.substr(at, size)));
    at += size;
  }
  // From the end backwards; neighbouring unknowns become one part, which is then looked up like any other.
  auto& parts = scratch.reversed;
  parts.clear();
  bool open = false;  // the last part may still take an unknown before it
  for (size_t end = piece.size(); end > 0; end = best[end].from) {
    const auto length = static_cast<uint32_t>(end - best[end].from);
    const bool unknown = unknown_ && best[end].id == *unknown_;
    if (unknown && open) {
      parts.back().length += length;
    } else {
      parts.push_back({0, length});
    }
    open = unknown;
  }
  size_t at = 0;
  for (size_t i = parts.size(); i-- > 0;) {
    append(piece.substr(at, parts[i].length), out);
    at += parts[i].length;
  }
}

void Unigram::append(std::string_view text, std::vector<Token>& out) const {
  const uint32_t id = vocabulary_.find(text);
  if (id != kNone) {
    out.push_back({id, static_cast<uint32_t>(text.size())});
    return;
  }
  const auto byte_id = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
  if (byte_fallback_ && std::all_of(text.begin(), text.end(), [&](char c) { return byte_id(c) != kNone; })) {
    for (const char c : text) out.push_back({byte_id(c), 1});
    return;
  }
  out.push_back({unknown_id(text), static_cast<uint32_t>(text.size())});
}

}  // namespace cortiq::text
