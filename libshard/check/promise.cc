// Reads the sizes that config.json gives and checks that they fit each other. Field names are those
// of the published configs (docs/conversion.md, docs/families.md).
#include "libshard/check/promise.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/check/mixer_shapes.h"
#include "libshard/model/config_defaults.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/config_layers.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

// Fields of attention whose heads differ between layers, or between keys and values.
constexpr ConfigKeys kUnevenHeads[] = {fields::kGlobalHeadSize, fields::kGlobalKeyHeads,
                                       fields::kWindowKeyHeads, fields::kWindowHeadSize,
                                       fields::kOtherAttention, fields::kHeadsPerLayer};

class PromiseReader {
 public:
  PromiseReader(const HfConfig& raw, HfConfig config, const ModelConfig& model,
                std::vector<CheckFinding>& findings)
      : raw_(raw), config_(std::move(config)), model_(model), findings_(findings) {}

  // With `complete`, absent fields get the values that converters assume: as many key heads as
  // query heads, and experts as wide as the dense part.
  Result<ModelPromise> Read(const Family& family, bool complete) {
    out_.facts = family.facts;
    SHARD_CHECK(ReadSizes());
    SHARD_CHECK(ReadWidths(complete));
    SHARD_CHECK(ReadShared());
    SHARD_CHECK(ReadHeads(complete));
    SHARD_CHECK(ReadLatent());
    SHARD_CHECK(ReadRouting());
    SHARD_TRY(out_.tied, config_.FindBool(fields::kTied));
    if (raw_.Has(fields::kMtpLayers)) out_.mtp = model_.mtp_layers;
    SHARD_CHECK(ReadLayers(config_, ConfigDefaults(family, model_), out_, findings_));
    return std::move(out_);
  }

 private:
  void Say(const std::string& field, const std::string& expected, const std::string& found) {
    findings_.push_back({FindingKind::kConfig, field, expected, found});
  }

