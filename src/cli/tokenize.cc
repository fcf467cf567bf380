#include <fmt/format.h>

#include "cli/command.h"
#include "cli/common.h"
#include "cli/load_text.h"
#include "text/tokenizer.h"

namespace cortiq::cli {
namespace {

// Every piece in its turn of colours, spaces and line ends made visible: what a person needs who debugs a prompt.
void print_pieces(const text::Tokenizer& tokenizer, const std::string& input, bool special) {
  const Style style = style_of(stdout);
  constexpr const char* kColours[] = {"\033[48;5;24m", "\033[48;5;58m", "\033[48;5;54m", "\033[48;5;23m",
                                      "\033[48;5;88m"};
  const auto pieces = tokenizer.encode_pieces(input, special);
  size_t turn = 0;
  for (const auto& piece : pieces) {
    std::string shown = printable(tokenizer.token_of(piece.id).value_or("?"), 1000);
    if (piece.end > piece.begin)
      shown = printable(std::string_view(input).substr(piece.begin, piece.end - piece.begin), 1000);
    if (style.bold.empty()) {
      fmt::print("{:>8}  {}\n", piece.id, shown);
    } else {
      fmt::print("{}{}{}", kColours[turn++ % std::size(kColours)], shown, style.reset);
    }
  }
  if (!style.bold.empty()) fmt::print("\n");
  fmt::print("{} ids, {} bytes\n", pieces.size(), input.size());
}

Json encode_line(const text::Tokenizer& tokenizer, const Json& line, bool special) {
  if (!line.is_string()) fail(ErrorKind::Parse, "expected one JSON string a line");
  return tokenizer.encode(line.get_ref<const std::string&>(), special);
}

Json decode_line(const text::Tokenizer& tokenizer, const Json& line, bool skip_special, std::optional<uint64_t> rows) {
  if (!line.is_array()) fail(ErrorKind::Parse, "expected one JSON array of ids a line");
  text::Ids ids;
  for (const Json& id : line) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX) {
      fail(ErrorKind::Bounds, "{} is no token id", printable(id.dump(), 40));
    }
    ids.push_back(id.get<uint32_t>());
    if (rows && ids.back() >= *rows) fail(ErrorKind::Bounds, "{}: the model has {} ids", ids.back(), *rows);
  }
  return tokenizer.decode(ids, skip_special);
}

}  // namespace

int run_tokenize(const Arguments& arguments) {
  std::string path;
  std::optional<std::string> text;
  bool jsonl = false, special = false, decode = false, skip_special = false, pieces = false;
  Flags flags("tokenize", "Ids of texts, and back",
              {"cortiq tokenize model.cmf --text 'Hello world' --pieces",
               "cortiq tokenize tokenizer.json --jsonl < strings.jsonl",
               "cortiq tokenize model.cmf --jsonl --decode < ids.jsonl"});
  flags.positional("path", path, "CMF or GGUF file, directory, or tokenizer.json")
      .option("-t,--text", text, "the text (default: standard input)")
      .flag("--jsonl", jsonl, "one JSON string a line in, one JSON array of ids a line out")
      .flag("--special", special, "add the special tokens that the post-processor adds")
      .flag("--decode", decode, "ids in, text out")
      .flag("--skip-special", skip_special, "leave special tokens out when decoding")
      .flag("--pieces", pieces, "show every piece, in colour on a terminal");
  if (!flags.parse(arguments)) return 0;
  const auto tokenizer = load_tokenizer(path);
  for (const auto& note : tokenizer->notes()) warn(note);
  const std::optional<uint64_t> rows = decode ? vocabulary_rows(path) : std::nullopt;
  if (jsonl) {
    for_each_line([&](const std::string& line) {
      try {
        const Json value = parse_json(line, "line");
        print_json(decode ? decode_line(*tokenizer, value, skip_special, rows)
                          : encode_line(*tokenizer, value, special));
      } catch (const Error& error) {
        print_json({{"error", fmt::format("{}: {}", name(error.kind()), error.what())}});
      }
    });
    return 0;
  }
  const std::string input = text ? *text : read_stdin();
  if (decode) {
    fmt::print("{}\n", tokenizer->decode(parse_ids(input, "ids"), skip_special));
  } else if (pieces || (is_terminal(stdout) && !text)) {
    print_pieces(*tokenizer, input, special);
  } else {
    const text::Ids ids = tokenizer->encode(input, special);
    fmt::print("{}\n", fmt::join(ids, ","));
  }
  return 0;
}

}  // namespace cortiq::cli
