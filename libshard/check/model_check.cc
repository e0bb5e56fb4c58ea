#include "libshard/check/model_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/check/finding.h"
#include "libshard/check/layer_names.h"
#include "libshard/check/promise.h"
#include "libshard/check/shapes.h"
#include "libshard/model/family_match.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/model.h"

namespace moepack {
namespace {

// Checks that everything a config promises is there: layers and their parts, embedding, norm, head,
// and blocks for multi-token prediction. Only names are checked.

// The parts of a layer, as bits.
enum Has : unsigned {
  kRouter = 1,
  kSelectionBias = 2,
  kExpertIds = 4,
  kGate = 8,
  kUp = 16,
  kDown = 32,
  kShared = 64,
  kDense = 128,
  kMtp = 256,       // a part that only blocks for multi-token prediction have
  kOwnNumber = 512  // a block that is numbered from 0 ({M})
};

constexpr std::string_view kMtpBlock = "block for multi-token prediction";

// What llama.cpp asks for in each such block; the other nextn tensors are optional.
constexpr std::array<std::string_view, 3> kNeededNextn = {"eh_proj", "enorm", "hnorm"};

bool HasToken(const TensorRule& rule, std::string_view token) {
  return rule.pattern.find(token) != std::string::npos;
}

// Returns the bits of a family's row.
unsigned BitsOf(const TensorRule& rule) {
  const std::string& role = rule.role;
  unsigned bits = 0;
  if (rule.part == Part::kShared) bits |= kShared;
  if (rule.part == Part::kExpert) {
    if (role == "gate" || role == "gate_up") bits |= kGate;
    if (role == "up" || role == "gate_up") bits |= kUp;
    if (role == "down") bits |= kDown;
  }
  if (rule.part == Part::kRouter) {
    if (role == "router") bits |= kRouter;
    if (role == "selection_bias") bits |= kSelectionBias;
    if (rule.holds_expert_ids) bits |= kExpertIds;
  }
  if (role == "dense_mlp") bits |= kDense;
  if (role == "mtp") bits |= kMtp;
  if (HasToken(rule, "{M}")) bits |= kOwnNumber;
  return bits;
}

bool IsTower(const ModelTensor& tensor) {
  return tensor.rule->role == "vision" || tensor.rule->role == "audio";
}

class Presence {
 public:
  Presence(const MoeModel& model, const ModelPromise& promise, std::vector<CheckFinding>& findings)
      : model_(model), promise_(promise), findings_(findings), names_(model, promise) {
    for (const TensorRule& rule : model.family().rules) {
      family_ |= BitsOf(rule);
      if (rule.role == "mtp" && HasToken(rule, "{L}")) appended_mtp_ = true;
    }
  }

  void Check(bool mtp_may_lack, bool experts_may_lack) {
    mtp_may_lack_ = mtp_may_lack;
    for (const ModelTensor& tensor : model_.tensors()) {
      if (!IsTower(tensor)) Add(tensor);
    }
    CheckEnds();
    if (promise_.layers.empty()) return;
    CheckLayers();
    CheckMoeLayers();
    CheckExperts();
    if (!experts_may_lack) CheckExpertCounts();
    CheckShared();
    CheckLinearAttention();
    CheckBlocksPastTheLast();
    if (!mtp_may_lack) CheckMtp();
    if (IsGguf()) CheckGgufMtp();
    names_.Check(findings_);
  }

 private:
  struct Layer {
    size_t tensors = 0;
    unsigned bits = 0;
    std::string first;                         // a tensor's name
    bool linear = false, plain = false;        // has linear_attn, has self_attn
    std::set<std::string, std::less<>> nextn;  // of GGUF: "enorm" for "blk.N.nextn.enorm.weight"
  };

  uint32_t decoder() const { return static_cast<uint32_t>(promise_.layers.size()); }
  bool IsGguf() const { return model_.checkpoint().is_gguf(); }
  bool IsMoe(uint32_t layer) const { return model_.FindLayer(layer) != nullptr; }

