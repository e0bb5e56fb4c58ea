#include "libshard/check/promised_model.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/check/promise.h"
#include "libshard/check/promised_layer.h"
#include "libshard/check/promised_storage.h"
#include "libshard/check/shapes.h"
#include "libshard/format/checkpoint_index.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/family_find.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/layer_fields.h"
#include "quant/format.h"

namespace moepack {
namespace {

// Bounds far above any model. Kimi-K2 has 140,000 tensors and 10^12 weights.
constexpr size_t kMostTensors = 500'000;
constexpr uint64_t kMostElements = uint64_t{1} << 50;

class Promiser {
 public:
  Promiser(const HfConfig& config, const ModelConfig& model, const Family& family,
           const ModelPromise& promise)
      : config_(config),
        model_(model),
        family_(family),
        promise_(promise),
        rows_(family),
        shapes_(promise, promise.latent.has_value()),
        matcher_(family, static_cast<uint32_t>(promise.layers.size())) {
    prefix_ = family.prefixes.empty() ? "" : family.prefixes.front();
  }

  Result<PromisedTensors> Run() {
    SHARD_TRY(storage_, ReadStorage(config_, model_, family_));
    out_.stored = storage_.description;
    out_.unfollowed = storage_.unfollowed;
    SHARD_TRY(attention_, AttentionOutline::Read(config_, family_, promise_));
    AddEnds();
    for (uint32_t layer = 0; layer < decoder() && !failed_; ++layer) AddLayer(layer);
    AddMtp();
    if (failed_) return *std::move(failed_);
    ListMissing();
    return std::move(out_);
  }

 private:
  uint32_t decoder() const { return static_cast<uint32_t>(promise_.layers.size()); }
  uint32_t ExpertsOf(uint32_t layer) const {
    return layer < model_.experts_per_layer.size() ? model_.experts_per_layer[layer]
                                                   : model_.expert_count;
  }

  // DeepSeek quantizes the linear layers of the decoder without saying so; other configs list the
  // modules that are not quantized.
  bool IsFp8(const std::string& name, const ModelTensor& tensor,
             const std::vector<uint64_t>& shape) const {
    if (storage_.block_rows == 0 || !tensor.layer || shape.size() != 2) return false;
    if (tensor.part == Part::kRouter || !name.ends_with(".weight")) return false;
    const std::string& role = tensor.rule->role;
    if (role == "norm" || role == "mtp" || role == "embedding" || role == "shared_gate") {
      return false;
    }
    if (name.find(".indexer.weights_proj.") != std::string::npos) return false;
    const std::string module = name.substr(0, name.size() - std::string_view(".weight").size());
    return !std::binary_search(storage_.excluded.begin(), storage_.excluded.end(), module);
  }

  void Append(std::string name, const std::string& dtype, std::vector<uint64_t> shape) {
    uint64_t elements = 1;
    bool fits = true;
    for (const uint64_t dimension : shape) {
      fits = fits && !__builtin_mul_overflow(elements, dimension, &elements);
    }
    if (elements == 0) {
      failed_ = Error{Code::kCorrupt,
                      Cat(config_.where(), ": shape of tensor ", Quoted(name),
                          ": expected sizes above 0, found ", FormatShape(shape)),
                      "a width or count that the config should give is 0 or missing"};
      return;
    }
    weights_ += fits ? std::min(elements, kMostElements) : kMostElements;
    if (!fits || weights_ >= kMostElements || out_.tensors.size() >= kMostTensors) {
      failed_ = Error{Code::kUnsupported,
                      Cat(config_.where(), ": expected the sizes of a model, found those of one ",
                          "with more than ", kMostTensors, " tensors or ", kMostElements,
                          " weights, at tensor ", Quoted(name))};
      return;
    }
    TensorEntry entry;
    entry.name = std::move(name);
    entry.dtype = dtype;
    entry.format = quant::FindSafetensorsFormat(dtype);
    entry.bytes = entry.format->BytesFor(elements).value_or(0);
    entry.shape = std::move(shape);
    out_.tensors.push_back(std::move(entry));
  }

  // The last axis is unknown until the shape is known.
  static std::optional<uint32_t> KnownAxis(const TensorRule& rule) {
    if (!rule.expert_axis || *rule.expert_axis < 0) return std::nullopt;
    return static_cast<uint32_t>(*rule.expert_axis);
  }

