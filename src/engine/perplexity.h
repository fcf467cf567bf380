#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/json.h"
#include "base/progress.h"
#include "engine/decoder.h"

namespace cortiq::engine {

struct Perplexity {
  double nll = 0;       ///< sum of −ln p, natural
  uint64_t tokens = 0;  ///< ids scored
  uint64_t windows = 0;
  double ppl() const;  ///< exp(nll / tokens)
};

/// Adds the scores of ids[from …] given everything before them, in a fresh context. 1 ≤ from.
void score(Decoder& decoder, const std::shared_ptr<const Binding>& binding, std::span<const uint32_t> ids,
           uint64_t from, const Cancellation& cancel, Perplexity& total);

/// decisions 31. window_length 0: one window of min(1024, context) ids, with the post-processor's BOS; otherwise all
/// windows of that many ids, without BOS, the last partial one scored too.
Perplexity text_perplexity(Decoder& decoder, const std::shared_ptr<const Binding>& binding, std::string_view text,
                           uint64_t window_length, const Cancellation& cancel, Progress& progress);

/// decisions 31: the last assistant turn and its end token of each conversation {"messages": […]}, after the prefix
/// rendered with the generation prompt.
Perplexity answer_perplexity(Decoder& decoder, const std::shared_ptr<const Binding>& binding,
                             std::span<const Json> conversations, const Cancellation& cancel, Progress& progress);

}  // namespace cortiq::engine
