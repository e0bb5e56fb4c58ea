#include "libshard/model/model.h"

#include <algorithm>
#include <map>
#include <set>

#include "libshard/base/digest.h"
#include "libshard/base/limits.h"
#include "libshard/base/local_tree.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text.h"
#include "libshard/model/family_find.h"
#include "libshard/model/gguf_config.h"
#include "libshard/model/gguf_experts.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/layer_experts.h"

namespace moepack {
namespace {

constexpr size_t kVersionDigits = 16;
// Stands for "more decoder layers than any model has" while they are not known yet.
constexpr uint32_t kManyLayers = 1u << 24;

std::string Where(const Checkpoint& checkpoint, const TensorEntry& entry) {
  return Cat(checkpoint.files()[entry.file].path.string(), ": tensor ", Quoted(entry.name));
}

}  // namespace

// Fills a MoeModel step by step; each step relies on the ones before.
class ModelBuilder {
 public:
  bool names_only() const { return model_.checkpoint_.names_only(); }

  explicit ModelBuilder(Checkpoint checkpoint) { model_.checkpoint_ = std::move(checkpoint); }

  bool can_be_read() const { return !names_only() && !model_.checkpoint_.promised(); }

  Status ReadConfig(const ModelOptions& options) {
    model_.warnings_ = model_.checkpoint_.warnings();
    if (model_.checkpoint_.is_gguf()) return ReadGguf(options);
    SHARD_TRY(const bool there, ReadConfigText(options));
    if (!there) return Ok();
    SHARD_TRY(model_.config_, ParseModelConfig(model_.config_path_.string(), model_.config_text_));
    model_.config_sha256_ = Sha256Hex(model_.config_text_);
    model_.has_config_ = true;
    return Ok();
  }

  Status ChooseFamily(const ModelOptions& options) {
    if (!options.family_file.empty()) {
      SHARD_TRY(Family family, ReadFamilyFile(options.family_file));
      model_.family_ = std::make_shared<const Family>(std::move(family));
      return Ok();
    }
    const std::string source = model_.checkpoint_.source().string();
    const Family* family = nullptr;
    if (model_.checkpoint_.is_gguf()) {
      family = &GgufFamily();
    } else if (model_.has_config_) {
      SHARD_TRY(family, FindFamily(model_.config_path_.string(), model_.config_));
    } else {
      std::vector<std::string_view> names;
      for (const TensorEntry& entry : model_.checkpoint_.tensors()) names.push_back(entry.name);
      SHARD_TRY(family, FindFamilyByNames(source, names));
      model_.warnings_.push_back(
          Cat(source, ": no config.json: family ", family->name,
              " and its routing are guessed from the tensor names, top-k is unknown"));
    }
    model_.family_ = std::shared_ptr<const Family>(std::shared_ptr<const Family>(), family);
    return Ok();
  }

  Status Classify() {
    FamilyMatcher matcher(*model_.family_, DecoderLayers());
    const std::vector<TensorEntry>& entries = model_.checkpoint_.tensors();
    size_t unknown = 0;
    const TensorEntry* first_unknown = nullptr;
    model_.tensors_.reserve(entries.size());
    for (uint32_t i = 0; i < entries.size(); ++i) {
      const TensorClass found = matcher.Classify(entries[i].name);
      if (found.rule == nullptr) {
        if (unknown++ == 0) first_unknown = &entries[i];
        continue;
      }
      if (found.layer >= static_cast<int>(kMaxLayers)) {
        return Error{Code::kUnsupported,
                     Cat(Where(model_.checkpoint_, entries[i]), ": layer: expected below ",
                         kMaxLayers, ", found ", found.layer)};
      }
      model_.tensors_.push_back({.index = i,
                                 .part = found.rule->part,
                                 .rule = found.rule,
                                 .leaf = found.leaf,
                                 .layer = found.layer,
                                 .expert = found.expert,
                                 .mtp = found.mtp});
    }
    if (unknown == 0) return Ok();
    return Error{Code::kUnsupported,
                 Cat(Where(model_.checkpoint_, *first_unknown), ": expected a tensor of family ",
                     model_.family_->name, ", found a name that no rule matches (", unknown,
                     " such tensors)"),
                 "describe the model in a family file and name it with --family "
                 "(docs/families.md)"};
  }

