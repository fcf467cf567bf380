#include "convert/gguf/pretokenizers.h"

#include <algorithm>
#include <array>

namespace cortiq::convert::gguf {
namespace {

// What the vocabularies of these names were trained with, as members of a tokenizer.json's Sequence. Where readers of
// GGUF approximate a pattern, the approximation is not followed.
constexpr std::string_view kByteLevel =
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})";
constexpr std::string_view kByteLevelWithRegex =
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
constexpr std::string_view kDigits = R"({"type":"Digits","individual_digits":true})";

// Patterns of splits, as JSON spells them.
constexpr std::string_view kLlama3 =
    R"~((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\)~"
    R"~(s*[\\r\\n]+|\\s+(?!\\S)|\\s+)~";
constexpr std::string_view kQwen2 =
    R"~((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\)~"
    R"~(r\\n]+|\\s+(?!\\S)|\\s+)~";
constexpr std::string_view kQwen35 =
    R"~((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\)~"
    R"~(r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)~";
constexpr std::string_view kLineBreaks = R"~([\r\n])~";
constexpr std::string_view kDeepseekLetters =
    R"~(\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u)~"
    R"~(0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048)~"
    R"~(a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6)~"
    R"~(b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d)~"
    R"~(\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-)~"
    R"~(\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u2)~"
    R"~(12d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2ce)~"
    R"~(e\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06)~"
    R"~(\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\ud801\udc00-\ud801\udc4f\ud801\udcb0-\ud801\udcd3\ud801\udcd8-\u)~"
    R"~(d801\udcfb\ud803\udc80-\ud803\udcb2\ud803\udcc0-\ud803\udcf2\ud806\udca0-\ud806\udcdf\ud83a\udd00-\ud83a)~"
    R"~(\udd43]+)~";
constexpr std::string_view kDeepseekPunctuation =
    R"~(\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+)~";
constexpr std::string_view kTrailingSpace = R"~(\\s+$)~";
constexpr std::string_view kIdeographs = R"~([\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+)~";
constexpr std::string_view kNumbers = R"~(\\p{N}+)~";
constexpr std::string_view kLettersWithSpace = R"~(\\s?\\p{L}+)~";
constexpr std::string_view kPunctuationWithSpace = R"~(\\s?\\p{P}+)~";
constexpr std::string_view kNumberSigns = R"~(\\p{N})~";
constexpr std::string_view kThreeNumberSigns = R"~(\\p{N}{1,3})~";
constexpr std::string_view kIdeographsAndKana = R"~([\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+)~";
constexpr std::string_view kDeepseekV3 =
    R"~([!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p)~"
    R"~({P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)~";
constexpr std::string_view kPunctuationRuns = R"~([\\p{P}\\$\\+<=>\\^~\\|`]+)~";
constexpr std::string_view kGpt2 =
    R"~('s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+)~";
constexpr std::string_view kThreeDigits = R"~([0-9][0-9][0-9])~";
constexpr std::string_view kTekken =
    R"~([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L})~"
    R"~(\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+)~"
    R"~([\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)~";
constexpr std::string_view kGpt4o =
    R"~([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|')~"
    R"~(ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*)~"
    R"~((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)~";
constexpr std::string_view kBloom = R"~( ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+)~";
constexpr std::string_view kPunctuationRunsWithoutBacktick = R"~([\\p{P}\\$\\+<=>\\^~\\|]+)~";

constexpr size_t kMostParts = 7;
struct Row {
  std::string_view name;
  bool nfc, ignore_merges, add_bos;
  std::array<std::string_view, kMostParts> parts;
  std::string_view aliases;  ///< separated by spaces
};

const Row kRows[] = {
    {"gpt-2",
     false,
     false,
     false,
     {kByteLevelWithRegex},
     "jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert exaone4 jina-v1-en jina-v2-code "
     "roberta-bpe"},
    {"olmo", true, false, false, {kByteLevelWithRegex}, ""},
    {"mpt", true, false, false, {kByteLevelWithRegex}, ""},
    {"phi-2", false, false, false, {kByteLevelWithRegex}, ""},
    {"jais", false, false, false, {kByteLevelWithRegex}, ""},
    {"trillion", false, false, false, {kByteLevelWithRegex}, "granite-docling"},
    {"llama-bpe",
     false,
     true,
     true,
     {kLlama3, kByteLevel},
     "llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano"},
    {"dbrx", false, false, false, {kLlama3, kByteLevel}, ""},
    {"smaug-bpe", false, false, false, {kLlama3, kByteLevel}, ""},
    {"chatglm-bpe", false, false, false, {kLlama3, kByteLevel}, "glm4"},
    {"qwen2", true, false, false, {kQwen2, kByteLevel}, "deepseek-r1-qwen kormo f2llmv2 megrez"},
    {"stablelm2", false, false, false, {kQwen2, kByteLevel}, ""},
    {"qwen35", true, false, false, {kQwen35, kByteLevel}, ""},
    {"deepseek-llm",
     false,
     false,
     false,
     {kLineBreaks, kDeepseekLetters, kDeepseekPunctuation, kTrailingSpace, kIdeographs, kNumbers, kByteLevel},
     ""},
    {"deepseek-coder",
     false,
     false,
     false,
     {kLineBreaks, kLettersWithSpace, kPunctuationWithSpace, kIdeographs, kNumberSigns, kByteLevel},
     ""},
    {"deepseek-v3", false, false, false, {kThreeNumberSigns, kIdeographsAndKana, kDeepseekV3, kByteLevel}, ""},
    {"smollm", false, false, false, {kDigits, kByteLevelWithRegex}, ""},
    {"starcoder", false, false, false, {kDigits, kByteLevelWithRegex}, "codeshell exaone minerva-7b mellum2"},
    {"refact", false, false, false, {kDigits, kByteLevelWithRegex}, ""},
    {"command-r", true, false, false, {kDigits, kByteLevelWithRegex}, ""},
    {"falcon", false, false, false, {kPunctuationRuns, kGpt2, kThreeDigits, kByteLevel}, ""},
    {"tekken", false, true, true, {kTekken, kByteLevel}, ""},
    {"gpt-4o", false, false, false, {kGpt4o, kByteLevel}, "llama4 kanana2"},
    {"bloom", false, false, false, {kBloom, kByteLevel}, "poro-chat gpt3-finnish"},
    {"default", false, false, false, {kPunctuationRunsWithoutBacktick, kGpt2, kNumbers, kThreeDigits, kByteLevel}, ""},
};

std::string member(std::string_view part) {
  if (part.starts_with('{')) return std::string(part);
  return R"({"type":"Split","pattern":{"Regex":")" + std::string(part) + R"("},"behavior":"Isolated","invert":false})";
}

bool among(std::string_view words, std::string_view name) noexcept {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == name) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace

std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name != name && !among(row.aliases, name)) continue;
    PreTokenizer found{row.nfc, row.ignore_merges, row.add_bos};
    for (const std::string_view part : row.parts) {
      if (!part.empty()) found.json += (found.json.empty() ? "" : ",") + member(part);
    }
    found.json = R"({"type":"Sequence","pretokenizers":[)" + found.json + "]}";
    return found;
  }
  return std::nullopt;
}

}  // namespace cortiq::convert::gguf
