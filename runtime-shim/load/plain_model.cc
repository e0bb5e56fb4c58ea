#include "runtime-shim/load/plain_model.h"

#include <nlohmann/json.hpp>

#include "libshard/json.h"
#include "libshard/quantize.h"
#include "libshard/text.h"
#include "manifest/assemble.h"
#include "runtime-shim/load/placed_model.h"

namespace runtime {

using shard::Cat;
using shard::Code;
using shard::Error;

namespace {

constexpr uint64_t kMaxNodeBytes = 64u << 20;  // one list of ids per layer

shard::Status CheckOptions(const std::string& source, const LoadOptions& options) {
  if (options.groups.empty() && options.overlay_version.empty()) return shard::Ok();
  return Error{Code::kInvalidArgument,
               Cat(source, ": ", options.groups.empty() ? "overlay" : "group",
                   ": expected a distribution, found a model that is not split")};
}

shard::Result<shard::MoeModel> Open(const std::string& source, const LoadOptions& options) {
  shard::ModelOptions model_options = options.model;
  model_options.sample_weights = false;
  SHARD_TRY(shard::MoeModel model, shard::MoeModel::Open(source, model_options));
  if (!model.checkpoint().names_only()) return model;
  return Error{Code::kNotFound,
               Cat(source, ": expected the files that the index names, found the index alone")};
}

// A node's experts are numbered anew, so it has no group of the model; it says which it was.
shard::Status ReadNode(const shard::fs::path& directory, Weights& out) {
  const std::string path = (directory / manifest::kNodeFile).string();
  std::error_code error;
  if (!shard::fs::exists(path, error)) return shard::Ok();
  SHARD_TRY(const shard::Json document, shard::ReadJsonFile(path, kMaxNodeBytes));
  if (!document.is_object())
    return Error{Code::kCorrupt,
                 Cat(path, ": expected an object, found ", shard::DescribeJson(document))};
  const shard::JsonFields fields(document, path);
  SHARD_TRY(const uint64_t group, fields.Unsigned("group"));
  SHARD_TRY(const shard::Json* const versions, fields.Object("versions"));
  const shard::JsonFields version(*versions, path + ": versions");
  SHARD_TRY(out.model_version, version.String("model"));
  SHARD_TRY(out.shard_version, version.String("shard"));
  SHARD_TRY(out.replica_version, version.StringOr("replica", ""));
  out.sets[0].label = Cat("node of group ", group);
  out.notes.push_back(
      Cat("experts have the node's numbers; ", manifest::kNodeFile,
          " lists those of the model; it has no digests, so the files are not verified"));
  return shard::Ok();
}

shard::Status MapFiles(const shard::Checkpoint& checkpoint, SourceBytes& source, Weights& out) {
  const std::vector<shard::SourceFile>& files = checkpoint.files();
  for (size_t i = 0; i < files.size(); ++i) {
    SHARD_TRY(const FilePtr file, MapAgain(files[i]));
    source.Add(static_cast<uint32_t>(i), 0, file->bytes());
    out.memory.push_back(file);
    out.sets[0].memory.push_back(file);
  }
  return shard::Ok();
}

// Of a GGUF its own types, of a checkpoint those that keep its numbers.
shard::Result<shard::GgufModel> ViewOf(const shard::MoeModel& model, Weights& out) {
  if (model.checkpoint().is_gguf()) return shard::ToGguf(model, {});
  SHARD_TRY(shard::TypedGguf typed, shard::PrepareGguf(model, {}));
  out.notes = shard::GgufNotes(typed);
  return std::move(typed.model);
}

}  // namespace

shard::Result<Weights> LoadPlainModel(const std::string& source, const LoadOptions& options) {
  SHARD_CHECK(CheckOptions(source, options));
  SHARD_TRY(const shard::MoeModel model, Open(source, options));
  Weights out;
  out.path = source;
  ExpertSet& set = out.sets.emplace_back();
  set.label = "model";
  SHARD_TRY(shard::GgufModel gguf, ViewOf(model, out));
  SHARD_TRY(const RunningBlocks blocks, RunningBlocks::Of(source, gguf.metadata));
  SHARD_CHECK(ReadNode(model.checkpoint().root(), out));
  SourceBytes bytes;
  SHARD_CHECK(MapFiles(model.checkpoint(), bytes, out));
  const RunningModel running{gguf, blocks};
  TensorPlacer placer(source);
  SHARD_CHECK(PlaceTrunk(running, bytes, placer, out));
  set.experts = AllExperts(running);
  LoadedPart counts{.label = set.label};
  SHARD_CHECK(PlaceExperts(running, bytes, placer, set, counts));
  out.parts.push_back(counts);
  SHARD_CHECK(placer.Run(options));
  blocks.AddNote(out);
  out.metadata = std::move(gguf.metadata);
  return out;
}

}  // namespace runtime
