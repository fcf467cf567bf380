#pragma once
#include <cstdint>
#include <string_view>

namespace cortiq {

/// Told by long work how far it is; implemented by the command line, ignored by default.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void begin(std::string_view /*what*/, uint64_t /*total_bytes*/) {}
  virtual void item(std::string_view /*name*/) {}
  virtual void advance(uint64_t /*bytes*/) {}
  virtual void end() {}
  static Progress& none();
};

}  // namespace cortiq
