// The members of `--json` documents, with their types, are those of json_members.txt: the commands
// there run one after another, and below each that has --json stand its members. A member that is
// new gets a line there. One that is gone, or has another type, breaks a promise of CHANGELOG.md.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using nlohmann::json;
// "tensors[].layer" -> {"null", "number"}
using Members = std::map<std::string, std::set<std::string>>;

const char* KindOf(const json& value) {
  if (value.is_string()) return "text";
  if (value.is_boolean()) return "flag";
  if (value.is_number()) return "number";
  if (value.is_array()) return "list";
  return value.is_object() ? "object" : "null";
}

bool IsNumber(const std::string& name) {
  return !name.empty() && name.find_first_not_of("0123456789") == name.npos;
}

void Collect(const std::string& path, const json& value, Members& members) {
  if (!path.empty()) members[path].insert(KindOf(value));
  if (path == "manifest" || path == "config") return;  // documents of OCI, as `inspect` shows them
  if (value.is_array()) {
    for (const json& element : value) Collect(path + "[]", element, members);
  } else if (value.is_object()) {
    for (const auto& [name, member] : value.items()) {
      const std::string shown = IsNumber(name) ? "*" : name;  // of a layer or a group
      Collect(path.empty() ? shown : path + "." + shown, member, members);
    }
  }
}

std::string TextOf(const Members& members) {
  std::string text;
  for (const auto& [path, kinds] : members) {
    text += path;
    char separator = ' ';
    for (const std::string& kind : kinds) text += separator + kind, separator = '|';
    text += '\n';
  }
  return text;
}

std::set<std::string> LinesOfText(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.insert(line);
  return lines;
}

// "gone: ..." and "new: ..."
std::string Difference(const std::string& listed, const std::string& found) {
  const std::set<std::string> before = LinesOfText(listed), now = LinesOfText(found);
  std::string out;
  for (const std::string& line : before)
    if (!now.contains(line)) out += "gone: " + line + "\n";
  for (const std::string& line : now)
    if (!before.contains(line)) out += "new: " + line + "\n";
  return out;
}

TEST(JsonMembers, AreThoseOfTheList) {
  const Workspace workspace;
  std::istringstream list(ReadFile(MOEPACK_SOURCE_DIR "/tests/tools/rules/json_members.txt"));
  std::string command, members, whole;
  size_t compared = 0;
  const auto run = [&] {
    if (command.empty()) return;
    const ToolRun ran = workspace.Moepack(command);
    EXPECT_TRUE(ran.status == 0 || command.starts_with("diff ")) << command << "\n" << ran.err;
    whole += "$ " + command + "\n";
    if (command.find(" --json") == command.npos) return;
    const json document = json::parse(ran.out, nullptr, false);
    ASSERT_FALSE(document.is_discarded()) << command << "\n" << ran.out;
    Members found;
    Collect("", document, found);
    whole += TextOf(found);
    EXPECT_EQ(Difference(members, TextOf(found)), "") << "moepack " << command;
    ++compared;
  };
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    if (!line.starts_with("$ ")) {
      members += line + "\n";
      continue;
    }
    run();
    command = line.substr(2);
    members.clear();
  }
  run();
  EXPECT_GT(compared, 20u);
  // Where the test runs, to compare.
  if (HasFailure()) WriteAll(std::filesystem::current_path() / "json_members.txt", whole);
}

}  // namespace
}  // namespace moepack::cli
