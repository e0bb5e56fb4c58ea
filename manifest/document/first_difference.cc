#include "manifest/document/first_difference.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "manifest/document/unknown_fields.h"

namespace moepack::manifest {
namespace {

std::optional<Difference> DifferenceOfObjects(const std::string& thing, const Json& expected,
                                              const Json& found) {
  const std::string prefix = thing.empty() ? "" : Cat(thing, ".");
  const FieldIndex theirs(found);
  for (const auto& [key, value] : expected.get_ref<const Json::object_t&>()) {
    const Json* const other = theirs.Find(key);
    if (other == nullptr) return Difference{prefix + key, DescribeJson(value), "none"};
    if (auto inner = FirstDifference(prefix + key, value, *other)) return inner;
  }
  const FieldIndex ours(expected);
  for (const auto& [key, value] : found.get_ref<const Json::object_t&>()) {
    if (ours.Find(key) == nullptr) return Difference{prefix + key, "none", DescribeJson(value)};
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
