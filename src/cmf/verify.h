#pragma once
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "cmf/file.h"

namespace cortiq::cmf {

struct Problem {
  ErrorKind kind;
  std::string where;  ///< "file", a section ("header", "masks"…), "tensor NAME" or "signature"
  std::string message;
};

struct Report {
  std::string file;
  bool valid = false;
  std::vector<Problem> problems;      ///< every one found
  std::vector<std::string> warnings;  ///< unprotected bytes, tail bits, deprecated index…
  uint64_t tensors = 0, bytes = 0;
  uint64_t unprotected = 0;  ///< bytes that no hash covers: envelope, padding, dead tails (docs/format.md)
  double seconds = 0;
  std::string signature = "absent";  ///< absent, valid, invalid
};

struct VerifyOptions {
  std::string pubkey;      ///< 64 hex digits: demand this signer
  bool whole_set = false;  ///< all shards
};

/// Opens and proves a file: the hash chain (§8.1), every tensor hash, finite scales and codes in range (decisions 9),
/// the signature beside it (§8.2). Never throws for a bad file: what open() says is in the report.
Report verify(const std::string& path, const VerifyOptions& options, ThreadPool& pool,
              FileSystem& files = FileSystem::real(), Progress& progress = Progress::none(),
              const Cancellation& cancel = Cancellation::never());

}  // namespace cortiq::cmf
