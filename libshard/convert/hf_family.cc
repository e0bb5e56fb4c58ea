#include "libshard/convert/hf_family.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/check/model_check.h"
#include "libshard/check/promise.h"
#include "libshard/convert/model_card.h"
#include "libshard/convert/tokenizers/chat_template.h"
#include "libshard/convert/tokenizers/special_tokens.h"
#include "libshard/model/config_defaults.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/family_match.h"
#include "libshard/model/gguf_config.h"

namespace moepack {
namespace {

// Runs one conversion. The steps fill `out_` in the order of llama.cpp's files, so that equal
// models give equal bytes.
class Conversion {
 public:
  Conversion(const MoeModel& model, const HfFamily& family, const ConvertOptions& options)
      : model_(model),
        family_(family),
        options_(options),
        defaults_(ConfigDefaults(model.family(), model.config())) {}

  Result<GgufModel> Run() {
    if (model_.checkpoint().names_only()) {
      return Error{Code::kUnsupported, Cat(model_.checkpoint().source().string(),
                                           ": expected tensors, found an index without its files")};
    }
    SHARD_CHECK(CheckNotMlx());
    SHARD_CHECK(RequirePromised(model_, {.defaults = defaults_, .mtp_may_lack = true}));
    SHARD_CHECK(ReadConfig());
    if (family_.keeps_mtp && options_.mtp) CountMtpLayers();
    WarnOfTowers();
    if (!family_.keeps_mtp) WarnOfMtp();
    SHARD_CHECK(CheckLayers());
    SHARD_CHECK(CheckExperts());
    SHARD_CHECK(CheckMtpExperts());
    SHARD_CHECK(AddGeneralKeys(*tree(), family_.architecture, Names(), out_.metadata));
    SHARD_CHECK(AddTensors());
    SHARD_CHECK(AddArchKeys());
    SHARD_CHECK(CompareWithModel());
    if (options_.part == ConvertOptions::Part::kWhole) SHARD_CHECK(AddTokenizer());
    if (options_.part == ConvertOptions::Part::kTokenizerIfUsable)
      SHARD_CHECK(AddTokenizerIfUsable());
    return std::move(out_);
  }

  // Makes the part that needs only config.json.
  Result<GgufModel> RunKeys() {
    SHARD_CHECK(ReadConfig());
    out_.metadata.Set("general.architecture", GgufValue::String(family_.architecture));
    SHARD_CHECK(AddArchKeys());
    return std::move(out_);
  }

  // Makes the part that needs only the tensors.
  Result<GgufModel> RunTensors() {
    SHARD_CHECK(CheckNotMlx());
    SHARD_CHECK(ReadConfig());
    if (family_.keeps_mtp && options_.mtp) CountMtpLayers();
    SHARD_CHECK(AddTensors());
    return std::move(out_);
  }

 private:
  const SourceTreePtr& tree() const { return model_.checkpoint().tree(); }

  ModelNames Names() const {
    ModelNames names{"", model_.family().name};
    const auto field = config_.FindAtRoot({"_name_or_path"});
    if (field && field->value->is_string()) names.name_or_path = field->value->get<std::string>();
    return names;
  }

  Status ReadConfig() {
    SHARD_TRY(const HfConfig config,
              HfConfig::Parse(model_.config_path().string(), model_.config_text()));
    SHARD_TRY(config_, config.WithDefaults(defaults_));
    SHARD_TRY(shape_, ReadShape(config_));
    SHARD_TRY(weights_, ReadWeightConfig(config_));
    heads_.heads = shape_.heads;
    heads_.kv_heads = shape_.kv_heads;
    return family_.heads == nullptr ? Ok() : family_.heads(config_, heads_);
  }

