#include "tests/faults/support/writing_commands.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fixtures/generator.h"
#include "libshard/base/text/text.h"
#include "tests/tools/child_process.h"

namespace faults {
namespace {

namespace fs = std::filesystem;
using moepack::Cat;

void WriteText(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Two layers and eight experts: a few hundred kilobytes.
fixtures::Options SmallModel() {
  fixtures::Options options;
  options.layers = 2;
  options.experts = 8;
  options.top_k = 2;
  return options;
}

std::string TokenIds() {
  std::string ids;
  for (int i = 0; i < 96; ++i) ids += Cat((i * 7 + i / 5) % 90 + 3, " ");
  return ids;
}

// "d/groups/000/experts.gguf" becomes "groups/000/experts.gguf".
bool IsTemporary(const std::string& name) {
  return name.find(".tmp-") != name.npos || name.find(".partial") != name.npos;
}

// A document that is replaced after every step has more states than the old and the new one; each
// of them is complete.
bool IsStep(const WritingCommand& command, const std::string& name, const std::string& bytes) {
  return name == command.in_steps && nlohmann::json::accept(bytes);
}

// `golden` is of another run. What a run that ended early wrote of it would be shorter.
bool IsRight(const std::string& bytes, const std::string& golden, bool is_random) {
  if (!is_random || bytes == golden) return bytes == golden;
  return nlohmann::json::accept(golden) ? nlohmann::json::accept(bytes)
                                        : bytes.size() == golden.size();
}

// The first name whose file in `found` is neither as in `before` nor as in `golden`.
std::string StrangeFile(const WritingCommand& command, const Tree& found, const Tree& before,
                        const Tree& golden) {
  const auto is = [](const Tree& tree, const std::string& name, const std::string& bytes,
                     bool is_random) {
    const auto place = tree.find(name);
    return place != tree.end() && IsRight(bytes, place->second, is_random);
  };
  for (const auto& [name, bytes] : found) {
    if (IsTemporary(name) || is(before, name, bytes, false)) continue;
    if (is(golden, name, bytes, command.is_random)) continue;
    if (!before.contains(name) && !golden.contains(name)) continue;  // beside the files that count
    if (IsStep(command, name, bytes)) continue;
    return Cat(name, ": ", bytes.size(), " bytes that are neither the old nor the new ones");
  }
  for (const auto& [name, bytes] : before) {
    const bool is_lost = !found.contains(name) && golden.contains(name);
    if (is_lost && name != command.first_of_set) return Cat(name, " is lost");
  }
  if (found.contains(command.first_of_set) && !DifferenceOf(found, before).empty()) {
    const std::string difference = DifferenceOf(found, golden);
    if (!difference.empty()) return "the set is not whole: " + difference;
  }
  return "";
}

bool IsDone(const WritingCommand& command, const fs::path& workspace) {
  const Tree found = OutputOf(command, workspace);
  return DifferenceOf(found, SharedInputs().Golden(command), command.is_random).empty();
}

// Whether the message names the place: the file itself, a directory that holds it, or the output.
bool NamesPlace(const std::string& message, const fs::path& path, const WritingCommand& command) {
  if (path.empty() || message.find(command.output) != message.npos) return true;
  if (message.starts_with("error: .: ")) return true;  // the workspace itself
  for (const fs::path& part : path) {
    if (part.string().size() > 1 && message.find(part.string()) != message.npos) return true;
  }
  return false;
}

}  // namespace

Tree ReadTree(const fs::path& directory) {
  Tree tree;
  std::error_code error;
  if (fs::is_regular_file(directory, error))
    tree[directory.filename()] = fixtures::ReadFile(directory);
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file())
      tree[fs::relative(it->path(), directory)] = fixtures::ReadFile(it->path());
  }
  return tree;
}

// ---- Inputs

