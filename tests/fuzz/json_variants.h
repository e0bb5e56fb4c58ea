// What may stand in the place of one node of a JSON document: other numbers, texts and types, and
// members that are gone, renamed or there twice.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace fuzz {

using JsonNode = nlohmann::ordered_json;

// As a value, or as a list of one.
inline std::vector<JsonNode> OtherTypes(const JsonNode& node) {
  return {nullptr,
          true,
          0,
          "",
          "x",
          JsonNode::array(),
          JsonNode::object(),
          JsonNode::array({node}),
          JsonNode::object({{"*", node}})};
}

inline std::vector<JsonNode> NumberVariants(const JsonNode& node) {
  std::vector<JsonNode> out = {0,
                               1,
                               -1,
                               2,
                               7,
                               -0.5,
                               1e308,
                               0x7fffffff,
                               0xffffffffu,
                               uint64_t{1} << 32,
                               uint64_t{1} << 53,
                               uint64_t{1} << 63,
                               std::numeric_limits<int64_t>::min(),
                               std::numeric_limits<uint64_t>::max(),
                               node.dump()};
  if (!node.is_number_unsigned() && !node.is_number_integer()) return out;
  const auto number = node.get<uint64_t>();
  for (const uint64_t other : {number + 1, number - 1, number * 2, number ^ 8})
    out.emplace_back(other);
  return out;
}

// Texts that are ids, paths, names and versions to the readers of documents.
inline std::vector<JsonNode> StringVariants(const std::string& text) {
  std::vector<JsonNode> out;
  for (const char* other : {"*",
                            "0",
                            "1",
                            "-1",
                            "00",
                            "0-0",
                            "1-0",
                            "0,0",
                            "1,0",
                            "0-",
                            "-",
                            ",",
                            "0-4294967295",
                            "0-18446744073709551615",
                            "4294967295",
                            "0 ",
                            "9-9",
                            "..",
                            "../x",
                            "/x",
                            "a/../b",
                            "./a",
                            "a//b",
                            "a\\b",
                            "a\nb",
                            "\x1b[31m",
                            "\xc2\x9b"
                            "31m",
                            "\xe2\x80\xae"
                            "b",
                            "\xef\xbf\xbf"})
    out.emplace_back(other);
  out.emplace_back(text.substr(0, text.size() / 2));
  out.emplace_back(text + "x");
  out.emplace_back(text + "," + text);
  out.emplace_back(text + std::string("\0b", 2));
  out.emplace_back(std::string(5000, 'a'));
  std::string upper = text;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  out.emplace_back(upper);
  return out;
}

inline std::vector<JsonNode> ArrayVariants(const JsonNode& node) {
  if (node.empty()) return {};
  std::vector<JsonNode> out = {node[0], node, node, node, JsonNode::array()};
  out[1].push_back(node.back());
  out[2].erase(out[2].size() - 1);
  std::reverse(out[3].begin(), out[3].end());
  for (size_t i = 0; i < 1000; ++i) out[4].push_back(node[0]);
  return out;
}

// The members as they are, which is how a name can stand there twice.
inline JsonNode ObjectOf(std::vector<std::pair<std::string, JsonNode>> members) {
  JsonNode out = JsonNode::object();
  auto& object = out.get_ref<JsonNode::object_t&>();
  for (auto& [name, value] : members) object.push_back({std::move(name), std::move(value)});
  return out;
}

inline std::string WithOtherLetter(std::string name) {
  if (name.empty()) return "a";
  name[0] = static_cast<char>(name[0] ^ 1);  // "experts" becomes "dxperts"
  return name;
}

inline std::vector<JsonNode> ObjectVariants(const JsonNode& node) {
  constexpr size_t kMostMembers = 40;
  std::vector<std::pair<std::string, JsonNode>> members;
  for (const auto& [name, value] : node.items()) members.emplace_back(name, value);
  std::vector<JsonNode> out;
  const auto add = [&](const auto& change) {
    auto changed = members;
    change(changed);
    out.push_back(ObjectOf(std::move(changed)));
  };
  add([](auto& all) { all.emplace_back("unknown", 1); });
  add([](auto& all) { std::reverse(all.begin(), all.end()); });
  for (size_t i = 0; i < std::min(members.size(), kMostMembers); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    add([&](auto& all) { all.erase(all.begin() + at); });
    add([&](auto& all) { all.push_back(all[i]); });
    add([&](auto& all) { all[i].first = WithOtherLetter(all[i].first); });
    add([&](auto& all) { all[i].first += "x"; });
    add([&](auto& all) { all[i].first = ""; });
    add([&](auto& all) { all[i].first = "*"; });
    add([&](auto& all) { all[i].first = "0"; });
    add([&](auto& all) { all[i].first = "4294967296"; });
    add([&](auto& all) { all[i].first = all[(i + 1) % all.size()].first; });
    add([&](auto& all) { all[i].second = all[(i + 1) % all.size()].second; });
  }
  return out;
}

// What may stand in the place of `node`.
inline std::vector<JsonNode> Variants(const JsonNode& node) {
  std::vector<JsonNode> out = OtherTypes(node);
  const auto append = [&](std::vector<JsonNode> more) {
    std::move(more.begin(), more.end(), std::back_inserter(out));
  };
  if (node.is_boolean()) out.emplace_back(!node.get<bool>());
  if (node.is_number()) append(NumberVariants(node));
  if (node.is_string()) append(StringVariants(node.get<std::string>()));
  if (node.is_array()) append(ArrayVariants(node));
  if (node.is_object()) append(ObjectVariants(node));
  return out;
}

}  // namespace fuzz
