#include "libshard/pack/model_damage.h"

#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/pack/type_damage.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

// Whether writing the tensor changes its numbers.
bool IsEncoded(const GgufTensor& tensor) {
  if (!MayChange(tensor)) return false;
  if (tensor.reader == nullptr && tensor.type == tensor.stored) return false;
  if (tensor.KeepsGrid(tensor.type)) return false;
  return tensor.type->encode != nullptr && tensor.type->decode != nullptr;
}

}  // namespace

Result<std::vector<ByteSourcePtr>> OpenWeights(const MoeModel& model) {
  const Checkpoint& checkpoint = model.checkpoint();
  if (checkpoint.names_only() || checkpoint.promised())
    return Error{Code::kUnsupported,
                 Cat(checkpoint.source().string(), ": expected weights to measure, found ",
                     checkpoint.promised() ? "a config" : "names", " alone")};
  std::vector<ByteSourcePtr> sources;
  for (const SourceFile& file : checkpoint.files()) {
    SHARD_TRY(ByteSourcePtr source, OpenUnchanged(file));
    sources.push_back(std::move(source));
  }
  return sources;
}

std::span<const float> SliceWeights(const TypedGguf& typed, const GgufTensor& tensor) {
  if (!typed.imatrix || tensor.shape.size() < 3) return {};
  const auto entry = typed.imatrix->entries.find(tensor.name);
  if (entry == typed.imatrix->entries.end() || entry->second.counts.size() != tensor.shape[0])
    return {};
  return entry->second.counts;
}

Result<double> DamageOfTypes(const MoeModel& model, const TypedGguf& typed, uint32_t sample_rows,
                             size_t jobs) {
  SHARD_TRY(const std::vector<ByteSourcePtr> sources, OpenWeights(model));
  const std::vector<GgufTensor>& tensors = typed.model.tensors;
  std::vector<double> damages(tensors.size());
  const auto measure = [&](size_t i) -> Status {
    SHARD_CHECK(CheckInterrupt());
    if (!IsEncoded(tensors[i])) return Ok();
    SHARD_TRY(const std::vector<double> damage,
              MeasureDamage(tensors[i], std::span(&tensors[i].type, 1),
                            {sources, SliceWeights(typed, tensors[i]), sample_rows}));
    damages[i] = damage[0];
    return Ok();
  };
  SHARD_CHECK(ParallelFor(tensors.size(), jobs, measure));
  // In the order of the tensors, so that threads do not change the rounding.
  return std::accumulate(damages.begin(), damages.end(), 0.0);
}

}  // namespace moepack
