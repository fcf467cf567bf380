#include "engine/generate.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "base/error.h"
#include "engine/speculation.h"
#include "kernels/elementwise.h"

namespace cortiq::engine {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

uint32_t largest(std::span<const float> logits) {
  return static_cast<uint32_t>(kernels::argmax(logits.data(), logits.size()));
}

/// A request on its way.
struct Running {
  Running(uint64_t number, Request&& what, uint64_t vocab)
      : handle(number), request(std::move(what)), sampler(request.options.sampler, vocab) {
    sampler.saw_prompt(request.prompt);
    result.prompt_tokens = request.prompt.size();
    result.seed = sampler.seed();
  }

  bool decoding() const noexcept { return !result.ids.empty(); }
  /// Position of the last id chosen; it has not been forwarded.
  uint64_t last_position() const noexcept { return request.prompt.size() + result.ids.size() - 1; }

  uint64_t handle;
  Request request;
  Sampler sampler;
  std::unique_ptr<Sequence> sequence;
  Generated result;
  Clock::time_point submitted = Clock::now(), first_id;
  bool cancelled = false, finished = false;
  // Of the MTP head, by kind of hidden state: its prediction of the next id, and how many ids need no comparison any
  // more (the first one is never predicted).
  std::optional<uint32_t> predicted[2];
  uint64_t compared[2] = {1, 1};
  std::vector<uint32_t> piece;  // ids of this step
};

}  // namespace

std::string_view name(Finish finish) noexcept {
  switch (finish) {
    case Finish::Stop:
      return "stop";
    case Finish::Length:
      return "length";
    case Finish::Cancelled:
      break;
  }
  return "cancelled";
}

struct Scheduler::State {
  State(Decoder& runs, size_t limit, PrefixCache* cache, MtpChoice mtp)
      : decoder(runs), parallel(std::max<size_t>(limit, 1)), prefixes(cache), speculation(runs.model(), mtp) {}

  Decoder& decoder;
  size_t parallel;
  PrefixCache* prefixes;
  Speculation speculation;
  uint64_t handles = 0;
  std::deque<std::unique_ptr<Running>> waiting;
  std::vector<std::unique_ptr<Running>> running;
  std::vector<Piece> pieces;
  std::vector<Running*> members;  // of the pieces
  std::vector<Decoder::Drafter> drafters;
  std::vector<Running*> drafting;

  bool speculates(const Running& r) const noexcept {
    return speculation.enabled() && r.request.options.speculate && r.sampler.greedy();
  }

  void admit() {
    while (running.size() < parallel && !waiting.empty()) {
      std::unique_ptr<Running> r = std::move(waiting.front());
      waiting.pop_front();
      if (prefixes != nullptr) r->sequence = prefixes->take(r->request.prompt, *r->request.binding);
      if (!r->sequence) r->sequence = decoder.sequence(r->request.binding);
      r->result.reused_tokens = r->sequence->length();
      running.push_back(std::move(r));
    }
  }

  void finish(Running& r, Finish how) {
    if (r.finished) return;
    r.finished = true;
    r.result.finish = how;
    if (r.decoding()) r.result.decode_seconds = since(r.first_id);
    if (prefixes != nullptr) prefixes->put(std::move(r.sequence));
    if (r.request.done) r.request.done(std::move(r.result));
  }

  void abandon(Running& r, const Error& error) {
    r.finished = true;
    if (r.request.failed) r.request.failed(error);
  }

  // Takes a chosen id into the output; false when the request has ended with it.
  bool emit(Running& r, uint32_t id) {
    if (!r.decoding()) {
      r.first_id = Clock::now();
      r.result.first_token_seconds = since(r.submitted);
    } else {
      for (const MtpHidden kind : {MtpHidden::Pre, MtpHidden::Post}) {
        std::optional<uint32_t>& predicted = r.predicted[static_cast<size_t>(kind)];
        if (predicted) compare(r, kind, *predicted, id);
        predicted.reset();
      }
    }
    r.result.ids.push_back(id);
    r.sampler.saw_output(id);
    const bool wanted = !r.request.token || r.request.token(id);
    if (!r.request.options.ignore_eos && decoder.model().is_stop(id)) {
      finish(r, Finish::Stop);
    } else if (!wanted || r.cancelled) {
      finish(r, Finish::Cancelled);
    } else if (r.result.ids.size() >= r.request.options.max_tokens ||
               r.request.prompt.size() + r.result.ids.size() >= decoder.model().context()) {
      finish(r, Finish::Length);
    }
    return !r.finished;
  }