  // Adds a tensor; `name` lacks the prefix. Returns false if the shape is not known.
  bool Add(const std::string& name, std::vector<uint64_t> shape = {}, bool f32 = false) {
    if (failed_) return false;
    std::string full =
        name.starts_with("lm_head") || name.starts_with("mtp.") ? name : prefix_ + name;
    const TensorClass found = matcher_.Classify(full);
    if (found.rule == nullptr) return false;
    ModelTensor tensor{.part = found.rule->part,
                       .mtp = found.mtp,
                       .axis = KnownAxis(*found.rule),
                       .rule = found.rule,
                       .leaf = found.leaf,
                       .layer = found.layer,
                       .expert = found.expert};
    const uint32_t expert_count = found.layer ? ExpertsOf(*found.layer) : 0;
    if (shape.empty()) shape = ShapeOf(tensor, full, expert_count);
    if (shape.empty()) return false;
    if (IsFp8(full, tensor, shape)) return AddFp8(full, shape);
    f32 = f32 || tensor.rule->role == "selection_bias" ||
          (tensor.rule->role == "router" && family_.promise.f32_router);
    Append(std::move(full), f32 ? "F32" : storage_.plain, std::move(shape));
    return true;
  }

  bool AddFp8(const std::string& name, const std::vector<uint64_t>& shape) {
    const auto blocks = [](uint64_t size, uint64_t block) { return (size + block - 1) / block; };
    Append(name, "F8_E4M3", shape);
    Append(name + "_scale_inv", "F32",
           {blocks(shape[0], storage_.block_rows), blocks(shape[1], storage_.block_columns)});
    return true;
  }

  // Fills in an unknown dimension of the experts. The result is empty if another dimension is
  // unknown.
  std::vector<uint64_t> ShapeOf(const ModelTensor& tensor, const std::string& name,
                                uint32_t expert_count) const {
    const std::string_view leaf = name.ends_with(".weight") ? "weight" : tensor.leaf;
    const std::optional<Dims> dims = shapes_.Of({tensor, name, leaf, expert_count});
    if (!dims) return {};
    std::vector<uint64_t> shape = dims->sizes;
    if (tensor.axis && *tensor.axis < shape.size() && shape[*tensor.axis] == 0) {
      shape[*tensor.axis] = expert_count;
    }
    return std::find(shape.begin(), shape.end(), 0u) == shape.end() ? shape
                                                                    : std::vector<uint64_t>{};
  }

  void Miss(const std::string& what, uint32_t layer) { missing_[what].push_back(layer); }

  void AddEnds() {
    const auto add = [&](const std::string& name, const char* what) {
      if (name.empty() || Add(name)) return;
      out_.missing.emplace_back(what);
      out_.partial = true;
    };
    add(rows_.embedding, "embedding");
    add(rows_.norm, "final norm");
    // If the config does not say, the head is not tied to the embedding.
    if (!promise_.tied.value_or(false)) add(rows_.head, "head");
    if (!family_.promise.norm_biases) return;
    Add("norm.bias", {promise_.hidden});
    const auto bias = config_.FindBool({"lm_head_bias"});
    if (bias && bias->value_or(false)) Add("lm_head.bias", {promise_.vocabulary});
  }

  void AddLayer(uint32_t layer) {
    const LayerPromise& promised = promise_.layers[layer];
    const std::string at = Cat("layers.", layer, ".");
    AddNorms(at, layer);
    // In families of mixers a layer is either attention or a feed-forward part.
    const bool mixers = promise_.mixers;
    const bool moe = promised.moe.value_or(true);
    if (!mixers || !moe) AddAttention(at, promised.kind, layer, promised.indexer);
    if (moe) {
      AddMoe(layer);
    } else if (!mixers) {
      AddAll(rows_.dense, "dense feed-forward part", layer);
    }
  }

  void AddNorms(const std::string& at, uint32_t layer) {
    if (!rows_.layer_norms) return Miss("norms", layer);
    for (const char* name : {"input_layernorm", "post_attention_layernorm"}) {
      Add(Cat(at, name, ".weight"), {promise_.hidden});
      if (family_.promise.norm_biases) Add(Cat(at, name, ".bias"), {promise_.hidden});
    }
  }

