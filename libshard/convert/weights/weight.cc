#include "libshard/convert/weights/weight.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/convert/weights/weight_fp4.h"
#include "libshard/convert/weights/weight_fp8.h"
#include "libshard/convert/weights/weight_gptq.h"
#include "libshard/convert/weights/weight_int4.h"
#include "libshard/model/family.h"

namespace moepack {
namespace {

// Tensors that hold the codes, in the order in which they determine what a weight is.
constexpr std::string_view kMainLeaves[] = {"blocks", "weight_packed", "qweight", "weight", ""};
// Companions of formats that are not supported here.
struct OtherFormat {
  std::string_view leaf;
  std::string_view format;
};
constexpr OtherFormat kOtherFormats[] = {{"biases", "MLX's quantization"},
                                         {"pre_quant_scale", "NVIDIA ModelOpt's AWQ"},
                                         {"qscales", "another quantization"},
                                         {"quant_weight", "PaddlePaddle's quantization"}};
// The leaves that only packed integers have.
constexpr std::string_view kIntegerLeaves[] = {
    "weight_shape", "weight_zero_point", "weight_g_idx", "scales", "qzeros", "g_idx"};

std::string AnyOf(Leaves leaves) {
  std::vector<std::string> names(leaves.begin(), leaves.end());
  return Join(names, " or ");
}

bool IsOneOf(std::string_view name, Leaves leaves) {
  return std::find(leaves.begin(), leaves.end(), name) != leaves.end();
}

Error NoMain(const WeightSource& source, const StoredWeight& stored, const TensorEntry& companion) {
  return {Code::kCorrupt,
          Cat(source.Where(companion), ": expected the codes of ", Quoted(stored.name()),
              ", to which it belongs, found none"),
          "a shard may be missing, or the index does not list the tensor"};
}

Error OtherNumbers(const WeightSource& source, const TensorEntry& entry, const std::string& found) {
  const std::string& method = source.config.method;
  return {Code::kUnsupported,
          Cat(source.Where(entry),
              ": expected numbers in F32, F16, BF16, F8_E4M3, packed integers, "
              "MXFP4 or NVFP4, found ",
              found, method.empty() ? "" : Cat(" (", Quoted(method), ")")),
          "safetensors output (--format safetensors) keeps weights in any format as they are"};
}

// Refuses scales that the formats here do not have.
Status CheckCompanions(const WeightSource& source, const StoredWeight& stored) {
  for (const auto& [leaf, format] : kOtherFormats) {
    const TensorEntry* const entry = stored.Find(leaf);
    if (entry != nullptr) return OtherNumbers(source, *entry, Cat(Quoted(leaf), " of ", format));
  }
  return Ok();
}

Result<Weight> PlainWeight(const WeightSource& source, const TensorEntry& entry) {
  const std::string_view name = entry.format == nullptr ? "" : entry.format->name;
  const bool unscaled = name == "f8_e4m3" && source.config.method.empty();
  if (name != "f32" && name != "f16" && name != "bf16" && !unscaled) {
    return OtherNumbers(source, entry, entry.dtype);
  }
  if (entry.bytes == 0 || entry.shape.empty()) {
    return Error{Code::kCorrupt, Cat(source.Where(entry), ": expected values, found shape ",
                                     FormatShape(entry.shape))};
  }
  if (!unscaled) return Weight{entry.shape, entry.format, &entry, nullptr};
  const uint64_t width = entry.shape.back();
  return Weight{entry.shape, quant::FindFormat("bf16"), nullptr,
                PlainRows(entry.format, entry.file, entry.offset, entry.Elements() / width, width)};
}

Result<Weight> ReadNumbers(const WeightSource& source, const StoredWeight& stored) {
  SHARD_CHECK(CheckCompanions(source, stored));
  if (stored.Find("blocks") != nullptr) return ReadMxfp4Weight(source, stored);
  if (stored.Find(kNvfp4TensorLeaves) != nullptr) return ReadNvfp4Weight(source, stored);
  if (IsMxfp4Rows(source, stored)) return ReadMxfp4Rows(source, stored);
  if (stored.Find("weight_packed") != nullptr) return ReadPackedWeight(source, stored);
  if (stored.Find("qweight") != nullptr) return ReadGptqWeight(source, stored);
  const TensorEntry* main = stored.main();
  if (main == nullptr) return NoMain(source, stored, stored.any());
  if (stored.Find(kScaleLeaves) != nullptr) return ReadScaledWeight(source, stored);
  if (main->dtype == "F8_E4M3" && !source.config.method.empty()) {
    return ReadScaledWeight(source, stored);
  }
  const TensorEntry* stray = stored.Find(kIntegerLeaves);
  if (stray != nullptr) return NoMain(source, stored, *stray);
  return PlainWeight(source, *main);
}

Error TwoForms(const WeightSource& source, const StoredWeight& stored) {
  return {Code::kUnsupported,
          Cat(source.Where(*stored.main()), ": expected tensors that one of the forms in ",
              Quoted(source.config.method), "'s config fits, found two that do"),
          "safetensors output (--format safetensors) keeps weights in any format as they are"};
}

// Reads the weight in the form that its tensors fit; the error is that of the first form.
Result<Weight> ReadFitting(const WeightSource& source, const StoredWeight& stored) {
  Result<Weight> read = ReadNumbers(source, stored);
  for (const WeightForm& form : source.config.others) {
    if (read && read->plain != nullptr) break;
    Result<Weight> other = ReadNumbers({source.checkpoint, source.config, &form}, stored);
    if (!other) continue;
    if (!read) {
      read = std::move(other);
    } else if (read->reader->Describe() != other->reader->Describe()) {
      return TwoForms(source, stored);
    }
  }
  return read;
}

}  // namespace

bool StoredWeight::Add(std::string_view leaf, const TensorEntry& entry) {
  if (!AffectsNumbers(leaf)) return true;
  if (Find(leaf) != nullptr) return false;
  parts_.push_back({leaf, &entry});
  return true;
}

const TensorEntry* StoredWeight::Find(Leaves leaves) const {
  for (const std::string_view leaf : leaves) {
    for (const Part& part : parts_) {
      if (part.leaf == leaf) return part.entry;
    }
  }
  return nullptr;
}

const TensorEntry* StoredWeight::main() const { return Find(kMainLeaves); }

std::string WeightSource::Where(const TensorEntry& entry) const {
  return Cat(checkpoint.files()[entry.file].path.string(), ": tensor ", Quoted(entry.name));
}

Result<Weight> ReadWeight(const WeightSource& source, const StoredWeight& stored) {
  SHARD_TRY(Weight weight, ReadFitting(source, stored));
  weight.main = stored.main();
  return weight;
}

Result<const TensorEntry*> RequirePart(const WeightSource& source, const StoredWeight& stored,
                                       Leaves leaves) {
  if (const TensorEntry* entry = stored.Find(leaves)) return entry;
  const TensorEntry* main = stored.main();
  return Error{Code::kCorrupt,
               Cat(source.Where(main == nullptr ? stored.any() : *main), ": expected ",
                   AnyOf(leaves), " beside it, found none"),
               "a shard may be missing, or the index does not list the tensor"};
}

Status CheckPartShape(const WeightSource& source, const TensorEntry& entry,
                      const std::vector<uint64_t>& expected) {
  if (entry.shape == expected) return Ok();
  return Error{Code::kCorrupt, Cat(source.Where(entry), ": shape: expected ", FormatShape(expected),
                                   ", found ", FormatShape(entry.shape))};
}

Status CheckPartType(const WeightSource& source, const TensorEntry& entry,
                     std::initializer_list<std::string_view> types) {
  const Leaves expected(types.begin(), types.size());
  if (IsOneOf(entry.dtype, expected)) return Ok();
  return Error{Code::kCorrupt, Cat(source.Where(entry), ": type: expected ", AnyOf(expected),
                                   ", found ", Quoted(entry.dtype))};
}

}  // namespace moepack
