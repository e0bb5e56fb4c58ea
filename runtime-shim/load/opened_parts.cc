#include "runtime-shim/load/opened_parts.h"

#include "libshard/base/text/text.h"
#include "manifest/verify/verify_container.h"

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
                   manifest::kDamagedHint};
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace moepack::runtime
