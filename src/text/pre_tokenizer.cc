#include "text/pre_tokenizer.h"

#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/split_behavior.h"
#include "text/unicode.h"

namespace cortiq::text {

Behavior parse_behavior(const Fields& fields, const char* name) {
  static const std::pair<const char*, Behavior> kNames[] = {{"Removed", Behavior::Removed},
                                                            {"Isolated", Behavior::Isolated},
                                                            {"MergedWithPrevious", Behavior::MergedWithPrevious},
                                                            {"MergedWithNext", Behavior::MergedWithNext},
                                                            {"Contiguous", Behavior::Contiguous}};
  const std::string spelled = fields.text(name);
  for (const auto& [known, behavior] : kNames) {
    if (spelled == known) return behavior;
  }
  fail(ErrorKind::Unsupported, "{}: '{}' is not a known behaviour", fields.path_of(name), printable(spelled, 60));
}

namespace {

constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Replaces each piece by the parts that cut(text, piece, out) makes of it.
template <class Cut>
void cut_each(Pieces& pieces, Cut cut) {
  pieces.spare.clear();
  for (const Span piece : pieces.spans) cut(pieces.text.text(piece), piece, pieces.spare);
  pieces.spans.swap(pieces.spare);
}

// Rewrites each piece with write(text, piece, rewrite), which returns nothing; pieces keep their order.
template <class Write>
void rewrite_each(Pieces& pieces, Write write) {
  Rewrite out(pieces.text);
  pieces.spare.clear();
  for (const Span piece : pieces.spans) {
    const size_t begin = out.size();
    write(pieces.text.text(piece), piece, out);
    if (out.size() > begin) pieces.spare.push_back({begin, out.size()});
  }
  out.finish();
  pieces.spans.swap(pieces.spare);
}

class Split final : public PreTokenizer {
 public:
  Split(Pattern pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void apply(Pieces& pieces) const override {
    cut_each(pieces, [this](std::string_view text, Span piece, std::vector<Span>& out) {
      Cutter cutter(piece, behavior_, invert_, out);
      pattern_.for_each(text, [&](size_t begin, size_t end) { cutter.match(begin, end); });
      cutter.finish();
    });
  }

 private:
  Pattern pattern_;
  Behavior behavior_;
  bool invert_;
};

// Cuts at characters with a trait, each a match of its own.
class TraitSplit final : public PreTokenizer {
 public:
  TraitSplit(uint32_t trait, Behavior behavior) : trait_(trait), behavior_(behavior) {}
  void apply(Pieces& pieces) const override {
    cut_each(pieces, [this](std::string_view text, Span piece, std::vector<Span>& out) {
      Cutter cutter(piece, behavior_, false, out);
      for (size_t at = 0; at < text.size();) {
        const CodeAt one = code_at(text, at);
        if ((traits(one.code) & trait_) != 0) cutter.match(at, at + one.size);
        at += one.size;
      }
      cutter.finish();
    });
  }

 private:
  uint32_t trait_;
  Behavior behavior_;
};

// \w+|[^\w\s]+ are the pieces.
class WhitespacePieces final : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    cut_each(pieces, [](std::string_view text, Span piece, std::vector<Span>& out) {
      enum Kind { Space, Word, Other };
      Kind current = Space;
      size_t begin = 0;
      const auto close = [&](size_t end) {
        if (current != Space) out.push_back({piece.begin + begin, piece.begin + end});
      };
      for (size_t at = 0; at < text.size();) {
        const CodeAt one = code_at(text, at);
        const uint32_t has = traits(one.code);
        const Kind kind = (has & kWord) != 0 ? Word : (has & kWhiteSpace) != 0 ? Space : Other;
        if (kind != current) {
          close(at);
          begin = at;
          current = kind;
        }
        at += one.size;
      }
      close(text.size());
    });
  }
};

class DelimiterSplit final : public PreTokenizer {
 public:
  explicit DelimiterSplit(char32_t delimiter) { append_utf8(delimiter_, delimiter); }
  void apply(Pieces& pieces) const override {
    cut_each(pieces, [this](std::string_view text, Span piece, std::vector<Span>& out) {
      Cutter cutter(piece, Behavior::Removed, false, out);
      for (size_t at = text.find(delimiter_); at != text.npos; at = text.find(delimiter_, at + delimiter_.size())) {
        cutter.match(at, at + delimiter_.size());
      }
      cutter.finish();
    });
  }