  void AddAttention(const std::string& at, LayerKind kind, uint32_t layer, bool indexer = true) {
    const std::vector<PromisedTensor> tensors = attention_.Of(kind, indexer);
    bool known = !tensors.empty();
    for (const PromisedTensor& tensor : tensors) {
      known = Add(at + tensor.name, tensor.shape, tensor.f32) && known;
    }
    if (!known) Miss("attention", layer);
  }

  void AddAll(const std::vector<std::string>& patterns, const char* what, uint32_t layer) {
    bool known = !patterns.empty();
    for (const std::string& pattern : patterns) known &= Add(Spelled(pattern, layer));
    if (!known) Miss(what, layer);
  }

  void AddMoe(uint32_t layer) {
    if (rows_.router.empty() || !Add(Spelled(rows_.router, layer))) Miss("router", layer);
    const uint64_t experts = ExpertsOf(layer);
    const bool biased =
        !promise_.selection_bias_key.empty() || family_.routing.bias == RouterBias::kSelection;
    if (biased && !rows_.selection_bias.empty()) {
      const std::vector<uint64_t> vector = {experts}, row = {1, experts};
      Add(Spelled(rows_.selection_bias, layer), rows_.bias_row ? row : vector);
    }
    AddExperts(layer);
    AddShared(layer);
  }

  void AddExperts(uint32_t layer) {
    if (storage_.mxfp4_experts) return AddMxfp4Experts(layer);
    const uint32_t count = rows_.packed ? 1 : ExpertsOf(layer);
    bool known = !rows_.experts.empty() && count > 0;
    for (uint32_t expert = 0; expert < count && known && !failed_; ++expert) {
      for (const std::string& pattern : rows_.experts) {
        known = known && Add(Spelled(pattern, layer, expert));
      }
    }
    if (!known) Miss("routed experts", layer);
    if (family_.promise.expert_biases) AddExpertBiases(layer);
  }

  // gpt-oss stores MXFP4 as blocks of 16 bytes with 32 values, and one byte of scale per block.
  void AddMxfp4Experts(uint32_t layer) {
    constexpr uint64_t kValues = 32, kBytes = 16;
    const uint64_t experts = ExpertsOf(layer), width = promise_.expert_width;
    const std::string at = Cat(prefix_, "layers.", layer, ".mlp.experts.");
    if (width % kValues != 0 || promise_.hidden % kValues != 0 || width == 0) {
      return Miss("routed experts", layer);
    }
    const uint64_t in = promise_.hidden / kValues, out = width / kValues;
    Append(at + "gate_up_proj_blocks", "U8", {experts, 2 * width, in, kBytes});
    Append(at + "gate_up_proj_scales", "U8", {experts, 2 * width, in});
    Append(at + "down_proj_blocks", "U8", {experts, promise_.hidden, out, kBytes});
    Append(at + "down_proj_scales", "U8", {experts, promise_.hidden, out});
    AddExpertBiases(layer);
  }

  void AddExpertBiases(uint32_t layer) {
    const std::string at = Cat("layers.", layer, ".mlp.");
    const uint64_t experts = ExpertsOf(layer);
    Add(at + "router.bias", {experts});
    Add(at + "experts.gate_up_proj_bias", {experts, 2 * promise_.expert_width});
    Add(at + "experts.down_proj_bias", {experts, promise_.hidden});
  }

  void AddShared(uint32_t layer) {
    const bool always = family_.promise.always_shared;
    if (!always && (!promise_.shared.value_or(false) || rows_.shared.empty())) return;
    if (always) {
      for (const std::string& pattern : rows_.shared) {
        const bool down = pattern.find("down_proj") != std::string::npos;
        const uint64_t width = promise_.expert_width, hidden = promise_.hidden;
        Add(Spelled(pattern, layer),
            down ? std::vector{hidden, width} : std::vector{width, hidden});
      }
      return;
    }
    AddAll(rows_.shared, "shared experts", layer);
    if (!rows_.shared_gate.empty()) Add(Spelled(rows_.shared_gate, layer), {1, promise_.hidden});
  }

