#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <exception>
#include <set>
#include <span>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/thread_pool.h"
#include "text/bpe.h"
#include "text/fields.h"
#include "text/large_members.h"
#include "text/pipeline.h"
#include "text/unigram.h"
#include "text/word_models.h"

// Reads a tokenizer.json. Vocabulary and merges of the usual form are read straight from the text (large_members.h),
// others and the added tokens by simdjson; all else is small and becomes Json first.
namespace cortiq::text {
namespace {

namespace dom = simdjson::dom;

constexpr int kMaxDepth = 64;
constexpr size_t kMaxSettings = 100;  // of a model
constexpr size_t kMergesOfPart = 1 << 14;
constexpr size_t kMaxMembers = 10'000;  // of one small object: Json finds its keys one by one

uint32_t checked_id(dom::element value, const std::string& path, std::string_view token) {
  int64_t id = 0;
  if (value.get(id) != simdjson::SUCCESS) {
    fail(ErrorKind::Parse, "{}: the id of '{}' is not a whole number", path, printable(token, 60));
  }
  if (id < 0 || id >= UINT32_MAX) {
    fail(ErrorKind::Parse, "{}: the id {} of '{}' is outside 0…4294967294", path, id, printable(token, 60));
  }
  return static_cast<uint32_t>(id);
}

// A small part of the file as Json.
Json to_json(dom::element value, const std::string& path, int depth = 0) {
  if (depth > kMaxDepth) fail(ErrorKind::Parse, "{}: nested more than {} deep", path, kMaxDepth);
  switch (value.type()) {
    case dom::element_type::OBJECT: {
      Json out = Json::object();
      std::set<std::string_view> seen;
      if (dom::object(value).size() > kMaxMembers) {
        fail(ErrorKind::Unsupported, "{}: an object of more than {} members", path, kMaxMembers);
      }
      for (const auto& [key, member] : dom::object(value)) {
        if (!seen.insert(key).second) fail(ErrorKind::Parse, "{}: '{}' stands twice", path, printable(key, 60));
        out.push_back({std::string(key), to_json(member, path + "/" + printable(key, 60), depth + 1)});
      }
      return out;
    }
    case dom::element_type::ARRAY: {
      Json out = Json::array();
      size_t place = 0;
      for (const dom::element item : dom::array(value)) {
        out.push_back(to_json(item, path + "/" + std::to_string(place++), depth + 1));
      }
      return out;
    }
    case dom::element_type::INT64:
      if (int64_t(value) >= 0) return static_cast<uint64_t>(int64_t(value));
      return int64_t(value);
    case dom::element_type::UINT64:
      return uint64_t(value);
    case dom::element_type::DOUBLE:
      return double(value);
    case dom::element_type::STRING:
      return std::string(std::string_view(value));
    case dom::element_type::BOOL:
      return bool(value);
    case dom::element_type::NULL_VALUE:
      break;
  }
  return nullptr;
}

class ModelReader {
 public:
  /// `large`: the members that were read already, if any were.
  ModelReader(std::string path, std::optional<LargeMembers>& large) : path_(std::move(path)), large_(large) {}

  std::unique_ptr<Model> read(dom::object model) {
    std::optional<dom::element> vocabulary, merges;
    for (const auto& [key, value] : model) {
      if (key == "vocab" && !vocabulary) {
        vocabulary = value;
      } else if (key == "merges" && !merges) {
        merges = value;
      } else if (settings_.size() > kMaxSettings) {
        fail(ErrorKind::Unsupported, "{}: more than {} members", path_, kMaxSettings);
      } else if (key == "vocab" || key == "merges" || settings_.contains(std::string(key))) {
        fail(ErrorKind::Parse, "{}: the member '{}' stands twice", path_, printable(key, 60));
      } else {
        settings_[std::string(key)] = to_json(value, path_ + "/" + printable(key, 60));
      }
    }
    if (!vocabulary) fail(ErrorKind::Parse, "{}: the member 'vocab' is missing", path_);
    if (large_) {
      vocabulary_ = std::move(large_->vocabulary);
    } else {
      read_vocabulary(*vocabulary);
    }
    vocabulary_.index();
    has_merges_ = merges.has_value();
    const Fields fields(settings_, path_);
    const std::string type = fields.text("type", has_merges_ ? "BPE" : is_list_ ? "Unigram" : "WordPiece");
    if (type == "BPE" && merges && !is_list_)
      look_up_merges(large_ ? std::move(*large_->merges) : read_merges(*merges));
    return build(fields, type);
  }

