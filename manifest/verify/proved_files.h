// Notes of which files proved right, so that a verification that was stopped goes on where it was
// (`verify --resume`).
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/result.h"

namespace moepack::manifest {

// A file of text: the line "moepack-verify 1", then 32 digits for each file that proved right, an
// XXH3-128 of its name, its SHA-256 and its identity (device, inode, size and time of
// modification). A file that was changed or replaced since is another one, and is read again. The
// notes are as good as their author: do not take them from anybody else. Used by several threads.
class ProvedFiles {
 public:
  // Makes the file if it is not there. One that is there and holds something else is
  // kInvalidArgument, and is left alone; a line that a kill cut is passed over.
  static Result<ProvedFiles> Open(const std::string& path);

  struct File {
    std::string name, sha256, identity;
    bool cold = false;  // it was to be read past the page cache
  };
  bool Has(const File& file) const { return keys_.contains(KeyOf(file)); }
  // Writes one line. It is not flushed: what is lost is read again.
  Status Add(const File& file);
  // Removes the notes of a verification that is done.
  void Remove();

 private:
  ProvedFiles() = default;
  static std::string KeyOf(const File& file);

  std::string path_;
  Descriptor fd_;
  std::set<std::string> keys_;  // of the runs before
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

}  // namespace moepack::manifest
