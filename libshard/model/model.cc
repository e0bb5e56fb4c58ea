#include "libshard/model/model.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/limits.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/model/family_find.h"
#include "libshard/model/family_match.h"
#include "libshard/model/gguf_config.h"
#include "libshard/model/gguf_experts.h"
#include "libshard/model/hf_config.h"
#include "libshard/model/layer_experts.h"

namespace moepack {
namespace {

constexpr size_t kVersionDigits = 16;
// Used as the number of decoder layers while it is not known: more than any model has, so that no
// layer is mistaken for an MTP block.
constexpr uint32_t kManyLayers = 1u << 24;

std::string Where(const Checkpoint& checkpoint, const TensorEntry& entry) {
  return Cat(checkpoint.files()[entry.file].path.string(), ": tensor ", Quoted(entry.name));
}

// Of the decoder; pruned models often keep more experts in their blocks for multi-token prediction.
uint32_t MostExperts(const std::vector<MoeLayer>& layers) {
  uint32_t most = 0, in_blocks = 0;
  for (const MoeLayer& layer : layers) {
    uint32_t& count = layer.mtp ? in_blocks : most;
    count = std::max(count, layer.expert_count);
  }
  return most > 0 ? most : in_blocks;
}

// Makes the parts of a MoeModel step by step; each step relies on the ones before.
class ModelBuilder {
 public:
  bool names_only() const { return parts_.checkpoint.names_only(); }

  explicit ModelBuilder(Checkpoint checkpoint) { parts_.checkpoint = std::move(checkpoint); }

  bool can_be_read() const { return !names_only() && !parts_.checkpoint.promised(); }

  Status ReadConfig(const ModelOptions& options) {
    parts_.warnings = parts_.checkpoint.warnings();
    if (parts_.checkpoint.is_gguf()) return ReadGguf(options);
    SHARD_TRY(const bool there, ReadConfigText(options));
    if (!there) return Ok();
    SHARD_TRY(parts_.config, ParseModelConfig(parts_.config_path.string(), parts_.config_text));
    parts_.config_sha256 = Sha256Hex(parts_.config_text);
    parts_.has_config = true;
    return Ok();
  }

  Status ChooseFamily(const ModelOptions& options) {
    if (!options.family_file.empty()) {
      SHARD_TRY(Family family, ReadFamilyFile(options.family_file));
      parts_.family = std::make_shared<const Family>(std::move(family));
      return Ok();
    }
    const std::string source = parts_.checkpoint.source().string();
    const Family* family = nullptr;
    if (parts_.checkpoint.is_gguf()) {
      family = &GgufFamily();
    } else if (parts_.has_config) {
      SHARD_TRY(family, FindFamily(parts_.config_path.string(), parts_.config));
    } else {
      std::vector<std::string_view> names;
      for (const TensorEntry& entry : parts_.checkpoint.tensors()) names.push_back(entry.name);
      SHARD_TRY(family, FindFamilyByNames(source, names));
      parts_.warnings.push_back(
          Cat(source, ": no config.json: family ", family->name,
              " and its routing are guessed from the tensor names, top-k is unknown"));
    }
    parts_.family = std::shared_ptr<const Family>(std::shared_ptr<const Family>(), family);
    return Ok();
  }

  Status Classify() {
    FamilyMatcher matcher(*parts_.family, DecoderLayers());
    const std::vector<TensorEntry>& entries = parts_.checkpoint.tensors();
    size_t unknown = 0;
    const TensorEntry* first_unknown = nullptr;
    parts_.tensors.reserve(entries.size());
    for (uint32_t i = 0; i < entries.size(); ++i) {
      const TensorClass found = matcher.Classify(entries[i].name);
      if (found.rule == nullptr) {
        if (unknown++ == 0) first_unknown = &entries[i];
        continue;
      }
      if (found.layer && *found.layer >= kMaxLayers) {
        return Error{Code::kUnsupported,
                     Cat(Where(parts_.checkpoint, entries[i]), ": layer: expected below ",
                         kMaxLayers, ", found ", *found.layer)};
      }
      parts_.tensors.push_back({.index = i,
                                .part = found.rule->part,
                                .mtp = found.mtp,
                                .rule = found.rule,
                                .leaf = found.leaf,
                                .layer = found.layer,
                                .expert = found.expert});
    }
    if (unknown == 0) return Ok();
    return Error{Code::kUnsupported,
                 Cat(Where(parts_.checkpoint, *first_unknown), ": expected a tensor of family ",
                     parts_.family->name, ", found a name that no rule matches (",
                     Plural(unknown, "such tensor"), ")", WhoseName(first_unknown->name)),
                 "describe the model in a family file and name it with --family "
                 "(docs/families.md)"};
  }

