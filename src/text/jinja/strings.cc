#include "text/jinja/strings.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/unicode.h"

namespace cortiq::text::jinja {
namespace {

bool among(std::string_view chars, std::string_view one) {
  for (size_t at = 0; at < chars.size();) {
    const size_t size = decode_utf8(chars.substr(at)).size;
    if (chars.substr(at, size) == one) return true;
    at += size;
  }
  return false;
}

size_t last_code(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

void put(Runtime& runtime, Pieces& pieces, std::string_view piece) {
  runtime.step();
  if (pieces.size() == pieces.capacity()) runtime.heap.demand(pieces.size() * 100);  // each becomes a string
  pieces.push_back(piece);
}

}  // namespace

size_t count_codes(std::string_view text) noexcept {
  size_t codes = 0;
  for (const char c : text) codes += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return codes;
}

size_t code_offset(std::string_view text, size_t index) noexcept {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) {
    do ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  }
  return at;
}

std::string_view strip(std::string_view text, std::string_view chars, bool left, bool right) {
  const auto removed = [&](std::string_view one) {
    return chars.data() == nullptr ? is_space(decode_utf8(one).code) : among(chars, one);
  };
  while (left && !text.empty()) {
    const size_t size = decode_utf8(text).size;
    if (!removed(text.substr(0, size))) break;
    text.remove_prefix(size);
  }
  while (right && !text.empty()) {
    const size_t at = last_code(text);
    if (!removed(text.substr(at))) break;
    text = text.substr(0, at);
  }
  return text;
}

Pieces split(Runtime& runtime, std::string_view text, std::string_view separator, int64_t limit, bool from_right) {
  if (separator.empty()) raise("empty separator");
  runtime.step(1 + text.size() / 32);
  Pieces pieces;
  while (limit != 0) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == text.npos) break;
    if (from_right) {
      put(runtime, pieces, text.substr(at + separator.size()));
      text = text.substr(0, at);
    } else {
      put(runtime, pieces, text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
    if (limit > 0) --limit;
  }
  put(runtime, pieces, text);
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

Pieces split_space(Runtime& runtime, std::string_view text, int64_t limit, bool from_right) {
  runtime.step(1 + text.size() / 4);
  Pieces pieces;
  for (;;) {
    text = strip(text, {}, !from_right, from_right);
    if (text.empty()) break;
    if (limit == 0) {
      put(runtime, pieces, text);
      break;
    }
    size_t at = from_right ? text.size() : 0;
    if (from_right) {
      while (at > 0) {
        const size_t before = last_code(text.substr(0, at));
        if (is_space(decode_utf8(text.substr(before)).code)) break;
        at = before;
      }
      put(runtime, pieces, text.substr(at));
      text = text.substr(0, at);
    } else {
      while (at < text.size()) {
        const Decoded now = decode_utf8(text.substr(at));
        if (is_space(now.code)) break;
        at += now.size;
      }
      put(runtime, pieces, text.substr(0, at));
      text.remove_prefix(at);
    }
    if (limit > 0) --limit;
  }
  if (from_right) std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

Pieces split_lines(Runtime& runtime, std::string_view text, bool keep_ends) {
  runtime.step(1 + text.size() / 4);
  Pieces pieces;
  for (size_t begin = 0, at = 0; at < text.size();) {
    const Decoded now = decode_utf8(text.substr(at));
    const char32_t c = now.code;
    const size_t end = at;
    at += now.size;
    const bool breaks = (c >= 0xA && c <= 0xD) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (breaks) {
      if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
      put(runtime, pieces, text.substr(begin, (keep_ends ? at : end) - begin));
      begin = at;
    } else if (at == text.size()) {
      put(runtime, pieces, text.substr(begin));
    }
  }
  return pieces;
}

std::string replace(Runtime& runtime, std::string_view text, std::string_view old, std::string_view with,
                    int64_t limit) {
  runtime.step(1 + text.size() / 64);
  std::string out;
  if (old.empty()) {  // between all code points
    for (size_t at = 0; limit != 0; --limit) {
      runtime.append(out, with);
      if (at >= text.size()) return out;
      const size_t size = decode_utf8(text.substr(at)).size;
      runtime.append(out, text.substr(at, size));
      at += size;
      if (limit == 1) {
        runtime.append(out, text.substr(at));
        return out;
      }
    }
    return std::string(text);
  }
  while (limit != 0) {
    const size_t at = text.find(old);
    if (at == text.npos) break;
    runtime.append(out, text.substr(0, at));
    runtime.append(out, with);
    text.remove_prefix(at + old.size());
    if (limit > 0) --limit;
  }
  runtime.append(out, text);
  return out;
}

int64_t count(std::string_view text, std::string_view part) {
  if (part.empty()) return static_cast<int64_t>(count_codes(text)) + 1;
  int64_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

std::string pad(Runtime& runtime, std::string_view text, int64_t width, std::string_view fill, int more) {
  const auto size = static_cast<int64_t>(count_codes(text));
  if (width <= size) return std::string(text);
  const int64_t total = width - size;
  // str.center puts the odd one on the left if the width is odd.
  const int64_t left = more < 0 ? total : more > 0 ? 0 : total / 2 + (total & width & 1);
  if (static_cast<uint64_t>(total) > runtime.limits.live_bytes) runtime.heap.demand(runtime.limits.live_bytes + 1);
  runtime.heap.demand(text.size() + static_cast<size_t>(total) * fill.size());
  runtime.step(static_cast<uint64_t>(total) / 16);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < total; ++i) out += fill;
  return out;
}

std::string expand_tabs(Runtime& runtime, std::string_view text, int64_t size) {
  std::string out;
  int64_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t step = decode_utf8(text.substr(at)).size;
    const char c = text[at];
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      if (static_cast<uint64_t>(spaces) > runtime.limits.live_bytes) runtime.heap.demand(runtime.limits.live_bytes + 1);
      runtime.grow(out, static_cast<size_t>(spaces));
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    } else {
      runtime.append(out, text.substr(at, step));
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    at += step;
  }
  return out;
}

}  // namespace cortiq::text::jinja
