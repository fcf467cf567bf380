#include "text/chat.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/jinja/template.h"

namespace cortiq::text {
namespace {

class JinjaTemplate : public ChatTemplate {
 public:
  JinjaTemplate(std::string_view source, std::string_view what) : template_(source, what), takes_parts_(probe()) {}

  std::string render(const Json& context, const std::optional<std::tm>& now) const override {
    return template_.render(context, now);
  }
  bool takes_parts() const noexcept override { return takes_parts_; }

 private:
  // Asks the template itself: does the text of a part come out, and nothing of the list around it?
  bool probe() const {
    constexpr const char* kText = "cortiq-probe";
    const Json part = {{"type", "text"}, {"text", kText}};
    const Json message = {{"role", "user"}, {"content", Json::array({part})}};
    const Json context = {{"messages", Json::array({message})},
                          {"add_generation_prompt", true},
                          {"bos_token", ""},
                          {"eos_token", ""},
                          {"tools", nullptr},
                          {"documents", nullptr}};
    try {
      const std::string prompt = template_.render(context, parse_clock("2024-01-01T00:00:00"));
      const bool listed = prompt.find("'text'") != prompt.npos || prompt.find("\"text\"") != prompt.npos;
      return prompt.find(kText) != prompt.npos && !listed;
    } catch (const Error&) {
      return false;  // it wants a string, or another conversation: joined text serves either way
    }
  }

  jinja::Template template_;
  bool takes_parts_;
};

// Days since 1970-01-01 of a date in the Gregorian calendar.
int64_t days_of(int64_t year, int64_t month, int64_t day) {
  if (month <= 2) --year;
  const int64_t era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
  const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

}  // namespace

std::shared_ptr<const ChatTemplate> ChatTemplate::parse(std::string_view source, std::string_view what) {
  return std::make_shared<JinjaTemplate>(source, what);
}

std::tm parse_clock(std::string_view iso8601) {
  const auto bad = [&] {
    fail(ErrorKind::Usage, "'{}' is no time: expected YYYY-MM-DDThh:mm:ss", printable(iso8601, 40));
  };
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:dd";
  if (iso8601.size() != kForm.size()) bad();
  for (size_t i = 0; i < kForm.size(); ++i) {
    const char c = iso8601[i];
    const bool fits = kForm[i] == 'd' ? c >= '0' && c <= '9' : c == kForm[i] || (kForm[i] == 'T' && c == ' ');
    if (!fits) bad();
  }
  const auto number = [&](size_t at, size_t size) {
    int value = 0;
    for (size_t i = at; i < at + size; ++i) value = value * 10 + (iso8601[i] - '0');
    return value;
  };
  const int year = number(0, 4), month = number(5, 2), day = number(8, 2);
  std::tm time{};
  time.tm_hour = number(11, 2);
  time.tm_min = number(14, 2);
  time.tm_sec = number(17, 2);
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (year < 1 || month < 1 || month > 12 || day < 1 || day > kDays[month - 1] + (month == 2 && leap ? 1 : 0)) bad();
  if (time.tm_hour > 23 || time.tm_min > 59 || time.tm_sec > 59) bad();
  time.tm_year = year - 1900;
  time.tm_mon = month - 1;
  time.tm_mday = day;
  const int64_t days = days_of(year, month, day);
  time.tm_yday = static_cast<int>(days - days_of(year, 1, 1));
  time.tm_wday = static_cast<int>(((days + 4) % 7 + 7) % 7);  // 1970-01-01 was a Thursday
  time.tm_isdst = -1;
  return time;
}

}  // namespace cortiq::text