  // MLX renames the experts when it converts a checkpoint, and also changes numbers: it transposes
  // convolutions and adds 1 to norms, which the rows here would do again.
  Status CheckNotMlx() const {
    for (const ModelTensor& tensor : model_.tensors()) {
      const TensorEntry& entry = model_.entry(tensor);
      // Packed ones are named by their number format.
      if (!HasMlxExperts(entry.name) || tensor.part != Part::kExpert || entry.dtype == "U32")
        continue;
      if (UseOfLeaf(tensor.leaf) == LeafUse::kCompanion) continue;
      return Error{Code::kUnsupported,
                   Cat(model_.checkpoint().files()[entry.file].path.string(), ": tensor ",
                       Quoted(entry.name),
                       ": expected a checkpoint of transformers, found one that MLX converted"),
                   "convert the model that it was made from; --format safetensors splits this one"};
    }
    return Ok();
  }

  // Counts the blocks for multi-token prediction that have tensors, because a config often
  // announces blocks that were never published.
  void CountMtpLayers() {
    for (const ModelTensor& tensor : model_.tensors()) {
      const int64_t past =
          tensor.mtp && tensor.layer ? int64_t{*tensor.layer} + 1 - shape_.layers : 0;
      shape_.mtp_layers = static_cast<uint32_t>(std::max<int64_t>(shape_.mtp_layers, past));
    }
    if (shape_.mtp_layers >= model_.config().mtp_layers) return;
    const uint32_t found = shape_.mtp_layers;
    out_.faults.push_back(Cat(config_.where(), ": expected tensors of ",
                              Plural(model_.config().mtp_layers, "block"),
                              " for multi-token prediction, as it announces, found ",
                              found == 0 ? "none, and the GGUF has none"
                                         : Cat("those of ", found, ", and the GGUF has no others"),
                              "; --no-mtp asks for none"));
  }

  void WarnOfTowers() {
    for (const char* kind : {"vision", "audio"}) {
      const auto count =
          std::count_if(model_.tensors().begin(), model_.tensors().end(),
                        [&](const ModelTensor& tensor) { return tensor.rule->role == kind; });
      if (count == 0) continue;
      out_.warnings.push_back(Cat(model_.checkpoint().source().string(), ": left out ",
                                  Plural(count, Cat(kind, " tensor")),
                                  "; the GGUF is the text model alone"));
    }
  }

  void WarnOfMtp() {
    const auto count = std::count_if(model_.tensors().begin(), model_.tensors().end(),
                                     [](const ModelTensor& tensor) { return tensor.mtp; });
    if (count == 0) return;
    out_.warnings.push_back(Cat(model_.checkpoint().source().string(), ": left out ",
                                Plural(count, "tensor"),
                                " of blocks for multi-token prediction, which the GGUF "
                                "form of this family does not have"));
  }

  Status CheckLayers() const {
    for (uint32_t layer = 0; family_.all_layers_moe && layer < shape_.layers; ++layer) {
      if (model_.FindLayer(layer) != nullptr) continue;
      return Error{
          Code::kUnsupported,
          Cat(config_.where(), ": layer ", layer, ": expected routed experts, which the runtime's ",
              family_.architecture, " has in every layer, found a dense one (mlp_only_layers, ",
              "decoder_sparse_step)"),
          kNoGgufHint};
    }
    return Ok();
  }

  // Layers that were pruned to different numbers of experts have no GGUF form.
  Status CheckExperts() const {
    const MoeLayer* first = nullptr;
    for (const MoeLayer& layer : model_.layers()) {
      if (layer.mtp) continue;
      if (first == nullptr) first = &layer;
      if (layer.expert_count == first->expert_count) continue;
      return Error{
          Code::kUnsupported,
          Cat(model_.checkpoint().source().string(), ": layer ", layer.layer, ": expected ",
              first->expert_count, " experts as layer ", first->layer,
              " has, since llama.cpp has one number for all layers, found ", layer.expert_count),
          "--format safetensors splits this model"};
    }
    return Ok();
  }

  // A GGUF has one number of experts for all layers, the kept blocks included.
  Status CheckMtpExperts() const {
    const uint32_t expert_count = model_.max_experts();
    for (const MoeLayer& layer : model_.layers()) {
      if (!layer.mtp || layer.layer >= shape_.layers + shape_.mtp_layers) continue;
      if (layer.expert_count == expert_count) continue;
      return Error{Code::kUnsupported,
                   Cat(model_.checkpoint().source().string(), ": layer ", layer.layer,
                       ", a block for multi-token prediction: expected ", expert_count,
                       " experts as in the layers before it, since a GGUF has one number for all, ",
                       "found ", layer.expert_count),
                   "--no-mtp leaves the block out; --format safetensors keeps it"};
    }
    return Ok();
  }