  void Say(FindingKind kind, const std::string& what, const std::string& expected,
           const std::string& found) {
    findings_.push_back({kind, what, expected, found});
  }
  void SayOfLayers(FindingKind kind, const ExpertIds& layers, std::string_view what,
                   const std::string& expected) {
    if (layers.empty()) return;
    const char* found = kind == FindingKind::kMissing ? "none" : "some";
    Say(kind, Cat(LayersText(layers), ": ", what), expected, found);
  }

  void Add(const ModelTensor& tensor) {
    const std::string_view leaf = LeafOf(model_, tensor);
    const unsigned bits = UseOfLeaf(leaf) == LeafUse::kCompanion ? 0 : BitsOf(*tensor.rule);
    any_mtp_ = any_mtp_ || tensor.mtp;
    if (!tensor.layer) {
      if (leaf != "bias") ends_.push_back(&tensor);
      return;
    }
    Layer& layer = layers_[*tensor.layer];
    const std::string& name = model_.entry(tensor).name;
    if (layer.tensors++ == 0) layer.first = name;
    layer.bits |= bits;
    if (IsGguf() && (bits & kMtp) != 0) layer.nextn.emplace(ModuleName(name, leaf));
    if (promise_.linear_attention && tensor.rule->role == "attention") {
      (name.find(".linear_attn.") == std::string::npos ? layer.plain : layer.linear) = true;
    }
    names_.Add(tensor);
  }

  // Checks embedding, final norm and head. If the family has no row for one, it is not required.
  void CheckEnds() {
    const auto check = [&](std::string_view role, std::string_view what, std::string_view why) {
      const auto& rules = model_.family().rules;
      const auto row = std::find_if(rules.begin(), rules.end(), [&](const TensorRule& rule) {
        return rule.role == role && !HasToken(rule, "{L}") && !HasToken(rule, "{M}");
      });
      if (row == rules.end()) return;
      const bool there = std::any_of(ends_.begin(), ends_.end(), [&](const ModelTensor* tensor) {
        if (UseOfLeaf(tensor->leaf) == LeafUse::kCompanion) return false;
        // In GGUF some architectures call it token_embd_norm (lfm2moe) or output_hc_norm.
        const bool other_norm = IsGguf() && role == "norm" &&
                                model_.entry(*tensor).name.find("_norm.") != std::string::npos;
        return tensor->rule->role == role || other_norm;
      });
      if (!there) {
        Say(FindingKind::kMissing, std::string(what),
            Cat("a tensor like ", Quoted(row->pattern), why), "none");
      }
    };
    check("embedding", "embedding", "");
    check("norm", "final norm", "");
    const bool untied = promise_.tied.has_value() && !*promise_.tied;
    if (untied) check("head", "head", ", as tie_word_embeddings is false");
  }

  void CheckLayers() {
    ExpertIds missing;
    for (uint32_t layer = 0; layer < decoder(); ++layer) {
      if (!layers_.contains(layer)) missing.push_back(layer);
    }
    if (missing.empty()) return;
    Say(FindingKind::kMissing, Cat(LayersText(missing), ": all tensors"),
        Cat(decoder(), " layers (", promise_.layers_key, ")"), Cat(decoder() - missing.size()));
  }

