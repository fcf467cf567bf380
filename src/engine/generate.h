#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "engine/decoder.h"
#include "engine/sampler.h"

namespace cortiq::engine {

enum class Finish { Stop, Length, Cancelled };
std::string_view name(Finish finish) noexcept;  ///< "stop", "length", "cancelled"

struct GenerateOptions {
  uint64_t max_tokens = 256;  ///< 0: none; prompt and output together never exceed the context
  SamplerOptions sampler;
  bool ignore_eos = false;  ///< end ids do not stop; nothing is banned
  bool speculate = true;    ///< drafts of an MTP head when greedy; the ids are the same either way
};

struct Generated {
  std::vector<uint32_t> ids;  ///< the end id that stopped it included
  Finish finish = Finish::Length;
  uint64_t prompt_tokens = 0, reused_tokens = 0;
  double prompt_seconds = 0;       ///< until the prompt's logits were there
  double first_token_seconds = 0;  ///< from the request's start
  double decode_seconds = 0;       ///< from the first id to the last
  uint64_t drafted = 0;            ///< ids after the first that the MTP head predicted…
  uint64_t accepted = 0;           ///< …and predicted right
  uint64_t seed = 0;
};

/// One request. Callbacks run on the thread that steps the scheduler; `token` returns false to cancel.
struct Request {
  std::vector<uint32_t> prompt;  ///< at least one id (Usage otherwise), at most the context (Bounds otherwise)
  std::shared_ptr<const Binding> binding;
  GenerateOptions options;
  std::function<bool(uint32_t id)> token;
  std::function<void(Generated&&)> done;
  std::function<void(const Error&)> failed;  ///< this request alone: logits that are not finite
};

/// Which hidden state an MTP head is fed with. Auto tries both in the first drafts and keeps the better one, beginning
/// with what the header says, and stops speculating while that is slower than plain decoding; Pre and Post always
/// speculate.
enum class MtpChoice { Off, Auto, Pre, Post };

/// Runs requests together: every step is one Decoder::forward over the running sequences (one row each, or the rows of
/// a draft that is verified) and parts of waiting prompts. Each request's ids are those it has alone.
class Scheduler {
 public:
  /// `parallel`: sequences at once; further requests wait in order. `prefixes` may be nullptr.
  Scheduler(Decoder& decoder, size_t parallel, PrefixCache* prefixes = nullptr, MtpChoice mtp = MtpChoice::Auto);
  ~Scheduler();

  /// Bad requests are thrown here, before anything runs. Returns a handle for cancel().
  uint64_t submit(Request request);
  void cancel(uint64_t handle);
  /// One forward pass; false if there was nothing to do.
  bool step();
  bool idle() const noexcept;
  size_t running() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One request from beginning to end. Reuses and fills `prefixes` if given; asks `cancel` at every step.
Generated generate(Decoder& decoder, std::vector<uint32_t> prompt, std::shared_ptr<const Binding> binding,
                   const GenerateOptions& options, const Cancellation& cancel,
                   std::function<bool(uint32_t id)> token = nullptr, PrefixCache* prefixes = nullptr,
                   MtpChoice mtp = MtpChoice::Auto);

}  // namespace cortiq::engine
