// How far chunked uploads got, on disk, so that another process can resume them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libshard/base/result.h"

namespace moepack::registry {

// For one repository. There is a file for each blob, which nobody else may read, because the
// address of an upload lets anybody write. Safe to use from several threads at once for different
// blobs.
class UploadJournal {
 public:
  // Nothing is created before something is noted; "" keeps nothing.
  UploadJournal(std::string directory, std::string host, std::string repository)
      : directory_(std::move(directory)),
        host_(std::move(host)),
        repository_(std::move(repository)) {}

  struct Entry {
    std::string location;  // the address where the upload continues
    uint64_t offset = 0;   // bytes that the registry has
  };
  // No value for a blob without an upload; one that cannot be read counts as none.
  std::optional<Entry> Find(const std::string& digest) const;
  // On disk when this returns.
  Status Note(const std::string& digest, const Entry& entry) const;
  void Forget(const std::string& digest) const;

 private:
  std::string NameOf(const std::string& digest) const;

  std::string directory_, host_, repository_;
};

}  // namespace moepack::registry
