#include "cmf/verify.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "base/hash64.h"
#include "cmf/envelope.h"
#include "cmf/file_warnings.h"
#include "cmf/signature.h"

namespace cortiq::cmf {
namespace {

constexpr uint64_t kPiece = uint64_t{256} << 10;
constexpr uint64_t kStep = uint64_t{16} << 10;  // stays in the nearest cache between hashing and looking at values
// Pieces are handed out in runs of this size: two threads in one page table wait for each other at every fault.
constexpr uint64_t kRun = uint64_t{4} << 20;
constexpr size_t kReportsPerTensor = 16;

// Bytes of one row where rows follow each other as whole payloads of their own, so that a piece's values are looked at
// while its bytes are in the cache; 0 for the other dtypes, whose scales are a small plane beside the codes.
uint64_t row_bytes(const Tensor& tensor) {
  using codec::Dtype;
  switch (tensor.dtype) {
    case Dtype::F32:
    case Dtype::F16:
    case Dtype::BF16:
    case Dtype::U8:
    case Dtype::Q4Tiled:
    case Dtype::Q1:
      return tensor.shape.rows() == 0 ? 0 : tensor.nbytes / tensor.shape.rows();
    default:
      return 0;
  }
}

// A part of one tensor: bytes to hash and rows whose values are checked.
struct Piece {
  uint32_t tensor;
  uint64_t begin, end, first_row, last_row;
};

void add_pieces(std::vector<Piece>& out, uint32_t index, const Tensor& tensor) {
  const uint64_t rows = tensor.shape.rows(), bytes = row_bytes(tensor);
  if (tensor.nbytes <= kPiece || bytes > kPiece) {
    out.push_back({index, 0, tensor.nbytes, 0, rows});
    return;
  }
  if (bytes == 0) {
    out.push_back({index, 0, 0, 0, rows});
    for (uint64_t at = 0; at < tensor.nbytes; at += kPiece) {
      out.push_back({index, at, std::min(at + kPiece, tensor.nbytes), 0, 0});
    }
    return;
  }
  const uint64_t step = std::max<uint64_t>(8, kPiece / bytes / 8 * 8);  // 8 rows: pieces begin at whole words
  for (uint64_t row = 0; row < rows; row += step) {
    const uint64_t last = std::min(rows, row + step);
    out.push_back({index, row * bytes, last * bytes, row, last});
  }
}

// Calls visit(step) for the parts of a piece whose values are looked at one after the other.
template <class Visit>
void for_steps(const Piece& piece, const Tensor& tensor, Visit visit) {
  const uint64_t bytes = row_bytes(tensor), rows = bytes == 0 ? 0 : std::max<uint64_t>(8, kStep / bytes / 8 * 8);
  if (rows == 0 || piece.last_row - piece.first_row <= rows) return visit(piece);
  for (uint64_t row = piece.first_row; row < piece.last_row; row += rows) {
    const uint64_t last = std::min(piece.last_row, row + rows);
    visit({piece.tensor, row * bytes, last * bytes, row, last});
  }
}

// Something wrong with values, found in rows from first_row on.
struct Finding {
  uint32_t tensor;
  uint64_t first_row;
  codec::ValueProblem problem;
};

codec::Shape rows_of(const Tensor& tensor, uint64_t first, uint64_t last) {
  codec::Shape shape = tensor.shape;
  if (shape.rank >= 2) shape.dims[0] = static_cast<uint32_t>(last - first);
  return shape;
}

void check_section(Report& report, const File& file, std::string_view section, Bytes bytes,
                   std::optional<uint64_t> stored) {
  if (bytes.empty()) return;
  if (!stored) {
    report.warnings.push_back(fmt::format("{}: the {} section is protected by no hash", file.path(), section));
    report.unprotected += bytes.size();
    return;
  }
  if (const uint64_t hash = hash64(bytes); hash != *stored) {
    report.problems.push_back({ErrorKind::HashMismatch, std::string(section),
                               fmt::format("{}: the {} section hashes to {}, {} is recorded", file.path(), section,
                                           hex64(hash), hex64(*stored))});
  }
}

void check_sections(Report& report, const File& file) {
  // §8.1, FORMAT_FACTS §0 row 21: a section's hash of zero means absent.
  const auto recorded = [](std::optional<uint64_t> hash) { return hash == 0 ? std::nullopt : hash; };
  const Envelope& envelope = file.envelope();
  const SectionHashes& hashes = file.header().section_hashes;
  check_section(report, file, "header", file.header_bytes(), recorded(envelope.header_hash));
  check_section(report, file, "directory", file.directory_bytes(), recorded(envelope.directory_hash));
  check_section(report, file, "masks", file.masks_bytes(), recorded(hashes.masks));
  check_section(report, file, "index", file.index_bytes(), recorded(hashes.index));
  const Bytes vocab = file.vocab_bytes();
  check_section(report, file, "tokenizer", vocab, recorded(hashes.vocab));
  try {
    file.tokenizer_json();
  } catch (const Error& error) {
    report.problems.push_back({error.kind(), "tokenizer", error.what()});
  }
}

void check_content(const File& file, Report& report, ThreadPool& pool, Progress& progress, const Cancellation& cancel) {
  const std::span<const Tensor> tensors = file.tensors();
  std::vector<Piece> pieces;
  for (uint32_t i = 0; i < tensors.size(); ++i) add_pieces(pieces, i, tensors[i]);
  std::vector<std::atomic<uint64_t>> folds(tensors.size());
  std::mutex mutex;
  std::vector<Finding> found;
  std::vector<size_t> runs = {0};  // where they begin
  uint64_t bytes = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    bytes += pieces[i].end - pieces[i].begin;
    if (bytes < kRun && i + 1 < pieces.size()) continue;
    runs.push_back(i + 1);
    bytes = 0;
  }
  const auto look_at_values = [&](const Piece& piece, Bytes part) {
    const Tensor& tensor = tensors[piece.tensor];
    std::vector<codec::ValueProblem> bad;
    codec::of(tensor.dtype)
        .check_values(part, rows_of(tensor, piece.first_row, piece.last_row), kReportsPerTensor, bad);
    if (bad.empty()) return;
    const std::lock_guard lock(mutex);
    for (auto& one : bad) found.push_back({piece.tensor, piece.first_row, std::move(one)});
  };
  const auto look = [&](const Piece& piece) {
    const Tensor& tensor = tensors[piece.tensor];
    const Bytes payload = file.payload(tensor);
    uint64_t fold = 0;
    for_steps(piece, tensor, [&](const Piece& step) {
      const Bytes part = payload.slice(step.begin, step.end - step.begin);
      fold ^= hash64_piece(part, step.begin / 8);
      const bool whole = step.first_row == 0 && step.last_row == tensor.shape.rows();
      if (step.first_row != step.last_row) look_at_values(step, whole ? payload : part);
    });
    folds[piece.tensor].fetch_xor(fold, std::memory_order_relaxed);
    progress.advance(piece.end - piece.begin);
  };
  // The sections are small and go first, beside the tensors.
  pool.run(runs.size(), [&](size_t run) {
    cancel.check();
    if (run == 0) return check_sections(report, file);
    for (size_t i = runs[run - 1]; i < runs[run]; ++i) look(pieces[i]);
  });

