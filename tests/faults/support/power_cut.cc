#include "tests/faults/support/power_cut.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"

namespace faults {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSector = 512;

struct Change {
  uint64_t offset = 0;
  std::string data;
  bool cuts = false;  // to the size `offset`
  bool flushed = false;
};

void Put(std::string& bytes, const Change& change, size_t kept) {
  if (change.cuts) {
    bytes.resize(change.offset);
    return;
  }
  const size_t end = change.offset + kept;
  if (bytes.size() < end) bytes.resize(end);
  bytes.replace(change.offset, kept, change.data, 0, kept);
}

std::string Relative(const std::string& path, const std::string& below) {
  if (path == below) return "";
  return path.starts_with(below + "/") ? path.substr(below.size() + 1) : path;
}

}  // namespace

std::vector<LogRecord> ReadLog(const fs::path& log, const fs::path& workspace) {
  const std::string below = fs::canonical(workspace);
  std::ifstream in(log, std::ios::binary);
  std::vector<LogRecord> records;
  const auto take = [&](size_t bytes) {
    std::string text(bytes, '\0');
    in.read(text.data(), static_cast<std::streamsize>(bytes));
    return text;
  };
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    LogRecord record;
    size_t a = 0, b = 0, data = 0;
    words >> record.op >> record.number >> a >> b >> data;
    record.a = Relative(take(a), below);
    record.b = Relative(take(b), below);
    record.data = take(data);
    take(1);
    records.push_back(std::move(record));
  }
  return records;
}

struct Disk::Node {
  bool is_directory = false;
  std::string start;  // on the disk from the start
  std::vector<::faults::Change> changes;
  std::map<std::string, NodePtr> first, now;  // of a directory
};

// ---- While the run goes on

Disk::Disk(const fs::path& start) : root_(Load(start)) {}

Disk::NodePtr Disk::Load(const fs::path& path) {
  auto node = std::make_shared<Node>();
  node->is_directory = fs::is_directory(fs::symlink_status(path));
  if (!node->is_directory) {
    node->start = fixtures::ReadFile(path);
    return node;
  }
  for (const auto& entry : fs::directory_iterator(path))
    node->now[entry.path().filename()] = Load(entry.path());
  node->first = node->now;
  return node;
}

Disk::NodePtr Disk::Find(const std::string& path) const {
  NodePtr node = root_;
  for (const fs::path& part : fs::path(path).lexically_normal()) {
    if (part == "." || part.empty()) continue;
    const auto child = node->now.find(part);
    if (child == node->now.end()) return nullptr;
    node = child->second;
  }
  return node;
}

Disk::NameChange Disk::Place(const std::string& path, NodePtr target) const {
  const fs::path whole = fs::path(path).lexically_normal();
  return {Find(whole.parent_path()).get(), whole.filename(), std::move(target)};
}

void Disk::Change(std::vector<NameChange> changes) {
  for (const NameChange& change : changes) {
    if (change.target == nullptr) {
      change.directory->now.erase(change.name);
    } else {
      change.directory->now[change.name] = change.target;
    }
  }
  steps_.push_back({std::move(changes), false});
}

// A step that affects two directories is on the disk once the directory that gets the name is.
void Disk::Flush(Node& node) {
  for (auto& change : node.changes) change.flushed = true;
  for (Step& step : steps_)
    if (step.changes.back().directory == &node) step.flushed = true;
}

void Disk::Apply(const LogRecord& record) {
  const auto make = [&](bool is_directory) {
    auto node = std::make_shared<Node>();
    node->is_directory = is_directory;
    return node;
  };
  const std::string& op = record.op;
  if (op == "create" || op == "mkdir") return Change({Place(record.a, make(op == "mkdir"))});
  if (op == "unlink" || op == "rmdir") return Change({Place(record.a, nullptr)});
  if (op == "link") return Change({Place(record.b, Find(record.a))});
  if (op == "rename") {
    NodePtr node = Find(record.a);
    return Change({Place(record.a, nullptr), Place(record.b, node)});
  }
  if (op == "symlink") {
    NodePtr node = make(false);
    node->start = record.a;
    return Change({Place(record.b, node)});
  }
  const NodePtr node = Find(record.a);
  if (node == nullptr) return;  // it was removed but is still open
  if (op == "fsync") return Flush(*node);
  node->changes.push_back({record.number, record.data, op == "truncate", false});
}

