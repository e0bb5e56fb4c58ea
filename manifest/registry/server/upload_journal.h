// How far uploads in chunks got, on disk, so that another process goes on with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libshard/base/result.h"

namespace moepack::registry {

// Of one repository. A file for each blob, which nobody else may read: the address of an upload
// lets everybody write. Used by several threads at once for different blobs.
class UploadJournal {
 public:
  // Nothing is made before something is noted; "" keeps nothing.
  UploadJournal(std::string directory, std::string host, std::string repository)
      : directory_(std::move(directory)),
        host_(std::move(host)),
        repository_(std::move(repository)) {}

  struct Entry {
    std::string location;  // the address where the upload goes on
    uint64_t offset = 0;   // bytes that the registry has
  };
  // None for a blob without an upload; one that cannot be read counts as none.
  std::optional<Entry> Find(const std::string& digest) const;
  // On the disk when this returns.
  Status Note(const std::string& digest, const Entry& entry) const;
  void Forget(const std::string& digest) const;

 private:
  std::string NameOf(const std::string& digest) const;

  std::string directory_, host_, repository_;
};

}  // namespace moepack::registry
