#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/decoder.h"

namespace cortiq::engine {

struct NamedTensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

struct InspectOptions {
  bool hidden = false;           ///< hidden.*, router.*
  uint64_t last = 0;             ///< rows of every tensor, counted from the end; 0: all
  std::optional<MtpHidden> mtp;  ///< also mtp.logits
  uint64_t chunk = 0;            ///< ids of one forward(); 0: as many as the decoder takes
};

/// What `cortiq logits` writes: logits and, if asked for, everything on the way (cli.md), rows by position.
std::vector<NamedTensor> inspect(Decoder& decoder, const std::shared_ptr<const Binding>& binding,
                                 std::span<const uint32_t> ids, const InspectOptions& options);

}  // namespace cortiq::engine