  void compare(Running& r, MtpHidden kind, uint32_t predicted, uint32_t id) {
    ++r.compared[static_cast<size_t>(kind)];
    speculation.compared(kind, predicted == id);
    if (kind != speculation.kind()) return;
    ++r.result.drafted;
    r.result.accepted += predicted == id;
  }

  // Asks the head for the id after the last one. Behind an accepted draft one more id has been chosen than predicted:
  // that one is predicted along, so that every id after the first is counted once.
  void draft(MtpHidden kind) {
    const auto k = static_cast<size_t>(kind);
    drafters.clear();
    drafting.clear();
    for (const auto& r : running) {
      if (!r->decoding() || !speculates(*r)) continue;
      if (r->compared[k] + 1 < r->result.ids.size()) r->compared[k] = r->result.ids.size();  // after plain steps
      drafters.push_back({r->sequence.get(), r->result.ids.back(), r->result.ids.size() - r->compared[k] + 1});
      drafting.push_back(r.get());
    }
    if (drafters.empty()) return;
    decoder.draft(drafters, kind);
    for (size_t i = 0; i < drafters.size(); ++i) {
      Running& r = *drafting[i];
      const Decoder::Drafter& drafter = drafters[i];
      r.predicted[k].reset();
      if (drafter.count == 0) continue;
      const auto prediction = [&](uint64_t row) { return largest(decoder.draft_logits(drafter.first + row)); };
      if (drafter.count == 2) compare(r, kind, prediction(0), r.result.ids.back());
      r.predicted[k] = prediction(drafter.count - 1);
    }
  }

  // One row for each decoding sequence, or two with a draft; the rest of the batch goes to prompts, in order.
  void assemble(bool verify) {
    pieces.clear();
    members.clear();
    uint64_t room = decoder.max_rows();
    for (const auto& r : running) {
      if (!r->decoding() || room == 0) continue;
      r->piece.assign(1, r->result.ids.back());
      const std::optional<uint32_t> predicted = r->predicted[static_cast<size_t>(speculation.kind())];
      const bool fits =
          room >= 2 && r->sequence->undoable_rows() >= 2 && r->sequence->length() + 2 <= decoder.model().context();
      if (verify && speculates(*r) && predicted && fits) r->piece.push_back(*predicted);
      room -= r->piece.size();
      pieces.push_back({r->sequence.get(), r->piece, Piece::Logits::All});
      members.push_back(r.get());
    }
    for (const auto& r : running) {
      if (r->decoding() || room == 0) continue;
      const uint64_t begin = r->sequence->length(), count = std::min(room, r->request.prompt.size() - begin);
      const bool last = begin + count == r->request.prompt.size();
      pieces.push_back({r->sequence.get(), std::span(r->request.prompt).subspan(begin, count),
                        last ? Piece::Logits::Last : Piece::Logits::None});
      members.push_back(r.get());
      room -= count;
    }
  }

  // The chosen ids of one sequence's logits rows, from `row` on; returns how many ids it got.
  uint64_t take(Running& r, const Piece& piece, uint64_t row) {
    const bool prompt = !r.decoding();
    if (prompt && r.sequence->length() < r.request.prompt.size()) return 0;
    if (prompt) {
      r.result.prompt_seconds = since(r.submitted);
      if (prefixes != nullptr) r.sequence->snapshot();
    }
    const uint64_t rows = prompt ? 1 : piece.ids.size();
    const uint64_t start = r.sequence->length() - rows;
    for (uint64_t i = 0; i < rows; ++i) {
      if (!decoder.finite(row + i)) {
        try {
          Decoder::fail_not_finite(start + i);
        } catch (const Error& error) {
          abandon(r, error);
        }
        return i;
      }
      const uint32_t id = r.sampler.choose(decoder.logits(row + i));
      const bool right = i + 1 < rows && id == piece.ids[i + 1];
      // What was drafted and is wrong goes before the request may end and its sequence be kept.
      if (i + 1 < rows && !right) r.sequence->rewind(start + i + 1);
      if (!emit(r, id) || !right) return i + 1;
    }
    return rows;
  }

