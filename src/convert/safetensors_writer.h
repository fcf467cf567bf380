#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace cortiq::convert {

/// Writes a safetensors file of F32 (or I32) tensors: declare all, then append their values in the same order. The
/// file appears under its name whole or not at all.
class SafetensorsWriter {
 public:
  struct Declaration {
    std::string name;
    std::vector<uint64_t> shape;
    std::string dtype = "F32";
  };
  SafetensorsWriter(FileSystem& files, const std::string& path, std::vector<Declaration> tensors);
  ~SafetensorsWriter();

  /// The next part of the values, in any portions; Usage if more or fewer come than were declared.
  void append(std::span<const float> values);
  void append_bytes(Bytes bytes);
  void finish();

 private:
  std::unique_ptr<AtomicFile> file_;
  uint64_t remaining_ = 0;
};

}  // namespace cortiq::convert
