// The files of one pull: which of them the output already has, and how the rest gets there.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/files/staging.h"
#include "libshard/base/progress.h"
#include "manifest/registry/open_set.h"
#include "manifest/registry/pull.h"
#include "manifest/registry/pull_target.h"

namespace moepack::registry {

class PullFiles {
 public:
  // Borrows everything.
  PullFiles(const Store& store, const OpenedSet& set, const PullOptions& options);

  // Lists the layers as files of the report, and hashes those that `out` has: its own files if it
  // is the same distribution, files with the same digest if `update` is set. The rest must be in
  // the store with the stated size.
  Status MakePlan(const std::vector<BlobRecord>& layers, const std::string& out,
                  const PullTarget& target);
  // kIo if the file system has less room than what will be copied.
  Status CheckSpace(const std::string& out) const;
  // Puts the rest into the staging directory, hashed (kCorrupt).
  Status Place(StagingDirectory& staging);

  PullReport& report() { return report_; }

 private:
  struct Item {
    BlobRecord layer;
    std::string kept;  // the file of `out` with its bytes; "" for none
  };

  Status LookAt(Item& item, PullReport::File& file, const std::string& candidate,
                ProgressCounter& progress) const;
  bool Links(const std::string& out) const;
  bool is_far() const { return !store_.blobs().LocalPath(""); }
  // A file that an earlier run completed in the staging directory.
  Status LookAtStaged(const Item& item, const StagingDirectory& staging, PullReport::File& file,
                      ProgressCounter& progress) const;
  Status Fetch(const StagingDirectory& staging, const std::vector<size_t>& which);
  Status PlaceOne(const Item& item, const StagingDirectory& staging, ProgressCounter& progress,
                  PullReport::File& file) const;
  Result<std::string> PlaceBytes(const Item& item, const InsideDirectory& directory,
                                 const std::string& name, ProgressCounter& progress,
                                 PullReport::File& file) const;

  const Store& store_;
  const OpenedSet& set_;  // its distribution.json is not fetched again
  const PullOptions& options_;
  std::string out_;
  bool extends_ = false;
  std::vector<Item> items_;
  PullReport report_;
};

}  // namespace moepack::registry