  void AddMtp() {
    const uint32_t blocks = promise_.mtp.value_or(0);
    for (uint32_t block = 0; block < blocks && !failed_; ++block) {
      if (rows_.appended_mtp && decoder() > 0) {
        AddAppendedMtp(decoder() + block);
      } else if (rows_.own_mtp && block == 0) {
        AddQwenMtp();
      } else {
        out_.missing.push_back(Cat(Plural(blocks - block, "block"), " for multi-token prediction"));
        return;
      }
    }
  }

  // DeepSeek and GLM append one more layer that has its own embedding and head.
  void AddAppendedMtp(uint32_t layer) {
    const std::string at = Cat("layers.", layer, ".");
    const uint64_t hidden = promise_.hidden, vocabulary = promise_.vocabulary;
    AddNorms(at, layer);
    AddAttention(at, promise_.layers.back().kind, layer);
    AddMoe(layer);
    for (const char* norm : {"enorm", "hnorm", "shared_head.norm"}) {
      Add(Cat(at, norm, ".weight"), {hidden});
    }
    Add(at + "eh_proj.weight", {hidden, 2 * hidden});
    if (vocabulary == 0) return;
    Add(at + "embed_tokens.weight", {vocabulary, hidden});
    Add(at + "shared_head.head.weight", {vocabulary, hidden});
  }

  void AddQwenMtp() {
    const uint64_t hidden = promise_.hidden;
    Add("mtp.fc.weight", {hidden, 2 * hidden});
    for (const char* norm : {"norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"}) {
      Add(Cat("mtp.", norm, ".weight"), {hidden});
    }
    const size_t before = out_.tensors.size();
    const std::string at = Cat("layers.", decoder(), ".");
    AddNorms(at, decoder());
    AddAttention(at, LayerKind::kFull, decoder());
    const bool moe = std::any_of(family_.rules.begin(), family_.rules.end(), [](const auto& rule) {
      return rule.part == Part::kRouter && rule.pattern.starts_with("mtp.");
    });
    moe ? AddMoe(decoder()) : AddAll(rows_.dense, "dense feed-forward part", decoder());
    // The block is numbered separately.
    for (size_t i = before; i < out_.tensors.size(); ++i) {
      std::string& name = out_.tensors[i].name;
      name = Cat("mtp.layers.0.", name.substr(prefix_.size() + at.size()));
    }
  }

  void ListMissing() {
    for (const auto& [what, layers] : missing_) {
      out_.missing.push_back(Cat(what, " of ", LayersText(layers)));
      out_.partial = out_.partial || layers.front() < decoder();
    }
    if (!family_.promise.complete) {
      out_.partial = true;
      out_.missing.push_back(Cat("tensors that only ", family_.name, " models have"));
    }
    const auto& architectures = family_.promise.indexed;
    const bool indexed =
        family_.promise.indexer || std::find(architectures.begin(), architectures.end(),
                                             model_.architecture) != architectures.end();
    if (indexed && !config_.Has(fields::kIndexHeads)) {
      out_.missing.emplace_back("indexer");
      out_.partial = true;
    }
    for (const char* tower : {"vision", "audio"}) {
      const bool rows = std::any_of(family_.rules.begin(), family_.rules.end(),
                                    [&](const TensorRule& rule) { return rule.role == tower; });
      const std::string key = Cat(tower, "_config");
      if (rows && config_.Has({key.c_str()})) out_.missing.push_back(Cat(tower, " tower"));
    }
  }

