// Finds the family of a checkpoint, by what its config says about itself or by its tensor names
// alone.
#include "libshard/model/family_find.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "libshard/base/text/json.h"
#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "libshard/model/config.h"
#include "libshard/model/family.h"
#include "libshard/model/family_match.h"

namespace moepack {
namespace {

// This many names are enough to tell which family comes closest. A hostile file may have a million.
constexpr size_t kEnoughNames = 10'000;

constexpr const char* kFamilyHint =
    "describe its tensor names in a family file (docs/families.md) and pass it with --family FILE";

// Says why there is nothing to split in models without routed experts. The first row whose word is
// in the architecture or model type applies.
struct DenseKind {
  const char* word;
  const char* sentence;
};
// Longer words stand before the words that they contain.
constexpr DenseKind kDenseKinds[] = {
    {"rwkv", "RWKV is a recurrent model that passes every token through all of its weights"},
    {"mamba", "Mamba is a state-space model that passes every token through all of its weights"},
    {"gemma", "this Gemma is a dense model (its config gives no number of experts)"},
    {"qwen3_5",
     "Qwen3.5 without experts is a dense model, linear attention and MTP block included"},
    {"qwen", "this Qwen is a dense model (the MoE variants are called ...Moe...)"},
    {"mistral", "Mistral is a dense model (the MoE variants are Mixtral and Mistral 4)"},
    {"llama", "Llama before version 4 is a dense model"},
};

// The names of a config for its model: "MistralForCausalLM", "mistral".
std::vector<std::string> NamesOf(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const std::string& name :
       {config.architecture, config.text_architecture, config.model_type, config.text_model_type}) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

std::string DescribeModel(const ModelConfig& config) {
  const std::vector<std::string> names = NamesOf(config);
  return names.empty() ? "a model without architecture and model_type" : Quoted(names.front());
}

Error NothingToSplit(const std::string& where, const ModelConfig& config) {
  std::string reason = "its config names no routed experts, so it is taken for a dense model";
  const std::string names = Lower(Join(NamesOf(config), " "));
  for (const DenseKind& kind : kDenseKinds) {
    if (names.find(kind.word) == std::string::npos) continue;
    reason = kind.sentence;
    break;
  }
  return {Code::kUnsupported,
          Cat(where, ": ", DescribeModel(config), " has nothing to split: ", reason)};
}

// What most names of architectures end in, which would make any two of them look alike.
constexpr std::string_view kModelEnds[] = {"ForConditionalGeneration", "ForCausalLM"};

std::string_view WithoutEnd(std::string_view name) {
  for (const std::string_view end : kModelEnds) {
    if (name.size() > end.size() && name.ends_with(end))
      return name.substr(0, name.size() - end.size());
  }
  return name;
}

// Returns "; the closest known name is ..." for a name that is nearly one of a family's; "" if
// there is none.
std::string ClosestFamily(const ModelConfig& config) {
  std::vector<std::string> known;
  std::vector<std::pair<std::string_view, const Family*>> named;
  for (const Family& family : AllFamilies()) {
    for (const auto* names : {&family.architectures, &family.model_types}) {
      for (const std::string& name : *names) {
        known.emplace_back(WithoutEnd(name));
        named.emplace_back(name, &family);
      }
    }
  }
  for (const std::string& name : NamesOf(config)) {
    const std::string closest = ClosestWord(WithoutEnd(name), known);
    const auto at = std::find(known.begin(), known.end(), closest);
    if (closest.empty() || at == known.end()) continue;
    const auto& [full, family] = named[static_cast<size_t>(at - known.begin())];
    return Cat("; the closest known name is ", Quoted(full), " of family ", family->name);
  }
  return "";
}

const Family* FindBy(std::span<const std::string_view> FamilyNames::*names,
                     const std::string& name) {
  if (name.empty()) return nullptr;
  const FamilyList all = AllFamilies();
  for (size_t index = 0; index < all.size(); ++index) {
    const std::span<const std::string_view> known = all.names(index).*names;
    if (std::find(known.begin(), known.end(), name) != known.end()) return &all[index];
  }
  return nullptr;
}

struct NameMatch {
  size_t matched = 0;
  size_t experts = 0;
  std::string_view unknown;  // the first name that no row matches
};

NameMatch MatchNames(const Family& family, std::span<const std::string_view> names,
                     bool stop_at_unknown) {
  FamilyMatcher matcher(family, 0);
  NameMatch result;
  for (const std::string_view name : names) {
    const TensorClass found = matcher.Classify(name);
    if (found.rule != nullptr) {
      ++result.matched;
      result.experts += found.rule->part == Part::kExpert;
      continue;
    }
    if (result.unknown.empty()) result.unknown = name;
    if (stop_at_unknown) break;
  }
  return result;
}

// Makes the error for names that no family knows; it says which family comes closest and what it
// lacks.
Error UnknownNames(const std::string& where, std::span<const std::string_view> names) {
  const Family* closest = nullptr;
  NameMatch best;
  names = names.first(std::min(names.size(), kEnoughNames));
  for (const Family& family : AllFamilies()) {
    const NameMatch match = MatchNames(family, names, false);
    // Of equally close families the first of the list is named, so that the message does not
    // change.
    if (closest != nullptr && match.matched <= best.matched) continue;
    closest = &family;
    best = match;
  }
  if (best.matched == names.size()) {
    return {Code::kUnsupported,
            Cat(where,
                ": nothing to split: no tensor belongs to a routed expert, so this is a "
                "dense model")};
  }
  return {Code::kUnsupported,
          Cat(where, ": expected the tensor names of a known family, found ", Quoted(best.unknown),
              WhoseName(best.unknown), ", which even the closest, ", closest->name, ", has not"),
          kFamilyHint};
}

}  // namespace

Result<const Family*> FindFamily(const std::string& where, const ModelConfig& config) {
  if (config.expert_count == 0) return NothingToSplit(where, config);
  // The whole model comes first, because a wrapper such as DeepSeek-OCR has tensors that its text
  // model lacks. A wrapper that several text models share is in no family's list.
  for (const std::string& name : {config.architecture, config.text_architecture}) {
    if (const Family* family = FindBy(&FamilyNames::architectures, name)) return family;
  }
  for (const std::string& name : {config.model_type, config.text_model_type}) {
    if (const Family* family = FindBy(&FamilyNames::model_types, name)) return family;
  }
  return Error{Code::kUnsupported,
               Cat(where, ": expected an architecture of a known family, found ",
                   DescribeModel(config), " with ", Plural(config.expert_count, "expert"), " (",
                   config.expert_count_key, ")", ClosestFamily(config)),
               kFamilyHint};
}

Result<const Family*> FindFamilyByNames(const std::string& where,
                                        const std::vector<std::string_view>& names) {
  for (const Family& family : AllFamilies()) {
    const NameMatch match = MatchNames(family, names, true);
    if (match.matched == names.size() && match.experts > 0) return &family;
  }
  return UnknownNames(where, names);
}

// Reads a family from JSON (docs/families.md, "Family files"). Strict: an unknown key is an error,
// because a misspelt "expert_axis" would cut tensors in the wrong place.

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
