#include "libshard/convert/rope.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

constexpr size_t kSections = 4;  // the runtime reads exactly this many
constexpr uint32_t kMaxHeadSize = 1u << 16;

Result<std::string> RopeType(const HfConfig& rope) {
  SHARD_TRY(const std::optional<std::string> type, rope.FindString(fields::kRopeType));
  return type.value_or("default");
}

// "su" is the older name of longrope.
bool IsLongRope(const std::string& type) { return type == "longrope" || type == "su"; }

Status AddSections(const HfConfig& rope, ArchKeys& keys) {
  SHARD_TRY(const std::vector<uint32_t> sections, rope.FindU32s(fields::kSections));
  if (sections.empty()) return Ok();
  if (sections.size() > kSections) {
    return rope.Wrong(*rope.Find(fields::kSections), Cat("at most ", kSections, " sections"));
  }
  std::array<int32_t, kSections> padded = {};
  for (size_t i = 0; i < sections.size(); ++i) padded[i] = static_cast<int32_t>(sections[i]);
  keys.I32s("rope.dimension_sections", padded);
  return Ok();
}

// The values that the runtime always uses, whatever the file says.
constexpr float kBetaFast = 32, kBetaSlow = 1;

Status WarnOfBetas(const HfConfig& rope, std::vector<std::string>& warnings) {
  SHARD_TRY(const std::optional<float> fast, rope.FindF32({"beta_fast"}));
  SHARD_TRY(const std::optional<float> slow, rope.FindF32({"beta_slow"}));
  const float found_fast = fast.value_or(kBetaFast), found_slow = slow.value_or(kBetaSlow);
  if (found_fast == kBetaFast && found_slow == kBetaSlow) return Ok();
  warnings.push_back(Cat(rope.where(), ": beta_fast and beta_slow: expected 32 and 1, which the ",
                         "runtime always uses, found ", found_fast, " and ", found_slow,
                         "; its positions will differ a little"));
  return Ok();
}

// The runtime expects the value times 0.1, and divides by 0.1 again.
Status AddLogMultiplier(const HfConfig& rope, ArchKeys& keys) {
  SHARD_TRY(const std::optional<float> all, rope.FindF32(fields::kMultiplierAll));
  if (!all) return Ok();
  const double exact = rope.Find(fields::kMultiplierAll)->value->get<double>();
  keys.F32("rope.scaling.yarn_log_multiplier", static_cast<float>(0.1 * exact));
  return Ok();
}

Status AddYarn(const HfConfig& rope, ArchKeys& keys, std::vector<std::string>& warnings) {
  SHARD_CHECK(WarnOfBetas(rope, warnings));
  SHARD_TRY(const float factor, rope.F32({"factor"}));
  SHARD_TRY(const uint32_t original, rope.U32(fields::kOriginalContext));
  keys.String("rope.scaling.type", "yarn");
  keys.F32("rope.scaling.factor", factor);
  keys.U32("rope.scaling.original_context_length", original);
  // llama.cpp's converter writes these keys, too. The loaders of our families always use 32 and 1.
  struct Row {
    const char* key;
    ConfigKeys fields;
  };
  const Row rows[] = {{"rope.scaling.yarn_ext_factor", {"extrapolation_factor"}},
                      {"rope.scaling.yarn_attn_factor", fields::kYarnFactor},
                      {"rope.scaling.yarn_beta_fast", {"beta_fast"}},
                      {"rope.scaling.yarn_beta_slow", {"beta_slow"}}};
  for (const Row& row : rows) {
    SHARD_TRY(const std::optional<float> value, rope.FindF32(row.fields));
    if (value) keys.F32(row.key, *value);
  }
  return Ok();
}

Error NeedsTensor(const HfConfig& rope, const std::string& type) {
  return {Code::kUnsupported,
          Cat(rope.where(), ": rope_type: expected default, linear or yarn, ", "found ",
              Quoted(type), ", which this architecture's runtime ", "would ignore")};
}

