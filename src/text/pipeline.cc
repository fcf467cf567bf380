#include "text/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_level.h"

namespace cortiq::text {
namespace {

constexpr size_t kOrdinaryText = size_t{8} << 20;  // bytes; what larger texts needed is not kept for the next call

}  // namespace

struct Pipeline::Scratch {
  AlignedText normalized;
  Pieces pieces;
  std::vector<AddedTokens::Part> parts, inner;
  ModelScratch model;
  PieceCache cache;
  std::string spelled;
  std::vector<Token> tokens;
};

Pipeline::Pipeline(TokenizerParts parts) : parts_(std::move(parts)) {
  if (parts_.normalizer != nullptr) {
    for (const auto& step : parts_.pre_tokenization.steps) needs_origins_ = needs_origins_ || step->needs_origins();
  }
  const auto& notes = parts_.model->notes();
  parts_.notes.insert(parts_.notes.end(), notes.begin(), notes.end());
}

Pipeline::~Pipeline() = default;

std::unique_ptr<Pipeline::Scratch> Pipeline::borrow() const {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) return std::make_unique<Scratch>();
  auto scratch = std::move(spare_.back());
  spare_.pop_back();
  return scratch;
}

void Pipeline::give_back(std::unique_ptr<Scratch> scratch) const {
  const std::lock_guard lock(mutex_);
  spare_.push_back(std::move(scratch));
}

Ids Pipeline::encode(std::string_view text, bool special) const {
  Ids ids;
  if (special) ids = prefix();
  run(text, {&ids, nullptr});
  if (special) ids.insert(ids.end(), suffix().begin(), suffix().end());
  return ids;
}

std::vector<Piece> Pipeline::encode_pieces(std::string_view text, bool special) const {
  Ids ids;
  std::vector<Piece> pieces;
  if (special) {
    for (const uint32_t id : prefix()) pieces.push_back({id, 0, 0});
  }
  run(text, {&ids, &pieces});
  if (special) {
    for (const uint32_t id : suffix()) pieces.push_back({id, text.size(), text.size()});
  }
  return pieces;
}

void Pipeline::run(std::string_view text, const Output& out) const {
  if (!valid_utf8(text)) {
    // Positions are then those of the repaired text.
    run(replace_invalid_utf8(text), out);
    return;
  }
  auto scratch = borrow();
  scratch->parts.clear();
  if (parts_.added.any(false)) {
    parts_.added.split(text, false, scratch->parts);
  } else if (!text.empty()) {
    scratch->parts.push_back({{0, text.size()}, std::nullopt});
  }
  for (const AddedTokens::Part& part : scratch->parts) {
    if (!part.id) {
      run_stretch(text, part.span, *scratch, out);
      continue;
    }
    out.ids->push_back(*part.id);
    if (out.pieces != nullptr) out.pieces->push_back({*part.id, part.span.begin, part.span.end});
  }
  if (text.size() <= kOrdinaryText) give_back(std::move(scratch));
}

void Pipeline::run_stretch(std::string_view text, Span stretch, Scratch& scratch, const Output& out) const {
  AlignedText& normalized = scratch.normalized;
  normalized.assign(text, stretch, out.pieces != nullptr || needs_origins_);
  if (parts_.normalizer != nullptr) parts_.normalizer->apply(normalized);
  scratch.inner.clear();
  if (parts_.added.any(true)) {
    parts_.added.split(normalized.text(), true, scratch.inner);
  } else if (!normalized.text().empty()) {
    scratch.inner.push_back({{0, normalized.text().size()}, std::nullopt});
  }
  for (const AddedTokens::Part& part : scratch.inner) {
    if (part.id) {
      const Span origin = normalized.origin(part.span);
      out.ids->push_back(*part.id);
      if (out.pieces != nullptr) out.pieces->push_back({*part.id, origin.begin, origin.end});
      continue;
    }
    Pieces& pieces = scratch.pieces;
    pieces.text.assign(normalized, part.span);
    pieces.spans.assign(1, {0, part.span.size()});
    for (const auto& step : parts_.pre_tokenization.steps) step->apply(pieces);
    for (const Span piece : pieces.spans) {
      scratch.tokens.clear();
      run_piece(pieces.text.text(piece), scratch);
      for (const Token& token : scratch.tokens) out.ids->push_back(token.id);
      if (out.pieces == nullptr) continue;
      size_t at = piece.begin;
      for (const Token& token : scratch.tokens) {
        const size_t end = std::min(piece.end, at + token.length);
        const Span origin = pieces.text.origin({at, end});
        out.pieces->push_back({token.id, origin.begin, origin.end});
        at = end;
      }
    }
  }
}

