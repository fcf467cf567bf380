#include "text/post_processor.h"

#include "base/error.h"
#include "text/fields.h"

namespace cortiq::text {
namespace {

uint32_t id_from(const Json& json, const std::string& path) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() >= UINT32_MAX) {
    fail(ErrorKind::Parse, "{}: expected an id, found {}", path, printable(json.dump(), 40));
  }
  return json.get<uint32_t>();
}

// The ids of a template's special token.
Ids special_ids(const Fields& template_fields, const std::string& name, const std::string& path) {
  const Fields table(template_fields.at("special_tokens"), template_fields.path_of("special_tokens"));
  if (!table.has(name.c_str())) {
    fail(ErrorKind::Parse, "{}: the token '{}' is not in special_tokens", path, printable(name, 60));
  }
  const Fields token(table.at(name.c_str()), table.path_of(name.c_str()));
  Ids ids;
  for (const Json& id : token.list("ids")) ids.push_back(id_from(id, token.path_of("ids")));
  return ids;
}

// One of a template's two lists; `out` only for that of a single text.
void read_template(const Fields& fields, const char* name, PostProcessing* out) {
  const Json& list = fields.list(name);
  size_t sequences = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path = fields.path_of(name) + "/" + std::to_string(i);
    const Fields piece(list[i], path);
    if (piece.has("SpecialToken")) {
      const Fields token(piece.at("SpecialToken"), path);
      const Ids ids = special_ids(fields, token.text("id"), path);
      if (out == nullptr) continue;
      Ids& side = sequences == 0 ? out->prefix : out->suffix;
      side.insert(side.end(), ids.begin(), ids.end());
    } else if (piece.has("Sequence")) {
      const Fields sequence(piece.at("Sequence"), path);
      const std::string which = sequence.text("id");
      if (which != "A" && which != "B")
        fail(ErrorKind::Parse, "{}: the sequence '{}' is neither A nor B", path, printable(which, 60));
      ++sequences;
      if (out != nullptr && which != "A") fail(ErrorKind::Unsupported, "{}: a single text has no sequence B", path);
    } else {
      fail(ErrorKind::Unsupported, "{}: neither a SpecialToken nor a Sequence", path);
    }
  }
  if (out != nullptr && sequences != 1) {
    fail(ErrorKind::Unsupported, "{}: a single text stands {} times in its template", fields.path_of(name), sequences);
  }
}

PostProcessing parse_template(const Fields& fields) {
  PostProcessing out;
  read_template(fields, "single", &out);
  read_template(fields, "pair", nullptr);
  return out;
}

// BertProcessing and RobertaProcessing: "cls": [token, id], "sep": [token, id].
PostProcessing parse_enclosing(const Fields& fields) {
  const auto id = [&](const char* name) {
    const Json& pair = fields.list(name);
    if (pair.size() != 2) fail(ErrorKind::Parse, "{}: expected a token and its id", fields.path_of(name));
    return id_from(pair[1], fields.path_of(name));
  };
  return {{id("cls")}, {id("sep")}};
}

PostProcessing parse_sequence(const Fields& fields) {
  PostProcessing out;
  bool adds = false;
  const Json& list = fields.list("processors");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path = fields.path_of("processors") + "/" + std::to_string(i);
    PostProcessing part = parse_post_processor(list[i], path);
    if (part.prefix.empty() && part.suffix.empty()) continue;
    if (adds) fail(ErrorKind::Unsupported, "{}: a second post-processor that adds tokens", path);
    adds = true;
    out = std::move(part);
  }
  return out;
}

using Maker = PostProcessing (*)(const Fields&);
struct Row {
  const char* type;
  Maker make;
};
const Row kTypes[] = {
    {"TemplateProcessing", parse_template},
    {"BertProcessing", parse_enclosing},
    {"RobertaProcessing", parse_enclosing},
    {"ByteLevel", [](const Fields&) { return PostProcessing{}; }},  // trims offsets, adds nothing
    {"Sequence", parse_sequence},
};

}  // namespace

PostProcessing parse_post_processor(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  const std::string type = fields.type();
  for (const Row& row : kTypes) {
    if (type == row.type) return row.make(fields);
  }
  fields.unknown_type("a post-processor");
}

}  // namespace cortiq::text
