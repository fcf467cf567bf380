#pragma once
#include <cstdint>

#include "base/bytes.h"

namespace cortiq {

/// The specification's hash of tensor and section bytes (§8, FORMAT_FACTS §2). Not cryptographic.
uint64_t hash64(Bytes bytes);

/// The same hash over data that arrives in pieces of any size.
class Hash64 {
 public:
  void update(Bytes bytes);
  uint64_t finish() const noexcept;

 private:
  uint64_t fold_ = 0;    // xor over whole words so far
  uint64_t length_ = 0;  // bytes so far
  uint8_t tail_[8] = {};
};

/// The fold over whole words, `first` being the index of the first one: the part that is worth vectorising. XOR makes
/// it order-free, so pieces may be computed apart and combined. Runs on the active instruction set (Usage if CORTIQ_ISA
/// names none); the scalar function is the definition.
uint64_t hash64_fold(const uint8_t* words, uint64_t count, uint64_t first);
uint64_t hash64_fold_scalar(const uint8_t* words, uint64_t count, uint64_t first) noexcept;

/// For data hashed in pieces by several threads, each beginning at a multiple of 8 bytes: the xor of the pieces' folds
/// and the whole length give the hash. A piece whose size is not a multiple of 8 is the last one.
uint64_t hash64_piece(Bytes piece, uint64_t first_word) noexcept;
uint64_t hash64_finish(uint64_t fold, uint64_t length) noexcept;

/// 16 lower-case hex digits, and back (Parse naming `what` if the text is anything else).
std::string hex64(uint64_t value);
uint64_t parse_hex64(std::string_view text, std::string_view what);

}  // namespace cortiq
