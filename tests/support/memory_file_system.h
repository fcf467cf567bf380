#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/file_system.h"

namespace cortiq {

/// Files in memory. Mappings are snapshots: they keep what the file held when it was mapped.
class MemoryFileSystem : public FileSystem {
 public:
  using Content = std::shared_ptr<std::string>;

  void put(const std::string& path, std::string bytes) {
    files_[path] = std::make_shared<std::string>(std::move(bytes));
  }
  const std::string& get(const std::string& path) const { return *content(path); }
  std::vector<std::string> paths() const {
    std::vector<std::string> out;
    for (const auto& [path, content] : files_) out.push_back(path);
    return out;
  }

  std::shared_ptr<const MappedFile> map(const std::string& path) override {
    return std::make_shared<Mapping>(path, *content(path));
  }
  std::string read_all(const std::string& path, uint64_t limit) override {
    const Content found = content(path);
    if (found->size() > limit) fail(ErrorKind::Io, "{}: larger than {}", path, limit);
    return *found;
  }
  std::unique_ptr<OutputFile> create(const std::string& path) override {
    if (files_.contains(path)) fail(ErrorKind::Io, "{}: cannot be opened: exists", path);
    put(path, "");
    return open_for_update(path);
  }
  std::unique_ptr<OutputFile> open_for_update(const std::string& path) override {
    return std::make_unique<Output>(*this, path, content(path));
  }
  void rename(const std::string& from, const std::string& to) override {
    files_[to] = content(from);
    if (from != to) files_.erase(from);
  }
  void remove(const std::string& path) override {
    content(path);
    files_.erase(path);
  }
  void sync_directory(const std::string&) override {}
  std::unique_ptr<FileLock> lock(const std::string& path) override {
    content(path);
    if (!locked_.insert(path).second) fail(ErrorKind::Io, "{}: another process is writing to it", path);
    return std::make_unique<Lock>(*this, path);
  }
  bool exists(const std::string& path) override { return files_.contains(path); }
  FileInfo info(const std::string& path) override {
    const Content found = content(path);
    return {found->size(), 1, reinterpret_cast<uintptr_t>(found.get()), false};
  }
  std::vector<std::string> list(const std::string& directory) override {
    std::vector<std::string> out;
    for (const auto& [path, content] : files_) {
      if (directory_of(path) == directory) out.push_back(file_name_of(path));
    }
    return out;
  }
  void make_directory(const std::string&) override {}

 protected:
  virtual void on_write(const std::string& /*path*/, const Content& content, uint64_t offset, Bytes bytes) {
    if (content->size() < offset + bytes.size()) content->resize(offset + bytes.size());
    content->replace(offset, bytes.size(), bytes.text());
  }
  virtual void on_sync(const std::string& /*path*/, const Content& /*content*/) {}

  Content content(const std::string& path) const {
    const auto at = files_.find(path);
    if (at == files_.end()) fail(ErrorKind::Io, "{}: cannot be opened: no such file", path);
    return at->second;
  }
  std::map<std::string, Content> files_;

 private:
  class Mapping final : public MappedFile {
   public:
    Mapping(std::string path, std::string content) : path_(std::move(path)), content_(std::move(content)) {}
    Bytes bytes() const noexcept override { return Bytes(std::string_view(content_)); }
    const std::string& path() const noexcept override { return path_; }
    void advise(uint64_t, uint64_t, Advice) const noexcept override {}

   private:
    std::string path_, content_;
  };

  class Output final : public OutputFile {
   public:
    Output(MemoryFileSystem& files, std::string path, Content content)
        : files_(files), path_(std::move(path)), content_(std::move(content)) {}
    void append(Bytes bytes) override { write_at(content_->size(), bytes); }
    void write_at(uint64_t offset, Bytes bytes) override { files_.on_write(path_, content_, offset, bytes); }
    void sync() override { files_.on_sync(path_, content_); }
    uint64_t size() const override { return content_->size(); }

   private:
    MemoryFileSystem& files_;
    std::string path_;
    Content content_;
  };

  class Lock final : public FileLock {
   public:
    Lock(MemoryFileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}
    ~Lock() override { files_.locked_.erase(path_); }

   private:
    MemoryFileSystem& files_;
    std::string path_;
  };

  std::set<std::string> locked_;
};

}  // namespace cortiq
