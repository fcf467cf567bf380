#pragma once
#include <string>
#include <vector>

#include "cmf/header.h"
#include "convert/describe.h"
#include "convert/source.h"

namespace cortiq::convert {

/// The chat bundle of FORMAT_FACTS §8.1: template, the union of all end ids, bos and pad. `rows`: of the embedding;
/// Parse for an end id beyond it. Also checks the tokenizer against the rows and says what is wrong with either.
cmf::ChatBundle chat_bundle(const Checkpoint& checkpoint, const Described& model, uint64_t rows,
                            std::vector<std::string>& notes, std::vector<std::string>& warnings);

/// The header's tokenizer_config; null if all four parts are empty.
Json write_chat_bundle(const cmf::ChatBundle& bundle);

}  // namespace cortiq::convert