 private:
  void read_vocabulary(dom::element value) {
    const std::string path = path_ + "/vocab";
    if (value.is_object()) return read_tokens(dom::object(value), path);
    if (!value.is_array()) fail(ErrorKind::Parse, "{}: neither an object nor an array", path);
    is_list_ = true;
    pieces_.vocabulary.reserve(dom::array(value).size(), 8 * dom::array(value).size());
    for (const dom::element item : dom::array(value)) {
      dom::array pair;
      std::string_view piece;
      double score = 0;
      if (item.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(piece) != simdjson::SUCCESS ||
          pair.at(1).get(score) != simdjson::SUCCESS) {
        fail(ErrorKind::Parse, "{}/{}: expected a piece and its score", path, pieces_.scores.size());
      }
      pieces_.add(piece, score);
    }
  }

  void read_tokens(dom::object tokens, const std::string& path) {
    vocabulary_.reserve(tokens.size(), 8 * tokens.size());
    Vocabulary::Filler filler(vocabulary_);
    for (const auto& [token, id] : tokens) filler.add(token, checked_id(id, path, token));
    filler.finish();
  }

  HugeVector<MergeText> read_merges(dom::element value) const {
    if (!value.is_array()) fail(ErrorKind::Parse, "{}/merges: not an array", path_);
    HugeVector<MergeText> merges;
    merges.reserve(dom::array(value).size());
    size_t place = 0;
    for (const dom::element item : dom::array(value)) {
      std::string_view line;
      MergeText merge;
      if (item.get(line) == simdjson::SUCCESS) {
        if (!line.starts_with("#version")) {
          if (!split_merge(line, merge)) {
            fail(ErrorKind::Parse, "{}/merges/{}: '{}' is not two parts with one space between them", path_, place,
                 printable(line, 60));
          }
          merges.push_back(merge);
        }
      } else {
        dom::array parts;
        const bool good = item.get(parts) == simdjson::SUCCESS && parts.size() == 2 &&
                          parts.at(0).get(merge.left) == simdjson::SUCCESS &&
                          parts.at(1).get(merge.right) == simdjson::SUCCESS;
        if (!good) fail(ErrorKind::Parse, "{}/merges/{}: not two parts", path_, place);
        merges.push_back(merge);
      }
      ++place;
    }
    return merges;
  }

  // Every merge looks three texts up in a large vocabulary and waits for memory: parts of the list go side by side.
  void look_up_merges(std::span<const MergeText> merges) {
    const size_t prefix = Fields(settings_, path_).text("continuing_subword_prefix", "").size(), count = merges.size();
    const size_t parts = std::clamp<size_t>(count / kMergesOfPart, 1, std::min<size_t>(usable_threads(), 4));
    std::vector<Bpe::Merges> read(parts);
    std::vector<std::exception_ptr> failures(parts);
    ThreadPool(parts).run(parts, [&](size_t part) {
      try {
        const size_t begin = part * count / parts, end = (part + 1) * count / parts;
        // The first takes up the others afterwards.
        Bpe::MergeReader reader(vocabulary_, prefix, part == 0 ? count : end - begin, path_, begin);
        for (size_t i = begin; i < end; ++i) reader.add(merges[i].left, merges[i].right);
        read[part] = reader.finish();
      } catch (...) {
        failures[part] = std::current_exception();
      }
    });
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
    merges_ = std::move(read.front());
    for (size_t part = 1; part < parts; ++part) merges_.append(read[part]);
  }

