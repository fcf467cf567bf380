#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cortiq::text {

/// Bytes [begin, end).
struct Span {
  size_t begin = 0, end = 0;
  size_t size() const noexcept { return end - begin; }
};

/// A stretch of the original text on its way through normalizer and pre-tokenizer, with the bytes of the original that
/// each of its bytes stands for. As long as nothing has changed it refers to the original and copies nothing; the
/// origins of changed text are kept only if asked for (tracked).
class AlignedText {
 public:
  /// Refers to `part` of `original`, which must outlive this.
  void assign(std::string_view original, Span part, bool tracked) {
    text_ = original.substr(part.begin, part.size());
    offset_ = part.begin;
    origins_ = nullptr;
    changed_ = false;
    tracked_ = tracked;
  }

  /// Refers to a part of another one, which must outlive this and keep its text.
  void assign(const AlignedText& other, Span part) {
    text_ = other.text_.substr(part.begin, part.size());
    offset_ = other.offset_ + (other.changed_ ? 0 : part.begin);
    first_ = !other.changed_ || part.begin == 0;
    origins_ = other.origins_ == nullptr ? nullptr : other.origins_ + part.begin;
    changed_ = other.changed_;
    tracked_ = other.tracked_;
  }

  std::string_view text() const noexcept { return text_; }
  std::string_view text(Span part) const noexcept { return text_.substr(part.begin, part.size()); }

  /// The original bytes behind a part of the text; exact if nothing has changed or the text is tracked.
  Span origin(Span part) const noexcept {
    if (!changed_) return {offset_ + part.begin, offset_ + part.end};
    if (origins_ == nullptr || text_.empty()) return {offset_, offset_};
    if (part.size() > 0) return {origins_[part.begin].begin, origins_[part.end - 1].end};
    const size_t at = part.begin < text_.size() ? origins_[part.begin].begin : origins_[text_.size() - 1].end;
    return {at, at};
  }

  /// True if a piece that begins at `at` begins where the original does.
  bool at_start_of_original(size_t at) const noexcept {
    if (changed_ && origins_ == nullptr) return at == 0 && first_ && offset_ == 0;
    return origin({at, at}).begin == 0;
  }

 private:
  friend class Rewrite;

  std::string_view text_;
  size_t offset_ = 0;
  const Span* origins_ = nullptr;
  bool changed_ = false, tracked_ = false, first_ = true;
  std::string buffer_, spare_;
  std::vector<Span> origins_buffer_, origins_spare_;
};

/// Writes a new version of an AlignedText from left to right.
class Rewrite {
 public:
  explicit Rewrite(AlignedText& text) : text_(text) {
    text.spare_.clear();
    text.origins_spare_.clear();
  }

  /// Length of what has been written.
  size_t size() const noexcept { return text_.spare_.size(); }

  /// Copies a part of the old version.
  void keep(Span part) {
    text_.spare_.append(text_.text_, part.begin, part.size());
    if (!text_.tracked_) return;
    for (size_t i = part.begin; i < part.end; ++i) text_.origins_spare_.push_back(text_.origin({i, i + 1}));
  }

  /// Writes `written` for a part of the old version (an empty part: an insertion).
  void put(std::string_view written, Span part) {
    text_.spare_.append(written);
    if (text_.tracked_) text_.origins_spare_.insert(text_.origins_spare_.end(), written.size(), text_.origin(part));
  }

  /// Makes the new version the text.
  void finish() {
    text_.buffer_.swap(text_.spare_);
    text_.origins_buffer_.swap(text_.origins_spare_);
    text_.text_ = text_.buffer_;
    text_.origins_ = text_.tracked_ ? text_.origins_buffer_.data() : nullptr;
    text_.changed_ = true;
  }

 private:
  AlignedText& text_;
};

}  // namespace cortiq::text
