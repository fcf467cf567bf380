#pragma once
#include <string>

#include "base/json.h"
#include "text/tokenizer.h"

namespace cortiq::text {

/// What a post-processor puts around the ids of a single text.
struct PostProcessing {
  Ids prefix, suffix;
};

/// Unsupported, naming type and path, for what is not known; Parse for a template that names a token it lacks.
PostProcessing parse_post_processor(const Json& json, const std::string& path);

}  // namespace cortiq::text
