// Replacements for one node of a JSON document: other numbers, texts and types, and members that
// are removed, renamed or duplicated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/json_scalars.h"

namespace fuzz {

inline std::vector<JsonNode> ArrayVariants(const JsonNode& node) {
  if (node.empty()) return {};
  std::vector<JsonNode> out = {node[0], node, node, node, JsonNode::array()};
  out[1].push_back(node.back());
  out[2].erase(out[2].size() - 1);
  std::reverse(out[3].begin(), out[3].end());
  for (size_t i = 0; i < 100; ++i) out[4].push_back(node[0]);
  return out;
}

// The members as a list, so that a name can occur twice.
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

// The replacements for `node`.
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