  // Checks that the layers with experts are those that the config names.
  void CheckMoeLayers() {
    // Where the config lists mixers, a layer without experts need not have a feed-forward part.
    const bool dense_known = (family_ & kDense) != 0 && !promise_.mixers;
    ExpertIds no_experts, no_dense, experts;
    for (const auto& [number, layer] : layers_) {
      if (number >= decoder() || !promise_.layers[number].moe) continue;
      const bool moe = *promise_.layers[number].moe;
      if (moe && !IsMoe(number)) no_experts.push_back(number);
      if (!moe && IsMoe(number)) experts.push_back(number);
      if (!moe && !IsMoe(number) && dense_known && (layer.bits & kDense) == 0) {
        no_dense.push_back(number);
      }
    }
    SayOfLayers(FindingKind::kMissing, no_experts, "routed experts",
                Cat("some (", promise_.moe_key, ")"));
    SayOfLayers(FindingKind::kExtra, experts, "routed experts",
                Cat("none, a dense layer (", promise_.moe_key, ")"));
    SayOfLayers(FindingKind::kMissing, no_dense, "dense feed-forward part",
                Cat("one (", promise_.moe_key, ")"));
  }

  bool AnyLayerHas(unsigned bit) const {
    return std::any_of(layers_.begin(), layers_.end(),
                       [&](const auto& layer) { return (layer.second.bits & bit) != 0; });
  }

  // Checks that each MoE layer has all projections of the family, a router, and the router's bias.
  void CheckExperts() {
    const std::pair<unsigned, const char*> parts[] = {{kRouter, "router"},
                                                      {kGate, "gate projection of the experts"},
                                                      {kUp, "up projection of the experts"},
                                                      {kDown, "down projection of the experts"}};
    for (const auto& [bit, what] : parts) {
      if (bit == kGate && IsGguf() && !AnyLayerHas(kGate)) continue;  // experts without gates
      ExpertIds missing;
      for (const MoeLayer& layer : model_.layers()) {
        const bool left_out = layer.layer >= decoder() && mtp_may_lack_ && IsGguf();
        if (!left_out && (family_ & bit) != 0 && (layers_[layer.layer].bits & bit) == 0) {
          missing.push_back(layer.layer);
        }
      }
      SayOfLayers(FindingKind::kMissing, missing, what, "one in a layer with experts");
    }
    if (promise_.selection_bias_key.empty() || (family_ & kSelectionBias) == 0) return;
    ExpertIds missing;
    for (const MoeLayer& layer : model_.layers()) {
      const bool there = (layers_[layer.layer].bits & (kSelectionBias | kExpertIds)) != 0;
      if (layer.layer < decoder() && !there) missing.push_back(layer.layer);
    }
    SayOfLayers(FindingKind::kMissing, missing, "selection bias of the router",
                Cat("one (", promise_.selection_bias_key, ")"));
  }

  // The config's one number is that of every layer. Opening the model has refused more experts.
  void CheckExpertCounts() {
    const ModelConfig& config = model_.config();
    if (config.expert_count == 0 || !config.experts_per_layer.empty()) return;
    std::map<uint32_t, ExpertIds> fewer;  // by their number
    for (const MoeLayer& layer : model_.layers()) {
      if (layer.layer < decoder() && layer.expert_count < config.expert_count)
        fewer[layer.expert_count].push_back(layer.layer);
    }
    for (const auto& [expert_count, layers] : fewer) {
      Say(FindingKind::kMissing, Cat(LayersText(layers), ": routed experts"),
          Cat(config.expert_count, " (", config.expert_count_key, ")"), Cat(expert_count));
    }
  }

  void CheckShared() {
    if (!promise_.shared || (family_ & kShared) == 0) return;
    ExpertIds wrong;
    for (const MoeLayer& layer : model_.layers()) {
      const bool there = (layers_[layer.layer].bits & kShared) != 0;
      if (layer.layer < decoder() && there != *promise_.shared) wrong.push_back(layer.layer);
    }
    SayOfLayers(*promise_.shared ? FindingKind::kMissing : FindingKind::kExtra, wrong,
                "shared experts",
                *promise_.shared ? "some, as the config counts them" : "none in the config");
  }

