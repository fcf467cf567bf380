#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <random>

#include "base/file_system.h"

namespace cortiq {
namespace {

// Temporaries that a signal handler must unlink: fixed storage, because a handler may neither lock nor allocate. All
// zero and known to be so at compile time, or every start of the program would write (and fault in) 2 MB of it.
struct Unfinished {
  std::atomic<bool> used{false};
  std::atomic<bool> ready{false};
  char path[4096] = {};
};
constinit Unfinished unfinished[512] = {};

void remember(const std::string& path) noexcept {
  for (auto& slot : unfinished) {
    bool expected = false;
    if (path.size() < sizeof slot.path && slot.used.compare_exchange_strong(expected, true)) {
      std::memcpy(slot.path, path.c_str(), path.size() + 1);
      slot.ready.store(true);
      return;
    }
  }
}

void forget(const std::string& path) noexcept {
  for (auto& slot : unfinished) {
    if (slot.ready.load() && path == slot.path) {
      slot.ready.store(false);
      slot.used.store(false);
      return;
    }
  }
}

std::string unique_beside(FileSystem& files, const std::string& target) {
  std::random_device random;
  while (true) {
    std::string name =
        join_path(directory_of(target), fmt::format(".{}.{:08x}.tmp", file_name_of(target).substr(0, 200), random()));
    if (!files.exists(name)) return name;
  }
}

}  // namespace

AtomicFile::AtomicFile(FileSystem& files, std::string target) : files_(files), target_(std::move(target)) {
  if (files_.exists(target_) && files_.info(target_).directory) {
    fail(ErrorKind::Io, "{}: is a directory; name a file to write", target_);
  }
  temporary_ = unique_beside(files_, target_);
  remember(temporary_);
  try {
    file_ = files_.create(temporary_);
  } catch (const Error& error) {
    forget(temporary_);
    throw Error(error.kind(), fmt::format("{}: cannot be written: {}", target_, error.what()));
  }
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  file_.reset();
  try {
    files_.remove(temporary_);
  } catch (const Error&) {
    // Nothing better can be done while another error is on its way; the name says that it is a temporary.
  }
  forget(temporary_);
}

void AtomicFile::commit() {
  file_->sync();
  file_.reset();
  files_.rename(temporary_, target_);
  committed_ = true;
  forget(temporary_);
  files_.sync_directory(directory_of(target_));
}

void write_file(FileSystem& files, const std::string& path, Bytes content) {
  AtomicFile file(files, path);
  file.file().append(content);
  file.commit();
}

void remove_unfinished_files() noexcept {
  for (auto& slot : unfinished) {
    if (slot.ready.load()) ::unlink(slot.path);
  }
}

}  // namespace cortiq
