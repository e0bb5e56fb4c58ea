#include "libshard/convert/gguf_model.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"
#include "libshard/check/model_check.h"
#include "libshard/convert/row_reader.h"
#include "libshard/format/gguf_key_types.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/gguf_keys.h"

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

// The first of the first `blocks` blocks without tensors.
std::optional<uint32_t> FirstMissingBlock(const MoeModel& model, uint32_t blocks) {
  std::vector<bool> there(blocks);
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.layer.value_or(blocks) < blocks) there[*tensor.layer] = true;
  }
  const auto gap = std::find(there.begin(), there.end(), false);
  if (gap == there.end()) return std::nullopt;
  return static_cast<uint32_t>(gap - there.begin());
}

Error MissingBlock(const MoeModel& model, uint32_t block) {
  const ModelConfig& config = model.config();
  const std::string where = model.config_path().string();
  const GgufKeys keys(where, model.checkpoint().metadata());
  const std::string all = Cat(keys.Key("block_count"), " is ", config.layers + config.mtp_layers);
  if (block < config.layers) {
    return {Code::kCorrupt,
            Cat(where, ": block ", block, ": expected tensors, as ", all, ", found none"),
            "llama.cpp cannot load such a file: fetch or convert the model again"};
  }
  return {Code::kCorrupt,
          Cat(where, ": block ", block, " for multi-token prediction: expected tensors, as ", all,
              " and ", keys.Key("nextn_predict_layers"), " is ", config.mtp_layers, ", found none"),
          "--no-mtp leaves these blocks out and corrects the keys; llama.cpp cannot load the file "
          "as it is"};
}

// Names the blocks that the keys announce for multi-token prediction and that have no tensor of it:
// the count in the keys may be wrong. Where attention and feed-forward part are blocks of their
// own, not each of them has one.
void FindOrdinaryBlocks(const MoeModel& model, bool kept, std::vector<std::string>& faults) {
  const ModelConfig& config = model.config();
  if (HasSingleParts(config.architecture)) return;
  std::map<uint32_t, bool> predicts;  // by block
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.layer.value_or(0) < config.layers) continue;
    bool& own = predicts[*tensor.layer];
    own = own || tensor.rule->role == "mtp";
  }
  for (const auto& [block, own] : predicts) {
    if (own) continue;
    faults.push_back(Cat(model.config_path().string(), ": block ", block,
                         ": expected tensors like blk.", block, ".nextn.eh_proj.weight, as ",
                         config.architecture, ".nextn_predict_layers is ", config.mtp_layers,
                         ", found an ordinary block, ",
                         kept ? "which llama.cpp does not run" : "which --no-mtp leaves out"));
  }
}

// Makes the keys those of a model without blocks for multi-token prediction.
void RemoveMtpKeys(const MoeModel& model, GgufMetadata& metadata) {
  const ModelConfig& config = model.config();
  const std::string prefix = metadata.Architecture() + ".";
  CutGgufBlocks(config.layers + config.mtp_layers, config.layers, metadata);
  metadata.Set(prefix + "block_count", GgufValue::U32(config.layers));
  metadata.Remove(prefix + "nextn_predict_layers");
}

Result<GgufModel> ViewOf(const MoeModel& model, const ConvertOptions& options) {
  const ModelConfig& config = model.config();
  const bool mtp = options.mtp, runs = options.part == ConvertOptions::Part::kTokenizerIfUsable;
  GgufModel out;
  const uint32_t needed = config.layers + (mtp && !runs ? config.mtp_layers : 0);
  if (const std::optional<uint32_t> block = FirstMissingBlock(model, needed)) {
    Error missing = MissingBlock(model, *block);
    if (*block < config.layers || NeedsMtp(config.architecture)) return missing;
    out.faults.push_back(missing.message +
                         "; llama.cpp loads this architecture without it, and --no-mtp corrects "
                         "the keys");
  }
  if (!runs) {
    const bool mtp_may_lack = !mtp || !NeedsMtp(config.architecture);
    SHARD_CHECK(RequirePromised(model, {.defaults = "", .mtp_may_lack = mtp_may_lack}));
    SHARD_CHECK(CheckGgufTypes(model.config_path().string(), model.checkpoint().metadata()));
    FindOrdinaryBlocks(model, mtp, out.faults);
  }
  out.metadata = WholeMetadata(model.checkpoint().metadata());
  if (!mtp) RemoveMtpKeys(model, out.metadata);
  for (const ModelTensor& tensor : model.tensors()) {
    if (!mtp && tensor.layer.value_or(0) >= config.layers) continue;
    SHARD_TRY(GgufTensor made, TensorOf(model, tensor, out.tensors.size()));
    out.tensors.push_back(std::move(made));
  }
  return out;
}

Error NothingConverted(const MoeModel& model, const char* option, const char* why) {
  return {Code::kInvalidArgument,
          Cat(option, " has no effect: ", model.checkpoint().source().string(),
              " is GGUF already, and ", why),
          "leave it out"};
}

Error NoConverter(const MoeModel& model) {
  std::vector<std::string> names;
  for (const GgufConverter& row : AllConverters()) names.emplace_back(row.family);
  const std::string closest = ClosestWord(model.family().name, names);
  return {Code::kUnsupported,
          Cat(model.checkpoint().source().string(),
              ": GGUF output: expected a family that has a GGUF form here, found ",
              Quoted(model.family().name),
              closest.empty() ? "" : Cat(" (the closest that has one is ", closest, ")")),
          "build and shard-experts split every family as safetensors: --format safetensors; "
          "docs/families.md lists the families"};
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
    if (!options.pre.empty()) return NothingConverted(model, "--pre", "nothing is converted");
    if (!options.mtp && model.config().mtp_layers == 0) {
      return NothingConverted(model, "--no-mtp",
                              "its keys announce no block for multi-token prediction");
    }
    return ViewOf(model, options);
  }
  const GgufConverter* converter = FindConverter(model.family().name);
  if (converter == nullptr) return NoConverter(model);
  return converter->convert(model, options);
}

const GgufConverter* FindConverter(std::string_view family) {
  const std::span<const GgufConverter> all = AllConverters();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& row) { return row.family == family; });
  return found == all.end() ? nullptr : &*found;
}

Status CheckByConversion(const MoeModel& model) {
  const GgufConverter* converter = FindConverter(model.family().name);
  if (converter == nullptr || model.checkpoint().names_only() || model.checkpoint().is_gguf()) {
    return Ok();
  }
  ConvertOptions options;
  options.part = ConvertOptions::Part::kTensors;
  const Result<GgufModel> view = converter->convert(model, options);
  if (view || view.error().code != Code::kCorrupt) return Ok();
  return view.error();
}

}  // namespace moepack
