#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/chat.h"

namespace cortiq::text {
namespace {

Json user(const Json& content) { return {{"role", "user"}, {"content", content}}; }
Json request(std::initializer_list<Json> messages) {
  Json all = Json::array();
  for (const Json& message : messages) all.push_back(message);
  return {{"messages", all}};
}
Json text_part(const char* text) { return {{"type", "text"}, {"text", text}}; }

template <class Action>
ErrorKind kind_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::Io;
}

constexpr const char* kPlain =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% "
    "endif %}";
constexpr const char* kParts =
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}({{ p.text "
    "}}){% endfor %}{% endif %}{% endfor %}";

TEST(ChatRequest, arguments_as_text_become_an_object_in_their_order) {
  const auto chat_template = ChatTemplate::parse(
      "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments | tojson }};{% endfor %}{% endfor %}",
      "t");
  const auto call = [](const Json& arguments) { return Json{{"function", {{"name", "f"}, {"arguments", arguments}}}}; };
  Json message = {{"role", "assistant"}, {"content", nullptr}};
  message["tool_calls"] = Json::array({call("{\"z\": 1, \"a\": [true, null]}"), call("[1]"), call("not json"),
                                       call("{\"a\":1,\"a\":2}"), call({{"b", 1.0}})});
  EXPECT_EQ(render_chat(*chat_template, request({message}), {}),
            "{\"z\": 1, \"a\": [true, null]};\"[1]\";\"not json\";\"{\\\"a\\\":1,\\\"a\\\":2}\";{\"b\": 1.0};");
}

TEST(ChatRequest, parts_are_joined_for_a_template_that_wants_a_string) {
  const Json parts = request({user(Json::array({text_part("one"), text_part("two")}))});
  const auto plain = ChatTemplate::parse(kPlain, "t"), takes = ChatTemplate::parse(kParts, "t");
  EXPECT_FALSE(plain->takes_parts());
  EXPECT_TRUE(takes->takes_parts());
  EXPECT_FALSE(ChatTemplate::parse("{{ messages[0]['content'] + '!' }}", "t")->takes_parts());
  EXPECT_FALSE(ChatTemplate::parse("{{ messages | tojson }}", "t")->takes_parts());
  EXPECT_EQ(render_chat(*plain, parts, {}), "<user>one\ntwo</s><assistant>");
  EXPECT_EQ(render_chat(*takes, parts, {}), "(one)(two)");
}

TEST(ChatRequest, content_that_is_no_text_is_refused) {
  const auto takes = ChatTemplate::parse(kParts, "t");
  const Json image = request({user(Json::array({{{"type", "image_url"}, {"image_url", {{"url", "x"}}}}}))});
  EXPECT_EQ(kind_of([&] { render_chat(*takes, image, {}); }), ErrorKind::Unsupported);
  for (const Json& bad : {Json(), Json::array(), Json{{"messages", "x"}}, Json{{"messages", {1}}},
                          Json{{"messages", {{{"content", "x"}}}}}, request({user(Json::array({"x"}))}),
                          request({user(Json::array({{{"type", "text"}}}))})}) {
    EXPECT_EQ(kind_of([&] { render_chat(*takes, bad, {}); }), ErrorKind::Parse) << bad.dump();
  }
}

TEST(ChatRequest, hugging_faces_variables_are_set) {
  const auto chat_template = ChatTemplate::parse(
      "{{ bos_token }}{{ tools is none }}{{ documents is none }}{{ eos_token is defined }}{{ enable_thinking }}{{ "
      "add_generation_prompt }}",
      "t");
  Json one = request({user("x")});
  EXPECT_EQ(render_chat(*chat_template, one, {{"bos_token", "<s>"}}), "<s>TrueTrueFalseTrue");
  one["enable_thinking"] = false;
  one["add_generation_prompt"] = false;
  one["tools"] = Json::array();
  EXPECT_EQ(render_chat(*chat_template, one, {}), "FalseTrueFalseFalseFalse");
}

TEST(ChatRequest, a_continued_message_ends_the_prompt) {
  const auto plain = ChatTemplate::parse(kPlain, "t");
  const auto trims =
      ChatTemplate::parse("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</s>{% endfor %}", "t");
  const auto continued = [](const Json& content) {
    Json chat = request({user("say x"), {{"role", "assistant"}, {"content", content}}});
    chat["continue_final_message"] = true;
    return chat;
  };
  EXPECT_EQ(render_chat(*plain, continued("The answer"), {}), "<user>say x</s><assistant>The answer");
  EXPECT_EQ(render_chat(*plain, continued("The answer "), {}), "<user>say x</s><assistant>The answer ");
  EXPECT_EQ(render_chat(*trims, continued("The answer "), {}), "<user>say x</s><assistant>The answer");
  EXPECT_EQ(render_chat(*plain, continued(Json::array({text_part("x")})), {}), "<user>say x</s><assistant>x");
  Json both = continued("x");
  both["add_generation_prompt"] = true;
  EXPECT_EQ(kind_of([&] { render_chat(*plain, both, {}); }), ErrorKind::Usage);
  const auto drops = ChatTemplate::parse("{{ messages[0].content }}", "t");
  EXPECT_EQ(kind_of([&] { render_chat(*drops, continued("gone"), {}); }), ErrorKind::Parse);
  EXPECT_EQ(kind_of([&] { render_chat(*plain, continued(nullptr), {}); }), ErrorKind::Usage);
}

TEST(ChatRequest, chatml_only_with_its_tokens) {
  const auto knows = [](std::string_view) { return true; };
  const Json chat =
      request({{{"role", "system"}, {"content", "S"}}, user(Json::array({text_part("a"), text_part("b")}))});
  EXPECT_EQ(render_chatml(chat, knows),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(kind_of([&] { render_chatml(chat, [](std::string_view token) { return token == "<|im_start|>"; }); }),
            ErrorKind::Unsupported);
  Json tools = chat;
  tools["tools"] = Json::array({{{"type", "function"}}});
  EXPECT_EQ(kind_of([&] { render_chatml(tools, knows); }), ErrorKind::Unsupported);
  Json continued = request({user("q"), {{"role", "assistant"}, {"content", "The"}}});
  continued["continue_final_message"] = true;
  EXPECT_EQ(render_chatml(continued, knows), "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nThe");
}

}  // namespace
}  // namespace cortiq::text