Inputs::Inputs() {
  if (!fixtures::MakeCheckpoint("qwen3-moe", dir_ / "src", SmallModel())) problem_ = "src";
  WriteText(dir_ / "overlay.json", R"({"version": "two", "layers": {"*": "3"}})");
  WriteText(dir_ / "ids.txt", TokenIds());
  WriteText(dir_ / "more.txt", TokenIds());
  fs::create_directories(dir_ / "out");
  fs::create_directories(dir_ / "empty");
  Make({"plan", "src", "--groups", "2", "-o", "plan.json"});
  Make({"build", "src", "--plan", "plan.json", "--format", "gguf", "-o", "dist"});
  for (const std::string part : {"0", "1"})
    Make({"shard-experts", "src", "--plan", "plan.json", "--format", "gguf", "--only",
          part == "0" ? "trunk,group:0" : "assets,group:1", "-o", "part-" + part});
  for (const std::string task : {"0/2", "1/2"})
    Make({"build", "src", "--plan", "plan.json", "--task", task, "-o", "share"});
  Make({"publish", "dist", "layout:models:v1", "--link", "copy"});
  Make({"quantize", "dist", "--pure", "Q8_0", "-o", "other"});
  Make({"publish", "other", "layout:models:v2", "--link", "copy"});
  Make({"tag", "layout:models:v2", "--remove"});  // for gc
  Make({"pull", "layout:models:v1", "--group", "0", "-o", "pulled", "--link", "copy"});
  Make({"pull", "other", "--group", "1", "-o", "older", "--link", "copy"});
  Make({"profile", "src", "--tokens", "ids.txt", "-o", "stats.json"});
  Make({"profile", "src", "--tokens", "more.txt", "-o", "stats-2.json"});
  Make({"refit", "src", "--plan", "plan.json", "--tokens", "ids.txt", "--context", "16",
        "--least-tokens", "1", "--steps", "ridge", "--store", "store"});
  fixtures::Options others = SmallModel();
  others.seed = 2;
  if (!fixtures::MakeCheckpoint("qwen3-moe", dir_ / "others", others)) problem_ = "others";
  Make({"quantize", "others", "--pure", "Q8_0", "--max-part-size", "100K", "-o", "set/made.gguf"});
  fs::remove_all(dir_ / "others");
  Make({"keygen", "-o", "key", "--type", "ed25519"});
  Make({"keygen", "-o", "p256"});
  MakeSharedCalibration();
}

void Inputs::Make(const std::vector<std::string>& arguments) {
  if (!problem_.empty()) return;
  const auto end = moepack::cli::ChildProcess(path(), arguments).Wait();
  if (end.status == 0) return;
  for (const std::string& word : arguments) problem_ += word + " ";
  problem_ += end.err;
}

void Inputs::MakeSharedCalibration() {
  const std::vector<std::string>& first = CommandOf("CalibrateTask").arguments;
  std::vector<std::string> second = first;
  std::replace(second.begin(), second.end(), std::string("0/2"), std::string("1/2"));
  moepack::cli::ChildProcess other(path(), second);
  Make(first);
  if (!problem_.empty()) return;  // the other would wait for ever, and is killed
  if (other.Wait().status != 0) problem_ = "CalibrateTask: the other task";
  for (const char* made : {"shared.gguf.calibrated", "shared.gguf.tasks",
                           "shared.gguf.calibrated.tasks/00000-of-00002"})
    fs::remove_all(dir_ / made);
}

std::unique_ptr<fixtures::TempDir> Inputs::Copy() const {
  auto copy = std::make_unique<fixtures::TempDir>();
  fs::copy(path(), copy->path(), fs::copy_options::recursive);
  return copy;
}

std::string Inputs::ProblemOf(const WritingCommand& command) {
  if (problem_.empty()) Golden(command);
  return problem_ + problems_[command.name];
}

