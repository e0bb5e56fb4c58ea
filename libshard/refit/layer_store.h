// What the stores of refits and calibrations share: a directory that one run at a time writes layer
// by layer, with a record that names its files, so that a killed run can be resumed.
#pragma once

#include <nlohmann/json.hpp>

#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"

namespace moepack {

template <class Record>
struct LayerStoreKind {
  const char* file;  // of the record
  const char* what;  // "a refit store"
  const char* hint;  // how two runs get stores of their own
  Result<Record> (*read)(const SourceTree& tree);
  Json (*json)(const Record& record);
  Status (*write)(const InsideDirectory& files, const Record& record);
  // kMismatch unless both are of the same run, apart from their layers.
  Status (*same)(const fs::path& directory, const Record& wanted, const Record& found);
  bool (*has_layers)(const Record& record);
};

// Locks the directory. kIo if another process has it.
Status LockLayerStore(const InsideDirectory& files);
// kInvalidArgument unless the directory is empty, or a killed run left only the beginning of
// `record_file` there. `what` names the kind of store.
Status CheckHoldsNothingElse(const InsideDirectory& files, const char* record_file,
                             const char* what);

// Locks the directory and returns the record that is there if it is that of the same run, or else
// `fresh`, which has no layers and is written. Errors are those of the functions above, and of
// `same` for a store that has layers of another run.
template <class Record>
Result<Record> ResumeLayerStore(const LayerStoreKind<Record>& kind, const InsideDirectory& files,
                                Record fresh) {
  SHARD_CHECK(LockLayerStore(files));
  SHARD_TRY(const InsideDirectory::Kind there, files.KindOf(kind.file));
  if (there != InsideDirectory::Kind::kNothing) {
    SHARD_TRY(Record found, kind.read(LocalTree(files.path())));
    const Status same = kind.same(files.path(), fresh, found);
    // A store without layers has nothing that could be lost.
    if (same || kind.has_layers(found)) {
      SHARD_CHECK(same);
      return found;
    }
  } else {
    SHARD_CHECK(CheckHoldsNothingElse(files, kind.file, kind.what));
  }
  SHARD_CHECK(kind.write(files, fresh));
  return fresh;
}

// kMismatch if the record is no longer `written`: where file systems have no locks, another process
// may write the store, too.
template <class Record>
Status CheckStillWritten(const LayerStoreKind<Record>& kind, const InsideDirectory& files,
                         const Record& written) {
  SHARD_TRY(const Record there, kind.read(LocalTree(files.path())));
  if (kind.json(there) == kind.json(written)) return Ok();
  return Error{Code::kMismatch,
               Cat(Shown(files.path().string()), "/", kind.file,
                   ": expected the record as this run wrote it, found another"),
               Cat("another process writes this store, too: ", kind.hint)};
}

}  // namespace moepack
