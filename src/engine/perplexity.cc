#include "engine/perplexity.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/prompt.h"

namespace cortiq::engine {

namespace {

double negative_log_probability(std::span<const float> logits, uint32_t id) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - most));
  return static_cast<double>(most) + std::log(sum) - static_cast<double>(logits[id]);
}

}  // namespace

double Perplexity::ppl() const { return std::exp(nll / static_cast<double>(tokens)); }

void score(Decoder& decoder, const std::shared_ptr<const Binding>& binding, std::span<const uint32_t> ids,
           uint64_t from, const Cancellation& cancel, Perplexity& total) {
  if (ids.size() < 2 || from < 1 || from >= ids.size()) return;
  // Logits of a chunk stay below 64 MB.
  const uint64_t most = std::clamp<uint64_t>((uint64_t{1} << 24) / decoder.model().vocab(), 1, decoder.max_rows());
  const auto sequence = decoder.sequence(binding);
  uint64_t next = 0;
  const auto feed = [&](uint64_t end, Piece::Logits logits) {
    const uint64_t count =
        std::min({end - next, logits == Piece::Logits::None ? decoder.max_rows() : most, decoder.max_rows()});
    const Piece piece{sequence.get(), ids.subspan(next, count), logits};
    decoder.forward({&piece, 1});
    next += count;
    cancel.check();
    return count;
  };
  while (next + 1 < from) feed(from - 1, Piece::Logits::None);
  std::vector<double> losses;
  while (next + 1 < ids.size()) {
    const uint64_t first = next, count = feed(ids.size() - 1, Piece::Logits::All);
    losses.assign(count, 0);
    for (uint64_t i = 0; i < count; ++i) {
      if (!decoder.finite(i)) Decoder::fail_not_finite(first + i);
    }
    decoder.pool().run(count,
                       [&](size_t i) { losses[i] = negative_log_probability(decoder.logits(i), ids[first + i + 1]); });
    for (const double loss : losses) total.nll += loss;
    total.tokens += count;
  }
  ++total.windows;
}

Perplexity text_perplexity(Decoder& decoder, const std::shared_ptr<const Binding>& binding, std::string_view text,
                           uint64_t window_length, const Cancellation& cancel, Progress& progress) {
  const Model& model = decoder.model();
  if (!model.tokenizer()) fail(ErrorKind::Unsupported, "{} holds no tokenizer", model.set().first().path());
  if (window_length > model.context()) {
    fail(ErrorKind::Bounds, "windows of {} ids do not fit the context of {} positions", window_length, model.context());
  }
  if (window_length == 1) fail(ErrorKind::Usage, "a window of one id has nothing to score");
  Perplexity total;
  const text::Ids ids = window_length == 0 ? encode_text(model, text) : model.tokenizer()->encode(text, false);
  const uint64_t length = window_length == 0 ? std::min<uint64_t>(1024, model.context()) : window_length;
  const uint64_t end = window_length == 0 ? std::min<uint64_t>(ids.size(), length) : ids.size();
  progress.begin("scoring", end);
  for (uint64_t start = 0; start < end; start += length) {
    const uint64_t count = std::min(length, end - start);
    score(decoder, binding, std::span(ids).subspan(start, count), 1, cancel, total);
    progress.advance(count);
  }
  progress.end();
  if (total.tokens == 0) fail(ErrorKind::Usage, "the text is too short to score: {} ids", ids.size());
  return total;
}

Perplexity answer_perplexity(Decoder& decoder, const std::shared_ptr<const Binding>& binding,
                             std::span<const Json> conversations, const Cancellation& cancel, Progress& progress) {
  const Model& model = decoder.model();
  if (!model.tokenizer()) fail(ErrorKind::Unsupported, "{} holds no tokenizer", model.set().first().path());
  Perplexity total;
  progress.begin("scoring", conversations.size());
  for (size_t row = 0; row < conversations.size(); ++row) {
    const Json& conversation = conversations[row];
    const Json* messages = conversation.contains("messages") ? &conversation["messages"] : nullptr;
    if (messages == nullptr || !messages->is_array() || messages->empty() || !messages->back().is_object() ||
        messages->back().value("role", "") != "assistant" || !messages->back()["content"].is_string()) {
      fail(ErrorKind::Parse, "conversation {}: messages that end with an assistant's text are needed", row + 1);
    }
    Json question = *messages;
    question.erase(question.size() - 1);
    const std::string before = render_chat(model, question, true);
    const std::string whole = render_chat(model, *messages, false);
    text::Ids ids = encode_rendered(model, before);
    const uint64_t from = ids.size();
    // What the template writes after the generation prompt: the answer and the token that closes the turn. A template
    // that renders the two forms differently leaves the answer itself and the first end id.
    text::Ids answer;
    if (whole.compare(0, before.size(), before) == 0) {
      answer = model.tokenizer()->encode(std::string_view(whole).substr(before.size()), false);
      const auto stop = std::find_if(answer.begin(), answer.end(), [&](uint32_t id) { return model.is_stop(id); });
      if (stop != answer.end()) answer.erase(stop + 1, answer.end());
    } else {
      answer = model.tokenizer()->encode(messages->back()["content"].get<std::string>(), false);
      if (!model.stop_ids().empty()) answer.push_back(model.stop_ids().front());
    }
    ids.insert(ids.end(), answer.begin(), answer.end());
    score(decoder, binding, ids, from, cancel, total);
    progress.advance(1);
  }
  progress.end();
  if (total.tokens == 0) fail(ErrorKind::Usage, "there is no answer to score");
  return total;
}

}  // namespace cortiq::engine