  // Whether output.weight is left out. A head that is not the embedding is kept, whatever the
  // config says, as in llama.cpp's converter.
  Result<bool> IsTied() {
    SHARD_TRY(const std::optional<bool> tied, config_.FindBool(fields::kTied));
    if (!HasHead()) return tied.value_or(true);
    if (!tied.value_or(false)) return false;
    SHARD_TRY(const bool own, model_.HasOwnHead());
    if (!own) return true;
    out_.warnings.push_back(Cat(config_.where(), ": ", config_.Find(fields::kTied)->path,
                                ": expected a head that is the embedding, found one that "
                                "differs in type or values; it is kept as output.weight"));
    return false;
  }

  Status AddTensors() {
    TensorMapOptions map;
    map.rows = family_.rows;
    map.layers = shape_.layers;
    map.mtp_layers = shape_.mtp_layers;
    map.weights = weights_;
    map.shape = heads_;
    SHARD_TRY(map.tied, IsTied());
    map.needs_output = family_.needs_output;
    map.own_types = family_.own_types;
    SHARD_TRY(out_.tensors, MapTensors(model_, map));
    if (family_.check != nullptr) SHARD_CHECK(family_.check(config_, shape_, out_.tensors));
    SHARD_CHECK(AddRopeFactors());
    AddSizeLabel(out_.tensors, out_.metadata);
    return Ok();
  }

  bool HasHead() const {
    const std::vector<ModelTensor>& tensors = model_.tensors();
    return std::any_of(tensors.begin(), tensors.end(), [&](const ModelTensor& tensor) {
      return tensor.rule->role == "head" && tensor.leaf != "bias" &&
             UseOfLeaf(tensor.leaf) != LeafUse::kCompanion;
    });
  }

  Status AddRopeFactors() {
    SHARD_TRY(const std::vector<RopeTensor> factors,
              family_.rope_tensors != nullptr
                  ? family_.rope_tensors(config_)
                  : RopeTensors(config_, family_.rope, shape_.head_size));
    for (const RopeTensor& made : factors) {
      GgufTensor tensor;
      tensor.name = made.name;
      tensor.shape = {made.values.size()};
      tensor.stored = tensor.type = quant::FindFormat("f32");
      tensor.fixed = true;
      tensor.literal.resize(made.values.size() * sizeof(float));
      std::memcpy(tensor.literal.data(), made.values.data(), tensor.literal.size());
      out_.tensors.push_back(std::move(tensor));
    }
    return Ok();
  }

  Status AddArchKeys() {
    ArchKeys keys(family_.architecture, out_.metadata);
    const RoutingToWrite routing = {model_.routing(), model_.config().routing};
    SHARD_CHECK(CheckWord(config_, fields::kActivation, family_.activations));
    SHARD_CHECK(
        AddBaseKeys(config_, routing, shape_.layers + shape_.mtp_layers, keys, family_.own_keys));
    if (shape_.mtp_layers > 0) keys.U32("nextn_predict_layers", shape_.mtp_layers);
    if (family_.rope_tensors == nullptr)
      SHARD_CHECK(AddRopeKeys(config_, family_.rope, keys, out_.warnings));
    if (family_.keys != nullptr) SHARD_CHECK(family_.keys(config_, shape_, keys));
    // There are no tensors yet where only config.json is asked for.
    if (family_.tensor_keys != nullptr && !out_.tensors.empty())
      SHARD_CHECK(family_.tensor_keys(model_, config_, out_.tensors, keys));
    AddWeightKeys(model_.routing(), keys);
    SHARD_CHECK(CheckGraphRouting(config_, model_.routing(), out_.metadata, out_.warnings));
    return CheckExpertCounts(config_, family_.architecture, out_.metadata);
  }

