#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "text/chat.h"

// Templates against what jinja2 gave (tests/data/text/templates/README.md says how that was recorded).
namespace cortiq::text {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<Json> rows(const fs::path& path) {
  std::vector<Json> result;
  std::istringstream lines(contents(path));
  for (std::string line; std::getline(lines, line);) result.push_back(Json::parse(line));
  EXPECT_FALSE(result.empty()) << path;
  return result;
}

fs::path data() { return fs::path(CORTIQ_TEST_DATA) / "text/templates"; }

Json render(const ChatTemplate& chat_template, const Json& context) {
  try {
    return {{"output", chat_template.render(context, parse_clock("2024-07-26T14:05:09"))}};
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

Json render(const std::string& source, const Json& context) {
  try {
    return render(*ChatTemplate::parse(source, "template"), context);
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

bool same(const Json& wanted, const Json& got) {
  if (wanted.contains("output")) return got.value("output", Json()) == wanted["output"];
  if (!got.contains("error")) return false;
  if (wanted["error"] != "TemplateError") return true;
  return got["error"].get<std::string>() == wanted.value("message", "");
}

void compare_file(const char* name) {
  for (const Json& row : rows(data() / name)) {
    const Json got = render(row["template"].get<std::string>(), row["context"]);
    EXPECT_TRUE(same(row, got)) << row.dump() << "\n got " << got.dump();
  }
}

void compare_folder(const fs::path& folder, const Json& contexts) {
  const auto chat_template = ChatTemplate::parse(contents(folder / "template.jinja"), folder.filename().string());
  const Json recorded = Json::parse(contents(folder / "expected.json"))["results"];
  for (const auto& [name, wanted] : recorded.items()) {
    const Json got = render(*chat_template, contexts[name]);
    EXPECT_TRUE(same(wanted, got)) << folder << " " << name << "\n got " << got.dump() << "\nwant " << wanted.dump();
  }
}

TEST(JinjaRecorded, conformance) { compare_file("jinja-conformance.jsonl"); }
TEST(JinjaRecorded, language) { compare_file("language.jsonl"); }

TEST(JinjaRecorded, templates_of_models) {
  const Json contexts = Json::parse(contents(data() / "contexts.json"));
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(data() / "chat")) {
    compare_folder(entry.path(), contexts);
    ++count;
  }
  EXPECT_EQ(count, 10u);
}

TEST(JinjaRecorded, templates_under_other_licences) {
  const fs::path shared = fs::path(CORTIQ_SOURCE_DIR).parent_path() / "shared/models/templates";
  if (!fs::exists(shared / "chat"))
    GTEST_SKIP() << shared << " is not there: their licences keep them out of this repository";
  const Json contexts = Json::parse(contents(shared / "contexts.json"));
  for (const auto& entry : fs::directory_iterator(shared / "chat")) compare_folder(entry.path(), contexts);
}

TEST(JinjaRecorded, failures_met_by_users) {
  for (const Json& row : rows(data() / "failures.jsonl")) {
    if (!row.contains("jinja2")) continue;
    const Json got = render(row["template"].get<std::string>(), row["context"]);
    const bool fails = row["jinja2"].contains("error");
    EXPECT_EQ(got.contains("error"), fails) << row.dump() << "\n got " << got.dump();
    if (!fails) {
      EXPECT_EQ(got.value("output", Json()), row["jinja2"]["output"]) << row.dump();
    }
  }
}

}  // namespace
}  // namespace cortiq::text
