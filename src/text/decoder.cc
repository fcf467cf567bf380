#include "text/decoder.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace cortiq::text {
namespace {

using Parts = std::vector<TokenPart>;
using Steps = std::vector<std::unique_ptr<DecoderStep>>;

// A step that looks at whole tokens: gathers the parts of a fused one.
class WholeTokens : public DecoderStep {
 public:
  void push(TokenPart part, Parts& out) final {
    if (part.begins && part.ends) {
      token(std::move(part.text), out);
      return;
    }
    gathered_ += part.text;
    if (part.ends) token(std::exchange(gathered_, {}), out);
  }
  void finish(Parts&) override {}

 protected:
  virtual void token(std::string text, Parts& out) = 0;

 private:
  std::string gathered_;
};

std::string replaced(std::string_view text, const Pattern& pattern, std::string_view content) {
  std::string out;
  size_t done = 0;
  pattern.for_each(text, [&](size_t begin, size_t end) {
    out.append(text, done, begin - done).append(content);
    done = end;
  });
  return out.append(text, done);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty() || text.find(from) == text.npos) return;
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = out.append(text, done);
}

// The clean-up that WordPiece and CTC share, applied to each token by itself.
void clean_up(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

// The result of a step that makes one token of all.
class Fused {
 public:
  void put(std::string text, Parts& out) { out.push_back({std::move(text), std::exchange(first_, false), false}); }
  void finish(std::string text, Parts& out) { out.push_back({std::move(text), first_, true}); }

 private:
  bool first_ = true;
};

class ByteLevelStep final : public WholeTokens {
 public:
  void finish(Parts& out) override { fused_.finish(replace_invalid_utf8(bytes_), out); }

 private:
  void token(std::string text, Parts& out) override {
    if (!ByteAlphabet::get().read(text, bytes_)) bytes_ += text;
    const size_t ready = bytes_.size() - incomplete_utf8_suffix(bytes_);
    if (ready == 0) return;
    fused_.put(replace_invalid_utf8(std::string_view(bytes_).substr(0, ready)), out);
    bytes_.erase(0, ready);
  }

  std::string bytes_;
  Fused fused_;
};

// A run of <0xNN> becomes text if the run as a whole is UTF-8: what stands at its end decides about its beginning, so
// a run is held back until it ends.
class ByteFallbackStep final : public WholeTokens {
 public:
  void finish(Parts& out) override { flush(out); }

 private:
  static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  }

  void token(std::string text, Parts& out) override {
    if (text.size() == 6 && text.starts_with("<0x") && text[5] == '>') {
      const int high = text[3] == '+' ? 0 : digit(text[3]), low = digit(text[4]);
      if (high >= 0 && low >= 0) {
        run_ += static_cast<char>(high * 16 + low);
        return;
      }
    }
    flush(out);
    out.push_back({std::move(text)});
  }

  void flush(Parts& out) {
    if (run_.empty()) return;
    if (valid_utf8(run_)) {
      out.push_back({std::move(run_)});
    } else {
      for (size_t i = 0; i < run_.size(); ++i) out.push_back({"\xEF\xBF\xBD"});
    }
    run_.clear();
  }

  std::string run_;
};

class FuseStep final : public DecoderStep {
 public:
  void push(TokenPart part, Parts& out) override { fused_.put(std::move(part.text), out); }
  void finish(Parts& out) override { fused_.finish({}, out); }

 private:
  Fused fused_;
};

// A literal is replaced as it comes, a possible beginning at the end held back; a pattern sees whole tokens only.
class ReplaceStep final : public DecoderStep {
 public:
  ReplaceStep(const Pattern& pattern, const std::string& content) : pattern_(pattern), content_(content) {}

  void push(TokenPart part, Parts& out) override {
    held_ += part.text;
    begins_ = begins_ || part.begins;
    size_t ready = held_.size();
    if (!part.ends) ready = pattern_.literal() != nullptr ? settled(*pattern_.literal()) : 0;
    if (ready == 0 && !part.ends) return;
    out.push_back({replaced(std::string_view(held_).substr(0, ready), pattern_, content_), begins_, part.ends});
    held_.erase(0, ready);
    begins_ = false;
  }
  void finish(Parts&) override {}

