// What is to be put into a store, and how: blobs first, then manifests, then tags, which alone make
// all of it visible.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "manifest/registry/open_store.h"
#include "manifest/registry/store/store.h"
#include "manifest/registry/store_report.h"

namespace moepack::registry {

struct StorePlan {
  struct Blob {
    std::string name;  // for the report
    BlobRecord blob;
    std::string text = {};  // of a manifest, and of a blob that was made here; "" for a file
  };
  struct Tag {
    StoreReport::Tag tag;
    NewTag entry;
  };
  std::vector<Blob> blobs;      // each once, without the manifests
  std::vector<Blob> manifests;  // each once
  std::vector<Tag> tags;        // that of the manifest that was asked for first

  void AddTag(StoreReport::Tag tag, const BlobRecord& manifest, const std::string& text);
};

// "<tag>-g007": the tag of the node view of a group. kInvalidArgument when it would be too long.
Result<std::string> ViewTag(const std::string& tag, uint32_t group);

// The report of a plan of which nothing is done.
StoreReport StartReport(const StorePlan& plan);
// Where a plan is to go, to be looked at; null where there is nothing yet. Makes and locks nothing.
// kInvalidArgument for a place that can only be read.
Result<StorePtr> OpenTarget(const Reference& to, const StoreAccess& access);
// Notes what the tags name now, and which blobs and manifests the store has. A tag that names
// something else is kInvalidArgument without `force`, except one that is `moving`.
Status LookAtStore(const Store& store, bool force, size_t jobs, StorePlan& plan,
                   StoreReport& report);

// How one blob of the plan gets into the store.
using BlobAdder =
    std::function<Result<Added>(const StorePlan::Blob& blob, const WritableStore::BytesRead& read)>;
struct PutOptions {
  bool force = false;     // as for LookAtStore
  PackOptions pack = {};  // its jobs and progress
};
// Does what the plan says. Tags of the manifest that was asked for come last: once they are seen,
// everything else is there.
Status PutPlan(WritableStore& store, const BlobAdder& add, const PutOptions& options,
               StorePlan& plan, StoreReport& report);

}  // namespace moepack::registry
