#include "parity/random_strings.h"

#include <array>
#include <string_view>

#include "base/utf8.h"

namespace cortiq::parity {
namespace {

struct Range {
  char32_t first, last;
};

// The first are texts people write; then what is rare, odd or not assigned.
constexpr std::array kRanges{
    Range{0x20, 0x7E},       Range{0x61, 0x7A},        Range{0x41, 0x5A},       Range{0x30, 0x39},
    Range{0xA0, 0x24F},      Range{0x250, 0x2FF},      Range{0x370, 0x52F},     Range{0x530, 0x6FF},
    Range{0x700, 0x8FF},     Range{0x900, 0xDFF},      Range{0xE00, 0x10FF},    Range{0x1100, 0x11FF},
    Range{0x1200, 0x1CFF},   Range{0x1D00, 0x1FFF},    Range{0x2000, 0x206F},   Range{0x2070, 0x2BFF},
    Range{0x2C00, 0x2FFF},   Range{0x3000, 0x30FF},    Range{0x3100, 0x4DBF},   Range{0x4E00, 0x9FFF},
    Range{0xA000, 0xABFF},   Range{0xAC00, 0xD7A3},    Range{0xE000, 0xF8FF},   Range{0xF900, 0xFAFF},
    Range{0xFB00, 0xFFFF},   Range{0x10000, 0x103FF},  Range{0x10400, 0x12FFF}, Range{0x13000, 0x1CFFF},
    Range{0x1D000, 0x1DFFF}, Range{0x1E000, 0x1EFFF},  Range{0x1F000, 0x1FAFF}, Range{0x1FB00, 0x1FFFF},
    Range{0x20000, 0x2FFFF}, Range{0x30000, 0x3FFFF},  Range{0x40000, 0xDFFFF}, Range{0xE0000, 0xE0FFF},
    Range{0xE1000, 0xFFFFF}, Range{0x100000, 0x10FFFF}};

constexpr std::array kMarks{Range{0x300, 0x36F},   Range{0x591, 0x5BD},   Range{0x64B, 0x65F},
                            Range{0x93C, 0x94D},   Range{0xE38, 0xE3A},   Range{0x1AB0, 0x1AFF},
                            Range{0x1DC0, 0x1DFF}, Range{0x20D0, 0x20F0}, Range{0x3099, 0x309A},
                            Range{0xFE00, 0xFE0F}, Range{0xFE20, 0xFE2F}, Range{0x1F3FB, 0x1F3FF}};

constexpr std::array<std::string_view, 22> kSpaces{" ",
                                                   " ",
                                                   "  ",
                                                   "   ",
                                                   "        ",
                                                   "\n",
                                                   "\n\n",
                                                   "\r\n",
                                                   "\t",
                                                   "\r",
                                                   "\v",
                                                   "\f",
                                                   "\n \n",
                                                   "\xc2\xa0",
                                                   "\xc2\x85",
                                                   "\xe3\x80\x80",
                                                   "\xe2\x80\xa8",
                                                   "\xe2\x80\xa9",
                                                   "\xe2\x80\x83",
                                                   "\xe2\x80\x8b",
                                                   "\xe1\x9a\x80",
                                                   "\xef\xbb\xbf"};

// What components look for.
constexpr std::array<std::string_view, 36> kWords{"'s",
                                                  "'S",
                                                  "'\xc5\xbf",
                                                  "'re",
                                                  "'LL",
                                                  "'d",
                                                  "\xe2\x80\x99s",
                                                  "n't",
                                                  "\xe2\x96\x81",
                                                  "\xc4\xa0",
                                                  "\xc4\x8a",
                                                  "##",
                                                  "##ing",
                                                  "</w>",
                                                  "<0x41>",
                                                  "<0x",
                                                  "<|",
                                                  "|>",
                                                  "<s>",
                                                  "</s>",
                                                  "<unk>",
                                                  "[MASK]",
                                                  "[UNK]",
                                                  "the",
                                                  " the",
                                                  "ing",
                                                  "123",
                                                  "4567890",
                                                  "___",
                                                  "----",
                                                  "...",
                                                  "://",
                                                  "\xe2\x80\x8d",
                                                  "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb",
                                                  "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa",
                                                  "\xef\xbf\xbd"};

// Characters and their spellings in the four normalisation forms.
constexpr std::string_view kForms[] = {
    "\xc3\xa9"
    "",
    "e\xcc\x81"
    "",
    "\xc3\x85"
    "",
    "A\xcc\x8a"
    "",
    "\xc7\xba"
    "",
    "A\xcc\x8a"
    "\xcc\x81"
    "",
    "\xef\xac\x81"
    "",
    "fi",
    "\xc2\xb2"
    "",
    "2",
    "\xe2\x91\xa0"
    "",
    "1",
    "\xef\xbd\xb6"
    "\xef\xbe\x9e"
    "",
    "\xe3\x82\xac"
    "",
    "\xe3\x82\xab"
    "\xe3\x82\x99"
    "",
    "\xea\xb0\x81"
    "",
    "\xe1\x84\x80"
    "\xe1\x85\xa1"
    "\xe1\x86\xa8"
    "",
    "\xed\x9e\xa3"
    "",
    "\xe1\x84\x92"
    "\xe1\x85\xb5"
    "\xe1\x87\x82"
    "",
    "\xe1\xbb\x87"
    "",
    "e\xcc\xa3"
    "\xcc\x82"
    "",
    "\xce\xa9"
    "",
    "K",
    "\xef\xb7\xba"
    "",
    "\xd8\xb5"
    "\xd9\x84"
    "\xd9\x89"
    " \xd8\xa7"
    "\xd9\x84"
    "\xd9\x84"
    "\xd9\x87"
    " \xd8\xb9"
    "\xd9\x84"
    "\xd9\x8a"
    "\xd9\x87"
    " \xd9\x88"
    "\xd8\xb3"
    "\xd9\x84"
    "\xd9\x85"
    "",
    "\xe3\x8e\x92"
    "",
    "MHz",
    "\xef\xbd\x81"
    "",
    "a",
    "\xe2\x80\xa6"
    "",
    "...",
    "\xef\xbe\x8a"
    "\xef\xbe\x9f"
    "",
    "\xe3\x83\x91"
    "",
    "\xe3\x83\x8f"
    "\xe3\x82\x9a"
    "",
    "\xe2\x85\xa7"
    "",
    "VIII",
    "\xc3\x9f"
    "",
    "\xe1\xba\x9b"
    "\xcc\xa3"
    "",
    "\xc5\xbf"
    "\xcc\xa3"
    "\xcc\x87"
    "",
    "\xe1\xb9\xa9"
    "",
    "s\xcc\xa3"
    "\xcc\x87"
    "",
    "\xcf\x8c"
    "",
    "\xce\xbf"
    "\xcc\x81"
    "",
    "\xd0\xb9"
    "",
    "\xd0\xb8"
    "\xcc\x86"
    "",
    "\xe0\xa4\x95"
    "\xe0\xa4\xbc"
    "",
    "\xe0\xab\x8b"
    "",
    "\xef\xac\xa0"
    "",
    "\xd7\xa2"
    "",
    "\xe3\x8c\x80"
    "",
    "\xe3\x82\xa2"
    "\xe3\x83\x91"
    "\xe3\x83\xbc"
    "\xe3\x83\x88"
    "",
    "\xe3\x82\xa2"
    "\xe3\x83\x8f"
    "\xe3\x82\x9a"
    "\xe3\x83\xbc"
    "\xe3\x83\x88"
    "",
    "\xf0\x9d\x95\xac"
    "",
    "A",
    "\xe4\xb8\xbd"
    "",
    "\xcb\x80"
    "",
    "\xc2\xbd"
    "",
    "1\xe2\x81\x84"
    "2"};

template <class Table>
auto pick(const Table& table, uint32_t at) {
  return table[at % std::size(table)];
}

}  // namespace

RandomStrings::RandomStrings(const std::vector<std::string>& added, uint64_t block)
    : random_(block * 0x9E3779B97F4A7C15 + 1), added_(added) {}

void RandomStrings::append_character(std::string& out, uint32_t home) {
  const uint32_t kind = below(16);
  const Range range = kind < 8 ? kRanges[home] : kind < 11 ? pick(kMarks, below(64)) : pick(kRanges, below(1024));
  char32_t code = range.first + below(range.last - range.first + 1);
  if (one_in(64)) code = below(0x110000);
  if (code >= 0xD800 && code < 0xE000) code += 0x2000;
  const uint32_t times = one_in(24) ? 2 + below(6) : 1;
  for (uint32_t i = 0; i < times; ++i) append_utf8(out, code);
}

void RandomStrings::append_piece(std::string& out, uint32_t home) {
  switch (below(20)) {
    case 0:
    case 1:
      if (!added_.empty()) {
        out += pick(added_, below(1u << 20));
        break;
      }
      [[fallthrough]];
    case 2:
      out += pick(kWords, below(1024));
      break;
    case 3:
      out += pick(kForms, below(1024));
      break;
    case 4:
    case 5:
    case 6:
      out += pick(kSpaces, below(1024));
      break;
    case 7:
      append_utf8(out, one_in(2) ? below(0x20) : 0x7F + below(0x21));
      break;
    default:
      append_character(out, home);
  }
}

std::string RandomStrings::next() {
  constexpr std::array<uint32_t, 8> kPieces{0, 1, 2, 4, 7, 11, 18, 30};
  std::string out;
  // Half of the texts are at home in one script, and half of those in a plain one.
  const uint32_t home = one_in(2) ? below(5) : below(static_cast<uint32_t>(kRanges.size()));
  uint32_t pieces = pick(kPieces, below(1024));  // one draw a statement: operands have no order
  pieces += below(3);
  for (uint32_t i = 0; i < pieces; ++i) append_piece(out, home);
  return out;
}

}  // namespace cortiq::parity