 private:
  // How much of what is held cannot be part of a match that is still to come. A match that is complete lies in it.
  size_t settled(const std::string& literal) const {
    size_t end = 0;
    for (size_t at = held_.find(literal); at != held_.npos; at = held_.find(literal, end)) end = at + literal.size();
    for (size_t at = std::max(end, held_.size() - std::min(held_.size(), literal.size() - 1)); at < held_.size();
         ++at) {
      if (literal.starts_with(std::string_view(held_).substr(at))) return at;
    }
    return held_.size();
  }

  const Pattern& pattern_;
  const std::string& content_;
  std::string held_;
  bool begins_ = false;
};

class StripStep final : public DecoderStep {
 public:
  StripStep(const std::string& content, uint64_t start, uint64_t stop)
      : content_(content), start_(start), stop_(stop) {}

  void push(TokenPart part, Parts& out) override {
    std::string_view text = part.text;
    if (part.begins) leading_ = start_;
    while (leading_ > 0 && text.starts_with(content_)) {
      text.remove_prefix(content_.size());
      --leading_;
    }
    if (!text.empty()) leading_ = 0;
    // Up to stop_ of the characters at the end may have to go: they wait for the token's end.
    held_ += text;
    size_t keep = held_.size();
    for (uint64_t i = 0; i < stop_ && keep >= content_.size(); ++i) {
      if (std::string_view(held_).substr(keep - content_.size(), content_.size()) != content_) break;
      keep -= content_.size();
    }
    out.push_back({held_.substr(0, keep), part.begins, part.ends});
    held_.erase(0, part.ends ? held_.size() : keep);
  }
  void finish(Parts&) override {}

 private:
  const std::string& content_;
  uint64_t start_, stop_, leading_ = 0;
  std::string held_;
};

class MetaspaceStep final : public DecoderStep {
 public:
  MetaspaceStep(const std::string& replacement, bool never) : replacement_(replacement), first_(!never) {}

  void push(TokenPart part, Parts& out) override {
    replace_all(part.text, replacement_, first_ ? "" : " ");
    if (part.ends) first_ = false;
    out.push_back(std::move(part));
  }
  void finish(Parts&) override {}

 private:
  const std::string& replacement_;
  bool first_;
};

class WordPieceStep final : public WholeTokens {
 public:
  WordPieceStep(const std::string& prefix, bool clean) : prefix_(prefix), clean_(clean) {}

 private:
  void token(std::string text, Parts& out) override {
    if (!std::exchange(first_, false)) {
      if (text.starts_with(prefix_)) {
        text.erase(0, prefix_.size());
      } else {
        text.insert(0, " ");
      }
    }
    if (clean_) clean_up(text);
    out.push_back({std::move(text)});
  }

  const std::string& prefix_;
  bool clean_, first_ = true;
};

// The suffix is a space, but not in the last token: one token is held back.
class SuffixStep final : public WholeTokens {
 public:
  explicit SuffixStep(const std::string& suffix) : suffix_(suffix) {}
  void finish(Parts& out) override { emit("", out); }

 private:
  void token(std::string text, Parts& out) override {
    emit(" ", out);
    held_ = std::move(text);
    holds_ = true;
  }
  void emit(std::string_view replacement, Parts& out) {
    if (!std::exchange(holds_, false)) return;
    replace_all(held_, suffix_, replacement);
    out.push_back({std::move(held_)});
  }

  const std::string& suffix_;
  std::string held_;
  bool holds_ = false;
};

struct CtcSettings {
  std::string pad, delimiter;
  bool clean;
};

class CtcStep final : public WholeTokens {
 public:
  explicit CtcStep(const CtcSettings& settings) : settings_(settings) {}

 private:
  void token(std::string text, Parts& out) override {
    if (!first_ && text == last_) return;
    first_ = false;
    last_ = text;
    replace_all(text, settings_.pad, "");
    if (settings_.clean) {
      clean_up(text);
      replace_all(text, settings_.delimiter, " ");
    }
    if (!text.empty()) out.push_back({std::move(text)});
  }