  // The rules of GgufFamily accept any unknown name as trunk. This refuses a tensor that may have
  // an expert axis nevertheless.
  Status CheckGgufTrunk() {
    if (parts_.family.get() != &GgufFamily()) return Ok();
    for (const ModelTensor& tensor : parts_.tensors) {
      const TensorEntry& entry = parts_.checkpoint.tensors()[tensor.index];
      if (IsLegacyExpert(entry.name)) {
        return Error{Code::kUnsupported,
                     Cat(Where(parts_.checkpoint, entry),
                         ": expected the experts of a layer in one tensor (ffn_gate_exps), found "
                         "one tensor per expert, a layout that llama.cpp no longer reads"),
                     "convert the model again with a current llama.cpp"};
      }
      if (tensor.rule->part != Part::kTrunk || IsKnownTrunk(entry.name)) continue;
      const auto& shape = entry.shape;
      const bool axis =
          std::find(shape.begin(), shape.end(), parts_.config.expert_count) != shape.end();
      const bool named = entry.name.find("_exps") != std::string::npos;
      if (!axis && !named) continue;
      return Error{Code::kUnsupported,
                   Cat(Where(parts_.checkpoint, entry), ": shape ", FormatShape(shape),
                       ": expected a tensor without an expert axis, found a name that is not known "
                       "here and ",
                       axis ? "an axis as long as the number of experts ("
                            : "is that of experts, though no axis is as long as their number (",
                       parts_.config.expert_count, ")"),
                   "describe the model in a family file and name it with --family "
                   "(docs/families.md)"};
    }
    return Ok();
  }

  // Counts the experts of every layer, and checks that each exists with all its tensors.
  Status CollectLayers() {
    LayerExpertTable table(parts_.checkpoint, parts_.config, parts_.tensors);
    SHARD_TRY(parts_.layers, table.Collect());
    if (!parts_.layers.empty()) return Ok();
    return Error{Code::kUnsupported,
                 Cat(parts_.checkpoint.source().string(), ": expected routed experts, found ",
                     Plural(parts_.tensors.size(), "tensor"), " and no expert among them"),
                 "there is nothing to split in a dense model"};
  }

  // All layers of a GGUF that route alike need the same kinds of expert tensors and a router,
  // because runtimes require them in every layer. For explicit experts of checkpoints
  // LayerExpertTable has checked this.
  Status CheckGgufLayers() const {
    if (!parts_.checkpoint.is_gguf()) return Ok();
    std::map<std::optional<uint32_t>, std::set<std::string>> kinds;
    std::set<std::optional<uint32_t>> by_table;  // layers with a table of expert ids: no bias
    for (const ModelTensor& tensor : parts_.tensors) {
      if (tensor.part != Part::kExpert && tensor.part != Part::kRouter) continue;
      kinds[tensor.layer].insert(Cat(tensor.rule->role, ".", tensor.leaf));
      if (tensor.rule->holds_expert_ids) by_table.insert(tensor.layer);
    }
    std::map<bool, uint32_t> firsts;  // by whether the layer has a table
    for (const MoeLayer& layer : parts_.layers) {
      const uint32_t first_layer =
          firsts.try_emplace(by_table.contains(layer.layer), layer.layer).first->second;
      const std::set<std::string>& first = kinds.at(first_layer);
      const std::set<std::string>& here = kinds.at(layer.layer);
      if (here == first) continue;
      const std::vector<std::string> expected(first.begin(), first.end());
      const std::vector<std::string> found(here.begin(), here.end());
      return Error{Code::kCorrupt,
                   Cat(parts_.checkpoint.source().string(), ": layer ", layer.layer,
                       ": expected experts and router of ", Join(expected, ", "), " as layer ",
                       first_layer, " has, found ", Join(found, ", "))};
    }
    return CheckLayerNumbers();
  }

