#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmf/file.h"

namespace cortiq::cmf {

/// What a writer is about to put into a file, checked as a reader will check it.
struct NewState {
  std::string header_text;
  Header header;
  uint32_t features = 0;
};

/// Parse and Bounds, before a byte is written, for what File::open() would refuse: the header, the tokenizer's UTF-8,
/// masks that do not fit the model, two tensors of one name, replacements without a backbone. `header` is complete,
/// section hashes included.
NewState check_new_state(const std::string& target, const Json& header, std::string_view tokenizer, Bytes masks,
                         std::span<const Tensor> tensors);

}  // namespace cortiq::cmf
