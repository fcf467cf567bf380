#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "text/chat.h"

namespace cortiq::text {
namespace {

std::string parse_error(const std::string& source) {
  try {
    ChatTemplate::parse(source, "model.cmf: chat template");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Parse);
    return error.what();
  }
  return "none";
}

std::string render_error(const std::string& source, const Json& context = Json::object()) {
  try {
    ChatTemplate::parse(source, "t")->render(context);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Parse);
    return error.what();
  }
  return "none";
}

TEST(JinjaErrors, broken_template_names_line_and_column) {
  EXPECT_EQ(parse_error("a\n{{ é + }}"), "model.cmf: chat template:2:8: unexpected 'end of print statement'");
  EXPECT_EQ(
      parse_error("{% if x %}no end"),
      "model.cmf: chat template:1:17: Unexpected end of template. Jinja was looking for the following tags: 'elif' or "
      "'else' or 'endif'. The innermost block that needs to be closed is 'if'.");
  EXPECT_EQ(parse_error("\r\n\r\n {{ 'x' | frobnicate }}"),
            "model.cmf: chat template:3:11: No filter named 'frobnicate'.");
  EXPECT_EQ(parse_error("{{ 'x' is frobnicated }}"), "model.cmf: chat template:1:8: No test named 'frobnicated'.");
  EXPECT_EQ(parse_error("{% break %}"), "model.cmf: chat template:1:4: 'break' outside loop");
  EXPECT_EQ(parse_error("\xff"), "model.cmf: chat template: the template is not valid UTF-8");
}

TEST(JinjaErrors, other_templates_are_refused_by_name) {
  EXPECT_EQ(render_error("{% include 'x' %}"), "t:1: 'include' needs other templates; a chat template stands alone");
  EXPECT_EQ(render_error("{% if false %}{% import 'x' as y %}{% endif %}"), "none");
  EXPECT_NE(parse_error("{% autoescape true %}{% endautoescape %}").find("autoescape"), std::string::npos);
}

TEST(JinjaErrors, the_templates_own_message_is_given_as_it_is) {
  EXPECT_EQ(render_error("\n\n{{ raise_exception('Conversation roles must alternate!') }}"),
            "Conversation roles must alternate!");
}

TEST(JinjaErrors, rendering_names_the_line) {
  EXPECT_EQ(render_error("a\nb\n{{ x.y }}"), "t:3: 'x' is undefined");
  EXPECT_EQ(render_error("{% for m in messages %}\n{{ m + 1 }}{% endfor %}", {{"messages", {"a"}}}),
            "t:2: can only concatenate str (not \"int\") to str");
}

TEST(JinjaErrors, the_host_is_out_of_reach) {
  EXPECT_NE(render_error("{{ ''.__class__.__mro__ }}").find("is unsafe"), std::string::npos);
  EXPECT_NE(render_error("{{ '{0.__class__.__mro__}'.format('') }}").find("is unsafe"), std::string::npos);
  EXPECT_NE(render_error("{% set l = [1] %}{{ l.append(2) }}").find("is unsafe"), std::string::npos);
  EXPECT_NE(render_error("{{ messages.update({}) }}", {{"messages", Json::object()}}).find("is unsafe"),
            std::string::npos);
}

TEST(JinjaErrors, one_template_renders_in_many_threads) {
  const auto chat_template = ChatTemplate::parse("{% for i in range(50) %}{{ 'a' ~ i ~ x }}{% endfor %}", "t");
  const std::string wanted = chat_template->render({{"x", "é"}});
  std::vector<std::thread> threads;
  std::vector<std::string> results(8);
  for (std::string& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) result = chat_template->render({{"x", "é"}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, wanted);
}

TEST(Clock, dates_have_their_weekday_and_day_of_the_year) {
  const auto chat_template = ChatTemplate::parse("{{ strftime_now('%A %j %d %b %Y %H:%M:%S') }}", "t");
  EXPECT_EQ(chat_template->render(Json::object(), parse_clock("2024-07-26T14:05:09")),
            "Friday 208 26 Jul 2024 14:05:09");
  EXPECT_EQ(chat_template->render(Json::object(), parse_clock("2000-02-29T00:00:00")),
            "Tuesday 060 29 Feb 2000 00:00:00");
  EXPECT_EQ(chat_template->render(Json::object(), parse_clock("1969-12-31T23:59:59")),
            "Wednesday 365 31 Dec 1969 23:59:59");
  for (const char* bad : {"", "2024-07-26", "2024-13-01T00:00:00", "2023-02-29T00:00:00", "2024-07-26T24:00:00",
                          "2024-07-26T14:05:09Z", "abcd-07-26T14:05:09"}) {
    EXPECT_THROW(parse_clock(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace cortiq::text