  Status CheckLayerNumbers() const {
    const uint32_t blocks = parts_.config.layers + parts_.config.mtp_layers;
    const uint32_t last = parts_.layers.back().layer;
    if (blocks == 0 || last < blocks) return Ok();
    return Error{Code::kCorrupt,
                 Cat(parts_.checkpoint.source().string(), ": block_count: expected ", "more than ",
                     last, ", the last layer with experts, found ", blocks)};
  }

  // How many experts the layer has by the config, if that says it.
  std::optional<uint32_t> StatedExperts(const MoeLayer& layer) const {
    const ModelConfig& config = parts_.config;
    if (config.expert_count == 0) return std::nullopt;
    // The config counts the decoder's experts. A block for multi-token prediction that was not
    // pruned with it has more.
    if (layer.mtp && !parts_.checkpoint.is_gguf()) return std::nullopt;
    if (layer.layer < config.experts_per_layer.size()) {
      return config.experts_per_layer[layer.layer];
    }
    // The one number of a checkpoint that was pruned layer by layer is that of the largest.
    const bool pruned = !parts_.checkpoint.is_gguf() && layer.expert_count < config.expert_count &&
                        DecoderExperts() == config.expert_count;
    return pruned ? std::nullopt : std::optional(config.expert_count);
  }

  // The most in one layer of the decoder.
  uint32_t DecoderExperts() const {
    uint32_t most = 0;
    for (const MoeLayer& layer : parts_.layers) {
      if (!layer.mtp) most = std::max(most, layer.expert_count);
    }
    return most;
  }

  Status CheckConfig() {
    if (!parts_.has_config) return Ok();
    const ModelConfig& config = parts_.config;
    for (MoeLayer& layer : parts_.layers) {
      layer.top_k = layer.layer < config.top_k_per_layer.size()
                        ? config.top_k_per_layer[layer.layer]
                        : config.top_k;
      const std::optional<uint32_t> stated = StatedExperts(layer);
      if (stated && layer.expert_count != *stated) {
        return Error{
            Code::kCorrupt,
            Cat(parts_.config_path.string(), ": ", config.expert_count_key, ": expected ",
                layer.expert_count, " as layer ", layer.layer,
                layer.mtp ? ", a block for multi-token prediction," : "", " has, found ", *stated)};
      }
      if (layer.top_k > layer.expert_count) {
        return Error{Code::kCorrupt,
                     Cat(parts_.config_path.string(), ": experts per token: expected at most ",
                         layer.expert_count, " (the experts of layer ", layer.layer, "), found ",
                         layer.top_k)};
      }
    }
    return Ok();
  }

  // Hashes pages that are spread evenly over the tensor data of every file.
  Status SampleWeights() {
    const std::vector<SourceFile>& files = parts_.checkpoint.files();
    // If each read is a request, many are made at once.
    const bool far =
        std::any_of(files.begin(), files.end(), [](const SourceFile& file) { return file.far; });
    const size_t step = far ? kFilesSampledAtOnce : 1;
    Sha256 hash;
    for (size_t first = 0; first < files.size(); first += step) {
      const size_t count = std::min(step, files.size() - first);
      SHARD_CHECK(SampleFiles(std::span(files).subspan(first, count), far, hash));
    }
    parts_.sample_sha256 = hash.Finish();
    return Ok();
  }

  MoeModel Take() && {
    parts_.routing = ResolveRouting(*parts_.family, parts_.config);
    parts_.routing.expert_count = MostExperts(parts_.layers);
    parts_.routing.bias = BiasOfRouters();
    return MoeModel(std::move(parts_));
  }

 private:
  RouterBias BiasOfRouters() const {
    RouterBias bias = RouterBias::kNone;
    for (const ModelTensor& tensor : parts_.tensors) {
      if (tensor.part != Part::kRouter) continue;
      // With both kinds, the one that decides who is chosen is the one to know about.
      if (tensor.rule->role == "selection_bias") return RouterBias::kSelection;
      if (tensor.rule->pattern.ends_with(".bias")) bias = RouterBias::kLogits;
    }
    return bias;
  }

