#include <utf8proc.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/normalizer.h"
#include "text/unicode.h"

namespace cortiq::text {
namespace {

std::string decode_base64(std::string_view text, const std::string& path) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  size_t used = 0;
  for (; used < text.size() && text[used] != '='; ++used) {
    const char c = text[used];
    uint32_t value = 64;
    if (c >= 'A' && c <= 'Z') value = static_cast<uint32_t>(c - 'A');
    if (c >= 'a' && c <= 'z') value = static_cast<uint32_t>(c - 'a') + 26;
    if (c >= '0' && c <= '9') value = static_cast<uint32_t>(c - '0') + 52;
    if (c == '+') value = 62;
    if (c == '/') value = 63;
    if (value == 64) fail(ErrorKind::Parse, "{}/precompiled_charsmap: not base64 at character {}", path, used);
    bits = bits << 6 | value;
    have += 6;
    if (have >= 8) {
      have -= 8;
      out += static_cast<char>(bits >> have & 0xFF);
    }
  }
  const size_t padding = text.size() - used;
  if (padding > 2 || text.size() % 4 != 0 || text.find_first_not_of('=', used) != std::string_view::npos) {
    fail(ErrorKind::Parse, "{}/precompiled_charsmap: the end is not base64", path);
  }
  return out;
}

// SentencePiece's charsmap: a double-array trie from short texts to replacements.
class Precompiled final : public Normalizer {
 public:
  Precompiled(const std::string& charsmap, std::string path) : path_(std::move(path)) {
    const std::string blob = decode_base64(charsmap, path_);
    uint32_t size = 0;
    if (blob.size() >= 4) std::memcpy(&size, blob.data(), 4);
    if (blob.size() < 4 || size > blob.size() - 4 || size % 4 != 0) {
      fail(ErrorKind::Parse, "{}/precompiled_charsmap: a trie of {} bytes in {} bytes", path_, size, blob.size());
    }
    trie_.resize(size / 4);
    std::memcpy(trie_.data(), blob.data() + 4, size);
    texts_ = blob.substr(4 + size);
    if (!valid_utf8(texts_)) fail(ErrorKind::Parse, "{}/precompiled_charsmap: its texts are not UTF-8", path_);
  }

  void apply(AlignedText& text) const override {
    const std::string_view all = text.text();
    Rewrite out(text);
    bool changed = false;
    for (size_t begin = 0; begin < all.size();) {
      const size_t end = cluster_end(all, begin);
      changed |= write_cluster(all, {begin, end}, out);
      begin = end;
    }
    if (changed) out.finish();
  }

 private:
  static constexpr size_t kLongCluster = 6;  // bytes from which on a cluster is not looked up as a whole

  // The end of the extended grapheme cluster that begins at `begin`.
  static size_t cluster_end(std::string_view text, size_t begin) {
    CodeAt last = code_at(text, begin);
    size_t end = begin + last.size;
    utf8proc_int32_t state = 0;
    while (end < text.size()) {
      const CodeAt next = code_at(text, end);
      const bool ascii = last.code < 0x80 && next.code < 0x80 && last.code != '\r';
      if (ascii || utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                                    static_cast<utf8proc_int32_t>(next.code), &state)) {
        break;
      }
      last = next;
      end += next.size;
    }
    return end;
  }

  bool write_cluster(std::string_view all, Span cluster, Rewrite& out) const {
    std::string_view found;
    if (cluster.size() < kLongCluster && look_up(all.substr(cluster.begin, cluster.size()), found)) {
      out.put(found, cluster);
      return true;
    }
    bool changed = false;
    for (size_t at = cluster.begin; at < cluster.end;) {
      const Span part{at, at + code_at(all, at).size};
      if (look_up(all.substr(part.begin, part.size()), found)) {
        out.put(found, part);
        changed = true;
      } else {
        out.keep(part);
      }
      at = part.end;
    }
    return changed;
  }

  // The replacement of the shortest prefix of a text that has one.
  bool look_up(std::string_view text, std::string_view& found) const {
    const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & 512) >> 6); };
    if (trie_.empty()) return false;
    uint64_t at = offset(trie_[0]);
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) return false;
      at ^= byte;
      if (at >= trie_.size()) return false;
      const uint32_t unit = trie_[at];
      if ((unit & 0x800000FF) != byte) return false;
      at ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (at >= trie_.size()) broken();
      const uint32_t place = trie_[at] & 0x7FFFFFFF;
      if (place >= texts_.size() || (static_cast<unsigned char>(texts_[place]) & 0xC0) == 0x80) broken();
      const size_t end = texts_.find('\0', place);
      found = std::string_view(texts_).substr(place, end == std::string::npos ? end : end - place);
      return true;
    }
    return false;
  }

  [[noreturn]] void broken() const {
    fail(ErrorKind::Parse, "{}/precompiled_charsmap: its trie points outside its texts", path_);
  }

  std::string path_;
  std::vector<uint32_t> trie_;
  std::string texts_;
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled(const std::string& charsmap, const std::string& path) {
  return std::make_unique<Precompiled>(charsmap, path);
}

}  // namespace cortiq::text
