#include "runtime-shim/load/plain_model.h"

#include <numeric>
#include <optional>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/pack/slice_gguf.h"
#include "manifest/document/node_record.h"
#include "runtime-shim/load/prepare_to_run.h"

namespace moepack::runtime {

Status PlaceTrunk(const RunningModel& model, const SourceBytes& source, TensorPlacer& placer,
                  Weights& out) {
  LoadedPart counts{.label = "trunk"};
  for (const GgufTensor& tensor : model.gguf.tensors) {
    if (IsExpert(tensor) || !model.blocks.Runs(tensor.name)) continue;
    AddRouter(tensor.name, tensor.shape, out);
    SHARD_TRY(OutputTensor whole, EncodeTensor(tensor, tensor.type));
    SHARD_CHECK(placer.Place(std::move(whole), source, {out.trunk, out.memory, counts}));
  }
  out.parts.push_back(counts);
  return Ok();
}

Status PlaceExperts(const RunningModel& model, const SourceBytes& source, TensorPlacer& placer,
                    ExpertSet& set, LoadedPart& counts) {
  const PlacedPart part{set.tensors, set.memory, counts, /*experts_apart=*/true};
  for (const GgufTensor& tensor : model.gguf.tensors) {
    if (!IsExpert(tensor) || !model.blocks.Runs(tensor.name)) continue;
    const ExpertIds& ids = moepack::IdsOf(set.experts_by_layer, *BlockOf(tensor.name));
    if (ids.empty()) continue;
    SHARD_TRY(OutputTensor cut, EncodeExperts(tensor, tensor.type, ids));
    SHARD_CHECK(placer.Place(std::move(cut), source, part));
  }
  return Ok();
}

Status PlaceRouters(const RunningModel& model, const SourceBytes& source,
                    const std::set<uint32_t>& layers, TensorPlacer& placer, ExpertSet& set,
                    LoadedPart& counts) {
  for (const GgufTensor& tensor : model.gguf.tensors) {
    const bool router = tensor.part == moepack::Part::kRouter && tensor.expert_count > 0;
    if (!router || !layers.contains(*BlockOf(tensor.name)) || !model.blocks.Runs(tensor.name))
      continue;
    SHARD_TRY(OutputTensor whole, EncodeTensor(tensor, tensor.type));
    SHARD_CHECK(placer.Place(std::move(whole), source, {set.routers, set.memory, counts}));
  }
  return Ok();
}

LayerExperts AllExperts(const RunningModel& model) {
  LayerExperts all;
  for (const GgufTensor& tensor : model.gguf.tensors) {
    if (!IsExpert(tensor) || !model.blocks.Runs(tensor.name)) continue;
    ExpertIds& ids = all[*BlockOf(tensor.name)];
    ids.resize(tensor.expert_count);
    std::iota(ids.begin(), ids.end(), 0u);
  }
  return all;
}

namespace {

constexpr const char* kWholeModel = "model";

Status CheckOptions(const std::string& source, const LoadOptions& options) {
  if (options.groups.empty() && options.overlay_version.empty()) return Ok();
  return Error{
      Code::kInvalidArgument,
      Cat(source, ": ", options.groups.empty() ? "overlay" : "group",
          ": expected a distribution, found ",
          manifest::IsNodeDirectory(source) ? "a node's directory" : "a model that is not split")};
}

// Reads a node's record, and verifies the node's files before any of them is opened. Older nodes do
// not list files.
Result<std::optional<manifest::NodeRecord>> ReadNode(const SourceTree& tree,
                                                     const LoadOptions& options) {
  const std::optional<fs::path> directory = tree.LocalPath("");
  SHARD_TRY(const bool there, tree.Has(manifest::kNodeFile));
  if (!directory || !there) return std::optional<manifest::NodeRecord>();
  const std::string path = directory->string();
  SHARD_TRY(manifest::NodeRecord node, manifest::ReadNodeRecord(path));
  if (options.verify) {
    SHARD_CHECK(manifest::CheckNodeFiles(path, node, options.jobs, options.progress));
  }
  return std::optional(std::move(node));
}

// Refuses a file of weights that the node does not list.
Status CheckListed(const Checkpoint& checkpoint, const manifest::NodeRecord& node) {
  for (const SourceFile& file : checkpoint.files()) {
    if (node.FindFile(file.path.filename().string()) != nullptr) continue;
    return Error{Code::kMismatch,
                 Cat(file.path.string(), ": expected a file that ", manifest::kNodeFile,
                     " beside it lists, found another"),
                 "move it out of the node's directory"};
  }
  return Ok();
}

Result<MoeModel> Open(const moepack::Source& source, const LoadOptions& options,
                      const std::optional<manifest::NodeRecord>& node) {
  ModelOptions model_options = options.model;
  model_options.sample_weights = false;
  const bool listed = node && node->has_digests();
  moepack::Source opened = source;
  if (listed) {
    SHARD_TRY(opened, LocalSource(source.named, LinkRule::kPartsAnywhere));
  }
  SHARD_TRY(MoeModel model, MoeModel::Open(opened, model_options));
  if (listed) SHARD_CHECK(CheckListed(model.checkpoint(), *node));
  if (!model.checkpoint().names_only()) return model;
  return Error{Code::kNotFound,
               Cat(source.named.string(),
                   ": expected the files that the index names, found the index alone")};
}

// A node's experts are renumbered, so no group of the model can be chosen; the record says which
// group it was.
void DescribeNode(const manifest::NodeRecord& node, Weights& out) {
  out.model_version = node.versions.model;
  out.shard_version = node.versions.shard;
  out.replica_version = node.versions.replica;
  out.refit_version = node.versions.refit;
  out.sets[0].label = Cat("node of group ", node.group);
  out.notes.push_back(
      Cat("experts have the node's numbers; ", manifest::kNodeFile, " lists those of the model",
          node.has_digests() ? "" : "; it has no digests, so the files are not verified"));
}

using Memory = std::vector<std::shared_ptr<const void>>;

Status MapFiles(const Checkpoint& checkpoint, SourceBytes& source, Memory& memory) {
  const std::vector<SourceFile>& files = checkpoint.files();
  for (size_t i = 0; i < files.size(); ++i) {
    SHARD_TRY(const FilePtr file, MapAgain(files[i]));
    source.Add(static_cast<uint32_t>(i), 0, file->bytes());
    memory.push_back(file);
  }
  return Ok();
}

// The experts of a model that is not split. Files are mapped for one layer at a time, so that pages
// that were read do not stay with the process.
class PlainLater final : public LaterExperts {
 public:
  PlainLater(std::string path, std::unique_ptr<const MoeModel> model, GgufModel gguf,
             const RunningBlocks& blocks)
      : path_(std::move(path)), model_(std::move(model)), gguf_(std::move(gguf)), blocks_(blocks) {
    for (const GgufTensor& tensor : gguf_.tensors) {
      if (IsExpert(tensor) && blocks_.Runs(tensor.name))
        tensors.push_back({tensor.name, tensor.type, tensor.shape, {}});
    }
  }

