// A 5 GB file: made sparse by the test, opened, proved, decoded, compacted, split, merged in little memory. Writes 10
// GB, so it runs only when asked (make check sets CORTIQ_LARGE_FILES).
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/hash64.h"
#include "cmf/compact.h"
#include "cmf/directory.h"
#include "cmf/envelope.h"
#include "cmf/sample_file.h"
#include "cmf/section_hashes.h"
#include "cmf/sharded_writer.h"
#include "cmf/test_files.h"

namespace cortiq::cmf {
namespace {

constexpr uint64_t kFreeBytes = uint64_t{12} << 30;
constexpr long kPeakKilobytes = 300 * 1024;

// Peak memory in KB of a child that does the work; fails the test if the child does.
long peak_of(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      work();
      ::_exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(1);
    }
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(status, 0);
  return usage.ru_maxrss;
}

// [70000, 32768] of q8_row (more than 2^31 elements) and [40000, 32768] of f16, zero but for the last row's end.
void make_large_file(const std::string& path) {
  FileSystem& files = FileSystem::real();
  std::vector<Tensor> tensors(2);
  tensors[0].name = "wide.weight";
  tensors[0].dtype = codec::Dtype::Q8Row;
  tensors[0].shape = {70'000, 32'768};
  tensors[1].name = "last.weight";
  tensors[1].dtype = codec::Dtype::F16;
  tensors[1].shape = {40'000, 32'768};
  Envelope envelope;
  uint64_t end = 0;
  for (Tensor& tensor : tensors) {
    tensor.nbytes = *codec::of(tensor.dtype).nbytes(tensor.shape);
    tensor.offset = align_up(end, kPage);
    end = tensor.offset + tensor.nbytes;
  }
  envelope.data = {kPage, end};
  const auto file = files.create(path);
  const auto put16 = [&](uint64_t at, uint16_t value) {
    file->write_at(kPage + at, Bytes(reinterpret_cast<const uint8_t*>(&value), 2));
  };
  const uint8_t seven = 7;
  file->write_at(kPage + tensors[0].offset + 70'000ULL * 32'768 - 1, Bytes(&seven, 1));  // the last code
  put16(tensors[0].offset + tensors[0].nbytes - 2, 0x3800);                              // its row's scale, 0.5
  put16(tensors[1].offset + tensors[1].nbytes - 2, 0x4200);                              // 3.0
  {
    const auto mapped = files.map(path);
    for (Tensor& tensor : tensors) tensor.hash = hash64(mapped->bytes().slice(kPage + tensor.offset, tensor.nbytes));
  }
  const std::string header = write_json(sample_header());
  const std::vector<uint8_t> directory = write_directory(tensors);
  envelope.header = {kEnvelopeBytes, header.size()};
  envelope.directory = {kEnvelopeBytes + header.size(), directory.size()};
  envelope.header_hash = hash64(Bytes(header));
  envelope.directory_hash = hash64(Bytes{std::span<const uint8_t>(directory)});
  file->write_at(envelope.header.offset, Bytes(header));
  file->write_at(envelope.directory.offset, Bytes{std::span<const uint8_t>(directory)});
  const auto head = write_envelope(envelope);
  file->write_at(0, Bytes(head.data(), head.size()));
}

void expect_last_rows(const std::string& path) {
  const auto set = FileSet::open(path);
  std::vector<float> row(32'768);
  decode_rows(*set, *set->find("wide.weight"), 69'999, 1, row.data());
  EXPECT_EQ(row.back(), 3.5F);
  EXPECT_EQ(row.front(), 0.0F);
  decode_rows(*set, *set->find("last.weight"), 39'999, 1, row.data());
  EXPECT_EQ(row.back(), 3.0F);
}

TEST(LargeFile, five_gigabytes_in_three_hundred_megabytes) {
  if (!std::getenv("CORTIQ_LARGE_FILES")) GTEST_SKIP() << "writes 10 GB; set CORTIQ_LARGE_FILES to run it";
  const std::string folder = testing::TempDir() + "/cortiq-large";
  FileSystem& files = FileSystem::real();
  files.make_directory(folder);
  struct statvfs disk {};
  ASSERT_EQ(::statvfs(folder.c_str(), &disk), 0);
  if (disk.f_bavail * disk.f_frsize < kFreeBytes) GTEST_SKIP() << "fewer than 12 GB of disk are free";
  for (const std::string& name : files.list(folder)) files.remove(join_path(folder, name));

  const std::string path = join_path(folder, "m.cmf");
  make_large_file(path);
  expect_last_rows(path);
  const Report report = verify_in(files, path);
  EXPECT_TRUE(report.valid) << text_of(report);
  EXPECT_GT(report.bytes, uint64_t{4'900'000'000});

  const std::string out = join_path(folder, "out.cmf");
  EXPECT_LT(peak_of([&] { compact(files, path, out); }), kPeakKilobytes);
  expect_last_rows(out);
  files.remove(out);

  EXPECT_LT(peak_of([&] { split(files, path, out, uint64_t{6} << 30); }), kPeakKilobytes);
  const std::string first = join_path(folder, "out-00001-of-00002.cmf"),
                    second = join_path(folder, "out-00002-of-00002.cmf");
  expect_last_rows(second);
  EXPECT_LT(peak_of([&] { merge(files, first, out); }), kPeakKilobytes);
  expect_last_rows(out);
  for (const std::string& name : files.list(folder)) files.remove(join_path(folder, name));
}

}  // namespace
}  // namespace cortiq::cmf