  // Checks families that have a separate module for linear attention.
  void CheckLinearAttention() {
    if (!promise_.linear_attention) return;
    ExpertIds no_linear, no_plain;
    for (const auto& [number, layer] : layers_) {
      if (number >= decoder()) continue;
      const LayerKind kind = promise_.layers[number].kind;
      if (kind == LayerKind::kLinear && !layer.linear) no_linear.push_back(number);
      if (kind == LayerKind::kFull && !layer.plain) no_plain.push_back(number);
    }
    SayOfLayers(FindingKind::kMissing, no_linear, "linear attention",
                "some as the config lists it");
    SayOfLayers(FindingKind::kMissing, no_plain, "full attention", "some as the config lists it");
  }

  // Layers numbered after the last one are blocks for multi-token prediction, as many as the config
  // announces. If it announces none, a layer counts if it has parts that only such blocks have.
  void CheckBlocksPastTheLast() {
    for (auto at = layers_.lower_bound(decoder()); at != layers_.end(); ++at) {
      const auto& [number, layer] = *at;
      if ((layer.bits & kOwnNumber) != 0) continue;
      const bool marked = (layer.bits & kMtp) != 0;
      const uint64_t end = uint64_t{decoder()} + promise_.mtp.value_or(marked ? UINT32_MAX : 0);
      if (number >= end) {
        Say(FindingKind::kExtra, LayersText({number}),
            Cat("layers below ", decoder() + promise_.mtp.value_or(0), " (", promise_.layers_key,
                promise_.mtp.value_or(0) > 0 ? " and announced blocks" : "", ")"),
            Cat(Plural(layer.tensors, "tensor"), layer.tensors == 1 ? ", " : ", the first of them ",
                Quoted(layer.first)));
      } else if (appended_mtp_ && !marked && (!IsGguf() || HasWholeMtpBlocks())) {
        Say(FindingKind::kMissing, Cat(LayersText({number}), ": what makes a ", kMtpBlock),
            IsGguf() ? "tensors like nextn.eh_proj" : "tensors like eh_proj", "none");
      }
    }
  }

  void CheckMtp() {
    if (promise_.mtp.value_or(0) == 0 || (family_ & kMtp) == 0) return;
    const std::string expected = Cat("one, as ", promise_.mtp_key, " announces ", *promise_.mtp);
    if (!appended_mtp_ && (family_ & kOwnNumber) == 0) {
      if (!any_mtp_) Say(FindingKind::kMissing, std::string(kMtpBlock), expected, "none");
      return;
    }
    ExpertIds missing;
    for (uint32_t block = 0; block < *promise_.mtp; ++block) {
      if (!layers_.contains(decoder() + block)) missing.push_back(decoder() + block);
    }
    SayOfLayers(FindingKind::kMissing, missing, kMtpBlock, expected);
  }

  // In GGUF these blocks are numbered on, and a key says how many of the last blocks they are.
  void CheckGgufMtp() {
    for (const auto& [number, layer] : layers_) {
      if (number >= decoder() || (layer.bits & kMtp) == 0) continue;
      Say(FindingKind::kExtra, Cat(LayersText({number}), ": tensors like nextn.eh_proj"),
          Cat("none in the first ", Plural(decoder(), "block"), ", as ", promise_.mtp_key, " is ",
              promise_.mtp.value_or(0)),
          "some");
    }
    if (!HasWholeMtpBlocks()) return;
    CheckNextn();
    names_.CheckMtpBlocks(findings_);
  }

  // Whether each announced block of a GGUF must have all that such a block has: not where attention
  // and feed-forward part are blocks of their own.
  bool HasWholeMtpBlocks() const {
    return !mtp_may_lack_ && !HasSingleParts(model_.config().architecture);
  }

  // A block without any of them has been reported already.
  void CheckNextn() {
    for (auto at = layers_.lower_bound(decoder()); at != layers_.end(); ++at) {
      const auto& [number, layer] = *at;
      for (const std::string_view name : kNeededNextn) {
        if (layer.nextn.empty() || layer.nextn.contains(name)) continue;
        Say(FindingKind::kMissing,
            Cat("tensor ", Quoted(Cat("blk.", number, ".nextn.", name, ".weight"))),
            Cat("one in a ", kMtpBlock), "none");
      }
    }
  }

