#include "text/jinja/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/utf8.h"

namespace cortiq::text::jinja {
namespace {

struct CaseRun {
  char32_t first, last;
  uint32_t stride;
  int32_t delta;
};
struct CaseSpecial {
  char32_t code;
  char32_t to[3];
};

#include "text/jinja/unicode_tables.inc"

bool mapped(std::string& out, char32_t code, std::span<const CaseRun> runs, std::span<const CaseSpecial> specials) {
  const auto run =
      std::upper_bound(runs.begin(), runs.end(), code, [](char32_t c, const CaseRun& r) { return c < r.first; });
  if (run != runs.begin()) {
    const CaseRun& found = *std::prev(run);
    if (code <= found.last && (code - found.first) % found.stride == 0) {
      append_utf8(out, static_cast<char32_t>(static_cast<int64_t>(code) + found.delta));
      return true;
    }
  }
  const auto special = std::lower_bound(specials.begin(), specials.end(), code,
                                        [](const CaseSpecial& s, char32_t c) { return s.code < c; });
  if (special == specials.end() || special->code != code || code == 0) return false;
  for (const char32_t part : special->to) {
    if (part != 0) append_utf8(out, part);
  }
  return true;
}

void append_lower(std::string& out, char32_t code) {
  if (!mapped(out, code, kLower, kLowerSpecial)) append_utf8(out, code);
}
void append_upper(std::string& out, char32_t code) {
  if (!mapped(out, code, kUpper, kUpperSpecial)) append_utf8(out, code);
}
void append_title(std::string& out, char32_t code) {
  if (!mapped(out, code, kTitle, kTitleSpecial)) append_upper(out, code);
}

constexpr char32_t kSigma = 0x3A3;

// A capital sigma at the end of a word becomes ς: a cased letter stands before it and none after it.
char32_t small_sigma(std::string_view before, std::string_view after) {
  bool cased_before = false;
  while (!before.empty()) {
    size_t start = before.size() - 1;
    while (start > 0 && (static_cast<unsigned char>(before[start]) & 0xC0) == 0x80) --start;
    const uint32_t known = properties(decode_utf8(before.substr(start)).code);
    before = before.substr(0, start);
    if ((known & kIgnorable) != 0) continue;
    cased_before = (known & kCased) != 0;
    break;
  }
  if (!cased_before) return 0x3C3;
  while (!after.empty()) {
    const Decoded next = decode_utf8(after);
    after.remove_prefix(next.size);
    const uint32_t known = properties(next.code);
    if ((known & kIgnorable) != 0) continue;
    return (known & kCased) != 0 ? 0x3C3 : 0x3C2;
  }
  return 0x3C2;
}

template <class Visit>
void each(std::string_view text, Visit visit) {
  for (size_t at = 0; at < text.size();) {
    const Decoded now = decode_utf8(text.substr(at));
    visit(now.code, at, at + now.size);
    at += now.size;
  }
}

void append_lower_at(std::string& out, std::string_view text, char32_t code, size_t begin, size_t end) {
  if (code == kSigma) {
    append_utf8(out, small_sigma(text.substr(0, begin), text.substr(end)));
  } else {
    append_lower(out, code);
  }
}

}  // namespace

uint32_t properties(char32_t code) noexcept {
  const auto next = std::upper_bound(std::begin(kProperties), std::end(kProperties), code << 11 | 0x7FF);
  return next == std::begin(kProperties) ? 0 : *std::prev(next) & 0x7FF;
}

bool is_space(char32_t code) noexcept {
  return (code >= 0x9 && code <= 0xD) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

int decimal_value(char32_t code) noexcept {
  if ((properties(code) & kDecimal) == 0) return -1;
  // Decimal digits come in blocks of ten that begin with zero; only the mathematical ones follow each other directly.
  if (code >= 0x1D7CE && code <= 0x1D7FF) return static_cast<int>((code - 0x1D7CE) % 10);
  char32_t zero = code;
  while (zero > 0 && (properties(zero - 1) & kDecimal) != 0) --zero;
  return static_cast<int>((code - zero) % 10);
}

std::string lower(std::string_view text) {
  std::string out;
  each(text, [&](char32_t code, size_t begin, size_t end) { append_lower_at(out, text, code, begin, end); });
  return out;
}

std::string upper(std::string_view text) {
  std::string out;
  each(text, [&](char32_t code, size_t, size_t) { append_upper(out, code); });
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  bool inside = false;
  each(text, [&](char32_t code, size_t begin, size_t end) {
    if (inside) {
      append_lower_at(out, text, code, begin, end);
    } else {
      append_title(out, code);
    }
    inside = (properties(code) & kCased) != 0;
  });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  each(text, [&](char32_t code, size_t begin, size_t end) {
    if (begin == 0) {
      append_title(out, code);
    } else {
      append_lower_at(out, text, code, begin, end);
    }
  });
  return out;
}

std::string swapcase(std::string_view text) {
  std::string out;
  each(text, [&](char32_t code, size_t begin, size_t end) {
    const uint32_t known = properties(code);
    if ((known & kUppercase) != 0) {
      append_lower_at(out, text, code, begin, end);
    } else if ((known & kLowercase) != 0) {
      append_upper(out, code);
    } else {
      append_utf8(out, code);
    }
  });
  return out;
}

std::string casefold(std::string_view text) {
  std::string out;
  each(text, [&](char32_t code, size_t, size_t) {
    if (!mapped(out, code, kFold, kFoldSpecial)) append_lower(out, code);
  });
  return out;
}

bool is_lower(std::string_view text) {
  bool some = false, good = true;
  each(text, [&](char32_t code, size_t, size_t) {
    const uint32_t known = properties(code);
    good = good && (known & (kUppercase | kTitlecase)) == 0;
    some = some || (known & kLowercase) != 0;
  });
  return some && good;
}

bool is_upper(std::string_view text) {
  bool some = false, good = true;
  each(text, [&](char32_t code, size_t, size_t) {
    const uint32_t known = properties(code);
    good = good && (known & (kLowercase | kTitlecase)) == 0;
    some = some || (known & kUppercase) != 0;
  });
  return some && good;
}

bool is_title(std::string_view text) {
  bool some = false, good = true, inside = false;
  each(text, [&](char32_t code, size_t, size_t) {
    const uint32_t known = properties(code);
    if ((known & (kUppercase | kTitlecase)) != 0) {
      good = good && !inside;
      inside = some = true;
    } else if ((known & kLowercase) != 0) {
      good = good && inside;
      inside = some = true;
    } else {
      inside = false;
    }
  });
  return some && good;
}

bool all_have(std::string_view text, uint32_t wanted) {
  bool good = !text.empty();
  each(text, [&](char32_t code, size_t, size_t) { good = good && (properties(code) & wanted) != 0; });
  return good;
}

}  // namespace cortiq::text::jinja