Status AddScaling(const HfConfig& rope, const RopeSupport& support, ArchKeys& keys,
                  std::vector<std::string>& warnings) {
  SHARD_TRY(const std::string type, RopeType(rope));
  const bool factors =
      (type == "llama3" && support.llama3) || (IsLongRope(type) && support.longrope);
  if (type == "default" || factors || (type == "dynamic" && support.own_dynamic)) return Ok();
  if (type == "llama3" || IsLongRope(type)) return NeedsTensor(rope, type);
  if (type == "yarn") return AddYarn(rope, keys, warnings);
  if (type == "linear") {
    SHARD_TRY(const float factor, rope.F32({"factor"}));
    keys.String("rope.scaling.type", "linear");
    keys.F32("rope.scaling.factor", factor);
    return Ok();
  }
  warnings.push_back(Cat(rope.where(), ": rope_type ", Quoted(type),
                         " has no form in GGUF; texts beyond the trained length will differ"));
  return Ok();
}

struct Llama3Scaling {
  float factor = 8, low = 1, high = 4, original = 8192;  // defaults of llama.cpp's converter
};

Result<Llama3Scaling> ReadLlama3(const HfConfig& rope) {
  Llama3Scaling scaling;
  const auto read = [&](const char* key, float& out) -> Status {
    SHARD_TRY(const std::optional<float> value, rope.FindF32({key}));
    out = value.value_or(out);
    if (out > 0) return Ok();
    return rope.Wrong(*rope.Find({key}), "a number over 0");
  };
  SHARD_CHECK(read("factor", scaling.factor));
  SHARD_CHECK(read("low_freq_factor", scaling.low));
  SHARD_CHECK(read("high_freq_factor", scaling.high));
  SHARD_CHECK(read("original_max_position_embeddings", scaling.original));
  return scaling;
}

// Leaves short wavelengths unchanged, divides the frequency of long ones by `factor`, and blends
// between the two. The formula is that of transformers' _compute_llama3_parameters and of
// llama.cpp's converter.
float FactorOf(const Llama3Scaling& scaling, float frequency) {
  const float wave = static_cast<float>(2 * M_PI) / frequency;
  if (wave < scaling.original / scaling.high) return 1;
  if (wave > scaling.original / scaling.low || scaling.high == scaling.low) return scaling.factor;
  const float smooth = (scaling.original / wave - scaling.low) / (scaling.high - scaling.low);
  return 1 / ((1 - smooth) / scaling.factor + smooth);
}

// The bases of layers with full attention and of those with a window, if a list gives both.
Result<std::vector<float>> Bases(const HfConfig& rope, const RopeSupport& support) {
  std::vector<float> bases;
  const auto field = rope.Find(fields::kRopeBase);
  if (support.window_base && field && field->value->is_array()) {
    SHARD_TRY(bases, rope.FindF32s(fields::kRopeBase));
    if (bases.size() < 2) return rope.Wrong(*field, "a number, or one for each layer");
    bases.resize(2);
  } else {
    SHARD_TRY(const std::optional<float> theta, rope.FindF32(fields::kRopeBase));
    if (theta) bases.push_back(*theta);
  }
  for (const float base : bases) SHARD_CHECK(CheckRopeBase(rope, base));
  return bases;
}

}  // namespace

Status CheckRopeBase(const HfConfig& rope, float base) {
  return base > 1 ? Ok() : Status(rope.Wrong(*rope.Find(fields::kRopeBase), "more than 1"));
}

bool HasRopeKinds(const HfConfig& config) {
  const std::optional<HfConfig::Field> field = config.Find(fields::kRope);
  return field && field->value->is_object() &&
         field->value->contains(LayerKindName(LayerKind::kFull));
}

Result<HfConfig> RopeOfKind(const HfConfig& config, LayerKind layers) {
  const std::string kind(LayerKindName(layers));
  const std::optional<HfConfig::Field> field = config.Find(fields::kRope);
  if (!field) return config.Missing(fields::kRope, "an object for each kind of layer");
  if (!field->value->is_object() || !field->value->contains(kind) ||
      !(*field->value)[kind].is_object()) {
    return config.Wrong(*field, Cat("an object with one for ", kind));
  }
  return HfConfig::Parse(Cat(config.where(), ": ", field->path, ".", kind),
                         (*field->value)[kind].dump());
}

