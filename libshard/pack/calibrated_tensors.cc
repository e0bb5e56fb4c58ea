#include "libshard/pack/calibrated_tensors.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// A layer's file as a source.
Result<SourceFile> CheckedFile(const CalibratedStore& store, uint32_t layer) {
  SHARD_CHECK(store.Check(layer));
  SourceFile file;
  file.name = CalibratedFileName(layer);
  file.tree = std::make_shared<const LocalTree>(store.directory());
  SHARD_TRY(const ByteSourcePtr source, file.tree->Open(file.name));
  file.path = source->name();
  file.size = source->size();
  file.header_sha256 = store.record().layers[layer].sha256;
  file.identity = source->identity();
  return file;
}

// The order of the tensor's first range.
uint64_t FirstOrderOf(const GgufTensor& tensor) {
  const uint64_t first = !tensor.rows.empty()      ? tensor.rows[0].order
                         : !tensor.sources.empty() ? tensor.sources[0].order
                                                   : 0;
  return first & ~(OrderOf(1, 0) - 1);
}

}  // namespace

Result<CalibratedTensors> CalibratedTensors::Of(const CalibratedStore& store,
                                                const std::string& model, uint32_t first_file) {
  CalibratedTensors out;
  out.record_ = store.record();
  out.where_ = (store.directory() / kCalibratedFile).string();
  out.first_file_ = first_file;
  const std::vector<CalibratedOutcome>& layers = out.record_.layers;
  if (out.record_.model != model)
    return Error{Code::kMismatch,
                 Cat(Shown(out.where_), ": model: expected ", model, " (the source given), found ",
                     out.record_.model),
                 "the tensors were encoded for another model"};
  if (!out.record_.finished())
    return Error{Code::kCorrupt,
                 Cat(Shown(out.where_), ": layers: expected ", out.record_.layer_count + 1,
                     " with the output, found ", layers.size()),
                 "the calibration was stopped: run the same command again to resume it"};
  std::vector<uint32_t> numbers;
  out.numbers_.resize(layers.size());
  for (uint32_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer].tensors.empty()) continue;
    out.numbers_[layer] = static_cast<uint32_t>(numbers.size());
    numbers.push_back(layer);
  }
  out.files_.resize(numbers.size());
  SHARD_CHECK(ParallelFor(numbers.size(), ThreadsForFiles(0), [&](size_t i) -> Status {
    SHARD_TRY(out.files_[i], CheckedFile(store, numbers[i]));
    return Ok();
  }));
  return out;
}

CalibratedTensors CalibratedTensors::Stated(CalibratedRecord record) {
  CalibratedTensors out;
  out.record_ = std::move(record);
  out.where_ = kCalibratedFile;
  out.stated_ = true;
  return out;
}

Result<std::optional<GgufTensor>> CalibratedTensors::Choose(const GgufTensor& tensor,
                                                            const quant::Format* type) const {
  const CalibratedRecord::Place place = record_.Find(tensor.name);
  if (place.tensor == nullptr || type != tensor.type) return std::optional<GgufTensor>();
  const std::string where = Cat(Shown(where_), ": tensor ", Quoted(tensor.name));
  if (type != place.tensor->type)
    return Error{mismatch(),
                 Cat(where, ": expected ", type->name, ", found ", place.tensor->type->name),
                 "the tensors were encoded for other types"};
  if (tensor.bytes() != place.tensor->bytes)
    return Error{mismatch(),
                 Cat(where, ": expected ", tensor.bytes(), " bytes, found ", place.tensor->bytes)};
  if (stated_) return std::optional<GgufTensor>();
  GgufTensor out = tensor;
  out.stored = type;
  out.sources.clear();
  out.rows.clear();
  out.reader = nullptr;
  out.literal.clear();
  out.importance = nullptr;
  const uint32_t parts = std::max<uint32_t>(tensor.expert_count, 1);
  const uint64_t each = place.tensor->bytes / parts;
  const uint32_t file = first_file_ + numbers_[place.layer->layer];
  for (uint32_t part = 0; part < parts; ++part)
    out.sources.push_back(
        {file, place.tensor->offset + part * each, each, FirstOrderOf(tensor) | part});
  return std::optional(std::move(out));
}

Status CalibratedTensors::CheckAllIn(const GgufModel& model) const {
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : model.tensors) names.insert(tensor.name);
  for (const CalibratedOutcome& layer : record_.layers) {
    for (const CalibratedTensor& tensor : layer.tensors) {
      if (names.contains(tensor.name)) continue;
      return Error{mismatch(), Cat(Shown(where_), ": tensor ", Quoted(tensor.name),
                                   ": expected one of the model, found another")};
    }
  }
  return Ok();
}

}  // namespace moepack
