#include "base/file_system.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/json.h"

namespace cortiq {
namespace {

/// An empty folder of the real file system, removed afterwards.
class Files : public testing::Test {
 protected:
  Files() {
    std::string pattern = testing::TempDir() + "/cortiq_files_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Files() override {
    ::chmod(folder_.c_str(), 0755);
    for (const auto& name : files_.list(folder_)) ::unlink(path(name).c_str());
    ::rmdir(folder_.c_str());
  }
  std::string path(const std::string& name) const { return join_path(folder_, name); }
  std::vector<std::string> names() { return files_.list(folder_); }
  void expect_io(const std::function<void()>& action, const std::string& says) {
    try {
      action();
      ADD_FAILURE() << "nothing failed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Io);
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
  }

  FileSystem& files_ = FileSystem::real();
  std::string folder_;
};

Bytes text(std::string_view content) { return Bytes(content); }

TEST_F(Files, a_file_appears_whole_under_its_name) {
  write_file(files_, path("a"), text("first"));
  EXPECT_EQ(files_.read_all(path("a")), "first");
  write_file(files_, path("a"), text("second, longer"));
  EXPECT_EQ(files_.read_all(path("a")), "second, longer");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(Files, an_abandoned_file_leaves_the_old_one_and_nothing_else) {
  write_file(files_, path("a"), text("old"));
  try {
    AtomicFile file(files_, path("a"));
    file.file().append(text("half of the new"));
    EXPECT_EQ(names().size(), 2u);
    EXPECT_EQ(files_.read_all(path("a")), "old");
    fail(ErrorKind::Parse, "the source is broken");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Parse);
  }
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
  EXPECT_EQ(files_.read_all(path("a")), "old");
}

TEST_F(Files, temporaries_of_two_writers_have_different_names) {
  AtomicFile one(files_, path("a")), two(files_, path("a"));
  EXPECT_EQ(names().size(), 2u);
  one.file().append(text("one"));
  two.file().append(text("two"));
  one.commit();
  two.commit();
  EXPECT_EQ(files_.read_all(path("a")), "two");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(Files, a_full_disk_leaves_nothing_behind) {
  rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 4096;
  const auto old = std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is the full disk that needs no privileges
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_io([&] { write_file(files_, path("a"), text(std::string(8192, 'x'))); }, "writing 8192 bytes");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  EXPECT_TRUE(names().empty());
}

TEST_F(Files, targets_that_cannot_be_written_are_refused_at_once) {
  expect_io([&] { AtomicFile file(files_, folder_); }, "is a directory");
  expect_io([&] { AtomicFile file(files_, path("missing/a")); }, "cannot be written");
  if (::geteuid() != 0) {  // the superuser writes everywhere
    ::chmod(folder_.c_str(), 0555);
    expect_io([&] { AtomicFile file(files_, path("a")); }, "cannot be written");
  }
}

TEST_F(Files, a_signal_handler_removes_what_is_unfinished) {
  AtomicFile one(files_, path("a"));
  {
    AtomicFile done(files_, path("b"));
    done.commit();
  }
  remove_unfinished_files();
  EXPECT_EQ(names(), std::vector<std::string>{"b"});
}

TEST_F(Files, names_as_long_as_the_system_allows_can_be_targets) {
  write_file(files_, path(std::string(255, 'n')), text("x"));
  EXPECT_EQ(names().size(), 1u);
}

TEST_F(Files, mappings_survive_the_replacement_of_their_file) {
  write_file(files_, path("a"), text("old content"));
  const auto map = files_.map(path("a"));
  write_file(files_, path("a"), text("new"));
  EXPECT_EQ(map->bytes().text(), "old content");
  EXPECT_EQ(files_.map(path("a"))->bytes().text(), "new");
  EXPECT_EQ(map->path(), path("a"));
}

// Kilobytes of a mapping that are in the page table.
uint64_t mapped(const void* begin) {
  std::ifstream maps("/proc/self/smaps");
  const std::string wanted = fmt::format("{:x}-", reinterpret_cast<uintptr_t>(begin));
  for (std::string line; std::getline(maps, line);) {
    if (!line.starts_with(wanted)) continue;
    while (std::getline(maps, line)) {
      if (line.starts_with("Rss:")) return std::stoull(line.substr(4));
    }
  }
  return 0;
}

TEST_F(Files, a_range_can_be_mapped_before_it_is_touched) {
  constexpr uint64_t kSize = uint64_t{8} << 20;
  write_file(files_, path("a"), Bytes(std::string(kSize, 'a')));
  const auto map = files_.map(path("a"));
  const uint8_t* begin = map->bytes().data();
  if (::madvise(const_cast<uint8_t*>(begin), 1, 22) != 0) GTEST_SKIP() << "this system has no MADV_POPULATE_READ";
  EXPECT_LT(mapped(begin), kSize / 1024 / 2);
  map->advise(kSize - 1, 1, MappedFile::Advice::MapIn);  // of huge pages one
  EXPECT_LT(mapped(begin), kSize / 1024);
  map->advise(0, kSize + 1, MappedFile::Advice::MapIn);  // no further than the file goes
  EXPECT_EQ(mapped(begin), kSize / 1024);
  map->advise(kSize, 1, MappedFile::Advice::MapIn);
}

TEST_F(Files, copies_in_huge_pages_are_the_file_as_it_was) {
  std::string content(5'000'001, 'a');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 >> 3);
  write_file(FileSystem::real(), path("x"), Bytes(content));
  const auto copy = FileSystem::in_huge_pages().map(path("x"));
  copy->advise(0, content.size(), MappedFile::Advice::DontNeed);  // would empty memory that no file stands behind
  FileSystem::real().open_for_update(path("x"))->write_at(0, Bytes(std::string_view("zzzz")));
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(copy->bytes().data()), copy->bytes().size()), content);
  write_file(FileSystem::real(), path("empty"), Bytes());
  EXPECT_EQ(FileSystem::in_huge_pages().map(path("empty"))->bytes().size(), 0u);
  EXPECT_THROW(FileSystem::in_huge_pages().map(path("nothing")), Error);
}

TEST_F(Files, empty_files_and_directories_are_told_apart) {
  write_file(files_, path("empty"), Bytes());
  EXPECT_EQ(files_.map(path("empty"))->bytes().size(), 0u);
  EXPECT_EQ(files_.read_all(path("empty")), "");
  expect_io([&] { files_.map(folder_); }, "is a directory");
  expect_io([&] { files_.read_all(folder_); }, "is a directory");
  expect_io([&] { files_.map(path("missing")); }, path("missing"));
  expect_io([&] { files_.info(path("missing")); }, "missing");
  EXPECT_TRUE(files_.info(folder_).directory);
  EXPECT_FALSE(files_.exists(path("missing")));
}

TEST_F(Files, content_beyond_the_limit_is_not_read) {
  write_file(files_, path("a"), text(std::string(100, 'x')));
  EXPECT_EQ(files_.read_all(path("a"), 100).size(), 100u);
  expect_io([&] { files_.read_all(path("a"), 99); }, "100 bytes");
  expect_io([&] { files_.read_all("/dev/zero", 1 << 20); }, "/dev/zero");
}

TEST_F(Files, one_writer_at_a_time_holds_the_lock) {
  write_file(files_, path("a"), text("x"));
  auto lock = files_.lock(path("a"));
  expect_io([&] { files_.lock(path("a")); }, "another process");
  lock.reset();
  EXPECT_NO_THROW(files_.lock(path("a")));
}

TEST_F(Files, updates_in_place_keep_what_they_do_not_touch) {
  write_file(files_, path("a"), text("0123456789"));
  auto file = files_.open_for_update(path("a"));
  EXPECT_EQ(file->size(), 10u);
  file->write_at(2, text("AB"));
  file->append(text("tail"));
  file->sync();
  EXPECT_EQ(files_.read_all(path("a")), "01AB456789tail");
}

TEST_F(Files, paths_to_one_file_are_the_same_also_through_links) {
  write_file(files_, path("a"), text("x"));
  write_file(files_, path("b"), text("x"));
  ASSERT_EQ(::symlink(path("a").c_str(), path("l").c_str()), 0);
  EXPECT_TRUE(same_file(files_, path("a"), path("l")));
  EXPECT_TRUE(same_file(files_, path("a"), folder_ + "/./a"));
  EXPECT_FALSE(same_file(files_, path("a"), path("b")));
  EXPECT_FALSE(same_file(files_, path("a"), path("missing")));
}

TEST_F(Files, paths_come_apart_and_together) {
  EXPECT_EQ(directory_of("a/b/c"), "a/b");
  EXPECT_EQ(directory_of("c"), ".");
  EXPECT_EQ(directory_of("/c"), "/");
  EXPECT_EQ(file_name_of("a/b/c"), "c");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
}

// failures: a mapped file that somebody shortens is an Io error line with its name, not a bare SIGBUS.
TEST_F(Files, a_mapping_whose_file_shrinks_ends_with_an_io_error) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        guard_mappings();
        const std::string name = path("shrinking");
        write_file(files_, name, text(std::string(65536, 'x')));
        const auto map = files_.map(name);
        AtomicFile unfinished(files_, path("output"));
        if (::truncate(name.c_str(), 0) != 0) ::_exit(3);
        volatile uint8_t byte = map->bytes()[40000];
        (void)byte;
        ::_exit(0);
      },
      testing::ExitedWithCode(1), "error: Io: .*shrinking: the file was shortened");
}

}  // namespace
}  // namespace cortiq