  const CtcSettings& settings_;
  std::string last_;
  bool first_ = true;
};

// No decoder: tokens are joined by spaces.
class JoinStep final : public DecoderStep {
 public:
  void push(TokenPart part, Parts& out) override {
    if (!std::exchange(first_, false)) part.text.insert(0, " ");
    out.push_back(std::move(part));
  }
  void finish(Parts&) override {}

 private:
  bool first_ = true;
};

// A decoder whose steps are made of its settings.
template <class Step, class... Settings>
class Of final : public Decoder {
 public:
  explicit Of(Settings... settings) : settings_(std::move(settings)...) {}
  void add_steps(Steps& steps) const override {
    std::apply([&](const Settings&... settings) { steps.push_back(std::make_unique<Step>(settings...)); }, settings_);
  }

 private:
  std::tuple<Settings...> settings_;
};

template <class Step, class... Settings>
std::unique_ptr<Decoder> make(Settings... settings) {
  return std::make_unique<Of<Step, Settings...>>(std::move(settings)...);
}

class Sequence final : public Decoder {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Decoder>> parts) : parts_(std::move(parts)) {}
  void add_steps(Steps& steps) const override {
    for (const auto& part : parts_) part->add_steps(steps);
  }

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

std::string encoded(char32_t code) {
  std::string out;
  append_utf8(out, code);
  return out;
}

std::unique_ptr<Decoder> parse_sequence(const Fields& fields) {
  std::vector<std::unique_ptr<Decoder>> parts;
  const Json& list = fields.list("decoders");
  for (size_t i = 0; i < list.size(); ++i) {
    parts.push_back(parse_decoder(list[i], fields.path_of("decoders") + "/" + std::to_string(i)));
  }
  return std::make_unique<Sequence>(std::move(parts));
}

std::unique_ptr<Decoder> parse_suffix(const Fields& fields) {
  std::string suffix = fields.text("suffix");
  if (suffix.empty()) fail(ErrorKind::Unsupported, "{}: an empty suffix", fields.path_of("suffix"));
  return make<SuffixStep>(std::move(suffix));
}

std::unique_ptr<Decoder> parse_metaspace(const Fields& fields) {
  const bool never =
      fields.has("prepend_scheme") ? fields.text("prepend_scheme") == "never" : !fields.flag("add_prefix_space", true);
  return make<MetaspaceStep>(encoded(fields.character("replacement")), never);
}

std::unique_ptr<Decoder> parse_ctc(const Fields& fields) {
  CtcSettings settings{fields.text("pad_token"), fields.text("word_delimiter_token"), fields.flag("cleanup")};
  if (settings.delimiter.empty()) fail(ErrorKind::Unsupported, "{}: empty", fields.path_of("word_delimiter_token"));
  return make<CtcStep>(std::move(settings));
}

using Maker = std::unique_ptr<Decoder> (*)(const Fields&);
struct Row {
  const char* type;
  Maker make;
};
const Row kTypes[] = {
    {"Sequence", parse_sequence},
    {"ByteLevel", [](const Fields&) { return make<ByteLevelStep>(); }},
    {"ByteFallback", [](const Fields&) { return make<ByteFallbackStep>(); }},
    {"Fuse", [](const Fields&) { return make<FuseStep>(); }},
    {"Replace", [](const Fields& f) { return make<ReplaceStep>(Pattern(f, "pattern"), f.text("content")); }},
    {"Strip",
     [](const Fields& f) {
       return make<StripStep>(encoded(f.character("content")), f.count("start"), f.count("stop"));
     }},
    {"Metaspace", parse_metaspace},
    {"WordPiece", [](const Fields& f) { return make<WordPieceStep>(f.text("prefix"), f.flag("cleanup")); }},
    {"BPEDecoder", parse_suffix},
    {"CTC", parse_ctc},
};

}  // namespace

std::unique_ptr<Decoder> make_joining_decoder() { return make<JoinStep>(); }

std::unique_ptr<Decoder> parse_decoder(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  const std::string type = fields.type();
  for (const Row& row : kTypes) {
    if (type == row.type) return row.make(fields);
  }
  fields.unknown_type("a decoder");
}

}  // namespace cortiq::text