  // Reads the file that the user named, or config.json beside the weights, which may be absent; a
  // config alone is the checkpoint's only file.
  Result<bool> ReadConfigText(const ModelOptions& options) {
    const Checkpoint& checkpoint = parts_.checkpoint;
    const SourceTree& tree = *checkpoint.tree();
    if (!options.config_file.empty()) {
      parts_.config_path = options.config_file;
      SHARD_TRY(parts_.config_text, ReadTextFile(options.config_file, kMaxConfigBytes));
      return true;
    }
    const std::string name = checkpoint.promised() ? checkpoint.files()[0].name : "config.json";
    parts_.config_path = tree.NameOf(name);
    SHARD_TRY(const bool there, tree.Has(name));
    if (!there) return false;
    SHARD_TRY(parts_.config_text, tree.ReadText(name, kMaxConfigBytes));
    return true;
  }

  // Reads the config of a GGUF model from the metadata of its first file.
  Status ReadGguf(const ModelOptions& options) {
    const SourceFile& first = parts_.checkpoint.files().front();
    if (!options.config_file.empty()) {
      return Error{Code::kInvalidArgument,
                   "--config has no effect: a GGUF model has its own metadata", "leave it out"};
    }
    SHARD_TRY(parts_.config,
              ReadGgufConfig(first.path.string(), parts_.checkpoint.metadata(), parts_.warnings));
    parts_.config_path = first.path;
    parts_.config_sha256 = first.header_sha256;
    parts_.has_config = true;
    return Ok();
  }

  static constexpr uint64_t kSamples = 16, kSampleBytes = 4096;  // docs/distribution-format.md
  static constexpr size_t kFilesSampledAtOnce = 16;              // of those that are far

  static Status SampleFiles(std::span<const SourceFile> files, bool far, Sha256& hash) {
    std::vector<ByteSourcePtr> sources;
    for (const SourceFile& file : files) {
      SHARD_TRY(ByteSourcePtr source, OpenUnchanged(file));
      sources.push_back(std::move(source));
    }
    std::vector<std::vector<std::byte>> pages(files.size() * kSamples);
    SHARD_CHECK(ParallelFor(pages.size(), far ? kSamples : 1, [&](size_t i) {
      const SourceFile& file = files[i / kSamples];
      const uint64_t data = file.size - file.data_start;
      pages[i].resize(std::min(kSampleBytes, data));
      // The first page is at the start of the data, the last at most a few bytes before its end.
      const uint64_t at = (data - pages[i].size()) / (kSamples - 1) * (i % kSamples);
      return sources[i / kSamples]->ReadAt(file.data_start + at, pages[i]);
    }));
    for (const std::vector<std::byte>& page : pages) hash.Update(page);
    return Ok();
  }

  // Returns the config's number; without a config, one more than the highest layer number in the
  // names.
  uint32_t DecoderLayers() const {
    if (parts_.config.layers > 0) return parts_.config.layers;
    FamilyMatcher matcher(*parts_.family, kManyLayers);
    uint32_t layers = 0;
    for (const TensorEntry& entry : parts_.checkpoint.tensors()) {
      const TensorClass found = matcher.Classify(entry.name);
      if (found.layer && !found.mtp) layers = std::max(layers, *found.layer + 1);
    }
    return layers;
  }

