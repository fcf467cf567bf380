#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

// Random Unicode texts, the same on every machine: what tokenizers are compared on with the genuine library, live by
// `make parity` and against its recorded hashes by every test run.
namespace cortiq::parity {

class RandomStrings {
 public:
  /// `added`: the contents of the tokenizer's added tokens, which are glued into texts. `block` is the seed; a block of
  /// texts can be made again without those before it.
  RandomStrings(const std::vector<std::string>& added, uint64_t block);

  /// Every plane, assigned or not; every normalisation form and marks in any order; added tokens glued to text;
  /// control characters, noncharacters, private use; runs, white space of all kinds, scripts mixed and alone.
  std::string next();

 private:
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }
  bool one_in(uint32_t n) { return below(n) == 0; }
  void append_piece(std::string& out, uint32_t home);
  void append_character(std::string& out, uint32_t home);

  std::mt19937_64 random_;
  const std::vector<std::string>& added_;
};

}  // namespace cortiq::parity
