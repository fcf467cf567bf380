#pragma once
#include "convert/describe.h"
#include "convert/names.h"

namespace cortiq::convert {

/// Settles whether the model has an output matrix of its own (cases rows 1 and 22): a head beside a tied config is kept
/// if it differs from the embedding and dropped if it equals it; a tied config with only a head means the head. Sets
/// arch.tie_word_embeddings and arch.vocab_size, which is the number of rows that are really there (row 44).
void settle_head(Mapping& mapping, Described& model);

/// Sets arch.mtp by the presence of a draft head, whatever the config promises.
void settle_draft_head(const Mapping& mapping, const Checkpoint& checkpoint, Described& model);

}  // namespace cortiq::convert