  ModelParts parts_;
};

}  // namespace

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

const MoeLayer* MoeModel::FindLayer(std::optional<uint32_t> layer) const {
  if (!layer) return nullptr;
  const auto at = std::lower_bound(layers().begin(), layers().end(), *layer,
                                   [](const MoeLayer& a, uint32_t b) { return a.layer < b; });
  return at != layers().end() && at->layer == *layer ? &*at : nullptr;
}

uint32_t MoeModel::max_experts() const { return MostExperts(layers()); }

void MoeModel::ForgetTensors() {
  parts_.checkpoint.ForgetTensors();
  std::vector<ModelTensor>().swap(parts_.tensors);
}

std::string MoeModel::Version(const std::string& revision) const {
  std::string facts = Cat(revision, "\n", parts_.config_sha256, "\n", parts_.sample_sha256, "\n");
  for (const SourceFile& file : checkpoint().files()) {
    facts += Cat(file.name, " ", file.size, " ", file.header_sha256, "\n");
  }
  return Sha256Hex(facts).substr(0, kVersionDigits);
}

// Parameters as people count them: "30B-A3B" means weights, however they are stored.

namespace {

// What nearly all packed checkpoints have, for a config that does not say.
constexpr uint64_t kDefaultPackedBits = 4;

// Counts integers of `bits` bits that are packed into words (GPTQ, AWQ, compressed-tensors, MLX).
uint64_t UnpackedIntegers(const TensorEntry& entry, uint32_t bits) {
  return entry.bytes * 8 / (bits == 0 ? kDefaultPackedBits : bits);
}

// True for 4-bit floats, two per byte. Only config.json names their type; the header calls them
// integers.
bool HoldsPairs(const ModelTensor& tensor, const TensorEntry& entry, const ModelConfig& config) {
  if (entry.dtype == "U8") {
    return UseOfLeaf(tensor.leaf) == LeafUse::kPacked ||
           config.quant_method.starts_with("modelopt") ||
           config.quant_method == "compressed-tensors" || config.quant_method == "quark";
  }
  // DeepSeek-V4 stores FP4 experts as I8 beside FP8 ones; only the halved rows distinguish them
  // from int8.
  if (entry.dtype != "I8" || tensor.part != Part::kExpert || entry.shape.empty()) return false;
  const bool down = tensor.rule != nullptr && tensor.rule->role == "down";
  const uint64_t row = down ? config.expert_intermediate_size : config.hidden_size;
  return row > 0 && entry.shape.back() * 2 == row;
}

// Counts the numbers of a matrix of GPTQ or AWQ by the tensors beside it, because bits may differ
// between modules: GPTQ packs along the columns, whose groups g_idx lists, and AWQ along the rows,
// each of which has scales. No value if they do not say.
std::optional<uint64_t> UnpackedMatrix(const TensorEntry& entry, const Checkpoint& checkpoint) {
  constexpr std::string_view kCodes = "qweight";
  if (!entry.name.ends_with(kCodes) || entry.shape.size() != 2) return std::nullopt;
  const std::string stem = entry.name.substr(0, entry.name.size() - kCodes.size());
  const TensorEntry* const scales = checkpoint.Find(stem + "scales");
  if (scales == nullptr || scales->shape.size() != 2) return std::nullopt;
  if (scales->shape[1] != entry.shape[1]) return CheckedMul(entry.shape[0], scales->shape[1]);
  const TensorEntry* const groups = checkpoint.Find(stem + "g_idx");
  if (groups == nullptr) return std::nullopt;
  return CheckedMul(groups->Elements(), entry.shape[1]);
}

uint64_t Weights(const ModelTensor& tensor, const MoeModel& model) {
  const TensorEntry& entry = model.entry(tensor);
  const ModelConfig& config = model.config();
  const LeafUse use = UseOfLeaf(tensor.leaf);
  if (use == LeafUse::kCompanion) return 0;
  if (tensor.rule != nullptr && tensor.rule->holds_expert_ids) return 0;
  if (entry.dtype == "U32") return UnpackedIntegers(entry, config.quant_bits);
  if (entry.dtype == "I32" && use == LeafUse::kPacked) {
    const auto exact = UnpackedMatrix(entry, model.checkpoint());
    return exact ? *exact : UnpackedIntegers(entry, config.quant_bits);
  }
  // These are buffers such as position ids and masks.
  if (entry.dtype == "I32" || entry.dtype == "I64" || entry.dtype == "BOOL") return 0;
  return HoldsPairs(tensor, entry, config) ? entry.bytes * 2 : entry.Elements();
}

bool IsOtherModality(const ModelTensor& tensor) {
  return tensor.rule != nullptr && (tensor.rule->role == "vision" || tensor.rule->role == "audio");
}

// True for the one matrix with that role outside layers, and false for its bias and companions.
bool IsTable(const ModelTensor& tensor, const TensorEntry& entry, std::string_view role) {
  return tensor.rule != nullptr && tensor.rule->role == role && !tensor.layer &&
         entry.shape.size() == 2;
}

// The share of a layer's expert weights that one token uses. Dividing first avoids an overflow, and
// the remainder is handled separately.
uint64_t ActiveShare(uint64_t weights, const MoeLayer& layer) {
  return weights / layer.expert_count * layer.top_k +
         weights % layer.expert_count * layer.top_k / layer.expert_count;
}

}  // namespace

ParameterCount CountParameters(const MoeModel& model) {
  ParameterCount count;
  if (model.checkpoint().names_only()) return count;
  std::map<std::optional<uint32_t>, uint64_t> routed;  // layer -> weights of all its experts
  for (const ModelTensor& tensor : model.tensors()) {
    const TensorEntry& entry = model.entry(tensor);
    const uint64_t weights = Weights(tensor, model);
    if (IsOtherModality(tensor)) {
      count.other_modalities += weights;
    } else if (tensor.mtp) {
      count.mtp += weights;
    } else {
      count.total += weights;
      (tensor.part == Part::kExpert ? routed[tensor.layer] : count.active) += weights;
      if (IsTable(tensor, entry, "embedding")) count.input_embedding += weights;
      if (IsTable(tensor, entry, "head")) count.head += weights;
    }
  }
  // Tied: the single table also produces the logits, so it counts as the head.
  if (count.head == 0) std::swap(count.head, count.input_embedding);
  for (const MoeLayer& layer : model.layers()) {
    if (layer.mtp) continue;
    // One layer of unknown top-k makes the count of active weights unknown, so it is left at 0.
    if (layer.top_k == 0) {
      count.active = 0;
      break;
    }
    count.active += ActiveShare(routed[layer.layer], layer);
  }
  return count;
}

// Compares the head of a checkpoint with its embedding. Fine-tunes have both and differ, although
// their config still says that they are tied.

namespace {

// A head that differs usually does so at once, so little is read first.
constexpr uint64_t kFirstBytes = 64 << 10, kMostBytes = 4 << 20;

Result<bool> SameBytes(const Checkpoint& checkpoint, const TensorEntry& a, const TensorEntry& b) {
  if (a.dtype != b.dtype || a.shape != b.shape || a.bytes != b.bytes) return false;
  SHARD_TRY(const ByteSourcePtr file_a, OpenUnchanged(checkpoint.files()[a.file]));
  SHARD_TRY(const ByteSourcePtr file_b, OpenUnchanged(checkpoint.files()[b.file]));
  std::vector<std::byte> bytes_a, bytes_b;
  uint64_t most = kFirstBytes;
  for (uint64_t at = 0; at < a.bytes; most = kMostBytes) {
    const uint64_t count = std::min(most, a.bytes - at);
    bytes_a.resize(count);
    bytes_b.resize(count);
    SHARD_CHECK(file_a->ReadAt(a.offset + at, bytes_a));
    SHARD_CHECK(file_b->ReadAt(b.offset + at, bytes_b));
    if (bytes_a != bytes_b) return false;
    at += count;
  }
  return true;
}

// The tensors of the table outside layers, without those that do not affect its numbers.
std::vector<const ModelTensor*> TableOf(const MoeModel& model, std::string_view role) {
  std::vector<const ModelTensor*> tensors;
  for (const ModelTensor& tensor : model.tensors()) {
    const std::string_view leaf = LeafOf(*tensor.rule, tensor.leaf);
    if (tensor.rule->role != role || tensor.layer || leaf == "bias" || !AffectsNumbers(leaf))
      continue;
    tensors.push_back(&tensor);
  }
  return tensors;
}

Result<bool> Compare(const MoeModel& model) {
  const std::vector<const ModelTensor*> embedding = TableOf(model, "embedding");
  for (const ModelTensor* head : TableOf(model, "head")) {
    bool same = false;
    for (const ModelTensor* table : embedding) {
      if (same || LeafOf(*table->rule, table->leaf) != LeafOf(*head->rule, head->leaf)) continue;
      SHARD_TRY(same, SameBytes(model.checkpoint(), model.entry(*head), model.entry(*table)));
    }
    if (!same) return true;
  }
  return false;
}

}  // namespace

Result<bool> MoeModel::HasOwnHead() const {
  if (checkpoint().names_only() || checkpoint().promised()) return false;
  const std::lock_guard lock(own_head_->mutex);
  if (!own_head_->known) {
    SHARD_TRY(own_head_->known, Compare(*this));
  }
  return *own_head_->known;
}

}  // namespace moepack
