#include "base/file_system.h"

#include <algorithm>

namespace cortiq {

bool same_file(FileSystem& files, const std::string& a, const std::string& b) {
  if (!files.exists(a) || !files.exists(b)) return false;
  const FileInfo x = files.info(a), y = files.info(b);
  return x.device == y.device && x.inode == y.inode;
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string file_name_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string join_path(const std::string& directory, const std::string& name) {
  if (directory.empty()) return name;
  return directory.back() == '/' ? directory + name : directory + "/" + name;
}

}  // namespace cortiq