size_t Disk::loose() const {
  return static_cast<size_t>(
      std::count_if(steps_.begin(), steps_.end(), [](const Step& step) { return !step.flushed; }));
}

// ---- After the cut

struct Disk::Survivor {
  Luck luck;
  fuzz::Random random;
  std::map<const Node*, std::map<std::string, NodePtr>> names;
  std::map<const Node*, std::string> contents;  // of files already seen: a file has one content

  bool Coin() { return random.Below(2) == 0; }
  bool KeepsStep(const Step& step) {
    if (luck == Luck::kSome && !step.flushed) return Coin();
    return step.flushed || luck != Luck::kNothing;
  }
  size_t Kept(const ::faults::Change& change) {
    if (change.flushed || luck == Luck::kEverything) return change.data.size();
    if (luck != Luck::kSome || Coin()) return 0;
    if (change.data.empty() || Coin()) return change.data.size();
    return random.Below(change.data.size()) / kSector * kSector;
  }
  std::map<std::string, NodePtr>& NamesOf(const Node& node) {
    return names.try_emplace(&node, node.first).first->second;
  }
  const std::string& Content(const Node& node) {
    const auto known = contents.find(&node);
    if (known != contents.end()) return known->second;
    std::string bytes = node.start;
    for (const auto& change : node.changes) {
      const size_t kept = Kept(change);
      const bool cut = change.cuts && (change.flushed || luck != Luck::kNothing);
      if (cut || (!change.cuts && kept > 0)) Put(bytes, change, kept);
      if (luck == Luck::kSizesAlone && !change.cuts)
        bytes.resize(std::max(bytes.size(), change.offset + change.data.size()));
    }
    return contents[&node] = std::move(bytes);
  }
};

Disk::Survivor Disk::Survive(Luck luck, uint64_t seed) const {
  Survivor survivor{luck, fuzz::Random(seed), {}, {}};
  for (const Step& step : steps_) {
    if (!survivor.KeepsStep(step)) continue;
    for (const NameChange& change : step.changes) {
      auto& names = survivor.NamesOf(*change.directory);
      if (change.target == nullptr) {
        names.erase(change.name);
      } else {
        names[change.name] = change.target;
      }
    }
  }
  return survivor;
}

Disk::View Disk::After(Luck luck, uint64_t seed, const std::string& path) const {
  Survivor survivor = Survive(luck, seed);
  const Node* node = root_.get();
  for (const fs::path& part : fs::path(path)) {
    const auto& names = survivor.NamesOf(*node);
    const auto child = names.find(part);
    if (child == names.end()) return {};
    node = child->second.get();
  }
  View view{true, {}};
  const auto walk = [&](const auto& self, const Node& at, const std::string& name) -> void {
    if (!at.is_directory) {
      view.files[name] = survivor.Content(at);
      return;
    }
    for (const auto& [part, child] : survivor.NamesOf(at))
      self(self, *child, name.empty() ? part : name + "/" + part);
  };
  walk(walk, *node, node->is_directory ? "" : fs::path(path).filename().string());
  return view;
}

void Disk::WriteAfter(Luck luck, uint64_t seed, const fs::path& directory) const {
  Survivor survivor = Survive(luck, seed);
  const auto walk = [&](const auto& self, const Node& at, const fs::path& path) -> void {
    if (!at.is_directory) {
      std::ofstream(path, std::ios::binary) << survivor.Content(at);
      return;
    }
    fs::create_directories(path);
    for (const auto& [part, child] : survivor.NamesOf(at)) self(self, *child, path / part);
  };
  walk(walk, *root_, directory);
}

}  // namespace faults
