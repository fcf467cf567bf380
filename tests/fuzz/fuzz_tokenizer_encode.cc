#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"

// Any text through small tokenizers of every kind; what must hold of all of them, and of each.
namespace {

using cortiq::Json;
using cortiq::text::ByteAlphabet;
using cortiq::text::Ids;
using cortiq::text::StreamDecoder;
using cortiq::text::Tokenizer;

using Shared = std::shared_ptr<const Tokenizer>;

constexpr const char* kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json parsed(const char* text) { return Json::parse(text); }

Json byte_level_model() {
  Json model = parsed(R"({"type":"BPE","merges":[["a","b"],["ab","ab"],["Ġ","t"],["Ġt","h"],["Ġth","e"],["1","1"]]})");
  Json& vocab = model["vocab"] = Json::object();
  for (unsigned b = 0; b < 256; ++b)
    vocab[std::string(ByteAlphabet::get().character(static_cast<unsigned char>(b)))] = b;
  uint32_t id = 256;
  for (const char* token : {"ab", "abab", "Ġt", "Ġth", "Ġthe", "11"}) vocab[token] = id++;
  return model;
}

Json byte_fallback_model() {
  Json model =
      parsed(R"({"type":"BPE","unk_token":"<unk>","byte_fallback":true,"fuse_unk":true,"merges":["▁ a","a b"]})");
  Json& vocab = model["vocab"] = Json::object();
  vocab["<unk>"] = 0;
  for (unsigned b = 0; b < 256; ++b) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    vocab[std::string("<0x") + kDigits[b / 16] + kDigits[b % 16] + ">"] = b + 1;
  }
  uint32_t id = 257;
  for (const char* token : {"▁", "a", "b", "▁a", "ab", "é"}) vocab[token] = id++;
  return model;
}

Shared make(Json json) { return Tokenizer::parse(json.dump(), "fuzz"); }

std::vector<Shared> tokenizers() {
  const Json added = parsed(
      R"([{"id":300,"content":"<s>","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":true},
                                {"id":301,"content":"ab c","single_word":true,"lstrip":true,"rstrip":false,"normalized":true,"special":false}])");
  std::vector<Shared> out;
  Json bytes = parsed(R"({"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{},
                          {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]}})");
  bytes["model"] = byte_level_model();
  bytes["pre_tokenizer"]["pretokenizers"][0] = {{"type", "Split"}, {"behavior", "Isolated"}, {"invert", false}};
  bytes["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = kPattern;
  out.push_back(make(bytes));
  bytes["added_tokens"] = added;
  for (const char* normalizer : {"NFC", "NFKD", "Lowercase", "StripAccents", "Nmt"}) {
    bytes["normalizer"]["type"] = normalizer;
    out.push_back(make(bytes));
  }
  Json fallback = parsed(R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
      {"type":"Replace","pattern":{"String":" "},"content":"▁"}]},"decoder":{"type":"Sequence","decoders":[
      {"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
      {"type":"Strip","content":" ","start":1,"stop":0}]}})");
  fallback["model"] = byte_fallback_model();
  fallback["added_tokens"] = added;
  out.push_back(make(fallback));
  Json unigram = parsed(R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-1.5],["a",-2],["▁a",-2.5],
      ["ab",-3],["b",-2.25],["▁ab",-4]]},"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"},
      "decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"}})");
  unigram["added_tokens"] = added;
  out.push_back(make(unigram));
  Json words = parsed(R"({"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",
      "max_input_chars_per_word":20,"vocab":{"[UNK]":0,"a":1,"##b":2,"##ab":3,"e":4,".":5}},
      "normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
      "pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece","prefix":"##","cleanup":true}})");
  out.push_back(make(words));
  words["pre_tokenizer"] =
      parsed(R"({"type":"Sequence","pretokenizers":[{"type":"UnicodeScripts"},{"type":"Whitespace"},
      {"type":"Punctuation","behavior":"MergedWithNext"},{"type":"Digits","individual_digits":false},{"type":"FixedLength","length":3}]})");
  words["decoder"] = nullptr;
  out.push_back(make(words));
  return out;
}

void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Shared> all = tokenizers();
  if (size == 0) return 0;
  const size_t which = data[0] % all.size();
  const Shared& tokenizer = all[which];
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string repaired = cortiq::replace_invalid_utf8(text);

  const Ids ids = tokenizer->encode(text, true);
  require(tokenizer->encode(text, true) == ids);  // from the cache now
  const auto pieces = tokenizer->encode_pieces(text, true);
  require(pieces.size() == ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    require(pieces[i].id == ids[i] && pieces[i].begin <= pieces[i].end && pieces[i].end <= repaired.size());
  }
  const std::string decoded = tokenizer->decode(ids, false);
  require(cortiq::valid_utf8(decoded));
  if (which == 0) require(decoded == repaired);

  StreamDecoder stream(tokenizer, false);
  std::string streamed;
  for (const uint32_t id : ids) {
    const std::string part = stream.push(id);
    require(cortiq::valid_utf8(part));
    streamed += part;
  }
  require(streamed + stream.flush() == decoded);
  return 0;
}