  bool step() {
    admit();
    for (const auto& r : running) {
      if (r->cancelled) finish(*r, Finish::Cancelled);
    }
    sweep();
    admit();
    if (running.empty()) return false;
    const auto start = Clock::now();
    const bool verify = speculation.verify();
    if (verify) {
      const bool both = speculation.trying();
      decoder.use_mtp(both || speculation.kind() == MtpHidden::Pre, both || speculation.kind() == MtpHidden::Post);
      if (both) draft(static_cast<MtpHidden>(1 - static_cast<size_t>(speculation.kind())));
      draft(speculation.kind());
    }
    assemble(verify);
    decoder.forward(pieces);
    uint64_t row = 0, ids = 0;
    bool plain = true, drafted = false;
    for (size_t i = 0; i < pieces.size(); ++i) {
      Running& r = *members[i];
      plain = plain && r.decoding();
      drafted = drafted || (r.decoding() && pieces[i].ids.size() > 1);
      const uint64_t rows = pieces[i].logits == Piece::Logits::All    ? pieces[i].ids.size()
                            : pieces[i].logits == Piece::Logits::Last ? 1
                                                                      : 0;
      ids += take(r, pieces[i], row);
      row += rows;
    }
    // Steps with prompts in them say nothing about the speed of decoding.
    if (plain && verify == drafted) speculation.timed(verify, since(start), ids);
    sweep();
    return true;
  }

  void sweep() {
    running.erase(std::remove_if(running.begin(), running.end(), [](const auto& r) { return r->finished; }),
                  running.end());
  }
};

Scheduler::Scheduler(Decoder& decoder, size_t parallel, PrefixCache* prefixes, MtpChoice mtp)
    : state_(std::make_unique<State>(decoder, parallel, prefixes, mtp)) {}

Scheduler::~Scheduler() { state_->decoder.use_mtp(false, false); }

uint64_t Scheduler::submit(Request request) {
  const Model& model = state_->decoder.model();
  if (request.prompt.empty()) fail(ErrorKind::Usage, "the prompt has no ids");
  if (request.prompt.size() > model.context()) {
    fail(ErrorKind::Bounds, "the prompt has {} ids, the context holds {}", request.prompt.size(), model.context());
  }
  for (const uint32_t id : request.prompt) {
    if (id >= model.vocab()) fail(ErrorKind::Usage, "id {} is outside the vocabulary of {} ids", id, model.vocab());
  }
  const uint64_t handle = ++state_->handles;
  auto running = std::make_unique<Running>(handle, std::move(request), model.vocab());
  if (running->request.options.max_tokens == 0 || running->request.prompt.size() == model.context()) {
    if (running->request.done) running->request.done(std::move(running->result));
    return handle;
  }
  state_->waiting.push_back(std::move(running));
  return handle;
}

void Scheduler::cancel(uint64_t handle) {
  for (const auto& r : state_->running) {
    if (r->handle == handle) r->cancelled = true;
  }
  const auto waiting =
      std::find_if(state_->waiting.begin(), state_->waiting.end(), [&](const auto& r) { return r->handle == handle; });
  if (waiting == state_->waiting.end()) return;
  const std::unique_ptr<Running> r = std::move(*waiting);
  state_->waiting.erase(waiting);
  r->result.finish = Finish::Cancelled;
  if (r->request.done) r->request.done(std::move(r->result));
}

bool Scheduler::step() { return state_->step(); }
bool Scheduler::idle() const noexcept { return state_->running.empty() && state_->waiting.empty(); }
size_t Scheduler::running() const noexcept { return state_->running.size(); }

Generated generate(Decoder& decoder, std::vector<uint32_t> prompt, std::shared_ptr<const Binding> binding,
                   const GenerateOptions& options, const Cancellation& cancel, std::function<bool(uint32_t id)> token,
                   PrefixCache* prefixes, MtpChoice mtp) {
  Scheduler scheduler(decoder, 1, prefixes, mtp);
  Generated result;
  std::optional<Error> failure;
  Request request;
  request.prompt = std::move(prompt);
  request.binding = std::move(binding);
  request.options = options;
  request.token = std::move(token);
  request.done = [&](Generated&& generated) { result = std::move(generated); };
  request.failed = [&](const Error& error) { failure = error; };
  const uint64_t handle = scheduler.submit(std::move(request));
  while (scheduler.step()) {
    if (cancel.requested()) scheduler.cancel(handle);
  }
  if (failure) throw *failure;
  return result;
}

}  // namespace cortiq::engine
