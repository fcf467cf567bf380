#include "convert/npy.h"

#include <charconv>
#include <cstring>

#include "base/half.h"

namespace cortiq::convert {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// The header is the text of a Python dictionary with three keys; this reads exactly that and nothing more.
class Dictionary {
 public:
  Dictionary(std::string_view text, std::string_view what) : text_(text), what_(what) {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        descr = quoted();
      } else if (key == "fortran_order") {
        fortran_order = boolean();
      } else if (key == "shape") {
        tuple();
      } else {
        bad("an unknown key");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (descr.empty() || !has_shape_) bad("no descr or no shape");
  }

  std::string_view descr;
  bool fortran_order = false;
  std::vector<uint64_t> shape;

 private:
  [[noreturn]] void bad(std::string_view why) const {
    fail(ErrorKind::Parse, "{}: .npy header at byte {}: {}", what_, at_, why);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(fmt::format("'{}' expected", c));
  }
  std::string_view quoted() {
    const char quote = accept('\'') ? '\'' : accept('"') ? '"' : '\0';
    const size_t end = quote ? text_.find(quote, at_) : text_.npos;
    if (end == text_.npos) bad("a quoted string expected");
    const std::string_view out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }
  bool boolean() {
    skip_space();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    }
    bad("True or False expected");
  }
  void tuple() {
    has_shape_ = true;
    expect('(');
    while (!accept(')')) {
      skip_space();
      uint64_t number = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
      if (error != std::errc()) bad("a dimension expected");
      at_ = static_cast<size_t>(end - text_.data());
      shape.push_back(number);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_, what_;
  size_t at_ = 0;
  bool has_shape_ = false;
};

// Bytes of an element, 0 for a type that is not read.
uint64_t width_of(std::string_view type) noexcept {
  if (type == "|b1" || type == "|u1" || type == "?") return 1;
  if (type == "<f2") return 2;
  if (type == "<f4" || type == "<i4") return 4;
  return type == "<f8" || type == "<i8" ? 8 : 0;
}

template <class From>
void widen(const uint8_t* at, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, at + i * sizeof(From), sizeof(From));
    out[i] = static_cast<float>(value);
  }
}

}  // namespace

NpyView view_npy(Bytes bytes, std::string_view what) {
  if (bytes.size() < 10 || bytes.text().substr(0, 6) != kMagic) fail(ErrorKind::Parse, "{}: not a .npy file", what);
  const bool first_version = bytes[6] == 1;
  const uint64_t begin = first_version ? 10 : 12;
  const uint64_t length =
      first_version ? bytes.read<uint16_t>(8, "header length") : bytes.read<uint32_t>(8, "header length");
  const Dictionary header(bytes.slice(begin, length, ".npy header").text(), what);
  if (header.fortran_order) fail(ErrorKind::Unsupported, "{}: Fortran order; save the array in C order", what);
  const uint64_t width = width_of(header.descr);
  if (width == 0) {
    fail(ErrorKind::Unsupported, "{}: .npy type '{}'; <f4, <f8, <f2, |b1, |u1, <i4 and <i8 are read", what,
         printable(header.descr, 40));
  }
  uint64_t size = width;
  for (const uint64_t dimension : header.shape) size = checked_multiply(size, dimension, "shape of the .npy array");
  if (bytes.size() - begin - length != size) {
    fail(ErrorKind::Bounds, "{}: {} bytes of data, the header's shape needs {}", what, bytes.size() - begin - length,
         size);
  }
  return {header.shape, std::string(header.descr), bytes.slice(begin + length, size)};
}

uint64_t NpyView::elements() const noexcept { return data.size() / width_of(type); }

void NpyView::read(uint64_t first, uint64_t count, float* out) const {
  const uint64_t width = width_of(type);
  const uint8_t* at =
      data.slice(checked_multiply(first, width), checked_multiply(count, width), ".npy elements").data();
  if (width == 1) return widen<uint8_t>(at, count, out);
  if (type == "<f4") return widen<float>(at, count, out);
  if (type == "<f8") return widen<double>(at, count, out);
  if (type == "<i4") return widen<int32_t>(at, count, out);
  if (type == "<i8") return widen<int64_t>(at, count, out);
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, at + 2 * i, 2);
    out[i] = f16_to_f32(half);
  }
}

Npy parse_npy(Bytes bytes, std::string_view what) {
  const NpyView view = view_npy(bytes, what);
  Npy out{view.shape, std::vector<float>(view.elements())};
  view.read(0, out.values.size(), out.values.data());
  return out;
}

Npy read_npy(const std::string& path, FileSystem& files) { return parse_npy(files.map(path)->bytes(), path); }

void write_npy(const std::string& path, std::span<const uint64_t> shape, std::span<const float> values,
               FileSystem& files) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const uint64_t size : shape) header += std::to_string(size) + ",";
  if (shape.size() > 1) header.pop_back();
  header += "), }";
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');  // data begins on a multiple of 64
  header += '\n';
  std::string head(kMagic);
  head += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  AtomicFile out(files, path);
  out.file().append(Bytes(head + header));
  out.file().append(Bytes(reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()));
  out.commit();
}

}  // namespace cortiq::convert
