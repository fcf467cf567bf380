#include "text/large_members.h"

#include <charconv>
#include <cstring>
#include <utility>

#include "base/utf8.h"

namespace cortiq::text {
namespace {

// Reads JSON from left to right; every function is false where the text is not the plain form of what it reads.
class Scanner {
 public:
  Scanner(std::string_view text, std::deque<std::string>& unescaped) : text_(text), unescaped_(unescaped) {}

  size_t at() const noexcept { return at_; }
  bool done() noexcept {
    skip_space();
    return at_ == text_.size();
  }

  bool take(char wanted) noexcept {
    skip_space();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  bool string(std::string_view& out) {
    if (!take('"')) return false;
    const size_t begin = at_;
    at_ = next_special(at_);
    if (at_ == text_.size() || text_[at_] != '"') return unescape(begin, out);
    out = text_.substr(begin, at_++ - begin);
    return true;
  }

  // A whole number below 2^32 - 1.
  bool id(uint32_t& out) noexcept {
    skip_space();
    uint64_t value = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + static_cast<uint64_t>(text_[at_] - '0');
      if (value >= Vocabulary::kNone) return false;
    }
    if (at_ == begin || (text_[begin] == '0' && at_ - begin > 1)) return false;
    out = static_cast<uint32_t>(value);
    return at_ < text_.size() && (text_[at_] == ',' || text_[at_] == '}' || is_space(text_[at_]));
  }

  // Any value, to its end; whether it is well-formed is not looked at.
  bool skip_value() {
    size_t open = 0;
    do {
      skip_space();
      if (at_ == text_.size()) return false;
      const char c = text_[at_];
      std::string_view ignored;
      if (c == '"') {
        if (!string(ignored)) return false;
        continue;
      }
      if (c == '{' || c == '[') ++open;
      if ((c == '}' || c == ']') && open-- == 0) return false;
      if ((c == ',' || c == ':') && open == 0) return false;
      ++at_;
      if (std::string_view("{}[],:").find(c) == std::string_view::npos) {
        while (at_ < text_.size() && !is_space(text_[at_]) &&
               std::string_view("{}[],:\"").find(text_[at_]) == std::string_view::npos) {
          ++at_;
        }
      }
    } while (open > 0);
    return true;
  }

  // Calls member(key) for each member of an object; member reads the value.
  template <class Member>
  bool object(Member member) {
    if (!take('{')) return false;
    if (take('}')) return true;
    do {
      std::string_view key;
      if (!string(key) || !take(':') || !member(key)) return false;
    } while (take(','));
    return take('}');
  }

