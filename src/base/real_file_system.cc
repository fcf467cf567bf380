#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/file_system.h"
#include "base/huge_pages.h"

namespace cortiq {
namespace {

[[noreturn]] void fail_io(const std::string& path, std::string_view doing) {
  const int code = errno;
  fail(ErrorKind::Io, "{}: {}: {}", path, doing, std::strerror(code));
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, mode_t mode = 0644)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {
    if (fd_ < 0) fail_io(path, "cannot be opened");
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

FileInfo info_of(int fd, const std::string& path) {
  struct stat s;
  if (::fstat(fd, &s) != 0) fail_io(path, "cannot be examined");
  return {static_cast<uint64_t>(s.st_size), s.st_dev, s.st_ino, S_ISDIR(s.st_mode)};
}

// The size of an open file whose content is wanted; Io for a directory.
uint64_t size_to_read(int fd, const std::string& path) {
  const FileInfo facts = info_of(fd, path);
  if (facts.directory) fail(ErrorKind::Io, "{}: is a directory, not a file", path);
  return facts.size;
}

// What one read gives, 0 at the end.
size_t read_some(int fd, const std::string& path, void* to, size_t count) {
  while (true) {
    const ssize_t got = ::read(fd, to, count);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) fail_io(path, "cannot be read");
  }
}

// Of Linux 5.14; older headers lack it, and an older kernel refuses it without harm.
constexpr int kPopulateRead = 22;

// Mappings that the SIGBUS handler knows by address. Fixed storage: the handler may neither lock nor allocate.
struct Range {
  std::atomic<uintptr_t> begin{0};
  uintptr_t end = 0;
  const char* path = nullptr;
};
std::array<Range, 4096> ranges;

class RealMapping final : public MappedFile {
 public:
  explicit RealMapping(const std::string& path) : path_(path) {
    const Descriptor file(path, O_RDONLY);
    size_ = size_to_read(file.get(), path);
    if (size_ == 0) return;
    void* at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
    if (at == MAP_FAILED) fail_io(path, "cannot be mapped");
    data_ = static_cast<uint8_t*>(at);
    const auto begin = reinterpret_cast<uintptr_t>(at);
    for (Range& range : ranges) {
      uintptr_t free = 0;
      if (range.begin.compare_exchange_strong(free, 1)) {
        range.end = begin + size_;
        range.path = path_.c_str();
        range.begin.store(begin, std::memory_order_release);
        range_ = &range;
        break;
      }
    }
  }
  ~RealMapping() override {
    if (range_) range_->begin.store(0, std::memory_order_release);
    if (data_) ::munmap(data_, size_);
  }

  Bytes bytes() const noexcept override { return {data_, size_}; }
  const std::string& path() const noexcept override { return path_; }

  void advise(uint64_t offset, uint64_t length, Advice advice) const noexcept override {
    if (offset >= size_ || length == 0) return;
    const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t begin = offset / page * page, end = std::min<uint64_t>(size_, offset + length);
    constexpr std::array kAdvice{MADV_NORMAL,   MADV_RANDOM,   MADV_SEQUENTIAL,
                                 MADV_WILLNEED, MADV_DONTNEED, kPopulateRead};
    ::madvise(data_ + begin, end - begin, kAdvice[static_cast<size_t>(advice)]);
  }

 private:
  std::string path_;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  Range* range_ = nullptr;
};

/// A private copy in huge pages. Where the page cache holds a file in small pages, reading 600 MB of weights for every
/// token costs a fifth more than from large ones (docs/performance.md); this is independent of the cache's state.
class HugeCopy final : public MappedFile {
 public:
  explicit HugeCopy(const std::string& path) : path_(path) {
    const Descriptor file(path, O_RDONLY);
    size_ = size_to_read(file.get(), path);
    if (size_ == 0) return;
    void* at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail_io(path, "cannot be copied into memory");
    data_ = static_cast<uint8_t*>(at);
    advise_huge_pages(data_, size_);
    try {
      read_from(file.get());
    } catch (...) {
      ::munmap(data_, size_);
      throw;
    }
    ::mprotect(data_, size_, PROT_READ);
  }
  ~HugeCopy() override {
    if (data_) ::munmap(data_, size_);
  }

  Bytes bytes() const noexcept override { return {data_, size_}; }
  const std::string& path() const noexcept override { return path_; }
  /// Nothing: the system's advice is for what can be read again from the file.
  void advise(uint64_t, uint64_t, Advice) const noexcept override {}

 private:
  void read_from(int file) {
    for (size_t done = 0; done < size_;) {
      const size_t got = read_some(file, path_, data_ + done, size_ - done);
      if (got == 0) fail(ErrorKind::Io, "{}: was shortened while it was read", path_);
      done += got;
    }
  }

  std::string path_;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

class RealOutput final : public OutputFile {
 public:
  RealOutput(const std::string& path, int flags, mode_t mode = 0644) : path_(path), file_(path, flags, mode) {
    end_ = info_of(file_.get(), path).size;
  }

  void append(Bytes bytes) override { write_at(end_, bytes); }

