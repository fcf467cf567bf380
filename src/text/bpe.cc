#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

namespace cortiq::text {
namespace {

constexpr size_t kShort = 40;  // symbols up to which a scan for the lowest rank beats a heap
constexpr uint32_t kNone = Vocabulary::kNone;
constexpr size_t kJointWords = 1 << 14;

size_t joint_bit(char32_t left, char32_t right) noexcept {
  return static_cast<size_t>(mix(uint64_t{left} << 32 | right, 0x9E3779B97F4A7C15) & (kJointWords * 64 - 1));
}

}  // namespace

void Bpe::Merges::append(const Merges& next) {
  entries.insert(entries.end(), next.entries.begin(), next.entries.end());
  for (size_t i = 0; i < joints.size(); ++i) joints[i] |= next.joints[i];
}

Bpe::MergeReader::MergeReader(const Vocabulary& vocabulary, size_t prefix, size_t count, std::string where,
                              size_t first)
    : vocabulary_(vocabulary), prefix_(prefix), where_(std::move(where)), first_(first) {
  merges_.entries.reserve(count);
  merges_.joints.assign(kJointWords, 0);
}

void Bpe::MergeReader::add(std::string_view left, std::string_view right) {
  if (right.size() < prefix_) {
    fail(ErrorKind::Parse, "{}/merges/{}: '{}' is shorter than continuing_subword_prefix", where_,
         first_ + merges_.entries.size() + pending_.size(), printable(right, 60));
  }
  pending_.push_back({left, right});
  if (is_next(left, right.substr(prefix_))) pending_.back().result = next_result_++;
  if (!left.empty() && !right.empty()) {
    const size_t bit = joint_bit(code_before(left, left.size()).code, code_at(right, 0).code);
    merges_.joints[bit / 64] |= uint64_t{1} << bit % 64;
  }
  if (pending_.size() == kTogether) flush();
}

// Most vocabularies list the results in the order of the merges, so a result usually follows the one before it.
bool Bpe::MergeReader::is_next(std::string_view left, std::string_view rest) const noexcept {
  if (next_result_ >= vocabulary_.size()) return false;
  const std::string_view text = vocabulary_.text_at(next_result_);
  return text.size() == left.size() + rest.size() && text.starts_with(left) && text.ends_with(rest);
}

void Bpe::MergeReader::look_up(std::span<Lookup> lookups) const {
  for (Lookup& one : lookups) {
    one.hash = vocabulary_.hash(one.text);
    vocabulary_.prefetch(one.hash);
  }
  for (const Lookup& one : lookups) vocabulary_.prefetch_entry(one.hash);
  for (const Lookup& one : lookups) vocabulary_.prefetch_text(one.hash);
  for (Lookup& one : lookups) one.place = vocabulary_.find_place(one.text, one.hash);
}

void Bpe::MergeReader::flush() {
  if (pending_.empty()) return;
  results_.clear();
  for (const Pending& one : pending_) {
    if (one.result == kNone) results_.append(one.left).append(one.right.substr(prefix_));
  }
  std::string_view results = results_;
  size_t count = 0;
  for (const Pending& one : pending_) {
    lookups_[count++].text = one.left;
    lookups_[count++].text = one.right;
    if (one.result != kNone) continue;
    const size_t length = one.left.size() + one.right.size() - prefix_;
    lookups_[count++].text = results.substr(0, length);
    results.remove_prefix(length);
  }
  look_up({lookups_.data(), count});
  auto next = lookups_.begin();
  for (const Pending& one : pending_) {
    const auto place = [&] {
      const Lookup& found = *next++;
      if (found.place == kNone) {
        fail(ErrorKind::Parse, "{}/merges/{}: '{}' + '{}': '{}' is not in the vocabulary", where_,
             first_ + merges_.entries.size(), printable(one.left, 60), printable(one.right, 60),
             printable(found.text, 60));
      }
      return found.place;
    };
    const uint32_t left = place(), right = place(), result = one.result != kNone ? one.result : place();
    merges_.entries.push_back({vocabulary_.id_at(left), vocabulary_.id_at(right), vocabulary_.id_at(result)});
    next_result_ = result + 1;
  }
  pending_.clear();
}

Bpe::Merges Bpe::MergeReader::finish() {
  flush();
  return std::move(merges_);
}

Bpe::Bpe(Vocabulary vocabulary, Merges merges, Settings settings) : settings_(std::move(settings)) {
  vocabulary_ = std::move(vocabulary);
  if (settings_.unknown) unknown_ = vocabulary_.find(*settings_.unknown);
  if (merges.entries.empty() && vocabulary_.size() > 256) {
    notes_.push_back(fmt::format("the tokenizer has {} tokens and not one merge", vocabulary_.size()));
  }
  characters_.assign(0x10000, kNone);
  vocabulary_.for_each([&](std::string_view token, uint32_t id) {
    if (token.empty() || token.size() > 3) return;
    const CodeAt one = code_at(token, 0);
    if (one.size == token.size()) characters_[one.code] = id;
  });
  bytes_.fill(kNone);
  if (settings_.byte_fallback) {
    for (unsigned b = 0; b < 256; ++b) bytes_[b] = vocabulary_.find(fmt::format("<0x{:02X}>", b));
  }
  const bool cuts =
      !settings_.ignore_merges && settings_.prefix.empty() && settings_.suffix.empty() && vocabulary_.ids_unique();
  if (cuts) joints_ = std::move(merges.joints);
  merges_ = MergeTable(std::move(merges.entries));
}

// A merge joins the last character of its left part with the first of its right one. Where no merge of the table joins
// two neighbouring characters, no merge ever crosses, and both sides can be tokenized alone. Only characters of the
// vocabulary count: unknown ones are fused and put off across their neighbours.
size_t Bpe::independent_end(std::string_view piece, size_t from) const noexcept {
  if (joints_.empty()) return piece.size();
  const auto known = [&](char32_t code) { return code < 0x10000 && characters_[code] != kNone; };
  CodeAt before = code_at(piece, from);
  bool before_known = known(before.code);
  for (size_t at = from + before.size; at < piece.size();) {
    const CodeAt one = code_at(piece, at);
    const bool one_known = known(one.code);
    if (before_known && one_known) {
      const size_t bit = joint_bit(before.code, one.code);
      if ((joints_[bit / 64] >> bit % 64 & 1) == 0) return at;
    }
    before = one;
    before_known = one_known;
    at += one.size;
  }
  return piece.size();
}

// The character at `at` as the vocabulary spells it, with the prefix of all but the first and the suffix of the last.
std::string_view Bpe::spelling(std::string_view piece, size_t at, size_t size, std::string& buffer) const {
  const bool first = at == 0, last = at + size == piece.size();
  const bool plain = (first || settings_.prefix.empty()) && (!last || settings_.suffix.empty());
  if (plain) return piece.substr(at, size);
  buffer.clear();
  if (!first) buffer += settings_.prefix;
  buffer.append(piece, at, size);
  if (last) buffer += settings_.suffix;
  return buffer;
}

void Bpe::start(std::string_view piece, std::vector<Symbol>& symbols) const {
  symbols.clear();
  const auto add = [&](uint32_t id, size_t length) {
    const auto at = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, static_cast<uint32_t>(length), at - 1, at + 1});
  };
  std::string buffer;
  size_t unknown = 0;  // bytes of unknown characters that have not become a symbol yet
  const auto flush = [&] {
    if (unknown > 0) add(unknown_, unknown);
    unknown = 0;
  };
  for (size_t at = 0; at < piece.size();) {
    const CodeAt one = code_at(piece, at);
    const size_t size = one.size;
    const std::string_view text = spelling(piece, at, size, buffer);
    const bool plain = text.data() == piece.data() + at;
    const uint32_t id = plain && one.code < 0x10000 ? characters_[one.code] : vocabulary_.find(text);
    if (id != kNone) {
      flush();
      add(id, size);
      at += size;
      continue;
    }
    if (settings_.byte_fallback) {
      const auto byte_id = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
      if (std::all_of(text.begin(), text.end(), [&](char c) { return byte_id(c) != kNone; })) {
        // They do not flush an unknown before them: the genuine library emits that later, too.
        for (const char c : text) add(byte_id(c), 1);
        at += size;
        continue;
      }
    }
    if (settings_.unknown) {
      if (unknown_ == kNone) {
        fail(ErrorKind::Parse,
             "the tokenizer has no token for '{}' and its unknown token '{}' is not in the vocabulary",
             printable(piece.substr(at, size)), printable(*settings_.unknown, 60));
      }
      if (!settings_.fuse_unknown) flush();
      unknown += size;
    }
    at += size;
  }
  flush();
  if (!symbols.empty()) symbols.back().after = -1;
}

