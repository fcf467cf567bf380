#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace cortiq::text {

/// Strings by their bytes, for prefix searches. Edges live in one open-addressing table.
class ByteTrie {
 public:
  static constexpr uint32_t kNone = UINT32_MAX, kRoot = 0;

  ByteTrie() { root_.fill(kNone); }

  /// The value of a string that is already there is replaced only if `replace`.
  void insert(std::string_view text, uint32_t value, bool replace) {
    uint32_t node = kRoot;
    for (const char c : text) node = child_or_new(node, static_cast<unsigned char>(c));
    if (values_[node] == kNone || replace) values_[node] = value;
  }

  bool empty() const noexcept { return values_.size() == 1; }

  /// The child of a node, or kNone.
  uint32_t child(uint32_t node, unsigned char byte) const noexcept {
    if (node == kRoot) return root_[byte];
    const uint32_t key = node << 8 | byte;
    if (edges_.empty()) return kNone;
    for (size_t at = slot(key);; at = (at + 1) & mask_) {
      if (edges_[at].key == key) return edges_[at].child;
      if (edges_[at].key == kEmpty) return kNone;
    }
  }

  /// The value of the string that ends at a node, or kNone.
  uint32_t value(uint32_t node) const noexcept { return values_[node]; }

  /// The node of a string, or kNone.
  uint32_t find(std::string_view text, uint32_t node = kRoot) const noexcept {
    for (size_t i = 0; i < text.size() && node != kNone; ++i) node = child(node, static_cast<unsigned char>(text[i]));
    return node;
  }

 private:
  struct Edge {
    uint32_t key, child;
  };
  static constexpr uint32_t kEmpty = 0;  // no key: the root's edges are in root_, so every key is at least 256

  size_t slot(uint32_t key) const noexcept { return (key * uint64_t{0x9E3779B97F4A7C15} >> 32) & mask_; }

  uint32_t child_or_new(uint32_t node, unsigned char byte) {
    const uint32_t known = child(node, byte);
    if (known != kNone) return known;
    const auto fresh = static_cast<uint32_t>(values_.size());
    if (fresh >= 1u << 24) fail(ErrorKind::Unsupported, "a vocabulary of more than 16 million prefixes");
    values_.push_back(kNone);
    if (node == kRoot) {
      root_[byte] = fresh;
      return fresh;
    }
    if (edges_.size() < 2 * (count_ + 1)) grow();
    put({node << 8 | byte, fresh});
    ++count_;
    return fresh;
  }

  void put(Edge edge) {
    size_t at = slot(edge.key);
    while (edges_[at].key != kEmpty) at = (at + 1) & mask_;
    edges_[at] = edge;
  }

  void grow() {
    std::vector<Edge> old(edges_.empty() ? 64 : edges_.size() * 2, Edge{kEmpty, kNone});
    old.swap(edges_);
    mask_ = edges_.size() - 1;
    for (const Edge& edge : old) {
      if (edge.key != kEmpty) put(edge);
    }
  }

  std::array<uint32_t, 256> root_;
  std::vector<uint32_t> values_ = {kNone};
  std::vector<Edge> edges_;
  size_t mask_ = 0, count_ = 0;
};

}  // namespace cortiq::text
