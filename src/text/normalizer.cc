#include "text/normalizer.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace cortiq::text {
namespace {

// Calls visit(code, part) for every character.
template <class Visit>
void for_each_character(std::string_view text, Visit visit) {
  for (size_t at = 0; at < text.size();) {
    const CodeAt one = code_at(text, at);
    visit(one.code, Span{at, at + one.size});
    at += one.size;
  }
}

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  void apply(AlignedText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

// Removes the characters with one trait, turns those with another into a space.
class Filter final : public Normalizer {
 public:
  Filter(uint32_t removed, uint32_t spaced) : removed_(removed), spaced_(spaced) {}
  void apply(AlignedText& text) const override {
    Rewrite out(text);
    for_each_character(text.text(), [&](char32_t code, Span part) {
      const uint32_t has = traits(code);
      if ((has & removed_) != 0) return;
      if ((has & spaced_) != 0) {
        out.put(" ", part);
      } else {
        out.keep(part);
      }
    });
    out.finish();
  }

 private:
  uint32_t removed_, spaced_;
};

class Lowercase final : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    Rewrite out(text);
    std::string lower;
    for_each_character(text.text(), [&](char32_t code, Span part) {
      if ((traits(code) & kHasLower) == 0) {
        out.keep(part);
        return;
      }
      lower.clear();
      for (const uint32_t one : lower_mapping(code)) append_utf8(lower, one);
      out.put(lower, part);
    });
    out.finish();
  }
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText& text) const override {
    const std::string_view all = text.text();
    Span kept{0, all.size()};
    const auto space = [](CodeAt one) { return (traits(one.code) & kWhiteSpace) != 0; };
    while (left_ && kept.size() > 0 && space(code_at(all, kept.begin))) kept.begin += code_at(all, kept.begin).size;
    while (right_ && kept.size() > 0 && space(code_before(all, kept.end))) kept.end -= code_before(all, kept.end).size;
    if (kept.size() == all.size()) return;
    Rewrite out(text);
    out.keep(kept);
    out.finish();
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : prefix_(std::move(text)) {}
  void apply(AlignedText& text) const override {
    if (text.text().empty()) return;
    Rewrite out(text);
    out.put(prefix_, {0, 0});
    out.keep({0, text.text().size()});
    out.finish();
  }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(AlignedText& text) const override {
    Rewrite out(text);
    size_t done = 0;
    bool found = false;
    pattern_.for_each(text.text(), [&](size_t begin, size_t end) {
      out.keep({done, begin});
      out.put(content_, {begin, end});
      done = end;
      found = true;
    });
    if (!found) return;
    out.keep({done, text.text().size()});
    out.finish();
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class ChineseSpacing final : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    Rewrite out(text);
    for_each_character(text.text(), [&](char32_t code, Span part) {
      const bool chinese = (traits(code) & kBertChinese) != 0;
      if (chinese) out.put(" ", {part.begin, part.begin});
      out.keep(part);
      if (chinese) out.put(" ", {part.end, part.end});
    });
    out.finish();
  }
};

class ByteLevel final : public Normalizer {
 public:
  void apply(AlignedText& text) const override {
    Rewrite out(text);
    const std::string_view all = text.text();
    for (size_t at = 0; at < all.size(); ++at) {
      out.put(ByteAlphabet::get().character(static_cast<unsigned char>(all[at])), {at, at + 1});
    }
    out.finish();
  }
};

template <class Part, class... Arguments>
std::unique_ptr<Normalizer> make(Arguments&&... arguments) {
  return std::make_unique<Part>(std::forward<Arguments>(arguments)...);
}

std::unique_ptr<Normalizer> parse_sequence(const Fields& fields) {
  std::vector<std::unique_ptr<Normalizer>> parts;
  const Json& list = fields.list("normalizers");
  for (size_t i = 0; i < list.size(); ++i) {
    parts.push_back(parse_normalizer(list[i], fields.path_of("normalizers") + "/" + std::to_string(i)));
  }
  return make<Sequence>(std::move(parts));
}

std::unique_ptr<Normalizer> parse_bert(const Fields& fields) {
  std::vector<std::unique_ptr<Normalizer>> parts;
  const bool lower = fields.flag("lowercase");
  if (fields.flag("clean_text")) parts.push_back(make<Filter>(kBertRemoved, kBertSpace));
  if (fields.flag("handle_chinese_chars")) parts.push_back(make<ChineseSpacing>());
  if (fields.flag("strip_accents", lower)) {
    parts.push_back(make_normal_form(false, false));
    parts.push_back(make<Filter>(kBertAccent, 0u));
  }
  if (lower) parts.push_back(make<Lowercase>());
  return make<Sequence>(std::move(parts));
}

using Maker = std::unique_ptr<Normalizer> (*)(const Fields&);
struct Row {
  const char* type;
  Maker make;
};
const Row kTypes[] = {
    {"Sequence", parse_sequence},
    {"NFC", [](const Fields&) { return make_normal_form(false, true); }},
    {"NFD", [](const Fields&) { return make_normal_form(false, false); }},
    {"NFKC", [](const Fields&) { return make_normal_form(true, true); }},
    {"NFKD", [](const Fields&) { return make_normal_form(true, false); }},
    {"Lowercase", [](const Fields&) { return make<Lowercase>(); }},
    {"Strip", [](const Fields& f) { return make<Strip>(f.flag("strip_left"), f.flag("strip_right")); }},
    {"StripAccents", [](const Fields&) { return make<Filter>(kAccent, 0u); }},
    {"Nmt", [](const Fields&) { return make<Filter>(kNmtRemoved, kNmtSpace); }},
    {"Prepend", [](const Fields& f) { return make<Prepend>(f.text("prepend")); }},
    {"Replace", [](const Fields& f) { return make<Replace>(Pattern(f, "pattern"), f.text("content")); }},
    {"BertNormalizer", parse_bert},
    {"ByteLevel", [](const Fields&) { return make<ByteLevel>(); }},
    {"Precompiled", [](const Fields& f) { return make_precompiled(f.text("precompiled_charsmap"), f.path()); }},
};

}  // namespace

std::unique_ptr<Normalizer> parse_normalizer(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  const std::string type = fields.type();
  for (const Row& row : kTypes) {
    if (type == row.type) return row.make(fields);
  }
  fields.unknown_type("a normalizer");
}

}  // namespace cortiq::text
