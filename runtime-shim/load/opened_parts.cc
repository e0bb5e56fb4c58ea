#include "runtime-shim/load/opened_parts.h"

#include "libshard/base/text/text.h"
#include "manifest/verify/verify_container.h"
#include "runtime-shim/load/restored_checkpoint.h"

namespace moepack::runtime {

Result<std::vector<OpenedPart>> PartOpener::Open(const Bundles& files) {
  std::vector<OpenedPart> parts;
  for (const manifest::BundleRecord* record : files) {
    OpenedPart part;
    SHARD_TRY(part.bundle, manifest::OpenBundle(split_.tree, *record, 0));
    SHARD_CHECK(manifest::CheckHeader(*split_.tree, split_.manifest, *record));
    SHARD_TRY(part.file, MapAgain(part.bundle.source));
    // With a revision, the version in the files differs from the manifest's, so files are compared
    // with each other.
    if (record->role != Role::kHead && first_.empty()) {
      model_ = part.bundle.model;
      first_ = record->file;
    }
    if (record->role != Role::kHead && part.bundle.model != model_) {
      return Error{Code::kMismatch,
                   Cat(part.bundle.source.path.string(), ": moepack.model: expected ",
                       Quoted(model_), " as in ", first_, ", found ", Quoted(part.bundle.model)),
                   manifest::kCorruptHint};
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

namespace {

Result<ModelMetadata> MetadataOfHead(const Split& split) {
  for (const manifest::BundleRecord& bundle : split.manifest.bundles) {
    if (bundle.role != Role::kHead) continue;
    PartOpener opener(split);
    SHARD_TRY(const std::vector<OpenedPart> head, opener.Open({&bundle}));
    return ModelMetadata{head[0].bundle.metadata, std::nullopt};
  }
  return Error{Code::kNotFound,
               Cat(split.path, ": head: expected a file in the manifest, found none")};
}

// The first group with files in the manifest, all of which exist.
Result<uint32_t> FirstGroupThere(const Split& split) {
  for (uint32_t group = 0; group < split.manifest.plan.groups.size(); ++group) {
    bool listed = false, there = true;
    for (const manifest::BundleRecord& bundle : split.manifest.bundles) {
      if (bundle.role != Role::kGroup || bundle.group != group) continue;
      listed = true;
      SHARD_TRY(const bool has, split.tree->Has(bundle.file));
      there = there && has;
    }
    if (listed && there) return group;
  }
  return Error{Code::kNotFound, Cat(split.path, ": groups: expected the files of one, found none"),
               "the tokenizer is converted with the headers of trunk and experts beside it; token "
               "ids need no tokenizer"};
}

}  // namespace

Result<ModelMetadata> ReadModelMetadata(Split& split) {
  split.parts = {};
  if (split.manifest.is_gguf()) return MetadataOfHead(split);
  SHARD_TRY(const uint32_t group, FirstGroupThere(split));
  LoadOptions options;
  options.groups = {group};
  options.overlay = false;
  SHARD_CHECK(SelectParts(options, split));
  SHARD_TRY(const RestoredCheckpoint model, RestoredCheckpoint::Open(split, {}));
  return ModelMetadata{model.gguf().metadata, model.gguf().no_tokenizer};
}

}  // namespace moepack::runtime
