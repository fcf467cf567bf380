#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/file_system.h"
#include "convert/gguf/types.h"

// One GGUF file: metadata and the list of its tensors, checked whole when it is opened.
namespace cortiq::convert::gguf {

enum class ValueType : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

/// A metadata value as it lies in the file.
struct Value {
  ValueType type = ValueType::U8;  ///< of the value; of the elements if `array`
  bool array = false;
  uint64_t count = 1;
  Bytes bytes;                            ///< packed numbers; empty for strings
  std::vector<std::string_view> strings;  ///< well-formed UTF-8
};

struct Tensor {
  std::string_view name;
  std::vector<uint64_t> shape;  ///< outermost first: the file's order reversed
  const Type* type = nullptr;
  uint64_t offset = 0;  ///< in the file
  uint64_t nbytes = 0;
  uint64_t elements = 0;
};

/// Parses and checks everything but the payloads: Parse, Bounds, InvalidMagic, UnsupportedVersion or Unsupported,
/// naming path and key or tensor. Nothing is allocated by a count that the rest of the file cannot hold.
class File {
 public:
  explicit File(std::shared_ptr<const MappedFile> mapping);
  static File open(const std::string& path, FileSystem& files) { return File(files.map(path)); }

  const std::string& path() const noexcept { return mapping_->path(); }
  const MappedFile& mapping() const noexcept { return *mapping_; }
  const std::vector<Tensor>& tensors() const noexcept { return tensors_; }
  const std::vector<std::string_view>& keys() const noexcept { return keys_; }  ///< in file order

  bool has(std::string_view key) const noexcept { return find(key) != nullptr; }
  const Value* find(std::string_view key) const noexcept;

  // Typed access. Absent keys give nothing; a value of another kind is Parse, naming the key.
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<uint64_t> count(std::string_view key) const;  ///< any integer type; not negative
  std::optional<double> number(std::string_view key) const;   ///< F32, F64 or an integer; finite
  /// An integer, or an array of them (one per block).
  std::vector<uint64_t> counts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  const std::vector<std::string_view>& texts(std::string_view key) const;  ///< empty if absent

 private:
  class Parser;
  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const;

  std::shared_ptr<const MappedFile> mapping_;
  std::vector<std::string_view> keys_;
  std::unordered_map<std::string_view, Value> metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace cortiq::convert::gguf
