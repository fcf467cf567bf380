#pragma once
#include <memory>
#include <string>

#include "cli/session.h"
#include "engine/generate.h"
#include "text/tokenizer.h"

namespace cortiq::cli {

/// Prints an answer while it is made: never a part of a character, never an end or special token.
class AnswerPrinter {
 public:
  AnswerPrinter(const engine::Model& model, bool print);
  /// False when the reader has gone away.
  bool token(uint32_t id);
  /// Flushes what is held back and ends the line.
  void close();
  const std::string& text() const noexcept { return text_; }

 private:
  const engine::Model& model_;
  std::unique_ptr<text::StreamDecoder> decoder_;
  bool print_;
  std::string text_;
};

/// "[12 tokens · prompt 24 at 1,200/s · 85.3 tok/s · stop]", dimmed.
void print_closing_line(const engine::Generated& answer, const engine::Binding& binding, const std::string& remarks);

/// A conversation on the terminal, with history; Ctrl-C stops the answer, not the program.
int converse(Session& session, const engine::GenerateOptions& options, const std::string& system, bool raw);

}  // namespace cortiq::cli