  const MoeModel& model_;
  const ModelPromise& promise_;
  std::vector<CheckFinding>& findings_;
  LayerNames names_;
  bool mtp_may_lack_ = false;
  unsigned family_ = 0;        // parts that the family has rows for
  bool appended_mtp_ = false;  // its blocks for multi-token prediction are layers after the last
  bool any_mtp_ = false;
  std::map<uint32_t, Layer> layers_;
  std::vector<const ModelTensor*> ends_;  // outside layers, without biases
};

// With `mtp_may_lack`, blocks for multi-token prediction that the config announces may be missing,
// as they are in many published checkpoints.
void CheckPresence(const MoeModel& model, const ModelPromise& promise, const CheckOptions& options,
                   std::vector<CheckFinding>& findings) {
  Presence(model, promise, findings).Check(options.mtp_may_lack, options.experts_may_lack);
}

constexpr size_t kNamedFindings = 5;

Result<ModelPromise> PromiseOf(const MoeModel& model, const CheckOptions& options,
                               std::vector<CheckFinding>& findings) {
  if (model.checkpoint().is_gguf()) {
    return ReadGgufPromise(model.checkpoint().metadata(), model.config());
  }
  SHARD_TRY(const HfConfig config,
            HfConfig::Parse(model.config_path().string(), model.config_text()));
  return ReadPromise(config, options.defaults, model.config(), model.family(), findings);
}

}  // namespace

Result<std::vector<CheckFinding>> CheckModel(const MoeModel& model, const CheckOptions& options) {
  if (!model.has_config()) {
    return Error{Code::kNotFound,
                 Cat(model.config_path().string(),
                     ": expected the config that the tensors are checked against, found none"),
                 "name it with --config"};
  }
  std::vector<CheckFinding> findings;
  SHARD_TRY(const ModelPromise promise, PromiseOf(model, options, findings));
  CheckPresence(model, promise, options, findings);
  if (!model.checkpoint().names_only()) CheckShapes(model, promise, findings);
  return findings;
}

Result<std::vector<CheckFinding>> CheckConfig(const HfConfig& config, const ModelConfig& model,
                                              const Family& family) {
  std::vector<CheckFinding> findings;
  SHARD_CHECK(ReadPromise(config, "", model, family, findings));
  return findings;
}

namespace {

// Returns a hint with a list-tensors command. There is none for a config alone, which has no
// tensors to list, or for a checkpoint that was assembled in memory. A --family file is not known
// here.
std::string CheckHint(const MoeModel& model) {
  const SourceTree& tree = *model.checkpoint().tree();
  if (model.checkpoint().promised() || !tree.LocalPath("")) return "";
  const fs::path& config = model.config_path();
  std::vector<std::string> words = {"moepack", "list-tensors",
                                    PathArgument(model.checkpoint().source().string())};
  const bool beside = model.checkpoint().is_gguf() || config == tree.NameOf("config.json");
  if (!beside) words.insert(words.end(), {"--config", PathArgument(config.string())});
  words.emplace_back("--check");
  return Cat("`", ShellCommand(words), "` names everything that disagrees");
}

}  // namespace

Status RequirePromised(const MoeModel& model, CheckOptions options) {
  options.experts_may_lack = true;  // conversion says what its runtime can hold
  SHARD_TRY(const std::vector<CheckFinding> findings, CheckModel(model, options));
  if (findings.empty()) return Ok();
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(findings.size(), kNamedFindings); ++i) {
    texts.push_back(FindingText(findings[i]));
  }
  const size_t more = findings.size() - texts.size();
  if (more > 0) texts.push_back(Cat("and ", more, " more"));
  return Error{Code::kCorrupt, Cat(model.config_path().string(), ": ", Join(texts, "; ")),
               CheckHint(model)};
}

}  // namespace moepack
