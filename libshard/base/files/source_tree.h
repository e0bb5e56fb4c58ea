// Files that belong together, wherever they are: a checkpoint, a distribution, a node. Code that
// reads them asks the tree; nobody opens a path built from a name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"

namespace moepack {

// What servers have been asked for so far.
struct Traffic {
  uint64_t requests = 0, bytes = 0;
  // After all tries: nothing answered, the transfer was cut off, or the server was still busy.
  uint64_t given_up = 0;
};

// File names are relative to the tree, with '/' between parts. Each tree has its own rule for what
// may be opened; no rule allows a name whose spelling leads out of the tree. Safe to use from
// several threads at once.
class SourceTree {
 public:
  virtual ~SourceTree() = default;

  // The name of the tree in messages: a directory or an address.
  virtual const std::string& name() const = 0;
  // The name of one of its files in messages and as a ByteSource.
  virtual std::string NameOf(const std::string& file) const = 0;
  // Names of the files directly in `folder` ("" is the tree itself) that end in `suffix`, sorted
  // and without the folder; none if there is no such folder.
  virtual Result<std::vector<std::string>> List(const std::string& folder,
                                                std::string_view suffix) const = 0;
  // A file that exists but cannot be looked up is an error: it must not count as absent.
  virtual Result<bool> Has(const std::string& file) const = 0;
  // kNotFound for a missing file, kCorrupt for one that the tree's rule forbids.
  virtual Result<ByteSourcePtr> Open(const std::string& file) const = 0;
  // Where a file, or the tree itself (""), is on this machine: for linking to it, and for
  // distinguishing it from an output. No value for files elsewhere.
  virtual std::optional<std::filesystem::path> LocalPath(const std::string& file) const = 0;

  // Announces that these files will all be opened soon: a tree that asks a server asks for several
  // at once. Missing files are not reported here, but when they are opened.
  virtual void Expect(const std::vector<std::string>&) const {}
  // No value for a tree that asks no server.
  virtual std::optional<Traffic> traffic() const { return std::nullopt; }

  // More than `limit` bytes is kCorrupt.
  Result<std::string> ReadText(const std::string& file, uint64_t limit) const;
};

using SourceTreePtr = std::shared_ptr<const SourceTree>;

// kCorrupt: a name that leads out of a tree.
Error LeadsOutside(const std::string& tree, const std::string& file);

// What a user names: a tree, or one file of it.
struct Source {
  std::filesystem::path named;  // as the user spelled it
  SourceTreePtr tree;
  std::string file;  // "" when the tree as a whole was named
};

}  // namespace moepack