  std::unique_ptr<Model> build(const Fields& fields, const std::string& type) {
    if (is_list_ != (type == "Unigram")) {
      if (type == "BPE" || type == "WordPiece" || type == "WordLevel" || type == "Unigram") {
        fail(ErrorKind::Parse, "{}/vocab: a {} model has its vocabulary as {}", path_, type,
             type == "Unigram" ? "an array of pieces and scores" : "an object of tokens and ids");
      }
    }
    if (type == "BPE") return build_bpe(fields);
    if (type == "Unigram") {
      pieces_.vocabulary.index();
      std::optional<uint32_t> unknown;
      if (fields.has("unk_id")) unknown = static_cast<uint32_t>(std::min<uint64_t>(fields.count("unk_id"), UINT32_MAX));
      return std::make_unique<Unigram>(std::move(pieces_), unknown, fields.flag("byte_fallback", false), path_);
    }
    if (type == "WordPiece") {
      WordPiece::Settings settings{fields.text("unk_token"), fields.text("continuing_subword_prefix"),
                                   fields.count("max_input_chars_per_word")};
      return std::make_unique<WordPiece>(std::move(vocabulary_), std::move(settings));
    }
    if (type == "WordLevel") return std::make_unique<WordLevel>(std::move(vocabulary_), fields.text("unk_token"));
    fields.unknown_type("a model");
  }

  std::unique_ptr<Model> build_bpe(const Fields& fields) {
    if (!has_merges_) fail(ErrorKind::Parse, "{}: the member 'merges' is missing", path_);
    if (fields.has("dropout")) {
      const Json& dropout = fields.at("dropout");
      if (!dropout.is_number() || dropout.get<double>() != 0) {
        fail(ErrorKind::Unsupported,
             "{}: merges at random ({}) would give different ids for the same text; set it to null",
             fields.path_of("dropout"), printable(dropout.dump(), 40));
      }
    }
    Bpe::Settings settings;
    if (fields.has("unk_token")) settings.unknown = fields.text("unk_token");
    settings.prefix = fields.text("continuing_subword_prefix", "");
    settings.suffix = fields.text("end_of_word_suffix", "");
    settings.fuse_unknown = fields.flag("fuse_unk", false);
    settings.byte_fallback = fields.flag("byte_fallback", false);
    settings.ignore_merges = fields.flag("ignore_merges", false);
    return std::make_unique<Bpe>(std::move(vocabulary_), std::move(merges_), std::move(settings));
  }