Error OtherRope(const HfConfig& rope, const char* field, const std::string& expected,
                const std::string& found) {
  return {Code::kUnsupported,
          Cat(rope.where(), ": ", field, ": expected ", expected, ", found ", found), kNoGgufHint};
}

namespace {

// Adds the base of layers with a window, which the runtime does not scale.
Status AddWindowBase(const HfConfig& config, ArchKeys& keys) {
  SHARD_TRY(const HfConfig window, RopeOfKind(config, LayerKind::kWindow));
  SHARD_TRY(const std::string type, RopeType(window));
  if (type != "default") return OtherRope(window, "rope_type", "default", type);
  SHARD_TRY(const float base, window.F32(fields::kRopeBase));
  SHARD_CHECK(CheckRopeBase(window, base));
  keys.F32("rope.freq_base_swa", base);
  return Ok();
}

}  // namespace

Status AddRopeKeys(const HfConfig& config, const RopeSupport& support, ArchKeys& keys,
                   std::vector<std::string>& warnings) {
  const bool by_kind = support.by_kind && HasRopeKinds(config);
  SHARD_TRY(const HfConfig rope, by_kind ? RopeOfKind(config, LayerKind::kFull) : config.Rope());
  SHARD_CHECK(AddScaling(rope, support, keys, warnings));
  SHARD_CHECK(AddSections(rope, keys));
  if (support.log_multiplier) SHARD_CHECK(AddLogMultiplier(rope, keys));
  SHARD_TRY(std::vector<float> bases, Bases(rope, support));
  if (bases.empty() && support.default_theta) bases.push_back(*support.default_theta);
  if (!bases.empty()) keys.F32("rope.freq_base", bases[0]);
  if (bases.size() > 1) keys.F32("rope.freq_base_swa", bases[1]);
  return by_kind ? AddWindowBase(config, keys) : Ok();
}

Result<std::vector<float>> RopeFactors(const HfConfig& config, uint32_t head_size,
                                       const RopeSupport& support) {
  std::vector<float> factors;
  SHARD_TRY(const HfConfig rope, config.Rope());
  SHARD_TRY(const std::string type, RopeType(rope));
  if (type != "llama3") return factors;
  if (head_size == 0 || head_size % 2 != 0 || head_size > kMaxHeadSize) {
    return Error{Code::kCorrupt, Cat(config.where(), ": head size: expected an even number up to ",
                                     kMaxHeadSize, ", found ", head_size)};
  }
  SHARD_TRY(const Llama3Scaling scaling, ReadLlama3(rope));
  SHARD_TRY(const std::vector<float> bases, Bases(rope, support));
  const double base = bases.empty() ? 10000.0f : bases[0];
  for (uint32_t i = 0; i < head_size; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_size);
    // std::pow of floats differs between C libraries in the last bit. A double result rounded once
    // is the same on every machine.
    const auto power = static_cast<float>(std::pow(base, double{exponent}));
    factors.push_back(FactorOf(scaling, 1.0f / power));
  }
  return factors;
}

Result<std::vector<RopeTensor>> RopeTensors(const HfConfig& config, const RopeSupport& support,
                                            uint32_t head_size) {
  std::vector<RopeTensor> tensors;
  if (support.by_kind) return tensors;
  if (support.llama3) {
    SHARD_TRY(std::vector<float> factors, RopeFactors(config, head_size, support));
    if (!factors.empty()) tensors.push_back({"rope_freqs.weight", std::move(factors)});
  }
  SHARD_TRY(const HfConfig rope, config.Rope());
  SHARD_TRY(const std::string type, RopeType(rope));
  if (!support.longrope || !IsLongRope(type)) return tensors;
  const ConfigKeys short_factors = {"short_factor"};
  for (const auto& [field, name] : {std::pair(fields::kLongFactors, "rope_factors_long.weight"),
                                    std::pair(short_factors, "rope_factors_short.weight")}) {
    SHARD_TRY(std::vector<float> factors, rope.FindF32s(field));
    if (factors.size() != head_size / 2) {
      return Error{Code::kCorrupt,
                   Cat(rope.where(), ": ", *field.begin(), ": expected ", head_size / 2,
                       " numbers (half a head), found ", factors.size())};
    }
    tensors.push_back({name, std::move(factors)});
  }
  return tensors;
}

}  // namespace moepack
