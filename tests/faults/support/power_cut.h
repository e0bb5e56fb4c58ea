// A model of what a disk holds after the power was cut at some moment of a run: the least that
// POSIX promises. Data of a file are there for certain after its fsync, a name after the fsync of
// its directory; until then each write and each change of names is there or not, whatever came
// before or after it. A rename is there whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/support/writing_commands.h"
#include "tests/fuzz/mutation.h"

namespace faults {

// One record of the log (shim/protocol.h), with names relative to the workspace.
struct LogRecord {
  std::string op, a, b, data;
  uint64_t number = 0;
};
// In the order of the calls.
std::vector<LogRecord> ReadLog(const std::filesystem::path& log,
                               const std::filesystem::path& workspace);

// What becomes of unflushed data.
enum class Luck {
  kNothing,     // all of it is lost
  kNamesAlone,  // names are there, data are not: files are empty, or as before
  kSizesAlone,  // the same, but files have their sizes, and zeros
  kSome,        // each write (or its first sectors) and each change of a name, at random
  kEverything,
};

class Disk {
 public:
  // The contents of `start` are on the disk.
  explicit Disk(const std::filesystem::path& start);
  // Call it with the records in order.
  void Apply(const LogRecord& record);
  // The number of changes that a power cut now may lose.
  size_t loose() const;

  // The disk after a cut, as files below `path` (relative): ReadTree's form. `there`: whether
  // anything has this name.
  struct View {
    bool there = false;
    Tree files;
  };
  View After(Luck luck, uint64_t seed, const std::string& path) const;
  // Writes everything into an empty directory.
  void WriteAfter(Luck luck, uint64_t seed, const std::filesystem::path& directory) const;

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  struct NameChange {
    Node* directory = nullptr;
    std::string name;
    NodePtr target;  // null: the name is removed
  };
  struct Step {  // of names: all of it happens, or nothing
    std::vector<NameChange> changes;
    bool flushed = false;
  };
  struct Survivor;

  NodePtr Load(const std::filesystem::path& path);
  NodePtr Find(const std::string& path) const;
  NameChange Place(const std::string& path, NodePtr target) const;
  void Change(std::vector<NameChange> changes);
  void Flush(Node& node);
  Survivor Survive(Luck luck, uint64_t seed) const;

  NodePtr root_;
  std::vector<Step> steps_;
};

}  // namespace faults