  // The rules of GgufFamily take any name as trunk; this refuses what only looks like it.
  Status CheckGgufTrunk() {
    if (model_.family_.get() != &GgufFamily()) return Ok();
    for (const ModelTensor& tensor : model_.tensors_) {
      const TensorEntry& entry = model_.entry(tensor);
      if (IsLegacyExpert(entry.name)) {
        return Error{Code::kUnsupported,
                     Cat(Where(model_.checkpoint_, entry),
                         ": expected the experts of a layer in one tensor (ffn_gate_exps), found "
                         "one tensor per expert, a layout that llama.cpp no longer reads"),
                     "convert the model again with a current llama.cpp"};
      }
      if (tensor.rule->part != Part::kTrunk || IsKnownTrunk(entry.name)) continue;
      const auto& shape = entry.shape;
      if (std::find(shape.begin(), shape.end(), model_.config_.experts) == shape.end()) continue;
      return Error{Code::kUnsupported,
                   Cat(Where(model_.checkpoint_, entry), ": shape ", FormatShape(shape),
                       ": expected a tensor without an expert axis, found a name that is not known "
                       "here and an axis as long as the number of experts (",
                       model_.config_.experts, ")"),
                   "describe the model in a family file and name it with --family "
                   "(docs/families.md)"};
    }
    return Ok();
  }

  // Counts the experts of every layer and checks that each is there with all its tensors.
  Status CollectLayers() {
    LayerExpertTable table(model_.checkpoint_, model_.config_, model_.tensors_);
    SHARD_TRY(model_.layers_, table.Collect());
    if (!model_.layers_.empty()) return Ok();
    return Error{Code::kUnsupported,
                 Cat(model_.checkpoint_.source().string(), ": expected routed experts, found ",
                     model_.tensors_.size(), " tensors and no expert among them"),
                 "there is nothing to split in a dense model"};
  }

  // Layers of one GGUF have the same kinds of expert tensors and a router each: runtimes ask for
  // them in every layer. Explicit experts of checkpoints are checked one by one already.
  Status CheckGgufLayers() const {
    if (!model_.checkpoint_.is_gguf()) return Ok();
    std::map<int, std::set<std::string>> kinds;
    for (const ModelTensor& tensor : model_.tensors_) {
      if (tensor.part != Part::kExpert && tensor.part != Part::kRouter) continue;
      kinds[tensor.layer].insert(Cat(tensor.rule->role, ".", tensor.leaf));
    }
    for (const MoeLayer& layer : model_.layers_) {
      const std::set<std::string>& first = kinds.at(static_cast<int>(model_.layers_[0].layer));
      const std::set<std::string>& here = kinds.at(static_cast<int>(layer.layer));
      if (here == first) continue;
      const std::vector<std::string> expected(first.begin(), first.end());
      const std::vector<std::string> found(here.begin(), here.end());
      return Error{Code::kCorrupt,
                   Cat(model_.checkpoint_.source().string(), ": layer ", layer.layer,
                       ": expected experts and router of ", Join(expected, ", "), " as layer ",
                       model_.layers_[0].layer, " has, found ", Join(found, ", "))};
    }
    return CheckLayerNumbers();
  }

  Status CheckLayerNumbers() const {
    const uint32_t blocks = model_.config_.layers + model_.config_.mtp_layers;
    const uint32_t last = model_.layers_.back().layer;
    if (blocks == 0 || last < blocks) return Ok();
    return Error{Code::kCorrupt,
                 Cat(model_.checkpoint_.source().string(), ": block_count: expected ", "more than ",
                     last, ", the last layer with experts, found ", blocks)};
  }

  Status CheckConfig() {
    if (!model_.has_config_) return Ok();
    const ModelConfig& config = model_.config_;
    for (MoeLayer& layer : model_.layers_) {
      layer.top_k = layer.layer < config.top_k_per_layer.size()
                        ? config.top_k_per_layer[layer.layer]
                        : config.top_k;
      if (config.experts != 0 && layer.experts != config.experts) {
        return Error{Code::kCorrupt,
                     Cat(model_.config_path_.string(), ": ", config.expert_count_key, ": expected ",
                         layer.experts, " as layer ", layer.layer, " has, found ", config.experts)};
      }
      if (layer.top_k > layer.experts) {
        return Error{
            Code::kCorrupt,
            Cat(model_.config_path_.string(), ": experts per token: expected at most ",
                layer.experts, " (the experts of layer ", layer.layer, "), found ", layer.top_k)};
      }
    }
    return Ok();
  }

  // Pages spread evenly over the tensor data of every file.
  Status SampleWeights() {
    Sha256 hash;
    for (const SourceFile& source : model_.checkpoint_.files()) {
      SHARD_TRY(const ByteSourcePtr file, OpenUnchanged(source));
      const uint64_t data = source.size - source.data_start;
      const uint64_t bytes = std::min(kSampleBytes, data);
      std::vector<std::byte> pages(kSamples * bytes);
      // Where a read is a request, several are under way.
      const size_t jobs = file->far() ? kSamples : 1;
      SHARD_CHECK(ParallelFor(kSamples, jobs, [&](size_t i) {
        const uint64_t at = (data - bytes) / (kSamples - 1) * i;
        return file->ReadAt(source.data_start + at, std::span(pages).subspan(i * bytes, bytes));
      }));
      hash.Update(pages);
    }
    model_.sample_sha256_ = hash.Finish();
    return Ok();
  }

  MoeModel Take() && {
    model_.routing_ = ResolveRouting(*model_.family_, model_.config_);
    model_.routing_.experts = model_.max_experts();
    model_.routing_.bias = BiasOfRouters();
    return std::move(model_);
  }