  template <class Item>
  bool array(Item item) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!item()) return false;
    } while (take(','));
    return take(']');
  }

  bool next_is(char wanted) noexcept {
    skip_space();
    return at_ < text_.size() && text_[at_] == wanted;
  }

 private:
  static bool is_space(char c) noexcept { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  void skip_space() noexcept {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  // Marks the quotes, backslashes and control characters among eight: exactly up to and with the first one.
  static uint64_t specials(const char* at) noexcept {
    constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x8080808080808080;
    uint64_t eight;
    std::memcpy(&eight, at, 8);
    const uint64_t quote = eight ^ kOnes * '"', backslash = eight ^ kOnes * '\\';
    return (((quote - kOnes) & ~quote) | ((backslash - kOnes) & ~backslash) | ((eight - kOnes * 0x20) & ~eight)) &
           kHighs;
  }

  // The first quote, backslash or control character from here on. Nearly all tokens end within 16 bytes, so that
  // nothing here depends on their lengths.
  size_t next_special(size_t at) const noexcept {
    for (; text_.size() - at >= 16; at += 16) {
      const uint64_t low = specials(text_.data() + at), high = specials(text_.data() + at + 8);
      if ((low | high) == 0) continue;
      const auto place = [](uint64_t marks) {
        return static_cast<size_t>(__builtin_ctzll(marks | uint64_t{1} << 63)) / 8;
      };
      return at + (low != 0 ? place(low) : 8 + place(high));
    }
    while (at < text_.size() && text_[at] != '"' && text_[at] != '\\' && static_cast<unsigned char>(text_[at]) >= 0x20)
      ++at;
    return at;
  }

  bool unescape(size_t begin, std::string_view& out) {
    std::string whole(text_.substr(begin, at_ - begin));
    while (at_ < text_.size() && text_[at_] == '\\') {
      ++at_;
      if (!escape(whole)) return false;
      const size_t from = at_;
      at_ = next_special(from);
      whole.append(text_, from, at_ - from);
    }
    if (at_ == text_.size() || text_[at_] != '"') return false;
    ++at_;
    out = unescaped_.emplace_back(std::move(whole));
    return true;
  }

  // What stands behind a backslash. Halves of surrogate pairs are left to the parser.
  bool escape(std::string& out) {
    constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (at_ == text_.size()) return false;
    if (const size_t which = kEscapes.find(text_[at_]); which != kEscapes.npos) {
      out += kMeanings[which];
      ++at_;
      return true;
    }
    if (text_[at_] != 'u' || text_.size() - at_ < 5) return false;
    uint32_t code = 0;
    const char* digits = text_.data() + at_ + 1;
    const auto [end, failure] = std::from_chars(digits, digits + 4, code, 16);
    if (end != digits + 4 || failure != std::errc() || (code >= 0xD800 && code < 0xE000)) return false;
    append_utf8(out, code);
    at_ += 5;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::deque<std::string>& unescaped_;
};

class Reader {
 public:
  explicit Reader(std::string_view json) : json_(json), scanner_(json, out_.unescaped) {}

  bool read() {
    const bool good = scanner_.object([&](std::string_view key) {
      return key == "model" ? !std::exchange(model_, true) && model() : scanner_.skip_value();
    });
    if (!good || !scanner_.done() || !vocabulary_) return false;
    out_.rest.append(json_.substr(copied_));
    return true;
  }

  LargeMembers take() { return std::move(out_); }

 private:
  bool model() {
    return scanner_.object([&](std::string_view key) {
      if (key == "vocab") {
        return !std::exchange(vocabulary_, true) && scanner_.next_is('{') && replaced("{}", [&] { return tokens(); });
      }
      if (key == "merges") return !out_.merges && scanner_.next_is('[') && replaced("[]", [&] { return merges(); });
      return scanner_.skip_value();
    });
  }

  template <class Read>
  bool replaced(std::string_view by, Read read) {
    out_.rest.append(json_.substr(copied_, scanner_.at() - copied_)).append(by);
    if (!read()) return false;
    copied_ = scanner_.at();
    return true;
  }

  bool tokens() {
    constexpr size_t kBytesOfToken = 28;  // with its merge, about; the table grows if there are more
    out_.vocabulary.reserve(json_.size() / kBytesOfToken, json_.size());
    Vocabulary::Filler filler(out_.vocabulary);
    const bool good = scanner_.object([&](std::string_view token) {
      uint32_t id = 0;
      if (!scanner_.id(id)) return false;
      filler.add(token, id);
      return true;
    });
    filler.finish();
    return good;
  }

  bool merges() {
    out_.merges.emplace();
    out_.merges->reserve(out_.vocabulary.size());
    return scanner_.array([&] {
      MergeText merge;
      if (scanner_.next_is('[')) {
        size_t parts = 0;
        const bool good =
            scanner_.array([&] { return parts < 2 && scanner_.string(parts++ == 0 ? merge.left : merge.right); });
        if (!good || parts != 2) return false;
      } else {
        std::string_view line;
        if (!scanner_.string(line)) return false;
        if (line.starts_with("#version")) return true;
        if (!split_merge(line, merge)) return false;
      }
      out_.merges->push_back(merge);
      return true;
    });
  }

  std::string_view json_;
  LargeMembers out_;
  Scanner scanner_;
  size_t copied_ = 0;
  bool model_ = false, vocabulary_ = false;
};

}  // namespace

std::optional<LargeMembers> read_large_members(std::string_view json) {
  Reader reader(json);
  if (!reader.read()) return std::nullopt;
  return reader.take();
}

}  // namespace cortiq::text
