#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cortiq/error.h"

// The library for programs that embed it: open and prove CMF files, decode tensors, convert checkpoints, run models.
// Everything throws cortiq::Error and nothing else of its own. Implementation details are behind pointers.
namespace cortiq {

/// A tensor as the file's directory describes it.
struct TensorInfo {
  std::string name, dtype;        ///< dtype as the specification spells it: "q8_row"
  std::vector<uint32_t> shape;    ///< outermost first
  uint64_t nbytes = 0, hash = 0;  ///< hash64 of the payload
};

/// An opened CMF file: mapped, checked, immutable. Copies share it; safe to use from several threads.
class CmfFile {
 public:
  /// Opens one file. InvalidMagic, UnsupportedVersion, UnsupportedFeature, Bounds, Parse or Io for anything that is no
  /// valid file (specification §1.2).
  static CmfFile open(const std::string& path);

  const std::vector<TensorInfo>& tensors() const noexcept;
  /// All values of a tensor as f32, row-major. Usage if there is no tensor of that name.
  std::vector<float> decode(std::string_view tensor) const;
  /// Rows [first, first + count) of a tensor seen as a matrix of its first dimension.
  std::vector<float> decode_rows(std::string_view tensor, uint64_t first, uint64_t count) const;
  /// The tensor's bytes as they lie in the file; valid as long as a copy of this object lives.
  std::span<const uint8_t> payload(std::string_view tensor) const;
  /// The header as JSON text, unknown keys included.
  std::string header() const;
  /// The bytes of tokenizer.json; empty if the file holds none.
  std::string_view tokenizer() const noexcept;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// What verify() found. `valid` means: every hash right, every stored scale finite, every code in range, and the
/// signature beside the file, if there is one, genuine.
struct Proof {
  bool valid = false;
  struct Problem {
    ErrorKind kind;
    std::string where, message;
  };
  std::vector<Problem> problems;
  std::vector<std::string> warnings;
  std::string signature;  ///< "absent", "valid", "invalid"
};
/// Never throws for a bad file: that is what the proof says.
Proof verify(const std::string& path);

/// Converts a Hugging Face directory or a .gguf file into one CMF file, which appears whole or not at all. `quant` as
/// `cortiq convert --quant` takes it. Returns warnings.
std::vector<std::string> convert_checkpoint(const std::string& source, const std::string& output,
                                            const std::string& quant = "q8");

/// One message of a conversation.
struct Message {
  std::string role, content;
};

struct GenerateOptions {
  uint64_t max_tokens = 256;
  double temperature = 0.7, top_p = 0.95, min_p = 0.05;  ///< temperature 0: always the most likely token
  int64_t top_k = 40;
  std::optional<uint64_t> seed;     ///< absent: random
  std::string skill;                ///< id, "auto", or empty for the backbone
  std::optional<std::string> task;  ///< task mask; absent: the file's default
  bool ignore_eos = false;
};

struct Answer {
  std::string text;
  std::vector<uint32_t> ids;
  std::string finish;  ///< "stop", "length", "cancelled"
  uint64_t prompt_tokens = 0;
  std::string skill;  ///< the one that ran
};

/// A model ready to run. One thread at a time; load it twice for two (the weights are shared through the page cache).
class LanguageModel {
 public:
  struct Options {
    bool exact = false;    ///< f32 throughout instead of int8 activations
    size_t threads = 0;    ///< 0: what the machine and its control groups allow
    uint64_t context = 0;  ///< 0: the model's
  };
  static LanguageModel load(const std::string& path, const Options& options);
  static LanguageModel load(const std::string& path) { return load(path, Options{}); }
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;
  ~LanguageModel();

  /// Answers a conversation. `on_text` sees the answer while it is made, in whole characters; it returns false to stop.
  Answer chat(const std::vector<Message>& messages, const GenerateOptions& options = {},
              const std::function<bool(std::string_view)>& on_text = nullptr);
  /// Continues plain text.
  Answer complete(std::string_view text, const GenerateOptions& options = {},
                  const std::function<bool(std::string_view)>& on_text = nullptr);
  /// Continues token ids; `text` of the answer is empty if the file holds no tokenizer.
  Answer complete_ids(const std::vector<uint32_t>& ids, const GenerateOptions& options = {});

  std::vector<uint32_t> tokenize(std::string_view text) const;
  std::string detokenize(std::span<const uint32_t> ids) const;
  /// Logits [ids.size(), vocabulary] of every position.
  std::vector<float> logits(const std::vector<uint32_t>& ids);
  uint64_t vocabulary() const noexcept;
  uint64_t context() const noexcept;

 private:
  struct State;
  explicit LanguageModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace cortiq
