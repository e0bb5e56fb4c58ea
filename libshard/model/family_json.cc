// Reads a family from JSON (docs/families.md, "Family files"). Strict: an unknown key is an error,
// because a misspelt "expert_axis" would cut tensors in the wrong place.
#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "libshard/base/text/json.h"
#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "libshard/model/family.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxFamilyBytes = 16u << 20;
constexpr size_t kMaxRules = 10'000;
constexpr size_t kMaxPatternLength = 1000;
constexpr uint64_t kMaxAxis = 7;
constexpr size_t kMaxNames = 1000;  // every tensor's name is compared with every prefix

constexpr const char* kFamilyFiles = "docs/families.md describes family files";

Error Bad(const std::string& where, const std::string& problem) {
  return {Code::kCorrupt, Cat(where, ": ", problem), kFamilyFiles};
}

Status CheckKeys(const std::string& where, const Json& object,
                 std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      Error error = NotOneOf(where, {known.begin(), known.end()}, key);
      error.code = Code::kCorrupt;
      if (error.hint.empty()) error.hint = kFamilyFiles;
      return error;
    }
  }
  return Ok();
}

// Reads a list of names; an absent list is empty.
Result<std::vector<std::string>> ReadNames(const JsonFields& fields, const char* key) {
  std::vector<std::string> names;
  if (!fields.Has(key)) return names;
  SHARD_TRY(const Json* list, fields.Array(key));
  if (list->size() > kMaxNames) return fields.Wrong(key, "at most 1000 names");
  for (const Json& item : *list) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
      return fields.Wrong(key, "a list of names");
    }
    names.push_back(item.get<std::string>());
  }
  return names;
}

Result<Part> ReadPart(const JsonFields& fields) {
  SHARD_TRY(const std::string name, fields.String("part"));
  for (const Part part : {Part::kTrunk, Part::kRouter, Part::kShared, Part::kExpert}) {
    if (PartName(part) == name) return part;
  }
  return fields.Wrong("part", "trunk, router, shared or expert");
}

Result<std::optional<int>> ReadAxis(const JsonFields& fields, const Json& object) {
  if (!fields.Has("expert_axis")) return std::optional<int>();
  const Json& value = object.at("expert_axis");
  const bool last = value.is_number_integer() && !value.is_number_unsigned() && value == -1;
  const bool fits = value.is_number_unsigned() && value.get<uint64_t>() <= kMaxAxis;
  if (!last && !fits) {
    return fields.Wrong("expert_axis", "a dimension from 0, or -1 for the last one");
  }
  return std::optional(value.get<int>());
}

Result<TensorRule> ReadRule(const std::string& where, const Json& object) {
  if (!object.is_object()) return Bad(where, Cat("expected a row, found ", DescribeJson(object)));
  SHARD_CHECK(CheckKeys(where, object,
                        {"pattern", "part", "role", "expert_axis", "folded", "holds_expert_ids"}));
  const JsonFields fields(object, where);
  TensorRule rule;
  SHARD_TRY(rule.pattern, fields.String("pattern"));
  if (rule.pattern.size() > kMaxPatternLength) {
    return fields.Wrong("pattern", "at most 1000 characters");
  }
  SHARD_TRY(rule.part, ReadPart(fields));
  SHARD_TRY(rule.role, fields.String("role"));
  SHARD_TRY(rule.expert_axis, ReadAxis(fields, object));
  SHARD_TRY(rule.folded, fields.BoolOr("folded", false));
  SHARD_TRY(rule.holds_expert_ids, fields.BoolOr("holds_expert_ids", false));
  if (const std::string problem = RuleProblem(rule); !problem.empty()) {
    return Bad(where, Cat("pattern ", Quoted(rule.pattern), ": ", problem));
  }
  return rule;
}

Result<Routing> ReadRouting(const std::string& where, const JsonFields& fields) {
  Routing routing;
  if (!fields.Has("routing")) return routing;
  SHARD_TRY(const Json* object, fields.Object("routing"));
  const std::string inside = where + ": routing";
  SHARD_CHECK(CheckKeys(inside, *object, {"gating", "normalize"}));
  const JsonFields values(*object, inside);
  SHARD_TRY(const std::string name,
            values.StringOr("gating", std::string(GatingName(routing.gating))));
  SHARD_TRY(routing.normalize, values.BoolOr("normalize", routing.normalize));
  const std::optional<Gating> gating = FindGating(name);
  if (!gating) return values.Wrong("gating", GatingNames().c_str());
  routing.gating = *gating;
  // All sigmoid routers that we know have a selection bias if the rules name a tensor for one.
  if (routing.gating == Gating::kSigmoid) routing.bias = RouterBias::kSelection;
  return routing;
}

}  // namespace

Result<Family> ReadFamilyFile(const std::string& path) {
  SHARD_TRY(const Json document, ReadJsonFile(path, kMaxFamilyBytes));
  if (!document.is_object()) {
    return Bad(path, Cat("expected an object, found ", DescribeJson(document)));
  }
  SHARD_CHECK(CheckKeys(path, document,
                        {"name", "architectures", "model_types", "prefixes", "routing", "rules"}));
  const JsonFields fields(document, path);
  Family family;
  SHARD_TRY(family.name, fields.String("name"));
  SHARD_TRY(family.architectures, ReadNames(fields, "architectures"));
  SHARD_TRY(family.model_types, ReadNames(fields, "model_types"));
  SHARD_TRY(family.prefixes, ReadNames(fields, "prefixes"));
  for (const std::string& prefix : family.prefixes) {
    if (prefix.find('#') != std::string::npos) {
      return fields.Wrong("prefixes", "names without '#', which stands for a number");
    }
  }
  SHARD_TRY(family.routing, ReadRouting(path, fields));
  SHARD_TRY(const Json* rules, fields.Array("rules"));
  if (rules->size() > kMaxRules) return fields.Wrong("rules", "at most 10000 rows");
  bool experts = false;
  for (size_t i = 0; i < rules->size(); ++i) {
    SHARD_TRY(TensorRule rule, ReadRule(Cat(path, ": rules[", i, "]"), (*rules)[i]));
    experts = experts || rule.part == Part::kExpert;
    family.rules.push_back(std::move(rule));
  }
  if (!experts) return Bad(path, "rules: expected a row of part expert, found none");
  return family;
}

}  // namespace moepack