 private:
  std::string delimiter_;
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(uint64_t length) : length_(length) {}
  void apply(Pieces& pieces) const override {
    cut_each(pieces, [this](std::string_view text, Span piece, std::vector<Span>& out) {
      size_t begin = 0;
      uint64_t count = 0;
      for (size_t at = 0; at < text.size();) {
        at += code_at(text, at).size;
        if (++count == length_ || at == text.size()) {
          out.push_back({piece.begin + begin, piece.begin + at});
          begin = at;
          count = 0;
        }
      }
    });
  }

 private:
  uint64_t length_;
};

// Cuts where the script changes. Characters without a script never cause a cut; those before the first character
// that has one are lost, as they are in the genuine library.
class UnicodeScripts final : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    cut_each(pieces, [](std::string_view text, Span piece, std::vector<Span>& out) {
      int last = -1;
      size_t begin = 0;
      for (size_t at = 0; at < text.size();) {
        const CodeAt one = code_at(text, at);
        const int script = script_of(one.code);
        if (script >= 0 && script != last) {
          if (last >= 0) out.push_back({piece.begin + begin, piece.begin + at});
          begin = at;
          last = script;
        }
        at += one.size;
      }
      if (last >= 0) out.push_back({piece.begin + begin, piece.end});
    });
  }
};

class PrefixSpace final : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    rewrite_each(pieces, [](std::string_view text, Span piece, Rewrite& out) {
      if (text[0] != ' ') out.put(" ", {piece.begin, piece.begin});
      out.keep(piece);
    });
  }
};

class ByteSpelling final : public PreTokenizer {
 public:
  void apply(Pieces& pieces) const override {
    rewrite_each(pieces, [](std::string_view text, Span piece, Rewrite& out) {
      for (size_t i = 0; i < text.size(); ++i) {
        const size_t at = piece.begin + i;
        out.put(ByteAlphabet::get().character(static_cast<unsigned char>(text[i])), {at, at + 1});
      }
    });
  }
};

class Metaspace final : public PreTokenizer {
 public:
  enum class Scheme { Always, First, Never };
  Metaspace(char32_t replacement, Scheme scheme, bool split) : scheme_(scheme), split_(split) {
    append_utf8(replacement_, replacement);
  }
  bool needs_origins() const noexcept override { return scheme_ == Scheme::First; }

  void apply(Pieces& pieces) const override {
    rewrite_each(pieces, [&](std::string_view text, Span piece, Rewrite& out) {
      const bool begins = text[0] == ' ' || text.substr(0, replacement_.size()) == replacement_;
      const bool wanted =
          scheme_ == Scheme::Always || (scheme_ == Scheme::First && pieces.text.at_start_of_original(piece.begin));
      if (wanted && !begins) out.put(replacement_, {piece.begin, piece.begin});
      size_t done = piece.begin;
      for (size_t at = text.find(' '); at != text.npos; at = text.find(' ', at + 1)) {
        out.keep({done, piece.begin + at});
        out.put(replacement_, {piece.begin + at, piece.begin + at + 1});
        done = piece.begin + at + 1;
      }
      out.keep({done, piece.end});
    });
    if (!split_) return;
    // MergedWithNext on a literal: cut before each replacement, except that of two neighbours the first stands alone,
    // which is a cut before each, too.
    cut_each(pieces, [this](std::string_view text, Span piece, std::vector<Span>& out) {
      size_t begin = 0;
      for (size_t at = text.find(replacement_); at != text.npos; at = text.find(replacement_, at + 1)) {
        if (at > begin) out.push_back({piece.begin + begin, piece.begin + at});
        begin = at;
      }
      if (begin < text.size()) out.push_back({piece.begin + begin, piece.end});
    });
  }

 private:
  std::string replacement_;
  Scheme scheme_;
  bool split_;
};

using Steps = std::vector<std::unique_ptr<PreTokenizer>>;

template <class Step, class... Arguments>
void add(Steps& steps, Arguments&&... arguments) {
  steps.push_back(std::make_unique<Step>(std::forward<Arguments>(arguments)...));
}

