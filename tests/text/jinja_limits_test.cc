#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/chat.h"

namespace cortiq::text {
namespace {

std::string times(const std::string& part, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += part;
  return out;
}

/// The error of a template, or its output in brackets.
std::string outcome(const std::string& source, const Json& context = Json::object()) {
  try {
    return "[" + ChatTemplate::parse(source, "t")->render(context, parse_clock("2024-07-26T14:05:09")) + "]";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Parse);
    return error.what();
  }
}

void fails_soon(const std::string& source) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string result = outcome(source);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_FALSE(result.starts_with('[')) << source.substr(0, 100) << " gave " << result.substr(0, 100);
  EXPECT_LT(took.count(), 20) << source.substr(0, 100);  // a second without sanitizers and neighbours
}

TEST(JinjaLimits, endless_loops_end) {
  fails_soon("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}");
  fails_soon("{% for i in range(10000000) %}{% endfor %}");
  fails_soon("{% for n in [1] recursive %}{{ loop([1]) }}{% endfor %}");
  fails_soon("{% set l = range(100000)|list %}{% for i in l %}{% if -1 in l %}{% endif %}{% endfor %}");
  fails_soon("{% set l = range(100000)|list %}{% for i in l %}{% set t = l|sort %}{% endfor %}");
  fails_soon("{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set t = s.upper() %}{% endfor %}");
  fails_soon("{% set s = ' ' * 1000000 %}{% for i in range(100000) %}{% set t = s.strip() %}{% endfor %}");
  fails_soon("{% for i in range(100000) %}{% set x = (2**16000) // 3 %}{% endfor %}");
}

TEST(JinjaLimits, huge_values_are_refused_before_they_are_built) {
  for (const char* source :
       {"{{ 'x' * 1000000000000 }}",
        "{{ range(999999999999) | list | length }}",
        "{{ '%0999999999d' % 1 }}",
        "{{ '%*d' % (999999999, 1) }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '{:.999999999f}'.format(1.5) }}",
        "{{ 'a'.center(999999999) }}",
        "{{ 'a'.zfill(999999999999) }}",
        "{{ '\\t'.expandtabs(999999999999) }}",
        "{{ 'a'|indent(999999999) }}",
        "{{ [1]|tojson(indent=999999999) }}",
        "{{ [1]|batch(999999999, 0)|list }}",
        "{{ [1]|slice(999999999)|list }}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ 2**16000 * 2**16000 }}",
        "{{ ('a'*1000000).replace('a', 'b'*1000000) }}",
        "{{ ('a'*20000000)|list|length }}",
        "{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(64) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
        "{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}"}) {
    fails_soon(source);
  }
}

TEST(JinjaLimits, values_shared_many_times_do_not_unfold) {
  const std::string pairs =
      "{% set ns = namespace(l=[1]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}";
  fails_soon(pairs + "{{ ns.l }}");
  fails_soon(pairs + "{{ ns.l|tojson }}");
}

TEST(JinjaLimits, recursion_ends) {
  fails_soon("{% macro m(n) %}{{ m(n+1) }}{% endmacro %}{{ m(0) }}");
  fails_soon("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}");
  fails_soon("{% set ns = namespace(l=[]) %}{% for i in range(50000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}");
  fails_soon(
      "{% set ns = namespace(l=[]) %}{% for i in range(50000) %}{% set ns.l = ns.l|map('upper') %}{% endfor %}{{ "
      "ns.l|list }}");
  for (const auto& [open, close] : {std::pair("(", ")"), {"[", "]"}, {"-", ""}, {"not ", ""}}) {
    fails_soon("{{ " + times(open, 50000) + "1" + times(close, 50000) + " }}");
  }
  for (const char* more : {"+1", "|abs", ".b", "()", "[0]", " is none", " if 1 else 1"})
    fails_soon("{{ a" + times(more, 50000) + " }}");
  fails_soon(times("{% if 1 %}", 5000) + times("{% endif %}", 5000));
  fails_soon("{% if 0 %}" + times("{% elif 0 %}", 5000) + "{% endif %}");
}

TEST(JinjaLimits, deep_values_die_without_recursion) {
  EXPECT_EQ(outcome("{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}x"),
            "[x]");
  EXPECT_EQ(
      outcome("{% set ns = namespace() %}{% for i in range(90000) %}{% set ns.x = namespace(p=ns.x) %}{% endfor %}x"),
      "[x]");
  EXPECT_EQ(outcome("{% set ns = namespace() %}{% set ns.a = [ns] %}{% macro m() %}{% endmacro %}{% set ns.m = m %}x"),
            "[x]");
}

TEST(JinjaLimits, too_long_templates_are_refused) {
  fails_soon(std::string(2 << 20, 'x'));
  fails_soon(times("{{ x }}", 140000));
  fails_soon("{{ [" + times("1,", 400000) + "] }}");
}

TEST(JinjaLimits, long_chats_are_no_attack) {
  Json messages = Json::array();
  for (int i = 0; i < 2000; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(2000, 'x')}});
  }
  const std::string source =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m['content'] | trim }}{% if not loop.last and "
      "messages[loop.index0 + 1].role != m.role %}<|im_end|>\n{% endif %}{% endfor %}";
  EXPECT_GT(outcome(source, {{"messages", messages}}).size(), 4'000'000u);
}

TEST(JinjaLimits, small_stack) {
  // A server's threads have less stack than the main thread: the depth limit must fit half a megabyte.
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, size_t{2} << 20);
  pthread_t thread;
  const auto body = [](void*) -> void* {
    fails_soon(
        "{% macro m(n) %}{% if true %}{% for i in [1] %}{{ m(n+1) ~ '' }}{% endfor %}{% endif %}{% endmacro %}{{ m(0) "
        "}}");
    fails_soon(
        "{% set ns = namespace(l=[]) %}{% for i in range(9000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l|tojson }}");
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, body, nullptr), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace
}  // namespace cortiq::text
