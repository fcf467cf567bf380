#include "cmf/sparse_index.h"

#include <algorithm>
#include <cstring>

namespace cortiq::cmf {
namespace {

constexpr uint64_t kHeadBytes = 8, kEntryBytes = 16;

}  // namespace

std::vector<IndexEntry> parse_sparse_index(Bytes section, std::string_view what) {
  const std::string where = fmt::format("{}: index", what);
  if (section.size() < kHeadBytes) {
    fail(ErrorKind::Parse, "{}: {} bytes, its head alone has {}", where, section.size(), kHeadBytes);
  }
  const auto count = section.read<uint32_t>(0);
  if (count > (section.size() - kHeadBytes) / kEntryBytes) {
    fail(ErrorKind::Parse, "{}: {} entries in {} bytes", where, count, section.size());
  }
  std::vector<IndexEntry> out(count);
  uint64_t at = kHeadBytes;
  for (uint32_t i = 0; i < count; ++i) {
    // Facts §7: Parse, whatever it is that reaches beyond the section.
    const auto take = [&](uint64_t begin, uint64_t size) {
      if (!section.holds(begin, size)) fail(ErrorKind::Parse, "{}: entry {} ends beyond the section", where, i);
      return section.slice(begin, size);
    };
    IndexEntry& entry = out[i];
    const Bytes head = take(at, kEntryBytes);
    entry.task_id = head.read<uint32_t>(0);
    entry.layer = head.read<uint32_t>(4);
    const uint64_t groups = head.read<uint32_t>(8), heads = head.read<uint32_t>(12);
    at += kEntryBytes;
    const Bytes group_bytes = take(at, 2 * groups);
    const Bytes head_bytes = take(at + 2 * groups, heads);
    entry.groups.resize(groups);
    if (groups != 0) std::memcpy(entry.groups.data(), group_bytes.data(), group_bytes.size());
    entry.heads.assign(head_bytes.data(), head_bytes.data() + head_bytes.size());
    // The zeros that fill up an entry to 4 bytes may be missing behind the last one.
    at = std::min(align_up(at + 2 * groups + heads, 4), section.size());
  }
  return out;
}

}  // namespace cortiq::cmf
