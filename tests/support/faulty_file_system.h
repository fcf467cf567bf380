#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "support/memory_file_system.h"

namespace cortiq {

/// Files in memory on a disk that fails, shortens a write or loses power at the n-th call.
///
/// After a power loss every call fails, and crashed() gives the disk as the next boot may find it: what sync() had
/// confirmed is there; of the writes and renames after that, any may be. A write of at most 128 bytes counts as atomic
/// (the envelope of a CMF file), a longer one may be torn.
class FaultyFileSystem : public MemoryFileSystem {
 public:
  enum class Fault { None, NoSpace, ShortWrite, PowerLoss };

  /// Begins with files that are all on the disk.
  explicit FaultyFileSystem(const MemoryFileSystem& start) {
    for (const std::string& path : start.paths()) put(path, start.get(path));
    for (const auto& [path, content] : files_) {
      durable_[content] = *content;
      durable_names_[path] = content;
    }
  }

  void fail_at(size_t call, Fault fault) {
    fail_at_ = call;
    fault_ = fault;
  }
  size_t calls() const noexcept { return calls_; }
  bool failed() const noexcept { return failed_; }

  /// What may have survived of the changes that no sync confirmed.
  enum class Survival { Nothing, Everything, FirstHalf, SecondHalf, LastTorn };
  static constexpr Survival kSurvivals[] = {Survival::Nothing, Survival::Everything, Survival::FirstHalf,
                                            Survival::SecondHalf, Survival::LastTorn};

  MemoryFileSystem crashed(Survival writes, bool names_survive) const {
    MemoryFileSystem out;
    for (const auto& [path, content] : names_survive ? files_ : durable_names_) {
      std::string bytes;
      if (const auto at = durable_.find(content); at != durable_.end()) bytes = at->second;
      const auto pending = pending_.find(content);
      if (pending != pending_.end()) apply(bytes, pending->second, writes);
      out.put(path, bytes);
    }
    return out;
  }

  std::shared_ptr<const MappedFile> map(const std::string& path) override {
    step();
    return MemoryFileSystem::map(path);
  }
  std::string read_all(const std::string& path, uint64_t limit) override {
    step();
    return MemoryFileSystem::read_all(path, limit);
  }
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    step();
    return MemoryFileSystem::create(path);
  }
  std::unique_ptr<OutputFile> open_for_update(const std::string& path) override {
    if (files_.contains(path) && !durable_.contains(content(path)) && pending_[content(path)].empty()) {
      return MemoryFileSystem::open_for_update(path);  // from create()
    }
    step();
    return MemoryFileSystem::open_for_update(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    // The name may change although the call did not come back.
    const bool lost = step([&] { MemoryFileSystem::rename(from, to); });
    if (!lost) MemoryFileSystem::rename(from, to);
  }
  void remove(const std::string& path) override {
    const bool lost = step([&] { MemoryFileSystem::remove(path); });
    if (!lost) MemoryFileSystem::remove(path);
  }
  void sync_directory(const std::string& path) override {
    step();
    MemoryFileSystem::sync_directory(path);
    durable_names_ = files_;
  }

 protected:
  void on_write(const std::string& path, const Content& target, uint64_t offset, Bytes bytes) override {
    const auto write = [&](Bytes part) {
      MemoryFileSystem::on_write(path, target, offset, part);
      pending_[target].emplace_back(offset, std::string(part.text()));
    };
    step([&] {
      const bool shortened = fault_ == Fault::ShortWrite;
      if (!shortened || bytes.size() > kAtomic) write(shortened ? bytes.slice(0, bytes.size() / 2) : bytes);
    });
    write(bytes);
  }
  void on_sync(const std::string&, const Content& target) override {
    step();
    durable_[target] = *target;
    pending_[target].clear();
  }

 private:
  static constexpr uint64_t kAtomic = 128;
  using Writes = std::vector<std::pair<uint64_t, std::string>>;

  static void put_at(std::string& bytes, uint64_t offset, std::string_view part) {
    if (bytes.size() < offset + part.size()) bytes.resize(offset + part.size());
    bytes.replace(offset, part.size(), part);
  }

  static void apply(std::string& bytes, const Writes& writes, Survival survival) {
    size_t first = 0, last = writes.size();
    if (survival == Survival::Nothing) last = 0;
    if (survival == Survival::FirstHalf) last = writes.size() / 2;
    if (survival == Survival::SecondHalf) first = writes.size() / 2;
    for (size_t i = first; i < last; ++i) {
      std::string_view part = writes[i].second;
      if (survival == Survival::LastTorn && i + 1 == last && part.size() > kAtomic)
        part = part.substr(0, part.size() / 2);
      put_at(bytes, writes[i].first, part);
    }
  }

  // Counts the call and fails if it is the one. `anyway` is what happens although it fails.
  bool step(const std::function<void()>& anyway = {}) {
    if (dead_) fail(ErrorKind::Io, "the power is off");
    ++calls_;
    if (calls_ != fail_at_ || fault_ == Fault::None) return false;
    failed_ = true;
    if (fault_ == Fault::PowerLoss) dead_ = true;
    if (anyway && fault_ != Fault::NoSpace) anyway();
    fail(ErrorKind::Io, "{}", dead_ ? "the power went off" : "No space left on device");
  }

  std::map<Content, std::string> durable_;
  std::map<std::string, Content> durable_names_;
  std::map<Content, Writes> pending_;
  size_t calls_ = 0, fail_at_ = 0;
  Fault fault_ = Fault::None;
  bool failed_ = false, dead_ = false;
};

}  // namespace cortiq
