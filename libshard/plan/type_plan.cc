#include "libshard/plan/type_plan.h"

#include <nlohmann/json.hpp>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

Result<double> ReadDamage(const JsonFields& fields, const char* key) {
  SHARD_TRY(const double damage, fields.Number(key));
  if (damage < 0) return fields.Wrong(key, "at least 0");
  return damage;
}

}  // namespace

Json TypePlanToJson(const TypePlan& types) {
  return {{"budget", types.budget},
          {"bytes", types.bytes},
          {"damage", types.damage},
          {"damage_bound", types.bound},
          {"tensor_types", types.tensor_types}};
}

Result<TypePlan> TypePlanFromJson(const std::string& where, const Json& value) {
  const JsonFields fields(value, where);
  TypePlan types;
  SHARD_TRY(types.budget, fields.Unsigned("budget"));
  SHARD_TRY(types.bytes, fields.Unsigned("bytes"));
  SHARD_TRY(types.damage, ReadDamage(fields, "damage"));
  SHARD_TRY(types.bound, ReadDamage(fields, "damage_bound"));
  if (types.bytes > types.budget) return fields.Wrong("bytes", "at most the budget");
  if (types.bound > types.damage) return fields.Wrong("damage_bound", "at most the damage");
  SHARD_TRY(const Json* rules, fields.Array("tensor_types"));
  if (rules->size() > kMaxTypeRules)
    return Error{Code::kCorrupt, Cat(where, ": tensor_types: expected at most ", kMaxTypeRules,
                                     " rules, found ", rules->size())};
  for (const Json& rule : *rules) {
    if (!rule.is_string() || rule.get_ref<const std::string&>().empty())
      return Error{Code::kCorrupt,
                   Cat(where, ": tensor_types: expected REGEX=TYPE, found ", DescribeJson(rule))};
    types.tensor_types.push_back(rule.get<std::string>());
  }
  return types;
}

}  // namespace moepack
