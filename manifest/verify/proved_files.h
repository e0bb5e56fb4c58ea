// Notes which files have been verified, so that a verification that was stopped can be resumed
// (`verify --resume`).
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/result.h"

namespace moepack::manifest {

// A text file: the line "moepack-verify 1", then 32 digits for each verified file, an XXH3-128 of
// its name, its SHA-256 and its identity (device, inode, size and modification time). A file that
// was changed or replaced since has another identity and is read again. The notes are only as
// trustworthy as their author: do not accept them from anybody else. Safe to use from several
// threads.
class ProvedFiles {
 public:
  // Creates the file if it does not exist. An existing file with other contents is kInvalidArgument
  // and is left alone; a line truncated by a kill is skipped.
  static Result<ProvedFiles> Open(const std::string& path);

  struct File {
    std::string name, sha256, identity;
    bool cold = false;  // to be read past the page cache
  };
  bool Has(const File& file) const { return keys_.contains(KeyOf(file)); }
  // Writes one line. It is not flushed: what is lost is verified again.
  Status Add(const File& file);
  // Removes the notes of a finished verification.
  void Remove();

 private:
  ProvedFiles() = default;
  static std::string KeyOf(const File& file);

  std::string path_;
  Descriptor fd_;
  std::set<std::string> keys_;  // of earlier runs
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

}  // namespace moepack::manifest
