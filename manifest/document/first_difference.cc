#include "manifest/document/first_difference.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"

namespace moepack::manifest {
namespace {

// Objects keep their order, and looking up a key compares it with all keys before it.
TextMap<std::string_view, const Json*> IndexFields(const Json& object) {
  TextMap<std::string_view, const Json*> index;
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>()) index[key] = &value;
  return index;
}

std::optional<Difference> DifferenceOfObjects(const std::string& thing, const Json& expected,
                                              const Json& found) {
  const std::string prefix = thing.empty() ? "" : Cat(thing, ".");
  const auto theirs = IndexFields(found);
  for (const auto& [key, value] : expected.get_ref<const Json::object_t&>()) {
    const auto other = theirs.find(key);
    if (other == theirs.end()) return Difference{prefix + key, DescribeJson(value), "none"};
    if (auto inner = FirstDifference(prefix + key, value, *other->second)) return inner;
  }
  const auto ours = IndexFields(expected);
  for (const auto& [key, value] : found.get_ref<const Json::object_t&>()) {
    if (!ours.contains(key)) return Difference{prefix + key, "none", DescribeJson(value)};
  }
  return std::nullopt;
}

std::optional<Difference> DifferenceOfArrays(const std::string& thing, const Json& expected,
                                             const Json& found) {
  for (size_t i = 0; i < expected.size() && i < found.size(); ++i) {
    if (auto inner = FirstDifference(Cat(thing, "[", i, "]"), expected[i], found[i])) return inner;
  }
  if (expected.size() == found.size()) return std::nullopt;
  return Difference{Cat(thing, ": entries"), Cat(expected.size()), Cat(found.size())};
}

}  // namespace

std::optional<Difference> FirstDifference(const std::string& thing, const Json& expected,
                                          const Json& found) {
  if (expected == found) return std::nullopt;
  if (expected.is_object() && found.is_object()) {
    return DifferenceOfObjects(thing, expected, found);
  }
  if (expected.is_array() && found.is_array()) return DifferenceOfArrays(thing, expected, found);
  return Difference{thing, DescribeJson(expected), DescribeJson(found)};
}

}  // namespace moepack::manifest
