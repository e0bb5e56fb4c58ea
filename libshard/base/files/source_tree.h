// Files that belong together, wherever they lie: a checkpoint, a distribution, a node. Whoever
// reads them asks the tree, and nobody opens a path that it made of a name.
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

// What was asked of servers so far.
struct Traffic {
  uint64_t requests = 0, bytes = 0;
};

// Names of files are relative to the tree, with '/' between parts. A tree has a rule of its own of
// what may be opened; no rule allows a name that leads out of the tree by its spelling. Used by
// several threads at once.
class SourceTree {
 public:
  virtual ~SourceTree() = default;

  // What messages call the tree: a directory or an address.
  virtual const std::string& name() const = 0;
  // What messages call a file of it, and how it opens as a ByteSource.
  virtual std::string NameOf(const std::string& file) const = 0;
  // Names of the files directly in `folder` ("" is the tree itself) that end in `suffix`, sorted
  // and without the folder; none when there is no such folder.
  virtual Result<std::vector<std::string>> List(const std::string& folder,
                                                std::string_view suffix) const = 0;
  // A file that is there and cannot be looked up is an error: it must not pass for absent.
  virtual Result<bool> Has(const std::string& file) const = 0;
  // kNotFound for a file that is not there, kCorrupt for one that the tree's rule forbids.
  virtual Result<ByteSourcePtr> Open(const std::string& file) const = 0;
  // Where a file, or the tree itself (""), lies on this machine: to link to it, and to tell it
  // from an output. None for what lies elsewhere.
  virtual std::optional<std::filesystem::path> LocalPath(const std::string& file) const = 0;

  // These files will all be opened soon: a tree that asks a server asks for several at once.
  // Nothing is said of what is not there; opening it does.
  virtual void Expect(const std::vector<std::string>&) const {}
  // None for a tree that asks no server.
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
