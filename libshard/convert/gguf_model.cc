#include "libshard/convert/gguf_model.h"

#include <cassert>

#include "libshard/base/text/text.h"
#include "libshard/convert/converter.h"
#include "libshard/convert/row_reader.h"

namespace moepack {
namespace {

constexpr std::string_view kSplitKeys = "split.", kAlignmentKey = "general.alignment";

// Removes the keys that describe how the file was split and padded. They do not belong to the
// model.
GgufMetadata WholeMetadata(const GgufMetadata& metadata) {
  GgufMetadata out = metadata;
  for (const GgufEntry& entry : metadata.entries()) {
    if (entry.key.starts_with(kSplitKeys) || entry.key == kAlignmentKey) out.Remove(entry.key);
  }
  return out;
}

Result<GgufTensor> TensorOf(const MoeModel& model, const ModelTensor& tensor, uint64_t index) {
  const TensorEntry& entry = model.entry(tensor);
  const auto place = [&] {
    return Cat(model.checkpoint().files()[entry.file].path.string(), ": tensor ",
               Quoted(entry.name));
  };
  if (entry.format == nullptr) {
    return Error{Code::kUnsupported,
                 Cat(place(), ": type: expected one of ggml's, found ", Quoted(entry.dtype))};
  }
  if (tensor.axis && *tensor.axis > 0) {
    return Error{Code::kUnsupported,
                 Cat(place(), ": expert axis: expected the slowest one, found number ",
                     uint32_t{*tensor.axis})};
  }
  GgufTensor out;
  out.name = out.source_tensor = entry.name;
  out.shape = entry.shape;
  out.stored = out.type = entry.format;
  out.part = tensor.part;
  out.layer = tensor.layer;
  out.expert_count = tensor.axis ? static_cast<uint32_t>(entry.shape[0]) : 0;
  const uint32_t ranges = out.expert_count == 0 ? 1 : out.expert_count;
  for (uint32_t expert = 0; expert < ranges; ++expert) {
    const uint64_t bytes = entry.bytes / ranges;
    out.sources.push_back(
        {entry.file, entry.offset + expert * bytes, bytes, OrderOf(index, expert)});
  }
  return out;
}

Result<GgufModel> ViewOf(const MoeModel& model) {
  GgufModel out;
  out.metadata = WholeMetadata(model.checkpoint().metadata());
  for (const ModelTensor& tensor : model.tensors()) {
    SHARD_TRY(GgufTensor made, TensorOf(model, tensor, out.tensors.size()));
    out.tensors.push_back(std::move(made));
  }
  return out;
}

Error NoConverter(const MoeModel& model) {
  std::vector<std::string> names;
  for (const GgufConverter& row : AllConverters()) names.emplace_back(row.family);
  return {Code::kUnsupported,
          Cat(model.checkpoint().source().string(), ": GGUF output: expected family ",
              Join(names, " or "), ", found ", Quoted(model.family().name)),
          "build and shard-experts split every family as safetensors: --format safetensors"};
}

}  // namespace

uint64_t GgufTensor::elements() const {
  uint64_t count = 1;
  for (const uint64_t dimension : shape) count *= dimension;
  return count;
}

bool GgufTensor::KeepsGrid(const quant::Format* to) const {
  return repack && reader != nullptr && reader->CanRepack(to);
}

uint64_t GgufTensor::bytes() const {
  const uint64_t values = row_values();
  if (values == 0) return 0;
  const std::optional<uint64_t> row = type->BytesFor(values);
  assert(row);
  return *row * (elements() / values);
}

Result<GgufModel> ToGguf(const MoeModel& model, const ConvertOptions& options) {
  if (model.checkpoint().is_gguf()) {
    if (options.pre.empty() && options.mtp) return ViewOf(model);
    return Error{Code::kInvalidArgument,
                 Cat(options.pre.empty() ? "--no-mtp" : "--pre",
                     " has no effect: ", model.checkpoint().source().string(),
                     " is GGUF already, and nothing is converted"),
                 "leave it out"};
  }
  const GgufConverter* converter = FindConverter(model.family().name);
  if (converter == nullptr) return NoConverter(model);
  return converter->convert(model, options);
}

}  // namespace moepack