 private:
  RouterBias BiasOfRouters() const {
    RouterBias bias = RouterBias::kNone;
    for (const ModelTensor& tensor : model_.tensors_) {
      if (tensor.part != Part::kRouter) continue;
      if (tensor.rule->role == "selection_bias") return RouterBias::kSelection;
      if (tensor.rule->pattern.ends_with(".bias")) bias = RouterBias::kLogits;
    }
    return bias;
  }

  // The file that the user named, or config.json beside the weights, which may be absent; a config
  // alone is the checkpoint's only file.
  Result<bool> ReadConfigText(const ModelOptions& options) {
    const Checkpoint& checkpoint = model_.checkpoint_;
    const SourceTree& tree = *checkpoint.tree();
    if (!options.config_file.empty()) {
      model_.config_path_ = options.config_file;
      SHARD_TRY(model_.config_text_, ReadTextFile(options.config_file, kMaxConfigBytes));
      return true;
    }
    const std::string name = checkpoint.promised() ? checkpoint.files()[0].name : "config.json";
    model_.config_path_ = tree.NameOf(name);
    SHARD_TRY(const bool there, tree.Has(name));
    if (!there) return false;
    SHARD_TRY(model_.config_text_, tree.ReadText(name, kMaxConfigBytes));
    return true;
  }

  // The first file's header takes the place of config.json.
  Status ReadGguf(const ModelOptions& options) {
    const SourceFile& first = model_.checkpoint_.files().front();
    if (!options.config_file.empty()) {
      return Error{Code::kInvalidArgument,
                   "--config has no effect: a GGUF model has its own metadata", "leave it out"};
    }
    SHARD_TRY(model_.config_,
              ReadGgufConfig(first.path.string(), model_.checkpoint_.metadata(), model_.warnings_));
    model_.config_path_ = first.path;
    model_.config_sha256_ = first.header_sha256;
    model_.has_config_ = true;
    return Ok();
  }

  static constexpr uint64_t kSamples = 16, kSampleBytes = 4096;  // docs/distribution-format.md

  // As the config says; without one, one more than the highest layer number in the names.
  uint32_t DecoderLayers() const {
    if (model_.config_.layers > 0) return model_.config_.layers;
    FamilyMatcher matcher(*model_.family_, kManyLayers);
    int highest = -1;
    for (const TensorEntry& entry : model_.checkpoint_.tensors()) {
      const TensorClass found = matcher.Classify(entry.name);
      if (found.rule != nullptr && !found.mtp) highest = std::max(highest, found.layer);
    }
    return static_cast<uint32_t>(highest + 1);
  }

  MoeModel model_;
};

Result<MoeModel> MoeModel::Open(const fs::path& source, const ModelOptions& options) {
  SHARD_TRY(const Source local, LocalSource(source));
  return Open(local, options);
}

Result<MoeModel> MoeModel::Open(const Source& source, const ModelOptions& options) {
  SHARD_TRY(Checkpoint checkpoint, Checkpoint::Open(source));
  return Of(std::move(checkpoint), options);
}

Result<MoeModel> MoeModel::Of(Checkpoint checkpoint, const ModelOptions& options) {
  ModelBuilder builder(std::move(checkpoint));
  SHARD_CHECK(builder.ReadConfig(options));
  SHARD_CHECK(builder.ChooseFamily(options));
  SHARD_CHECK(builder.Classify());
  SHARD_CHECK(builder.CheckGgufTrunk());
  SHARD_CHECK(builder.CollectLayers());
  SHARD_CHECK(builder.CheckGgufLayers());
  SHARD_CHECK(builder.CheckConfig());
  if (options.sample_weights && builder.can_be_read()) SHARD_CHECK(builder.SampleWeights());
  return std::move(builder).Take();
}

const MoeLayer* MoeModel::FindLayer(uint32_t layer) const {
  const auto at = std::lower_bound(layers_.begin(), layers_.end(), layer,
                                   [](const MoeLayer& a, uint32_t b) { return a.layer < b; });
  return at != layers_.end() && at->layer == layer ? &*at : nullptr;
}

uint32_t MoeModel::max_experts() const {
  uint32_t most = 0;
  for (const MoeLayer& layer : layers_) most = std::max(most, layer.experts);
  return most;
}

void MoeModel::ForgetTensors() {
  checkpoint_.ForgetTensors();
  std::vector<ModelTensor>().swap(tensors_);
}

std::string MoeModel::Version(const std::string& revision) const {
  std::string facts = Cat(revision, "\n", config_sha256_, "\n", sample_sha256_, "\n");
  for (const SourceFile& file : checkpoint_.files()) {
    facts += Cat(file.name, " ", file.size, " ", file.header_sha256, "\n");
  }
  return Sha256Hex(facts).substr(0, kVersionDigits);
}

}  // namespace moepack
