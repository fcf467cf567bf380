#include "convert/gguf/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/json.h"
#include "base/utf8.h"
#include "convert/gguf/pretokenizers.h"

namespace cortiq::convert::gguf {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr std::string_view kSpace = "\u2581";  // what stands for a space in SentencePiece vocabularies
// SentencePiece pieces are a few dozen characters long; without a bound their splits would cost the square of a length
// that the file chooses.
constexpr size_t kMaxPiece = 512;

enum TokenType : uint64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

std::string quoted(std::string_view text) { return Json(text).dump(); }

class Builder {
 public:
  explicit Builder(const File& file) : file_(file) {}

  Vocabulary build() {
    const auto model = file_.text(key("model"));
    if (!model) fail(ErrorKind::Parse, "no tokenizer: 'tokenizer.ggml.model' is missing");
    if (*model != "gpt2" && *model != "llama") {
      fail(ErrorKind::Unsupported, "the tokenizer model '{}' cannot be rebuilt; 'gpt2' and 'llama' can",
           printable(*model, 40));
    }
    tokens();
    special_ids();
    if (const auto text = file_.text("tokenizer.chat_template")) out_.chat_template = std::string(*text);
    if (const auto whole = file_.text("tokenizer.huggingface.json")) {
      out_.tokenizer_json = std::string(*whole);
    } else if (*model == "gpt2") {
      byte_level();
    } else {
      sentence_piece();
    }
    return std::move(out_);
  }

 private:
  static std::string key(std::string_view name) { return std::string(kPrefix) + std::string(name); }

  void tokens() {
    out_.tokens = file_.texts(key("tokens"));
    if (out_.tokens.empty()) fail(ErrorKind::Parse, "'tokenizer.ggml.tokens' is missing or empty");
    if (out_.tokens.size() > UINT32_MAX) fail(ErrorKind::Parse, "{} tokens", out_.tokens.size());
    for (uint32_t id = 0; id < out_.tokens.size(); ++id) {
      if (ids_.emplace(out_.tokens[id], id).second) continue;
      fail(ErrorKind::Parse, "tokens {} and {} have the same text '{}'", ids_.at(out_.tokens[id]), id,
           printable(out_.tokens[id], 60));
    }
    types_ = file_.counts(key("token_type"));
    if (types_.empty()) types_.assign(out_.tokens.size(), kNormal);
    if (types_.size() != out_.tokens.size()) {
      fail(ErrorKind::Parse, "{} token types for {} tokens", types_.size(), out_.tokens.size());
    }
    for (size_t id = 0; id < types_.size(); ++id) {
      if (types_[id] < kNormal || types_[id] > kByte)
        fail(ErrorKind::Parse, "token {} has type {}; 1 to 6 exist", id, types_[id]);
    }
  }

  std::optional<uint32_t> id(std::string_view name) const {
    const auto value = file_.count(key(name));
    if (!value) return std::nullopt;
    if (*value >= out_.tokens.size()) {
      fail(ErrorKind::Parse, "'tokenizer.ggml.{}' is {}, there are {} tokens", name, *value, out_.tokens.size());
    }
    return static_cast<uint32_t>(*value);
  }

  void special_ids() {
    out_.bos = id("bos_token_id");
    out_.pad = id("padding_token_id");
    end_ = id("eos_token_id");
    for (const auto& one : {end_, id("eot_token_id"), id("eom_token_id")}) {
      if (one) out_.eos.push_back(*one);
    }
    std::sort(out_.eos.begin(), out_.eos.end());
    out_.eos.erase(std::unique(out_.eos.begin(), out_.eos.end()), out_.eos.end());
  }

