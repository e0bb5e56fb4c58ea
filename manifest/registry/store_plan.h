// What will be put into a store, and how: blobs first, then manifests, then tags, which alone make
// everything visible.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "manifest/registry/store/store.h"
#include "manifest/registry/store_report.h"

namespace moepack::registry {

struct StorePlan {
  struct Blob {
    std::string name;  // for the report
    BlobRecord blob;
    std::string text = {};  // of a manifest, and of a blob made here; "" for a file
  };
  struct Tag {
    StoreReport::Tag tag;
    NewTag entry;
  };
  std::vector<Blob> blobs;      // each once, without the manifests
  std::vector<Blob> manifests;  // each once
  std::vector<Tag> tags;        // of the requested manifest first

  void AddTag(StoreReport::Tag tag, const BlobRecord& manifest, const std::string& text);
};

// "<tag>-g007": the tag of the node view of a group. kInvalidArgument if it would be too long.
Result<std::string> ViewTag(const std::string& tag, uint32_t group);

// kInvalidArgument if a tag is to be given twice: the second manifest would take it from the first.
Status CheckTagsApart(const StorePlan& plan);

// The report of a plan before anything is done.
StoreReport StartReport(const StorePlan& plan);
// Opens the target of a plan for inspection; null if there is nothing yet. Creates and locks
// nothing. kInvalidArgument for a read-only place and for a directory with other files.
Result<StorePtr> OpenTarget(const Reference& to, const StoreAccess& access);
// Notes what the tags name now, and which blobs and manifests the store has. A tag that names
// something else is kInvalidArgument without `force`, unless it is `moving`.
Status LookAtStore(const Store& store, const PutOptions& options, StorePlan& plan,
                   StoreReport& report);

// How one blob of the plan gets into the store.
using BlobAdder = std::function<Result<Added>(const StorePlan::Blob& blob, const PieceDone& read)>;
// Carries out the plan. Tags of the requested manifest come last: once they are visible, everything
// else is there.
Status PutPlan(WritableStore& store, const BlobAdder& add, const PutOptions& options,
               StorePlan& plan, StoreReport& report);

}  // namespace moepack::registry