  // Numbers that are read twice, for the plan (ModelConfig) and for the runtime (the keys), must
  // agree.
  Status CompareWithModel() const {
    std::vector<std::string> warnings;
    SHARD_TRY(const ModelConfig written, ReadGgufConfig(config_.where(), out_.metadata, warnings));
    const ModelConfig& read = model_.config();
    const struct {
      const char* what;
      uint32_t read, written;
    } rows[] = {{"layers", read.layers, written.layers},
                {"experts of a layer", read.expert_count, written.expert_count},
                {"experts of a token", read.top_k, written.top_k},
                {"groups of experts", model_.routing().groups, written.routing.groups.value_or(0)},
                {"groups of a token", model_.routing().groups_used,
                 written.routing.groups_used.value_or(0)},
                {"hidden size", read.hidden_size, written.hidden_size}};
    for (const auto& row : rows) {
      if (row.written != 0) SHARD_CHECK(CompareNumber(row.what, row.read, row.written));
    }
    return CompareWidths(written.expert_intermediate_size);
  }

  // Compares the sizes that the check promises with those that a runtime makes of the keys. One
  // that no key gives is a difference, too. Sizes that differ between layers are not compared.
  Status CompareWidths(uint32_t expert_width) const {
    std::vector<CheckFinding> findings;  // RequirePromised has refused these already
    SHARD_TRY(const ModelPromise promise,
              ReadPromise(config_, defaults_, model_.config(), model_.family(), findings));
    const std::string prefix = Cat(family_.architecture, ".");
    const auto written = [&](const char* key) { return out_.metadata.Uint(prefix + key); };
    if (promise.heads) {
      const uint64_t square = shape_.hidden / shape_.heads;
      SHARD_CHECK(CompareNumber("size of a head", promise.heads->size,
                                written("attention.key_length").value_or(square)));
    }
    SHARD_CHECK(CompareNumber("width of an expert", promise.expert_width, expert_width));
    const char* const kDense = "feed_forward_length";
    const bool listed = out_.metadata.Find(prefix + kDense) != nullptr && !written(kDense);
    if (listed) return Ok();
    return CompareNumber("width of a dense feed-forward part", promise.dense_width,
                         written(kDense).value_or(0));
  }

  // A number that was not read (0) is equal to any.
  Status CompareNumber(const char* what, uint64_t read, uint64_t written) const {
    if (read == 0 || read == written) return Ok();
    return Error{Code::kCorrupt,
                 Cat(config_.where(), ": ", what, ": expected ", read, " as in the model, found ",
                     written == 0 ? "none" : Cat(written), " in the metadata of its GGUF")};
  }

  Status AddSpecial(const TokenizerFiles& files) {
    SHARD_TRY(SpecialTokens special, ReadSpecialTokens(files, config_, shape_.vocabulary));
    SetByText(files, family_.special_texts, shape_.vocabulary, special);
    if (family_.lists_turn_end) SetTurnEnd(config_, shape_.vocabulary, special);
    if (family_.eos_of_config) {
      SHARD_TRY(const std::optional<uint32_t> eos, config_.FindU32({"eos_token_id"}));
      if (eos && *eos < shape_.vocabulary) special.ids["eos"] = *eos;
    }
    AddSpecialTokens(special, out_.metadata);
    return Ok();
  }

  Status AddTokenizer() {
    SHARD_TRY(const TokenizerFiles files, TokenizerFiles::Read(tree()));
    SHARD_TRY(const Vocabulary vocabulary,
              family_.vocabulary({files, shape_.vocabulary, family_.pre, options_.pre}));
    SHARD_CHECK(CheckDistinct(tree()->name(), vocabulary));
    if (!vocabulary.warning.empty()) out_.warnings.push_back(vocabulary.warning);
    if (const size_t padding = CountPadding(vocabulary)) {
      out_.notes.push_back(Cat(tree()->name(), ": the tokenizer has ",
                               vocabulary.tokens.size() - padding, " tokens for ",
                               vocabulary.tokens.size(), " rows of the embedding; the others ",
                               "become [PAD<id>]"));
    }
    AddVocabulary(vocabulary, out_.metadata);
    if (family_.tokenizer_keys != nullptr) {
      SHARD_CHECK(family_.tokenizer_keys(files, vocabulary, out_.metadata));
    }
    SHARD_CHECK(AddSpecial(files));
    return AddChatTemplate(files, out_.metadata);
  }