  Result<ExpertSet> Load(uint32_t layer) const override {
    const RunningModel running{gguf_, blocks_};
    ExpertSet set;
    set.label = kWholeModel;
    LayerExperts all = AllExperts(running);
    if (!all.contains(layer)) return set;
    set.experts_by_layer[layer] = std::move(all[layer]);
    SourceBytes bytes;
    SHARD_CHECK(MapFiles(model_->checkpoint(), bytes, set.memory));
    TensorPlacer placer(path_);
    LoadedPart counts;
    SHARD_CHECK(PlaceExperts(running, bytes, placer, set, counts));
    LoadOptions options;
    options.jobs = jobs;
    SHARD_CHECK(placer.Run(options));
    return set;
  }

  uint32_t jobs = 0;

 private:
  std::string path_;
  std::unique_ptr<const MoeModel> model_;  // readers of the view borrow it
  GgufModel gguf_;
  RunningBlocks blocks_;
};

// Returns a GGUF with its own types, or a checkpoint with types that keep its numbers (profile
// "exact").
Result<GgufModel> ViewOf(const MoeModel& model, Weights& out) {
  if (model.checkpoint().is_gguf()) {
    ConvertOptions running;
    running.part = ConvertOptions::Part::kTokenizerIfUsable;
    return ToGguf(model, running);
  }
  SHARD_TRY(TypedGguf typed, PrepareToRun(model));
  out.notes = GgufNotes(typed);
  out.no_tokenizer = typed.model.no_tokenizer;
  return std::move(typed.model);
}

}  // namespace

Result<Weights> LoadPlainModel(const moepack::Source& source, const LoadOptions& options) {
  const std::string path = source.named.string();
  SHARD_CHECK(CheckOptions(path, options));
  SHARD_TRY(const std::optional<manifest::NodeRecord> node, ReadNode(*source.tree, options));
  SHARD_TRY(MoeModel opened, Open(source, options, node));
  auto model = std::make_unique<const MoeModel>(std::move(opened));
  Weights out;
  out.path = path;
  ExpertSet& set = out.sets.emplace_back();
  set.label = kWholeModel;
  SHARD_TRY(GgufModel gguf, ViewOf(*model, out));
  SHARD_TRY(const RunningBlocks blocks, RunningBlocks::Of(path, gguf.metadata));
  if (node) DescribeNode(*node, out);
  SourceBytes bytes;
  SHARD_CHECK(MapFiles(model->checkpoint(), bytes, out.memory));
  if (!options.experts_later) set.memory = out.memory;
  const RunningModel running{gguf, blocks};
  TensorPlacer placer(path);
  SHARD_CHECK(PlaceTrunk(running, bytes, placer, out));
  if (!options.experts_later) {
    set.experts_by_layer = AllExperts(running);
    LoadedPart counts{.label = set.label};
    SHARD_CHECK(PlaceExperts(running, bytes, placer, set, counts));
    out.parts.push_back(counts);
  }
  SHARD_CHECK(placer.Run(options));
  blocks.AddNote(out);
  out.metadata = gguf.metadata;
  if (options.experts_later) {
    auto later = std::make_shared<PlainLater>(path, std::move(model), std::move(gguf), blocks);
    later->jobs = options.jobs;
    out.later = std::move(later);
  }
  return out;
}

}  // namespace moepack::runtime
