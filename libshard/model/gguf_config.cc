#include "libshard/model/gguf_config.h"

#include <algorithm>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/gguf_keys.h"
#include "libshard/model/gguf_routing.h"

namespace moepack {
namespace {

class GgufConfigReader {
 public:
  GgufConfigReader(const std::string& where, const GgufMetadata& metadata,
                   std::vector<std::string>& warnings)
      : where_(where), metadata_(metadata), warnings_(warnings), keys_(where, metadata) {}

  Result<ModelConfig> Read();

 private:
  Status ReadSizes();
  Status ReadExperts();
  Status ReadWidth();
  Status ReadShared();
  std::string ExpertKeys() const;

  const std::string& where_;
  const GgufMetadata& metadata_;
  std::vector<std::string>& warnings_;
  const GgufKeys keys_;
  ModelConfig out_;
};

Status GgufConfigReader::ReadSizes() {
  SHARD_TRY(const uint32_t blocks, keys_.Number("block_count", kMaxLayers));
  SHARD_TRY(out_.mtp_layers, keys_.Number("nextn_predict_layers", kMaxModelCount));
  if (blocks == 0) return keys_.Wrong("block_count", "at least one layer");
  if (out_.mtp_layers >= blocks) {
    return keys_.Wrong("nextn_predict_layers", Cat("fewer than the ", Plural(blocks, "block")));
  }
  // llama.cpp counts the blocks for multi-token prediction in block_count, config.json does not.
  out_.layers = blocks - out_.mtp_layers;
  SHARD_TRY(out_.hidden_size, keys_.Number("embedding_length", kMaxModelWidth));
  SHARD_TRY(out_.vocab_size, keys_.Vocabulary());
  return Ok();
}

Status GgufConfigReader::ReadExperts() {
  out_.expert_count_key = keys_.Key("expert_count");
  const GgufValue* count = keys_.Find("expert_count");
  if (count != nullptr && count->type == GgufType::kArray) {
    return Error{Code::kUnsupported, Cat(where_, ": key ", Quoted(out_.expert_count_key),
                                         ": expected one number for all layers, found a list")};
  }
  SHARD_TRY(out_.expert_count, keys_.Number("expert_count", kMaxModelCount));
  if (out_.expert_count == 0) {
    return Error{Code::kUnsupported,
                 Cat(where_, ": key ", Quoted(out_.expert_count_key),
                     ": expected routed experts, found ", count == nullptr ? "none" : "0", ", so ",
                     Quoted(keys_.architecture()), " is a dense model here"),
                 "there is nothing to split in a dense model"};
  }
  SHARD_TRY(const std::vector<uint32_t> used, keys_.Numbers("expert_used_count", kMaxModelCount));
  if (used.empty()) return Ok();
  out_.top_k = *std::max_element(used.begin(), used.end());
  if (out_.top_k > out_.expert_count) {
    return Error{Code::kCorrupt, Cat(where_, ": key ", Quoted(keys_.Key("expert_used_count")),
                                     ": expected at most ", out_.expert_count,
                                     " (the experts), found ", out_.top_k)};
  }
  if (keys_.Find("expert_used_count")->type != GgufType::kArray) return Ok();
  if (used.size() != out_.layers + out_.mtp_layers) {
    return Error{Code::kCorrupt, Cat(where_, ": key ", Quoted(keys_.Key("expert_used_count")),
                                     ": expected one number per block (",
                                     out_.layers + out_.mtp_layers, "), found ", used.size())};
  }
  out_.top_k_per_layer = used;
  return Ok();
}

// Without an expert width, some of llama.cpp's loaders divide the dense width by the number of
// experts used.
Status GgufConfigReader::ReadWidth() {
  SHARD_TRY(out_.expert_intermediate_size,
            keys_.Largest("expert_feed_forward_length", kMaxModelWidth));
  if (out_.expert_intermediate_size != 0) return Ok();
  SHARD_TRY(out_.expert_intermediate_size, keys_.Largest("feed_forward_length", kMaxModelWidth));
  const GgufArchitecture* architecture = FindArchitecture(keys_.architecture());
  if (architecture != nullptr && architecture->derives_width && out_.top_k > 0) {
    out_.expert_intermediate_size /= out_.top_k;
  }
  return Ok();
}

Status GgufConfigReader::ReadShared() {
  SHARD_TRY(out_.shared_experts, keys_.Largest("expert_shared_count", kMaxModelCount));
  SHARD_TRY(const uint32_t width,
            keys_.Largest("expert_shared_feed_forward_length", kMaxModelWidth));
  if (out_.shared_experts == 0 && width > 0) out_.shared_experts = 1;
  return Ok();
}

// "newmoe.expert_count 16, newmoe.expert_used_count 2": what a cut may change.
std::string GgufConfigReader::ExpertKeys() const {
  std::string list;
  for (const GgufEntry& entry : metadata_.entries()) {
    if (!std::string_view(entry.key).starts_with(keys_.Key("expert"))) continue;
    const auto number = entry.value.AsUint();
    if (!list.empty()) list += ", ";
    list += Shown(entry.key);
    if (number) list += Cat(" ", *number);
  }
  return list.empty() ? "none" : list;
}

Result<ModelConfig> GgufConfigReader::Read() {
  if (keys_.architecture().empty()) {
    return Error{Code::kCorrupt,
                 Cat(where_, ": key general.architecture: expected a name, found none"),
                 "a part of a set is opened by its first file or its directory"};
  }
  out_.architecture = keys_.architecture();
  if (!IsMoeArchitecture(keys_.architecture())) {
    const std::string known = DescribeUnknownArchitecture(keys_.architecture());
    warnings_.push_back(Cat(
        where_, ": architecture: expected one with experts that llama.cpp ", "v0.5.0 has, found ",
        Quoted(keys_.architecture()), known.empty() ? "" : Cat(" (", known, ")"),
        ": it is split by the names of its tensors and its keys about "
        "experts (",
        ExpertKeys(), "); what else depends on the number of experts is not known"));
  }
  SHARD_CHECK(ReadSizes());
  SHARD_CHECK(ReadExperts());
  SHARD_CHECK(ReadWidth());
  SHARD_CHECK(ReadShared());
  SHARD_TRY(out_.routing, ReadGgufRouting(where_, metadata_, warnings_));
  return std::move(out_);
}

}  // namespace

Result<ModelConfig> ReadGgufConfig(const std::string& where, const GgufMetadata& metadata,
                                   std::vector<std::string>& warnings) {
  return GgufConfigReader(where, metadata, warnings).Read();
}

}  // namespace moepack