  void byte_level() {
    const std::string name(file_.text(key("pre")).value_or("default"));
    const auto pre = find_pre_tokenizer(name);
    if (!pre) {
      fail(ErrorKind::Unsupported, "the pre-tokenizer '{}' is not known: its splits, and so the ids, would be a guess",
           printable(name, 60));
    }
    std::string merges;
    for (const std::string_view merge : file_.texts(key("merges"))) {
      const size_t space = merge.find(' ', 1);
      if (space == merge.npos || space + 1 == merge.size()) {
        fail(ErrorKind::Parse, "the merge '{}' is no pair", printable(merge, 60));
      }
      const std::string_view parts[] = {merge.substr(0, space), merge.substr(space + 1)};
      require_token(parts[0], merge);
      require_token(parts[1], merge);
      require_token(std::string(parts[0]) + std::string(parts[1]), merge);
      add_merge(merges, parts[0], parts[1]);
    }
    write(pre->nfc ? R"({"type":"NFC"})" : "null", pre->json,
          R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})",
          fmt::format(R"("unk_token":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":{})",
                      pre->ignore_merges),
          merges, file_.flag(key("add_bos_token")).value_or(pre->add_bos));
  }

  void require_token(std::string_view text, std::string_view merge) const {
    if (!ids_.contains(text)) {
      fail(ErrorKind::Parse, "the merge '{}' needs '{}', which is no token", printable(merge, 60), printable(text, 60));
    }
  }

  static void add_merge(std::string& merges, std::string_view left, std::string_view right) {
    if (!merges.empty()) merges += ',';
    merges += '[' + quoted(left) + ',' + quoted(right) + ']';
  }

  void sentence_piece() {
    const bool prefix = file_.flag(key("add_space_prefix")).value_or(true);
    const uint32_t unknown = id("unknown_token_id").value_or(0);
    std::string merges;
    for (const Split& split : splits()) add_merge(merges, out_.tokens[split.left], out_.tokens[split.right]);

    const std::string replace =
        fmt::format(R"({{"type":"Replace","pattern":{{"String":" "}},"content":"{}"}})", kSpace);
    const std::string prepend = fmt::format(R"({{"type":"Prepend","prepend":"{}"}},)", kSpace);
    const std::string back = fmt::format(R"({{"type":"Replace","pattern":{{"String":"{}"}},"content":" "}})", kSpace);
    write(fmt::format(R"({{"type":"Sequence","normalizers":[{}{}]}})", prefix ? prepend : "", replace), "null",
          fmt::format(R"({{"type":"Sequence","decoders":[{},{{"type":"ByteFallback"}},{{"type":"Fuse"}}{}]}})", back,
                      prefix ? R"(,{"type":"Strip","content":" ","start":1,"stop":0})" : ""),
          fmt::format(R"("unk_token":{},"fuse_unk":true,"byte_fallback":true,"ignore_merges":false)",
                      quoted(out_.tokens[unknown])),
          merges, file_.flag(key("add_bos_token")).value_or(true));
  }

  struct Split {
    uint32_t piece, left, right;
  };

  // SentencePiece joins the two neighbours whose union has the highest score: as merges, every way to split a piece
  // into two, ranked by the piece's score, then by its id, then by the ids of the parts.
  std::vector<Split> splits() const {
    const std::vector<double> scores = file_.numbers(key("scores"));
    if (scores.size() != out_.tokens.size()) {
      fail(ErrorKind::Parse, "{} scores for {} tokens", scores.size(), out_.tokens.size());
    }
    std::vector<Split> found;
    for (uint32_t piece = 0; piece < out_.tokens.size(); ++piece) {
      if (types_[piece] != kNormal) continue;
      const std::string_view text = out_.tokens[piece];
      if (text.size() > kMaxPiece) {
        fail(ErrorKind::Unsupported, "token {} is {} bytes long; SentencePiece pieces have at most {}", piece,
             text.size(), kMaxPiece);
      }
      const size_t first = found.size();
      for (size_t at = 1; at < text.size(); ++at) {
        if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;  // inside a character
        const auto left = normal(text.substr(0, at)), right = normal(text.substr(at));
        if (left && right) found.push_back({piece, *left, *right});
      }
      std::sort(found.begin() + static_cast<ptrdiff_t>(first), found.end(),
                [](const Split& a, const Split& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
    }
    std::stable_sort(found.begin(), found.end(),
                     [&](const Split& a, const Split& b) { return scores[a.piece] > scores[b.piece]; });
    return found;
  }

  std::optional<uint32_t> normal(std::string_view text) const {
    const auto at = ids_.find(text);
    return at != ids_.end() && types_[at->second] == kNormal ? std::optional(at->second) : std::nullopt;
  }

  std::string added_tokens() const {
    std::string out;
    for (size_t id = 0; id < types_.size(); ++id) {
      if (types_[id] != kUnknown && types_[id] != kControl && types_[id] != kUserDefined) continue;
      out += fmt::format(
          R"({}{{"id":{},"content":{},"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":{}}})",
          out.empty() ? "" : ",", id, quoted(out_.tokens[id]), types_[id] != kUserDefined);
    }
    return out;
  }

  // [bos] A [eos], and the same again for the second of a pair.
  std::string post_processor(bool with_bos) const {
    const bool with_eos = file_.flag(key("add_eos_token")).value_or(false) && end_;
    with_bos = with_bos && out_.bos;
    if (!with_bos && !with_eos) return "null";
    const auto special = [&](uint32_t id, int type) {
      return fmt::format(R"({{"SpecialToken":{{"id":{},"type_id":{}}}}})", quoted(out_.tokens[id]), type);
    };
    const auto part = [&](std::string_view name, int type) {
      return (with_bos ? special(*out_.bos, type) + "," : "") +
             fmt::format(R"({{"Sequence":{{"id":"{}","type_id":{}}}}})", name, type) +
             (with_eos ? "," + special(*end_, type) : "");
    };
    std::string used;
    const auto use = [&](uint32_t id) {
      const std::string text = quoted(out_.tokens[id]);
      used +=
          fmt::format(R"({}{}:{{"id":{},"ids":[{}],"tokens":[{}]}})", used.empty() ? "" : ",", text, text, id, text);
    };
    if (with_bos) use(*out_.bos);
    if (with_eos && !(with_bos && *out_.bos == *end_)) use(*end_);
    return fmt::format(R"({{"type":"TemplateProcessing","single":[{}],"pair":[{},{}],"special_tokens":{{{}}}}})",
                       part("A", 0), part("A", 0), part("B", 1), used);
  }

  void write(std::string_view normalizer, std::string_view pre_tokenizer, std::string_view decoder,
             std::string_view model, std::string_view merges, bool add_bos) {
    std::string vocab;
    for (size_t id = 0; id < out_.tokens.size(); ++id) {
      vocab += (id ? "," : "") + quoted(out_.tokens[id]) + ':' + std::to_string(id);
    }
    out_.tokenizer_json = fmt::format(
        R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{}],"normalizer":{},"pre_tokenizer":{},)"
        R"("post_processor":{},"decoder":{},"model":{{"type":"BPE","dropout":null,"continuing_subword_prefix":null,)"
        R"("end_of_word_suffix":null,{},"vocab":{{{}}},"merges":[{}]}}}})",
        added_tokens(), normalizer, pre_tokenizer, post_processor(add_bos), decoder, model, vocab, merges);
  }

  const File& file_;
  Vocabulary out_;
  std::vector<uint64_t> types_;
  std::unordered_map<std::string_view, uint32_t> ids_;
  std::optional<uint32_t> end_;
};

}  // namespace

Vocabulary read_vocabulary(const File& file) {
  return with_context(file.path(), [&] { return Builder(file).build(); });
}

}  // namespace cortiq::convert::gguf