Metaspace::Scheme metaspace_scheme(const Fields& fields) {
  using Scheme = Metaspace::Scheme;
  // Files written before there was a scheme have add_prefix_space.
  if (!fields.has("prepend_scheme")) return fields.flag("add_prefix_space", true) ? Scheme::Always : Scheme::Never;
  const std::string scheme = fields.text("prepend_scheme");
  if (scheme == "never") return Scheme::Never;
  if (scheme != "always" && scheme != "first") {
    fail(ErrorKind::Unsupported, "{}: '{}' is not a known scheme", fields.path_of("prepend_scheme"), printable(scheme));
  }
  if (!fields.flag("add_prefix_space", true)) {
    fail(ErrorKind::Parse, "{}: prepend_scheme '{}' contradicts add_prefix_space false", fields.path(), scheme);
  }
  return scheme == "always" ? Scheme::Always : Scheme::First;
}

void parse_step(const Json& json, const std::string& path, Steps& steps, int depth);

void parse_byte_level(const Fields& fields, Steps& steps) {
  if (fields.flag("add_prefix_space")) add<PrefixSpace>(steps);
  if (fields.flag("use_regex", true)) {
    static const Pattern pattern = Pattern::regex(kByteLevelPattern, "ByteLevel");
    add<Split>(steps, pattern, Behavior::Isolated, false);
  }
  add<ByteSpelling>(steps);
}

void parse_sequence(const Fields& fields, Steps& steps, int depth) {
  const Json& list = fields.list("pretokenizers");
  for (size_t i = 0; i < list.size(); ++i) {
    parse_step(list[i], fields.path_of("pretokenizers") + "/" + std::to_string(i), steps, depth + 1);
  }
}

using Maker = void (*)(const Fields&, Steps&);
struct Row {
  const char* type;
  Maker make;
};
const Row kTypes[] = {
    {"ByteLevel", parse_byte_level},
    {"Metaspace",
     [](const Fields& f, Steps& s) {
       add<Metaspace>(s, f.character("replacement"), metaspace_scheme(f), f.flag("split", true));
     }},
    {"Split", [](const Fields& f,
                 Steps& s) { add<Split>(s, Pattern(f, "pattern"), parse_behavior(f, "behavior"), f.flag("invert")); }},
    {"Digits",
     [](const Fields& f, Steps& s) {
       add<TraitSplit>(s, kNumeric, f.flag("individual_digits") ? Behavior::Isolated : Behavior::Contiguous);
     }},
    {"Punctuation",
     [](const Fields& f, Steps& s) {
       add<TraitSplit>(s, kPunctuation, f.has("behavior") ? parse_behavior(f, "behavior") : Behavior::Isolated);
     }},
    {"Whitespace", [](const Fields&, Steps& s) { add<WhitespacePieces>(s); }},
    {"WhitespaceSplit", [](const Fields&, Steps& s) { add<TraitSplit>(s, kWhiteSpace, Behavior::Removed); }},
    {"CharDelimiterSplit", [](const Fields& f, Steps& s) { add<DelimiterSplit>(s, f.character("delimiter")); }},
    {"BertPreTokenizer",
     [](const Fields&, Steps& s) {
       add<TraitSplit>(s, kWhiteSpace, Behavior::Removed);
       add<TraitSplit>(s, kPunctuation, Behavior::Isolated);
     }},
    {"UnicodeScripts", [](const Fields&, Steps& s) { add<UnicodeScripts>(s); }},
    {"FixedLength",
     [](const Fields& f, Steps& s) {
       const uint64_t length = f.count("length", 5);
       if (length == 0) fail(ErrorKind::Parse, "{}: pieces of 0 characters", f.path_of("length"));
       add<FixedLength>(s, length);
     }},
};

void parse_step(const Json& json, const std::string& path, Steps& steps, int depth) {
  constexpr int kMaxDepth = 32;
  if (depth > kMaxDepth) fail(ErrorKind::Unsupported, "{}: sequences nested more than {} deep", path, kMaxDepth);
  const Fields fields(json, path);
  const std::string type = fields.type();
  if (type == "Sequence") {
    parse_sequence(fields, steps, depth);
    return;
  }
  for (const Row& row : kTypes) {
    if (type == row.type) {
      row.make(fields, steps);
      return;
    }
  }
  fields.unknown_type("a pre-tokenizer");
}

}  // namespace

PreTokenization parse_pre_tokenizer(const Json& json, const std::string& path) {
  PreTokenization out;
  if (json.is_null()) return out;
  parse_step(json, path, out.steps, 0);
  if (!out.steps.empty() && dynamic_cast<const ByteSpelling*>(out.steps.back().get()) != nullptr) {
    out.steps.pop_back();
    out.byte_level = true;
  }
  return out;
}

}  // namespace cortiq::text