  void write_at(uint64_t offset, Bytes bytes) override {
    uint64_t done = 0;
    while (done < bytes.size()) {
      const ssize_t wrote =
          ::pwrite(file_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) {
        const int code = wrote == 0 ? ENOSPC : errno;
        fail(ErrorKind::Io, "{}: writing {} bytes at offset {} failed: {}", path_, bytes.size(), offset,
             std::strerror(code));
      }
      done += static_cast<uint64_t>(wrote);
    }
    end_ = std::max(end_, offset + bytes.size());
  }

  void sync() override {
    if (::fsync(file_.get()) != 0) fail_io(path_, "cannot be flushed to the disk");
  }

  uint64_t size() const override { return end_; }

 private:
  std::string path_;
  Descriptor file_;
  uint64_t end_ = 0;
};

class RealLock final : public FileLock {
 public:
  explicit RealLock(const std::string& path) : file_(path, O_RDWR) {
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return;
    if (errno == EWOULDBLOCK)
      fail(ErrorKind::Io, "{}: another process is writing to it; try again when it is done", path);
    fail_io(path, "cannot be locked");
  }

 private:
  Descriptor file_;  // closing it releases the lock
};

class RealFileSystem : public FileSystem {
 public:
  std::shared_ptr<const MappedFile> map(const std::string& path) override {
    return std::make_shared<RealMapping>(path);
  }

  std::string read_all(const std::string& path, uint64_t limit) override {
    const Descriptor file(path, O_RDONLY);
    const uint64_t size = size_to_read(file.get(), path);
    if (size > limit) fail(ErrorKind::Io, "{}: {} bytes, more than the {} expected at most", path, size, limit);
    std::string content;
    content.reserve(size + 1);
    advise_huge_pages(content.data(), content.capacity());
    content.resize(size + 1);  // one more: the end is seen without growing
    size_t done = 0;
    while (true) {
      if (done == content.size()) {  // pipes and /proc report no size
        if (done > limit) fail(ErrorKind::Io, "{}: more than the {} bytes expected at most", path, limit);
        content.resize(done + 4096);
      }
      const size_t got = read_some(file.get(), path, content.data() + done, content.size() - done);
      if (got == 0) break;
      done += got;
    }
    content.resize(done);
    return content;
  }

  std::unique_ptr<OutputFile> create(const std::string& path) override {
    return std::make_unique<RealOutput>(path, O_RDWR | O_CREAT | O_EXCL);
  }
  std::unique_ptr<OutputFile> create_private(const std::string& path) override {
    return std::make_unique<RealOutput>(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  }
  std::unique_ptr<OutputFile> open_for_update(const std::string& path) override {
    return std::make_unique<RealOutput>(path, O_RDWR);
  }
  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail_io(to, "cannot be put in place");
  }
  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) fail_io(path, "cannot be removed");
  }
  void sync_directory(const std::string& path) override {
    const Descriptor directory(path, O_RDONLY | O_DIRECTORY);
    if (::fsync(directory.get()) != 0 && errno != EINVAL) fail_io(path, "cannot be flushed to the disk");
  }
  std::unique_ptr<FileLock> lock(const std::string& path) override { return std::make_unique<RealLock>(path); }
  bool exists(const std::string& path) override {
    struct stat s;
    return ::stat(path.c_str(), &s) == 0;
  }
  FileInfo info(const std::string& path) override {
    struct stat s;
    if (::stat(path.c_str(), &s) != 0) fail_io(path, "cannot be examined");
    return {static_cast<uint64_t>(s.st_size), s.st_dev, s.st_ino, S_ISDIR(s.st_mode)};
  }
  std::vector<std::string> list(const std::string& directory) override {
    DIR* dir = ::opendir(directory.c_str());
    if (!dir) fail_io(directory, "cannot be listed");
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(dir)) {
      const std::string_view one = entry->d_name;
      if (one != "." && one != "..") names.emplace_back(one);
    }
    ::closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
  }
  void make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail_io(path, "cannot be made");
  }
};

class HugeFileSystem final : public RealFileSystem {
 public:
  std::shared_ptr<const MappedFile> map(const std::string& path) override { return std::make_shared<HugeCopy>(path); }
};

void put(const char* text) noexcept {
  const ssize_t ignored = ::write(2, text, std::strlen(text));
  (void)ignored;
}

void on_bus_error(int, siginfo_t* facts, void*) {
  const auto address = reinterpret_cast<uintptr_t>(facts->si_addr);
  for (const Range& range : ranges) {
    const uintptr_t begin = range.begin.load(std::memory_order_acquire);
    if (begin > 1 && address >= begin && address < range.end) {
      put("error: Io: ");
      put(range.path);
      put(": the file was shortened while it was in use, or its disk cannot be read\n");
      remove_unfinished_files();
      ::_exit(1);
    }
  }
  ::signal(SIGBUS, SIG_DFL);  // not ours: let the faulting instruction run again and die as usual
}

}  // namespace

FileSystem& FileSystem::real() {
  static RealFileSystem instance;
  return instance;
}

FileSystem& FileSystem::in_huge_pages() {
  static HugeFileSystem instance;
  return instance;
}

void guard_mappings() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace cortiq
