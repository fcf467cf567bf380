#pragma once
#include <cstdint>
#include <vector>

#include "base/cancel.h"
#include "engine/generate.h"

namespace cortiq::engine {

struct BenchOptions {
  uint64_t prompt = 512, tokens = 64, repeats = 5, batch = 1;
  MtpChoice mtp = MtpChoice::Off;
};

/// Medians over the repeats.
struct BenchResult {
  double prefill_tokens_per_second = 0, decode_tokens_per_second = 0;  ///< all sequences of the batch together
  double first_token_seconds = 0;
  uint64_t decode_bytes_per_token = 0;  ///< weights that one step reads, whatever the batch
  uint64_t cache_bytes = 0;
  uint64_t drafted = 0, accepted = 0;
};

/// Prefill of a fixed pseudo-random prompt and greedy decoding after it, end ids ignored.
BenchResult bench(Decoder& decoder, const std::shared_ptr<const Binding>& binding, const BenchOptions& options,
                  const Cancellation& cancel);

}  // namespace cortiq::engine
