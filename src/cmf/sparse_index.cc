#include "cmf/sparse_index.h"

#include <algorithm>
#include <cstring>

namespace cortiq::cmf {
namespace {

constexpr uint64_t kHeadBytes = 8, kEntryBytes = 16;

}  // namespace

std::vector<IndexEntry> parse_sparse_index(Bytes section, std::string_view what) {
  const std::string where = fmt::format("{}: index", what);
  const auto count = section.read<uint32_t>(0, where);
  section.slice(0, kHeadBytes, where);
  if (count > (section.size() - kHeadBytes) / kEntryBytes) {
    fail(ErrorKind::Parse, "{}: {} entries in {} bytes", where, count, section.size());
  }
  std::vector<IndexEntry> out(count);
  uint64_t at = kHeadBytes;
  for (uint32_t i = 0; i < count; ++i) {
    IndexEntry& entry = out[i];
    const Bytes head = section.slice(at, kEntryBytes, where);
    entry.task_id = head.read<uint32_t>(0);
    entry.layer = head.read<uint32_t>(4);
    const uint64_t groups = head.read<uint32_t>(8), heads = head.read<uint32_t>(12);
    at += kEntryBytes;
    const Bytes group_bytes = section.slice(at, 2 * groups, where);
    const Bytes head_bytes = section.slice(at + 2 * groups, heads, where);
    entry.groups.resize(groups);
    if (groups != 0) std::memcpy(entry.groups.data(), group_bytes.data(), group_bytes.size());
    entry.heads.assign(head_bytes.data(), head_bytes.data() + head_bytes.size());
    // The zeros that fill up an entry to 4 bytes may be missing behind the last one.
    at = std::min(align_up(at + 2 * groups + heads, 4), section.size());
  }
  return out;
}

}  // namespace cortiq::cmf
