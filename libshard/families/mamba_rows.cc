#include "libshard/families/mamba_rows.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

// The runtime does not clamp the time step.
Status CheckTimeStep(const HfConfig& config) {
  const std::optional<HfConfig::Field> limit = config.Find({"time_step_limit"});
  const auto infinite = [](const Json& number) {
    return number.is_null() || number == "Infinity" ||
           (number.is_number() && number.get<double>() > 1e30);
  };
  const bool none = !limit || (limit->value->is_array() && limit->value->size() == 2 &&
                               (*limit->value)[0] == 0 && infinite((*limit->value)[1]));
  if (none) return Ok();
  return Error{Code::kUnsupported,
               Cat(config.where(), ": ", limit->path, ": expected no limit, since the runtime ",
                   "does not clamp time steps, found ", DescribeJson(*limit->value)),
               kNoGgufHint};
}

}  // namespace

Status AddMambaKeys(const HfConfig& config, ArchKeys& keys) {
  SHARD_CHECK(CheckWord(config, {"mamba_hidden_act"}, {"silu"}));
  SHARD_CHECK(CheckTimeStep(config));
  SHARD_TRY(const uint32_t kernel, config.U32(fields::kMambaKernel));
  SHARD_TRY(const uint32_t size, config.U32(fields::kMambaState));
  SHARD_TRY(const uint32_t groups, config.U32(fields::kMambaGroups));
  SHARD_TRY(const uint32_t heads, config.U32(fields::kMambaHeads));
  SHARD_TRY(const uint32_t width, config.U32(fields::kMambaHeadSize));
  uint32_t inner = 0;
  if (__builtin_mul_overflow(heads, width, &inner))
    return config.Wrong(*config.Find(fields::kMambaHeadSize), "a size of a head");
  if (heads == 0 || groups == 0 || heads % groups != 0) {
    return config.Wrong(*config.Find(fields::kMambaHeads), Cat("a multiple of n_groups, ", groups));
  }
  keys.U32("ssm.conv_kernel", kernel);
  keys.U32("ssm.state_size", size);
  keys.U32("ssm.group_count", groups);
  keys.U32("ssm.inner_size", inner);
  keys.U32("ssm.time_step_rank", heads);
  return Ok();
}

void AddMambaRows(HfFamily& family, const std::string& from) {
  const std::string to = "blk.{L}.ssm_";
  AddOptionalRow(family, from + "in_proj.weight", to + "in.weight");
  AddOptionalRow(family, from + "out_proj.weight", to + "out.weight");
  AddOptionalRow(family, from + "conv1d.bias", to + "conv1d.bias");
  AddOptionalRow(family, from + "dt_bias", to + "dt.bias");
  const auto changed = [&](const char* source, const char* target, ValueRule rule) {
    family.rows.push_back({from + source, to + target, RowOrder::kAsIs, /*optional=*/true, rule});
  };
  changed("conv1d.weight", "conv1d.weight", ValueRule::kSqueeze);
  changed("A_log", "a", ValueRule::kMinusExpColumn);
  changed("D", "d", ValueRule::kColumn);
  changed("norm.weight", "norm.weight", ValueRule::kByGroup);
}

Status ReadMambaGroups(const HfConfig& config, HeadShape& shape) {
  SHARD_TRY(shape.norm_groups, config.U32(fields::kMambaGroups));
  return Ok();
}

void ReadMamba(SpecKeys& keys, ModelSpec& spec) {
  MambaShape& shape = spec.mamba;
  shape.kernel = keys.Required("ssm.conv_kernel");
  shape.size = keys.Required("ssm.state_size");
  shape.groups = keys.Required("ssm.group_count");
  shape.heads = keys.Required("ssm.time_step_rank");
  const uint32_t inner = keys.Required("ssm.inner_size");
  if (!keys.status()) return;
  if (shape.heads % shape.groups != 0) {
    keys.Refuse("ssm.time_step_rank", Cat("a multiple of ", shape.groups), Cat(shape.heads));
    return;
  }
  if (inner % shape.heads != 0) {
    keys.Refuse("ssm.inner_size", Cat("a multiple of ", shape.heads), Cat(inner));
    return;
  }
  shape.width = inner / shape.heads;
  // The numbers so far fit in 25 bits (SpecKeys), and products of two in 64.
  const uint64_t projected = 2 * (uint64_t{inner} + uint64_t{shape.groups} * shape.size);
  if (projected + shape.heads > UINT32_MAX)
    keys.Refuse("ssm.state_size", "a size that fits", Cat(shape.size));
}

}  // namespace moepack