  // Reads the number under the keys, or that of a list of equal numbers; 0 if absent or unequal.
  Result<uint64_t> Uniform(ConfigKeys keys) const {
    SHARD_TRY(const std::vector<uint32_t> numbers, config_.FindU32s(keys));
    const bool equal =
        std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) == numbers.end();
    return numbers.empty() || !equal ? 0 : uint64_t{numbers.front()};
  }

  // Reads a size, which must not be zero if it is given.
  Result<uint64_t> Size(ConfigKeys keys) {
    SHARD_TRY(const std::vector<uint32_t> numbers, config_.FindU32s(keys));
    if (numbers.size() == 1 && numbers[0] == 0) Say(config_.Find(keys)->path, "at least 1", "0");
    return Uniform(keys);
  }

  Status ReadSizes() {
    const auto layers = raw_.Find(fields::kLayers);
    out_.layers_key = layers ? layers->path : *fields::kLayers.begin();
    out_.layers.resize(model_.layers);
    if (model_.layers == 0) Say(out_.layers_key, "at least one layer", layers ? "0" : "none");
    SHARD_TRY(out_.hidden, Size(fields::kHiddenSize));
    SHARD_TRY(out_.vocabulary, Size(fields::kVocabulary));
    return Ok();
  }

  Status ReadWidths(bool complete) {
    SHARD_TRY(const uint64_t latent, Size(fields::kLatentWidth));
    out_.expert_input = latent > 0 ? latent : out_.hidden;
    SHARD_TRY(out_.expert_width, Size(fields::kExpertWidth));
    SHARD_TRY(const std::vector<uint32_t> widths, config_.FindU32s(fields::kExpertWidth));
    for (size_t i = 0; i < out_.layers.size() && widths.size() == out_.layers.size(); ++i)
      out_.layers[i].expert_width = widths[i];
    if (!config_.Has(fields::kExpertWidth) && (out_.facts.plain_width || complete)) {
      SHARD_TRY(out_.expert_width, Size(fields::kPlainWidth));
    }
    // DBRX has a separate config for its feed-forward part.
    if (model_.expert_count_key.find("ffn_config.") != std::string::npos) {
      out_.expert_width = model_.expert_intermediate_size;
    }
    SHARD_TRY(const std::optional<bool> wide, config_.FindBool(fields::kDoubleWidth));
    if (wide.value_or(false)) return Ok();
    SHARD_TRY(out_.dense_width, Size(fields::DenseWidth(config_)));
    return Ok();
  }

  Status ReadShared() {
    SHARD_TRY(const uint64_t count, Uniform(fields::kSharedExperts));
    SHARD_TRY(const uint64_t width, Uniform(fields::kSharedWidth));
    // With several shared experts, some families give the width of one and others that of all, so
    // nothing is promised.
    out_.shared_width = count > 1 ? 0 : width;
    if (width == 0 && out_.facts.shared_of_experts) out_.shared_width = count * out_.expert_width;
    if (config_.Has(fields::kSharedExperts) || config_.Has(fields::kSharedWidth)) {
      out_.shared = count > 0 || width > 0;
    }
    return Ok();
  }

  Status ReadHeads(bool complete) {
    HeadsPromise heads;
    SHARD_TRY(heads.heads, Size(fields::kHeads));
    SHARD_TRY(heads.key_heads, Size(fields::kKeyHeads));
    if (complete && !config_.Has(fields::kKeyHeads)) heads.key_heads = heads.heads;
    if (heads.heads == 0 || heads.key_heads == 0) return Ok();
    if (heads.heads % heads.key_heads != 0) {
      Say(config_.Find(fields::kKeyHeads)->path,
          Cat("a divisor of ", config_.Find(fields::kHeads)->path, " (", heads.heads, ")"),
          Cat(heads.key_heads));
      return Ok();
    }
    SHARD_TRY(heads.size, Size(fields::kHeadSize));
    if (heads.size == 0 && out_.facts.square_heads) {
      heads.size = out_.hidden / heads.heads;
      if (out_.hidden % heads.heads != 0) {
        Say(config_.Find(fields::kHiddenSize)->path,
            Cat("a multiple of ", Plural(heads.heads, "head"), ", as there is no head_dim"),
            Cat(out_.hidden));
        return Ok();
      }
    }
    SHARD_TRY(const uint64_t value, Uniform(fields::kValueHeadSize));
    const bool uneven = std::any_of(std::begin(kUnevenHeads), std::end(kUnevenHeads),
                                    [&](ConfigKeys keys) { return config_.Has(keys); });
    if (heads.size > 0 && value == 0 && !uneven) out_.heads = heads;
    return Ok();
  }

  Status ReadLatent() {
    SHARD_TRY(const std::optional<bool> used, config_.FindBool(fields::kUsesLatent));
    LatentPromise latent;
    SHARD_TRY(latent.heads, Uniform(fields::kHeads));
    SHARD_TRY(latent.query_rank, Uniform(fields::kQueryRank));
    SHARD_TRY(latent.rank, Uniform(fields::kLatentRank));
    SHARD_TRY(latent.nope, Uniform(fields::kPlainPart));
    SHARD_TRY(latent.rope, Uniform(fields::kRopePart));
    SHARD_TRY(latent.value, Uniform(fields::kValueHeadSize));
    const bool whole = latent.heads > 0 && latent.nope > 0 && latent.rope > 0 && latent.value > 0;
    if (!used.value_or(true) || latent.rank == 0 || !whole) return Ok();
    out_.latent = latent;
    out_.heads.reset();
    return Ok();
  }

  Status ReadRouting() {
    SHARD_TRY(const std::optional<std::string> method, config_.FindString({"topk_method"}));
    if (method == "noaux_tc") out_.selection_bias_key = config_.Find({"topk_method"})->path;
    SHARD_TRY(const std::optional<bool> biased, config_.FindBool(fields::kSelectionBias));
    if (biased.value_or(false)) {
      out_.selection_bias_key = config_.Find(fields::kSelectionBias)->path;
    }
    return CheckGroups();
  }

  // Some routers choose groups of experts first, then experts inside them. The numbers of groups
  // must divide.
  Status CheckGroups() {
    const uint64_t groups = model_.routing.groups.value_or(0),
                   used = model_.routing.groups_used.value_or(0);
    if (groups == 0) return Ok();
    if (model_.expert_count % groups != 0) {
      Say("n_group", Cat("a divisor of the ", Plural(model_.expert_count, "expert")), Cat(groups));
      return Ok();
    }
    if (used == 0) return Ok();
    if (used > groups) Say("topk_group", Cat("at most n_group (", groups, ")"), Cat(used));
    const uint64_t reach = used * (model_.expert_count / groups);
    if (used <= groups && model_.top_k > reach) {
      Say("topk_group",
          Cat("groups of ", Plural(model_.top_k, "expert"), " or more together, as a token gets"),
          Cat(used, " of ", Plural(model_.expert_count / groups, "expert")));
    }
    return Ok();
  }

  const HfConfig& raw_;
  const HfConfig config_;
  const ModelConfig& model_;
  std::vector<CheckFinding>& findings_;
  ModelPromise out_;
};

}  // namespace

bool HasOtherMixers(const Family& family) {
  return std::any_of(family.rules.begin(), family.rules.end(), [](const TensorRule& rule) {
    return rule.role == "mamba" || rule.pattern.find(".conv.") != std::string::npos;
  });
}