const Tree& Inputs::Golden(const WritingCommand& command) {
  const auto known = golden_.find(command.name);
  if (known != golden_.end()) return known->second;
  const auto workspace = Copy();
  // The same as with clones.
  const auto& arguments = CommandOf(command.name).arguments;
  const auto end = moepack::cli::ChildProcess(workspace->path(), arguments).Wait();
  if (end.status != 0) problems_[command.name] = end.err;
  const Tree& golden = golden_[command.name] = OutputOf(command, workspace->path());
  const std::string& first = command.first_of_set;
  if (!first.empty() && !golden.contains(first)) problems_[command.name] += first + " is missing";
  return golden;
}

const Tree& Inputs::Before(const WritingCommand& command) {
  const auto known = before_.find(command.name);
  if (known != before_.end()) return known->second;
  return before_[command.name] = OutputOf(command, path());
}

Inputs& SharedInputs() {
  static Inputs inputs;
  return inputs;
}

// ---- Running

FaultRun RunCommand(const WritingCommand& command, const fs::path& workspace, Fault fault,
                    const fs::path& log) {
  fault.clones = command.clones;
  return RunWithFault(workspace, command.arguments, fault, log);
}

// ---- Judging

std::string DifferenceOf(const Tree& found, const Tree& golden, bool is_random) {
  for (const auto& [name, bytes] : golden) {
    const auto place = found.find(name);
    if (place == found.end()) return Cat(name, " is missing");
    if (!IsRight(place->second, bytes, is_random)) return Cat(name, " differs");
  }
  for (const auto& [name, bytes] : found) {
    if (!golden.contains(name) && !IsTemporary(name)) return Cat(name, " should not be there");
  }
  return "";
}

Tree OutputOf(const WritingCommand& command, const fs::path& workspace) {
  return ReadTree(workspace / command.output);
}

std::string ProblemOfFiles(const WritingCommand& command, bool there, const Tree& found,
                           const Tree& golden) {
  const Tree& before = SharedInputs().Before(command);
  if (!command.at_once) return StrangeFile(command, found, before, golden);
  if (!there) return "";
  const std::string difference = DifferenceOf(found, golden, command.is_random);
  if (difference.empty() || DifferenceOf(found, before).empty()) return "";
  return "the output is not whole: " + difference;
}

std::string ProblemOfOutput(const WritingCommand& command, const fs::path& workspace) {
  return ProblemOfFiles(command, fs::exists(workspace / command.output),
                        OutputOf(command, workspace), SharedInputs().Golden(command));
}

std::string ProblemOfRun(const WritingCommand& command, const fs::path& workspace,
                         const FaultRun& run) {
  if (run.signal != 0) return Cat("signal ", run.signal);
  if (run.status == 0) {
    if (!IsDone(command, workspace)) return "status 0, but the output is not right";
    return "";
  }
  if (run.status < 1 || run.status > 7) return Cat("status ", run.status);
  const size_t message = run.err.find("error: ");
  if (message == run.err.npos) return "no error is told";
  if (!NamesPlace(run.err.substr(message), run.path, command)) return "the message names no file";
  return ProblemOfOutput(command, workspace);
}

std::string ProblemOfRerun(const WritingCommand& command, const fs::path& workspace) {
  const bool was_done = IsDone(command, workspace);
  moepack::cli::ChildEnd end;
  if (command.clones) {
    const FaultRun run = RunCommand(command, workspace, {.kinds = ""});
    end = {run.status, run.signal, run.out, run.err};
  } else {
    end = moepack::cli::ChildProcess(workspace, command.arguments).Wait();
  }
  if (end.signal != 0) return Cat("run again: signal ", end.signal);
  // A key is never replaced, not even the half of a pair that a kill left.
  if (command.name == "Keygen" && end.status == 2) return "";
  if (end.status != 0 && !was_done) return Cat("run again: status ", end.status, ": ", end.err);
  if (IsDone(command, workspace)) return "";
  return "run again: the output is not right: " + DifferenceOf(OutputOf(command, workspace),
                                                               SharedInputs().Golden(command),
                                                               command.is_random);
}

}  // namespace faults