// All symbols lie in order, dead ones removed at once; fine for the few of a word.
void Bpe::merge_short(std::vector<Symbol>& symbols) const {
  MergeTable::Merge merges[kShort];
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = merges_.find(symbols[i].id, symbols[i + 1].id);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == MergeTable::kNone.rank) break;
    symbols[best].id = merges[best].id;
    symbols[best].length += symbols[best + 1].length;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    --count;
    if (best + 1 < count) merges[best] = merges_.find(symbols[best].id, symbols[best + 1].id);
    if (best > 0) merges[best - 1] = merges_.find(symbols[best - 1].id, symbols[best].id);
  }
  symbols.resize(count);
}

void Bpe::merge_long(ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  const auto later = [](const ModelScratch::Candidate& a, const ModelScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  const auto propose = [&](int32_t left, int32_t right) {
    const MergeTable::Merge merge =
        merges_.find(symbols[static_cast<size_t>(left)].id, symbols[static_cast<size_t>(right)].id);
    if (merge.rank == MergeTable::kNone.rank) return false;
    heap.push_back({merge.rank, static_cast<uint32_t>(left), merge.id});
    return true;
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i) propose(static_cast<int32_t>(i), static_cast<int32_t>(i + 1));
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const ModelScratch::Candidate top = heap.back();
    heap.pop_back();
    Symbol& left = symbols[top.at];
    if (left.length == 0 || left.after < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.after)];
    // A candidate whose parts have changed since is out of date: its pair would give another token now.
    if (merges_.find(left.id, right.id).id != top.id) continue;
    left.id = top.id;
    left.length += right.length;
    right.length = 0;
    left.after = right.after;
    const auto here = static_cast<int32_t>(top.at);
    if (left.after >= 0) symbols[static_cast<size_t>(left.after)].before = here;
    if (left.before >= 0 && propose(left.before, here)) std::push_heap(heap.begin(), heap.end(), later);
    if (left.after >= 0 && propose(here, left.after)) std::push_heap(heap.begin(), heap.end(), later);
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.length == 0; });
}

void Bpe::tokenize(std::string_view piece, ModelScratch& scratch, std::vector<Token>& out) const {
  if (settings_.ignore_merges) {
    const uint32_t whole = vocabulary_.find(piece);
    if (whole != kNone) {
      out.push_back({whole, static_cast<uint32_t>(piece.size())});
      return;
    }
  }
  start(piece, scratch.symbols);
  // Two tokens with one id can make an outdated candidate look fresh; then only the heap is faithful.
  if (scratch.symbols.size() <= kShort && vocabulary_.ids_unique()) {
    merge_short(scratch.symbols);
  } else {
    merge_long(scratch);
  }
  for (const Symbol& symbol : scratch.symbols) out.push_back({symbol.id, symbol.length});
}

}  // namespace cortiq::text