  std::sort(found.begin(), found.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.tensor, a.first_row, a.problem.row) < std::tie(b.tensor, b.first_row, b.problem.row);
  });
  auto next = found.begin();
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const std::string where = "tensor " + printable(tensors[i].name);
    if (const uint64_t hash = hash64_finish(folds[i], tensors[i].nbytes); hash != tensors[i].hash) {
      report.problems.push_back({ErrorKind::HashMismatch, where,
                                 fmt::format("{}: {}: the bytes hash to {}, the directory says {}", file.path(), where,
                                             hex64(hash), hex64(tensors[i].hash))});
    }
    for (size_t reports = 0; next != found.end() && next->tensor == i; ++next) {
      if (reports++ >= kReportsPerTensor) continue;
      const uint64_t first = next->first_row;
      report.problems.push_back(
          {ErrorKind::Parse, where,
           fmt::format("{}: {}: {}{}", file.path(), where, first == 0 ? "" : fmt::format("from row {} on: ", first),
                       next->problem.message)});
    }
  }
}

void check_file(const File& file, const VerifyOptions& options, Report& report, ThreadPool& pool, FileSystem& files,
                Progress& progress, const Cancellation& cancel) {
  report.tensors += file.tensors().size();
  report.bytes += file.size();
  check_content(file, report, pool, progress, cancel);
  const Unprotected left = find_unprotected(file);
  report.unprotected += left.bytes;
  for (std::string& warning : file_warnings(file, left)) report.warnings.push_back(std::move(warning));

  const SignatureCheck signature = check_signature(files, file.path(), file.mapping().bytes(), options.pubkey, cancel);
  if (signature.state == Signature::Invalid) {
    report.problems.push_back({signature.kind, "signature", signature.message});
  }
  // Of a set, the worst: one unsigned or wrongly signed shard makes the whole so.
  if (report.signature != name(Signature::Invalid)) report.signature = name(signature.state);
}

}  // namespace

Report verify(const std::string& path, const VerifyOptions& options, ThreadPool& pool, FileSystem& files,
              Progress& progress, const Cancellation& cancel) {
  const auto begin = std::chrono::steady_clock::now();
  Report report;
  report.file = path;
  try {
    std::vector<std::shared_ptr<const File>> all;
    if (options.whole_set) {
      const auto set = FileSet::open(path, files);
      all.assign(set->files().begin(), set->files().end());
    } else {
      all.push_back(File::open(path, files));
    }
    uint64_t total = 0;
    for (const auto& file : all) total += file->envelope().data.length;
    progress.begin("verify", total);
    for (const auto& file : all) check_file(*file, options, report, pool, files, progress, cancel);
    progress.end();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Cancelled || error.kind() == ErrorKind::Usage) throw;
    report.problems.push_back({error.kind(), "file", error.what()});
  }
  report.valid = report.problems.empty();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace cortiq::cmf
