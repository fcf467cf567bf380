#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "text/jinja/operations.h"

namespace cortiq::text::jinja {

constexpr int64_t kWidest = 1 << 20;
constexpr int64_t kMostPrecise = 1000;

/// [[fill]align][sign][#][0][width][grouping][.precision][type] of str.format, and what % formats have of it.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > = ^
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  int64_t precision = -1;
  char grouping = 0;
  char type = 0;
};

/// Digits at `at`, which moves behind them; more than `most` fails.
int64_t format_number(std::string_view text, size_t& at, int64_t most, const char* what);

std::string format_text(Runtime& runtime, const Spec& spec, std::string_view text);
std::string format_integer(Runtime& runtime, const Spec& spec, const Value& integer);
std::string format_real(Runtime& runtime, const Spec& spec, const Value& value, double real);
/// Sign, prefix and digits put together and filled to the width.
std::string place_number(Runtime& runtime, const Spec& spec, bool negative, const std::string& prefix,
                         std::string digits);

}  // namespace cortiq::text::jinja