  const HfConfig& config_;
  const ModelConfig& model_;
  const Family& family_;
  const ModelPromise& promise_;
  const PromisedRows rows_;
  const ExpectedShapes shapes_;
  FamilyMatcher matcher_;
  std::string prefix_;
  AttentionOutline attention_;
  PromisedStorage storage_;
  uint64_t weights_ = 0;
  std::map<std::string, ExpertIds> missing_;
  std::optional<Error> failed_;
  PromisedTensors out_;
};

}  // namespace

Result<PromisedTensors> PromiseTensors(const HfConfig& config, const ModelConfig& model,
                                       const Family& family, const ModelPromise& promise) {
  return Promiser(config, model, family, promise).Run();
}

namespace {

constexpr const char* kConfig = "config.json";

constexpr const char* kModelOptConfig = "hf_quant_config.json";

bool HoldsTensors(const SourceTree& tree) {
  const Result<std::vector<std::string>> names = tree.List("", "");
  // If the tree cannot be listed, opening the checkpoint says why.
  if (!names) return true;
  return std::any_of(names->begin(), names->end(), [](const std::string& name) {
    return name.ends_with(".safetensors") || name.ends_with(".gguf") || name == "distribution.json";
  });
}

// Whether a file that the index names is there, perhaps in a folder of its own. Also true if the
// index cannot be read, because opening the checkpoint says why.
bool HoldsShards(const SourceTree& tree, const std::string& index) {
  const Result<CheckpointIndex> read = ReadCheckpointIndex(tree, index);
  if (!read) return true;
  return std::any_of(read->shards.begin(), read->shards.end(), [&](const std::string& shard) {
    const Result<bool> there = tree.Has(shard);
    return !there || *there;
  });
}

// ModelOpt may describe its quantization in a file of its own beside config.json.
Result<std::string> ModelOptAlgorithm(const SourceTree& tree) {
  SHARD_TRY(const bool there, tree.Has(kModelOptConfig));
  if (!there) return std::string();
  SHARD_TRY(const std::string text, tree.ReadText(kModelOptConfig, kMaxConfigBytes));
  const std::string where = tree.NameOf(kModelOptConfig);
  SHARD_TRY(const Json document, ParseJson(where, text));
  const Json::json_pointer at("/quantization/quant_algo");
  if (!document.contains(at) || document[at].is_null()) return std::string();
  if (!document[at].is_string()) {
    return Error{Code::kCorrupt, Cat(where, ": quantization.quant_algo: expected a text, found ",
                                     DescribeJson(document[at]))};
  }
  return Cat(document[at].get<std::string>(), ", says ", kModelOptConfig);
}

}  // namespace

std::optional<std::string> IndexAlone(const Source& source) {
  if (!source.file.empty() || HoldsTensors(*source.tree)) return std::nullopt;
  const Result<std::optional<std::string>> index = FindCheckpointIndex(*source.tree);
  if (!index || !*index || HoldsShards(*source.tree, **index)) return std::nullopt;
  return *index;
}

std::optional<std::string> ConfigAlone(const Source& source) {
  if (source.file.empty()) {
    if (!source.tree->Open(kConfig) || HoldsTensors(*source.tree)) return std::nullopt;
    const Result<std::optional<std::string>> index = FindCheckpointIndex(*source.tree);
    const bool alone = index && (!*index || !HoldsShards(*source.tree, **index));
    return alone ? std::optional<std::string>(kConfig) : std::nullopt;
  }
  const std::string& name = source.file;
  const bool fits =
      name.ends_with(".json") && !name.ends_with(".index.json") && name != "distribution.json";
  return fits && source.tree->Open(name) ? std::optional(name) : std::nullopt;
}

Result<PromisedModel> OpenPromised(const Source& source, const std::string& config,
                                   const ModelOptions& options) {
  const std::string where = source.tree->NameOf(config);
  SHARD_TRY(const std::string text, source.tree->ReadText(config, kMaxConfigBytes));
  SHARD_TRY(const HfConfig raw, HfConfig::Parse(where, text));
  SHARD_TRY(const ModelConfig read, ParseModelConfig(where, text));
  Family own;
  const Family* family = &own;
  if (!options.family_file.empty()) {
    SHARD_TRY(own, ReadFamilyFile(options.family_file));
  } else {
    SHARD_TRY(family, FindFamily(where, read));
  }
  std::vector<CheckFinding> findings;
  SHARD_TRY(const ModelPromise promise, ReadPromise(raw, "", read, *family, findings));
  if (!findings.empty()) {
    return Error{Code::kCorrupt, Cat(where, ": ", FindingText(findings[0]))};
  }
  SHARD_TRY(PromisedTensors promised, PromiseTensors(raw, read, *family, promise));
  if (promised.unfollowed.empty() && config == kConfig && !raw.Has(fields::kQuantization)) {
    SHARD_TRY(promised.unfollowed, ModelOptAlgorithm(*source.tree));
  }
  SHARD_TRY(Checkpoint checkpoint,
            Checkpoint::Promised(source, config, std::move(promised.tensors)));
  auto model = MoeModel::Of(std::move(checkpoint), options);
  if (!model) return std::move(model).error();
  return PromisedModel{*std::move(model), std::move(promised.missing), std::move(promised.stored),
                       std::move(promised.unfollowed), promised.partial};
}

}  // namespace moepack