// Appends the tokens of a piece, cut where its parts do not influence each other.
void Pipeline::run_piece(std::string_view piece, Scratch& scratch) const {
  if (piece.size() <= PieceCache::kLongest) {
    tokenize_short(piece, scratch);
    return;
  }
  if (piece.size() > INT32_MAX) fail(ErrorKind::Unsupported, "a piece of text of {} bytes", piece.size());
  if (parts_.pre_tokenization.byte_level) {
    tokenize_new(piece, scratch);
    return;
  }
  for (size_t at = 0; at < piece.size();) {
    const size_t end = parts_.model->independent_end(piece, at);
    const std::string_view part = piece.substr(at, end - at);
    if (part.size() <= PieceCache::kLongest) {
      tokenize_short(part, scratch);
    } else {
      tokenize_new(part, scratch);
    }
    at = end;
  }
}

void Pipeline::tokenize_short(std::string_view piece, Scratch& scratch) const {
  const uint64_t hash = scratch.cache.hash(piece);
  const std::span<const Token> known = scratch.cache.find(piece, hash);
  if (!known.empty()) {
    scratch.tokens.insert(scratch.tokens.end(), known.begin(), known.end());
    return;
  }
  const size_t before = scratch.tokens.size();
  tokenize_new(piece, scratch);
  const auto fresh = std::span<const Token>(scratch.tokens).subspan(before);
  if (!fresh.empty()) scratch.cache.insert(piece, hash, fresh);
}

void Pipeline::tokenize_new(std::string_view piece, Scratch& scratch) const {
  if (!parts_.pre_tokenization.byte_level) {
    parts_.model->tokenize(piece, scratch.model, scratch.tokens);
    return;
  }
  scratch.spelled.clear();
  ByteAlphabet::get().spell(piece, scratch.spelled);
  size_t first = scratch.tokens.size(), at = 0;
  parts_.model->tokenize(scratch.spelled, scratch.model, scratch.tokens);
  // A character of the alphabet is one byte of the piece.
  for (; first < scratch.tokens.size(); ++first) {
    Token& token = scratch.tokens[first];
    const size_t end = std::min(scratch.spelled.size(), at + token.length);
    token.length = 0;
    for (; at < end; ++at) token.length += (static_cast<unsigned char>(scratch.spelled[at]) & 0xC0) != 0x80;
  }
}

namespace {

class Decoding final : public TextDecoding {
 public:
  Decoding(const Pipeline& pipeline, const Decoder& decoder, bool skip_special)
      : pipeline_(pipeline), skip_special_(skip_special) {
    decoder.add_steps(steps_);
  }

  void push(uint32_t id, std::string& out) override {
    const auto token = pipeline_.token(id);
    if (!token || (skip_special_ && pipeline_.is_special(id))) return;
    run({std::string(*token)}, 0, out);
  }

  void finish(std::string& out) override {
    std::vector<TokenPart> parts;
    for (size_t i = 0; i < steps_.size(); ++i) {
      parts.clear();
      steps_[i]->finish(parts);
      for (TokenPart& part : parts) run(std::move(part), i + 1, out);
    }
  }

 private:
  void run(TokenPart part, size_t step, std::string& out) {
    std::vector<TokenPart> now, next;
    now.push_back(std::move(part));
    for (; step < steps_.size() && !now.empty(); ++step) {
      next.clear();
      for (TokenPart& one : now) steps_[step]->push(std::move(one), next);
      now.swap(next);
    }
    for (const TokenPart& one : now) out += one.text;
  }

  const Pipeline& pipeline_;
  bool skip_special_;
  std::vector<std::unique_ptr<DecoderStep>> steps_;
};

}  // namespace

std::unique_ptr<TextDecoding> Pipeline::decoding(bool skip_special) const {
  return std::make_unique<Decoding>(*this, *parts_.decoder, skip_special);
}

std::string Pipeline::decode(std::span<const uint32_t> ids, bool skip_special) const {
  std::string out;
  Decoding decoding(*this, *parts_.decoder, skip_special);
  for (const uint32_t id : ids) decoding.push(id, out);
  decoding.finish(out);
  return out;
}

size_t Pipeline::size() const noexcept {
  return static_cast<size_t>(std::max(parts_.model->id_end(), parts_.added.id_end()));
}

std::optional<uint32_t> Pipeline::id_of(std::string_view token) const {
  if (const auto id = parts_.added.id_of(token)) return id;
  const uint32_t id = parts_.model->vocabulary().find(token);
  return id == Vocabulary::kNone ? std::nullopt : std::optional(id);
}

std::optional<std::string_view> Pipeline::token(uint32_t id) const noexcept {
  if (const std::string* content = parts_.added.content_of(id)) return *content;
  return parts_.model->token_of(id);
}

std::optional<std::string> Pipeline::token_of(uint32_t id) const {
  const auto text = token(id);
  return text ? std::optional(std::string(*text)) : std::nullopt;
}

bool Pipeline::is_special(uint32_t id) const noexcept {
  const auto text = token(id);
  return text && parts_.added.special(*text);
}

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string StreamDecoder::push(uint32_t id) {
  if (decoding_ == nullptr) decoding_ = tokenizer_->decoding(skip_special_);
  std::string out;
  decoding_->push(id, out);
  return out;
}

std::string StreamDecoder::flush() {
  std::string out;
  if (decoding_ != nullptr) decoding_->finish(out);
  decoding_ = nullptr;
  return out;
}

}  // namespace cortiq::text