Result<ModelPromise> ReadPromise(const HfConfig& raw, std::string_view defaults,
                                 const ModelConfig& model, const Family& family,
                                 std::vector<CheckFinding>& findings) {
  SHARD_TRY(const HfConfig config, raw.WithDefaults(defaults));
  PromiseReader reader(raw, config, model, findings);
  SHARD_TRY(ModelPromise promise, reader.Read(family, !defaults.empty()));
  SHARD_CHECK(ReadMixers(config, family, promise, findings));
  for (const TensorRule& rule : family.rules) {
    if (rule.pattern.find(".linear_attn.") != std::string::npos) promise.linear_attention = true;
  }
  return promise;
}

// What the config says about each layer: which of them have experts, and what mixes tokens in them
// (config_layers.h).

namespace {

Status ReadAttention(const HfConfig& config, const BlockCounts& counts, ModelPromise& promise,
                     ConfigFaults& faults) {
  SHARD_TRY(const LayerKinds kinds, ReadLayerKinds(config, counts, faults));
  for (size_t layer = 0; layer < counts.layers; ++layer) {
    promise.layers[layer].kind = kinds.layers[layer].kind;
    promise.layers[layer].attention = kinds.layers[layer].words;
  }
  const std::vector<bool> indexers = ReadIndexers(config, counts, faults);
  for (size_t layer = 0; layer < std::min(indexers.size(), counts.layers); ++layer) {
    promise.layers[layer].indexer = indexers[layer];
    if (!indexers[layer]) promise.layers[layer].attention += " shared indexer";
  }
  // DeepSeek-V4's first layers choose experts by the token's id.
  SHARD_TRY(const auto hashed, config.FindU32({"num_hash_layers"}));
  for (size_t layer = 0; hashed && layer < std::min<size_t>(*hashed, counts.layers); ++layer) {
    promise.layers[layer].attention += " hash";
  }
  return Ok();
}

Status ReadExperts(const HfConfig& config, const BlockCounts& counts, ModelPromise& promise,
                   ConfigFaults& faults) {
  SHARD_TRY(MoeLayers layers, ReadMoeLayers(config, counts, faults));
  promise.moe_key = layers.key;
  promise.mixers = layers.mixers;
  if (layers.key.empty() && promise.facts.all_moe) {
    promise.moe_key = "the family";
    layers.moe.assign(counts.layers, true);
  }
  for (size_t layer = 0; layer < layers.moe.size(); ++layer) {
    promise.layers[layer].moe = layers.moe[layer];
  }
  return Ok();
}

}  // namespace

Status ReadLayers(const HfConfig& config, std::string_view defaults, ModelPromise& promise,
                  std::vector<CheckFinding>& findings) {
  const BlockCounts counts = {promise.layers.size(), promise.mtp.value_or(0)};
  ConfigFaults faults;
  SHARD_TRY(const HfConfig complete, config.WithDefaults(defaults));
  SHARD_CHECK(ReadAttention(complete, counts, promise, faults));
  SHARD_CHECK(ReadExperts(config, counts, promise, faults));
  for (ConfigFault& fault : faults) {
    findings.push_back({FindingKind::kConfig, std::move(fault.field), std::move(fault.expected),
                        std::move(fault.found)});
  }
  return Ok();
}

// Reads what the metadata of a GGUF model promises. Only llama.cpp keys that mean the same in every
// architecture are used.

ModelPromise ReadGgufPromise(const GgufMetadata& metadata, const ModelConfig& model) {
  const std::string prefix = metadata.Architecture() + ".";
  // This is also 0 if a list gives one number per layer.
  const auto number = [&](const char* key) { return metadata.Uint(prefix + key).value_or(0); };
  ModelPromise promise;
  promise.layers_key = prefix + "block_count";
  promise.layers.resize(model.layers);
  promise.mtp = model.mtp_layers;
  promise.mtp_key = prefix + "nextn_predict_layers";
  promise.hidden = model.hidden_size;
  promise.vocabulary = model.vocab_size;
  // Nemotron-H's key, and Kimi-K3's.
  const uint64_t latent = std::max(number("moe_latent_size"), number("expert_latent_length"));
  promise.expert_input = latent > 0 ? latent : promise.hidden;
  promise.expert_width = number("expert_feed_forward_length");
  promise.dense_width = number("feed_forward_length");
  promise.shared_width = number("expert_shared_feed_forward_length");
  promise.moe_key = prefix + "leading_dense_block_count";
  const uint64_t dense = std::min<uint64_t>(number("leading_dense_block_count"), model.layers);
  for (uint64_t layer = 0; layer < dense; ++layer) promise.layers[layer].moe = false;
  ReadGgufMixers(metadata, promise);
  return promise;
}

}  // namespace moepack