  std::string path_;
  std::optional<LargeMembers>& large_;
  Json settings_ = Json::object();
  Vocabulary vocabulary_;
  Unigram::Pieces pieces_;
  Bpe::Merges merges_;
  bool is_list_ = false, has_merges_ = false;
};

std::vector<AddedToken> read_added(dom::element value, const std::string& path) {
  std::vector<AddedToken> out;
  if (value.is_null()) return out;
  if (!value.is_array()) fail(ErrorKind::Parse, "{}: not an array", path);
  for (const dom::element item : dom::array(value)) {
    AddedToken token;
    std::string_view content;
    dom::object object;
    dom::element id;
    if (item.get(object) != simdjson::SUCCESS || object["content"].get(content) != simdjson::SUCCESS ||
        object["id"].get(id) != simdjson::SUCCESS) {
      fail(ErrorKind::Parse, "{}/{}: a token needs content and id", path, out.size());
    }
    token.content = content;
    token.id = checked_id(id, path, content);
    const std::pair<const char*, bool*> flags[] = {{"single_word", &token.single_word},
                                                   {"lstrip", &token.lstrip},
                                                   {"rstrip", &token.rstrip},
                                                   {"normalized", &token.normalized},
                                                   {"special", &token.special}};
    for (const auto& [name, flag] : flags) {
      if (object[name].get(*flag) != simdjson::SUCCESS) {
        fail(ErrorKind::Parse, "{}/{}: '{}' needs true or false for {}", path, out.size(), printable(content, 60),
             name);
      }
    }
    out.push_back(std::move(token));
  }
  return out;
}

constexpr std::string_view kSmallParts[] = {"normalizer", "pre_tokenizer", "post_processor",
                                            "decoder",    "truncation",    "padding"};

// A vocabulary of 150,000 tokens is 11 MB of text and makes as much again of tape, strings and places: most of the time
// to read it would go into faults of small pages.
dom::element parse_in_huge_pages(dom::parser& parser, std::string_view json, HugeVector<char>& padded) {
  padded.reserve(json.size() + simdjson::SIMDJSON_PADDING);
  padded.assign(json.begin(), json.end());
  padded.resize(json.size() + simdjson::SIMDJSON_PADDING);
  if (json.size() > parser.capacity()) {
    for (const auto error : {parser.allocate(json.size()), parser.doc.allocate(json.size())}) {
      if (error) throw simdjson::simdjson_error(error);
    }
    const size_t words = json.size() + 3, strings = 5 * json.size() / 3;
    advise_huge_pages(parser.doc.tape.get(), words * sizeof(uint64_t));
    advise_huge_pages(parser.doc.string_buf.get(), strings);
    advise_huge_pages(parser.implementation->structural_indexes.get(), words * sizeof(uint32_t));
  }
  return parser.parse(padded.data(), json.size(), false);
}

std::shared_ptr<const Tokenizer> read(std::string_view json, std::string_view what) {
  const std::string root = std::string(what) + ": ";
  std::optional<LargeMembers> large;
  if (simdjson::validate_utf8(json)) large = read_large_members(json);
  dom::parser parser;
  HugeVector<char> padded;
  const dom::element document = parse_in_huge_pages(parser, large ? large->rest : json, padded);
  if (!document.is_object()) fail(ErrorKind::Parse, "{}not an object", root);
  TokenizerParts parts;
  std::vector<AddedToken> added;
  std::optional<dom::object> model;
  Json small = Json::object();
  std::set<std::string_view> seen;
  for (const auto& [key, value] : dom::object(document)) {
    if (!seen.insert(key).second) fail(ErrorKind::Parse, "{}the member '{}' stands twice", root, printable(key, 60));
    if (key == "model") {
      if (!value.is_object()) fail(ErrorKind::Parse, "{}/model: not an object", root);
      model = dom::object(value);
    } else if (key == "added_tokens") {
      added = read_added(value, root + "/added_tokens");
    } else if (std::find(std::begin(kSmallParts), std::end(kSmallParts), key) != std::end(kSmallParts)) {
      small[std::string(key)] = to_json(value, root + "/" + std::string(key));
    }
  }
  if (!model) fail(ErrorKind::Parse, "{}the member 'model' is missing", root);
  parts.model = ModelReader(root + "/model", large).read(*model);
  const auto with = [&](const char* key, auto parse) {
    if (small.contains(key) && !small[key].is_null()) parse(small[key], root + "/" + key);
  };
  with("normalizer",
       [&](const Json& part, const std::string& path) { parts.normalizer = parse_normalizer(part, path); });
  with("pre_tokenizer",
       [&](const Json& part, const std::string& path) { parts.pre_tokenization = parse_pre_tokenizer(part, path); });
  with("post_processor",
       [&](const Json& part, const std::string& path) { parts.post_processing = parse_post_processor(part, path); });
  parts.decoder = make_joining_decoder();
  with("decoder", [&](const Json& part, const std::string& path) { parts.decoder = parse_decoder(part, path); });
  for (const char* ignored : {"truncation", "padding"}) {
    with(ignored, [&](const Json&, const std::string&) {
      parts.notes.push_back(
          fmt::format("the tokenizer asks for {}; it is ignored, the ids are those of the whole text", ignored));
    });
  }
  parts.added = AddedTokens(std::move(added), *parts.model, parts.normalizer.get(), parts.notes);
  return std::make_shared<Pipeline>(std::move(parts));
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::parse(std::string_view json, std::string_view what) {
  try {
    return read(json, what);
  } catch (const simdjson::simdjson_error& error) {
    fail(ErrorKind::Parse, "{}: not a tokenizer.json: {}", what, error.what());
  }
}

}  // namespace cortiq::text