  // Leaves out a tokenizer that is missing or not supported, except for the ids of special tokens,
  // which count where only ids are used, too. A corrupt tokenizer is an error.
  Status AddTokenizerIfUsable() {
    GgufModel without;  // the tensors stay where they are
    without.metadata = out_.metadata;
    without.warnings = out_.warnings;
    without.notes = out_.notes;
    without.faults = out_.faults;
    const Status added = AddTokenizer();
    if (added) return Ok();
    const Code code = added.error().code;
    if (code != Code::kNotFound && code != Code::kUnsupported) return added.error();
    without.tensors = std::move(out_.tensors);
    out_ = std::move(without);
    out_.no_tokenizer = added.error();
    const Result<TokenizerFiles> files = TokenizerFiles::Read(tree());
    if (!files) return Ok();
    return AddSpecial(*files);
  }

  const MoeModel& model_;
  const HfFamily& family_;
  const ConvertOptions& options_;
  const std::string_view defaults_;
  HfConfig config_;
  HfShape shape_;
  WeightConfig weights_;
  HeadShape heads_;
  GgufModel out_;
};

}  // namespace

void AddModelRows(HfFamily& family) {
  family.rows.push_back({"embed_tokens.weight", "token_embd.weight"});
  family.rows.push_back({"norm.weight", "output_norm.weight"});
  family.rows.push_back({"lm_head.weight", "output.weight"});
}

void AddAttentionRows(HfFamily& family, const AttentionRows& attention) {
  const std::string from = attention.at, to = "blk.{L}.";
  const std::string leaf = attention.biases ? ".{W}" : ".weight";
  family.rows.push_back({from + "input_layernorm.weight", to + "attn_norm.weight"});
  const auto add = [&](const char* source, const char* target, RowOrder order) {
    family.rows.push_back({from + source + leaf, to + target + leaf, order});
  };
  add("self_attn.q_proj", "attn_q", attention.query);
  add("self_attn.k_proj", "attn_k", attention.key);
  add("self_attn.v_proj", "attn_v", RowOrder::kAsIs);
  add("self_attn.o_proj", "attn_output", RowOrder::kAsIs);
}

void AddQueryKeyNormRows(HfFamily& family, const char* at) {
  for (const char* part : {"q", "k"}) {
    family.rows.push_back(
        {Cat(at, "self_attn.", part, "_norm.weight"), Cat("blk.{L}.attn_", part, "_norm.weight")});
  }
}

void AddExpertRows(HfFamily& family, const char* at, const ExpertNames& names) {
  for (const auto& [name, target] :
       {std::pair(names.gate, "gate"), std::pair(names.up, "up"), std::pair(names.down, "down")}) {
    family.rows.push_back(
        {Cat(at, "{E}.", name, ".weight"), Cat("blk.{L}.ffn_", target, "_exps.weight")});
  }
}

void AddFusedExpertRows(HfFamily& family, const char* at) {
  const std::string gate_up = Cat(at, "gate_up_proj");
  family.rows.push_back({gate_up, "blk.{L}.ffn_gate_exps.weight", RowOrder::kFirstHalf});
  family.rows.push_back({gate_up, "blk.{L}.ffn_up_exps.weight", RowOrder::kSecondHalf});
  family.rows.push_back({Cat(at, "down_proj"), "blk.{L}.ffn_down_exps.weight"});
}

Result<GgufModel> ConvertHf(const MoeModel& model, const HfFamily& family,
                            const ConvertOptions& options) {
  Conversion conversion(model, family, options);
  switch (options.part) {
    case ConvertOptions::Part::kKeys:
      return conversion.RunKeys();
    case ConvertOptions::Part::kTensors:
      return conversion.RunTensors();
    case ConvertOptions::Part::kWhole:
    case ConvertOptions::Part::kNoTokenizer:
    case ConvertOptions::Part::kTokenizerIfUsable:
      break;
  }
  return conversion.Run();
}

}  // namespace moepack
