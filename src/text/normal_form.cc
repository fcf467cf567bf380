#include <algorithm>
#include <vector>

#include "base/utf8.h"
#include "text/normalizer.h"
#include "text/unicode.h"

namespace cortiq::text {
namespace {

// Unicode standard, section 3.12.
constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTrail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTrails = 28;

struct Mark {
  char32_t code;
  uint32_t combining;
  Span source;
};

class NormalForm final : public Normalizer {
 public:
  NormalForm(bool compatibility, bool composed) : compatibility_(compatibility), composed_(composed) {
    touched_ = kHasCanonical | kCombines;
    if (compatibility) touched_ |= kHasCompatibility;
    if (composed) touched_ |= kComposesBack;
  }

  // Characters that no part of the algorithm touches separate runs that can be normalized alone; when composing, the
  // one before a run belongs to it, since the run may compose with it.
  void apply(AlignedText& text) const override {
    const std::string_view in = text.text();
    size_t at = next_touched(in, 0, nullptr);
    if (at == in.size()) return;
    Rewrite out(text);
    std::vector<Mark> run;
    size_t done = 0, before = 0;
    at = next_touched(in, 0, &before);
    while (at < in.size()) {
      const size_t begin = composed_ && at > done ? before : at;
      out.keep({done, begin});
      run.clear();
      size_t end = at;
      if (begin < at) decompose(in, begin, run);
      while (end < in.size() && touched(in, end)) end += decompose(in, end, run);
      write(run, out);
      done = end;
      at = next_touched(in, end, &before);
    }
    out.keep({done, in.size()});
    out.finish();
  }

 private:
  bool touched(std::string_view in, size_t at) const {
    return static_cast<unsigned char>(in[at]) >= 0x80 && (traits(code_at(in, at).code) & touched_) != 0;
  }

  // The first touched character at or after `from`; *before: where the character before it begins.
  size_t next_touched(std::string_view in, size_t from, size_t* before) const {
    size_t previous = from, at = from;
    while (at < in.size()) {
      if (static_cast<unsigned char>(in[at]) < 0x80) {
        previous = at++;
        continue;
      }
      const CodeAt one = code_at(in, at);
      if ((traits(one.code) & touched_) != 0) break;
      previous = at;
      at += one.size;
    }
    if (before != nullptr) *before = previous;
    return at;
  }

  size_t decompose(std::string_view in, size_t at, std::vector<Mark>& run) const {
    const CodeAt one = code_at(in, at);
    const Span source{at, at + one.size};
    const auto add = [&](char32_t code) { run.push_back({code, combining_class(code), source}); };
    if (one.code >= kSyllable && one.code < kSyllable + kLeads * kVowels * kTrails) {
      const char32_t index = one.code - kSyllable;
      add(kLead + index / (kVowels * kTrails));
      add(kVowel + index % (kVowels * kTrails) / kTrails);
      if (index % kTrails != 0) add(kTrail + index % kTrails);
      return one.size;
    }
    const auto mapping = compatibility_ ? compatibility_mapping(one.code) : canonical_mapping(one.code);
    for (const uint32_t code : mapping) add(code);
    if (mapping.empty()) add(one.code);
    return one.size;
  }

  static char32_t pair(char32_t first, char32_t second) {
    if (first >= kLead && first < kLead + kLeads && second >= kVowel && second < kVowel + kVowels) {
      return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTrails;
    }
    const bool open =
        first >= kSyllable && first < kSyllable + kLeads * kVowels * kTrails && (first - kSyllable) % kTrails == 0;
    if (open && second > kTrail && second < kTrail + kTrails) return first + (second - kTrail);
    return compose(first, second);
  }

  static void join(Span& source, Span more) {
    source.begin = std::min(source.begin, more.begin);
    source.end = std::max(source.end, more.end);
  }

  void write(std::vector<Mark>& run, Rewrite& out) const {
    for (auto begin = run.begin(); begin != run.end();) {
      if (begin->combining == 0) {
        ++begin;
        continue;
      }
      const auto end = std::find_if(begin, run.end(), [](const Mark& mark) { return mark.combining == 0; });
      std::stable_sort(begin, end, [](const Mark& a, const Mark& b) { return a.combining < b.combining; });
      begin = end;
    }
    size_t count = run.size();
    if (composed_) count = compose_run(run);
    std::string spelled;
    for (size_t i = 0; i < count; ++i) {
      spelled.clear();
      append_utf8(spelled, run[i].code);
      out.put(spelled, run[i].source);
    }
  }

  // D117: a mark joins the last starter unless something between them blocks it. Kept marks move forward.
  static size_t compose_run(std::vector<Mark>& run) {
    constexpr size_t kNoStarter = SIZE_MAX;
    size_t count = 0, starter = kNoStarter;
    for (size_t i = 0; i < run.size(); ++i) {
      const Mark mark = run[i];
      if (starter != kNoStarter) {
        const bool adjacent = starter + 1 == count;
        const bool blocked = !adjacent && (run[count - 1].combining == 0 || run[count - 1].combining >= mark.combining);
        const char32_t joined = blocked ? 0 : pair(run[starter].code, mark.code);
        if (joined != 0) {
          run[starter].code = joined;
          join(run[starter].source, mark.source);
          continue;
        }
      }
      if (mark.combining == 0) starter = count;
      run[count++] = mark;
    }
    return count;
  }

  bool compatibility_, composed_;
  uint32_t touched_;
};

}  // namespace

std::unique_ptr<Normalizer> make_normal_form(bool compatibility, bool composed) {
  return std::make_unique<NormalForm>(compatibility, composed);
}

}  // namespace cortiq::text
