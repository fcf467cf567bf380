#pragma once
#include <string_view>
#include <vector>

#include "text/aligned_text.h"
#include "text/fields.h"

namespace cortiq::text {

/// What becomes of the matches of a pattern that cuts a piece.
enum class Behavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

Behavior parse_behavior(const Fields& fields, const char* name);

/// Receives the matches of a piece from left to right and cuts it. With `invert` matches and the rest swap roles.
class Cutter {
 public:
  Cutter(Span piece, Behavior behavior, bool invert, std::vector<Span>& out)
      : piece_(piece), behavior_(behavior), invert_(invert), out_(out), done_(piece.begin) {}

  /// A match, relative to the piece.
  void match(size_t begin, size_t end) {
    begin += piece_.begin;
    end += piece_.begin;
    if (begin != done_) part({done_, begin}, invert_);
    part({begin, end}, !invert_);
    done_ = end;
  }

  void finish() {
    if (done_ != piece_.end) part({done_, piece_.end}, invert_);
    if (behavior_ == Behavior::MergedWithNext) merge_with_next();
    std::erase_if(flagged_, [](const Flagged& one) { return one.span.size() == 0; });
    for (const Flagged& one : flagged_) out_.push_back(one.span);
  }

 private:
  struct Flagged {
    Span span;
    bool matched;
  };

  void part(Span span, bool matched) {
    switch (behavior_) {
      case Behavior::Removed:
        if (!matched && span.size() > 0) out_.push_back(span);
        return;
      case Behavior::Isolated:
        if (span.size() > 0) out_.push_back(span);
        return;
      case Behavior::Contiguous:
        extend(span, matched, matched == previous_);
        break;
      case Behavior::MergedWithPrevious:
        extend(span, matched, matched && !previous_);
        break;
      case Behavior::MergedWithNext:
        flagged_.push_back({span, matched});
        break;
    }
    previous_ = matched;
  }

  void extend(Span span, bool matched, bool join) {
    if (join && !flagged_.empty()) {
      flagged_.back().span.end = span.end;
    } else {
      flagged_.push_back({span, matched});
    }
  }

  // From the right: a match is joined to the piece after it unless that is a match, too.
  void merge_with_next() {
    size_t to = flagged_.size();
    bool previous = false;
    for (size_t from = flagged_.size(); from-- > 0;) {
      const Flagged one = flagged_[from];
      if (one.matched && !previous && to < flagged_.size()) {
        flagged_[to].span.begin = one.span.begin;
      } else {
        flagged_[--to] = one;
      }
      previous = one.matched;
    }
    flagged_.erase(flagged_.begin(), flagged_.begin() + static_cast<std::ptrdiff_t>(to));
  }

  Span piece_;
  Behavior behavior_;
  bool invert_;
  std::vector<Span>& out_;
  size_t done_;
  bool previous_ = false;
  std::vector<Flagged> flagged_;
};

}  // namespace cortiq::text
