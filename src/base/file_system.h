#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"

// The one door to the operating system's files. The program uses FileSystem::real(); tests use one that fails,
// shortens or loses power at the n-th call (tests/support). Every failure is Io and names the path and the reason.
namespace cortiq {

/// A whole file mapped for reading; unmapped when the last owner lets go. If somebody shortens the file meanwhile, a
/// touch of a missing page ends the process with an Io error line that names the path (see guard_mappings()).
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual Bytes bytes() const noexcept = 0;
  virtual const std::string& path() const noexcept = 0;
  /// Tells the system that a range will be read in random order (experts, skills) or soon. MapIn does now, and in
  /// larger steps, what the first touch of every page would do: reads what is not in memory yet and maps the pages.
  enum class Advice { Normal, Random, Sequential, WillNeed, DontNeed, MapIn };
  virtual void advise(uint64_t offset, uint64_t length, Advice advice) const noexcept = 0;
};

/// A file open for writing. Writes are complete or throw.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void append(Bytes bytes) = 0;                     ///< at the end of what append() wrote, or of the file
  virtual void write_at(uint64_t offset, Bytes bytes) = 0;  ///< one system call if the system allows it
  virtual void sync() = 0;                                  ///< data and metadata on the disk
  virtual uint64_t size() const = 0;                        ///< end of the file
};

/// An exclusive advisory lock, held until destruction.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct FileInfo {
  uint64_t size = 0;
  uint64_t device = 0, inode = 0;
  bool directory = false;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::shared_ptr<const MappedFile> map(const std::string& path) = 0;
  /// The whole content; Io if it is larger than `limit` bytes.
  virtual std::string read_all(const std::string& path, uint64_t limit = uint64_t{1} << 30) = 0;
  virtual std::unique_ptr<OutputFile> create(const std::string& path) = 0;  ///< must not exist yet
  /// As create(), readable by its owner alone: for keys.
  virtual std::unique_ptr<OutputFile> create_private(const std::string& path) { return create(path); }
  virtual std::unique_ptr<OutputFile> open_for_update(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;
  virtual void sync_directory(const std::string& path) = 0;
  virtual std::unique_ptr<FileLock> lock(const std::string& path) = 0;  ///< Io at once if somebody else holds it
  virtual bool exists(const std::string& path) = 0;
  virtual FileInfo info(const std::string& path) = 0;                       ///< follows symlinks
  virtual std::vector<std::string> list(const std::string& directory) = 0;  ///< names, sorted
  virtual void make_directory(const std::string& path) = 0;                 ///< fine if it exists

  static FileSystem& real();
  /// The real one, but map() gives private copies in huge pages.
  static FileSystem& in_huge_pages();
};

/// True if both paths lead to the same existing file (also through links).
bool same_file(FileSystem& files, const std::string& a, const std::string& b);

/// "dir/name" → "dir", "." without a slash; and the part after the last slash.
std::string directory_of(const std::string& path);
std::string file_name_of(const std::string& path);
std::string join_path(const std::string& directory, const std::string& name);

/// Installs the handler that turns SIGBUS inside a mapping into `error: Io: …` on stderr and exit status 1. For
/// programs; a library user may keep the default.
void guard_mappings();

/// A new file that appears under its name whole or not at all: written beside it under a unique temporary name,
/// synced, renamed, directory synced. Destroyed before commit() (an error, a cancellation), it removes the temporary;
/// so does remove_unfinished_files() from a signal handler.
class AtomicFile {
 public:
  /// Checks at once that the target can be written there.
  AtomicFile(FileSystem& files, std::string target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  OutputFile& file() noexcept { return *file_; }
  void commit();

 private:
  FileSystem& files_;
  std::string target_, temporary_;
  std::unique_ptr<OutputFile> file_;
  bool committed_ = false;
};

/// Writes a whole small file through AtomicFile.
void write_file(FileSystem& files, const std::string& path, Bytes content);

/// Async-signal-safe: unlinks the temporaries of all AtomicFiles that are not committed.
void remove_unfinished_files() noexcept;

}  // namespace cortiq
